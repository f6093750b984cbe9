/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/custom_kinds.h"
#include "api/kinds/kind.h"
#include "base/json_arena.h"
#include "scheduler-ext/webhook/webhook.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/placement/example.h"

/* That an object is read in the same way, member by member, from a file, from a watch and from an
 * AdmissionReview. */

#define RESOURCE "metax-tech.com/gpu"
enum { MUTANTS = 1000, TEXT_MAX = 1 << 20 };

/* An example has the name of its kind. A kind without one has that of a kind with the same form. */
static const char *const examples[GT_JOB_CUSTOM + 1] = {
    [GT_JOB_TF] = "pytorchjob",
    [GT_JOB_XGBOOST] = "pytorchjob",
    [GT_JOB_PADDLE] = "pytorchjob",
    [GT_JOB_JAX] = "pytorchjob",
    [GT_JOB_MPI] = "pytorchjob",
    [GT_JOB_MPI_V1] = "pytorchjob",
    [GT_JOB_VOLCANO] = "volcano-job",
    [GT_JOB_RAY_JOB] = "raycluster",
    [GT_JOB_RAY_SERVICE] = "raycluster",
    [GT_JOB_INDEXED] = "indexed-job",
    [GT_JOB_STATEFULSET] = "inference-statefulset",
    [GT_JOB_REPLICASET] = "deployment",
    [GT_JOB_CUSTOM] = "pytorchjob",
};
static const char custom[] = "{\"kinds\":[{\"apiVersion\":\"example.com/"
                             "v1\",\"kind\":\"Training\",\"resource\":\"trainings\",\"labels\":{"
                             "\"job\":\"example.com/job\",\"role\":\"example.com/"
                             "role\"},\"templates\":[{\"each\":\".spec.roles\",\"path\":"
                             "\".template\",\"replicas\":\".replicas\"}],\"minimum\":\".spec.minAvailable\","
                             "\"suspend\":\".spec.suspend\"}]}";

/* ---- what another reader makes of the object, beside what is expected ---- */

static struct {
    bool on;
    int result;
    const struct gt_owner *owner;
    const char *text;
    unsigned reads;
} expected;

static void check_text(const char *a, const char *b)
{
    if (!a != !b || (a && strcmp(a, b) != 0))
        fail_msg("'%s', expected '%s': %s", a, b, expected.text);
}

static void check_bytes(const void *a, const void *b, size_t size)
{
    if (!a != !b || (a && memcmp(a, b, size) != 0))
        fail_msg("another owner: %s", expected.text);
}

static void check_template(struct gt_job_template a, struct gt_job_template b)
{
    check_text(a.role, b.role);
    assert_int_equal(a.containers, b.containers);
    check_bytes(a.gpus, b.gpus, a.containers * sizeof(*a.gpus));
    for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++) {
        check_text(a.texts.of[k], b.texts.of[k]);
        a.texts.of[k] = b.texts.of[k] = NULL;
    }
    a.role = b.role = NULL;
    a.gpus = b.gpus = NULL;
    check_bytes(&a, &b, sizeof(a)); /* whatever else it has: a new pointer is to be compared above */
}

static void check_job(struct gt_owner a, struct gt_owner b)
{
    assert_int_equal(a.spec.count, b.spec.count);
    for (unsigned i = 0; i < a.spec.count; i++)
        check_template(a.spec.templates[i], b.spec.templates[i]);
    check_text(a.spec.master, b.spec.master);
    check_text(a.role, b.role);
    check_text(a.refusal, b.refusal);
    check_text(a.broken, b.broken);
    check_bytes(a.ended_at, b.ended_at,
                a.spec.count ? (a.spec.templates[0].replicas + 63) / 64 * sizeof(*a.ended_at) : 0);
    a.spec.templates = b.spec.templates = NULL;
    a.spec.master = b.spec.master = a.role = b.role = a.refusal = b.refusal = a.broken = b.broken = NULL;
    a.ended_at = b.ended_at = NULL;
    a.next = b.next = NULL;
    check_bytes(&a, &b, sizeof(a));
}

int __real_gt_owner_read(enum gt_job_kind kind, const cJSON *object, const char *resource,
                         struct gt_owner **ret, struct gt_err **err);
int __wrap_gt_owner_read(enum gt_job_kind kind, const cJSON *object, const char *resource,
                         struct gt_owner **ret, struct gt_err **err);

