/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "scheduler-ext/webhook/webhook.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/base64.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/placement/json_path.h"

/* Which pods are gated, and what is refused. */

#define RESOURCE   "metax-tech.com/gpu"
#define SPEC(gpus) "\"containers\":[{\"name\":\"m\",\"resources\":{\"limits\":{\"" RESOURCE "\":" gpus "}}}]"
#define GROUP      "\"metax-tech.com/gpu-group-size\":"
#define ATOMIC     "\"metax-tech.com/atomic-gpu-group-size\":"
#define TEMPLATE(annotations)                                                                                \
    "{\"metadata\":{\"annotations\":{" annotations "}},\"spec\":{" SPEC("\"8\"") "}}"
#define OWNED_BY(version, kind, name)                                                                        \
    ",\"ownerReferences\":[{\"apiVersion\":\"" version "\",\"kind\":\"" kind "\",\"name\":\"" name           \
    "\",\"controller\":true}]"
#define SET_POD(index, annotations)                                                                          \
    "{\"metadata\":{\"name\":\"set-" index "\",\"annotations\":{" annotations                                \
    "},\"labels\":{\"apps.kubernetes.io/pod-index\":\"" index                                                \
    "\"}" OWNED_BY("apps/v1", "StatefulSet", "set") //

struct world {
    struct gt_webhook webhook;
    struct gt_owners *owners;
    struct gt_cache *cache;
};

static int set_up(void **state)
{
    struct world *world = calloc(1, sizeof(*world));
    if (!world)
        return -1;
    world->cache = new_cache(NULL);
    assert_int_equal(gt_owners_new(RESOURCE, &world->owners, NULL), 0);
    world->webhook =
        (struct gt_webhook){.resource = RESOURCE, .owners = world->owners, .cache = world->cache};
    *state = world;
    return 0;
}

static int tear_down(void **state)
{
    struct world *world = *state;
    gt_owners_free(world->owners);
    gt_cache_free(world->cache);
    free(world);
    return 0;
}

static void put_owner(struct world *world, enum gt_job_kind kind, const char *name, const char *spec)
{
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 16);
    gt_buf_printf(&text, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\"},\"spec\":%s}", name, spec);
    cJSON *json = cJSON_Parse(text.data);
    assert_non_null(json);
    gt_owners_put(world->owners, kind, json);
    cJSON_Delete(json);
}

typedef int asked(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                  struct gt_err **err);

