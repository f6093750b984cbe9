/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"

enum { AHEAD_MS = 30000 };

struct object_key {
    const char *namespace_, *name;
};

static uint32_t hash_of(const char *namespace_, const char *name)
{
    return gt_digest_hash(gt_digest_keyed(namespace_) * 31 + gt_digest_keyed(name));
}

static bool is_named(const void *item, const void *key)
{
    const struct placement_object *object = item;
    const struct object_key *wanted = key;
    return strcmp(object->namespace_, wanted->namespace_) == 0 && strcmp(object->name, wanted->name) == 0;
}

struct placement_object *gt_placement_object_find(const struct placement_objects *objects,
                                                  const char *namespace_, const char *name)
{
    return gt_table_find(&objects->table, hash_of(namespace_, name), is_named,
                         &(struct object_key){namespace_, name});
}

static void free_object(struct placement_object *object)
{
    gt_gpu_placement_free(object->content);
    free(object->namespace_);
    free(object->name);
    free(object);
}

struct placement_object *gt_placement_object_get(struct placement_objects *objects, const char *namespace_,
                                                 const char *name)
{
    struct placement_object *object = gt_placement_object_find(objects, namespace_, name);
    if (object || objects->table.count >= GT_PLACEMENT_OBJECTS_MAX)
        return object;
    object = calloc(1, sizeof(*object));
    if (!object)
        return NULL;
    object->namespace_ = strdup(namespace_);
    object->name = strdup(name);
    if (object->namespace_ && object->name &&
        gt_table_add(&objects->table, hash_of(namespace_, name), object) >= 0)
        return object;
    free_object(object);
    return NULL;
}

static uint64_t version_of(const struct gt_gpu_placement *content)
{
    uint64_t version = 0;
    if (content)
        gt_text_to_unsigned(content->resource_version, UINT64_MAX - 1, &version);
    return version;
}

static bool is_same(const struct gt_gpu_placement *a, const struct gt_gpu_placement *b)
{
    return a && b && strcmp(a->uid, b->uid) == 0 && strcmp(a->resource_version, b->resource_version) == 0;
}

static void take(struct placement_object *object, struct gt_gpu_placement *content)
{
    gt_gpu_placement_free(object->content);
    object->content = content;
    if (content && content->epoch > object->epoch)
        object->epoch = content->epoch;
}

bool gt_placement_object_saw(struct placement_object *object, struct gt_gpu_placement *content, uint64_t now)
{
    bool is_ahead = object->ahead_ms > now && !object->relisted;
    object->relisted = false;
    if (content && is_same(object->content, content)) {
        object->ahead_ms = 0; /* the watch has caught up */
        gt_gpu_placement_free(content);
        return false;
    }
    if (is_ahead && version_of(content) < version_of(object->content)) {
        gt_gpu_placement_free(content);
        return false;
    }
    object->ahead_ms = 0;
    object->acknowledged = false;
    take(object, content);
    return true;
}

void gt_placement_object_answered(struct placement_object *object, struct gt_gpu_placement *content,
                                  bool written, uint64_t now)
{
    object->is_unsure = false;
    if (content && object->content && !object->relisted && !is_same(object->content, content) &&
        version_of(content) < version_of(object->content)) {
        gt_gpu_placement_free(content); /* somebody has changed it since, and the watch was faster */
        return;
    }
    if (!is_same(object->content, content))
        object->ahead_ms = now + AHEAD_MS;
    object->acknowledged = written;
    take(object, content);
}

void gt_placement_object_drop(struct placement_objects *objects, struct placement_object *object)
{
    gt_table_remove(&objects->table, hash_of(object->namespace_, object->name), object);
    free_object(object);
}

struct placement_object *gt_placement_objects_next(const struct placement_objects *objects, size_t *slot)
{
    while (*slot < objects->table.size) {
        struct placement_object *object = objects->table.items[(*slot)++];
        if (object)
            return object;
    }
    return NULL;
}

void gt_placement_objects_done(struct placement_objects *objects)
{
    size_t slot = 0;
    for (struct placement_object *object; (object = gt_placement_objects_next(objects, &slot));)
        free_object(object);
    gt_table_done(&objects->table);
}

const struct gt_gpu_placement_pod *gt_placement_object_place(const struct placement_object *object,
                                                             uint32_t rank)
{
    const struct gt_gpu_placement *content = object ? object->content : NULL;
    uint32_t low = 0, high = content ? content->pod_count : 0;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (content->pods[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return content && low < content->pod_count && content->pods[low].rank == rank ? &content->pods[low]
                                                                                  : NULL;
}
