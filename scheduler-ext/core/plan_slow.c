/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <stdlib.h>
#include <string.h>

enum {
    SLOW_TRIES = 32,       /* supernodes that a single unit is tried in */
    SLOW_WORK = 1 << 21,   /* nodes that are compared for one plan, some 10 ms */
    SLOW_STAYS = UINT8_MAX /* taken: a pod of the job runs there */
};

/* ---- nodes and supernodes that are alike ---- */

struct slow_place {
    uint32_t node, from; /* from: the node whose pods lie here now */
    uint16_t class;
    bool fixed;                /* takes no part, whatever it holds */
    uint8_t before, available; /* GPUs: usable in the draft without the job, available at all */
    uint8_t taken;             /* by pods that may move, or SLOW_STAYS */
    uint8_t good;              /* of the available ones: not slow */
};

struct slow_trade {
    struct job *job;
    uint8_t *taken;  /* [node] as in its place */
    uint32_t *to;    /* [node] where its pods go */
    uint32_t *first; /* [supernode] its places begin here; all have the next one's as their end */
    struct slow_place *places, *sorted; /* those of a supernode by what is taken, and by what is good */
    uint32_t work;
};

static int slow_compare_kind(const struct slow_place *a, const struct slow_place *b)
{
    return a->fixed != b->fixed     ? a->fixed - b->fixed
           : a->class != b->class   ? (a->class > b->class) - (a->class < b->class)
           : a->before != b->before ? a->before - b->before
                                    : a->available - b->available;
}

/* Kinds beside each other; of a kind the most that is taken first. */
static int slow_by_taken(const void *left, const void *right)
{
    const struct slow_place *a = left, *b = right;
    int kind = slow_compare_kind(a, b);
    if (kind || a->taken != b->taken)
        return kind ? kind : b->taken - a->taken;
    return (a->node > b->node) - (a->node < b->node);
}

/* Kinds beside each other; of a kind the best nodes first. */
static int slow_by_good(const void *left, const void *right)
{
    const struct slow_place *a = left, *b = right;
    int kind = slow_compare_kind(a, b);
    return kind || a->fixed || a->good == b->good ? slow_by_taken(left, right) : b->good - a->good;
}

/* Slow GPUs that pods with so many GPUs need there. */
static unsigned slow_needs(const struct slow_place *place, unsigned taken)
{
    return taken > place->good ? taken - place->good : 0;
}

/* The kubelet of such a node judges which GPUs they are, unless it is idle. */
static bool slow_is_open(const struct job *job, uint32_t node, unsigned before)
{
    const struct gt_cluster *cluster = job->cluster;
    return before &&
           (before == cluster->size[node] || !gt_class_numa(cluster->classes[cluster->class[node]])->count);
}

/* Counts what the job takes of each node; says whether it takes a slow GPU anywhere. */
static bool slow_count(struct slow_trade *trade)
{
    const struct job *job = trade->job;
    bool any = false;
    memset(trade->taken, 0, job->cluster->node_count);
    for (uint32_t u = 0; u < job->unit_count; u++)
        for (uint32_t i = job->units[u].first; i < job->units[u].first + job->units[u].pods; i++) {
            uint32_t node = job->pods[i].place.node;
            if (gt_core_has_node(job->cluster, node) && trade->taken[node] != SLOW_STAYS)
                trade->taken[node] =
                    job->pods[i].running ? SLOW_STAYS : (uint8_t)(trade->taken[node] + job->units[u].gpus);
        }
    for (uint32_t n = gt_core_next_slow(job->cluster, 0); n != GT_NONE && !any;
         n = gt_core_next_slow(job->cluster, n + 1))
        any = trade->taken[n] && trade->taken[n] != SLOW_STAYS &&
              trade->taken[n] > gt_core_bits(gt_draft_available(job, n) & ~job->cluster->slow[n]);
    return any;
}