static cJSON *ask(struct world *world, asked *what, const char *operation, const char *kind,
                  const char *object, const char *old)
{
    gt_auto_buf struct gt_buf body = GT_BUF(1 << 20), answer = GT_BUF(1 << 20);
    gt_auto_err struct gt_err *err = NULL;
    gt_buf_printf(&body,
                  "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":"
                  "\"a-uid\",\"operation\":\"%s\",\"namespace\":\"ns\",\"kind\":%s,\"object\":%s,"
                  "\"oldObject\":%s}}",
                  operation, kind, object, old ? old : "null");
    if (what(&world->webhook, body.data, body.len, &answer, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    cJSON *json = cJSON_ParseWithLength(answer.data, answer.len);
    assert_non_null(json);
    assert_string_equal(json_text(json, "response.uid"), "a-uid");
    assert_string_equal(json_text(json, "apiVersion"), "admission.k8s.io/v1");
    return json;
}

static const char pod_kind[] = "{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Pod\"}";

static const char *warning_of(const cJSON *json)
{
    return cJSON_GetStringValue(cJSON_GetArrayItem(json_at(json, "response.warnings"), 0));
}

/* The patch, "" where there is none. */
static void mutate(struct world *world, const char *pod, const char *want, const char *warning)
{
    cJSON *json = ask(world, gt_webhook_mutate, "CREATE", pod_kind, pod, NULL);
    gt_auto_buf struct gt_buf patch = GT_BUF(4096);
    const char *encoded = json_text(json, "response.patch");
    assert_true(cJSON_IsTrue(json_at(json, "response.allowed")));
    if (encoded)
        assert_int_equal(gt_base64_decode(encoded, &patch, NULL), 0);
    if (strcmp(patch.data ? patch.data : "", want) != 0)
        fail_msg("patch '%s', expected '%s', of %s", patch.data ? patch.data : "", want, pod);
    if (!warning != !warning_of(json) || (warning && !strstr(warning_of(json), warning)))
        fail_msg("warning '%s', of %s", warning_of(json), pod);
    cJSON_Delete(json);
}

static const char first_gate[] =
    "[{\"op\":\"add\",\"path\":\"/spec/schedulingGates\",\"value\":[{\"name\":\"metax-tech.com/"
    "gpu-placement\"}]}]";
static const char next_gate[] = "[{\"op\":\"add\",\"path\":\"/spec/schedulingGates/"
                                "-\",\"value\":{\"name\":\"metax-tech.com/gpu-placement\"}}]";

static void test_own_annotation(void **state)
{
    mutate(*state, TEMPLATE(GROUP "\"32\""), first_gate, NULL);
    mutate(*state, TEMPLATE(""), "", NULL);
    mutate(*state, TEMPLATE(ATOMIC "\"16\""), "", "does nothing without");
    mutate(*state, "{\"metadata\":{\"annotations\":{" GROUP "\"32\"}},\"spec\":{" SPEC("0") "}}", "", NULL);
    mutate(*state, "{\"metadata\":{\"annotations\":{" GROUP "\"32\"}},\"spec\":{\"containers\":[]}}", "",
           NULL);
}

static void test_gates_and_nodes(void **state)
{
    mutate(*state,
           "{\"metadata\":{\"annotations\":{" GROUP
           "\"32\"}},\"spec\":{\"schedulingGates\":[{\"name\":\"x\"}]," //
           SPEC("8") "}}",
           next_gate, NULL);
    mutate(*state,
           "{\"metadata\":{\"annotations\":{" GROUP
           "\"32\"}},\"spec\":{\"schedulingGates\":[{\"name\":\"" GT_GATE "\"}]," SPEC("8") "}}",
           "", NULL);
    mutate(*state,
           "{\"metadata\":{\"annotations\":{" GROUP
           "\"32\"}},\"spec\":{\"schedulingGates\":[]," SPEC("8") "}}",
           first_gate, NULL);
    mutate(*state,
           "{\"metadata\":{\"annotations\":{" GROUP "\"32\"}},\"spec\":{\"nodeName\":\"n\"," SPEC("8") "}}",
           "", "names its node already");
}

/* Who wrote which field of a pod that is gated is forgotten, unless somebody applies the pod. */
static void test_managers_are_removed(void **state)
{
    static const char remove[] = ",{\"op\":\"remove\",\"path\":\"/metadata/managedFields\"}]";
    static const struct {
        const char *managers, *template;
        bool removed;
    } cases[] = {
        {"[]", GROUP "\"32\"", false},
        {"[{\"operation\":\"Update\"}]", GROUP "\"32\"", true},
        {"[{\"operation\":\"Update\"},{\"operation\":\"Apply\"}]", GROUP "\"32\"", false},
        {"[{\"operation\":\"Update\"}]", "", false}, /* nor of one that stays as it is */
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf pod = GT_BUF(4096), want = GT_BUF(4096);
        gt_buf_printf(&pod, "{\"metadata\":{\"managedFields\":%s,\"annotations\":{%s}},\"spec\":{%s}}",
                      cases[i].managers, cases[i].template, SPEC("8"));
        if (*cases[i].template)
            gt_buf_printf(&want, "%.*s%s", (int)strlen(first_gate) - 1, first_gate,
                          cases[i].removed ? remove : "]");
        mutate(*state, pod.data, want.data ? want.data : "", NULL);
    }
}

/* Who makes a pod writes no plan; what stands there in place of annotations does not matter. */
static void test_plans_of_others(void **state)
{
    mutate(
        *state,
        "{\"metadata\":{\"annotations\":{\"a\":\"b\",\"plan.topology.metax-tech.com/node\":\"n\","
        "\"plan.topology.metax-tech.com/x~/y\":\"\"}},\"spec\":{" SPEC("8") "}}",
        "[{\"op\":\"remove\",\"path\":\"/metadata/annotations/plan.topology.metax-tech.com~1node\"},{\"op\":"
        "\"remove\",\"path\":\"/metadata/annotations/plan.topology.metax-tech.com~1x~0~1y\"}]",
        NULL);
    mutate(
        *state,
        "{\"metadata\":{\"annotations\":[\"plan.topology.metax-tech.com/node\"]},\"spec\":{" SPEC("8") "}}",
        "", NULL);
    mutate(*state, "{\"metadata\":{\"annotations\":\"x\"},\"spec\":{" SPEC("8") "}}", "", NULL);
}

#define REMOVE(list, at, member)                                                                             \
    "{\"op\":\"remove\",\"path\":\"/spec/" list "/" at "/resources/" member "/metax-tech.com~1gpu\"}"
#define CLAIMED(request) "{\"name\":\"gputopo-gpus\",\"request\":\"gpus-" request "\"}"

/* Limits of pods of jobs with groups, or of all, become one claim; the gate comes with it. */
static void test_claims(void **state)
{
    struct world *world = *state;
    static const char claims[] =
        "{\"op\":\"add\",\"path\":\"/spec/resourceClaims\",\"value\":[{\"name\":\"gputopo-gpus\","
        "\"resourceClaimTemplateName\":\"gputopo-gpus-8\"}]}," REMOVE(
            "containers", "0",
            "limits") ","
                      "{\"op\":\"add\",\"path\":\"/spec/containers/0/resources/claims\",\"value\":[" CLAIMED(
                          "0") "]}";
    gt_auto_buf struct gt_buf grouped = GT_BUF(4096), single = GT_BUF(4096);
    gt_buf_printf(&grouped, "[%s,%s", claims, first_gate + 1);
    gt_buf_printf(&single, "[%s]", claims);
    world->webhook.claims = GT_CLAIMS_OF_GROUPS;
    mutate(world, TEMPLATE(GROUP "\"8\""), grouped.data, NULL);
    mutate(world, TEMPLATE(""), "", NULL);
    world->webhook.claims = GT_CLAIMS_OF_ALL;
    mutate(world, TEMPLATE(""), single.data, NULL);
    mutate(world, "{\"spec\":{\"nodeName\":\"n\"," SPEC("8") "}}", "", NULL);
    mutate(world, "{\"spec\":{" SPEC("33") "}}", "", "more GPUs than a claim may have");
    /* asked again, since another webhook changed it */
    mutate(world,
           "{\"spec\":{\"resourceClaims\":[{\"name\":\"gputopo-gpus\",\"resourceClaimTemplateName\":"
           "\"gputopo-gpus-8\"}],\"containers\":[{\"name\":\"m\",\"resources\":{\"claims\":[" CLAIMED(
               "0") "]}}]}}",
           "", NULL);
    mutate(
        world,
        "{\"spec\":{\"resourceClaims\":[{\"name\":\"nic\"}],\"initContainers\":[{\"name\":\"i\"},"
        "{\"name\":\"j\",\"resources\":{\"requests\":{\"" RESOURCE "\":1},\"limits\":{\"" RESOURCE
        "\":1},\"claims\":[{\"name\":\"nic\"}]}}]," SPEC("2") "}}",
        "[{\"op\":\"add\",\"path\":\"/spec/resourceClaims/-\",\"value\":{\"name\":\"gputopo-gpus\","
        "\"resourceClaimTemplateName\":\"gputopo-gpus-1-1\"}}," REMOVE("initContainers", "1", "limits") "," //
        REMOVE("initContainers", "1",
               "requests") ",{\"op\":\"add\",\"path\":"
                           "\"/spec/initContainers/1/resources/claims/-\",\"value\":" CLAIMED("0") "}," //
        REMOVE("containers", "0", "limits") ",{\"op\":\"add\",\"path\":"
                                            "\"/spec/containers/0/resources/claims\",\"value\":[" CLAIMED(
                                                "0") "," CLAIMED("1") "]}]",
        NULL);
}

/* However many annotations and containers it has, before those that count. */
static void test_hidden_in_a_crowd(void **state)
{
    gt_auto_buf struct gt_buf pod = GT_BUF(1 << 18), crowd = GT_BUF(1 << 18);
    static const char plan[] = "\"plan.topology.metax-tech.com/node\":\"n\"";
    static const char no_plan[] =
        "{\"op\":\"remove\",\"path\":\"/metadata/annotations/plan.topology.metax-tech.com~1node\"}";
    gt_auto_buf struct gt_buf want = GT_BUF(1 << 10);
    for (unsigned i = 0; i < 1000; i++)
        gt_buf_printf(&crowd, "\"example.com/%u\":\"\",", i);
    gt_buf_printf(&pod, "{\"metadata\":{\"annotations\":{%s%s,%s\"32\"}},\"spec\":{%s}}", crowd.data, plan,
                  GROUP, SPEC("8"));
    gt_buf_printf(&want, "[%s,%s", no_plan, first_gate + 1);
    mutate(*state, pod.data, want.data, NULL);

    gt_buf_consume(&pod, pod.len);
    gt_buf_consume(&want, want.len);
    gt_buf_printf(&pod, "{\"metadata\":{\"annotations\":{%s}},\"spec\":{\"containers\":[", plan);
    for (unsigned i = 0; i <= GT_POD_CONTAINERS_MAX; i++)
        gt_buf_printf(&pod, "%s{\"resources\":{\"limits\":{\"" RESOURCE "\":1}}}", i ? "," : "");
    gt_buf_puts(&pod, "]}}");
    gt_buf_printf(&want, "[%s]", no_plan);
    mutate(*state, pod.data, want.data, NULL);
}

/* The manual's jobs annotate one template only. */
static void test_annotation_of_another_template(void **state)
{
    struct world *world = *state;
    static const char worker[] =
        "{\"metadata\":{\"name\":\"demo-worker-3\",\"labels\":{\"training.kubeflow.org/job-name\":\"demo\","
        "\"training.kubeflow.org/replica-type\":\"worker\",\"training.kubeflow.org/replica-index\":\"3\"}" //
        OWNED_BY("kubeflow.org/v1", "PyTorchJob", "demo") "},\"spec\":{" SPEC("8") "}}";
    mutate(world, worker, first_gate, NULL); /* in doubt */
    put_owner(world, GT_JOB_PYTORCH, "demo",
              "{\"pytorchReplicaSpecs\":{\"Master\":{\"template\":" TEMPLATE(GROUP "\"32\"") //
              "},\"Worker\":{\"replicas\":7,\"template\":" TEMPLATE("") "}}}");
    mutate(world, worker, first_gate, NULL);
    put_owner(world, GT_JOB_PYTORCH, "demo",
              "{\"pytorchReplicaSpecs\":{\"Worker\":{\"replicas\":7,\"template\":" TEMPLATE("") "}}}");
    mutate(world, worker, "", NULL);
}

/* Owners of other kinds have no known templates: other pods of the job show the data. */
static void test_siblings(void **state)
{
    struct world *world = *state;
    static const char pod[] = "{\"metadata\":{\"name\":\"x-2\"" OWNED_BY("example.com/v1", "Thing", "x") //
        "},\"spec\":{" SPEC("8") "}}";
    mutate(world, pod, "", NULL);
    give_pod(world->cache, POD(.name = "x-w-0", .gpus = 8, .gated = true,
                               .labels = "\"volcano.sh/job-name\":\"x\",\"volcano.sh/task-spec\":\"w\","
                                         "\"volcano.sh/task-index\":\"0\"",
                               .annotations = "\"metax-tech.com/gpu-group-size\":\"16\","));
    put_owner(world, GT_JOB_VOLCANO, "y", "{\"tasks\":[{\"name\":\"w\",\"template\":" TEMPLATE("") "}]}");
    mutate(world,
           "{\"metadata\":{\"name\":\"x-w-1\",\"labels\":{\"volcano.sh/job-name\":\"x\",\"volcano.sh/"
           "task-spec\":"
           "\"w\",\"volcano.sh/task-index\":\"1\"}},\"spec\":{" SPEC("8") "}}",
           first_gate, NULL);
    mutate(world,
           "{\"metadata\":{\"name\":\"y-w-1\",\"labels\":{\"volcano.sh/job-name\":\"y\",\"volcano.sh/"
           "task-spec\":"
           "\"w\",\"volcano.sh/task-index\":\"1\"}},\"spec\":{" SPEC("8") "}}",
           "", NULL);
}

static void test_what_is_not_ours(void **state)
{
    struct world *world = *state;
    static const char master[] =
        "{\"metadata\":{\"name\":\"m\",\"labels\":{\"elasticjob.dlrover/name\":\"e\","
        "\"elasticjob.dlrover/replica-type\":\"dlrover-master\"}},\"spec\":{" SPEC("1") "}}";
    mutate(world, master, "", NULL);
    cJSON *json = ask(world, gt_webhook_mutate, "UPDATE", pod_kind, TEMPLATE(GROUP "\"32\""), NULL);
    assert_null(json_at(json, "response.patch"));
    cJSON_Delete(json);
    json = ask(world, gt_webhook_mutate, "CREATE", "{\"group\":\"\",\"version\":\"v1\",\"kind\":\"Node\"}",
               TEMPLATE(GROUP "\"32\""), NULL);
    assert_null(json_at(json, "response.patch"));
    cJSON_Delete(json);
}

/* NULL: it is allowed. */
static void validate(struct world *world, const char *operation, const char *kind, const char *object,
                     const char *old, const char *sentence)
{
    cJSON *json =
        ask(world, kind == pod_kind ? gt_webhook_mutate : gt_webhook_validate, operation, kind, object, old);
    const char *message = json_text(json, "response.status.message");
    bool allowed = cJSON_IsTrue(json_at(json, "response.allowed"));
    if (allowed != !sentence || (sentence && (!message || strcmp(message, sentence) != 0)))
        fail_msg("'%s', expected '%s', for %s", message ? message : "(allowed)",
                 sentence ? sentence : "(allowed)", object);
    if (!allowed)
        assert_int_equal(json_at(json, "response.status.code")->valueint, 422);
    cJSON_Delete(json);
}

/* What the API server asks about by its conditions breaks a rule. */
static void test_forbidden(void **state)
{
    struct world *world = *state;
    cJSON *json = ask(world, gt_webhook_forbid, "UPDATE", pod_kind, TEMPLATE(""), TEMPLATE(""));
    assert_true(cJSON_IsFalse(json_at(json, "response.allowed")));
    assert_int_equal(json_at(json, "response.status.code")->valueint, 403);
    assert_string_equal(json_text(json, "response.status.reason"), "Forbidden");
    assert_string_equal(json_text(json, "response.status.message"),
                        "it breaks a rule that docs/reference/permissions.md lists by this name");
    cJSON_Delete(json);
}

static void test_refused_pods(void **state)
{
    struct world *world = *state;
    validate(world, "CREATE", pod_kind, TEMPLATE(GROUP "\"32\""), NULL, NULL);
    validate(world, "CREATE", pod_kind, TEMPLATE(""), NULL, NULL);
    validate(world, "CREATE", pod_kind, TEMPLATE(GROUP "\"20\""), NULL,
             "gpu-group-size 20 is not a multiple of the pod's 8 GPUs");
    validate(world, "CREATE", pod_kind, TEMPLATE(GROUP "\"3.5\""), NULL,
             "gpu-group-size: \"3.5\" is not a number of GPUs, nor the word group or subgroup");
    validate(
        world, "CREATE", pod_kind, TEMPLATE(GROUP "\"1000000000000000000000000000000\""), NULL,
        "gpu-group-size: 1000000000000000000000000000000 GPUs are more than any cluster has, the limit is "
        "8388608");
    validate(world, "CREATE", pod_kind, TEMPLATE(GROUP "\"32\"," ATOMIC "\"12\""), NULL,
             "atomic-gpu-group-size 12 does not divide gpu-group-size 32");
    validate(world, "CREATE", pod_kind, TEMPLATE(ATOMIC "\"nonsense\""), NULL, NULL); /* left alone */
    validate(world, "UPDATE", pod_kind, TEMPLATE(GROUP "\"20\""), NULL, NULL);
    validate(world, "CREATE", pod_kind,
             "{\"metadata\":{\"name\":\"w\",\"annotations\":{" GROUP "\"32\"},\"labels\":{"
             "\"training.kubeflow.org/job-name\":\"d\",\"training.kubeflow.org/replica-type\":\"worker\"}},"
             "\"spec\":{" SPEC("8") "}}",
             NULL, "pod ns/w: training.kubeflow.org/replica-index is missing, its rank is not known");
}

static void test_pod_against_its_owner(void **state)
{
    struct world *world = *state;
    static const char pod[] = SET_POD("1", GROUP "\"16\"") "},\"spec\":{" SPEC("8") "}}";
    static const char plain[] = SET_POD("1", "") "},\"spec\":{" SPEC("8") "}}";
    validate(world, "CREATE", pod_kind, plain, NULL, NULL); /* in doubt nothing is refused */
    put_owner(world, GT_JOB_STATEFULSET, "set", "{\"replicas\":4,\"template\":" TEMPLATE(GROUP "\"32\"") "}");
    validate(world, "CREATE", pod_kind, pod, NULL,
             "gpu-group-size differs within the job: 32 on the template, 16 on set-1");
    validate(world, "CREATE", pod_kind, plain, NULL, NULL);
    put_owner(world, GT_JOB_STATEFULSET, "set", "{\"replicas\":5,\"template\":" TEMPLATE(GROUP "\"32\"") "}");
    validate(world, "CREATE", pod_kind, plain, NULL,
             "the job's 40 GPUs are not a multiple of gpu-group-size 32");
}

static void test_refused_owners(void **state)
{
    struct world *world = *state;
    static const char kind[] = "{\"group\":\"apps\",\"version\":\"v1\",\"kind\":\"StatefulSet\"}";
    static const char good[] = "{\"spec\":{\"replicas\":4,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
                      bad[] = "{\"spec\":{\"replicas\":5,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
                      larger[] = "{\"spec\":{\"replicas\":8,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
                      leaving[] = "{\"metadata\":{\"deletionTimestamp\":\"x\"},\"spec\":{\"replicas\":5,"
                                  "\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
                      free_one[] = "{\"spec\":{\"replicas\":5,\"template\":" TEMPLATE("") "}}";
    static const char sentence[] = "the job's 40 GPUs are not a multiple of gpu-group-size 32";
    validate(world, "CREATE", kind, good, NULL, NULL);
    validate(world, "CREATE", kind, free_one, NULL, NULL);
    validate(world, "CREATE", kind, bad, NULL, sentence);
    validate(world, "CREATE", kind,
             "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/job-topology\":\"prefered\"") "}}", NULL,
             "job-topology: \"prefered\" is none of preferred, none and required=TIER, where TIER is "
             "supernode, leaf, spine, hall or a number from 1 to 8; preferred is meant");
    validate(world, "UPDATE", kind, bad, good, sentence);
    validate(world, "UPDATE", kind, bad, larger, NULL); /* giving GPUs back is always allowed */
    validate(world, "UPDATE", kind, bad, bad, NULL);    /* it was broken before: let its finalizers go */
    validate(world, "UPDATE", kind, leaving, good, NULL);
    static const char unreadable[] =
        "{\"spec\":{\"replicas\":200000,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
                      other[] = "{\"spec\":{\"replicas\":200000,\"template\":" TEMPLATE("") "}}",
                      limit[] = "replicas is no number of pods from 0 to 131072";
    validate(world, "CREATE", kind, unreadable, NULL, limit);
    validate(world, "UPDATE", kind, unreadable, good, limit);
    validate(world, "UPDATE", kind, unreadable, unreadable, NULL);
    validate(world, "CREATE", kind, other, NULL, NULL); /* it is none of ours */
    validate(world, "DELETE", kind, "null", bad, NULL);
    validate(world, "CREATE", "{\"group\":\"x\",\"version\":\"v1\",\"kind\":\"StatefulSet\"}", bad, NULL,
             NULL);
}

/* All warnings of an answer, which allows the object. */
static void assert_warns(struct world *world, const char *kind, const char *object, const char *warnings)
{
    gt_auto_buf struct gt_buf found = GT_BUF(4096);
    cJSON *json =
        ask(world, kind == pod_kind ? gt_webhook_mutate : gt_webhook_validate, "CREATE", kind, object, NULL);
    const cJSON *text;
    assert_true(cJSON_IsTrue(json_at(json, "response.allowed")));
    cJSON_ArrayForEach(text, json_at(json, "response.warnings"))
        gt_buf_printf(&found, "%s\n", text->valuestring);
    if (strcmp(found.data ? found.data : "", warnings) != 0)
        fail_msg("'%s', expected '%s', of %s", found.data ? found.data : "", warnings, object);
    cJSON_Delete(json);
}

#define KIND(group, kind) "{\"group\":\"" group "\",\"version\":\"v1\",\"kind\":\"" kind "\"}"
#define META(annotations) "\"metadata\":{\"annotations\":{" annotations "}}"

/* Keys of ours that do nothing as they are. */
static void test_key_warnings(void **state)
{
    struct world *world = *state;
    static const char set[] = KIND("apps", "StatefulSet"), job[] = KIND("batch", "Job");
    static const char near[] =
        "unknown key metax-tech.com/gpu-groupsize: metax-tech.com/gpu-group-size is meant\n";
    const struct {
        const char *kind, *object, *warnings;
    } cases[] = {
        {set, "{" META(GROUP "\"32\"") ",\"spec\":{\"replicas\":4,\"template\":" TEMPLATE("") "}}", ""},
        {set,
         "{\"spec\":{\"replicas\":4,\"template\":" TEMPLATE("\"metax-tech.com/gpu-groupsize\":\"32\"") "}}",
         near},
        {job, "{" META("\"metax-tech.com/gpu-groupsize\":\"8\"") ",\"spec\":{\"template\":" TEMPLATE("") "}}",
         near},
        {job,
         "{" META("\"metax-tech.com/gpu-group-sizes\":\"8\",\"metax-tech.com/on-Node-lost\":\"x\"") //
         ",\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/gpu-group-sizes\":\"8\"") "}}",
         "unknown key metax-tech.com/gpu-group-sizes: metax-tech.com/gpu-group-size is meant\n"
         "unknown key metax-tech.com/on-Node-lost: metax-tech.com/on-node-loss is meant\n"},
        {job,
         "{" META("\"metax-tech.com/gpu.memory\":\"8\",\"x.com/gpu-groupsize\":\"8\"") //
         ",\"spec\":{\"template\":" TEMPLATE("") "}}",
         ""},
        {job, "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/movable\":\"6 h\"") "}}",
         "metax-tech.com/movable 6 h: expected true, false, after-checkpoint, a time such as 6h, or hours "
         "such as "
         "22:00-06:00: it does not move\n"},
        {job, "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/movable\":\"6h\"") "}}", ""},
        {job, "{\"metadata\":{\"labels\":{" GROUP "\"8\"}},\"spec\":{\"template\":" TEMPLATE("") "}}",
         "metax-tech.com/gpu-group-size is a label here and does nothing: it has to be an annotation\n"},
        {set,
         "{" META(GROUP "\"16\"") ",\"spec\":{\"replicas\":4,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
         "metax-tech.com/gpu-group-size \"16\" does nothing: a template below it has \"32\"\n"},
        {set,
         "{" META(GROUP "\"32\"") ",\"spec\":{\"replicas\":4,\"template\":" TEMPLATE(GROUP "\"32\"") "}}",
         ""},
        {set,
         "{" META(GROUP "\"32\"") ",\"spec\":{\"template\":{\"spec\":{\"containers\":[{\"name\":\"m\"}]}}}}",
         "its gpu-group-size does nothing: no pod of it asks for metax-tech.com/gpu\n"},
        {KIND("apps", "Deployment"),
         "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/gpu-groupsize\":\"8\"") "}}", near},
        {KIND("batch", "CronJob"),
         "{" META(GROUP
                  "\"8\"") ",\"spec\":{\"jobTemplate\":{" META("\"metax-tech.com/gpu-groupsize\":\"8\"") //
         ",\"spec\":{\"template\":" TEMPLATE("") "}}}}",
         "unknown key metax-tech.com/gpu-groupsize: metax-tech.com/gpu-group-size is meant\n"
         "metax-tech.com/gpu-group-size of the CronJob itself does nothing: it belongs into "
         "spec.jobTemplate\n"},
        {KIND("trainer.kubeflow.org", "TrainJob"),
         "{" META(GROUP "\"8\"") ",\"spec\":{\"runtimeRef\":{\"name\":\"torch\"},\"annotations\":{"
                                 "\"metax-tech.com/gpu-groupsize\":\"8\"}}}",
         "unknown key metax-tech.com/gpu-groupsize: metax-tech.com/gpu-group-size is meant\n"
         "metax-tech.com/gpu-group-size of the TrainJob itself does nothing: it belongs into "
         "spec.annotations\n"},
        {job, "{" META("\"metax-tech.com/spare-nodes\":\"1\"") ",\"spec\":{\"template\":" TEMPLATE("") "}}",
         "metax-tech.com/spare-nodes does nothing here: it is for Supernodes\n"},
        /* Its controller would see the warning, and nobody else. */
        {job,
         "{\"metadata\":{\"name\":\"x\",\"labels\":{" GROUP
         "\"8\"}" OWNED_BY("batch/v1", "CronJob", "c") "},\"spec\":"
                                                       "{\"template\":" TEMPLATE("") "}}",
         ""},
        /* Without a group size this says whether the pods come close to each other. */
        {job, "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/job-topology\":\"none\"") "}}", ""},
        {job, "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/job-topology\":\"required=leaf\"") "}}",
         "metax-tech.com/job-topology required=TIER does nothing without "
         "metax-tech.com/gpu-group-size\n"},
        {job,
         "{\"spec\":{\"template\":" TEMPLATE("\"metax-tech.com/gpu-group-topology\":\"required=leaf\"") "}}",
         "metax-tech.com/gpu-group-topology does nothing without "
         "metax-tech.com/gpu-group-size\n"},
        {pod_kind,
         "{\"metadata\":{\"name\":\"p\",\"annotations\":{\"metax-tech.com/"
         "gpu-groupsize\":\"8\"}},\"spec\":{" SPEC("8") "}}",
         near},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++)
        assert_warns(world, cases[i].kind, cases[i].object, cases[i].warnings);
}

