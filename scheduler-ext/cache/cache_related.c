/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/pod_peers.h"
#include "base/json_get.h"
#include "scheduler-ext/cache/cache_internal.h"

/*
 * Objects that pods refer to. On which nodes pods can use their volumes: a claim names its volume, which
 * names nodes, as local disks do; one without a volume yet names its class, which names the places where
 * volumes are made. Which labels Namespaces have. Which nodes have devices.
 */

static bool related_is(const void *item, const void *key)
{
    const struct cache_related *one = item, *wanted = key;
    return one->kind == wanted->kind && strcmp(one->name, wanted->name) == 0 &&
           strcmp(one->namespace_, wanted->namespace_) == 0;
}

struct cache_related *gt_cache_find_related(const struct gt_cache *cache, enum gt_related_kind kind,
                                            const char *namespace_, const char *name)
{
    const struct cache_related wanted = {.kind = kind, .namespace_ = namespace_, .name = name};
    return gt_table_find(&cache->related, gt_cache_pod_hash(cache, namespace_, name), related_is, &wanted);
}

static void related_free(struct gt_cache *cache, struct cache_related *related)
{
    gt_cache_string_drop(cache, related->namespace_);
    gt_cache_string_drop(cache, related->name);
    gt_cache_string_drop(cache, related->of);
    gt_cache_string_drop(cache, related->driver);
    gt_cache_string_drop(cache, related->handle);
    gt_cache_constraints_drop(cache, related->nodes);
    free(related);
}

/* Jobs that wait may have waited for this. */
static void related_changed(struct gt_cache *cache)
{
    cache->more_room |= cache->peers_asked;
    gt_cache_notify(cache);
}

static bool cache_related_has_limits(const struct cache_related *related)
{
    return related->kind == GT_RELATED_CSI_NODE && *related->of;
}

static bool related_add(struct gt_cache *cache, enum gt_related_kind kind, const struct gt_related *related,
                        const char *unfit)
{
    struct cache_related *one = calloc(1, sizeof(*one));
    if (!one)
        return false;
    *one = (struct cache_related){.kind = kind,
                                  .hash = gt_cache_pod_hash(cache, related->namespace_, related->name),
                                  .namespace_ = gt_cache_string(cache, related->namespace_),
                                  .name = gt_cache_string(cache, related->name),
                                  .of = gt_cache_string(cache, related->of),
                                  .driver = gt_cache_string(cache, related->driver),
                                  .handle = gt_cache_string(cache, related->handle),
                                  .is_bound = related->is_bound,
                                  .is_late = related->is_late,
                                  .is_many = related->is_many,
                                  .closeness = related->closeness,
                                  .count = related->count,
                                  .unfit = unfit};
    gt_cache_related_deleted(cache, kind, related->namespace_, related->name);
    if (one->namespace_ && one->name && one->of && one->driver && one->handle && *one->name &&
        gt_cache_constraints_of(cache, &related->nodes, &one->nodes) == 0 &&
        gt_table_add(&cache->related, one->hash, one) == 0) {
        cache->attach_limits += cache_related_has_limits(one);
        return true;
    }
    related_free(cache, one);
    return false;
}

void gt_cache_related(struct gt_cache *cache, enum gt_related_kind kind, const cJSON *object)
{
    struct gt_related read = {0};
    struct gt_claim_template template = {0};
    int r = gt_related_read(kind, object, &read);
    if (r >= 0 && kind == GT_RELATED_DEVICE_TEMPLATE)
        r = gt_claim_template_read(object, &template, NULL);
    read.count = template.gpus ? template.gpus : read.count;
    if (r < 0 || !related_add(cache, kind, &read, template.unfit))
        cache->refused++;
    gt_related_done(&read);
    related_changed(cache);
}

void gt_cache_related_deleted(struct gt_cache *cache, enum gt_related_kind kind, const char *namespace_,
                              const char *name)
{
    struct cache_related *gone = gt_cache_find_related(cache, kind, namespace_ ? namespace_ : "", name);
    if (!gone)
        return;
    gt_table_remove(&cache->related, gone->hash, gone);
    cache->attach_limits -= cache_related_has_limits(gone);
    related_free(cache, gone);
    related_changed(cache);
}

void gt_cache_set_related(struct gt_cache *cache, enum gt_related_kind kind, enum gt_cache_reading known)
{
    enum gt_cache_reading *of = kind == GT_RELATED_NAMESPACE      ? &cache->namespaces_known
                                : kind == GT_RELATED_DEVICE_CLAIM ? &cache->devices_known
                                                                  : &cache->volumes_known;
    if (*of == known)
        return; /* each failure of an informer says it again */
    *of = known;
    related_changed(cache);
}

void gt_cache_related_done(struct gt_cache *cache)
{
    for (struct cache_related *next = gt_table_after(&cache->related, 0, NULL), *one; (one = next);) {
        next = gt_table_after(&cache->related, one->hash, one);
        related_free(cache, one);
    }
    gt_table_done(&cache->related);
}

bool gt_cache_wants_volumes(const struct gt_cache *cache, const struct gt_pod *pod)
{
    return cache->volumes_known == GT_NOT_READ && pod->gpus.total && !pod->node_name &&
           gt_pod_uses_claims(pod->spec);
}

bool gt_cache_wants_devices(const struct gt_cache *cache, const struct gt_pod *pod)
{
    return cache->devices_known == GT_NOT_READ && pod->gpus.total && !pod->node_name &&
           gt_pod_uses_devices(pod->spec);
}