int __wrap_gt_owner_read(enum gt_job_kind kind, const cJSON *object, const char *resource,
                         struct gt_owner **ret, struct gt_err **err)
{
    int r = __real_gt_owner_read(kind, object, resource, ret, err);
    if (!expected.on)
        return r;
    /* Without an error object its code is not known to those that wrap it. */
    assert_int_equal(err ? r : r < 0, err ? expected.result : expected.result < 0);
    const struct gt_owner *a = r < 0 ? NULL : *ret, *b = expected.owner;
    for (; a && b; a = a->next, b = b->next)
        check_job(*a, *b);
    if (a || b)
        fail_msg("%s jobs: %s", a ? "more" : "fewer", expected.text);
    expected.reads++;
    return r;
}

/* ---- examples ---- */

static cJSON *read_example(enum gt_job_kind kind)
{
    /* What the examples have no use for. */
    static const char of_spec[] =
        "{\"minAvailable\":3,\"backoffLimit\":7,\"suspend\":false,\"parallelism\":5,\"runPolicy\":{"
        "\"suspend\":false,"
        "\"schedulingPolicy\":{\"minAvailable\":2}},\"elasticPolicy\":{\"minReplicas\":2,\"maxReplicas\":9}}";
    static const char of_status[] = "{\"succeeded\":1,\"failed\":2,\"completedIndexes\":\"0,2-3\","
                                    "\"failedIndexes\":\"5\",\"replicaStatuses\":{"
                                    "\"Worker\":{\"succeeded\":1}},\"state\":{\"phase\":\"Running\"},"
                                    "\"conditions\":[{\"type\":\"Complete\","
                                    "\"status\":\"False\"},{\"type\":\"Succeeded\",\"status\":\"True\"}]}";
    const char *roles = gt_kind_of(kind)->roles;
    cJSON *json = example_of(examples[kind] ? examples[kind] : gt_owner_type(kind)->kind);
    cJSON *spec = cJSON_GetObjectItem(json, "spec"), *metadata = cJSON_GetObjectItem(json, "metadata");
    gt_auto_json cJSON *more = cJSON_Parse(of_spec);
    while (more->child) {
        cJSON *item = cJSON_DetachItemViaPointer(more, more->child);
        if (cJSON_HasObjectItem(spec, item->string))
            cJSON_Delete(item);
        else
            cJSON_AddItemToObject(spec, item->string, item);
    }
    cJSON *roles_there = cJSON_DetachItemFromObject(spec, "pytorchReplicaSpecs");
    if (roles_there)
        cJSON_AddItemToObject(spec, roles ? roles : "roles", roles_there);
    else if (roles)
        cJSON_AddItemToObject(cJSON_AddObjectToObject(json, "spec"), roles,
                              cJSON_DetachItemViaPointer(json, spec));
    cJSON_AddStringToObject(metadata, "namespace", "ns");
    cJSON_AddStringToObject(metadata, "uid", "u-1");
    cJSON_AddNumberToObject(metadata, "generation", 3);
    cJSON_AddItemToObject(json, "status", cJSON_Parse(of_status));
    return json;
}

/* ---- mutants ---- */

static unsigned count_values(const cJSON *json)
{
    unsigned count = 1;
    for (const cJSON *item = json->child; item; item = item->next)
        count += count_values(item);
    return count;
}

static cJSON *value_at(cJSON *json, unsigned *left, cJSON **ret_parent)
{
    for (cJSON *item = json->child, *found; item; item = item->next) {
        *ret_parent = json;
        if (!(*left)--)
            return item;
        if ((found = value_at(item, left, ret_parent)))
            return found;
    }
    return NULL;
}

static void mutate(cJSON *json, unsigned *seed)
{
    static const char *const values[] = {"null",
                                         "0",
                                         "1",
                                         "7",
                                         "-1",
                                         "2.5",
                                         "4294967296",
                                         "1e30",
                                         "\"\"",
                                         "\"8\"",
                                         "\"all\"",
                                         "\"32Gi\"",
                                         "true",
                                         "false",
                                         "{}",
                                         "[]",
                                         "[{}]",
                                         "{\"metax-tech.com/gpu\":\"8\"}",
                                         "\"2026-01-01T00:00:00Z\"",
                                         "{\"metax-tech.com/gpu-group-size\":\"16\"}",
                                         "[\"torchrun\",\"--nnodes=2:4\"]"};
    unsigned left = (unsigned)rand_r(seed) % (count_values(json) - 1);
    cJSON *parent = NULL, *item = value_at(json, &left, &parent);
    char *name = item->string ? strdup(item->string) : NULL;
    unsigned kind = (unsigned)rand_r(seed) % 4;
    if (kind == 0) {
        cJSON_Delete(cJSON_DetachItemViaPointer(parent, item));
    } else {
        cJSON *new = kind == 1 ? cJSON_Duplicate(item, true)
                               : cJSON_Parse(values[(unsigned)rand_r(seed) % GT_COUNT(values)]);
        bool retyped = kind == 3;
        if (retyped)
            cJSON_ReplaceItemViaPointer(parent, item, new);
        if (retyped && name && !new->string)
            new->string = strdup(name);
        if (!retyped && name)
            cJSON_AddItemToObject(parent, name, new); /* a second of the name */
        else if (!retyped)
            cJSON_AddItemToArray(parent, new);
    }
    free(name);
}

