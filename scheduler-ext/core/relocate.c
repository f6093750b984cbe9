/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/relocate_search.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/numa_room.h"

enum {
    MOVES_MAX = 1024,    /* pods: depth of the recursion */
    PLACES_WORK = 20000, /* steps for the places of one set, in the first round */
};
#define NO_RUN (UINT64_MAX / 4) /* the cost of a run that cannot be */

static void spend(struct mover *mover)
{
    mover->exhausted = mover->exhausted || !mover->work;
    mover->work -= mover->work > 0;
}

/* ---- the cluster as it would be ---- */

static unsigned relocate_pods(const struct mover *mover, uint32_t node, uint64_t free, struct gt_numa_pod pod)
{
    return mover->judged ? gt_numa_pods(mover->cluster, node, free, pod) : gt_bit_count(free) / pod.gpus;
}

/* Of the job. */
static unsigned relocate_slots(const struct mover *mover, uint32_t node, uint64_t free)
{
    return relocate_pods(mover, node, free, gt_advise_numa_pod(mover->job));
}

static void relocate_change(struct mover *mover, uint32_t node, uint64_t gpus, bool more)
{
    uint32_t *slots = &mover->slots[mover->super[node]],
             *fitting = &mover->fitting[mover->domains[mover->super[node]]];
    mover->runs -= *fitting / relocate_unit_runs(mover) * relocate_unit_runs(mover);
    *fitting -= *slots / mover->job->pods;
    *slots -= relocate_slots(mover, node, mover->available[node]);
    mover->available[node] = more ? mover->available[node] | gpus : mover->available[node] & ~gpus;
    *slots += relocate_slots(mover, node, mover->available[node]);
    *fitting += *slots / mover->job->pods;
    mover->runs += *fitting / relocate_unit_runs(mover) * relocate_unit_runs(mover);
    spend(mover);
}

/* The GPUs of the node's room that a pod gets; 0: it finds none. */
static uint64_t relocate_serve(const struct mover *mover, uint32_t node, unsigned gpus)
{
    struct gt_cluster_node found;
    uint64_t room = mover->room[node], taken = 0;
    if (gt_bit_count(room) < gpus)
        return 0;
    if (mover->judged && gt_cluster_get_node(mover->cluster, node, &found))
        return gt_numa_serve(found.class, room, (struct gt_numa_pod){.gpus = gpus}, NULL);
    for (; gpus; gpus--, room &= room - 1)
        taken |= room & -room;
    return taken;
}

static bool relocate_fits(const struct mover *mover)
{
    return mover->runs >= mover->job->runs;
}

static uint64_t relocate_gain(const struct mover *mover, uint32_t pod)
{
    struct gt_cluster_node node;
    return !gt_node_set_has(mover->spec->job_avoids, mover->pods[pod].place.node) &&
                   gt_cluster_get_node(mover->cluster, mover->pods[pod].place.node, &node)
               ? mover->pods[pod].place.mask & node.all & node.healthy & ~node.assumed & ~node.free
               : 0;
}

static int relocate_by_super(const void *a, const void *b, void *supers)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t *super = supers;
    GT_BY(super[x], super[y]);
    return (x > y) - (x < y);
}

static uint32_t relocate_domain_of(const struct mover *mover, uint32_t supernode)
{
    struct gt_cluster_supernode above;
    uint32_t domain = supernode;
    for (uint32_t s = supernode; mover->job->unit && gt_cluster_get_supernode(mover->cluster, s, &above) &&
                                 (s == supernode || above.tier <= mover->job->within);
         s = above.parent)
        domain = s;
    return domain;
}

