/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/objects.h"

#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"

enum { AHEAD_MS = 30000 };

void gt_placement_object_clear_refusal(struct placement_object *object)
{
    object->refusals = 0;
    free(object->refusal);
    object->refusal = NULL;
}

static void free_object(struct placement_object *object)
{
    free(object->refusal);
    free(object->content);
    free(object);
}

struct placement_object *gt_placement_object_get(struct gt_index *objects, const char *namespace_,
                                                 const char *name)
{
    struct placement_object *object = gt_index_item(objects, namespace_, name);
    if (object || !(object = calloc(1, sizeof(*object))))
        return object;
    struct gt_index_entry *entry = gt_index_add(objects, namespace_, name);
    if (!entry) {
        free(object);
        return NULL;
    }
    object->namespace_ = entry->key;
    object->name = gt_index_name(entry);
    return entry->item = object;
}

/* ---- stored objects ---- */

static uint64_t objects_number_of(const char *version)
{
    uint64_t number = 0;
    gt_text_to_unsigned(version, UINT64_MAX - 1, &number);
    return number;
}

static bool objects_is_same(const struct gt_gpu_placement *a, const struct gt_gpu_placement *b)
{
    return a && b && strcmp(a->uid, b->uid) == 0 && strcmp(a->resource_version, b->resource_version) == 0;
}

static bool is_newer(const struct gt_gpu_placement *a, const struct gt_gpu_placement *b)
{
    return a && objects_number_of(a->resource_version) > (b ? objects_number_of(b->resource_version) : 0);
}

/* Takes over `content`. */
static void objects_take(struct placement_object *object, struct gt_gpu_placement *content)
{
    if (content && content->epoch > object->epoch)
        object->epoch = content->epoch;
    free(object->content);
    object->content = content;
    object->is_part = content && gt_gpu_placement_is_part(content);
}

bool gt_placement_object_observe(struct placement_object *object, struct gt_gpu_placement *content,
                                 uint64_t now)
{
    bool is_ahead = object->ahead_ms > now && !object->relisted;
    gt_auto_free struct gt_gpu_placement *reported = content;
    object->relisted = false;
    if (objects_is_same(object->content, reported)) {
        object->ahead_ms = 0; /* the watch has caught up */
        return false;
    }
    if (is_ahead && is_newer(object->content, reported))
        return false;
    object->ahead_ms = 0;
    object->acknowledged = false;
    objects_take(object, gt_steal(reported));
    return true;
}

void gt_placement_object_answered(struct placement_object *object, struct gt_gpu_placement *content,
                                  bool written, uint64_t now)
{
    gt_auto_free struct gt_gpu_placement *reported = content;
    object->is_unknown = false;
    if (reported && !object->relisted && !objects_is_same(object->content, reported) &&
        is_newer(object->content, reported))
        return; /* it was changed since, and the watch was faster */
    if (!objects_is_same(object->content, reported))
        object->ahead_ms = now + AHEAD_MS;
    object->acknowledged = written;
    objects_take(object, gt_steal(reported));
}

void gt_placement_object_drop(struct gt_index *objects, struct placement_object *object)
{
    struct gt_index_entry *entry = gt_index_take(objects, object->namespace_, object->name);
    free_object(object);
    free(entry);
}

void gt_placement_objects_done(struct gt_index *objects)
{
    size_t slot = 0;
    for (struct placement_object *object; (object = gt_index_next(objects, &slot));)
        free_object(object);
    gt_index_done(objects);
}

/* ---- plans ---- */

struct placement_object *gt_placement_object_head(const struct gt_index *objects,
                                                  struct placement_object *object)
{
    struct placement_object *head = object->content && object->content->part_of[0]
                                        ? gt_index_item(objects, object->namespace_, object->content->part_of)
                                        : NULL;
    return head ? head : object;
}

bool gt_placement_object_names(const struct placement_object *object, const char *part)
{
    const struct gt_gpu_placement *content = object->content;
    return content && GT_HAS_TEXT(content->parts, content->part_count, part);
}

bool gt_placement_object_plan(const struct gt_index *objects, const struct placement_object *object,
                              struct placement_plan *ret)
{
    const struct gt_gpu_placement *content = object ? object->content : NULL;
    *ret = (struct placement_plan){.count = 0};
    if (content && !content->part_count)
        ret->slices[ret->count++] = content;
    for (uint32_t i = 0; content && i < content->part_count; i++) {
        const struct placement_object *part = gt_index_item(objects, object->namespace_, content->parts[i]);
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
    size_t low = GT_LOWER_BOUND(i, slice->pod_count, slice->pods[i].rank < rank);
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

const char *gt_placement_plan_at(const struct placement_plan *plan, uint32_t at, uint64_t *ret_gpus)
{
    uint32_t i = 0;
    while (at >= plan->slices[i]->pod_count)
        at -= plan->slices[i++]->pod_count;
    const struct gt_gpu_placement_pod *pod = &plan->slices[i]->pods[at];
    *ret_gpus = pod->gpus;
    return plan->slices[i]->nodes[pod->node];
}

uint32_t gt_placement_plan_pods(const struct placement_plan *plan)
{
    uint32_t pods = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        pods += plan->slices[i]->pod_count;
    return pods;
}
