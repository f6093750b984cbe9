/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "api/node.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Node objects: labels, taints, readiness. */

/* Taints that only repeat a node's readiness or cordon. */
static bool is_in_conditions(const char *key)
{
    static const char *const keys[] = {GT_TAINT_KEY_UNSCHEDULABLE, GT_TAINT_KEY_NOT_READY,
                                       GT_TAINT_KEY_UNREACHABLE};
    return GT_HAS_TEXT(keys, GT_COUNT(keys), key);
}

static void cache_node_drop_facts(struct gt_cache *cache, struct cache_node_facts *facts)
{
    for (uint32_t i = 0; i < facts->label_count; i++) {
        gt_cache_string_drop(cache, facts->labels[i].key);
        gt_cache_string_drop(cache, facts->labels[i].value);
    }
    for (uint32_t i = 0; i < facts->taint_count; i++)
        gt_cache_taint_drop(cache, facts->taints[i]);
    gt_cache_string_drop(cache, facts->uid);
    free(facts->labels);
    free(facts->taints);
    *facts = (struct cache_node_facts){0};
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct cache_label *)a)->key, ((const struct cache_label *)b)->key);
}

static bool make_labels(struct gt_cache *cache, const struct gt_node_object *object,
                        struct cache_node_facts *facts)
{
    if (!object->label_count)
        return true;
    facts->labels = calloc(1, object->label_count * sizeof(*facts->labels));
    if (!facts->labels)
        return false;
    for (unsigned i = 0; i < object->label_count; i++) {
        struct cache_label *label = &facts->labels[facts->label_count++];
        *label = (struct cache_label){gt_cache_string(cache, object->labels[i].key),
                                      gt_cache_string(cache, object->labels[i].value)};
        if (!label->key || !label->value)
            return false;
    }
    qsort(facts->labels, facts->label_count, sizeof(*facts->labels), by_key);
    return true;
}

/* Keeps the taints that repel pods. */
static bool make_taints(struct gt_cache *cache, const struct gt_node_object *object,
                        struct cache_node_facts *facts)
{
    for (unsigned i = 0; i < object->taint_count; i++) {
        const struct gt_node_taint *reported = &object->taints[i];
        bool hard = strcmp(reported->effect, "NoSchedule") == 0 || strcmp(reported->effect, "NoExecute") == 0;
        if (!hard || is_in_conditions(reported->key))
            continue;
        if (facts->taint_count == GT_CACHE_TAINTS_MAX)
            return false;
        if (!facts->taints)
            facts->taints = calloc(1, object->taint_count * sizeof(struct cache_taint *));
        struct cache_taint *taint =
            facts->taints ? gt_cache_taint(cache, reported->key, reported->value, reported->effect) : NULL;
        if (!taint)
            return false;
        facts->taints[facts->taint_count++] = taint;
    }
    return true;
}

void gt_cache_forget_labels(struct gt_cache *cache, struct cache_node *node)
{
    node->has_node = false;
    node->gpu_taint = GT_NODE_TAINT_NONE;
    gt_cache_count_taints(node);
    cache_node_drop_facts(cache, &node->object);
    node->ready = node->cordoned = node->has_gpus = false;
    node->created_s = 0;
    node->allocatable = -1;
}

static bool same_taints(const struct cache_node *node, const struct cache_node_facts *facts)
{
    if (node->object.taint_count != facts->taint_count)
        return false;
    for (uint32_t i = 0; i < facts->taint_count; i++) /* equal ones are shared */
        if (node->object.taints[i] != facts->taints[i])
            return false;
    return true;
}

static bool same_labels(const struct cache_node *node, const struct cache_node_facts *facts)
{
    if (node->object.label_count != facts->label_count || !same_taints(node, facts))
        return false;
    for (uint32_t i = 0; i < facts->label_count; i++) /* equal texts are shared */
        if (node->object.labels[i].key != facts->labels[i].key ||
            node->object.labels[i].value != facts->labels[i].value)
            return false;
    return true;
}