static int relocate_read_cluster(struct mover *mover)
{
    mover->node_count = gt_cluster_nodes(mover->cluster);
    mover->super_count = gt_cluster_supernodes(mover->cluster);
    mover->available = calloc((size_t)mover->node_count + 1, sizeof(*mover->available));
    mover->room = calloc((size_t)mover->node_count + 1, sizeof(*mover->room));
    mover->alone = calloc((size_t)mover->node_count + 1, sizeof(*mover->alone));
    mover->super = calloc((size_t)mover->node_count + 1, sizeof(*mover->super));
    mover->order = calloc((size_t)mover->node_count + 1, sizeof(*mover->order));
    mover->slots = calloc((size_t)mover->super_count + 1, sizeof(*mover->slots));
    mover->domains = calloc((size_t)mover->super_count + 1, sizeof(*mover->domains));
    mover->fitting = calloc((size_t)mover->super_count + 1, sizeof(*mover->fitting));
    mover->supers = calloc((size_t)mover->super_count + 1, sizeof(*mover->supers));
    mover->super_order = calloc((size_t)mover->super_count + 1, sizeof(*mover->super_order));
    if (!mover->available || !mover->room || !mover->alone || !mover->super || !mover->order ||
        !mover->slots || !mover->domains || !mover->fitting || !mover->supers || !mover->super_order)
        return gt_fail_sys(mover->err, ENOMEM, "relocation");
    for (uint32_t s = 0; s < mover->super_count; s++)
        mover->domains[s] = relocate_domain_of(mover, s);
    for (uint32_t id = 0; id < mover->node_count && !mover->judged; id++)
        mover->judged = gt_numa_judges(mover->cluster, id);
    for (uint32_t id = 0; id < mover->node_count; id++) {
        struct gt_cluster_node node;
        mover->order[id] = id;
        if (!gt_cluster_get_node(mover->cluster, id, &node))
            continue;
        mover->super[id] = node.supernode;
        mover->room[id] = gt_node_set_has(mover->spec->moves_avoid, id) ? 0 : node.available;
        mover->free += gt_bit_count(node.available);
        if (!gt_node_set_has(mover->spec->job_avoids, id))
            relocate_change(mover, id, node.available, true);
    }
    qsort_r(mover->order, mover->node_count, sizeof(*mover->order), relocate_by_super, mover->super);
    return 0;
}

/* ---- what may move ---- */

static int relocate_by_unit(const void *a, const void *b, void *arg)
{
    const struct mover *r = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct gt_running_pod *x = &r->pods[i], *y = &r->pods[k];
    GT_BY(x->job, y->job);
    GT_BY(x->unit, y->unit);
    return (i > k) - (i < k);
}

/* False: it may not move, or it would free nothing. All pods of a unit have equally many GPUs. */
static bool read_item(const struct mover *mover, struct move_item *item)
{
    const struct gt_running_pod *first = &mover->pods[mover->members[item->first]];
    struct gt_cluster_node node;
    item->node = first->unit == GT_NONE ? first->place.node : GT_NONE;
    item->cost = GT_RELOCATE_MOVE;
    for (uint32_t i = 0; i < item->pods; i++) {
        const struct gt_running_pod *pod = &mover->pods[mover->members[item->first + i]];
        if (!pod->movable || !gt_cluster_get_node(mover->cluster, pod->place.node, &node) || !node.eligible)
            return false;
        unsigned need = gt_bit_count(pod->place.mask & node.all);
        if (!need || (i && (node.supernode != item->super || need != item->need)))
            return false;
        item->super = node.supernode;
        item->need = need;
        mover->gains[item->first + i] = relocate_gain(mover, mover->members[item->first + i]);
        item->gain += gt_bit_count(mover->gains[item->first + i]);
        item->cost += (uint64_t)need * (pod->cost ? pod->cost : 1);
    }
    return item->gain;
}

