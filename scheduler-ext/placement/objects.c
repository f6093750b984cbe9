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

static bool objects_is_named(const void *item, const void *key)
{
    const struct placement_object *object = item;
    const struct object_key *wanted = key;
    return strcmp(object->namespace_, wanted->namespace_) == 0 && strcmp(object->name, wanted->name) == 0;
}

struct placement_object *gt_placement_object_find(const struct placement_objects *objects,
                                                  const char *namespace_, const char *name)
{
    return gt_table_find(&objects->table, gt_digest_hash_of_name(namespace_, name), objects_is_named,
                         &(struct object_key){namespace_, name});
}

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

struct placement_object *gt_placement_object_get(struct placement_objects *objects, const char *namespace_,
                                                 const char *name)
{
    struct placement_object *object = gt_placement_object_find(objects, namespace_, name);
    if (object || objects->table.count >= GT_PLACEMENT_OBJECTS_MAX)
        return object;
    size_t namespace_size = strlen(namespace_) + 1, name_size = strlen(name) + 1;
    object = calloc(1, sizeof(*object) + namespace_size + name_size);
    if (!object)
        return NULL;
    object->namespace_ = memcpy(object->names, namespace_, namespace_size);
    object->name = memcpy(object->names + namespace_size, name, name_size);
    if (gt_table_add(&objects->table, gt_digest_hash_of_name(namespace_, name), object) >= 0)
        return object;
    free_object(object);
    return NULL;
}

/* ---- stored objects ---- */

struct placement_known_pod {
    uint64_t gpus;
    uint32_t rank;
    uint32_t node; /* the index of its node's name, from the first pod on */
};

static size_t objects_size_of_texts(const struct gt_gpu_placement *placement)
{
    const char *const texts[] = {placement->uid,           placement->resource_version,
                                 placement->job,           placement->part_of,
                                 placement->reason,        placement->message,
                                 placement->waiting_since, placement->promised_until,
                                 placement->planned_at,    placement->reserved_until,
                                 placement->moving,        placement->moving_before,
                                 placement->moves};
    size_t size = 0;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        size += *texts[i] ? strlen(texts[i]) + 1 : 0;
    for (uint32_t i = 0; i < placement->part_count; i++)
        size += strlen(placement->parts[i]) + 1;
    for (uint32_t i = 0; i < placement->node_count; i++)
        size += strlen(placement->nodes[i]) + 1;
    return size;
}

static const char *objects_put_text(const char *text, char **next)
{
    if (!*text)
        return "";
    size_t size = strlen(text) + 1;
    const char *moved = memcpy(*next, text, size);
    *next += size;
    return moved;
}

static void put_pods(const struct gt_gpu_placement *from, uint32_t *nodes, struct placement_known_pod *to,
                     char **next)
{
    for (uint32_t i = 0; i < from->node_count; i++)
        nodes[i] = (uint32_t)(objects_put_text(from->nodes[i], next) - (const char *)to);
    for (uint32_t i = 0; i < from->pod_count; i++)
        to[i] =
            (struct placement_known_pod){from->pods[i].gpus, from->pods[i].rank, nodes[from->pods[i].node]};
}

/* NULL without memory. */
static struct placement_known *make_known(const struct gt_gpu_placement *from)
{
    gt_auto_free uint32_t *nodes = malloc((from->node_count + 1) * sizeof(*nodes));
    struct placement_known *to = malloc(sizeof(*to) + from->pod_count * sizeof(*to->pods) +
                                        from->part_count * sizeof(*to->parts) + objects_size_of_texts(from));
    if (!nodes || !to) {
        free(to);
        return NULL;
    }
    struct placement_known_pod *pods = (struct placement_known_pod *)(to + 1);
    const char **parts = (const char **)(pods + from->pod_count);
    char *next = (char *)(parts + from->part_count);
    for (uint32_t i = 0; i < from->part_count; i++)
        parts[i] = objects_put_text(from->parts[i], &next);
    put_pods(from, nodes, pods, &next);
    *to = (struct placement_known){
        .uid = objects_put_text(from->uid, &next),
        .resource_version = objects_put_text(from->resource_version, &next),
        .job = objects_put_text(from->job, &next),
        .part_of = objects_put_text(from->part_of, &next),
        .reason = objects_put_text(from->reason, &next),
        .message = objects_put_text(from->message, &next),
        .promised_until = objects_put_text(from->promised_until, &next),
        .waiting_since = objects_put_text(from->waiting_since, &next),
        .planned_at = objects_put_text(from->planned_at, &next),
        .reserved_until = objects_put_text(from->reserved_until, &next),
        .moving = objects_put_text(from->moving, &next),
        .moving_before = objects_put_text(from->moving_before, &next),
        .moves = objects_put_text(from->moves, &next),
        .parts = parts,
        .pods = pods,
        .epoch = from->epoch,
        .pod_count = from->pod_count,
        .part_count = from->part_count,
        .phase = from->phase,
    };
    return to;
}

