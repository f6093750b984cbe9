/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/advise.h"

#include <errno.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/advise_search.h"
#include "scheduler-ext/core/capacity.h"

enum { DEFAULT_WORK = 100000000 };

static int advise_by_number(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int advise_by_place(const void *a, const void *b)
{
    const struct advise_item *x = a, *y = b;
    GT_BY(x->super, y->super);
    GT_BY(x->node, y->node);
    return (x->pod > y->pod) - (x->pod < y->pod);
}

/* The movable pods that would free GPUs a job can use: neither broken nor assumed, on an eligible node. */
static void find_items(struct advisor *advisor, const struct gt_cluster *cluster,
                       const struct gt_running_pod *pods, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gt_cluster_node node;
        if (!pods[i].movable || !gt_cluster_get_node(cluster, pods[i].node, &node) || !node.eligible)
            continue;
        uint64_t freed = pods[i].mask & node.all & node.healthy & ~node.assumed & ~node.free;
        if (freed)
            advisor->items[advisor->item_count++] =
                (struct advise_item){.super = node.supernode, .node = pods[i].node, .pod = i, .mask = freed};
    }
    qsort(advisor->items, advisor->item_count, sizeof(*advisor->items), advise_by_place);
    /* A GPU counts only once, even if pods of the caller share it. */
    uint32_t kept = 0;
    uint64_t used = 0;
    for (uint32_t i = 0; i < advisor->item_count; i++) {
        struct advise_item item = advisor->items[i];
        if (!kept || item.node != advisor->items[kept - 1].node)
            used = 0;
        item.mask &= ~used;
        used |= item.mask;
        item.gain = gt_bit_count(item.mask);
        if (item.gain)
            advisor->items[kept++] = item;
    }
    advisor->item_count = kept;
}

static void advise_find_places(struct advisor *advisor, const struct gt_cluster *cluster)
{
    const struct gt_advise_job *job = advisor->job;
    for (uint32_t i = 0; i < advisor->item_count;) {
        struct gt_cluster_node node;
        gt_cluster_get_node(cluster, advisor->items[i].node, &node);
        struct advise_place place = {.first = i, .available = gt_bit_count(node.available)};
        unsigned free = place.available;
        for (; i < advisor->item_count && advisor->items[i].node == advisor->items[place.first].node; i++)
            free += advisor->items[i].gain;
        place.count = i - place.first;
        place.slots = free / job->gpus - place.available / job->gpus;
        advisor->places[advisor->place_count++] = place;
    }
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

static int advise_find(struct advisor *advisor, const struct gt_cluster *cluster, const uint32_t *room,
                       uint64_t work, struct gt_advice *advice)
{
    uint64_t have = 0, more = 0;
    for (uint32_t s = 0; s < gt_cluster_supernodes(cluster); s++)
        have += room[s] / advisor->job->pods;
    advise_find_places(advisor, cluster);
    find_regions(advisor, room);
    for (uint32_t r = 0; r < advisor->region_count; r++)
        more += advisor->regions[r].more;
    advice->possible = have + more >= advisor->job->runs;
    if (!advice->possible || have >= advisor->job->runs)
        return 0;
    advisor->need = advisor->job->runs - (uint32_t)have;
    int r = gt_advise_exact(advisor, work ? work : DEFAULT_WORK);
    if (r != -E2BIG)
        return r;
    advice->exact = false;
    return gt_advise_greedy(advisor);
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
              const struct gt_advise_job *job, uint64_t work, struct gt_advice *ret, struct gt_err **err)
{
    if (!job->runs || !job->pods || !job->gpus)
        return gt_fail(err, EINVAL, "advice: a job without pods or GPUs");
    struct advisor advisor = {.job = job, .err = err};
    struct gt_advice advice = {.exact = true};
    gt_auto_free uint32_t *room = NULL;
    int r = gt_capacity_of(cluster, job->gpus, &room, err);
    if (r < 0)
        return r;
    advisor.items = calloc((size_t)pod_count + 1, sizeof(*advisor.items));
    advisor.places = calloc((size_t)pod_count + 1, sizeof(*advisor.places));
    advisor.regions = calloc((size_t)pod_count + 1, sizeof(*advisor.regions));
    if (!advisor.items || !advisor.places || !advisor.regions) {
        r = gt_fail_sys(err, ENOMEM, "advice");
    } else {
        find_items(&advisor, cluster, pods, pod_count);
        r = advise_find(&advisor, cluster, room, work, &advice);
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
    *ret = (struct gt_advise_job){0};
    for (uint32_t u = 0; u < request->unit_count; u++) {
        const struct gt_plan_unit *unit = &request->units[u];
        uint32_t running = 0, run = unit->atom ? unit->atom : unit->pods;
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            running += request->pods[i].running;
        if (running == unit->pods)
            continue;
        if (running || (ret->runs && (ret->pods != run || ret->gpus != unit->gpus)))
            return false;
        ret->pods = run;
        ret->gpus = unit->gpus;
        ret->runs += unit->pods / run;
    }
    return ret->runs && ret->gpus;
}