static int relocate_find_items(struct mover *mover, uint32_t count)
{
    size_t size = (size_t)count + 1;
    mover->members = calloc(size, sizeof(*mover->members));
    mover->gains = calloc(size, sizeof(*mover->gains));
    mover->items = calloc(size, sizeof(*mover->items));
    mover->job_items = calloc(size, sizeof(*mover->job_items));
    mover->chosen = calloc(size, sizeof(const struct move_item *));
    mover->placed = calloc(size, sizeof(const struct move_item *));
    mover->best = calloc(size, sizeof(const struct move_item *));
    mover->places = calloc(size, sizeof(*mover->places));
    mover->best_places = calloc(size, sizeof(*mover->best_places));
    if (!mover->members || !mover->gains || !mover->items || !mover->job_items || !mover->chosen ||
        !mover->placed || !mover->best || !mover->places || !mover->best_places)
        return gt_fail_sys(mover->err, ENOMEM, "relocation");
    uint32_t all = count;
    count = 0;
    for (uint32_t i = 0; i < all; i++) /* a pod without a unit that would free nothing is not sorted either */
        if (mover->pods[i].unit != GT_NONE || (mover->pods[i].movable && relocate_gain(mover, i)))
            mover->members[count++] = i;
    qsort_r(mover->members, count, sizeof(*mover->members), relocate_by_unit, mover);
    for (uint32_t first = 0, end, job = 0; first < count; first = end) {
        const struct gt_running_pod *pod = &mover->pods[mover->members[first]];
        struct move_item item = {.first = first};
        job += first && (pod->job == GT_NONE || pod->job != mover->pods[mover->members[first - 1]].job);
        for (end = first + 1; pod->unit != GT_NONE && end < count; end++) {
            const struct gt_running_pod *other = &mover->pods[mover->members[end]];
            if (other->job != pod->job || other->unit != pod->unit)
                break;
        }
        item.pods = end - first;
        item.job = job;
        if (read_item(mover, &item))
            mover->items[mover->item_count++] = item;
    }
    return 0;
}

/* ---- the order of the search ---- */

/* GPUs that are missing for the next pod of the job on this node; where it is judged, at least. */
static unsigned missing_gpus(const struct mover *mover, uint32_t node)
{
    return mover->judged ? 1 : mover->job->gpus - gt_bit_count(mover->available[node]) % mover->job->gpus;
}

/* Units first, then single pods by node, so that it is known what a node gains when its pods are through. */
static int compare_items(const void *a, const void *b, void *arg)
{
    const struct mover *r = arg;
    const struct move_item *x = a, *y = b;
    GT_BY(x->super, y->super);
    if ((x->node == GT_NONE) != (y->node == GT_NONE))
        return x->node == GT_NONE ? -1 : 1;
    if (x->node != y->node) {
        unsigned left = missing_gpus(r, x->node), right = missing_gpus(r, y->node);
        return left != right ? (left > right) - (left < right) : (x->node > y->node) - (x->node < y->node);
    }
    if (x->node == GT_NONE && x->cost != y->cost)
        return x->cost < y->cost ? -1 : 1;
    GT_BY(y->need, x->need);
    return (x->first > y->first) - (x->first < y->first);
}

static void take_out(struct mover *mover, const struct move_item *item, bool out)
{
    for (uint32_t i = 0; i < item->pods; i++) {
        uint32_t pod = mover->members[item->first + i], node = mover->pods[pod].place.node;
        uint64_t gain = mover->gains[item->first + i];
        relocate_change(mover, node, gain, out);
        if (item->node != GT_NONE)
            mover->alone[node] = out ? mover->alone[node] | gain : mover->alone[node] & ~gain;
    }
}

static int by_least_run(const void *a, const void *b, void *arg)
{
    const struct relocate_super *supers = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(supers[x].least_run, supers[y].least_run);
    return (x > y) - (x < y);
}

static void relocate_read_super(struct mover *mover, uint32_t s)
{
    struct relocate_super *super = &mover->supers[s];
    uint32_t before = mover->slots[s] / mover->job->pods, least_weight = UINT32_MAX;
    super->slots = mover->slots[s];
    super->least_slot = UINT64_MAX;
    for (uint32_t i = super->first; i < super->end; i++) {
        const struct move_item *item = &mover->items[i];
        for (uint32_t k = 0; k < item->pods; k++) {
            const struct gt_running_pod *pod = &mover->pods[mover->members[item->first + k]];
            uint32_t weight = pod->cost ? pod->cost : 1, missing = missing_gpus(mover, pod->place.node);
            least_weight = weight < least_weight ? weight : least_weight;
            super->least_slot = missing < super->least_slot ? missing : super->least_slot;
        }
    }
    super->least_slot *= least_weight;
    super->least_run = (mover->job->pods - mover->slots[s] % mover->job->pods) * super->least_slot;
    for (uint32_t i = super->first; i < super->end; i++)
        take_out(mover, &mover->items[i], true);
    if (mover->slots[s] / mover->job->pods == before)
        super->least_run = NO_RUN;
    for (uint32_t i = super->first; i < super->end; i++)
        take_out(mover, &mover->items[i], false);
    mover->super_order[mover->ordered++] = s;
}

