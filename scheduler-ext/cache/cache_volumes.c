/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/pod_peers.h"
#include "scheduler-ext/cache/cache_internal.h"

/*
 * On which nodes pods can use their volumes: a claim names its volume, which names nodes, as local disks do;
 * one without a volume yet names its class, which names the places where volumes are made.
 */
struct cache_volume {
    enum gt_volume_kind kind;
    uint32_t hash;
    const char *namespace_, *name; /* namespace_: "" for all but claims */
    const char *of;                /* of a claim: the volume, else the class, "" where it has none */
    bool is_bound;                 /* it is the volume */
    bool is_late;                  /* a class: a claim is bound when its pod is */
    struct gt_pod_rules *nodes;    /* NULL: all */
};

static bool volumes_is(const void *item, const void *key)
{
    const struct cache_volume *one = item, *wanted = key;
    return one->kind == wanted->kind && strcmp(one->name, wanted->name) == 0 &&
           strcmp(one->namespace_, wanted->namespace_) == 0;
}

static struct cache_volume *volumes_find(const struct gt_cache *cache, enum gt_volume_kind kind,
                                         const char *namespace_, const char *name)
{
    const struct cache_volume wanted = {.kind = kind, .namespace_ = namespace_, .name = name};
    return gt_table_find(&cache->volumes, gt_cache_pod_hash(cache, namespace_, name), volumes_is, &wanted);
}

static void volumes_free(struct gt_cache *cache, struct cache_volume *one)
{
    gt_cache_string_drop(cache, one->namespace_);
    gt_cache_string_drop(cache, one->name);
    gt_cache_string_drop(cache, one->of);
    gt_cache_constraints_drop(cache, one->nodes);
    gt_cache_release(&cache->bytes, one);
}

/* Jobs that wait may have waited for this. */
static void volumes_changed(struct gt_cache *cache)
{
    cache->room |= cache->volumes_asked;
    cache->volumes_asked = false;
    gt_cache_notify(cache);
}

static bool volumes_add(struct gt_cache *cache, enum gt_volume_kind kind, const struct gt_volume *read)
{
    struct cache_volume *one = gt_cache_alloc(&cache->bytes, sizeof(*one));
    if (!one)
        return false;
    *one = (struct cache_volume){.kind = kind,
                                 .hash = gt_cache_pod_hash(cache, read->namespace_, read->name),
                                 .namespace_ = gt_cache_string(cache, read->namespace_),
                                 .name = gt_cache_string(cache, read->name),
                                 .of = gt_cache_string(cache, read->of),
                                 .is_bound = read->is_bound,
                                 .is_late = read->is_late};
    gt_cache_volume_deleted(cache, kind, read->namespace_, read->name);
    if (one->namespace_ && one->name && one->of && *one->name &&
        gt_cache_constraints_of(cache, &read->nodes, &one->nodes) == 0 &&
        gt_table_add(&cache->volumes, one->hash, one) == 0)
        return true;
    volumes_free(cache, one);
    return false;
}

void gt_cache_volume(struct gt_cache *cache, enum gt_volume_kind kind, const cJSON *object)
{
    struct gt_volume read = {0};
    if (gt_volume_read(kind, object, &read) < 0 || !volumes_add(cache, kind, &read))
        cache->refused++;
    gt_volume_done(&read);
    volumes_changed(cache);
}

void gt_cache_volume_deleted(struct gt_cache *cache, enum gt_volume_kind kind, const char *namespace_,
                             const char *name)
{
    struct cache_volume *gone = volumes_find(cache, kind, namespace_ ? namespace_ : "", name);
    if (!gone)
        return;
    gt_table_remove(&cache->volumes, gone->hash, gone);
    volumes_free(cache, gone);
    volumes_changed(cache);
}

void gt_cache_set_volumes(struct gt_cache *cache, enum gt_volumes_known known)
{
    cache->volumes_known = known;
    volumes_changed(cache);
}

void gt_cache_volumes_done(struct gt_cache *cache)
{
    for (struct cache_volume *next = gt_table_after(&cache->volumes, 0, NULL), *one; (one = next);) {
        next = gt_table_after(&cache->volumes, one->hash, one);
        volumes_free(cache, one);
    }
    gt_table_done(&cache->volumes);
}

bool gt_cache_wants_volumes(const struct gt_cache *cache, const struct gt_pod *pod)
{
    return cache->volumes_known == GT_VOLUMES_IGNORED && pod->gpus.total && !pod->node_name &&
           gt_pod_uses_claims(pod->spec);
}

/* ---- questions ---- */

static void add_claim_rules(const struct gt_cache *cache, const char *namespace_, const cJSON *names,
                            struct gt_volume_rules *to)
{
    for (const cJSON *name = names ? names->child : NULL; name; name = name->next) {
        const struct cache_volume *claim =
            volumes_find(cache, GT_VOLUME_CLAIM, namespace_, cJSON_GetStringValue(name));
        const struct cache_volume *of =
            claim ? volumes_find(cache, claim->is_bound ? GT_VOLUME : GT_VOLUME_CLASS, "", claim->of) : NULL;
        to->unbound |= !claim || (!claim->is_bound && (!*claim->of || (of && !of->is_late)));
        if (of && of->nodes && to->count < GT_COUNT(to->of))
            to->of[to->count++] = of->nodes;
    }
}

void gt_cache_volume_rules(const struct gt_cache *cache, const struct gt_pod_peers *peers, bool own,
                           struct gt_volume_rules *to)
{
    to->unread = cache->volumes_known == GT_VOLUMES_UNREAD;
    if (cache->volumes_known != GT_VOLUMES_KNOWN)
        return;
    add_claim_rules(cache, peers->of, peers->claims, to);
    if (own)
        add_claim_rules(cache, peers->of, peers->own, to);
}

bool gt_cache_volumes_fit(const struct gt_volume_rules *rules, const struct cache_node *node)
{
    for (unsigned i = 0; i < rules->count; i++)
        if (!gt_cache_labels_fit(rules->of[i], node, NULL))
            return false;
    return !rules->unread && !rules->unbound;
}
