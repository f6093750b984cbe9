/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/gpu_placement.h"
#include "api/names.h"
#include "base/err.h"
#include "tests/unit/seed.h"

/* The companion reads what it has written, as a whole object and as a patch. */

enum { ROUNDS = 300, PODS = 200, NODES = 50, UNITS = 9, TEMPLATES = 4, PARTS = 3, ETCD_MAX = 3 << 19 };

static uint64_t state_of_random;

static unsigned below(unsigned n)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(state_of_random >> 33) % n;
}

static const char *maybe(const char *text)
{
    return below(2) ? text : "";
}

struct drawn {
    struct gt_gpu_placement object;
    struct gt_gpu_placement_template templates[TEMPLATES];
    struct gt_gpu_placement_pod pods[PODS];
    char names[NODES][64];
    const char *nodes[NODES], *units[UNITS], *parts[PARTS];
};

static void draw_plan(struct drawn *drawn)
{
    struct gt_gpu_placement *to = &drawn->object;
    uint32_t rank = 0;
    to->node_count = 1 + below(NODES);
    to->unit_count = 1 + below(UNITS);
    to->pod_count = below(4) ? 1 + below(PODS) : 0;
    for (uint32_t i = 0; i < to->node_count; i++) {
        snprintf(drawn->names[i], sizeof(drawn->names[i]), "node-%u", i);
        drawn->nodes[i] = drawn->names[i];
    }
    for (uint32_t i = 0; i < to->unit_count; i++)
        drawn->units[i] = below(2) ? "sn-1" : below(2) ? "sn-1,sn-2" : "";
    for (uint32_t i = 0; i < to->pod_count; i++) {
        drawn->pods[i] = (struct gt_gpu_placement_pod){.rank = rank + below(3),
                                                       .unit = below(to->unit_count),
                                                       .node = below(to->node_count),
                                                       .gpus = (uint64_t)below(1U << 31) << below(34) | 1,
                                                       .name = below(4) ? NULL : "web-7c9d-x.1"};
        rank = drawn->pods[i].rank + 1;
    }
    to->part_count = below(2) ? below(PARTS + 1) : 0;
    for (uint32_t i = 0; i < to->part_count; i++)
        drawn->parts[i] = below(2) ? "part.pytorchjob-demo-0123456789abcdef" : "part.x-0";
    to->nodes = drawn->nodes;
    to->units = drawn->units;
    to->pods = drawn->pods;
    to->parts = drawn->parts;
}

static void draw(struct drawn *drawn)
{
    const char *kind = maybe("PyTorchJob");
    drawn->object = (struct gt_gpu_placement){
        .namespace_ = "team-a",
        .name = "pytorchjob-demo",
        .uid = "u-1",
        .resource_version = "17",
        .owner_api_version = *kind ? "kubeflow.org/v1" : "",
        .owner_kind = kind,
        .owner_name = *kind ? "demo" : "",
        .owner_uid = *kind ? "u-0" : "",
        .job = "team-a/PyTorchJob/demo",
        .part_of = "",
        .templates = drawn->templates,
        .template_count = below(TEMPLATES + 1),
        .priority = (int32_t)below(2001) - 1000,
        .on_lost_plan = maybe("Recreate"),
        .phase = (enum gt_gpu_placement_phase)below(GT_GPU_PLACEMENT_PHASES),
        .reason = maybe("TooFewGPUs"),
        .message = maybe("it says \"so\": 3 of 4"),
        .behind = maybe("team-b/Job/other"),
        .where = maybe("sn-1, sn-2 and 3 more"),
        .epoch = (uint64_t)below(1U << 31) << below(22),
        .promised_until = maybe("2026-01-30T12:00:00Z"),
        .waiting_since = maybe("2026-01-30T12:00:01Z"),
        .planned_at = maybe("2026-01-30T12:00:02Z"),
        .reserved_until = maybe("2026-01-30T12:00:03Z"),
        .moving = maybe("Unit"),
        .moving_before = maybe("2026-01-30T12:00:04Z"),
        .moves = maybe("room=b0 ns/p/u1=b1"),
    };
    for (unsigned i = 0; i < drawn->object.template_count; i++)
        drawn->templates[i] = (struct gt_gpu_placement_template){.role = maybe("worker"),
                                                                 .pods = below(1U << 17),
                                                                 .gpus = below(65),
                                                                 .group = below(2) ? below(1U << 23) : 0,
                                                                 .atomic = below(2) ? below(1U << 23) : 0,
                                                                 .claim = maybe("gputopo-gpus-8")};
    draw_plan(drawn);
}