static void relocate_order(struct mover *mover)
{
    qsort_r(mover->items, mover->item_count, sizeof(*mover->items), compare_items, mover);
    for (uint32_t i = 0, end; i < mover->item_count; i = end) {
        struct relocate_super *super = &mover->supers[mover->items[i].super];
        for (end = i; end < mover->item_count && mover->items[end].super == mover->items[i].super; end++)
            ;
        super->first = i;
        super->end = end;
        relocate_read_super(mover, mover->items[i].super);
    }
    qsort_r(mover->super_order, mover->ordered, sizeof(*mover->super_order), by_least_run, mover->supers);
}

/* ---- places for the chosen pods ---- */

static void relocate_keep(struct mover *mover)
{
    memcpy(mover->best, mover->placed, mover->chosen_count * sizeof(const struct move_item *));
    memcpy(mover->best_places, mover->places, mover->chosen_pods * sizeof(*mover->places));
    mover->best_count = mover->chosen_count;
    mover->best_pods = mover->chosen_pods;
    mover->best_jobs = mover->chosen_jobs;
    mover->best_cost = mover->cost;
}

/* Whether each pod that is still to be placed, from item `item` on, may go to both nodes or to neither. */
static bool relocate_are_alike(struct mover *mover, uint32_t item, uint32_t a, uint32_t b)
{
    for (; mover->spec->may_go && item < mover->chosen_count; item++)
        for (uint32_t i = 0; i < mover->placed[item]->pods; i++) {
            uint32_t pod = mover->members[mover->placed[item]->first + i];
            spend(mover);
            if (relocate_may_go(mover, pod, a) != relocate_may_go(mover, pod, b))
                return false;
        }
    return true;
}

static bool has_same_room(const struct mover *mover, uint32_t a, uint32_t b)
{
    struct gt_cluster_node x, y;
    if (mover->judged)
        return mover->available[a] == mover->available[b] && mover->room[a] == mover->room[b] &&
               gt_cluster_get_node(mover->cluster, a, &x) && gt_cluster_get_node(mover->cluster, b, &y) &&
               x.class == y.class;
    return gt_bit_count(mover->available[a]) == gt_bit_count(mover->available[b]) &&
           gt_bit_count(mover->room[a]) == gt_bit_count(mover->room[b]);
}

/* Whether a node of [from, at) of its supernode is equivalent for what is placed from item `item` on. */
static bool relocate_is_repeated(struct mover *mover, uint32_t item, uint32_t from, uint32_t at)
{
    uint32_t node = mover->order[at], own = mover->placed[item]->node;
    while (at-- > from && mover->super[mover->order[at]] == mover->super[node]) {
        uint32_t other = mover->order[at];
        spend(mover);
        if (other != own && has_same_room(mover, other, node) && relocate_are_alike(mover, item, other, node))
            return true;
    }
    return false;
}

/* Whether `pods` pods of `need` GPUs have room on nodes from `at` on, in the supernode of that one. */
static bool has_room(struct mover *mover, uint32_t at, uint32_t pods, unsigned need)
{
    uint32_t slots = 0, super = mover->super[mover->order[at]];
    for (; at < mover->node_count && mover->super[mover->order[at]] == super && slots < pods; at++) {
        slots += relocate_pods(mover, mover->order[at], mover->room[mover->order[at]],
                               (struct gt_numa_pod){.gpus = need});
        spend(mover);
    }
    return slots >= pods;
}

/* Places pods from pod `pod` of item `at` on; pod number `done` of all. The pods of a unit take nodes in
 * order, from position `from` on. */