/* The annotation of the job itself counts for its pods. */
static void test_annotation_of_the_job(void **state)
{
    struct world *world = *state;
    static const char pod[] = SET_POD("0", "") "},\"spec\":{" SPEC("8") "}}";
    cJSON *set = cJSON_Parse("{\"metadata\":{\"namespace\":\"ns\",\"name\":\"set\",\"annotations\":{" GROUP
                             "\"16\"}},\"spec\":{\"replicas\":2,\"template\":" TEMPLATE("") "}}");
    put_owner(world, GT_JOB_STATEFULSET, "set", "{\"replicas\":2,\"template\":" TEMPLATE("") "}");
    mutate(world, pod, "", NULL);
    gt_owners_put(world->owners, GT_JOB_STATEFULSET, set);
    cJSON_Delete(set);
    mutate(world, pod, first_gate, NULL);
}

static void warned_of(struct world *world, const char *kind, const char *operation, const char *object,
                      const char *old, const char *warning)
{
    cJSON *json = ask(world, gt_webhook_validate, operation, kind, object, old);
    assert_true(cJSON_IsTrue(json_at(json, "response.allowed")));
    if (!warning != !warning_of(json) || (warning && !strstr(warning_of(json), warning)))
        fail_msg("warning '%s', of %s", warning_of(json), object);
    cJSON_Delete(json);
}