/* A part does not have the spec of the job. */
static void draw_part(struct drawn *drawn)
{
    draw(drawn);
    drawn->object.part_of = "pytorchjob-demo";
    drawn->object.phase = GT_GPU_PLACEMENT_PART;
    drawn->object.template_count = 0;
    drawn->object.priority = 0;
    drawn->object.on_lost_plan = "";
}

static void assert_same_plan(const struct gt_gpu_placement *got, const struct gt_gpu_placement *want)
{
    assert_int_equal(got->part_count, want->part_count);
    for (uint32_t i = 0; i < want->part_count; i++)
        assert_string_equal(got->parts[i], want->parts[i]);
    assert_int_equal(got->pod_count, want->pod_count);
    if (!want->pod_count)
        return; /* the tables are then not written */
    assert_int_equal(got->node_count, want->node_count);
    assert_int_equal(got->unit_count, want->unit_count);
    for (uint32_t i = 0; i < want->node_count; i++)
        assert_string_equal(got->nodes[i], want->nodes[i]);
    for (uint32_t i = 0; i < want->unit_count; i++)
        assert_string_equal(got->units[i], want->units[i]);
    for (uint32_t i = 0; i < want->pod_count; i++) {
        const struct gt_gpu_placement_pod *a = &got->pods[i], *b = &want->pods[i];
        assert_int_equal(a->rank, b->rank);
        assert_int_equal(a->unit, b->unit);
        assert_int_equal(a->node, b->node);
        assert_true(a->gpus == b->gpus);
        assert_string_equal(a->name ? a->name : "none", b->name ? b->name : "none");
    }
}

static void assert_same(const struct gt_gpu_placement *got, const struct gt_gpu_placement *want)
{
    assert_string_equal(got->namespace_, want->namespace_);
    assert_string_equal(got->name, want->name);
    assert_string_equal(got->owner_api_version, want->owner_api_version);
    assert_string_equal(got->owner_kind, want->owner_kind);
    assert_string_equal(got->owner_name, want->owner_name);
    assert_string_equal(got->owner_uid, want->owner_uid);
    assert_string_equal(got->job, want->job);
    assert_string_equal(got->part_of, want->part_of);
    assert_int_equal(got->template_count, want->template_count);
    for (unsigned i = 0; i < want->template_count; i++) {
        assert_string_equal(got->templates[i].role, want->templates[i].role);
        assert_int_equal(got->templates[i].pods, want->templates[i].pods);
        assert_int_equal(got->templates[i].gpus, want->templates[i].gpus);
        assert_int_equal(got->templates[i].group, want->templates[i].group);
        assert_int_equal(got->templates[i].atomic, want->templates[i].atomic);
        assert_string_equal(got->templates[i].claim, want->templates[i].claim);
    }
    assert_int_equal(got->priority, want->priority);
    assert_string_equal(got->on_lost_plan, want->on_lost_plan);
    assert_int_equal(got->phase, want->phase);
    assert_string_equal(got->reason, want->reason);
    assert_string_equal(got->message, want->message);
    assert_string_equal(got->behind, want->behind);
    assert_string_equal(got->where, want->where);
    assert_true(got->epoch == want->epoch);
    assert_string_equal(got->promised_until, want->promised_until);
    assert_string_equal(got->waiting_since, want->waiting_since);
    assert_string_equal(got->planned_at, want->planned_at);
    assert_string_equal(got->reserved_until, want->reserved_until);
    assert_string_equal(got->moving, want->moving);
    assert_string_equal(got->moving_before, want->moving_before);
    assert_string_equal(got->moves, want->moves);
    assert_same_plan(got, want);
}

