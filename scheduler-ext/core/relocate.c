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

static void spend(struct relocator *r)
{
    r->exhausted = r->exhausted || !r->work;
    r->work -= r->work > 0;
}

/* ---- the cluster as it would be ---- */

static unsigned relocate_pods(const struct relocator *r, uint32_t node, uint64_t free, struct gt_numa_pod pod)
{
    return r->judged ? gt_numa_pods(r->cluster, node, free, pod) : gt_bit_count(free) / pod.gpus;
}

/* Of the job. */
static unsigned relocate_slots(const struct relocator *r, uint32_t node, uint64_t free)
{
    return relocate_pods(r, node, free, gt_advise_numa_pod(r->job));
}

static void relocate_change(struct relocator *r, uint32_t node, uint64_t gpus, bool more)
{
    uint32_t *slots = &r->slots[r->super[node]], *fitting = &r->fitting[r->domains[r->super[node]]];
    r->runs -= *fitting / relocate_unit_runs(r) * relocate_unit_runs(r);
    *fitting -= *slots / r->job->pods;
    *slots -= relocate_slots(r, node, r->available[node]);
    r->available[node] = more ? r->available[node] | gpus : r->available[node] & ~gpus;
    *slots += relocate_slots(r, node, r->available[node]);
    *fitting += *slots / r->job->pods;
    r->runs += *fitting / relocate_unit_runs(r) * relocate_unit_runs(r);
    spend(r);
}

/* The GPUs of the node's room that a pod gets; 0: it finds none. */
static uint64_t relocate_serve(const struct relocator *r, uint32_t node, unsigned gpus)
{
    struct gt_cluster_node found;
    uint64_t room = r->room[node], taken = 0;
    if (gt_bit_count(room) < gpus)
        return 0;
    if (r->judged && gt_cluster_get_node(r->cluster, node, &found))
        return gt_numa_serve(found.class, room, (struct gt_numa_pod){.gpus = gpus}, NULL);
    for (; gpus; gpus--, room &= room - 1)
        taken |= room & -room;
    return taken;
}

static bool relocate_fits(const struct relocator *r)
{
    return r->runs >= r->job->runs;
}

static uint64_t relocate_gain(const struct relocator *r, uint32_t pod)
{
    struct gt_cluster_node node;
    return !gt_node_set_has(r->spec->job_avoids, r->pods[pod].place.node) &&
                   gt_cluster_get_node(r->cluster, r->pods[pod].place.node, &node)
               ? r->pods[pod].place.mask & node.all & node.healthy & ~node.assumed & ~node.free
               : 0;
}

static int relocate_by_super(const void *a, const void *b, void *supers)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t *super = supers;
    GT_BY(super[x], super[y]);
    return (x > y) - (x < y);
}

static uint32_t relocate_domain_of(const struct relocator *r, uint32_t supernode)
{
    struct gt_cluster_supernode above;
    uint32_t domain = supernode;
    for (uint32_t s = supernode; r->job->unit && gt_cluster_get_supernode(r->cluster, s, &above) &&
                                 (s == supernode || above.tier <= r->job->within);
         s = above.parent)
        domain = s;
    return domain;
}

static int relocate_read_cluster(struct relocator *r)
{
    r->node_count = gt_cluster_nodes(r->cluster);
    r->super_count = gt_cluster_supernodes(r->cluster);
    r->available = calloc((size_t)r->node_count + 1, sizeof(*r->available));
    r->room = calloc((size_t)r->node_count + 1, sizeof(*r->room));
    r->alone = calloc((size_t)r->node_count + 1, sizeof(*r->alone));
    r->super = calloc((size_t)r->node_count + 1, sizeof(*r->super));
    r->order = calloc((size_t)r->node_count + 1, sizeof(*r->order));
    r->slots = calloc((size_t)r->super_count + 1, sizeof(*r->slots));
    r->domains = calloc((size_t)r->super_count + 1, sizeof(*r->domains));
    r->fitting = calloc((size_t)r->super_count + 1, sizeof(*r->fitting));
    r->supers = calloc((size_t)r->super_count + 1, sizeof(*r->supers));
    r->super_order = calloc((size_t)r->super_count + 1, sizeof(*r->super_order));
    if (!r->available || !r->room || !r->alone || !r->super || !r->order || !r->slots || !r->domains ||
        !r->fitting || !r->supers || !r->super_order)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    for (uint32_t s = 0; s < r->super_count; s++)
        r->domains[s] = relocate_domain_of(r, s);
    for (uint32_t id = 0; id < r->node_count && !r->judged; id++)
        r->judged = gt_numa_judges(r->cluster, id);
    for (uint32_t id = 0; id < r->node_count; id++) {
        struct gt_cluster_node node;
        r->order[id] = id;
        if (!gt_cluster_get_node(r->cluster, id, &node))
            continue;
        r->super[id] = node.supernode;
        r->room[id] = gt_node_set_has(r->spec->moves_avoid, id) ? 0 : node.available;
        r->free += gt_bit_count(node.available);
        if (!gt_node_set_has(r->spec->job_avoids, id))
            relocate_change(r, id, node.available, true);
    }
    qsort_r(r->order, r->node_count, sizeof(*r->order), relocate_by_super, r->super);
    return 0;
}

