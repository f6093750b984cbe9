/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/core/numa_room.h"

/*
 * The cluster in the view of a plan in progress: without excluded nodes, with the GPUs that count as free,
 * and without those of placed pods. Nodes that differ from the cluster's state have a bit; the slots of the
 * plan's pod sizes are copied and corrected for these nodes.
 */

/* Sets the GPUs of a node that are available, and how many of them may be used. */
static void draft_set(struct job *job, uint32_t node, uint64_t mask, unsigned after)
{
    struct gt_cluster *cluster = job->cluster;
    unsigned before = cluster->draft_count[node], size = cluster->size[node];
    uint32_t word = node / 64;
    cluster->draft_changed[word] |= UINT64_C(1) << node % 64;
    cluster->draft_low = word < cluster->draft_low ? word : cluster->draft_low;
    cluster->draft_high = word < cluster->draft_high ? cluster->draft_high : word + 1;
    cluster->draft_available[node] = mask;
    cluster->draft_count[node] = (uint8_t)after;
    job->nodes_with[before]--;
    job->nodes_with[after]++;
    job->idle_with[before] -= before == size;
    job->idle_with[after] += after == size;
    for (unsigned i = 0; i < ROOMS; i++) {
        const struct room *room = &job->rooms[i];
        if (room->gpus)
            room->slots[cluster->super[node]] +=
                gt_core_slots(room->gpus, after) - gt_core_slots(room->gpus, before);
    }
}

void gt_draft_take(struct job *job, uint32_t node, unsigned gpus)
{
    draft_set(job, node, gt_draft_available(job, node), gt_draft_count(job, node) - gpus);
}

void gt_draft_give(struct job *job, uint32_t node, unsigned gpus)
{
    draft_set(job, node, gt_draft_available(job, node), gt_draft_count(job, node) + gpus);
}

/* Sets up the nodes that differ from the cluster's state. */
static struct gt_node_set changed_nodes(const struct gt_cluster *cluster)
{
    return (struct gt_node_set){cluster->draft_changed, cluster->draft_high * 64};
}

/* The next eligible node that is excluded. */
static uint32_t next_excluded(const struct job *job, uint32_t from)
{
    uint32_t node = gt_node_set_next(job->excluded, from);
    while (node < job->cluster->node_count && !job->cluster->usable[node])
        node = gt_node_set_next(job->excluded, node + 1);
    return node < job->cluster->node_count ? node : GT_NONE;
}

/* What pods to be placed ask for. [1]: of kubelets that judge each request by itself, [0]: of others. */
struct numa_asked {
    struct gt_numa_pod pod; /* the first of them */
    bool any, open;         /* open: the kubelets of [1] are not predicted */
    bool equal[2];          /* all are as the first one */
    /* Bit k - 1: some request is for k GPUs. 0: not all requests divide each other, so that not every mix
     * that has room by its number of GPUs is admitted in any order. */
    uint64_t sizes[2];
};

/* Adds the requests to *sizes. An ordinary init container counts only as a part of an equal request after it.
 * False: it is another one, whose NUMA node binds that request. */
static bool add_sizes(struct gt_numa_pod pod, uint64_t *sizes)
{
    bool is_simple = true;
    for (uint64_t left = pod.requests ? pod.requests : pod.gpus; left; left >>= 8) {
        bool init = left & GT_NUMA_INIT;
        is_simple = is_simple && (!init || (left >> 8 & 0xff) == (left & 0x7f));
        *sizes |= UINT64_C(1) << ((left & 0x7f) - 1) % GT_GPUS_MAX;
    }
    return is_simple;
}

static bool do_divide(uint64_t sizes)
{
    unsigned last = 1;
    for (uint64_t left = sizes; left; left &= left - 1) {
        unsigned size = gt_bit_first(left) + 1;
        if (size % last)
            return false;
        last = size;
    }
    return true;
}

static void numa_ask(const struct job *job, struct numa_asked *ret)
{
    bool fits = true, simple = true;
    *ret = (struct numa_asked){.equal = {true, true}};
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
            struct gt_numa_pod pod = {unit->gpus, job->pods[i].requests};
            if (job->pods[i].running)
                continue;
            ret->pod = ret->any ? ret->pod : pod;
            ret->any = true;
            ret->equal[0] = ret->equal[0] && pod.gpus == ret->pod.gpus;
            ret->equal[1] = ret->equal[1] && ret->equal[0] && pod.requests == ret->pod.requests;
            fits = fits && pod.gpus && pod.gpus <= GT_GPUS_MAX;
            if (!fits)
                continue;
            ret->open = ret->open || pod.requests == GT_NUMA_TOO_MANY;
            ret->sizes[0] |= UINT64_C(1) << (pod.gpus - 1);
            simple = add_sizes(pod, &ret->sizes[1]) && simple;
        }
    }
    for (unsigned by = 0; by < 2; by++)
        if (!fits || !do_divide(ret->sizes[by]) || (by && !simple))
            ret->sizes[by] = 0;
    ret->any = ret->any && fits;
}