static cJSON *parsed(const struct gt_buf *text)
{
    assert_false(text->failed);
    cJSON *json = cJSON_Parse(text->data);
    assert_non_null(json);
    return json;
}

/* As the API server has it after a create. */
static cJSON *created(const struct gt_gpu_placement *placement)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
    gt_gpu_placement_write(placement, &text);
    cJSON *json = parsed(&text);
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(json, "metadata");
    cJSON_AddStringToObject(metadata, "uid", placement->uid);
    cJSON_AddStringToObject(metadata, "resourceVersion", placement->resource_version);
    return json;
}

/* A merge patch by RFC 7386. */
static void merge(cJSON *target, const cJSON *patch)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, patch)
    {
        cJSON *old = cJSON_GetObjectItemCaseSensitive(target, item->string);
        if (cJSON_IsObject(item) && cJSON_IsObject(old)) {
            merge(old, item);
            continue;
        }
        cJSON_DeleteItemFromObjectCaseSensitive(target, item->string);
        if (!cJSON_IsNull(item))
            cJSON_AddItemToObject(target, item->string, cJSON_Duplicate(item, true));
    }
}

static void check(cJSON *json, const struct gt_gpu_placement *want)
{
    gt_auto_free struct gt_gpu_placement *got = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_gpu_placement_read(json, &got, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON_Delete(json); /* its texts are its own */
    assert_string_equal(got->uid, want->uid);
    assert_string_equal(got->resource_version, want->resource_version);
    assert_same(got, want);
}

static void what_is_created_is_read(void **state)
{
    static struct drawn drawn;
    (void)state;
    for (unsigned n = 0; n < ROUNDS; n++) {
        draw(&drawn);
        check(created(&drawn.object), &drawn.object);
        draw_part(&drawn);
        check(created(&drawn.object), &drawn.object);
    }
}

static void a_patch_says_all_that_has_changed(void **state)
{
    static struct drawn from, to;
    (void)state;
    for (unsigned n = 0; n < ROUNDS; n++) {
        gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
        bool with_plan = below(2);
        draw(&from);
        draw(&to);
        struct gt_gpu_placement want = to.object;
        want.owner_api_version = from.object.owner_api_version;
        want.owner_kind = from.object.owner_kind;
        want.owner_name = from.object.owner_name;
        want.owner_uid = from.object.owner_uid;
        if (!with_plan) {
            want.nodes = from.nodes;
            want.units = from.units;
            want.pods = from.pods;
            want.parts = from.parts;
            want.part_count = from.object.part_count;
            want.node_count = from.object.node_count;
            want.unit_count = from.object.unit_count;
            want.pod_count = from.object.pod_count;
        }
        gt_gpu_placement_write_patch(&to.object, with_plan, &text);
        cJSON *json = created(&from.object), *patch = parsed(&text);
        const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(patch, "metadata");
        assert_string_equal(cJSON_GetObjectItemCaseSensitive(metadata, "uid")->valuestring, "u-1");
        assert_string_equal(cJSON_GetObjectItemCaseSensitive(metadata, "resourceVersion")->valuestring, "17");
        merge(json, patch);
        cJSON_Delete(patch);
        check(json, &want);
    }
}

/* Each pod on a node of its own with a long name. */
static const struct gt_gpu_placement *largest(void)
{
    enum { COUNT = GT_GPU_PLACEMENT_PODS_MAX, NAME = 63, OF_UNIT = 8 };
    static char names[COUNT][NAME + 1], supers[COUNT / OF_UNIT][16];
    static const char *nodes[COUNT], *units[COUNT / OF_UNIT];
    static struct gt_gpu_placement_pod pods[COUNT];
    static struct drawn drawn;
    draw(&drawn);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(names[i], sizeof(names[i]), "%0*u", NAME, i);
        nodes[i] = names[i];
        snprintf(supers[i / OF_UNIT], sizeof(supers[0]), "sn-%u", i / OF_UNIT);
        units[i / OF_UNIT] = supers[i / OF_UNIT];
        pods[i] = (struct gt_gpu_placement_pod){.rank = i, .unit = i / OF_UNIT, .node = i, .gpus = 0x0f};
    }
    drawn.object.nodes = nodes;
    drawn.object.units = units;
    drawn.object.pods = pods;
    drawn.object.node_count = drawn.object.pod_count = COUNT;
    drawn.object.unit_count = COUNT / OF_UNIT;
    drawn.object.part_count = 0;
    return &drawn.object;
}