static void warned(struct world *world, const char *operation, const char *object, const char *old,
                   const char *warning)
{
    warned_of(world, "{\"group\":\"batch\",\"version\":\"v1\",\"kind\":\"Job\"}", operation, object, old,
              warning);
}

/* Who creates it sees that at once; it is let in, since hardware may come. */
static void test_jobs_that_never_fit(void **state)
{
    struct world *world = *state;
#define JOB(pods, group, gpus, spec)                                                                         \
    "{\"spec\":{\"completionMode\":\"Indexed\",\"parallelism\":" pods ",\"completions\":" pods               \
    ",\"template\":{\"metadata\":{\"annotations\":{" GROUP "\"" group                                        \
    "\"}},\"spec\":{" spec SPEC("\"" gpus "\"") "}}}}"
    static const char unit[] = JOB("4", "32", "8", "");
    warned(world, "CREATE", unit, NULL, NULL); /* nothing is known of the cluster yet */
    give_topology(world->cache, TOPOLOGY(.name = "a", .gpus = 8), 1);
    give_topology(world->cache, TOPOLOGY(.name = "b", .gpus = 8, .unnamed = 0xff), 1);
    give_node(world->cache, NODE(.name = "a", .allocatable = "{\"cpu\":\"32\"}"));
    give_node(world->cache, NODE(.name = "b", .labels = "{\"hall\":\"b\"}", .cordoned = true));
    give_supernode(world->cache, SUPERNODE(.name = "s", .tier = 1, .members = {"a", "b"}));
    warned(world, "CREATE", unit, NULL, "NeverFits: no supernode has more than 16 GPUs for pods of 8");
    warned(world, "UPDATE", unit, unit, "NeverFits: ");
    warned(world, "CREATE", JOB("2", "16", "8", ""), NULL, NULL); /* b is in use, and cordoned */
    warned(world, "CREATE", JOB("2", "32", "16", ""), NULL, "no node has more than 8 GPUs");
    warned(world, "CREATE", JOB("1", "8", "8", "\"nodeSelector\":{\"hall\":\"b\"},"), NULL, NULL);
    warned(world, "CREATE", JOB("1", "8", "8", "\"nodeSelector\":{\"hall\":\"c\"},"), NULL,
           "exclude all 2 nodes with 8 GPUs or more");
    warned(world, "CREATE", JOB("1", "8", "8", "\"overhead\":{\"cpu\":64},"), NULL,
           NULL); /* b says nothing */
    warned(world, "CREATE",
           JOB("1", "8", "8",
               "\"overhead\":{\"cpu\":64},\"affinity\":{\"nodeAffinity\":{"
               "\"requiredDuringSchedulingIgnoredDuringExecution\":{\"nodeSelectorTerms\":[{"
               "\"matchExpressions\":[{\"key\":\"hall\",\"operator\":\"NotIn\",\"values\":[\"b\"]}]}]}}},"),
           NULL, "no node that it may use has more CPU than 32, a pod asks for 64");
    warned(world, "CREATE", JOB("4", "16", "8", ""), NULL, "it needs 32 GPUs in pods of 8");
    /* The templates of other kinds stand elsewhere. */
#define IN_HALL(hall)                                                                                        \
    "{\"metadata\":{\"annotations\":{" GROUP "\"8\"}},\"spec\":{\"nodeSelector\":{\"hall\":\"" hall          \
    "\"}," SPEC("8") "}}"
#define SET(hall)                                                                                            \
    "{\"spec\":{\"replicatedJobs\":[{\"name\":\"n\",\"template\":{\"spec\":{\"template\":" IN_HALL(          \
        hall) "}}}]}}"
#define WORKERS(hall) "{\"spec\":{\"leaderWorkerTemplate\":{\"workerTemplate\":" IN_HALL(hall) "}}}"
    static const char jobset[] = KIND("jobset.x-k8s.io", "JobSet"),
                      groups[] = KIND("leaderworkerset.x-k8s.io", "LeaderWorkerSet"),
                      excluded[] = "exclude all 2 nodes with 8 GPUs or more";
    warned_of(world, jobset, "CREATE", SET("b"), NULL, NULL);
    warned_of(world, jobset, "CREATE", SET("c"), NULL, excluded);
    warned_of(world, groups, "CREATE", WORKERS("b"), NULL, NULL);
    warned_of(world, groups, "CREATE", WORKERS("c"), NULL, excluded);
}