/* Lists the nodes of each supernode in both orders. */
static void slow_list(struct slow_trade *trade)
{
    const struct gt_cluster *cluster = trade->job->cluster;
    uint32_t count = 0;
    for (uint32_t s = 0; s < cluster->super_count; s++) {
        uint32_t first = trade->first[s] = count;
        for (uint32_t n = cluster->supers[s].tier == 1 ? cluster->supers[s].first_node : GT_NONE;
             n != GT_NONE; n = cluster->next[n]) {
            unsigned taken = trade->taken[n], stays = taken == SLOW_STAYS;
            unsigned before = gt_draft_count(trade->job, n) + (stays ? 0 : taken);
            uint64_t available = gt_draft_available(trade->job, n);
            trade->places[count++] =
                (struct slow_place){.node = n,
                                    .from = n,
                                    .class = cluster->class[n],
                                    .fixed = stays || !slow_is_open(trade->job, n, before),
                                    .before = (uint8_t)before,
                                    .available = (uint8_t)gt_core_bits(available),
                                    .taken = (uint8_t)taken,
                                    .good = (uint8_t)gt_core_bits(available & ~gt_core_slow(cluster, n))};
        }
        memcpy(trade->sorted + first, trade->places + first, (count - first) * sizeof(*trade->places));
        qsort(trade->places + first, count - first, sizeof(*trade->places), slow_by_taken);
        qsort(trade->sorted + first, count - first, sizeof(*trade->sorted), slow_by_good);
    }
    trade->first[cluster->super_count] = count;
}

/* The slow GPUs that the pods of supernode `from` need in `to`, which is alike: what is taken most goes where
 * most are good. That is best: what a pair costs is convex in the difference. */
static unsigned slow_cost(struct slow_trade *trade, uint32_t from, uint32_t to)
{
    uint32_t count = trade->first[from + 1] - trade->first[from];
    const struct slow_place *taken = trade->places + trade->first[from];
    const struct slow_place *good = trade->sorted + trade->first[to];
    unsigned cost = 0;
    for (uint32_t i = 0; i < count; i++)
        cost += taken[i].fixed ? 0 : slow_needs(&good[i], taken[i].taken);
    trade->work += count;
    return cost;
}

/* Whether all that the job has in one may lie in the other, and the free GPUs stay the same numbers. */
static bool slow_are_alike(struct slow_trade *trade, uint32_t a, uint32_t b)
{
    const struct gt_cluster *cluster = trade->job->cluster;
    const struct slow_place *x = trade->places + trade->first[a], *y = trade->places + trade->first[b];
    uint32_t count = trade->first[a + 1] - trade->first[a], i = 0;
    if (a == b || count != trade->first[b + 1] - trade->first[b] ||
        (trade->job->close && cluster->supers[a].parent != cluster->supers[b].parent))
        return false;
    while (i < count && slow_compare_kind(&x[i], &y[i]) == 0 && !(x[i].fixed && (x[i].taken || y[i].taken)))
        i++;
    trade->work += i;
    return i == count;
}

/* Exchanges all that the job has in this supernode with what it has in another, mostly nothing, where that
 * saves most slow GPUs. False: nothing is saved. */
static bool slow_exchange(struct slow_trade *trade, uint32_t super)
{
    const struct gt_cluster *cluster = trade->job->cluster;
    unsigned own = slow_cost(trade, super, super), most = 0;
    uint32_t best = GT_NONE;
    for (uint32_t s = 0; s < cluster->super_count && most < own && trade->work < SLOW_WORK; s++) {
        if (!slow_are_alike(trade, super, s))
            continue;
        unsigned now = own + slow_cost(trade, s, s);
        unsigned then = slow_cost(trade, super, s) + slow_cost(trade, s, super);
        if (now > then && now - then > most) {
            most = now - then;
            best = s;
        }
    }
    for (uint32_t i = trade->first[super]; best != GT_NONE && i < trade->first[super + 1]; i++) {
        struct slow_place *a = &trade->places[i],
                          *b = &trade->places[trade->first[best] + i - trade->first[super]];
        const struct slow_place first = *a;
        a->from = b->from;
        a->taken = b->taken;
        b->from = first.from;
        b->taken = first.taken;
    }
    return best != GT_NONE;
}

/* Says where the pods of each node go: where nothing is saved within a supernode, they stay there. */
static void slow_settle(struct slow_trade *trade, uint32_t super)
{
    unsigned now = 0, then = slow_cost(trade, super, super);
    const struct slow_place *places = trade->places, *sorted = trade->sorted;
    for (uint32_t i = trade->first[super]; i < trade->first[super + 1]; i++)
        now += places[i].fixed ? 0 : slow_needs(&places[i], places[i].taken);
    for (uint32_t i = trade->first[super]; i < trade->first[super + 1]; i++)
        trade->to[places[i].from] = then < now ? sorted[i].node : places[i].node;
}

