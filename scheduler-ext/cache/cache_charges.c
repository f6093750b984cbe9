/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/jobs/rules.h"

/* What takes other resources of nodes: pods on them, plans of pods, and holds. Each has its node and the
 * request that was taken there, so that exactly this is given back. */

static void charge(struct gt_cache *cache, struct cache_node *node, const struct gt_cache_request *request)
{
    node->refs++;
    gt_cache_charge(cache, node->row, request, 1);
}

static void discharge(struct gt_cache *cache, struct cache_node *node, struct gt_cache_request *request)
{
    gt_cache_charge(cache, node->row, request, -1);
    gt_cache_request_drop(cache, request);
    gt_cache_node_drop(cache, node);
}

/* ---- pods on nodes: most pods of a cluster, so an entry of the table has only 48 bytes ---- */

static uint64_t charges_digest_of(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    return gt_digest_mix_text(gt_digest_mix_text(cache->seed, namespace_), name) | 1;
}

static uint32_t home_of(const struct cache_bound_table *table, uint64_t digest)
{
    return gt_table_home(gt_digest_hash(digest), table->size);
}

/* The index of its entry, or of the empty entry where it would be. */
static struct cache_bound *charges_place_of(const struct cache_bound_table *table, uint64_t digest)
{
    uint32_t i = home_of(table, digest);
    while (table->list[i].digest && table->list[i].digest != digest)
        i = gt_table_next(i, table->size);
    return &table->list[i];
}

static bool charges_has_place(struct cache_bound_table *table)
{
    uint32_t size = gt_table_size_for(table->size, table->count);
    if (size == table->size)
        return true;
    struct cache_bound_table new = {.size = size, .count = table->count};
    new.list = calloc(1, new.size * sizeof(*new.list));
    if (!new.list)
        return false;
    for (uint32_t i = 0; i < table->size; i++)
        if (table->list[i].digest)
            *charges_place_of(&new, table->list[i].digest) = table->list[i];
    free(table->list);
    *table = new;
    return true;
}

/* Takes out the entry, if there is one, and closes the gap, so that no marks of removed pods are needed. */
static bool charges_take_out(struct cache_bound_table *table, uint64_t digest, struct cache_bound *ret)
{
    struct cache_bound *at = table->size ? charges_place_of(table, digest) : NULL;
    if (!at || !at->digest)
        return false;
    uint32_t size = table->size, hole = (uint32_t)(at - table->list);
    *ret = *at;
    for (uint32_t i = gt_table_next(hole, size); table->list[i].digest; i = gt_table_next(i, size)) {
        uint32_t home = home_of(table, table->list[i].digest);
        if (gt_table_distance(home, i, size) >= gt_table_distance(hole, i, size)) {
            table->list[hole] = table->list[i];
            hole = i;
        }
    }
    table->list[hole] = (struct cache_bound){0};
    table->count--;
    return true;
}

void gt_cache_discharge_bound(struct gt_cache *cache, const char *namespace_, const char *name)
{
    uint64_t digest = charges_digest_of(cache, namespace_, name);
    struct cache_bound was;
    if (!charges_take_out(&cache->bound[CACHE_BOUND_PLAIN], digest, &was) &&
        !charges_take_out(&cache->bound[CACHE_BOUND_RULED], digest, &was))
        return;
    discharge(cache, was.node, was.request);
    gt_cache_peers_moved(cache, &was.peers);
    gt_cache_peers_drop(cache, &was.peers);
}

/* Takes over the request and the peers. */
static void charge_bound(struct gt_cache *cache, const struct gt_pod *pod, struct gt_cache_request *request,
                         struct cache_peers *peers)
{
    enum gt_cache_bound_kind kind = peers->rules || peers->uses ? CACHE_BOUND_RULED : CACHE_BOUND_PLAIN,
                             other = kind == CACHE_BOUND_RULED ? CACHE_BOUND_PLAIN : CACHE_BOUND_RULED;
    struct cache_bound_table *table = &cache->bound[kind];
    bool has_place = charges_has_place(table);
    uint64_t digest = charges_digest_of(cache, pod->meta.namespace_, pod->meta.name);
    struct cache_bound *at = has_place ? charges_place_of(table, digest) : NULL;
    struct cache_bound was = at ? *at : (struct cache_bound){0};
    bool same = was.digest && was.request == request && gt_cache_peers_are(&was.peers, peers) &&
                strcmp(was.node->name, pod->node_name) == 0;
    struct cache_node *node = at && !same ? gt_cache_node_record(cache, pod->node_name) : NULL;
    if (!node) {
        gt_cache_request_drop(cache, request);
        gt_cache_peers_drop(cache, peers);
        cache->refused += has_place && !same;
        if (!has_place)
            gt_cache_discharge_bound(cache, pod->meta.namespace_, pod->meta.name);
        return;
    }
    if (!was.digest)
        charges_take_out(&cache->bound[other], digest, &was);
    table->count += !at->digest;
    *at = (struct cache_bound){digest, node, request, *peers};
    charge(cache, node, request);
    gt_cache_peers_moved(cache, peers);
    if (was.digest) {
        discharge(cache, was.node, was.request);
        gt_cache_peers_drop(cache, &was.peers);
    }
}

