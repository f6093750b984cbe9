/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/publish_text.h"
#include "base/bits.h"
#include "base/json_write.h"
#include "topology/model/node_json.h"

static void begin_object(const char *node_name, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "topology.metax-tech.com/v1alpha1");
    gt_json_add_text(to, "kind", "NodeGPUTopology");
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "name", node_name);
}

void gt_publish_write_object(const char *node_name, const char *uid, struct gt_buf *to)
{
    begin_object(node_name, to);
    gt_json_begin(to, "ownerReferences", '[');
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "v1");
    gt_json_add_text(to, "kind", "Node");
    gt_json_add_text(to, "name", node_name);
    gt_json_add_text(to, "uid", uid);
    gt_buf_puts(to, "}]}}");
}

static bool add_number(cJSON *to, const char *key, unsigned number)
{
    return cJSON_AddNumberToObject(to, key, number) != NULL;
}

static bool add_count(cJSON *to, const char *key, uint64_t mask)
{
    return add_number(to, key, gt_bit_count(mask));
}

/* The recording's name, if any, gives way to the node's that is published. */
static bool set_name(cJSON *status, const char *node_name)
{
    cJSON *name = cJSON_CreateString(node_name);
    if (!name)
        return false;
    bool done = cJSON_HasObjectItem(status, "name")
                    ? cJSON_ReplaceItemInObjectCaseSensitive(status, "name", name)
                    : cJSON_InsertItemInArray(status, 0, name);
    if (!done)
        cJSON_Delete(name);
    return done;
}

static bool set_conditions(cJSON *status, const struct gt_condition *conditions)
{
    cJSON *list = gt_conditions_json(conditions);
    if (list && cJSON_AddItemToObject(status, "conditions", list))
        return true;
    cJSON_Delete(list);
    return false;
}

bool gt_publish_write_wiring(const char *node_name, const struct gt_node *node,
                             const struct gt_condition conditions[static GT_CONDITIONS], const char *at,
                             struct gt_buf *to)
{
    cJSON *status = gt_node_to_json(node);
    bool whole = status && set_name(status, node_name) && add_number(status, "gpuCount", node->gpu_count) &&
                 add_count(status, "healthyCount", gt_node_with_health(node, GT_GPU_HEALTHY)) &&
                 add_count(status, "unknownCount", gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN)) &&
                 set_conditions(status, conditions) &&
                 (!at || cJSON_AddStringToObject(status, "observedAt", at));
    char *text = whole ? cJSON_PrintUnformatted(status) : NULL;
    cJSON_Delete(status);
    if (!text)
        return false;
    begin_object(node_name, to);
    gt_json_end(to, '}');
    gt_json_add_raw(to, "status", text);
    gt_json_end(to, '}');
    cJSON_free(text);
    return true;
}

static void write_counts(const char *key, const uint32_t *values, unsigned count, struct gt_buf *to)
{
    gt_json_begin(to, key, '[');
    for (unsigned k = 1; k <= count; k++)
        gt_json_add_unsigned(to, NULL, values[k]);
    gt_json_end(to, ']');
}

static void write_owners(const struct gt_usage *usage, struct gt_buf *to)
{
    gt_json_begin(to, "owners", '[');
    for (unsigned i = 0; i < usage->gpu_count; i++) {
        const struct gt_usage_owner *owner = &usage->owners[i];
        if (!(usage->used >> i & 1) || !owner->namespace[0] || !owner->pod[0] || !owner->container[0])
            continue;
        gt_json_begin(to, NULL, '{');
        gt_json_add_unsigned(to, "gpu", i);
        gt_json_add_text(to, "namespace", owner->namespace);
        gt_json_add_text(to, "pod", owner->pod);
        gt_json_add_text(to, "container", owner->container);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

bool gt_publish_write_usage(const char *node_name, const struct gt_usage *usage,
                            const struct gt_publish_scores *scores, struct gt_buf *to)
{
    if (!usage || !usage->known)
        return false;
    begin_object(node_name, to);
    gt_json_end(to, '}');
    gt_json_begin(to, "status", '{');
    gt_json_add_mask(to, "free", usage->free);
    gt_json_add_unsigned(to, "freeCount", gt_bit_count(usage->free));
    write_owners(usage, to);
    write_counts("scoreByCount", scores->score, scores->count, to);
    write_counts("lossByCount", scores->loss, scores->count, to);
    gt_buf_puts(to, "}}");
    return true;
}

static uint64_t free_of(const struct gt_inventory *inventory, const struct gt_usage *usage)
{
    uint64_t free = 0;
    if (usage && usage->known)
        return usage->free;
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].gpu >= 0 && inventory->devices[i].healthy)
            free |= UINT64_C(1) << inventory->devices[i].gpu;
    return inventory->device_count ? free : gt_node_usable(inventory->node);
}

/* The searches above 16 GPUs run on the loop's thread, one for each count: their limit for all. */
enum { SEARCH_US = 20000 };

void gt_publish_scores_update(struct gt_publish_scores *scores, const struct gt_inventory *inventory,
                              const struct gt_usage *usage)
{
    uint64_t free = inventory->class ? free_of(inventory, usage) : 0;
    if (scores->class == inventory->class && scores->free == free)
        return;
    gt_publish_scores_done(scores);
    if (!inventory->class)
        return;
    scores->class = gt_class_ref(inventory->class);
    scores->free = free;
    scores->count = gt_bit_count(free);
    for (unsigned k = 1; k <= scores->count; k++) {
        struct gt_choice choice;
        if (gt_choose(scores->class, free, 0, k, SEARCH_US / scores->count, &choice)) {
            scores->score[k] = choice.score;
            scores->loss[k] = choice.loss;
        }
    }
    gt_hami_maps(scores->class, free, &scores->maps);
}

void gt_publish_scores_done(struct gt_publish_scores *scores)
{
    if (scores->class)
        gt_class_unref(scores->class);
    memset(scores, 0, sizeof(*scores));
}
