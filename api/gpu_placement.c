/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gpu_placement.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_plan.h"
#include "base/err.h"
#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/node.h"

static const char *const phases[GT_GPU_PLACEMENT_PHASES] = {
    [GT_GPU_PLACEMENT_PENDING] = "Pending", [GT_GPU_PLACEMENT_WAITING] = "Waiting",
    [GT_GPU_PLACEMENT_PLACED] = "Placed",   [GT_GPU_PLACEMENT_REFUSED] = "Refused",
    [GT_GPU_PLACEMENT_PART] = "Part",       [GT_GPU_PLACEMENT_STALLED] = "Stalled",
};

const char *gt_gpu_placement_phase_name(enum gt_gpu_placement_phase phase)
{
    return phases[phase];
}

/* ---- texts and numbers ---- */

/* The arrays are those of the reader, the texts those of the object. */
struct placement_reader {
    struct gt_gpu_placement placement;
    struct gt_gpu_placement_template *templates;
    const char **nodes, **units, **parts;
    struct gt_gpu_placement_pod *pods;
};

static void reader_done(struct placement_reader *reader)
{
    free(reader->templates);
    free(reader->nodes);
    free(reader->units);
    free(reader->parts);
    free(reader->pods);
}

static int gpu_placement_read_name(const struct gt_at *at, const cJSON *object, const char *key,
                                   const char **ret)
{
    int r = gt_api_text(at, object, key, GT_API_NAME_MAX, ret);
    return r < 0 || (*ret)[0] ? r : gt_at_fail(at, key, "is missing");
}

static int gpu_placement_read_time(const struct gt_at *at, const cJSON *object, const char *key,
                                   const char **ret)
{
    int r = gt_api_text(at, object, key, GT_TIME_TEXT_SIZE - 1, ret);
    return r < 0 || !(*ret)[0] || gt_time_of_text(*ret) ? r : gt_at_fail(at, key, "is no time");
}

static int gpu_placement_read_priority(const struct gt_at *at, const cJSON *spec, int32_t *ret)
{
    const cJSON *value = gt_get(spec, "priority");
    int64_t number = 0;
    if (value && (!gt_json_is_int(value, &number) || number < INT32_MIN || number > INT32_MAX))
        return gt_at_fail(at, "priority", "expected a whole number of 32 bits");
    *ret = (int32_t)number;
    return 0;
}

/* ---- metadata and spec ---- */

static int gpu_placement_read_metadata(const struct gt_at *above, const cJSON *object,
                                       struct gt_gpu_placement *to)
{
    const struct gt_at at = {above->source, "metadata", above->err};
    const struct gt_at below = {above->source, "metadata.ownerReferences[0]", above->err};
    const cJSON *metadata = gt_get(object, "metadata"), *owner = gt_get(metadata, "ownerReferences");
    GT_TRY(gt_api_meta(above, object, &to->name, &to->resource_version));
    GT_TRY(gpu_placement_read_name(&at, metadata, "namespace", &to->namespace_));
    GT_TRY(gt_api_text(&at, metadata, "uid", GT_API_TEXT_MAX, &to->uid));
    owner = cJSON_IsArray(owner) ? owner->child : NULL;
    if (!owner)
        return 0;
    GT_TRY(gpu_placement_read_name(&below, owner, "apiVersion", &to->owner_api_version));
    GT_TRY(gpu_placement_read_name(&below, owner, "kind", &to->owner_kind));
    GT_TRY(gpu_placement_read_name(&below, owner, "name", &to->owner_name));
    return gpu_placement_read_name(&below, owner, "uid", &to->owner_uid);
}