void gt_cache_charge_bound(struct gt_cache *cache, const struct gt_pod *pod)
{
    struct gt_cache_request *request =
        pod->node_name && !pod->ended ? gt_cache_request_make(cache, &pod->asked, pod->gpus.total > 0) : NULL;
    struct cache_peers peers = {0};
    if (!request)
        gt_cache_discharge_bound(cache, pod->meta.namespace_, pod->meta.name);
    else if (gt_cache_peers_of(cache, pod, &peers) != -ENOMEM)
        charge_bound(cache, pod, request, &peers);
    else {
        gt_cache_request_drop(cache, request);
        gt_cache_peers_drop(cache, &peers);
        cache->refused++;
    }
}

/* ---- plans ---- */

void gt_cache_discharge_plan(struct gt_cache *cache, struct cache_pod *pod)
{
    struct cache_node *node = pod->charged;
    pod->charged = NULL;
    if (node) {
        *(pod->charged_previous ? &pod->charged_previous->charged_next : &cache->charged) = pod->charged_next;
        if (pod->charged_next)
            pod->charged_next->charged_previous = pod->charged_previous;
        discharge(cache, node, pod->charged_request);
    }
    gt_cache_count_ordered(cache, pod);
}

void gt_cache_charge_plan(struct gt_cache *cache, struct cache_pod *pod)
{
    bool assumed = pod->pub.plan == GT_CACHE_PLAN_ASSUMED && !pod->at && pod->plan && pod->request;
    struct cache_node *node = assumed ? pod->plan->node : NULL;
    if (node == pod->charged && (!node || pod->charged_request == pod->request))
        return;
    if (node)
        charge(cache, node, pod->request);
    gt_cache_discharge_plan(cache, pod);
    pod->charged = node;
    pod->charged_request = node ? gt_cache_request_ref(pod->request) : NULL;
    pod->charged_previous = NULL;
    pod->charged_next = node ? cache->charged : NULL;
    if (pod->charged_next)
        pod->charged_next->charged_previous = pod;
    cache->charged = node ? pod : cache->charged;
    gt_cache_count_ordered(cache, pod);
}

/* ---- pods that do not exist ---- */

const struct gt_cache_request *gt_cache_pod_request(const struct gt_cache_pod *pod)
{
    return ((const struct cache_pod *)pod)->request;
}

void gt_cache_asked(const struct gt_cache *cache, const struct gt_cache_pod *pod, struct gt_mix_amounts *ret)
{
    *ret = (struct gt_mix_amounts){.gpus = pod->gpus,
                                   .requests = pod->meta.requests,
                                   .slow = gt_job_slow_use(gt_pod_annotation(&pod->meta, GT_KEY_SLOW))};
    gt_cache_request_amounts(cache, gt_cache_pod_request(pod), ret);
}

const struct gt_cache_request *gt_cache_coming_request(const struct gt_cache_job *job, unsigned gpus)
{
    const struct gt_cache_request *most = NULL;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        const struct gt_cache_request *request = gt_cache_pod_request(pod);
        if (pod->gpus == gpus && request && gt_cache_request_is_above(request, most))
            most = request;
    }
    return most;
}

struct gt_cache_reserve {
    struct cache_node *node;
    struct gt_cache_request *request;
};

struct gt_cache_reserve *gt_cache_reserve(struct gt_cache *cache, const struct gt_cache_job *job,
                                          uint32_t node_id, unsigned gpus)
{
    struct cache_node *node = gt_cache_node_of(cache, node_id);
    const struct gt_cache_request *request = node ? gt_cache_coming_request(job, gpus) : NULL;
    struct gt_cache_reserve *reserve = request ? calloc(1, sizeof(*reserve)) : NULL;
    if (!reserve)
        return NULL;
    *reserve = (struct gt_cache_reserve){node, gt_cache_request_ref(request)};
    charge(cache, node, request);
    return reserve;
}

bool gt_cache_reserve_is_sound(const struct gt_cache *cache, const struct gt_cache_reserve *reserve)
{
    return !reserve || gt_cache_is_covered(cache, reserve->node->row, reserve->request);
}

void gt_cache_unreserve(struct gt_cache *cache, struct gt_cache_reserve *reserve)
{
    if (!reserve)
        return;
    discharge(cache, reserve->node, reserve->request);
    free(reserve);
}

void gt_cache_charges_done(struct gt_cache *cache)
{
    for (unsigned kind = 0; kind < CACHE_BOUND_KINDS; kind++) {
        struct cache_bound_table *table = &cache->bound[kind];
        for (uint32_t i = 0; i < table->size; i++)
            if (table->list[i].digest) {
                discharge(cache, table->list[i].node, table->list[i].request);
                gt_cache_peers_drop(cache, &table->list[i].peers);
            }
        free(table->list);
    }
}