static void etcd_takes_the_largest(void **state)
{
    (void)state;
    const struct gt_gpu_placement *object = largest();
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
    gt_gpu_placement_write(object, &text);
    assert_int_equal(gt_buf_check(&text, "object", NULL), 0);
    print_message("%u pods: %zu bytes\n", object->pod_count, text.len);
    assert_true(text.len + (32 << 10) <= ETCD_MAX && GT_GPU_PLACEMENT_TEXT_MAX + (32 << 10) <= ETCD_MAX);
    check(created(object), object);
}

struct plan {
    struct gt_gpu_placement object;
    char (*texts)[256];
    const char **names;
    struct gt_gpu_placement_pod *pods;
};

/* As many pods as a job may have, each on a node of its own; names have so many bytes. */
static struct plan make_plan(size_t name, uint32_t of_unit, bool named)
{
    enum { COUNT = GT_OWNER_REPLICAS_MAX };
    struct plan plan = {.texts = calloc(COUNT, sizeof(*plan.texts)),
                        .names = calloc(COUNT, sizeof(*plan.names)),
                        .pods = calloc(COUNT, sizeof(*plan.pods))};
    assert_true(plan.texts && plan.names && plan.pods);
    for (uint32_t i = 0; i < COUNT; i++) {
        snprintf(plan.texts[i], sizeof(plan.texts[i]), "%0*u", (int)name, i);
        plan.names[i] = plan.texts[i];
        plan.pods[i] = (struct gt_gpu_placement_pod){.rank = i,
                                                     .unit = i / of_unit,
                                                     .node = i,
                                                     .gpus = named ? UINT64_C(0x5555555555555555) : 0xff,
                                                     .name = named ? plan.texts[i] : NULL};
    }
    plan.object = (struct gt_gpu_placement){.namespace_ = "team-a",
                                            .name = "",
                                            .uid = "",
                                            .resource_version = "",
                                            .owner_api_version = "batch/v1",
                                            .owner_kind = "Job",
                                            .owner_name = "demo",
                                            .owner_uid = "u",
                                            .job = "team-a/Job/demo",
                                            .part_of = "job-demo",
                                            .on_lost_plan = "",
                                            .phase = GT_GPU_PLACEMENT_PART,
                                            .reason = "",
                                            .message = "",
                                            .behind = "",
                                            .where = "",
                                            .epoch = 7,
                                            .nodes = plan.names,
                                            .node_count = COUNT,
                                            .units = plan.names,
                                            .unit_count = COUNT / of_unit,
                                            .pods = plan.pods,
                                            .pod_count = COUNT,
                                            .promised_until = "",
                                            .waiting_since = "",
                                            .planned_at = "",
                                            .reserved_until = "",
                                            .moving = "",
                                            .moving_before = "",
                                            .moves = ""};
    return plan;
}

static void plan_done(struct plan *plan)
{
    free(plan->texts);
    free(plan->names);
    free(plan->pods);
}