static bool relocate_find_places(struct mover *mover, uint32_t at, uint32_t pod, uint32_t done, uint32_t from)
{
    const struct move_item *item = mover->placed[at];
    if (at == mover->chosen_count) {
        relocate_keep(mover);
        return true;
    }
    if (pod == item->pods)
        return relocate_find_places(mover, at + 1, 0, done, 0);
    uint32_t member = mover->members[item->first + pod];
    for (uint32_t i = from; i < mover->node_count && !mover->exhausted; i++) {
        uint32_t node = mover->order[i];
        spend(mover);
        if (pod && mover->super[node] != mover->super[mover->places[done - 1]])
            break;
        uint64_t gpus = node == item->node ? 0 : relocate_serve(mover, node, item->need);
        if (!gpus || (item->pods > 1 && !has_room(mover, i, item->pods - pod, item->need)) ||
            !relocate_may_go(mover, member, node) || relocate_is_repeated(mover, at, from, i))
            continue;
        mover->places[done] = node;
        uint64_t taken = gt_node_set_has(mover->spec->job_avoids, node) ? 0 : gpus;
        mover->room[node] &= ~gpus;
        relocate_change(mover, node, taken, false);
        bool found = relocate_fits(mover) && relocate_find_places(mover, at, pod + 1, done + 1, i);
        relocate_change(mover, node, taken, true);
        mover->room[node] |= gpus;
        if (found)
            return true;
    }
    return false;
}

static int by_size(const void *a, const void *b)
{
    const struct move_item *x = *(const struct move_item *const *)a, *y = *(const struct move_item *const *)b;
    GT_BY(y->need, x->need);
    return x->pods != y->pods ? (x->pods < y->pods) - (x->pods > y->pods) : (x > y) - (x < y);
}

static bool place_chosen(struct mover *mover)
{
    uint64_t kept = !mover->thorough && mover->work > PLACES_WORK ? mover->work - PLACES_WORK : 0;
    mover->work -= kept;
    memcpy(mover->placed, mover->chosen, mover->chosen_count * sizeof(const struct move_item *));
    qsort(mover->placed, mover->chosen_count, sizeof(const struct move_item *), by_size);
    bool found = relocate_find_places(mover, 0, 0, 0, 0);
    mover->exhausted = mover->exhausted && !kept;
    mover->work += kept;
    return found;
}

/* ---- which units and pods ---- */

/* Whether a set of at least this cost, with all that is chosen, cannot be better than the best one. */
static bool is_no_better(const struct mover *mover, uint64_t cost)
{
    if (!mover->best_count || cost != mover->best_cost)
        return mover->best_count && cost > mover->best_cost;
    return mover->chosen_jobs >= mover->best_jobs;
}

static bool is_like(const struct mover *mover, const struct move_item *a, const struct move_item *b)
{
    const struct gt_running_pod *x = &mover->pods[mover->members[a->first]],
                                *y = &mover->pods[mover->members[b->first]];
    return a->node == b->node && a->node != GT_NONE && a->gain == b->gain && a->need == b->need &&
           a->cost == b->cost && x->job == y->job;
}

/* Whether the single pods chosen on the node bring it at least one more pod of the job. */
static bool is_through(const struct mover *mover, uint32_t node)
{
    uint64_t available = mover->available[node];
    return relocate_slots(mover, node, available) >
           relocate_slots(mover, node, available & ~mover->alone[node]);
}

static void choose_supers(struct mover *mover, uint32_t at);

static void choose_item(struct mover *mover, const struct move_item *item, bool in)
{
    if (in) {
        mover->chosen_jobs += !mover->job_items[item->job]++;
        mover->chosen[mover->chosen_count++] = item;
        mover->chosen_pods += item->pods;
        mover->cost += item->cost;
    } else {
        mover->chosen_jobs -= !--mover->job_items[item->job];
        mover->chosen_count--;
        mover->chosen_pods -= item->pods;
        mover->cost -= item->cost;
    }
    take_out(mover, item, in);
}

/* Whether nothing from supernode number `at` of the order on can lead to a better set. */
static bool is_useless_from(const struct mover *mover, uint32_t at)
{
    if (at == mover->ordered)
        return true;
    return is_no_better(
        mover, mover->cost + (relocate_fits(mover) ? 1 : mover->supers[mover->super_order[at]].least_run));
}