/* ---- what may move ---- */

static int relocate_by_unit(const void *a, const void *b, void *arg)
{
    const struct relocator *r = arg;
    uint32_t i = *(const uint32_t *)a, k = *(const uint32_t *)b;
    const struct gt_running_pod *x = &r->pods[i], *y = &r->pods[k];
    GT_BY(x->job, y->job);
    GT_BY(x->unit, y->unit);
    return (i > k) - (i < k);
}

/* False: it may not move, or it would free nothing. All pods of a unit have equally many GPUs. */
static bool read_item(const struct relocator *r, struct move_item *item)
{
    const struct gt_running_pod *first = &r->pods[r->members[item->first]];
    struct gt_cluster_node node;
    item->node = first->unit == GT_NONE ? first->place.node : GT_NONE;
    item->cost = GT_RELOCATE_MOVE;
    for (uint32_t i = 0; i < item->pods; i++) {
        const struct gt_running_pod *pod = &r->pods[r->members[item->first + i]];
        if (!pod->movable || !gt_cluster_get_node(r->cluster, pod->place.node, &node) || !node.eligible)
            return false;
        unsigned need = gt_bit_count(pod->place.mask & node.all);
        if (!need || (i && (node.supernode != item->super || need != item->need)))
            return false;
        item->super = node.supernode;
        item->need = need;
        r->gains[item->first + i] = relocate_gain(r, r->members[item->first + i]);
        item->gain += gt_bit_count(r->gains[item->first + i]);
        item->cost += (uint64_t)need * (pod->cost ? pod->cost : 1);
    }
    return item->gain;
}

static int relocate_find_items(struct relocator *r, uint32_t count)
{
    size_t size = (size_t)count + 1;
    r->members = calloc(size, sizeof(*r->members));
    r->gains = calloc(size, sizeof(*r->gains));
    r->items = calloc(size, sizeof(*r->items));
    r->job_items = calloc(size, sizeof(*r->job_items));
    r->chosen = calloc(size, sizeof(const struct move_item *));
    r->placed = calloc(size, sizeof(const struct move_item *));
    r->best = calloc(size, sizeof(const struct move_item *));
    r->places = calloc(size, sizeof(*r->places));
    r->best_places = calloc(size, sizeof(*r->best_places));
    if (!r->members || !r->gains || !r->items || !r->job_items || !r->chosen || !r->placed || !r->best ||
        !r->places || !r->best_places)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    uint32_t all = count;
    count = 0;
    for (uint32_t i = 0; i < all; i++) /* a pod without a unit that would free nothing is not sorted either */
        if (r->pods[i].unit != GT_NONE || (r->pods[i].movable && relocate_gain(r, i)))
            r->members[count++] = i;
    qsort_r(r->members, count, sizeof(*r->members), relocate_by_unit, r);
    for (uint32_t first = 0, end, job = 0; first < count; first = end) {
        const struct gt_running_pod *pod = &r->pods[r->members[first]];
        struct move_item item = {.first = first};
        job += first && (pod->job == GT_NONE || pod->job != r->pods[r->members[first - 1]].job);
        for (end = first + 1; pod->unit != GT_NONE && end < count; end++) {
            const struct gt_running_pod *other = &r->pods[r->members[end]];
            if (other->job != pod->job || other->unit != pod->unit)
                break;
        }
        item.pods = end - first;
        item.job = job;
        if (read_item(r, &item))
            r->items[r->item_count++] = item;
    }
    return 0;
}

