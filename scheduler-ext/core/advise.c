/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/advise.h"

#include <errno.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/numa_room.h"
#include "topology/model/node.h"

enum { DEFAULT_WORK = 100000000, CHOICES_MAX = 16 << 20, SETS_BITS_MAX = 26 };

/* A cost: pods in the upper half, GPUs in the lower. Costs add up and compare as numbers. */
#define ADVISE_NEVER UINT64_MAX

struct advise_item { /* a movable pod that would free something */
    uint32_t super, pod;
    unsigned gain;         /* GPUs that become available */
    struct gt_place place; /* these GPUs */
    bool moved;
};

struct advise_place {      /* a node with such pods */
    uint32_t first, count; /* items */
    unsigned available;
    unsigned base;  /* pods of the job that it holds now */
    unsigned slots; /* and how many more when all of them leave */
    bool judged;    /* its kubelet refuses pods that are spread over NUMA nodes: each set is looked at */
};

struct advise_region {     /* a tier-1 supernode that can hold more runs */
    uint32_t first, count; /* places */
    uint32_t room, runs;   /* what it holds now */
    uint32_t slots, more;  /* pods and runs that it can hold beyond that */
};

struct advisor {
    const struct gt_cluster *cluster;
    const struct gt_advise_job *job;
    struct gt_err **err;
    struct advise_item *items;
    uint32_t item_count;
    struct advise_place *places;
    uint32_t place_count;
    struct advise_region *regions;
    uint32_t region_count;
    uint32_t need; /* missing runs; at most what all regions can hold beyond their `runs` */
};

static inline uint64_t advise_cost(const struct advise_item *item)
{
    return UINT64_C(1) << 32 | item->gain;
}

static int advise_by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int advise_by_place(const void *a, const void *b)
{
    const struct advise_item *x = a, *y = b;
    GT_BY(x->super, y->super);
    GT_BY(x->place.node, y->place.node);
    return (x->pod > y->pod) - (x->pod < y->pod);
}

/* The movable pods that would free GPUs a job can use: neither broken nor assumed, on an eligible node. */
static void find_items(struct advisor *advisor, const struct gt_cluster *cluster,
                       const struct gt_running_pod *pods, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gt_cluster_node node;
        if (!pods[i].movable || !gt_cluster_get_node(cluster, pods[i].place.node, &node) || !node.eligible)
            continue;
        uint64_t freed = pods[i].place.mask & node.all & node.healthy & ~node.assumed & ~node.free;
        if (freed)
            advisor->items[advisor->item_count++] = (struct advise_item){
                .super = node.supernode, .place.node = pods[i].place.node, .pod = i, .place.mask = freed};
    }
    qsort(advisor->items, advisor->item_count, sizeof(*advisor->items), advise_by_place);
    /* A GPU counts only once, even if pods of the caller share it. */
    uint32_t kept = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < advisor->item_count; i++) {
        struct advise_item item = advisor->items[i];
        if (!kept || item.place.node != advisor->items[kept - 1].place.node)
            used = 0;
        item.place.mask &= ~used;
        used |= item.place.mask;
        item.gain = gt_bit_count(item.place.mask);
        if (item.gain)
            advisor->items[kept++] = item;
    }
    advisor->item_count = kept;
}

static void advise_find_places(struct advisor *advisor)
{
    for (uint32_t i = 0; i < advisor->item_count;) {
        struct gt_cluster_node node;
        uint32_t id = advisor->items[i].place.node;
        const struct gt_numa_pod pod = gt_advise_numa_pod(advisor->job);
        gt_cluster_get_node(advisor->cluster, id, &node);
        struct advise_place place = {.first = i,
                                     .available = gt_bit_count(node.available),
                                     .judged = gt_numa_judges(advisor->cluster, id)};
        uint64_t free = node.available;
        for (; i < advisor->item_count && advisor->items[i].place.node == id; i++)
            free |= advisor->items[i].place.mask;
        place.count = i - place.first;
        place.base = gt_numa_pods(advisor->cluster, id, node.available, pod);
        unsigned all = gt_numa_pods(advisor->cluster, id, free, pod);
        place.slots = all > place.base ? all - place.base : 0;
        advisor->places[advisor->place_count++] = place;
    }
}

/* For pods of the job, by supernode. NULL without memory. */
static uint32_t *advise_room(const struct gt_cluster *cluster, struct gt_numa_pod pod)
{
    uint32_t *room = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*room));
    struct gt_cluster_node node;
    for (uint32_t id = 0; room && id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node))
            room[node.supernode] += gt_numa_pods(cluster, id, node.available, pod);
    return room;
}