/* Further items of supernode number `at` of the order, from item `from` on. */
static void choose_items(struct mover *mover, uint32_t at, uint32_t from)
{
    uint32_t s = mover->super_order[at], pods = mover->job->pods;
    const struct relocate_super *super = &mover->supers[s];
    uint32_t next = (mover->slots[s] / pods + 1) * pods;
    const struct move_item *last = from > super->first ? &mover->items[from - 1] : NULL;
    uint64_t least = super->cost_before + (next - super->slots) * super->least_slot;
    mover->exhausted = mover->exhausted || mover->chosen_pods > MOVES_MAX;
    if (mover->exhausted || is_no_better(mover, mover->cost))
        return;
    bool fits = relocate_fits(mover);
    if (fits && (place_chosen(mover) || !mover->thorough))
        return;
    if (last && (mover->thorough || mover->slots[s] / pods > super->slots / pods))
        choose_supers(mover, at + 1);
    if (is_no_better(mover, fits ? mover->cost + 1 : least) &&
        (!mover->thorough || is_useless_from(mover, at + 1)))
        return;
    for (uint32_t i = from; i < super->end && !mover->exhausted; i++) {
        const struct move_item *item = &mover->items[i];
        if (!mover->thorough && last && last->node != GT_NONE && last->node != item->node &&
            !is_through(mover, last->node))
            return;
        if (i > from && is_like(mover, item, item - 1))
            continue;
        choose_item(mover, item, true);
        choose_items(mover, at, i + 1);
        choose_item(mover, item, false);
    }
}

static void choose_supers(struct mover *mover, uint32_t at)
{
    for (; !mover->exhausted && !is_useless_from(mover, at); at++) {
        struct relocate_super *super = &mover->supers[mover->super_order[at]];
        super->cost_before = mover->cost;
        choose_items(mover, at, super->first);
    }
}

/* First the sets of which each supernode's part brings a run; then all that could cost less. True: none costs
 * less than the best one. */
static bool relocate_search(struct mover *mover, uint64_t work)
{
    uint64_t least = 0;
    for (unsigned round = 0; round < 2; round++) {
        mover->exhausted = false;
        mover->thorough = round;
        mover->work = work / 2;
        if (mover->ordered)
            least = (mover->job->runs - mover->runs) / relocate_unit_runs(mover) *
                    mover->supers[mover->super_order[0]].least_run;
        if (least < NO_RUN)
            choose_supers(mover, 0);
    }
    return !mover->exhausted || (mover->best_count && mover->best_cost <= least);
}

static void relocator_done(struct mover *mover)
{
    void *all[] = {mover->available,      mover->room,           mover->alone,       mover->super,
                   mover->order,          mover->slots,          mover->domains,     mover->fitting,
                   mover->members,        mover->items,          mover->supers,      mover->super_order,
                   mover->job_items,      mover->places,         mover->best_places, mover->gains,
                   (void *)mover->chosen, (void *)mover->placed, (void *)mover->best};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

int gt_relocate(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                const struct gt_relocate_spec *spec, struct gt_relocation *ret, struct gt_err **err)
{
    const struct gt_advise_job *job = &spec->job;
    __attribute__((cleanup(relocator_done))) struct mover r = {
        .cluster = cluster, .pods = pods, .spec = spec, .job = job, .err = err, .work = UINT64_MAX};
    struct gt_relocation relocation = {.exact = true};
    GT_TRY(relocate_read_cluster(&r));
    GT_TRY(relocate_find_items(&r, pod_count));
    relocation.possible = relocate_fits(&r);
    uint64_t wanted = (uint64_t)job->runs * job->pods * job->gpus; /* moving frees no GPU */
    if (!relocation.possible && r.free >= wanted) {
        relocate_order(&r);
        relocation.exact = relocate_search(&r, spec->work ? spec->work : GT_RELOCATE_WORK) && !r.judged;
        r.work = UINT64_MAX;
        relocation.possible = r.best_count;
        if (r.best_count)
            GT_TRY(gt_relocate_plan(&r, &relocation));
    }
    *ret = relocation;
    return 0;
}