/* How many of a node's `count` available GPUs may be used: what its kubelet admits of each size. */
static unsigned numa_room(const struct job *job, uint32_t node, const struct numa_asked *asked,
                          unsigned count)
{
    const struct gt_cluster *cluster = job->cluster;
    const struct gt_numa *numa = gt_class_numa(cluster->classes[cluster->class[node]]);
    uint64_t available = gt_draft_available(job, node);
    unsigned most = asked->sizes[!numa->by_pod] ? count : 0;
    if (asked->any && asked->equal[!numa->by_pod]) {
        unsigned pods = gt_numa_pods(cluster, node, available, asked->pod), gpus = asked->pod.gpus;
        return pods == gt_core_slots(gpus, count) ? count : pods * gpus; /* an idle node stays one */
    }
    for (uint64_t left = asked->sizes[!numa->by_pod]; left; left &= left - 1) {
        unsigned gpus = gt_bit_first(left) + 1;
        unsigned pods = gt_numa_pods(cluster, node, available, (struct gt_numa_pod){gpus, 0});
        if (numa->count > 2 && gpus > gt_numa_largest(numa)) /* it may take parts of several */
            return 0;
        most = pods * gpus < most ? pods * gpus : most;
    }
    return most;
}

/* On nodes whose kubelets judge NUMA nodes, only pods that these admit have room. */
static void draft_numa(struct job *job)
{
    const struct gt_cluster *cluster = job->cluster;
    struct numa_asked asked;
    if (cluster->numa_nodes)
        numa_ask(job, &asked);
    for (uint32_t n = 0; cluster->numa_nodes && n < cluster->node_count; n++) {
        const struct gt_numa *numa = gt_class_numa(cluster->classes[cluster->class[n]]);
        unsigned count = gt_draft_count(job, n);
        if (!count || !numa->count || (asked.open && !numa->by_pod))
            continue;
        unsigned most = numa_room(job, n, &asked, count);
        if (most < count)
            draft_set(job, n, gt_draft_available(job, n), most);
    }
}

/* Which of the GPUs a job that never takes slow ones may use. A kubelet that judges NUMA nodes may give any
 * of them, so none while it has slow ones. */
static uint64_t draft_never_slow(const struct gt_cluster *cluster, uint32_t node, uint64_t mask)
{
    bool any = mask & cluster->slow[node];
    return any && gt_numa_judges(cluster, node) ? 0 : mask & ~cluster->slow[node];
}

static void draft_slow(struct job *job)
{
    const struct gt_cluster *cluster = job->cluster;
    for (uint32_t n = gt_core_next_slow(cluster, 0); n != GT_NONE; n = gt_core_next_slow(cluster, n + 1)) {
        uint64_t mask = draft_never_slow(cluster, n, gt_draft_available(job, n));
        draft_set(job, n, mask, gt_core_bits(mask));
    }
}

void gt_draft_begin(struct job *job)
{
    struct gt_cluster *cluster = job->cluster;
    const struct gt_node_set changed = changed_nodes(cluster);
    job->any_open = false;
    gt_core_refresh_chain(cluster);
    for (uint32_t n = gt_node_set_next(&changed, cluster->draft_low * 64); n != GT_NONE;
         n = gt_node_set_next(&changed, n + 1))
        cluster->draft_count[n] = cluster->count[n];
    for (uint32_t word = cluster->draft_low; word < cluster->draft_high; word++)
        cluster->draft_changed[word] = 0;
    cluster->draft_low = gt_core_words(cluster->node_count);
    cluster->draft_high = 0;
    memcpy(job->nodes_with, cluster->nodes_with, sizeof(job->nodes_with));
    memcpy(job->idle_with, cluster->idle_with, sizeof(job->idle_with));
    for (unsigned i = 0; i < ROOMS; i++)
        job->rooms[i].gpus = 0;
    for (uint32_t n = 0; job->freed && n < cluster->node_count; n++)
        if (job->freed[n] && cluster->usable[n]) {
            uint64_t mask = (cluster->free[n] | job->freed[n]) & cluster->healthy[n] & ~cluster->assumed[n];
            draft_set(job, n, mask, gt_core_bits(mask));
        }
    if (job->slow == GT_SLOW_NEVER)
        draft_slow(job);
    draft_numa(job);
    /* Fewer may be used than are available: which of them a pod gets is decided later. */
    for (uint32_t i = 0; i < job->limit_count; i++) {
        const struct gt_plan_limit *limit = &job->limits[i];
        if (gt_core_has_node(cluster, limit->node) && gt_draft_count(job, limit->node) > limit->gpus)
            draft_set(job, limit->node, gt_draft_available(job, limit->node), limit->gpus);
    }
    for (uint32_t n = next_excluded(job, 0); n != GT_NONE; n = next_excluded(job, n + 1))
        draft_set(job, n, 0, 0);
}