static int read_template(const struct gt_at *at, const cJSON *item, struct gt_gpu_placement_template *to)
{
    *to = (struct gt_gpu_placement_template){.role = "", .claim = ""};
    if (!cJSON_IsObject(item))
        return gt_at_fail(at, "", "expected an object, is %s", gt_json_type(item));
    GT_TRY(gt_api_text(at, item, "role", GT_API_NAME_MAX, &to->role));
    GT_TRY(gt_get_unsigned(at, item, "pods", GT_OWNER_REPLICAS_MAX, &to->pods));
    GT_TRY(gt_get_unsigned(at, item, "gpus", GT_POD_GPUS_MAX, &to->gpus));
    GT_TRY(gt_get_unsigned(at, item, "groupSize", GT_GPU_PLACEMENT_SIZE_MAX, &to->group));
    GT_TRY(gt_get_unsigned(at, item, "atomicGroupSize", GT_GPU_PLACEMENT_SIZE_MAX, &to->atomic));
    return gt_api_text(at, item, "claimTemplate", GT_API_NAME_MAX, &to->claim);
}

static int read_templates(const struct gt_at *at, const cJSON *spec, struct placement_reader *to)
{
    const cJSON *array;
    unsigned i = 0;
    int r = gt_get_array(at, spec, "templates", GT_GPU_PLACEMENT_TEMPLATES_MAX, &array,
                         &to->placement.template_count);
    if (r < 0 || !to->placement.template_count)
        return r;
    if (!(to->templates = calloc(to->placement.template_count, sizeof(*to->templates))))
        return gt_fail_sys(at->err, ENOMEM, "%s", at->source);
    for (const cJSON *item = array->child; item && r >= 0; item = item->next, i++) {
        char path[32];
        snprintf(path, sizeof(path), "spec.templates[%u]", i);
        r = read_template(&(struct gt_at){at->source, path, at->err}, item, &to->templates[i]);
    }
    to->placement.templates = to->templates;
    return r;
}

static int gpu_placement_read_spec(const struct gt_at *above, const cJSON *spec, struct placement_reader *to)
{
    const struct gt_at at = {above->source, "spec", above->err};
    struct gt_gpu_placement *placement = &to->placement;
    GT_TRY(gt_api_text(&at, spec, "job", GT_GPU_PLACEMENT_JOB_MAX, &placement->job));
    if (!placement->job[0])
        return gt_at_fail(&at, "job", "is missing");
    GT_TRY(gt_api_text(&at, spec, "partOf", GT_API_NAME_MAX, &placement->part_of));
    GT_TRY(read_templates(&at, spec, to));
    GT_TRY(gpu_placement_read_priority(&at, spec, &placement->priority));
    return gt_api_text(&at, spec, "onLostPlan", GT_API_TEXT_MAX, &placement->on_lost_plan);
}

/* ---- the plan ---- */

static int fail_item(const struct gt_at *at, const char *key, unsigned i, const char *wrong)
{
    char path[32];
    snprintf(path, sizeof(path), "%s[%u]", key, i);
    return gt_at_fail(at, path, "%s", wrong);
}

static int read_texts(const struct gt_at *at, const cJSON *status, const char *key, unsigned most, size_t max,
                      const char ***ret, uint32_t *ret_count)
{
    const cJSON *array;
    unsigned count, i = 0;
    int r = gt_get_array(at, status, key, most, &array, &count);
    if (r < 0 || !count)
        return r;
    if (!(*ret = calloc(count, sizeof(**ret))))
        return gt_fail_sys(at->err, ENOMEM, "%s", at->source);
    for (const cJSON *item = array->child; item; item = item->next, i++) {
        const char *text = cJSON_GetStringValue(item);
        if (!text || strnlen(text, max + 1) > max || !gt_text_is_printable(text))
            return fail_item(at, key, i, text ? "is too long, or not printable" : "expected a string");
        (*ret)[i] = text;
    }
    *ret_count = count;
    return 0;
}

/* Takes a number with the colon behind it off the text. */
static bool take_number(const char **text, uint64_t below, uint32_t *ret)
{
    uint64_t number = 0;
    const char *p = *text;
    for (; *p >= '0' && *p <= '9' && number < below; p++)
        number = number * 10 + (uint64_t)(*p - '0');
    if (p == *text || *p != ':' || number >= below)
        return false;
    *text = p + 1;
    *ret = (uint32_t)number;
    return true;
}