/* Writes it as the API server would have it; returns its bytes. */
static size_t check_part(const struct plan *plan, const struct gt_gpu_placement_slice *slice, uint32_t first)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX), name = GT_BUF(300);
    struct gt_gpu_placement part = plan->object;
    part.nodes = slice->nodes;
    part.units = slice->units;
    part.pods = slice->pods;
    part.node_count = slice->node_count;
    part.unit_count = slice->unit_count;
    part.pod_count = slice->pod_count;
    gt_gpu_placement_part_name(&part, &name);
    part.name = name.data;
    assert_true(gt_gpu_placement_is_part(&part));
    gt_gpu_placement_write(&part, &text);
    assert_int_equal(gt_buf_check(&text, "part", NULL), 0);
    assert_true(text.len + (32 << 10) <= ETCD_MAX);
    assert_true(slice->size <= text.len && text.len - slice->size < 1024);
    for (uint32_t i = 0; i < slice->pod_count; i++) {
        const struct gt_gpu_placement_pod *got = &slice->pods[i], *want = &plan->pods[first + i];
        assert_true(got->rank == want->rank && got->gpus == want->gpus && got->name == want->name);
        assert_ptr_equal(slice->nodes[got->node], plan->names[want->node]);
        assert_ptr_equal(slice->units[got->unit], plan->names[want->unit]);
    }
    check(created(&part), &part);
    return text.len;
}

/* Of the largest job, and of one whose names are as long as they can be and are in it three times. */
static void etcd_takes_all_parts(void **state)
{
    static const struct {
        size_t name;
        uint32_t of_unit;
        bool named;
    } cases[] = {{16, 8, false}, {63, 8, false}, {253, 1, true}};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct plan plan = make_plan(cases[i].name, cases[i].of_unit, cases[i].named);
        struct gt_gpu_placement_slice slice;
        uint32_t parts = 0;
        size_t most = 0, all = 0;
        for (uint32_t first = 0; first < plan.object.pod_count; first += slice.pod_count, parts++) {
            assert_true(gt_gpu_placement_slice(&plan.object, first, GT_GPU_PLACEMENT_PODS_MAX, &slice));
            assert_in_range(slice.pod_count, 1, GT_GPU_PLACEMENT_PODS_MAX);
            size_t size = check_part(&plan, &slice, first);
            most = size > most ? size : most;
            all += size;
            gt_gpu_placement_slice_done(&slice);
        }
        print_message("%u pods, names of %zu bytes: %u parts of at most %zu bytes, %zu in all\n",
                      plan.object.pod_count, cases[i].name, parts, most, all);
        assert_in_range(parts, 1, GT_GPU_PLACEMENT_PARTS_MAX);
        plan_done(&plan);
    }
}

static void a_part_is_what_its_name_tells(void **state)
{
    static struct drawn drawn;
    char longest[254];
    (void)state;
    draw_part(&drawn);
    while (!drawn.object.pod_count)
        draw_part(&drawn);
    gt_auto_buf struct gt_buf name = GT_BUF(300), other = GT_BUF(300);
    struct gt_gpu_placement part = drawn.object;
    gt_gpu_placement_part_name(&part, &name);
    assert_memory_equal(name.data, "part.pytorchjob-demo-", 21);
    assert_int_equal(name.len, 21 + 16);
    part.name = name.data;
    assert_true(gt_gpu_placement_is_part(&part));
    for (unsigned i = 0; i < 8; i++) {
        struct gt_gpu_placement_pod pod = drawn.pods[0];
        struct gt_gpu_placement changed = part;
        switch (i) {
        case 0:
            changed.epoch++;
            break;
        case 1:
            changed.part_of = "pytorchjob-demp";
            break;
        case 2:
            changed.part_of = "";
            break;
        case 3:
            changed.pod_count--;
            break;
        case 4:
            drawn.pods[0].gpus ^= UINT64_C(1) << 63;
            break;
        case 5:
            drawn.pods[0].rank ^= 1U << 16;
            break;
        case 6:
            drawn.pods[0].name = pod.name ? NULL : "x";
            break;
        default:
            drawn.nodes[0] = "another";
        }
        assert_false(gt_gpu_placement_is_part(&changed));
        drawn.pods[0] = pod;
    }
    memset(longest, 'a', sizeof(longest) - 1); /* cut, and not behind a dot */
    longest[sizeof(longest) - 1] = '\0';
    longest[230] = '.';
    part.part_of = longest;
    gt_gpu_placement_part_name(&part, &other);
    assert_int_equal(other.len, 252);
    assert_memory_equal(other.data + 234, "a-", 2);
}

