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
    object->is_part = content && gt_gpu_placement_is_part(content);
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

/* ---- plans ---- */

struct placement_object *gt_placement_object_head(const struct placement_objects *objects,
                                                  struct placement_object *object)
{
    struct placement_object *head =
        object->content && object->content->part_of[0]
            ? gt_placement_object_find(objects, object->namespace_, object->content->part_of)
            : NULL;
    return head ? head : object;
}

bool gt_placement_object_names(const struct placement_object *object, const char *part)
{
    const struct gt_gpu_placement *content = object->content;
    for (uint32_t i = 0; content && i < content->part_count; i++)
        if (strcmp(content->parts[i], part) == 0)
            return true;
    return false;
}

bool gt_placement_object_plan(const struct placement_objects *objects, const struct placement_object *object,
                              struct placement_plan *ret)
{
    const struct gt_gpu_placement *content = object ? object->content : NULL;
    *ret = (struct placement_plan){.count = 0};
    if (content && !content->part_count)
        ret->slices[ret->count++] = content;
    for (uint32_t i = 0; content && i < content->part_count; i++) {
        const struct placement_object *part =
            gt_placement_object_find(objects, object->namespace_, content->parts[i]);
        if (!part || !part->is_part || strcmp(part->content->part_of, object->name) != 0) {
            ret->count = 0;
            return false;
        }
        ret->slices[ret->count++] = part->content;
    }
    return content;
}

static const struct gt_gpu_placement_pod *find_pod(const struct gt_gpu_placement *slice, uint32_t rank)
{
    uint32_t low = 0, high = slice->pod_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (slice->pods[middle].rank < rank)
            low = middle + 1;
        else
            high = middle;
    }
    return low < slice->pod_count && slice->pods[low].rank == rank ? &slice->pods[low] : NULL;
}

const char *gt_placement_plan_place(const struct placement_plan *plan, uint32_t rank, uint64_t *ret_gpus)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct gt_gpu_placement_pod *pod = find_pod(plan->slices[i], rank);
        if (!pod)
            continue;
        *ret_gpus = pod->gpus;
        return plan->slices[i]->nodes[pod->node];
    }
    return NULL;
}