static void find_regions(struct advisor *advisor, const uint32_t *room)
{
    const struct gt_advise_job *job = advisor->job;
    for (uint32_t s = 0; s < advisor->place_count;) {
        uint32_t super = advisor->items[advisor->places[s].first].super;
        struct advise_region region = {.first = s, .room = room[super], .runs = room[super] / job->pods};
        for (; s < advisor->place_count && advisor->items[advisor->places[s].first].super == super; s++)
            region.slots += advisor->places[s].slots;
        region.count = s - region.first;
        region.more = (region.room + region.slots) / job->pods - region.runs;
        if (region.more)
            advisor->regions[advisor->region_count++] = region;
    }
}

/* ---- one node: the least cost for a number of additional pods ---- */

struct node_costs {
    unsigned slots;
    uint64_t cost[GT_GPUS_MAX + 1];  /* [slots gained, at least] */
    unsigned freed[GT_GPUS_MAX + 1]; /* GPUs that are freed at this cost; where it is judged, the set */
};

/* least[t]: the least cost of sets that free t GPUs. Items are added one after the other; `taken` may be
 * NULL, else taken[i] has bit t where the set for t GPUs includes item i (t is below 64, since 64 GPUs need
 * all items). */
static void node_sums(const struct advisor *advisor, const struct advise_place *place,
                      uint64_t least[static GT_GPUS_MAX + 1], uint64_t *taken)
{
    for (unsigned t = 0; t <= GT_GPUS_MAX; t++)
        least[t] = t ? ADVISE_NEVER : 0;
    for (uint32_t i = 0; i < place->count; i++) {
        const struct advise_item *item = &advisor->items[place->first + i];
        if (taken)
            taken[i] = 0;
        for (unsigned t = GT_GPUS_MAX; t >= item->gain; t--) {
            uint64_t before = least[t - item->gain];
            if (before == ADVISE_NEVER || before + advise_cost(item) >= least[t])
                continue;
            least[t] = before + advise_cost(item);
            if (taken && t < GT_GPUS_MAX)
                taken[i] |= UINT64_C(1) << t;
        }
    }
}

/* Of each set of items. Pods on few GPUs of each NUMA node may bring nothing, so numbers do not say it. */
static void judged_costs(const struct advisor *advisor, const struct advise_place *place,
                         struct node_costs *ret)
{
    const struct advise_item *items = &advisor->items[place->first];
    struct gt_cluster_node node;
    gt_cluster_get_node(advisor->cluster, items->place.node, &node);
    for (unsigned set = 1; place->slots && set < 1U << place->count; set++) {
        uint64_t free = node.available, cost = 0;
        for (uint32_t i = 0; i < place->count; i++)
            if (set >> i & 1) {
                free |= items[i].place.mask;
                cost += advise_cost(&items[i]);
            }
        if (cost >= ret->cost[place->slots])
            continue;
        unsigned slots =
            gt_numa_pods(advisor->cluster, items->place.node, free, gt_advise_numa_pod(advisor->job));
        for (unsigned j = 1; j <= place->slots && place->base + j <= slots; j++)
            if (cost < ret->cost[j]) {
                ret->cost[j] = cost;
                ret->freed[j] = set;
            }
    }
}

static void node_costs(const struct advisor *advisor, const struct advise_place *place,
                       struct node_costs *ret)
{
    uint64_t least[GT_GPUS_MAX + 1];
    unsigned gpus = advisor->job->gpus;
    ret->slots = place->slots;
    for (unsigned j = 0; j <= place->slots; j++) {
        ret->cost[j] = j ? ADVISE_NEVER : 0;
        ret->freed[j] = 0;
    }
    if (place->judged) {
        judged_costs(advisor, place, ret);
        return;
    }
    node_sums(advisor, place, least, NULL);
    for (unsigned j = 1; j <= place->slots; j++) {
        for (unsigned t = (place->base + j) * gpus - place->available; t <= GT_GPUS_MAX; t++)
            if (least[t] < ret->cost[j]) {
                ret->cost[j] = least[t];
                ret->freed[j] = t;
            }
    }
}

/* Marks the items of the set that frees `t` GPUs at least cost; where it is judged, `t` is the set. */
static void mark_node(struct advisor *advisor, const struct advise_place *place, unsigned t)
{
    uint64_t least[GT_GPUS_MAX + 1], taken[GT_GPUS_MAX];
    for (uint32_t i = 0; place->judged && i < place->count; i++)
        advisor->items[place->first + i].moved = t >> i & 1;
    if (place->judged)
        return;
    node_sums(advisor, place, least, taken);
    for (uint32_t i = place->count; i-- && t;) {
        struct advise_item *item = &advisor->items[place->first + i];
        item->moved = t == GT_GPUS_MAX || taken[i] >> t & 1;
        if (item->moved)
            t -= item->gain;
    }
}