/* "0-3,7", up to the end or a colon. */
static bool take_mask(const char **text, uint64_t *ret)
{
    char mask[4 * GT_GPUS_MAX];
    size_t len = strcspn(*text, ":");
    if (!len || len >= sizeof(mask))
        return false;
    memcpy(mask, *text, len);
    mask[len] = '\0';
    if (gt_text_to_mask(mask, GT_GPUS_MAX, "", ret, NULL) < 0)
        return false;
    *text += len;
    return true;
}

/* "rank:unit:node:GPUs", with ":name" behind it where it has one. */
static const char *gpu_placement_read_pod(const char *text, const struct gt_gpu_placement *of,
                                          struct gt_gpu_placement_pod *to)
{
    if (!text)
        return "expected a string";
    if (!take_number(&text, GT_OWNER_REPLICAS_MAX, &to->rank))
        return "the rank is none";
    if (!take_number(&text, of->unit_count, &to->unit))
        return "there is no such unit";
    if (!take_number(&text, of->node_count, &to->node))
        return "there is no such node";
    if (!take_mask(&text, &to->gpus))
        return "the GPUs are none";
    if (!*text)
        return NULL;
    to->name = text + 1;
    size_t len = strnlen(to->name, GT_API_NAME_MAX + 1);
    return !len || len > GT_API_NAME_MAX || !gt_text_is_printable(to->name) ? "the name is none" : NULL;
}

static int gpu_placement_read_pods(const struct gt_at *at, const cJSON *status, struct placement_reader *to)
{
    struct gt_gpu_placement *placement = &to->placement;
    const cJSON *array;
    unsigned count, i = 0;
    int r = gt_get_array(at, status, "pods", GT_GPU_PLACEMENT_PODS_MAX, &array, &count);
    if (r < 0 || !count)
        return r;
    if (!(to->pods = calloc(count, sizeof(*to->pods))))
        return gt_fail_sys(at->err, ENOMEM, "%s", at->source);
    for (const cJSON *item = array->child; item; item = item->next, i++) {
        const char *wrong = gpu_placement_read_pod(cJSON_GetStringValue(item), placement, &to->pods[i]);
        if (!wrong && i && to->pods[i].rank <= to->pods[i - 1].rank)
            wrong = "ranks must ascend";
        if (wrong)
            return fail_item(at, "pods", i, wrong);
    }
    placement->pods = to->pods;
    placement->pod_count = count;
    return 0;
}

static int gpu_placement_read_plan(const struct gt_at *at, const cJSON *status, struct placement_reader *to)
{
    struct gt_gpu_placement *placement = &to->placement;
    GT_TRY(read_texts(at, status, "nodes", GT_GPU_PLACEMENT_PODS_MAX, GT_API_NAME_MAX, &to->nodes,
                      &placement->node_count));
    GT_TRY(read_texts(at, status, "units", GT_GPU_PLACEMENT_PODS_MAX, GT_GPU_PLACEMENT_SUPERS_MAX, &to->units,
                      &placement->unit_count));
    GT_TRY(read_texts(at, status, "parts", GT_GPU_PLACEMENT_PARTS_MAX, GT_API_NAME_MAX, &to->parts,
                      &placement->part_count));
    placement->nodes = to->nodes;
    placement->units = to->units;
    placement->parts = to->parts;
    return gpu_placement_read_pods(at, status, to);
}

/* ---- status ---- */

static int read_phase(const struct gt_at *at, const cJSON *status, enum gt_gpu_placement_phase *ret)
{
    const char *text = phases[GT_GPU_PLACEMENT_PENDING];
    int i = 0;
    GT_TRY(gt_api_text(at, status, "phase", GT_API_TEXT_MAX, &text));
    while (i < GT_GPU_PLACEMENT_PHASES && strcmp(text, phases[i]) != 0)
        i++;
    if (i == GT_GPU_PLACEMENT_PHASES)
        return gt_at_fail(at, "phase", "there is no phase %s", text);
    *ret = (enum gt_gpu_placement_phase)i;
    return 0;
}

