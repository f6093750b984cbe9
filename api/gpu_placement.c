/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gpu_placement.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_plan.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/node.h"

static const char *const phases[GT_GPU_PLACEMENT_PHASES] = {
    [GT_GPU_PLACEMENT_PENDING] = "Pending", [GT_GPU_PLACEMENT_WAITING] = "Waiting",
    [GT_GPU_PLACEMENT_PLACED] = "Placed",   [GT_GPU_PLACEMENT_REFUSED] = "Refused",
    [GT_GPU_PLACEMENT_PART] = "Part",       [GT_GPU_PLACEMENT_STALLED] = "Stalled",
};

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

/* The texts of the object itself, and where they stand in it. */
enum placement_place { OF_OBJECT, OF_METADATA, OF_OWNER, OF_SPEC, OF_STATUS };
enum placement_form { ANY_TEXT, NEEDED_TEXT, TIME_TEXT };

static const struct placement_text {
    size_t at;
    const char *key; /* NULL: read by itself */
    unsigned max;
    enum placement_place place;
    enum placement_form form;
} texts[] = {
#define PLACEMENT_TEXT(member, ...)                                                                          \
    {                                                                                                        \
        offsetof(struct gt_gpu_placement, member), __VA_ARGS__                                               \
    }
    PLACEMENT_TEXT(name, NULL, 0, OF_OBJECT, ANY_TEXT),
    PLACEMENT_TEXT(resource_version, NULL, 0, OF_OBJECT, ANY_TEXT),
    PLACEMENT_TEXT(namespace_, "namespace", GT_API_NAME_MAX, OF_METADATA, NEEDED_TEXT),
    PLACEMENT_TEXT(uid, "uid", GT_API_TEXT_MAX, OF_METADATA, ANY_TEXT),
    PLACEMENT_TEXT(owner_api_version, "apiVersion", GT_API_NAME_MAX, OF_OWNER, NEEDED_TEXT),
    PLACEMENT_TEXT(owner_kind, "kind", GT_API_NAME_MAX, OF_OWNER, NEEDED_TEXT),
    PLACEMENT_TEXT(owner_name, "name", GT_API_NAME_MAX, OF_OWNER, NEEDED_TEXT),
    PLACEMENT_TEXT(owner_uid, "uid", GT_API_NAME_MAX, OF_OWNER, NEEDED_TEXT),
    PLACEMENT_TEXT(job, "job", GT_GPU_PLACEMENT_JOB_MAX, OF_SPEC, NEEDED_TEXT),
    PLACEMENT_TEXT(part_of, "partOf", GT_API_NAME_MAX, OF_SPEC, ANY_TEXT),
    PLACEMENT_TEXT(on_lost_plan, "onLostPlan", GT_API_TEXT_MAX, OF_SPEC, ANY_TEXT),
    PLACEMENT_TEXT(reason, "reason", GT_API_TEXT_MAX, OF_STATUS, ANY_TEXT),
    PLACEMENT_TEXT(message, "message", GT_GPU_PLACEMENT_MESSAGE_MAX, OF_STATUS, ANY_TEXT),
    PLACEMENT_TEXT(behind, "behind", GT_GPU_PLACEMENT_JOB_MAX, OF_STATUS, ANY_TEXT),
    PLACEMENT_TEXT(where, "where", GT_GPU_PLACEMENT_MESSAGE_MAX, OF_STATUS, ANY_TEXT),
    PLACEMENT_TEXT(promised_until, "promisedUntil", GT_TIME_TEXT_SIZE - 1, OF_STATUS, TIME_TEXT),
    PLACEMENT_TEXT(waiting_since, "waitingSince", GT_TIME_TEXT_SIZE - 1, OF_STATUS, TIME_TEXT),
    PLACEMENT_TEXT(planned_at, "plannedAt", GT_TIME_TEXT_SIZE - 1, OF_STATUS, TIME_TEXT),
    PLACEMENT_TEXT(reserved_until, "reservedUntil", GT_TIME_TEXT_SIZE - 1, OF_STATUS, TIME_TEXT),
    PLACEMENT_TEXT(moving, "moving", GT_API_TEXT_MAX, OF_STATUS, ANY_TEXT),
    PLACEMENT_TEXT(moving_before, "movingBefore", GT_TIME_TEXT_SIZE - 1, OF_STATUS, TIME_TEXT),
    PLACEMENT_TEXT(moves, "moves", GT_GPU_PLACEMENT_MOVES_MAX, OF_STATUS, ANY_TEXT),
#undef PLACEMENT_TEXT
};