static void test_nonsense(void **state)
{
    struct world *world = *state;
    static const char *const bad[] = {
        "",
        "nonsense",
        "[]",
        "{}",
        "{\"kind\":\"AdmissionReview\"}",
        "{\"apiVersion\":\"admission.k8s.io/v1beta1\",\"kind\":\"AdmissionReview\",\"request\":{}}",
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\"}",
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":7}}",
        "{\"apiVersion\":\"admission.k8s.io/v1\",\"kind\":\"AdmissionReview\",\"request\":{\"uid\":\"u\"",
    };
    for (size_t i = 0; i < GT_COUNT(bad); i++) {
        gt_auto_buf struct gt_buf answer = GT_BUF(4096);
        gt_auto_err struct gt_err *err = NULL;
        assert_true(gt_webhook_mutate(&world->webhook, bad[i], strlen(bad[i]), &answer, &err) < 0);
        assert_string_not_equal(gt_err_text(err), "");
        assert_int_equal(answer.len, 0);
        assert_true(gt_webhook_validate(&world->webhook, bad[i], strlen(bad[i]), &answer, NULL) < 0);
        assert_true(gt_webhook_forbid(&world->webhook, bad[i], strlen(bad[i]), &answer, NULL) < 0);
    }
    /* A review with an invalid object is answered: the API server makes its own checks. */
    static const char *const odd[] = {"null",
                                      "7",
                                      "[]",
                                      "{}",
                                      "{\"spec\":[]}",
                                      "{\"spec\":{\"containers\":{}}}",
                                      "{\"spec\":{\"containers\":[7,null]}}",
                                      ("{\"metadata\":[],\"spec\":{" SPEC("-8") "}}"),
                                      ("{\"metadata\":{\"annotations\":[]},\"spec\":{" SPEC("1e99") "}}")};
    for (size_t i = 0; i < GT_COUNT(odd); i++) {
        mutate(world, odd[i], "", NULL);
        validate(world, "CREATE", pod_kind, odd[i], NULL, NULL);
    }
}

