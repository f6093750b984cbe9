/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/names.h"
#include "scheduler-ext/cache/cache_internal.h"

/* ResourceClaims that are made for pods and ask for GPUs, or have some. */

struct claim_key {
    const char *namespace_, *name;
};

static bool is_claim(const void *item, const void *key)
{
    const struct cache_claim *claim = item;
    const struct claim_key *wanted = key;
    return strcmp(claim->pub.name, wanted->name) == 0 &&
           strcmp(claim->pub.namespace_, wanted->namespace_) == 0;
}

static bool is_of_pod(const void *item, const void *key)
{
    const struct cache_claim *claim = item;
    const struct gt_cache_pod *pod = key;
    return strcmp(claim->pub.pod, pod->meta.name) == 0 &&
           strcmp(claim->pub.namespace_, pod->meta.namespace_) == 0 &&
           strcmp(claim->pub.pod_uid, pod->uid) == 0;
}

static struct cache_claim *claims_find(const struct gt_cache *cache, const char *namespace_, const char *name)
{
    const struct claim_key key = {namespace_, name};
    return gt_table_find(&cache->claims, gt_cache_pod_hash(cache, namespace_, name), is_claim, &key);
}

const struct gt_cache_claim *gt_cache_find_claim(const struct gt_cache *cache, const char *namespace_,
                                                 const char *name)
{
    const struct cache_claim *claim = claims_find(cache, namespace_, name);
    return claim ? &claim->pub : NULL;
}

const struct gt_cache_claim *gt_cache_claim_of(const struct gt_cache *cache, const struct gt_cache_pod *pod)
{
    uint32_t hash = gt_cache_pod_hash(cache, pod->meta.namespace_, pod->meta.name);
    const struct cache_claim *claim = gt_table_find(&cache->claims_of_pods, hash, is_of_pod, pod);
    return claim ? &claim->pub : NULL;
}

/* ---- what is kept ---- */

static bool claims_is_ours(const struct gt_claim_result *result)
{
    return strcmp(result->driver, GT_DRA_DRIVER) == 0 && !result->admin;
}

static size_t claims_text_size(const char *text)
{
    return strlen(text) + 1;
}

/* The whole object in one block. */
static size_t claims_size_of(const struct gt_resource_claim *from, const char *pod)
{
    size_t size = sizeof(struct cache_claim) + claims_text_size(from->namespace_) +
                  claims_text_size(from->name) + claims_text_size(from->uid) +
                  claims_text_size(from->resource_version) + claims_text_size(pod) +
                  claims_text_size(from->pod_uid);
    for (unsigned i = 0; i < from->request_count; i++)
        size += sizeof(struct gt_cache_claim_request) + claims_text_size(from->requests[i].name);
    for (unsigned i = 0; i < from->result_count; i++)
        size += claims_is_ours(&from->results[i]) ? sizeof(char *) + claims_text_size(from->results[i].device)
                                                  : 0;
    return size;
}

static void claims_fill(const struct gt_resource_claim *from, const char *pod, struct cache_claim *to)
{
    struct gt_cache_claim_request *requests = (struct gt_cache_claim_request *)(to + 1);
    const char **devices = (const char **)(requests + from->request_count);
    unsigned count = 0;
    for (unsigned i = 0; i < from->result_count; i++)
        count += claims_is_ours(&from->results[i]);
    char *at = (char *)(devices + count);
    to->pub = (struct gt_cache_claim){.namespace_ = gt_cache_put_text(&at, from->namespace_),
                                      .name = gt_cache_put_text(&at, from->name),
                                      .uid = gt_cache_put_text(&at, from->uid),
                                      .resource_version = gt_cache_put_text(&at, from->resource_version),
                                      .pod = gt_cache_put_text(&at, pod),
                                      .pod_uid = gt_cache_put_text(&at, from->pod_uid),
                                      .is_protected = from->is_protected,
                                      .is_plain = from->request_count > 0,
                                      .allocated = from->allocated,
                                      .deleting = from->deleting,
                                      .is_reserved = from->pod_count > 0,
                                      .requests = requests,
                                      .request_count = from->request_count};
    for (unsigned i = 0; i < from->request_count; i++) {
        const struct gt_claim_request *request = &from->requests[i];
        requests[i] = (struct gt_cache_claim_request){gt_cache_put_text(&at, request->name), request->count};
        to->pub.is_plain =
            to->pub.is_plain && request->count && strcmp(request->device_class, GT_DRA_CLASS) == 0;
    }
    to->devices = devices;
    for (unsigned i = 0; i < from->result_count; i++)
        if (claims_is_ours(&from->results[i]))
            devices[to->device_count++] = gt_cache_put_text(&at, from->results[i].device);
}