bool gt_cache_wants_namespaces(const struct gt_cache *cache)
{
    return cache->namespaces_wanted && cache->namespaces_known == GT_NOT_READ;
}

/* ---- questions ---- */

bool gt_cache_find_claim_template(const struct gt_cache *cache, const char *namespace_, const char *name,
                                  struct gt_claim_template *ret)
{
    const struct cache_related *found =
        gt_cache_find_related(cache, GT_RELATED_DEVICE_TEMPLATE, namespace_, name);
    if (found)
        *ret = (struct gt_claim_template){.namespace_ = found->namespace_,
                                          .name = found->name,
                                          .asks = found->count || found->unfit,
                                          .gpus = found->count,
                                          .unfit = found->unfit};
    return found;
}

enum gt_closeness gt_cache_namespace_closeness(const struct gt_cache *cache, const char *name)
{
    const struct cache_related *found = gt_cache_find_related(cache, GT_RELATED_NAMESPACE, "", name);
    return found ? found->closeness : GT_CLOSENESS_UNSAID;
}

bool gt_cache_term_matches(const struct gt_cache *cache, const struct gt_pod_peers *peers,
                           const struct gt_peer_term *term, const char *labels)
{
    char name[256];
    const struct cache_related *of = NULL;
    if (term->of_namespace && cache->namespaces_known == GT_IS_READ) {
        snprintf(name, sizeof(name), "%.*s", (int)strcspn(labels, "\n"), labels);
        of = gt_cache_find_related(cache, GT_RELATED_NAMESPACE, "", name);
    }
    return gt_peer_term_matches(peers, term, labels, of ? of->of : NULL);
}

/* Each once: those of most volumes are the same. With more than there is room for the pod waits. */
static void add_node_rule(const struct gt_pod_rules *nodes, struct gt_volume_rules *to)
{
    for (unsigned i = 0; i < to->count; i++)
        if (to->of[i] == nodes)
            return;
    if (to->count < GT_COUNT(to->of))
        to->of[to->count++] = nodes;
    else
        to->unbound = true;
}

/* What it is bound to, or made by; NULL: not known. */
static const struct cache_related *maker_of(const struct gt_cache *cache, const struct cache_related *claim)
{
    return claim ? gt_cache_find_related(cache, claim->is_bound ? GT_RELATED_VOLUME : GT_RELATED_CLASS, "",
                                         claim->of)
                 : NULL;
}

static void add_claim_rules(const struct gt_cache *cache, const char *namespace_, const cJSON *names,
                            struct gt_volume_rules *to)
{
    for (const cJSON *name = names ? names->child : NULL; name; name = name->next) {
        const struct cache_related *claim =
            gt_cache_find_related(cache, GT_RELATED_CLAIM, namespace_, cJSON_GetStringValue(name));
        const struct cache_related *of = maker_of(cache, claim);
        to->unbound |= !of || (!claim->is_bound && !of->is_late); /* a volume may be told after its claim */
        if (of && of->nodes)
            add_node_rule(of->nodes, to);
    }
}

/* Of ResourceClaims that have devices; one that is to be made for the pod may get any. */
static void add_device_rules(const struct gt_cache *cache, const char *namespace_, const cJSON *devices,
                             struct gt_volume_rules *to)
{
    for (const cJSON *item = devices ? devices->child : NULL; item; item = item->next) {
        const char *name = gt_get_string(item, "claim");
        const struct cache_related *claim =
            gt_cache_find_related(cache, GT_RELATED_DEVICE_CLAIM, namespace_, name);
        to->unbound |= *name && !claim;
        if (claim && claim->nodes)
            add_node_rule(claim->nodes, to);
    }
}

void gt_cache_volume_rules(const struct gt_cache *cache, const struct gt_pod_peers *peers, bool own,
                           struct gt_volume_rules *to)
{
    to->unread = ((peers->claims || peers->own) && cache->volumes_known == GT_BEING_READ) ||
                 (peers->devices && cache->devices_known == GT_BEING_READ);
    if (cache->volumes_known == GT_IS_READ) {
        add_claim_rules(cache, peers->of, peers->claims, to);
        if (own)
            add_claim_rules(cache, peers->of, peers->own, to);
    }
    if (cache->devices_known == GT_IS_READ)
        add_device_rules(cache, peers->of, peers->devices, to);
}

bool gt_cache_volumes_fit(const struct gt_volume_rules *rules, const struct cache_node *node)
{
    for (unsigned i = 0; i < rules->count; i++)
        if (!gt_cache_labels_fit(rules->of[i], node, NULL))
            return false;
    return !rules->unread && !rules->unbound;
}

bool gt_cache_attached(const struct gt_cache *cache, const char *namespace_, const char *name,
                       const char **ret_driver, const void **ret_volume)
{
    const struct cache_related *claim = gt_cache_find_related(cache, GT_RELATED_CLAIM, namespace_, name);
    const struct cache_related *of = maker_of(cache, claim);
    if (!of || !*of->driver)
        return false;
    *ret_driver = of->driver;
    *ret_volume = claim->is_bound ? (const void *)of->handle : claim;
    return true;
}

uint32_t gt_cache_attach_limit(const struct gt_cache *cache, const struct cache_node *node,
                               const char *driver)
{
    const struct cache_related *of = gt_cache_find_related(cache, GT_RELATED_CSI_NODE, "", node->name);
    size_t len = strlen(driver);
    for (const char *line = of ? of->of : ""; *line; line += strcspn(line, "\n") + 1)
        if (strncmp(line, driver, len) == 0 && line[len] == '=')
            return (uint32_t)strtoul(line + len + 1, NULL, 10);
    return INT32_MAX;
}