/* Small values are 40 times larger as a tree than as text, so their number is limited. */
static void test_a_body_of_many_values(void **state)
{
    struct world *world = *state;
    enum { COUNT = 1500000 };
    static const char *const heads[] = {"[0", "{\"request\":{\"object\":{\"spec\":{\"containers\":[0"};
    for (unsigned i = 0; i < GT_COUNT(heads); i++) {
        gt_auto_buf struct gt_buf body = GT_BUF(4 << 20), answer = GT_BUF(1 << 16);
        gt_auto_err struct gt_err *err = NULL;
        gt_buf_puts(&body, heads[i]);
        while (body.len < (size_t)2 * COUNT)
            gt_buf_puts(&body, ",0");
        assert_true(gt_webhook_mutate(&world->webhook, body.data, body.len, &answer, &err) < 0);
        assert_non_null(strstr(gt_err_text(err), "more than 65536 values"));
        assert_int_equal(answer.len, 0);
    }
}

/* A value of another kind, wherever it stands, changes nothing but what is read of it. */
static void test_other_kinds(void **state)
{
    struct world *world = *state;
    static const char *const odd[] = {
        "{\"metadata\":{\"name\":7,\"labels\":[1,{\"a\":2}],\"ownerReferences\":\"x\"},\"spec\":{" SPEC(
            "8") "}}",
        "{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":{\"a\":[]}}},\"spec\":{" SPEC(
            "8") "}}",
        "{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":true}},\"spec\":{" SPEC("8") "}}",
        "{\"metadata\":{\"annotations\":null},\"spec\":{\"affinity\":[],\"schedulingGates\":[null,7],"
        "\"nodeName\":{}," SPEC("8") "}}",
    };
    for (size_t i = 0; i < GT_COUNT(odd); i++) {
        bool refused = i == 1 || i == 2;
        validate(world, "CREATE", pod_kind, odd[i], NULL,
                 refused
                     ? "gpu-group-size: \"(no text)\" is not a number of GPUs, nor the word group or subgroup"
                     : NULL);
        if (!refused)
            mutate(world, odd[i], "", NULL);
    }
}