/* Since when it is not Ready. Changes that are seen here get the time of our clock, since clocks differ. */
static void time_unready(const struct gt_cache *cache, struct cache_node *node,
                         const struct gt_node_object *object)
{
    bool lasts = node->has_node && !node->ready;
    if (!object->ready && !lasts) {
        node->unready_ms = cache->now_ms;
        node->unready_s = node->has_node ? 0 : object->ready_s;
    }
}

static enum gt_node_taints gpu_taint(const struct gt_node_object *object)
{
    const struct gt_node_taint *taint = GT_FIND(object->taints, object->taint_count, key, GT_TAINT_KEY_GPUS);
    return !taint                                     ? GT_NODE_TAINT_NONE
           : strcmp(taint->effect, "NoSchedule") == 0 ? GT_NODE_TAINT_HARD
                                                      : GT_NODE_TAINT_SOFT;
}

static void cache_node_commit(struct gt_cache *cache, struct cache_node *node,
                              const struct gt_node_object *object, const struct cache_node_facts *facts)
{
    uint64_t allocatable;
    if (!node->has_node || !same_labels(node, facts))
        cache->more_room = true; /* pods may fit now that did not before */
    bool reported = node->has_node && node->ready == object->ready && same_taints(node, facts);
    time_unready(cache, node, object);
    gt_cache_forget_labels(cache, node);
    node->has_node = true;
    node->is_gone = false;
    node->object = *facts;
    node->gpu_taint = gpu_taint(object);
    node->ready = object->ready;
    node->cordoned = object->cordoned;
    gt_cache_set_reserved(cache, &node->reserved, object->reserved);
    node->has_gpus = object->gpus > 0;
    node->created_s = object->created_s;
    node->allocatable =
        gt_resources_get(&object->allocatable, GT_RESOURCE_GPU, &allocatable) ? (int64_t)allocatable : -1;
    if (!cache->spec.reports_only)
        gt_cache_set_allocatable(cache, node->row, &object->allocatable);
    gt_cache_count_taints(node);
    gt_cache_recompute(cache, node);
    if (!reported)
        gt_cache_node_changed(cache, node);
}

static void cache_node_put(struct gt_cache *cache, const struct gt_node_object *object)
{
    struct cache_node_facts facts = {0};
    bool whole = cache->spec.reports_only ||
                 (make_labels(cache, object, &facts) && make_taints(cache, object, &facts) &&
                  (!*object->uid || (facts.uid = gt_cache_string(cache, object->uid))));
    struct cache_node *node = whole ? gt_cache_node_record(cache, object->name) : NULL;
    if (node && gt_cache_set_supernode_label(cache, node, object)) {
        cache_node_commit(cache, node, object, &facts);
        return;
    }
    if (node)
        gt_cache_node_forget(cache, node);
    cache_node_drop_facts(cache, &facts);
    cache->refused++;
}

void gt_cache_node(struct gt_cache *cache, const cJSON *json)
{
    gt_auto_node_object struct gt_node_object object = {0};
    if (gt_node_object_read(json, GT_RESOURCE_GPU, &object, NULL) < 0)
        cache->refused++;
    else
        cache_node_put(cache, &object);
    gt_cache_notify(cache);
}

void gt_cache_node_deleted(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    if (node && node->has_node) {
        gt_cache_forget_labels(cache, node);
        gt_cache_set_reserved(cache, &node->reserved, NULL);
        gt_cache_set_allocatable(cache, node->row, NULL);
        gt_cache_forget_report_labels(cache, node);
        cache->reports_changed = true;
        node->is_gone = true;
        gt_cache_recompute(cache, node);
        gt_cache_node_changed(cache, node);
        gt_cache_node_forget(cache, node);
    }
    gt_cache_notify(cache);
}