static const char *claims_node_of(const struct gt_resource_claim *claim)
{
    for (unsigned i = 0; i < claim->result_count; i++)
        if (claims_is_ours(&claim->results[i]))
            return claim->results[i].pool; /* the pool of our driver has the node's name */
    return NULL;
}

/* ---- adding and removing ---- */

static void claims_report(struct gt_cache *cache, const struct cache_claim *claim)
{
    struct cache_pod *pod = gt_cache_pod_named(cache, claim->pub.namespace_, claim->pub.pod);
    if (pod)
        gt_cache_changed(cache, pod);
}

static void claims_take_out(struct gt_cache *cache, struct cache_claim *claim)
{
    struct cache_node *node = claim->at;
    gt_table_remove(&cache->claims, claim->hash, claim);
    gt_table_remove(&cache->claims_of_pods, claim->pod_hash, claim);
    if (node)
        CACHE_UNLINK(&node->allocated, claim, node_next);
    claims_report(cache, claim);
    free(claim);
    if (!node)
        return;
    gt_cache_recompute(cache, node);
    gt_cache_node_drop(cache, node);
}

static void claims_put_in(struct gt_cache *cache, const struct gt_resource_claim *from)
{
    const char *node = claims_node_of(from);
    /* Where it was not created for a pod, the first pod that it is reserved for. */
    const char *pod = *from->pod || !from->pod_count ? from->pod : from->pods[0];
    struct cache_claim *claim = calloc(1, claims_size_of(from, pod));
    if (!claim) {
        cache->refused++;
        return;
    }
    claims_fill(from, pod, claim);
    claim->hash = gt_cache_pod_hash(cache, from->namespace_, from->name);
    claim->pod_hash = gt_cache_pod_hash(cache, from->namespace_, pod);
    bool whole = gt_table_add(&cache->claims, claim->hash, claim) == 0;
    if (whole && gt_table_add(&cache->claims_of_pods, claim->pod_hash, claim) < 0) {
        gt_table_remove(&cache->claims, claim->hash, claim);
        whole = false;
    }
    if (!whole) {
        cache->refused++;
        free(claim);
        return;
    }
    claim->at = node ? gt_cache_node_record(cache, node) : NULL;
    if (claim->at) {
        claim->at->refs++;
        claim->node_next = claim->at->allocated;
        claim->at->allocated = claim;
        gt_cache_recompute(cache, claim->at);
    }
    claims_report(cache, claim);
}

void gt_cache_claim(struct gt_cache *cache, const cJSON *object)
{
    struct gt_resource_claim claim;
    if (gt_resource_claim_read(object, &claim, NULL) < 0) {
        cache->refused++;
        return;
    }
    struct cache_claim *old = claims_find(cache, claim.namespace_, claim.name);
    if (old)
        claims_take_out(cache, old);
    if (GT_FIND(claim.requests, claim.request_count, device_class, GT_DRA_CLASS) || claims_node_of(&claim))
        claims_put_in(cache, &claim);
    gt_cache_notify(cache);
}

void gt_cache_claim_deleted(struct gt_cache *cache, const char *namespace_, const char *name)
{
    struct cache_claim *claim = claims_find(cache, namespace_, name);
    if (claim)
        claims_take_out(cache, claim);
    gt_cache_notify(cache);
}

void gt_cache_claims_done(struct gt_cache *cache)
{
    for (struct cache_claim *next = gt_table_after(&cache->claims, 0, NULL), *claim; (claim = next);) {
        next = gt_table_after(&cache->claims, claim->hash, claim);
        free(claim);
    }
    gt_table_done(&cache->claims);
    gt_table_done(&cache->claims_of_pods);
}

/* ---- its GPUs ---- */

bool gt_cache_claim_has_gpus(const struct gt_cache_claim *claim, uint32_t node, uint64_t mask)
{
    const struct cache_claim *of = (const struct cache_claim *)claim;
    return claim->allocated && of->at && of->at->id == node && gt_cache_claimed_gpus(of) == mask;
}

const char *const *gt_cache_claim_devices(const struct gt_cache_claim *claim, unsigned *ret_count)
{
    const struct cache_claim *of = (const struct cache_claim *)claim;
    *ret_count = of->device_count;
    return of->devices;
}

const struct gt_cache_claim *gt_cache_claim_conflict(const struct gt_cache_claim *claim)
{
    const struct cache_claim *of = (const struct cache_claim *)claim;
    uint64_t mask = gt_cache_claimed_gpus(of);
    for (const struct cache_claim *other = of->at ? of->at->allocated : NULL; other; other = other->node_next)
        if (other != of && gt_cache_claimed_gpus(other) & mask)
            return &other->pub;
    return NULL;
}

const char *gt_cache_device_name(const struct gt_cache *cache, uint32_t node_id, unsigned gpu)
{
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    return node && node->cr.device_names && gpu < gt_class_gpus(node->cr.class) ? node->cr.device_names[gpu]
                                                                                : NULL;
}