static void whole_without_slow(const struct job *job, unsigned gpus, uint32_t *whole)
{
    const struct gt_cluster *cluster = job->cluster;
    for (uint32_t n = gt_core_next_slow(cluster, 0); n != GT_NONE; n = gt_core_next_slow(cluster, n + 1))
        if (!gt_node_set_has(job->excluded, n))
            whole[cluster->super[n]] -=
                gt_core_slots(gpus, cluster->usable[n]) -
                gt_core_slots(gpus, gt_core_bits(draft_never_slow(cluster, n, cluster->healthy[n])));
}

/* The room of whole supernodes without excluded nodes, and without slow GPUs where the job takes none. */
static const uint32_t *without_excluded(const struct job *job, const uint32_t *whole, unsigned gpus,
                                        uint32_t *to)
{
    uint32_t node = next_excluded(job, 0);
    bool never = job->slow == GT_SLOW_NEVER;
    if (node == GT_NONE && !never)
        return whole;
    memcpy(to, whole, job->cluster->super_count * sizeof(*to));
    if (never)
        whole_without_slow(job, gpus, to);
    for (; node != GT_NONE; node = next_excluded(job, node + 1))
        to[job->cluster->super[node]] -= gt_core_slots(gpus, job->cluster->usable[node]);
    return to;
}

const struct room *gt_draft_room(struct job *job, unsigned place, unsigned gpus)
{
    struct gt_cluster *cluster = job->cluster;
    struct room *room = &job->rooms[place];
    room->gpus = 0;
    unsigned t = gpus && gpus <= GT_GPUS_MAX ? gt_core_track(cluster, gpus) : SLOT_SIZES;
    if (t == SLOT_SIZES)
        return NULL;
    *room = (struct room){.gpus = gpus, .count = cluster->super_count};
    if (!room->count)
        return room;
    size_t capacity = cluster->super_capacity;
    room->slots = cluster->scratch + (SPREAD_SCRATCH + 2 * place) * capacity;
    memcpy(room->slots, cluster->slots[t], room->count * sizeof(*room->slots));
    const struct gt_node_set changed = changed_nodes(cluster);
    for (uint32_t n = gt_node_set_next(&changed, cluster->draft_low * 64); n != GT_NONE;
         n = gt_node_set_next(&changed, n + 1))
        room->slots[cluster->super[n]] +=
            gt_core_slots(gpus, cluster->draft_count[n]) - gt_core_slots(gpus, cluster->count[n]);
    room->whole = without_excluded(job, cluster->whole[t], gpus, room->slots + capacity);
    return room;
}

uint32_t gt_pod_super(const struct job *job, uint32_t pod)
{
    uint32_t node = job->pods[pod].place.node;
    return gt_core_has_node(job->cluster, node) ? job->cluster->super[node] : GT_NONE;
}

bool gt_run_is_placed(const struct job *job, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (!job->pods[i].running && job->pods[i].place.node == GT_NONE)
            return false;
    return true;
}

bool gt_run_has_started(const struct job *job, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; job->any_running && i < first + count; i++)
        if (job->pods[i].running && gt_pod_super(job, i) != GT_NONE)
            return true;
    return false;
}

bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit, const struct gt_plan_unit *kind)
{
    return gt_unit_is_kind(unit, kind) && !gt_run_is_placed(job, unit->first, unit->pods) &&
           !gt_run_has_started(job, unit->first, unit->pods);
}

uint32_t gt_unit_mark_supernodes(const struct job *job, const struct gt_plan_unit *unit, uint32_t *ret_shared)
{
    struct gt_cluster *cluster = job->cluster;
    uint32_t count = 0, shared = GT_NONE, stamp = gt_core_stamp(cluster);
    for (uint32_t pod = unit->first; pod < unit->first + unit->pods; pod++) {
        uint32_t super = gt_pod_super(job, pod);
        if (super == GT_NONE || cluster->mark[super] == stamp)
            continue;
        cluster->mark[super] = stamp;
        if (count++ == 0)
            shared = super;
        while (shared != GT_NONE && !gt_core_is_below(cluster, super, shared))
            shared = cluster->supers[shared].parent;
    }
    *ret_shared = shared;
    return count;
}

void gt_run_touch(struct job *job, uint32_t super)
{
    struct gt_cluster *cluster = job->cluster;
    for (; super != GT_NONE && cluster->touched[super] != job->touch; super = cluster->supers[super].parent) {
        cluster->touched[super] = job->touch;
        job->any_touched = true;
    }
}
