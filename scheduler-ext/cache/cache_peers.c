/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/pod_peers.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/cache/peers.h"

/* What pods ask of the pods around them is read once and shared by all that ask for the same. */

static bool peers_is(const void *item, const void *key)
{
    return strcmp(((const struct gt_pod_peers *)item)->text, key) == 0;
}

static void count_terms(struct gt_cache *cache, const struct gt_pod_peers *peers, uint32_t by)
{
    bool apart = false;
    for (unsigned i = 0; i < peers->term_count; i++)
        apart |= peers->terms[i].kind == GT_PEER_TERM_APART;
    cache->peers_apart += apart ? by : 0;
}

static int share(struct gt_cache *cache, const char *text, struct gt_pod_peers **ret)
{
    uint32_t hash = gt_cache_hash(cache, text);
    struct gt_pod_peers *peers = gt_table_find(&cache->peers, hash, peers_is, text);
    int r = peers ? 0 : gt_pod_peers_read(text, &peers);
    if (r >= 0 && !peers->refs) {
        r = gt_table_add(&cache->peers, hash, peers);
        if (r < 0)
            gt_pod_peers_free(peers);
        else {
            peers->hash = hash;
            cache->namespaces_wanted |= peers->of_namespaces;
            count_terms(cache, peers, 1);
        }
    }
    if (r < 0)
        return r;
    peers->refs++;
    *ret = peers;
    return 0;
}

int gt_cache_peers_of(struct gt_cache *cache, const struct gt_pod *pod, struct cache_peers *ret)
{
    gt_auto_free char *text = NULL;
    gt_auto_free char *uses = NULL;
    gt_auto_free char *labels = gt_peer_labels_text(pod->meta.namespace_, pod->labels);
    int r = gt_pod_claims_text(pod->spec, pod->meta.namespace_, pod->meta.name, &uses);
    *ret =
        (struct cache_peers){.labels = gt_cache_string(cache, labels), .uses = gt_cache_string(cache, uses)};
    const char *name = pod->node_name || !pod->gpus.total ? NULL : pod->meta.name; /* volumes matter before */
    if (!ret->labels || r < 0 || (uses && !ret->uses))
        return -ENOMEM;
    r = gt_pod_peers_text(pod->spec, pod->meta.namespace_, name, pod->labels, &text);
    if (r >= 0 && text)
        r = share(cache, text, &ret->rules);
    return r;
}

bool gt_cache_peers_are(const struct cache_peers *a, const struct cache_peers *b)
{
    return a->rules == b->rules && a->labels == b->labels && a->uses == b->uses;
}

void gt_cache_peers_drop(struct gt_cache *cache, struct cache_peers *peers)
{
    struct gt_pod_peers *rules = peers->rules;
    gt_cache_string_drop(cache, peers->labels);
    gt_cache_string_drop(cache, peers->uses);
    if (rules && !--rules->refs) {
        gt_table_remove(&cache->peers, rules->hash, rules);
        count_terms(cache, rules, UINT32_MAX);
        gt_pod_peers_free(rules);
    }
    *peers = (struct cache_peers){0};
}

void gt_cache_peers_moved(struct gt_cache *cache, const struct cache_peers *peers)
{
    if (!cache->peers_by_labels && !(cache->peers_asked && (peers->rules || peers->uses)))
        return;
    cache->more_room = true;
    cache->peers_asked = cache->peers_by_labels = false;
}

bool gt_cache_pod_has_peers(const struct gt_cache *cache, const struct gt_cache_pod *pod)
{
    const struct cache_peers *own = &((const struct cache_pod *)pod)->peers;
    struct gt_volume_rules volumes = {0};
    if (own->rules) /* volumes that can be used everywhere are no rule */
        gt_cache_volume_rules(cache, own->rules, true, &volumes);
    if (own->rules &&
        (own->rules->port_count || own->rules->term_count || volumes.unread || volumes.unbound ||
         volumes.count || (cache->attach_limits && (own->rules->claims || own->rules->own)) ||
         (own->rules->devices && cache->devices_known == GT_IS_READ)))
        return true;
    if (!cache->peers_apart)
        return false;
    for (const struct gt_pod_peers *peers = gt_table_after(&cache->peers, 0, NULL); peers;
         peers = gt_table_after(&cache->peers, peers->hash, peers))
        for (unsigned t = 0; t < peers->term_count; t++)
            if (peers->terms[t].kind == GT_PEER_TERM_APART &&
                gt_cache_term_matches(cache, peers, &peers->terms[t], own->labels))
                return true;
    return false;
}

/* ---- pods that are planned and not bound ---- */

void gt_cache_count_ordered(struct gt_cache *cache, struct cache_pod *pod)
{
    const struct gt_pod_peers *peers = pod->charged ? pod->peers.rules : NULL;
    bool ordered = false;
    for (unsigned t = 0; peers && t < peers->term_count; t++)
        ordered |= peers->terms[t].kind != GT_PEER_TERM_APART;
    cache->ordered_plans += ordered && !pod->ordered;
    cache->ordered_plans -= !ordered && pod->ordered;
    pod->ordered = ordered;
}

bool gt_cache_has_ordered(const struct gt_cache *cache)
{
    return cache->ordered_plans > 0;
}

bool gt_cache_means_member(const struct gt_cache *cache, const struct gt_pod_peers *peers,
                           const struct gt_peer_term *term, const struct gt_cache_peer_member *members,
                           uint32_t count)
{
    const char *last = NULL;
    for (uint32_t i = 0; i < count; i++) {
        const struct cache_pod *pod = (const struct cache_pod *)members[i].pod;
        if (!pod || members[i].counted || pod->peers.labels == last)
            continue;
        last = pod->peers.labels;
        if (gt_cache_term_matches(cache, peers, term, last))
            return true;
    }
    return false;
}

/* Pods for which it counts whether others are bound before: those that are spread, and those that begin
 * where none is of what their affinity asks for, as long as that is nowhere. */
static bool waits_for_order(const struct gt_cache *cache, const struct cache_pod *pod,
                            const struct gt_peer_term *term)
{
    return term->kind == GT_PEER_TERM_SPREAD ||
           (term->kind == GT_PEER_TERM_TOGETHER &&
            gt_cache_term_matches(cache, pod->peers.rules, term, pod->peers.labels));
}

const struct gt_cache_pod *gt_cache_awaited(const struct gt_cache *cache,
                                            const struct gt_cache_peer_member *members, uint32_t count)
{
    const struct gt_cache_job *job = NULL;
    for (uint32_t i = 0; i < count && !job; i++)
        job = members[i].pod ? members[i].pod->job : NULL;
    for (const struct cache_pod *pod = cache->ordered_plans ? cache->charged : NULL; pod;
         pod = pod->charged_next) {
        const struct gt_pod_peers *peers = pod->peers.rules;
        if (!pod->ordered || !peers || pod->pub.job == job)
            continue;
        for (unsigned t = 0; t < peers->term_count; t++)
            if (waits_for_order(cache, pod, &peers->terms[t]) &&
                gt_cache_means_member(cache, peers, &peers->terms[t], members, count))
                return &pod->pub;
    }
    return NULL;
}