static int gpu_placement_read_status(const struct gt_at *above, const cJSON *status,
                                     struct placement_reader *reader)
{
    const struct gt_at at = {above->source, "status", above->err};
    struct gt_gpu_placement *to = &reader->placement;
    GT_TRY(read_phase(&at, status, &to->phase));
    GT_TRY(gt_api_text(&at, status, "reason", GT_API_TEXT_MAX, &to->reason));
    GT_TRY(gt_api_text(&at, status, "message", GT_GPU_PLACEMENT_MESSAGE_MAX, &to->message));
    GT_TRY(gt_api_text(&at, status, "behind", GT_GPU_PLACEMENT_JOB_MAX, &to->behind));
    GT_TRY(gt_api_text(&at, status, "where", GT_GPU_PLACEMENT_MESSAGE_MAX, &to->where));
    GT_TRY(gt_get_integer(&at, status, "epoch", UINT64_C(1) << 53, &to->epoch));
    GT_TRY(gpu_placement_read_time(&at, status, "promisedUntil", &to->promised_until));
    GT_TRY(gpu_placement_read_time(&at, status, "waitingSince", &to->waiting_since));
    GT_TRY(gpu_placement_read_time(&at, status, "plannedAt", &to->planned_at));
    GT_TRY(gpu_placement_read_time(&at, status, "reservedUntil", &to->reserved_until));
    GT_TRY(gt_api_text(&at, status, "moving", GT_API_TEXT_MAX, &to->moving));
    GT_TRY(gpu_placement_read_time(&at, status, "movingBefore", &to->moving_before));
    GT_TRY(gt_api_text(&at, status, "moves", GT_GPU_PLACEMENT_MOVES_MAX, &to->moves));
    return gpu_placement_read_plan(&at, status, reader);
}

/* ---- one block ---- */

/* The texts of the object itself. */
static const size_t texts[] = {
    offsetof(struct gt_gpu_placement, namespace_),
    offsetof(struct gt_gpu_placement, name),
    offsetof(struct gt_gpu_placement, uid),
    offsetof(struct gt_gpu_placement, resource_version),
    offsetof(struct gt_gpu_placement, owner_api_version),
    offsetof(struct gt_gpu_placement, owner_kind),
    offsetof(struct gt_gpu_placement, owner_name),
    offsetof(struct gt_gpu_placement, owner_uid),
    offsetof(struct gt_gpu_placement, job),
    offsetof(struct gt_gpu_placement, part_of),
    offsetof(struct gt_gpu_placement, on_lost_plan),
    offsetof(struct gt_gpu_placement, reason),
    offsetof(struct gt_gpu_placement, message),
    offsetof(struct gt_gpu_placement, behind),
    offsetof(struct gt_gpu_placement, where),
    offsetof(struct gt_gpu_placement, promised_until),
    offsetof(struct gt_gpu_placement, waiting_since),
    offsetof(struct gt_gpu_placement, planned_at),
    offsetof(struct gt_gpu_placement, reserved_until),
    offsetof(struct gt_gpu_placement, moving),
    offsetof(struct gt_gpu_placement, moving_before),
    offsetof(struct gt_gpu_placement, moves),
};

static const char **gpu_placement_text_of(struct gt_gpu_placement *placement, size_t i)
{
    return (const char **)(void *)((char *)placement + texts[i]);
}

static size_t gpu_placement_size_of_texts(const struct gt_gpu_placement *of)
{
    struct gt_gpu_placement copy = *of;
    size_t size = 0;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        size += strlen(*gpu_placement_text_of(&copy, i)) + 1;
    for (unsigned i = 0; i < of->template_count; i++)
        size += strlen(of->templates[i].role) + strlen(of->templates[i].claim) + 2;
    for (uint32_t i = 0; i < of->node_count; i++)
        size += strlen(of->nodes[i]) + 1;
    for (uint32_t i = 0; i < of->unit_count; i++)
        size += strlen(of->units[i]) + 1;
    for (uint32_t i = 0; i < of->part_count; i++)
        size += strlen(of->parts[i]) + 1;
    for (uint32_t i = 0; i < of->pod_count; i++)
        size += of->pods[i].name ? strlen(of->pods[i].name) + 1 : 0;
    return size;
}