/* ---- one supernode: the least cost for a number of additional pods ---- */

/* cost[x]: for at least x more pods; `choice`, unless NULL, has for each place a row of limit + 1 entries:
 * how many of the x pods it takes. */
static void super_costs(const struct advisor *advisor, const struct advise_region *region, uint32_t limit,
                        uint64_t *cost, uint8_t *choice)
{
    for (uint32_t x = 0; x <= limit; x++)
        cost[x] = x ? ADVISE_NEVER : 0;
    for (uint32_t i = 0; i < region->count; i++) {
        struct node_costs node;
        node_costs(advisor, &advisor->places[region->first + i], &node);
        uint8_t *row = choice ? choice + (size_t)i * (limit + 1) : NULL;
        for (uint32_t x = limit; x; x--) {
            uint64_t best = cost[x];
            unsigned share = 0;
            for (unsigned j = 1; j <= node.slots && j <= x; j++)
                if (cost[x - j] != ADVISE_NEVER && cost[x - j] + node.cost[j] < best) {
                    best = cost[x - j] + node.cost[j];
                    share = j;
                }
            cost[x] = best;
            if (row)
                row[x] = (uint8_t)share;
        }
    }
}

/* Pods of `more` additional runs for which there is no room yet. */
static uint32_t pods_lacking(const struct advisor *advisor, const struct advise_region *region, uint32_t more)
{
    return (region->runs + more) * advisor->job->pods - region->room;
}

static uint32_t most_runs(const struct advisor *advisor, const struct advise_region *region)
{
    return region->more < advisor->need ? region->more : advisor->need;
}

static int mark_super(struct advisor *advisor, const struct advise_region *region, uint32_t more)
{
    uint32_t x = pods_lacking(advisor, region, more), limit = x;
    gt_auto_free uint64_t *cost = calloc((size_t)limit + 1, sizeof(*cost));
    gt_auto_free uint8_t *choice = calloc((size_t)region->count, (size_t)limit + 1);
    if (!cost || !choice)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    super_costs(advisor, region, limit, cost, choice);
    for (uint32_t i = region->count; i-- && x;) {
        unsigned share = choice[(size_t)i * (limit + 1) + x];
        if (!share)
            continue;
        const struct advise_place *place = &advisor->places[region->first + i];
        struct node_costs node;
        node_costs(advisor, place, &node);
        mark_node(advisor, place, node.freed[share]);
        x -= share;
    }
    return 0;
}

/* ---- the cluster: the least cost for the missing runs ---- */

static bool is_small_enough(const struct advisor *advisor, uint64_t work)
{
    uint64_t steps = 0, choices = ((uint64_t)advisor->need + 1) * advisor->region_count;
    for (uint32_t r = 0; r < advisor->region_count; r++) {
        const struct advise_region *region = &advisor->regions[r];
        uint32_t more = most_runs(advisor, region), slots = pods_lacking(advisor, region, more);
        for (uint32_t i = 0; i < region->count; i++) {
            const struct advise_place *place = &advisor->places[region->first + i];
            if (place->judged && place->count > SETS_BITS_MAX)
                return false;
            steps += (uint64_t)slots * (place->slots + 1) +
                     (place->judged ? (uint64_t)place->count << place->count : 0);
        }
        steps += (uint64_t)advisor->need * more;
        if (steps > work)
            return false;
    }
    return choices <= CHOICES_MAX;
}

/* Marks the items of the best set. */
static int advise_mark_best(struct advisor *advisor, uint64_t work)
{
    if (!is_small_enough(advisor, work))
        return gt_fail(advisor->err, E2BIG,
                       "advice: too many movable pods to find the fewest that must leave");
    uint32_t need = advisor->need, width = need + 1;
    gt_auto_free uint64_t *total = calloc(width, sizeof(*total));
    gt_auto_free uint32_t *choice = calloc((size_t)advisor->region_count * width, sizeof(*choice));
    if (!total || !choice)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    for (uint32_t n = 1; n <= need; n++)
        total[n] = ADVISE_NEVER;
    for (uint32_t r = 0; r < advisor->region_count; r++) {
        const struct advise_region *region = &advisor->regions[r];
        uint32_t most = most_runs(advisor, region), limit = pods_lacking(advisor, region, most);
        gt_auto_free uint64_t *cost = calloc((size_t)limit + 1, sizeof(*cost));
        if (!cost)
            return gt_fail_sys(advisor->err, ENOMEM, "advice");
        super_costs(advisor, region, limit, cost, NULL);
        for (uint32_t n = need; n; n--)
            for (uint32_t more = 1; more <= most && more <= n; more++) {
                uint64_t own = cost[pods_lacking(advisor, region, more)];
                if (total[n - more] == ADVISE_NEVER || own == ADVISE_NEVER ||
                    total[n - more] + own >= total[n])
                    continue;
                total[n] = total[n - more] + own;
                choice[(size_t)r * width + n] = more;
            }
    }
    int result = 0;
    for (uint32_t r = advisor->region_count, n = need; r-- && n && result >= 0;) {
        uint32_t more = choice[(size_t)r * width + n];
        if (more)
            result = mark_super(advisor, &advisor->regions[r], more);
        n -= more;
    }
    return result;
}