static uint64_t objects_number_of(const char *version)
{
    uint64_t number = 0;
    gt_text_to_unsigned(version, UINT64_MAX - 1, &number);
    return number;
}

static bool objects_is_same(const struct placement_known *a, const struct gt_gpu_placement *b)
{
    return a && b && strcmp(a->uid, b->uid) == 0 && strcmp(a->resource_version, b->resource_version) == 0;
}

static bool is_newer(const struct placement_known *a, const struct gt_gpu_placement *b)
{
    return a && objects_number_of(a->resource_version) > (b ? objects_number_of(b->resource_version) : 0);
}

static void objects_adopt(struct placement_object *object, const struct gt_gpu_placement *placement)
{
    struct placement_known *known = placement ? make_known(placement) : NULL;
    if (placement && placement->epoch > object->epoch)
        object->epoch = placement->epoch;
    if (placement && !known) {
        object->is_unknown = true;
        object->acknowledged = false;
        return;
    }
    free(object->content);
    object->content = known;
    object->is_part = placement && gt_gpu_placement_is_part(placement);
}

bool gt_placement_object_observe(struct placement_object *object, struct gt_gpu_placement *placement,
                                 uint64_t now)
{
    bool is_ahead = object->ahead_ms > now && !object->relisted;
    gt_auto_free struct gt_gpu_placement *reported = placement;
    object->relisted = false;
    if (objects_is_same(object->content, reported)) {
        object->ahead_ms = 0; /* the watch has caught up */
        return false;
    }
    if (is_ahead && is_newer(object->content, reported))
        return false;
    object->ahead_ms = 0;
    object->acknowledged = false;
    objects_adopt(object, reported);
    return true;
}

void gt_placement_object_answered(struct placement_object *object, struct gt_gpu_placement *placement,
                                  bool written, uint64_t now)
{
    gt_auto_free struct gt_gpu_placement *reported = placement;
    object->is_unknown = false;
    if (reported && !object->relisted && !objects_is_same(object->content, reported) &&
        is_newer(object->content, reported))
        return; /* it was changed since, and the watch was faster */
    if (!objects_is_same(object->content, reported))
        object->ahead_ms = now + AHEAD_MS;
    object->acknowledged = written;
    objects_adopt(object, reported);
}

void gt_placement_object_drop(struct placement_objects *objects, struct placement_object *object)
{
    gt_table_remove(&objects->table, gt_digest_hash_of_name(object->namespace_, object->name), object);
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
    const struct placement_known *content = object->content;
    return content && GT_HAS_TEXT(content->parts, content->part_count, part);
}

bool gt_placement_object_plan(const struct placement_objects *objects, const struct placement_object *object,
                              struct placement_plan *ret)
{
    const struct placement_known *content = object ? object->content : NULL;
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

static const struct placement_known_pod *find_pod(const struct placement_known *slice, uint32_t rank)
{
    size_t low = GT_LOWER_BOUND(i, slice->pod_count, slice->pods[i].rank < rank);
    return low < slice->pod_count && slice->pods[low].rank == rank ? &slice->pods[low] : NULL;
}

const char *gt_placement_plan_place(const struct placement_plan *plan, uint32_t rank, uint64_t *ret_gpus)
{
    for (uint32_t i = 0; i < plan->count; i++) {
        const struct placement_known_pod *pod = find_pod(plan->slices[i], rank);
        if (!pod)
            continue;
        *ret_gpus = pod->gpus;
        return (const char *)plan->slices[i]->pods + pod->node;
    }
    return NULL;
}

const char *gt_placement_plan_at(const struct placement_plan *plan, uint32_t at, uint64_t *ret_gpus)
{
    uint32_t i = 0;
    while (at >= plan->slices[i]->pod_count)
        at -= plan->slices[i++]->pod_count;
    *ret_gpus = plan->slices[i]->pods[at].gpus;
    return (const char *)plan->slices[i]->pods + plan->slices[i]->pods[at].node;
}

uint32_t gt_placement_plan_pods(const struct placement_plan *plan)
{
    uint32_t pods = 0;
    for (uint32_t i = 0; i < plan->count; i++)
        pods += plan->slices[i]->pod_count;
    return pods;
}
