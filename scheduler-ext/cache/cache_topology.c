/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"
#include "topology/model/node_json.h"

/* NodeGPUTopology: what a node's agent tells of its GPUs and who has them. */

struct facts {
    struct gt_class *class;
    const char *product;
    char **device_ids;
    uint64_t healthy, health_unknown, free, used, owned;
    struct cache_owner *owners;
    uint32_t owner_count;
    bool usage_known, left_alone, links_down;
    unsigned gpus;
    uint8_t bit_of[GT_GPUS_MAX]; /* number in the object -> bit */
};

static void drop_owners(struct gt_cache *cache, struct cache_owner *owners, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        gt_cache_string_drop(cache, owners[i].namespace_);
        gt_cache_string_drop(cache, owners[i].pod);
    }
    gt_cache_release(&cache->bytes, owners);
}

static void drop_facts(struct gt_cache *cache, struct facts *facts)
{
    gt_class_unref(facts->class);
    gt_cache_string_drop(cache, facts->product);
    gt_cache_release(&cache->bytes, facts->device_ids);
    drop_owners(cache, facts->owners, facts->owner_count);
}

/* GPUs may stand in any order in the object; links, owners and free ones mean their `index`. */
static bool read_numbers(const cJSON *gpus, const struct gt_node *node, struct facts *facts)
{
    unsigned position = 0;
    memset(facts->bit_of, GT_GPUS_MAX, sizeof(facts->bit_of));
    for (const cJSON *item = gpus->child; item; item = item->next, position++) {
        bool bad = false;
        unsigned index = position, bit = 0;
        char bdf[GT_BDF_SIZE];
        const cJSON *number = gt_cache_get(item, "index");
        const char *text = gt_cache_get_text(item, "bdf", 64, &bad);
        if (number && !gt_cache_quantity(number, GT_GPUS_MAX - 1, &index))
            return false;
        if (!text || !gt_bdf_normalise(text, bdf))
            return false;
        while (bit < node->gpu_count && strcmp(node->gpus[bit].bdf, bdf) != 0)
            bit++;
        if (bit == node->gpu_count || index >= node->gpu_count)
            return false;
        facts->bit_of[index] = (uint8_t)bit;
    }
    return true;
}

/* The bit of a GPU that the object names by its number. */
static bool read_bit(const cJSON *json, const struct facts *facts, uint64_t *ret)
{
    unsigned index;
    if (!cJSON_IsNumber(json) || !gt_cache_quantity(json, GT_GPUS_MAX - 1, &index) || index >= facts->gpus ||
        facts->bit_of[index] >= facts->gpus)
        return false;
    *ret = UINT64_C(1) << facts->bit_of[index];
    return true;
}

static bool read_free(const cJSON *status, struct facts *facts)
{
    const cJSON *array = gt_cache_get(status, "free");
    if (!array)
        return true;
    if (!cJSON_IsArray(array))
        return false;
    facts->usage_known = true;
    uint64_t bit;
    for (const cJSON *item = array->child; item; item = item->next) {
        if (!read_bit(item, facts, &bit))
            return false;
        facts->free |= bit;
    }
    return true;
}

/* Owners of GPUs as pods: a pod is listed once, whichever of its containers has a GPU. */
static int add_owner(struct gt_cache *cache, struct facts *facts, const char *namespace_, const char *pod,
                     uint64_t bit)
{
    if (facts->owned & bit)
        return 0; /* has an owner already */
    facts->owned |= bit;
    for (uint32_t i = 0; i < facts->owner_count; i++)
        if (strcmp(facts->owners[i].pod, pod) == 0 && strcmp(facts->owners[i].namespace_, namespace_) == 0) {
            facts->owners[i].mask |= bit;
            return 0;
        }
    struct cache_owner *owner = &facts->owners[facts->owner_count++];
    *owner = (struct cache_owner){gt_cache_string(cache, namespace_), gt_cache_string(cache, pod), bit};
    return owner->namespace_ && owner->pod ? 0 : -ENOMEM;
}