/* ---- the input of the search ---- */

static int advise_find(struct advisor *advisor, const struct gt_cluster *cluster, const uint32_t *room,
                       uint64_t work, struct gt_advice *advice)
{
    uint64_t have = 0, more = 0;
    for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++)
        have += room[s] / advisor->job->pods;
    advise_find_places(advisor);
    find_regions(advisor, room);
    for (uint32_t r = 0; r < advisor->region_count; r++)
        more += advisor->regions[r].more;
    advice->possible = have + more >= advisor->job->runs;
    if (!advice->possible || have >= advisor->job->runs)
        return 0;
    advisor->need = advisor->job->runs - (uint32_t)have;
    return advise_mark_best(advisor, work ? work : DEFAULT_WORK);
}

static int advise_collect(const struct advisor *advisor, struct gt_advice *advice)
{
    for (uint32_t i = 0; i < advisor->item_count; i++)
        advice->count += advisor->items[i].moved;
    if (!advice->count)
        return 0;
    advice->moved = calloc(advice->count, sizeof(*advice->moved));
    if (!advice->moved)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    uint32_t at = 0;
    for (uint32_t i = 0; i < advisor->item_count; i++)
        if (advisor->items[i].moved) {
            advice->moved[at++] = advisor->items[i].pod;
            advice->gpus += advisor->items[i].gain;
        }
    qsort(advice->moved, advice->count, sizeof(*advice->moved), advise_by_number);
    return 0;
}

int gt_advise(const struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
              const struct gt_advise_job *job, struct gt_advice *ret, struct gt_err **err)
{
    if (!job->runs || !job->pods || !job->gpus)
        return gt_fail(err, EINVAL, "advice: a job without pods or GPUs");
    struct advisor advisor = {.cluster = cluster, .job = job, .err = err};
    struct gt_advice advice = {0};
    int r = 0;
    gt_auto_free uint32_t *room = advise_room(cluster, gt_advise_numa_pod(job));
    advisor.items = calloc((size_t)pod_count + 1, sizeof(*advisor.items));
    advisor.places = calloc((size_t)pod_count + 1, sizeof(*advisor.places));
    advisor.regions = calloc((size_t)pod_count + 1, sizeof(*advisor.regions));
    if (!room || !advisor.items || !advisor.places || !advisor.regions) {
        r = gt_fail_sys(err, ENOMEM, "advice");
    } else {
        find_items(&advisor, cluster, pods, pod_count);
        r = advise_find(&advisor, cluster, room, job->work, &advice);
        if (r >= 0)
            r = advise_collect(&advisor, &advice);
    }
    free(advisor.items);
    free(advisor.places);
    free(advisor.regions);
    if (r >= 0)
        *ret = advice;
    return r;
}

bool gt_advise_job_of(const struct gt_plan_request *request, struct gt_advise_job *ret)
{
    bool any = false;
    *ret = (struct gt_advise_job){0};
    for (uint32_t u = 0; u < request->unit_count; u++) {
        const struct gt_plan_unit *unit = &request->units[u];
        uint32_t running = 0, run = unit->atom ? unit->atom : unit->pods;
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
            uint64_t requests = request->pods[i].requests;
            running += request->pods[i].running;
            if (!request->pods[i].running)
                ret->requests = !any || ret->requests == requests ? requests : 0;
            any |= !request->pods[i].running;
        }
        if (running == unit->pods)
            continue;
        uint32_t together = unit->within ? unit->pods / run : 0;
        if (running || (ret->runs && (ret->pods != run || ret->gpus != unit->gpus || ret->unit != together)))
            return false;
        ret->unit = together;
        ret->within = unit->within;
        ret->pods = run;
        ret->gpus = unit->gpus;
        ret->runs += unit->pods / run;
    }
    return ret->runs && ret->gpus;
}