/* ---- the tests ---- */

struct readers {
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_json_arena *arena;
};

static void review(const struct readers *readers, enum gt_job_kind kind, const char *text,
                   enum gt_claims claims)
{
    const struct gt_owner_type *type = gt_owner_type(kind);
    const struct gt_webhook webhook = {
        .resource = RESOURCE, .owners = readers->owners, .cache = readers->cache, .claims = claims};
    gt_auto_buf struct gt_buf body = GT_BUF(2 * TEXT_MAX), answer = GT_BUF(TEXT_MAX);
    gt_buf_printf(
        &body,
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\","
        "\"operation\":\"CREATE\",\"namespace\":\"ns\",\"kind\":{\"group\":\"%s\",\"version\":\"%s\","
        "\"kind\":\"%s\"},\"object\":%s}}",
        type->group, type->version, type->kind, text);
    assert_int_equal(gt_webhook_validate(&webhook, body.data, body.len, &answer, NULL), 0);
}

static void watch(const struct readers *readers, enum gt_job_kind kind, const char *text)
{
    cJSON *json = gt_json_arena_parse(readers->arena, text, strlen(text), NULL);
    gt_owners_put(readers->owners, kind, json);
    gt_json_arena_delete(readers->arena, json);
}

/* Whether it was read without a fault. */
static bool compare(const struct readers *readers, enum gt_job_kind kind, const cJSON *object)
{
    gt_auto_owner struct gt_owner *owner = NULL;
    gt_auto_free char *text = cJSON_PrintUnformatted(object);
    gt_auto_json cJSON *json = NULL;
    assert_int_equal(gt_json_parse(text, strlen(text), "object", &json, NULL), 0);
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_owner_read(kind, json, RESOURCE, &owner, &err);
    bool deleting =
        !cJSON_IsNull(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "metadata"), "deletionTimestamp")) &&
        cJSON_GetObjectItem(cJSON_GetObjectItem(json, "metadata"), "deletionTimestamp");
    expected.on = true;
    expected.result = r;
    expected.owner = owner;
    expected.text = text;
    expected.reads = 0;
    watch(readers, kind, text);
    assert_int_equal(expected.reads, 1);
    review(readers, kind, text, GT_CLAIMS_OFF);
    review(readers, kind, text, GT_CLAIMS_OF_ALL);
    assert_int_equal(expected.reads, deleting ? 1 : 3);
    expected.on = false;
    return r >= 0 && owner;
}

static void test_kind(void **state)
{
    const struct readers *readers = *state;
    for (unsigned kind = 0; kind <= GT_JOB_CUSTOM; kind++) {
        unsigned seed = kind + 1, sound = 0;
        gt_auto_json cJSON *example = read_example((enum gt_job_kind)kind);
        if (!compare(readers, (enum gt_job_kind)kind, example))
            fail_msg("the example of %s asks for no GPUs", gt_kind_of((enum gt_job_kind)kind)->name);
        for (unsigned i = 0; i < MUTANTS; i++) {
            gt_auto_json cJSON *mutant = cJSON_Duplicate(example, true);
            for (unsigned n = 1 + (unsigned)rand_r(&seed) % 4; n; n--)
                mutate(mutant, &seed);
            sound += compare(readers, (enum gt_job_kind)kind, mutant);
        }
        assert_true(sound > MUTANTS / 10 && sound < MUTANTS);
    }
}

int main(void)
{
    struct readers readers = {.cache = new_cache(NULL)};
    gt_auto_json cJSON *kinds = cJSON_Parse(custom);
    if (gt_custom_kinds_load(kinds, "kinds", NULL) < 0 ||
        gt_owners_new(RESOURCE, &readers.owners, NULL) < 0 || gt_json_arena_new(&readers.arena, NULL) < 0)
        return 1;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(test_kind, &readers),
    };
    int r = cmocka_run_group_tests(tests, NULL, NULL);
    gt_owners_free(readers.owners);
    gt_json_arena_free(readers.arena);
    gt_cache_free(readers.cache);
    return r;
}
