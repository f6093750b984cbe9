/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* Node objects: labels, taints, readiness. */

/* Taints that only say what a node's readiness and cordon say already. */
static bool is_told_otherwise(const char *key)
{
    static const char *const keys[] = {"node.kubernetes.io/unschedulable", "node.kubernetes.io/not-ready",
                                       "node.kubernetes.io/unreachable"};
    for (size_t i = 0; i < GT_COUNT(keys); i++)
        if (strcmp(key, keys[i]) == 0)
            return true;
    return false;
}

struct facts {
    struct cache_label *labels;
    struct cache_taint *taints[GT_CACHE_TAINTS_MAX];
    uint32_t label_count, taint_count;
    bool ready, cordoned, has_gpus;
};

static void drop_labels(struct gt_cache *cache, struct cache_label *labels, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gt_cache_string_drop(cache, labels[i].key);
        gt_cache_string_drop(cache, labels[i].value);
    }
    gt_cache_release(&cache->bytes, labels);
}

static int by_key(const void *a, const void *b)
{
    return strcmp(((const struct cache_label *)a)->key, ((const struct cache_label *)b)->key);
}

static bool read_labels(struct gt_cache *cache, const cJSON *object, struct facts *facts)
{
    const cJSON *labels = gt_cache_get(gt_cache_get(object, "metadata"), "labels");
    int count = labels ? cJSON_GetArraySize(labels) : 0;
    if (!labels || !count)
        return true;
    if (!cJSON_IsObject(labels) || count > CACHE_LABELS_MAX)
        return false;
    facts->labels = gt_cache_alloc(&cache->bytes, (size_t)count * sizeof(*facts->labels));
    if (!facts->labels)
        return false;
    for (const cJSON *item = labels->child; item; item = item->next) {
        if (!cJSON_IsString(item) || !item->string || !item->valuestring)
            return false;
        struct cache_label *label = &facts->labels[facts->label_count++];
        *label = (struct cache_label){gt_cache_string(cache, item->string),
                                      gt_cache_string(cache, item->valuestring)};
        if (!label->key || !label->value)
            return false;
    }
    qsort(facts->labels, facts->label_count, sizeof(*facts->labels), by_key);
    return true;
}

static bool read_taints(struct gt_cache *cache, const cJSON *spec, struct facts *facts)
{
    const cJSON *taints = gt_cache_get(spec, "taints");
    if (taints && !cJSON_IsArray(taints))
        return false;
    for (const cJSON *item = taints ? taints->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *key = gt_cache_get_text(item, "key", 512, &bad);
        const char *value = gt_cache_get_text(item, "value", 512, &bad);
        const char *effect = gt_cache_get_text(item, "effect", 64, &bad);
        if (bad || !key || !effect)
            return false;
        bool hard = strcmp(effect, "NoSchedule") == 0 || strcmp(effect, "NoExecute") == 0;
        if (!hard || is_told_otherwise(key))
            continue;
        if (facts->taint_count == GT_CACHE_TAINTS_MAX)
            return false;
        struct cache_taint *taint = gt_cache_taint(cache, key, value ? value : "", effect);
        if (!taint)
            return false;
        facts->taints[facts->taint_count++] = taint;
    }
    return true;
}

static bool read_ready(const cJSON *status)
{
    const cJSON *conditions = gt_cache_get(status, "conditions");
    for (const cJSON *item = cJSON_IsArray(conditions) ? conditions->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *type = gt_cache_get_text(item, "type", 512, &bad);
        const char *value = gt_cache_get_text(item, "status", 64, &bad);
        if (type && value && strcmp(type, "Ready") == 0)
            return strcmp(value, "True") == 0;
    }
    return false;
}