static const char **gpu_placement_text_of(struct gt_gpu_placement *placement, size_t i)
{
    return (const char **)(void *)((char *)placement + texts[i].at);
}

/* Those of one place, which is `object`. */
static int gpu_placement_read_texts(const struct gt_at *at, const cJSON *object, enum placement_place place,
                                    struct gt_gpu_placement *to)
{
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        const char **text = gpu_placement_text_of(to, i);
        if (texts[i].place != place)
            continue;
        GT_TRY(gt_api_text(at, object, texts[i].key, texts[i].max, text));
        if (texts[i].form == NEEDED_TEXT && !**text)
            return gt_at_fail(at, texts[i].key, "is missing");
        if (texts[i].form == TIME_TEXT && **text && !gt_time_of_text(*text))
            return gt_at_fail(at, texts[i].key, "is no time");
    }
    return 0;
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
    const cJSON *metadata = gt_get(object, "metadata"),
                *owner = gt_first(gt_get(metadata, "ownerReferences"));
    GT_TRY(gt_api_meta(above, object, &to->name, &to->resource_version));
    GT_TRY(gpu_placement_read_texts(&at, metadata, OF_METADATA, to));
    return owner ? gpu_placement_read_texts(&below, owner, OF_OWNER, to) : 0;
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
    GT_TRY(gpu_placement_read_texts(&at, spec, OF_SPEC, &to->placement));
    GT_TRY(read_templates(&at, spec, to));
    return gpu_placement_read_priority(&at, spec, &to->placement.priority);
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
static const char *gpu_placement_read_pod(const char *text, const struct gt_gpu_placement *placement,
                                          struct gt_gpu_placement_pod *to)
{
    if (!text)
        return "expected a string";
    if (!take_number(&text, GT_OWNER_REPLICAS_MAX, &to->rank))
        return "the rank is none";
    if (!take_number(&text, placement->unit_count, &to->unit))
        return "there is no such unit";
    if (!take_number(&text, placement->node_count, &to->node))
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
    GT_TRY(gt_api_text(at, status, "phase", GT_API_TEXT_MAX, &text));
    size_t i = GT_PLACE_OF_TEXT(phases, GT_GPU_PLACEMENT_PHASES, text);
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
    GT_TRY(gpu_placement_read_texts(&at, status, OF_STATUS, to));
    GT_TRY(gt_get_integer(&at, status, "epoch", UINT64_C(1) << 53, &to->epoch));
    return gpu_placement_read_plan(&at, status, reader);
}

/* ---- one block ---- */

static size_t gpu_placement_size_of(const char *const *list, uint32_t count)
{
    size_t size = 0;
    for (uint32_t i = 0; i < count; i++)
        size += strlen(list[i]) + 1;
    return size;
}

static size_t gpu_placement_size_of_texts(const struct gt_gpu_placement *placement)
{
    struct gt_gpu_placement copy = *placement;
    size_t size = gpu_placement_size_of(placement->nodes, placement->node_count) +
                  gpu_placement_size_of(placement->units, placement->unit_count) +
                  gpu_placement_size_of(placement->parts, placement->part_count);
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        size += strlen(*gpu_placement_text_of(&copy, i)) + 1;
    for (unsigned i = 0; i < placement->template_count; i++)
        size += strlen(placement->templates[i].role) + strlen(placement->templates[i].claim) + 2;
    for (uint32_t i = 0; i < placement->pod_count; i++)
        size += placement->pods[i].name ? strlen(placement->pods[i].name) + 1 : 0;
    return size;
}