static bool read_owners(struct gt_cache *cache, const cJSON *status, struct facts *facts)
{
    const cJSON *array = gt_cache_get(status, "owners");
    if (!array)
        return true;
    int count = cJSON_GetArraySize(array);
    if (!cJSON_IsArray(array) || count > GT_GPUS_MAX)
        return false;
    if (!count)
        return true;
    facts->owners = gt_cache_alloc(&cache->bytes, (size_t)count * sizeof(*facts->owners));
    if (!facts->owners)
        return false;
    for (const cJSON *item = array->child; item; item = item->next) {
        bool bad = false;
        uint64_t bit;
        const char *namespace_ = gt_cache_get_text(item, "namespace", GT_CLUSTER_NAME_MAX, &bad);
        const char *pod = gt_cache_get_text(item, "pod", GT_CLUSTER_NAME_MAX, &bad);
        if (!namespace_ || !pod || !read_bit(gt_cache_get(item, "gpu"), facts, &bit) ||
            add_owner(cache, facts, namespace_, pod, bit) < 0)
            return false;
    }
    return true;
}

static bool read_links_down(const cJSON *status)
{
    const cJSON *conditions = gt_cache_get(status, "conditions");
    for (const cJSON *item = cJSON_IsArray(conditions) ? conditions->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *type = gt_cache_get_text(item, "type", 64, &bad);
        const char *value = gt_cache_get_text(item, "status", 64, &bad);
        if (type && value && strcmp(type, "LinksHealthy") == 0)
            return strcmp(value, "False") == 0;
    }
    return false;
}

/* One block: pointers and the texts behind them. */
static bool make_device_ids(struct gt_cache *cache, const struct gt_node *node, struct facts *facts)
{
    char ids[GT_GPUS_MAX][GT_ID_SIZE];
    size_t size = node->gpu_count * sizeof(char *);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        gt_gpu_device_id(&node->gpus[i], ids[i]);
        size += strlen(ids[i]) + 1;
    }
    facts->device_ids = gt_cache_alloc(&cache->bytes, size);
    if (!facts->device_ids)
        return false;
    char *to = (char *)(facts->device_ids + node->gpu_count);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        size_t len = strlen(ids[i]) + 1;
        facts->device_ids[i] = memcpy(to, ids[i], len);
        to += len;
    }
    return true;
}

static bool read_facts(struct gt_cache *cache, const cJSON *status, struct facts *facts)
{
    gt_auto_node struct gt_node *node = NULL;
    if (gt_node_from_json(status, "status", &node, NULL) < 0)
        return false;
    facts->gpus = node->gpu_count;
    facts->healthy = gt_node_usable(node);
    facts->health_unknown = gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN);
    facts->left_alone = gt_node_not_advertised(node) != NULL;
    facts->links_down = read_links_down(status);
    if (!node->gpu_count)
        return true;
    if (!read_numbers(gt_cache_get(status, "gpus"), node, facts) || !read_free(status, facts) ||
        !read_owners(cache, status, facts) || !make_device_ids(cache, node, facts))
        return false;
    if (node->gpus[0].product[0] && !(facts->product = gt_cache_string(cache, node->gpus[0].product)))
        return false;
    struct gt_weights weights;
    gt_weights_of(node, &weights);
    if (gt_class_cache_get(cache->classes, &weights, &facts->class, NULL) < 0)
        return false;
    facts->used = facts->owned | (facts->usage_known ? facts->healthy & ~facts->free : 0);
    return true;
}

/* When the owners were last written, by the API server's clock as pods' ages are. */
static uint64_t owners_since(const cJSON *object)
{
    const cJSON *managers = gt_cache_get(gt_cache_get(object, "metadata"), "managedFields");
    uint64_t latest = 0;
    for (const cJSON *item = cJSON_IsArray(managers) ? managers->child : NULL; item; item = item->next) {
        bool bad = false;
        const cJSON *fields = gt_cache_get(gt_cache_get(item, "fieldsV1"), "f:status");
        uint64_t at = gt_cache_time(gt_cache_get_text(item, "time", 64, &bad));
        if (gt_cache_get(fields, "f:owners") && at > latest)
            latest = at;
    }
    return latest;
}