static void slow_move(struct slow_trade *trade, struct gt_plan_unit *unit)
{
    struct job *job = trade->job;
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        struct gt_plan_pod *pod = &job->pods[i];
        uint32_t from = pod->place.node;
        if (pod->running || trade->to[from] == from)
            continue;
        pod->place.node = trade->to[from];
        pod->place.mask = gt_draft_available(job, pod->place.node);
        if (unit->next.supernode == gt_pod_super(job, i)) /* which was as good as the one that it leaves */
            unit->next.supernode = job->cluster->super[from];
    }
}

void gt_slow_trade(struct job *job)
{
    struct gt_cluster *cluster = job->cluster;
    size_t nodes = cluster->node_count, supers = cluster->super_count;
    struct slow_trade trade = {.job = job};
    trade.places = gt_close_memory(cluster, 0,
                                   nodes * (2 * sizeof(*trade.places) + sizeof(*trade.to) + 1) +
                                       (supers + 1) * sizeof(*trade.first));
    if (!trade.places)
        return;
    trade.sorted = trade.places + nodes;
    trade.to = (uint32_t *)(trade.sorted + nodes);
    trade.first = trade.to + nodes;
    trade.taken = (uint8_t *)(trade.first + supers + 1);
    if (!slow_count(&trade))
        return;
    slow_list(&trade);
    for (bool again = true; again && trade.work < SLOW_WORK;) {
        again = false;
        for (uint32_t s = 0; s < supers; s++)
            again = (slow_cost(&trade, s, s) && slow_exchange(&trade, s)) || again;
    }
    for (uint32_t s = 0; s < supers; s++)
        slow_settle(&trade, s);
    for (uint32_t u = 0; u < job->unit_count; u++)
        slow_move(&trade, &job->units[u]);
}

/* ---- the whole job ---- */

/* What a plan leaves, and how far apart it lies. */
struct slow_worth {
    uint64_t places[GT_CHAIN_MAX];
    uint64_t supernodes, tiers;         /* of the units, in all */
    uint32_t domains[GT_TIERS_MAX + 1]; /* [tier] of the whole job; one that lies in none counts by itself */
};

/* Whether single nodes hold such a size. */
static bool slow_fits_node(const struct gt_cluster *cluster, uint32_t size)
{
    bool fits = false;
    for (uint32_t n = size; n <= GT_GPUS_MAX && !fits; n++)
        fits = cluster->nodes_of[n] > 0;
    return fits;
}

/* Places of a size: on nodes; of sizes that need several, in the whole nodes of supernodes. */
static uint64_t slow_places(const struct job *job, uint32_t size)
{
    const struct gt_cluster *cluster = job->cluster;
    uint32_t *whole = cluster->scratch;
    uint64_t places = 0;
    bool on_nodes = slow_fits_node(cluster, size);
    memset(whole, 0, cluster->super_count * sizeof(*whole));
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        unsigned left = gt_draft_count(job, n);
        if (on_nodes)
            places += left / size;
        else if (left && left == cluster->size[n])
            whole[cluster->super[n]] += left;
    }
    for (uint32_t s = 0; s < cluster->super_count; s++)
        places += whole[s] / size;
    return places;
}

/* Counts a supernode of the job, and what lies above it, if it is new. */
static void slow_count_domains(struct gt_cluster *cluster, uint32_t super, uint32_t stamp,
                               struct slow_worth *to)
{
    for (; super != GT_NONE && cluster->mark[super] != stamp; super = cluster->supers[super].parent) {
        uint32_t parent = cluster->supers[super].parent;
        unsigned end = parent == GT_NONE ? GT_TIERS_MAX + 1 : cluster->supers[parent].tier;
        cluster->mark[super] = stamp;
        for (unsigned tier = cluster->supers[super].tier; tier < end; tier++)
            to->domains[tier]++;
    }
}