static void what_is_not_told_is_empty(void **state)
{
    gt_auto_free struct gt_gpu_placement *got = NULL;
    cJSON *json = cJSON_Parse(
        "{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\"},\"spec\":{\"job\":\"j\",\"behind\":null}}");
    (void)state;
    assert_int_equal(gt_gpu_placement_read(json, &got, NULL), 0);
    cJSON_Delete(json);
    assert_int_equal(got->phase, GT_GPU_PLACEMENT_PENDING);
    assert_string_equal(got->owner_kind, "");
    assert_string_equal(got->uid, "");
    assert_string_equal(got->behind, "");
    assert_int_equal(got->pod_count + got->node_count + got->unit_count + got->template_count, 0);
}

static void nonsense_is_refused_with_its_path(void **state)
{
    static const char head[] = "{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\"},\"spec\":{\"job\":\"j\"";
    static const char plan[] =
        "},\"status\":{\"nodes\":[\"a\",\"b\"],\"units\":[\"sn\"],\"pods\":[\"0:0:1:0-3\",";
    static const struct {
        const char *head, *rest, *error;
    } cases[] = {
        {"", "{}", "gpuplacements: metadata.name: is missing"},
        {"", "{\"metadata\":{\"name\":\"n\"}}", "gpuplacements: metadata.namespace: is missing"},
        {"", "{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\",\"ownerReferences\":[{}]}}",
         "gpuplacements: metadata.ownerReferences[0].apiVersion: is missing"},
        {"", "{\"metadata\":{\"name\":\"n\",\"namespace\":\"s\"}}",
         "gpuplacements/s/n: spec.job: is missing"},
        {head, ",\"priority\":1.5}}", "gpuplacements/s/n: spec.priority: expected a whole number of 32 bits"},
        {head, ",\"priority\":2147483648}}",
         "gpuplacements/s/n: spec.priority: expected a whole number of 32 bits"},
        {head, ",\"templates\":[{},7]}}",
         "gpuplacements/s/n: spec.templates[1]: expected an object, is a number"},
        {head, ",\"templates\":[{\"gpus\":-1}]}}",
         "gpuplacements/s/n: spec.templates[0].gpus: expected 0 to 65535, is -1"},
        {head, "},\"status\":{\"phase\":\"Done\"}}",
         "gpuplacements/s/n: status.phase: there is no phase Done"},
        {head, "},\"status\":{\"epoch\":0.5}}",
         "gpuplacements/s/n: status.epoch: expected a whole number, is 0.5"},
        {head, "},\"status\":{\"plannedAt\":\"now\"}}", "gpuplacements/s/n: status.plannedAt: is no time"},
        {head, "},\"status\":{\"nodes\":[\"a\",7]}}",
         "gpuplacements/s/n: status.nodes[1]: expected a string"},
        {head, "},\"status\":{\"nodes\":[\"\\u0007\"]}}",
         "gpuplacements/s/n: status.nodes[0]: is too long, or not printable"},
        {plan, "7]}}", "gpuplacements/s/n: status.pods[1]: expected a string"},
        {plan, "\"\"]}}", "gpuplacements/s/n: status.pods[1]: the rank is none"},
        {plan, "\":0:0:0\"]}}", "gpuplacements/s/n: status.pods[1]: the rank is none"},
        {plan, "\"131072:0:0:0\"]}}", "gpuplacements/s/n: status.pods[1]: the rank is none"},
        {plan, "\"1:1:0:0\"]}}", "gpuplacements/s/n: status.pods[1]: there is no such unit"},
        {plan, "\"1:0:2:0\"]}}", "gpuplacements/s/n: status.pods[1]: there is no such node"},
        {plan, "\"1:0:99999999999999999999:0\"]}}",
         "gpuplacements/s/n: status.pods[1]: there is no such node"},
        {plan, "\"1:0:0:\"]}}", "gpuplacements/s/n: status.pods[1]: the GPUs are none"},
        {plan, "\"1:0:0:64\"]}}", "gpuplacements/s/n: status.pods[1]: the GPUs are none"},
        {plan, "\"1:0:0:3-2\"]}}", "gpuplacements/s/n: status.pods[1]: the GPUs are none"},
        {plan, "\"1:0:0:0:\"]}}", "gpuplacements/s/n: status.pods[1]: the name is none"},
        {plan, "\"0:0:0:0\"]}}", "gpuplacements/s/n: status.pods[1]: ranks must ascend"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_free struct gt_gpu_placement *got = NULL;
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_buf struct gt_buf text = GT_BUF(4096);
        gt_buf_printf(&text, "%s%s%s", cases[i].head == plan ? head : "", cases[i].head, cases[i].rest);
        cJSON *json = parsed(&text);
        assert_true(gt_gpu_placement_read(json, &got, &err) < 0);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_null(got);
        cJSON_Delete(json);
    }
}

static void names_are_those_of_objects(void **state)
{
    static const struct {
        const char *kind, *job, *name;
    } cases[] = {
        {"PyTorchJob", "demo", "pytorchjob-demo"},
        {"Pod", "a.b-0", "pod-a.b-0"},
        {"Owned/ReplicaSet", "web-7c9d", "owned-replicaset-web-7c9d-"},
        {"Job", "My_Job", "job-my-job-"},
        {"Job", "a..b", "job-a--b-"},
        {"Job", "a-", "job-a--"},
        {"Job", "", "job--"},
        {"", "", "x-"},
    };
    static char names[GT_COUNT(cases) + 2][300];
    char longest[260];
    (void)state;
    memset(longest, 'a', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    for (size_t i = 0; i < GT_COUNT(cases) + 2; i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(sizeof(names[0]) - 1);
        bool cut = i >= GT_COUNT(cases);
        longest[253 - strlen("pod-") + (i == GT_COUNT(cases) + 1)] = '\0';
        gt_gpu_placement_name(cut ? "Pod" : cases[i].kind, cut ? longest : cases[i].job, &text);
        snprintf(names[i], sizeof(names[i]), "%s", text.data);
        for (size_t j = 0; j < i; j++)
            assert_string_not_equal(names[i], names[j]);
        assert_in_range(text.len, 1, 253);
        if (cut) {
            assert_int_equal(text.len, 253);
            assert_memory_equal(text.data, "pod-aaaa", 8);
            longest[253 - strlen("pod-")] = 'a';
            continue;
        }
        size_t want = strlen(cases[i].name);
        assert_memory_equal(text.data, cases[i].name, want);
        assert_int_equal(text.len, want + (cases[i].name[want - 1] == '-' ? 16 : 0));
    }
}

/* For tests with an API server: an object and a patch of it a line each, `count` times; the last is the
 * largest. */
static int print_some(unsigned count)
{
    static struct drawn from, to;
    for (unsigned i = 0; i < count; i++) {
        gt_auto_buf struct gt_buf text = GT_BUF(2 * GT_GPU_PLACEMENT_TEXT_MAX);
        bool part = i % 4 == 1 && i + 1 < count;
        (part ? draw_part : draw)(&from);
        (part ? draw_part : draw)(&to);
        gt_gpu_placement_write(i + 1 < count ? &from.object : largest(), &text);
        puts(text.data);
        gt_buf_consume(&text, text.len);
        gt_gpu_placement_write_patch(&to.object, true, &text);
        puts(text.data);
    }
    return 0;
}

int main(int argc, char **argv)
{
    state_of_random = test_seed();
    if (argc > 1)
        return print_some((unsigned)strtoul(argv[1], NULL, 10));
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_created_is_read),
        cmocka_unit_test(a_patch_says_all_that_has_changed),
        cmocka_unit_test(etcd_takes_the_largest),
        cmocka_unit_test(etcd_takes_all_parts),
        cmocka_unit_test(a_part_is_what_its_name_tells),
        cmocka_unit_test(what_is_not_told_is_empty),
        cmocka_unit_test(nonsense_is_refused_with_its_path),
        cmocka_unit_test(names_are_those_of_objects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