static const char *gpu_placement_move_text(const char *text, char **next)
{
    size_t size = strlen(text) + 1;
    const char *moved = memcpy(*next, text, size);
    *next += size;
    return moved;
}

static int gpu_placement_copy(const struct gt_gpu_placement *from, struct gt_gpu_placement **ret,
                              struct gt_err **err)
{
    struct placement_block {
        struct gt_gpu_placement placement;
        struct gt_gpu_placement_pod pods[];
    };
    _Static_assert(_Alignof(struct gt_gpu_placement_pod) >= _Alignof(char *) &&
                       _Alignof(char *) >= _Alignof(struct gt_gpu_placement_template),
                   "what is aligned most comes first");
    struct placement_block *block =
        malloc(sizeof(*block) + from->pod_count * sizeof(*from->pods) +
               ((size_t)from->node_count + from->unit_count + from->part_count) * sizeof(char *) +
               from->template_count * sizeof(*from->templates) + gpu_placement_size_of_texts(from));
    GT_NEED(block, err, "%s", from->name);
    struct gt_gpu_placement *to = &block->placement;
    struct gt_gpu_placement_pod *pods = block->pods;
    const char **nodes = (const char **)(pods + from->pod_count), **units = nodes + from->node_count,
               **parts = units + from->unit_count;
    struct gt_gpu_placement_template *templates =
        (struct gt_gpu_placement_template *)(parts + from->part_count);
    char *next = (char *)(templates + from->template_count);
    *to = *from;
    to->pods = pods;
    to->nodes = nodes;
    to->units = units;
    to->parts = parts;
    to->templates = templates;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        *gpu_placement_text_of(to, i) = gpu_placement_move_text(*gpu_placement_text_of(to, i), &next);
    for (unsigned i = 0; i < from->template_count; i++) {
        templates[i] = from->templates[i];
        templates[i].role = gpu_placement_move_text(from->templates[i].role, &next);
        templates[i].claim = gpu_placement_move_text(from->templates[i].claim, &next);
    }
    for (uint32_t i = 0; i < from->node_count; i++)
        nodes[i] = gpu_placement_move_text(from->nodes[i], &next);
    for (uint32_t i = 0; i < from->unit_count; i++)
        units[i] = gpu_placement_move_text(from->units[i], &next);
    for (uint32_t i = 0; i < from->part_count; i++)
        parts[i] = gpu_placement_move_text(from->parts[i], &next);
    for (uint32_t i = 0; i < from->pod_count; i++) {
        pods[i] = from->pods[i];
        pods[i].name = from->pods[i].name ? gpu_placement_move_text(from->pods[i].name, &next) : NULL;
    }
    *ret = to;
    return 0;
}

void gt_gpu_placement_free(struct gt_gpu_placement *placement)
{
    free(placement);
}

int gt_gpu_placement_read(const cJSON *object, struct gt_gpu_placement **ret, struct gt_err **err)
{
    const struct gt_at at = {GT_PLURAL_GPU_PLACEMENT, "", err};
    struct placement_reader reader = {.templates = NULL};
    char source[2 * GT_API_NAME_MAX + 32];
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        *gpu_placement_text_of(&reader.placement, i) = "";
    int r = gpu_placement_read_metadata(&at, object, &reader.placement);
    if (r >= 0) {
        snprintf(source, sizeof(source), GT_PLURAL_GPU_PLACEMENT "/%s/%s", reader.placement.namespace_,
                 reader.placement.name);
        const struct gt_at named = {source, "", err};
        r = gpu_placement_read_spec(&named, gt_get(object, "spec"), &reader);
        if (r >= 0)
            r = gpu_placement_read_status(&named, gt_get(object, "status"), &reader);
    }
    if (r >= 0)
        r = gpu_placement_copy(&reader.placement, ret, err);
    reader_done(&reader);
    return r;
}