static bool read_facts(struct gt_cache *cache, const cJSON *object, struct facts *facts)
{
    const cJSON *spec = gt_cache_get(object, "spec"), *status = gt_cache_get(object, "status");
    const cJSON *capacity = gt_cache_get(gt_cache_get(status, "capacity"), cache->resource);
    unsigned gpus = 0;
    facts->ready = read_ready(status);
    facts->cordoned = cJSON_IsTrue(gt_cache_get(spec, "unschedulable"));
    facts->has_gpus = capacity && gt_cache_quantity(capacity, GT_POD_GPUS_MAX, &gpus) && gpus;
    return read_labels(cache, object, facts) && read_taints(cache, spec, facts);
}

/* Counts the node's taints where pods may come, so that choosy pods are known without asking every node. */
void gt_cache_count_taints(struct cache_node *node)
{
    bool count = gt_cache_is_open(node);
    if (count == node->taints_counted)
        return;
    for (uint32_t i = 0; i < node->taint_count; i++)
        node->taints[i]->ready_nodes += count ? 1 : UINT32_MAX;
    node->taints_counted = count;
}

void gt_cache_forget_labels(struct gt_cache *cache, struct cache_node *node)
{
    node->has_node = false;
    gt_cache_count_taints(node);
    drop_labels(cache, node->labels, node->label_count);
    for (uint32_t i = 0; i < node->taint_count; i++)
        gt_cache_taint_drop(cache, node->taints[i]);
    gt_cache_release(&cache->bytes, node->taints);
    node->labels = NULL;
    node->taints = NULL;
    node->label_count = node->taint_count = 0;
    node->ready = node->cordoned = node->has_gpus = false;
}

static bool same_labels(const struct cache_node *node, const struct facts *facts)
{
    if (node->label_count != facts->label_count || node->taint_count != facts->taint_count)
        return false;
    for (uint32_t i = 0; i < facts->label_count; i++) /* equal texts are one */
        if (node->labels[i].key != facts->labels[i].key || node->labels[i].value != facts->labels[i].value)
            return false;
    for (uint32_t i = 0; i < facts->taint_count; i++)
        if (node->taints[i] != facts->taints[i])
            return false;
    return true;
}

static void drop_facts(struct gt_cache *cache, struct facts *facts)
{
    drop_labels(cache, facts->labels, facts->label_count);
    for (uint32_t i = 0; i < facts->taint_count; i++)
        gt_cache_taint_drop(cache, facts->taints[i]);
}

static void commit(struct gt_cache *cache, struct cache_node *node, const struct facts *facts,
                   struct cache_taint **taints)
{
    if (!node->has_node || !same_labels(node, facts))
        cache->room = true; /* pods may suit now that did not before */
    gt_cache_forget_labels(cache, node);
    node->has_node = true;
    node->labels = facts->labels;
    node->label_count = facts->label_count;
    node->taints = taints;
    node->taint_count = facts->taint_count;
    if (taints)
        memcpy(taints, facts->taints, facts->taint_count * sizeof(struct cache_taint *));
    node->ready = facts->ready;
    node->cordoned = facts->cordoned;
    node->has_gpus = facts->has_gpus;
    gt_cache_count_taints(node);
    gt_cache_recompute(cache, node);
}

void gt_cache_node(struct gt_cache *cache, const cJSON *object)
{
    const char *name = gt_cache_name_of(object);
    struct facts facts = {0};
    bool sound = name && read_facts(cache, object, &facts);
    struct cache_taint **taints =
        sound && facts.taint_count
            ? gt_cache_alloc(&cache->bytes, facts.taint_count * sizeof(struct cache_taint *))
            : NULL;
    struct cache_node *node =
        sound && (taints || !facts.taint_count) ? gt_cache_node_record(cache, name) : NULL;
    if (node)
        commit(cache, node, &facts, taints);
    else {
        gt_cache_release(&cache->bytes, taints);
        drop_facts(cache, &facts);
        cache->refused++;
    }
    gt_cache_notify(cache);
}

void gt_cache_node_gone(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    if (node && node->has_node) {
        gt_cache_forget_labels(cache, node);
        gt_cache_recompute(cache, node);
        gt_cache_node_forget(cache, node);
    }
    gt_cache_notify(cache);
}