static bool same_ids(const struct cache_node *node, const struct facts *facts)
{
    if (!node->has_topology || gt_class_gpus(node->class) != facts->gpus)
        return false;
    for (unsigned i = 0; i < facts->gpus; i++)
        if (strcmp(node->device_ids[i], facts->device_ids[i]) != 0)
            return false;
    return true;
}

void gt_cache_forget_topology(struct gt_cache *cache, struct cache_node *node)
{
    if (!node->has_topology)
        return;
    struct facts old = {.class = node->class,
                        .product = node->product,
                        .device_ids = node->device_ids,
                        .owners = node->owners,
                        .owner_count = node->owner_count};
    drop_facts(cache, &old);
    node->class = NULL;
    node->product = NULL;
    node->device_ids = NULL;
    node->owners = NULL;
    node->owner_count = 0;
    node->has_topology = false;
    node->resource_version = 0;
    node->stale = false;
    node->devices_version++;
}

static void commit(struct gt_cache *cache, struct cache_node *node, const cJSON *object, struct facts *facts)
{
    bool bad = false;
    const char *version = gt_cache_get_text(gt_cache_get(object, "metadata"), "resourceVersion", 64, &bad);
    uint64_t digest = version ? gt_digest_mix_text(cache->seed, version) | 1 : 0;
    /* A list that is read again brings the same object: the agent was not heard by that. */
    if (!node->has_topology || !digest || digest != node->resource_version)
        node->heard_ms = cache->now_ms;
    uint64_t heard_ms = node->heard_ms;
    uint32_t versions = node->devices_version;
    bool same = same_ids(node, facts);
    gt_cache_forget_topology(cache, node);
    node->devices_version = same ? versions : versions + 1;
    node->heard_ms = heard_ms;
    node->resource_version = digest;
    node->has_topology = true;
    node->class = facts->class;
    node->product = facts->product;
    node->device_ids = facts->device_ids;
    node->owners = facts->owners;
    node->owner_count = facts->owner_count;
    node->healthy = facts->healthy;
    node->health_unknown = facts->health_unknown;
    node->used = facts->used;
    node->owned = facts->owned;
    node->left_alone = facts->left_alone;
    node->links_down = facts->links_down;
    node->owners_since_s = owners_since(object);
    node->stale = cache->now_ms - heard_ms > cache->spec.stale_ms;
}

static void lose_topology(struct gt_cache *cache, const char *name)
{
    struct cache_node *node = gt_cache_find_node(cache, name);
    if (!node || !node->has_topology)
        return;
    gt_cache_forget_topology(cache, node);
    gt_cache_recompute(cache, node);
    gt_cache_node_forget(cache, node);
}

void gt_cache_topology(struct gt_cache *cache, const cJSON *object, uint64_t now_ms)
{
    const char *name = gt_cache_name_of(object);
    if (now_ms > cache->now_ms)
        cache->now_ms = now_ms;
    const cJSON *status = gt_cache_get(object, "status"), *gpus = gt_cache_get(status, "gpus");
    if (name && (!status || !gpus)) /* its agent has made it and not filled it yet */
        lose_topology(cache, name);
    else {
        struct facts facts = {0};
        bool sound = name && cJSON_IsArray(gpus) && read_facts(cache, status, &facts);
        struct cache_node *node = sound && facts.gpus ? gt_cache_node_record(cache, name) : NULL;
        if (node) {
            commit(cache, node, object, &facts);
            gt_cache_recompute(cache, node);
        } else {
            drop_facts(cache, &facts);
            if (sound && !facts.gpus)
                lose_topology(cache, name);
            else
                cache->refused++;
        }
    }
    gt_cache_notify(cache);
}

void gt_cache_topology_gone(struct gt_cache *cache, const char *name)
{
    lose_topology(cache, name);
    gt_cache_notify(cache);
}