/* Both the list, to *at, and its texts. */
static const char *const *gpu_placement_move_list(const char *const *list, uint32_t count, const char ***at,
                                                  char **next)
{
    const char **moved = *at;
    for (uint32_t i = 0; i < count; i++)
        *(*at)++ = gt_text_put(list[i], next);
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
    const size_t lists = (size_t)from->node_count + from->unit_count + from->part_count;
    struct placement_block *block =
        malloc(sizeof(*block) + from->pod_count * sizeof(*from->pods) + lists * sizeof(char *) +
               from->template_count * sizeof(*from->templates) + gpu_placement_size_of_texts(from));
    GT_NEED(block, err, "%s", from->name);
    struct gt_gpu_placement *to = &block->placement;
    const char **at = (const char **)(block->pods + from->pod_count);
    struct gt_gpu_placement_template *templates = (struct gt_gpu_placement_template *)(at + lists);
    char *next = (char *)(templates + from->template_count);
    *to = *from;
    to->pods = block->pods;
    to->templates = templates;
    to->nodes = gpu_placement_move_list(from->nodes, from->node_count, &at, &next);
    to->units = gpu_placement_move_list(from->units, from->unit_count, &at, &next);
    to->parts = gpu_placement_move_list(from->parts, from->part_count, &at, &next);
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        *gpu_placement_text_of(to, i) = gt_text_put(*gpu_placement_text_of(to, i), &next);
    for (unsigned i = 0; i < from->template_count; i++) {
        templates[i] = from->templates[i];
        templates[i].role = gt_text_put(from->templates[i].role, &next);
        templates[i].claim = gt_text_put(from->templates[i].claim, &next);
    }
    for (uint32_t i = 0; i < from->pod_count; i++) {
        block->pods[i] = from->pods[i];
        block->pods[i].name = from->pods[i].name ? gt_text_put(from->pods[i].name, &next) : NULL;
    }
    *ret = to;
    return 0;
}

int gt_gpu_placement_read(const cJSON *object, struct gt_gpu_placement **ret, struct gt_err **err)
{
    const struct gt_at at = {GT_PLURAL_GPU_PLACEMENT, "", err};
    __attribute__((cleanup(reader_done))) struct placement_reader reader = {.templates = NULL};
    char source[2 * GT_API_NAME_MAX + 32];
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        *gpu_placement_text_of(&reader.placement, i) = "";
    GT_TRY(gpu_placement_read_metadata(&at, object, &reader.placement));
    snprintf(source, sizeof(source), GT_PLURAL_GPU_PLACEMENT "/%s/%s", reader.placement.namespace_,
             reader.placement.name);
    const struct gt_at named = {source, "", err};
    GT_TRY(gpu_placement_read_spec(&named, gt_get(object, "spec"), &reader));
    GT_TRY(gpu_placement_read_status(&named, gt_get(object, "status"), &reader));
    return gpu_placement_copy(&reader.placement, ret, err);
}

/* ---- writing ---- */

static void write_templates(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    for (unsigned i = 0; i < placement->template_count; i++) {
        const struct gt_gpu_placement_template *template = &placement->templates[i];
        gt_json_printf(to,
                       "{?'role': %s, 'pods': %u, 'gpus': %u, ?'groupSize': %u, ?'atomicGroupSize': %u,"
                       "?'claimTemplate': %s}",
                       template->role, template->pods, template->gpus, template->group, template->atomic,
                       template->claim);
    }
}

/* In a patch null takes away what may be in the object. */
static void write_text(const char *key, const char *text, bool patch, struct gt_buf *to)
{
    if (*text || patch)
        gt_json_printf(to, "%s: ~%s", key, text);
}