/* ---- the order of the search ---- */

/* GPUs that are missing for the next pod of the job on this node; where it is judged, at least. */
static unsigned missing_gpus(const struct relocator *r, uint32_t node)
{
    return r->judged ? 1 : r->job->gpus - gt_bit_count(r->available[node]) % r->job->gpus;
}

/* Units first, then single pods by node, so that it is known what a node gains when its pods are through. */
static int compare_items(const void *a, const void *b, void *arg)
{
    const struct relocator *r = arg;
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

static void take_out(struct relocator *r, const struct move_item *item, bool out)
{
    for (uint32_t i = 0; i < item->pods; i++) {
        uint32_t pod = r->members[item->first + i], node = r->pods[pod].place.node;
        uint64_t gain = r->gains[item->first + i];
        relocate_change(r, node, gain, out);
        if (item->node != GT_NONE)
            r->alone[node] = out ? r->alone[node] | gain : r->alone[node] & ~gain;
    }
}

static int by_least_run(const void *a, const void *b, void *arg)
{
    const struct relocate_super *supers = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    GT_BY(supers[x].least_run, supers[y].least_run);
    return (x > y) - (x < y);
}

static void relocate_read_super(struct relocator *r, uint32_t s)
{
    struct relocate_super *super = &r->supers[s];
    uint32_t before = r->slots[s] / r->job->pods, least_weight = UINT32_MAX;
    super->slots = r->slots[s];
    super->least_slot = UINT64_MAX;
    for (uint32_t i = super->first; i < super->end; i++) {
        const struct move_item *item = &r->items[i];
        for (uint32_t k = 0; k < item->pods; k++) {
            const struct gt_running_pod *pod = &r->pods[r->members[item->first + k]];
            uint32_t weight = pod->cost ? pod->cost : 1, missing = missing_gpus(r, pod->place.node);
            least_weight = weight < least_weight ? weight : least_weight;
            super->least_slot = missing < super->least_slot ? missing : super->least_slot;
        }
    }
    super->least_slot *= least_weight;
    super->least_run = (r->job->pods - r->slots[s] % r->job->pods) * super->least_slot;
    for (uint32_t i = super->first; i < super->end; i++)
        take_out(r, &r->items[i], true);
    if (r->slots[s] / r->job->pods == before)
        super->least_run = NO_RUN;
    for (uint32_t i = super->first; i < super->end; i++)
        take_out(r, &r->items[i], false);
    r->super_order[r->ordered++] = s;
}

static void relocate_order(struct relocator *r)
{
    qsort_r(r->items, r->item_count, sizeof(*r->items), compare_items, r);
    for (uint32_t i = 0, end; i < r->item_count; i = end) {
        struct relocate_super *super = &r->supers[r->items[i].super];
        for (end = i; end < r->item_count && r->items[end].super == r->items[i].super; end++)
            ;
        super->first = i;
        super->end = end;
        relocate_read_super(r, r->items[i].super);
    }
    qsort_r(r->super_order, r->ordered, sizeof(*r->super_order), by_least_run, r->supers);
}

/* ---- places for the chosen pods ---- */

static void relocate_keep(struct relocator *r)
{
    memcpy(r->best, r->placed, r->chosen_count * sizeof(const struct move_item *));
    memcpy(r->best_places, r->places, r->chosen_pods * sizeof(*r->places));
    r->best_count = r->chosen_count;
    r->best_pods = r->chosen_pods;
    r->best_jobs = r->chosen_jobs;
    r->best_cost = r->cost;
}

/* Whether each pod that is still to be placed, from item `item` on, may go to both nodes or to neither. */
static bool relocate_are_alike(struct relocator *r, uint32_t item, uint32_t a, uint32_t b)
{
    for (; r->spec->may_go && item < r->chosen_count; item++)
        for (uint32_t i = 0; i < r->placed[item]->pods; i++) {
            uint32_t pod = r->members[r->placed[item]->first + i];
            spend(r);
            if (relocate_may_go(r, pod, a) != relocate_may_go(r, pod, b))
                return false;
        }
    return true;
}

static bool has_same_room(const struct relocator *r, uint32_t a, uint32_t b)
{
    struct gt_cluster_node x, y;
    if (r->judged)
        return r->available[a] == r->available[b] && r->room[a] == r->room[b] &&
               gt_cluster_get_node(r->cluster, a, &x) && gt_cluster_get_node(r->cluster, b, &y) &&
               x.class == y.class;
    return gt_bit_count(r->available[a]) == gt_bit_count(r->available[b]) &&
           gt_bit_count(r->room[a]) == gt_bit_count(r->room[b]);
}

/* Whether a node of [from, at) of its supernode is equivalent for what is placed from item `item` on. */
static bool relocate_is_repeated(struct relocator *r, uint32_t item, uint32_t from, uint32_t at)
{
    uint32_t node = r->order[at], own = r->placed[item]->node;
    while (at-- > from && r->super[r->order[at]] == r->super[node]) {
        uint32_t other = r->order[at];
        spend(r);
        if (other != own && has_same_room(r, other, node) && relocate_are_alike(r, item, other, node))
            return true;
    }
    return false;
}

/* Whether `pods` pods of `need` GPUs have room on nodes from `at` on, in the supernode of that one. */
static bool has_room(struct relocator *r, uint32_t at, uint32_t pods, unsigned need)
{
    uint32_t slots = 0, super = r->super[r->order[at]];
    for (; at < r->node_count && r->super[r->order[at]] == super && slots < pods; at++) {
        slots += relocate_pods(r, r->order[at], r->room[r->order[at]], (struct gt_numa_pod){.gpus = need});
        spend(r);
    }
    return slots >= pods;
}

/* Places pods from pod `pod` of item `at` on; pod number `done` of all. The pods of a unit take nodes in
 * order, from position `from` on. */
static bool relocate_find_places(struct relocator *r, uint32_t at, uint32_t pod, uint32_t done, uint32_t from)
{
    const struct move_item *item = r->placed[at];
    if (at == r->chosen_count) {
        relocate_keep(r);
        return true;
    }
    if (pod == item->pods)
        return relocate_find_places(r, at + 1, 0, done, 0);
    uint32_t member = r->members[item->first + pod];
    for (uint32_t i = from; i < r->node_count && !r->exhausted; i++) {
        uint32_t node = r->order[i];
        spend(r);
        if (pod && r->super[node] != r->super[r->places[done - 1]])
            break;
        uint64_t gpus = node == item->node ? 0 : relocate_serve(r, node, item->need);
        if (!gpus || (item->pods > 1 && !has_room(r, i, item->pods - pod, item->need)) ||
            !relocate_may_go(r, member, node) || relocate_is_repeated(r, at, from, i))
            continue;
        r->places[done] = node;
        uint64_t taken = gt_node_set_has(r->spec->job_avoids, node) ? 0 : gpus;
        r->room[node] &= ~gpus;
        relocate_change(r, node, taken, false);
        bool found = relocate_fits(r) && relocate_find_places(r, at, pod + 1, done + 1, i);
        relocate_change(r, node, taken, true);
        r->room[node] |= gpus;
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

static bool place_chosen(struct relocator *r)
{
    uint64_t kept = !r->thorough && r->work > PLACES_WORK ? r->work - PLACES_WORK : 0;
    r->work -= kept;
    memcpy(r->placed, r->chosen, r->chosen_count * sizeof(const struct move_item *));
    qsort(r->placed, r->chosen_count, sizeof(const struct move_item *), by_size);
    bool found = relocate_find_places(r, 0, 0, 0, 0);
    r->exhausted = r->exhausted && !kept;
    r->work += kept;
    return found;
}

/* ---- which units and pods ---- */

/* Whether a set of at least this cost, with all that is chosen, cannot be better than the best one. */
static bool is_no_better(const struct relocator *r, uint64_t cost)
{
    if (!r->best_count || cost != r->best_cost)
        return r->best_count && cost > r->best_cost;
    return r->chosen_jobs >= r->best_jobs;
}

static bool is_like(const struct relocator *r, const struct move_item *a, const struct move_item *b)
{
    const struct gt_running_pod *x = &r->pods[r->members[a->first]], *y = &r->pods[r->members[b->first]];
    return a->node == b->node && a->node != GT_NONE && a->gain == b->gain && a->need == b->need &&
           a->cost == b->cost && x->job == y->job;
}

/* Whether the single pods chosen on the node bring it at least one more pod of the job. */
static bool is_through(const struct relocator *r, uint32_t node)
{
    uint64_t available = r->available[node];
    return relocate_slots(r, node, available) > relocate_slots(r, node, available & ~r->alone[node]);
}

static void choose_supers(struct relocator *r, uint32_t at);

static void choose_item(struct relocator *r, const struct move_item *item, bool in)
{
    if (in) {
        r->chosen_jobs += !r->job_items[item->job]++;
        r->chosen[r->chosen_count++] = item;
        r->chosen_pods += item->pods;
        r->cost += item->cost;
    } else {
        r->chosen_jobs -= !--r->job_items[item->job];
        r->chosen_count--;
        r->chosen_pods -= item->pods;
        r->cost -= item->cost;
    }
    take_out(r, item, in);
}

/* Whether nothing from supernode number `at` of the order on can lead to a better set. */
static bool is_useless_from(const struct relocator *r, uint32_t at)
{
    if (at == r->ordered)
        return true;
    return is_no_better(r, r->cost + (relocate_fits(r) ? 1 : r->supers[r->super_order[at]].least_run));
}

/* Further items of supernode number `at` of the order, from item `from` on. */
static void choose_items(struct relocator *r, uint32_t at, uint32_t from)
{
    uint32_t s = r->super_order[at], pods = r->job->pods;
    const struct relocate_super *super = &r->supers[s];
    uint32_t next = (r->slots[s] / pods + 1) * pods;
    const struct move_item *last = from > super->first ? &r->items[from - 1] : NULL;
    uint64_t least = super->cost_before + (next - super->slots) * super->least_slot;
    r->exhausted = r->exhausted || r->chosen_pods > MOVES_MAX;
    if (r->exhausted || is_no_better(r, r->cost))
        return;
    bool fits = relocate_fits(r);
    if (fits && (place_chosen(r) || !r->thorough))
        return;
    if (last && (r->thorough || r->slots[s] / pods > super->slots / pods))
        choose_supers(r, at + 1);
    if (is_no_better(r, fits ? r->cost + 1 : least) && (!r->thorough || is_useless_from(r, at + 1)))
        return;
    for (uint32_t i = from; i < super->end && !r->exhausted; i++) {
        const struct move_item *item = &r->items[i];
        if (!r->thorough && last && last->node != GT_NONE && last->node != item->node &&
            !is_through(r, last->node))
            return;
        if (i > from && is_like(r, item, item - 1))
            continue;
        choose_item(r, item, true);
        choose_items(r, at, i + 1);
        choose_item(r, item, false);
    }
}

static void choose_supers(struct relocator *r, uint32_t at)
{
    for (; !r->exhausted && !is_useless_from(r, at); at++) {
        struct relocate_super *super = &r->supers[r->super_order[at]];
        super->cost_before = r->cost;
        choose_items(r, at, super->first);
    }
}

/* First the sets of which each supernode's part brings a run; then all that could cost less. True: none costs
 * less than the best one. */
static bool relocate_search(struct relocator *r, uint64_t work)
{
    uint64_t least = 0;
    for (unsigned round = 0; round < 2; round++) {
        r->exhausted = false;
        r->thorough = round;
        r->work = work / 2;
        if (r->ordered)
            least = (r->job->runs - r->runs) / relocate_unit_runs(r) * r->supers[r->super_order[0]].least_run;
        if (least < NO_RUN)
            choose_supers(r, 0);
    }
    return !r->exhausted || (r->best_count && r->best_cost <= least);
}

static void relocator_done(struct relocator *r)
{
    void *all[] = {r->available, r->room,           r->alone,          r->super,       r->order,
                   r->slots,     r->domains,        r->fitting,        r->members,     r->items,
                   r->supers,    r->super_order,    r->job_items,      r->places,      r->best_places,
                   r->gains,     (void *)r->chosen, (void *)r->placed, (void *)r->best};
    for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
        free(all[i]);
}

int gt_relocate(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                const struct gt_relocate_spec *spec, struct gt_relocation *ret, struct gt_err **err)
{
    const struct gt_advise_job *job = &spec->job;
    __attribute__((cleanup(relocator_done))) struct relocator r = {
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