/* What its pods are refused for later is refused at once. */
static void test_elastic_range(void **state)
{
    static const char elastic_kind[] =
        "{\"group\":\"elastic.iml.github.io\",\"version\":\"v1alpha1\",\"kind\":\"ElasticJob\"}";
    static const char elastic[] =
        "{\"metadata\":{\"name\":\"e\"},\"spec\":{\"replicaSpecs\":{\"worker\":{\"replicas\":4,\"template\":"
        "{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"8\"}},\"spec\":{\"containers\":["
        "{\"name\":\"main\",\"command\":[\"dlrover-run\"],\"args\":[\"--nnodes=9:12\"],"
        "\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]}}}}}}";
    validate(*state, "CREATE", elastic_kind, elastic, NULL,
             "--nnodes: 9 is more than the replicas of its workers, 4");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_own_annotation),
        TEST(test_plans_of_others),
        TEST(test_claims),
        TEST(test_hidden_in_a_crowd),
        TEST(test_gates_and_nodes),
        TEST(test_managers_are_removed),
        TEST(test_annotation_of_another_template),
        TEST(test_siblings),
        TEST(test_what_is_not_ours),
        TEST(test_forbidden),
        TEST(test_refused_pods),
        TEST(test_pod_against_its_owner),
        TEST(test_refused_owners),
        TEST(test_key_warnings),
        TEST(test_annotation_of_the_job),
        TEST(test_jobs_that_never_fit),
        TEST(test_nonsense),
        TEST(test_a_body_of_many_values),
        TEST(test_other_kinds),
        TEST(test_elastic_range),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