static void gpu_placement_write_spec(const struct gt_gpu_placement *placement, bool patch, struct gt_buf *to)
{
    uint64_t pods = 0, gpus = 0;
    for (unsigned i = 0; i < placement->template_count; i++) {
        const struct gt_gpu_placement_template *template = &placement->templates[i];
        pods += template->pods;
        gpus += (uint64_t) template->pods * template->gpus;
    }
    gt_json_printf(to, "'spec': {?'job': %s, ?'partOf': %s", patch ? "" : placement->job, placement->part_of);
    if (!placement->part_of[0]) {
        gt_json_printf(to, "'pods': %" PRIu64 ", 'gpus': %" PRIu64 ", 'templates': [", pods, gpus);
        write_templates(placement, to);
        gt_json_printf(to, "], 'priority': %d", placement->priority);
        write_text("onLostPlan", placement->on_lost_plan, patch, to);
    }
    gt_json_end(to, '}');
}

static void write_texts(const char *key, const char *const *list, uint32_t count, struct gt_buf *to)
{
    gt_json_begin(to, key, '[');
    for (uint32_t i = 0; i < count; i++)
        gt_json_add_text(to, NULL, list[i]);
    gt_json_end(to, ']');
}

static void add_position(struct gt_buf *to, uint32_t position)
{
    gt_text_add_unsigned(to, position);
    gt_buf_puts(to, ":");
}

static void write_pods(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
    gt_json_begin(to, "pods", '[');
    for (uint32_t i = 0; i < placement->pod_count; i++) {
        const struct gt_gpu_placement_pod *pod = &placement->pods[i];
        gt_buf_consume(&text, text.len);
        add_position(&text, pod->rank);
        add_position(&text, pod->unit);
        add_position(&text, pod->node);
        gt_text_add_mask(&text, pod->gpus);
        if (pod->name) {
            gt_buf_puts(&text, ":");
            gt_buf_puts(&text, pod->name);
        }
        to->failed = to->failed || text.failed;
        gt_json_add_text(to, NULL, text.data ? text.data : "");
    }
    gt_json_end(to, ']');
}

static void gpu_placement_write_plan(const struct gt_gpu_placement *placement, bool patch, struct gt_buf *to)
{
    if (placement->part_count)
        write_texts("parts", placement->parts, placement->part_count, to);
    else if (patch)
        gt_json_add_null(to, "parts");
    if (placement->pod_count) {
        write_texts("nodes", placement->nodes, placement->node_count, to);
        write_texts("units", placement->units, placement->unit_count, to);
        write_pods(placement, to);
    } else if (patch) {
        gt_json_printf(to, "'nodes': null, 'units': null, 'pods': null");
    }
}

static void gpu_placement_write_status(const struct gt_gpu_placement *placement, bool patch, bool with_plan,
                                       struct gt_buf *to)
{
    struct gt_gpu_placement copy = *placement;
    gt_json_printf(to, "'status': {'phase': %s, 'epoch': %" PRIu64, phases[placement->phase],
                   placement->epoch);
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        if (texts[i].place == OF_STATUS)
            write_text(texts[i].key, *gpu_placement_text_of(&copy, i), patch, to);
    if (with_plan)
        gpu_placement_write_plan(placement, patch, to);
    gt_json_end(to, '}');
}

void gt_gpu_placement_write(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'apiVersion': '" GT_API_GROUP_VERSION "', 'kind': '" GT_KIND_GPU_PLACEMENT
                   "', 'metadata': {'namespace': %s, 'name': %s",
                   placement->namespace_, placement->name);
    if (placement->owner_kind[0])
        gt_json_printf(to, "'ownerReferences': [{'apiVersion': %s, 'kind': %s, 'name': %s, 'uid': %s}]",
                       placement->owner_api_version, placement->owner_kind, placement->owner_name,
                       placement->owner_uid);
    gt_json_end(to, '}');
    gpu_placement_write_spec(placement, false, to);
    gpu_placement_write_status(placement, false, true, to);
    gt_json_end(to, '}');
}

void gt_gpu_placement_write_patch(const struct gt_gpu_placement *placement, bool with_plan, struct gt_buf *to)
{
    gt_json_printf(to, "{'metadata': {?'uid': %s, ?'resourceVersion': %s}", placement->uid,
                   placement->resource_version);
    gpu_placement_write_spec(placement, true, to);
    gpu_placement_write_status(placement, true, with_plan, to);
    gt_json_end(to, '}');
}