static void slow_judge(struct gt_cluster *cluster, const struct gt_plan_request *request,
                       struct slow_worth *ret)
{
    struct job job = gt_plan_begin(cluster, request);
    *ret = (struct slow_worth){0};
    job.slow = GT_SLOW_ANY;
    gt_draft_begin(&job);
    uint32_t stamp = gt_core_stamp(cluster);
    for (uint32_t i = 0; i < job.pod_count && job.close; i++)
        slow_count_domains(cluster, gt_pod_super(&job, i), stamp, ret);
    for (uint32_t u = 0; u < job.unit_count; u++) {
        const struct gt_plan_unit *unit = &job.units[u];
        ret->supernodes += unit->supernodes;
        ret->tiers += unit->tier;
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            if (!job.pods[i].running && gt_draft_count(&job, job.pods[i].place.node) >= unit->gpus)
                gt_draft_take(&job, job.pods[i].place.node, unit->gpus);
    }
    for (unsigned i = 0; i < cluster->chain.sizes.count; i++)
        ret->places[i] = slow_places(&job, cluster->chain.sizes.size[i]);
}

static bool slow_is_no_worse(const struct slow_worth *a, const struct slow_worth *than)
{
    bool no_worse = a->supernodes <= than->supernodes && a->tiers <= than->tiers;
    for (unsigned i = 0; i < GT_CHAIN_MAX; i++)
        no_worse &= a->places[i] >= than->places[i];
    for (unsigned tier = 1; tier <= GT_TIERS_MAX; tier++)
        no_worse &= a->domains[tier] <= than->domains[tier];
    return no_worse;
}

/* Whether the plan gives its pods such a GPU. */
static bool slow_is_given(const struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    bool has = false;
    for (uint32_t i = 0; cluster->slow_nodes && i < request->pod_count && !has; i++) {
        const struct gt_plan_pod *pod = &request->pods[i];
        has = !pod->running && gt_core_has_node(cluster, pod->place.node) &&
              (pod->place.mask & gt_core_slow(cluster, pod->place.node));
    }
    return has;
}

/* Plans in one supernode alone; false also where that would be worse. */
static bool slow_try_in(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                        uint32_t super, const struct slow_worth *first)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set outside = {0};
    struct gt_plan_request within = *request;
    struct gt_plan_failure failure;
    struct slow_worth worth;
    for (uint32_t n = cluster->node_count; n-- > 0;)
        if (gt_core_has_node(cluster, n) &&
            (cluster->super[n] != super || gt_node_set_has(request->excluded, n)) &&
            gt_node_set_add(&outside, n, NULL) < 0)
            return false;
    within.excluded = &outside;
    if (!plan(cluster, &within, &failure))
        return false;
    slow_judge(cluster, request, &worth);
    return slow_is_no_worse(&worth, first);
}

/* Plans without slow GPUs, at no cost. */
static bool slow_try(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                     const struct slow_worth *first)
{
    struct gt_plan_failure failure;
    struct slow_worth worth;
    if (!plan(cluster, request, &failure))
        return false;
    slow_judge(cluster, request, &worth);
    bool taken = slow_is_no_worse(&worth, first), one = request->unit_count == 1 && !request->units->atom;
    for (uint32_t s = 0, tried = 0; one && !taken && s < cluster->super_count && tried < SLOW_TRIES; s++) {
        if (cluster->supers[s].tier != 1 || cluster->total[s] < request->units->pods * request->units->gpus)
            continue;
        taken = slow_try_in(cluster, request, plan, s, first);
        tried++;
    }
    return taken;
}

bool gt_plan_slow(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                  struct gt_plan_failure *ret_failure)
{
    struct gt_plan_request own = *request;
    struct gt_plan_failure other;
    struct slow_worth first;
    own.settled = true;
    if (request->slow == GT_SLOW_NEVER) {
        bool placed = plan(cluster, &own, ret_failure);
        own.slow = GT_SLOW_ANY;
        if (!placed)
            ret_failure->keeps_off = plan(cluster, &own, &other);
        return placed;
    }
    if (!plan(cluster, &own, ret_failure))
        return false;
    if (!slow_is_given(cluster, &own))
        return true;
    slow_judge(cluster, &own, &first);
    own.slow = GT_SLOW_NEVER;
    if (slow_try(cluster, &own, plan, &first))
        return true;
    own.slow = GT_SLOW_AVOID;
    return plan(cluster, &own, ret_failure);
}
