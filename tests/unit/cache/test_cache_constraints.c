/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/cache/peers.h"
#include "tests/unit/cache/cache_world.h"

/* Where a pod may run: selectors, required affinity, taints. */

static bool matches(struct gt_cache *cache, const char *pod, const char *node)
{
    return gt_cache_pod_fits_node(cache, pod_of(cache, pod),
                                  gt_cluster_find_node(gt_cache_cluster(cache), node));
}

#define AFFINITY(terms)                                                                                      \
    "\"affinity\":{\"nodeAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":{"                   \
    "\"nodeSelectorTerms\":" terms "}}},"
#define IF(what)                     AFFINITY("[{\"matchExpressions\":[" what "]}]")
#define EXPRESSION(key, how, values) "{\"key\":\"" key "\",\"operator\":\"" how "\",\"values\":" values "}"

static void test_labels(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_node(cache,
              NODE(.name = "n1", .labels = "{\"zone\":\"a\",\"size\":\"10\",\"empty\":\"\",\"b\":\"2\"}"));
    static const struct {
        const char *spec;
        bool matches;
    } cases[] = {
        {"\"nodeSelector\":{\"zone\":\"a\"},", true},
        {"\"nodeSelector\":{\"zone\":\"b\"},", false},
        {"\"nodeSelector\":{\"zone\":\"a\",\"b\":\"2\"},", true},
        {"\"nodeSelector\":{\"zone\":\"a\",\"c\":\"2\"},", false},
        {"\"nodeSelector\":{\"empty\":\"\"},", true},
        {IF(EXPRESSION("zone", "In", "[\"x\",\"a\"]")), true},
        {IF(EXPRESSION("zone", "In", "[]")), false},
        {IF(EXPRESSION("none", "In", "[\"a\"]")), false},
        {IF(EXPRESSION("zone", "NotIn", "[\"x\"]")), true},
        {IF(EXPRESSION("zone", "NotIn", "[\"a\"]")), false},
        {IF(EXPRESSION("none", "NotIn", "[\"a\"]")), true},
        {IF("{\"key\":\"zone\",\"operator\":\"Exists\"}"), true},
        {IF("{\"key\":\"none\",\"operator\":\"Exists\"}"), false},
        {IF("{\"key\":\"zone\",\"operator\":\"DoesNotExist\"}"), false},
        {IF("{\"key\":\"none\",\"operator\":\"DoesNotExist\"}"), true},
        {IF(EXPRESSION("size", "Gt", "[\"9\"]")), true},
        {IF(EXPRESSION("size", "Gt", "[\"10\"]")), false},
        {IF(EXPRESSION("size", "Lt", "[\"11\"]")), true},
        {IF(EXPRESSION("size", "Lt", "[\"-11\"]")), false},
        {IF(EXPRESSION("zone", "Gt", "[\"1\"]")), false},
        {IF(EXPRESSION("size", "Gt", "[\"x\"]")), false},
        {IF(EXPRESSION("size", "Gt", "[\"1\",\"2\"]")), false},
        {IF(EXPRESSION("size", "Near", "[\"10\"]")), false},
        {IF(EXPRESSION("zone", "In", "[\"a\"]") "," EXPRESSION("b", "In", "[\"2\"]")), true},
        {IF(EXPRESSION("zone", "In", "[\"a\"]") "," EXPRESSION("b", "In", "[\"3\"]")), false},
        {AFFINITY("[]"), false},
        {AFFINITY("[{}]"), false},
        {AFFINITY("null"), false},
        {AFFINITY("[{},{\"matchExpressions\":[{\"key\":\"zone\",\"operator\":\"Exists\"}]}]"), true},
        {AFFINITY("[{\"matchFields\":[" EXPRESSION("metadata.name", "In", "[\"n1\"]") "]}]"), true},
        {AFFINITY("[{\"matchFields\":[" EXPRESSION("metadata.name", "NotIn", "[\"n1\"]") "]}]"), false},
        {AFFINITY("[{\"matchFields\":[" EXPRESSION("metadata.uid", "NotIn", "[\"n1\"]") "]}]"), false},
        {"\"nodeSelector\":{\"zone\":\"b\"}," IF("{\"key\":\"zone\",\"operator\":\"Exists\"}"), false},
        {"\"affinity\":{\"nodeAffinity\":{\"preferredDuringSchedulingIgnoredDuringExecution\":[]}},", true},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        give_pod(cache, POD(.name = "a", .gpus = 1, .spec = cases[i].spec));
        if (matches(cache, "a", "n1") != cases[i].matches)
            fail_msg("%s: the answer is wrong", cases[i].spec);
        assert_int_equal(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")), i + 1 < GT_COUNT(cases));
    }
    assert_int_equal(refused(cache), 0);
    assert_false(matches(cache, "a", "n2"));
    gt_cache_node_deleted(cache, "n1");
    assert_false(matches(cache, "a", "n1"));
}

#define TAINT "[{\"key\":\"gpu\",\"value\":\"yes\",\"effect\":\"NoSchedule\"}]"

static void test_taints(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    static const struct {
        const char *spec;
        bool matches;
    } cases[] = {
        {NULL, false},
        {"\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Exists\"}],", true},
        {"\"tolerations\":[{\"operator\":\"Exists\"}],", true},
        {"\"tolerations\":[{\"key\":\"gpu\",\"value\":\"yes\"}],", true},
        {"\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Equal\",\"value\":\"no\"}],", false},
        {"\"tolerations\":[{\"key\":\"gpu\"}],", false},
        {"\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Exists\",\"effect\":\"NoSchedule\"}],", true},
        {"\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Exists\",\"effect\":\"NoExecute\"}],", false},
        {"\"tolerations\":[{\"key\":\"gpu\",\"operator\":\"Gt\",\"value\":\"1\"}],", false},
        {"\"tolerations\":[{\"key\":\"node.kubernetes.io/"
         "not-ready\",\"operator\":\"Exists\",\"effect\":\"NoExecute\","
         "\"tolerationSeconds\":300}],",
         false},
    };
    for (unsigned i = 0; i < GT_COUNT(cases); i++) {
        give_node(cache, NODE(.name = "n1", .taints = TAINT));
        give_pod(cache, POD(.name = "a", .gpus = 1, .spec = cases[i].spec));
        if (matches(cache, "a", "n1") != cases[i].matches)
            fail_msg("%s: the answer is wrong", cases[i].spec ? cases[i].spec : "nothing");
        assert_true(matches(cache, "a", "n2"));
        assert_int_equal(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")), !cases[i].matches);
        /* On a node that takes no pods, taints do not matter. */
        give_node(cache, NODE(.name = "n1", .taints = TAINT, .cordoned = true));
        assert_false(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")));
        give_node(cache, NODE(.name = "n1"));
        assert_true(matches(cache, "a", "n1"));
        assert_false(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")));
    }
    /* Soft taints, and those that only repeat a cordon, exclude no pod. */
    give_node(cache,
              NODE(.name = "n1",
                   .taints = "[{\"key\":\"a\",\"effect\":\"PreferNoSchedule\"},"
                             "{\"key\":\"node.kubernetes.io/unschedulable\",\"effect\":\"NoSchedule\"}]"));
    assert_true(matches(cache, "a", "n1"));
    assert_false(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")));
    assert_int_equal(refused(cache), 0);
}

static void test_bound(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_pod(cache, POD(.name = "a", .gpus = 1, .node = "n1", .spec = "\"nodeSelector\":{\"x\":\"y\"},"));
    assert_true(matches(cache, "a", "n1"));
    assert_false(matches(cache, "a", "n2"));
    assert_true(gt_cache_pod_is_constrained(cache, pod_of(cache, "a")));
}

#define APART                                                                                                \
    "\"affinity\":{\"podAntiAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"               \
    "\"topologyKey\":\"kubernetes.io/hostname\",\"labelSelector\":{\"matchLabels\":{\"app\":\"b\"}}}]}},"

/* A pod on a node is taken with a node affinity that is not read: others' rules between pods still mean it.
 */
static void test_bound_with_too_much(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    gt_auto_buf struct gt_buf spec = GT_BUF(1 << 20);
    gt_buf_puts(&spec, "\"nodeSelector\":{\"x\":\"");
    for (unsigned i = 0; i < 70000; i++)
        gt_buf_puts(&spec, "y");
    gt_buf_puts(&spec, "\"},");
    give_plain_node(cache, "n1");
    give_pod(cache, POD(.name = "b", .gpus = 1, .node = "n1", .labels = "\"app\":\"b\"", .spec = spec.data,
                        .annotations = "\"metax-tech.com/gpu-group-size\":\"1\","));
    assert_false(gt_cache_pod_has_peers(cache, pod_of(cache, "b")));
    give_pod(cache, POD(.name = "a", .gpus = 1, .node = "n1", .spec = APART));
    assert_true(gt_cache_pod_has_peers(cache, pod_of(cache, "b")));
}

/* The plan's affinity comes with the plan: the pod changes, and nothing of the old text stays. */
static void test_shared(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    size_t before = 0, after = 0;
    give_plain_node(cache, "n1");
    for (unsigned round = 0; round < 40; round++) {
        for (unsigned i = 0; i < 50; i++) {
            char name[16];
            snprintf(name, sizeof(name), "p%u", i);
            give_pod(cache, POD(.name = name, .gpus = 1,
                                .spec = "\"nodeSelector\":{\"kind\":\"something of some length, really\"},"));
            assert_false(matches(cache, name, "n1"));
        }
        after = heap_bytes();
        if (round == 19)
            before = after;
        for (unsigned i = 0; i < 50; i++) {
            char name[16];
            snprintf(name, sizeof(name), "p%u", i);
            give_pod(cache, POD(.name = name, .gpus = 1));
            assert_true(matches(cache, name, "n1"));
            assert_false(gt_cache_pod_is_constrained(cache, pod_of(cache, name)));
        }
    }
    /* A chunk left at each of 1,000 changes makes 32,000 bytes; the caches of malloc count as used. */
    assert_true(after < before + 16384);
}

static void give_volume(struct gt_cache *cache, enum gt_related_kind kind, const char *json)
{
    cJSON *object = cJSON_Parse(json);
    assert_non_null(object);
    gt_cache_related(cache, kind, object);
    cJSON_Delete(object);
}

/* Whether a node is closed to the pod, and whether that has to be asked at all. */
static void assert_closed(struct gt_cache *cache, bool n1, bool n2)
{
    const struct gt_cache_pod *pod = pod_of(cache, "p");
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    assert_int_equal(gt_cache_pod_has_peers(cache, pod), n1 || n2);
    assert_int_equal(gt_cache_peers_bar(cache, pod, gt_cluster_find_node(cluster, "n1")), n1);
    assert_int_equal(gt_cache_peers_bar(cache, pod, gt_cluster_find_node(cluster, "n2")), n2);
}

static void count_room(void *arg)
{
    (*(unsigned *)arg)++;
}

static void test_volumes(void **state)
{
    (void)state;
    unsigned room = 0, before;
    gt_auto_cache struct gt_cache *cache =
        new_cache(&(struct gt_cache_spec){.on_capacity = count_room, .arg = &room});
    static const char claim[] = "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"data\"},\"spec\":{%s}}";
    char text[256];
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_node(cache, NODE(.name = "n1", .labels = "{\"zone\":\"a\"}"));
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true,
                        .spec = "\"volumes\":[{\"persistentVolumeClaim\":{\"claimName\":\"data\"}}],"));
    assert_closed(cache, false, false); /* nobody reads them */
    gt_cache_set_related(cache, GT_RELATED_VOLUME, GT_BEING_READ);
    assert_closed(cache, true, true);
    before = room;
    gt_cache_set_related(cache, GT_RELATED_VOLUME, GT_IS_READ);
    assert_int_equal(room, before + 1);
    gt_cache_set_related(cache, GT_RELATED_VOLUME,
                         GT_IS_READ); /* as each failure of an informer says again */
    assert_int_equal(room, before + 1);
    assert_closed(cache, true, true); /* there is no claim */
    snprintf(text, sizeof(text), claim, "\"volumeName\":\"v\"");
    give_volume(cache, GT_RELATED_CLAIM, text);
    assert_closed(cache, true, true); /* its volume may be told later */
    give_volume(cache, GT_RELATED_VOLUME, "{\"metadata\":{\"name\":\"v\"},\"spec\":{}}");
    assert_closed(cache, false, false); /* everywhere */
    give_volume(
        cache, GT_RELATED_VOLUME,
        "{\"metadata\":{\"name\":\"v\"},\"spec\":{\"nodeAffinity\":{\"required\":{\"nodeSelectorTerms\":["
        "{\"matchExpressions\":[" EXPRESSION("zone", "In", "[\"a\"]") "]}]}}}}");
    assert_closed(cache, false, true);
    snprintf(text, sizeof(text), claim, "\"storageClassName\":\"c\"");
    give_volume(cache, GT_RELATED_CLAIM, text);
    give_volume(cache, GT_RELATED_CLASS,
                "{\"metadata\":{\"name\":\"c\"},\"volumeBindingMode\":\"WaitForFirstConsumer\","
                "\"allowedTopologies\":["
                "{\"matchLabelExpressions\":[{\"key\":\"zone\",\"values\":[\"b\"]}]},"
                "{\"matchLabelExpressions\":[{\"key\":\"zone\",\"values\":[\"a\"]}]}]}");
    assert_closed(cache, false, true);
    give_volume(cache, GT_RELATED_CLASS,
                "{\"metadata\":{\"name\":\"c\"},\"volumeBindingMode\":\"Immediate\"}");
    assert_closed(cache, true, true); /* kube-scheduler waits until it is bound */
    gt_cache_related_deleted(cache, GT_RELATED_CLASS, NULL, "c");
    assert_closed(cache, true, true); /* likewise */
}

static void give_csi(struct gt_cache *cache, enum gt_related_kind kind, const char *name, const char *spec)
{
    char text[512];
    snprintf(text, sizeof(text), "{\"metadata\":{%s\"name\":\"%s\"},\"spec\":{%s}}",
             kind == GT_RELATED_CLAIM ? "\"namespace\":\"ns\"," : "", name, spec);
    give_volume(cache, kind, text);
}

#define USES(...)      "\"volumes\":[" __VA_ARGS__ "],"
#define CLAIM(name)    "{\"persistentVolumeClaim\":{\"claimName\":\"" name "\"}}"
#define DRIVERS(count) "\"drivers\":[{\"name\":\"d\",\"allocatable\":{\"count\":" count "}},{\"name\":\"e\"}]"

/* A node holds so many volumes of a driver, each of which counts once. */
static void test_attached(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    gt_cache_set_related(cache, GT_RELATED_VOLUME, GT_IS_READ);
    for (unsigned i = 0; i < 3; i++) {
        char name[8], spec[128];
        snprintf(name, sizeof(name), "v%u", i);
        snprintf(spec, sizeof(spec), "\"csi\":{\"driver\":\"d\",\"volumeHandle\":\"h%u\"}", i);
        give_csi(cache, GT_RELATED_VOLUME, name, spec);
        snprintf(spec, sizeof(spec), "\"volumeName\":\"v%u\"", i);
        snprintf(name, sizeof(name), "c%u", i);
        give_csi(cache, GT_RELATED_CLAIM, name, spec);
    }
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true, .spec = USES(CLAIM("c0"))));
    give_pod(cache, POD(.name = "there", .node = "n1", .spec = USES(CLAIM("c1") "," CLAIM("c2"))));
    give_pod(cache, POD(.name = "too", .node = "n1", .spec = USES(CLAIM("c1"))));
    assert_closed(cache, false, false); /* there is no limit */
    give_csi(cache, GT_RELATED_CSI_NODE, "n1", DRIVERS("2"));
    assert_closed(cache, true, false);
    give_csi(cache, GT_RELATED_CSI_NODE, "n1", DRIVERS("3"));
    assert_false(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
    give_csi(cache, GT_RELATED_CSI_NODE, "n1", DRIVERS("2"));
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true, .spec = USES(CLAIM("c1"))));
    assert_false(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0)); /* it is attached already */
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true, .spec = USES(CLAIM("c0"))));
    assert_closed(cache, true, false);
    gt_cache_pod_deleted(cache, "ns", "too");
    assert_closed(cache, true, false);
    gt_cache_pod_deleted(cache, "ns", "there");
    assert_false(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
    give_volume(cache, GT_RELATED_CLASS,
                "{\"metadata\":{\"name\":\"late\"},\"provisioner\":\"d\",\"volumeBindingMode\":"
                "\"WaitForFirstConsumer\"}");
    give_csi(cache, GT_RELATED_CLAIM, "c1", "\"storageClassName\":\"late\"");
    give_csi(cache, GT_RELATED_CLAIM, "c2", "\"storageClassName\":\"late\"");
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true,
                        .spec = USES(CLAIM("c0") "," CLAIM("c1") "," CLAIM("c2"))));
    assert_closed(cache, true, false); /* volumes that will be made count, too */
    gt_cache_related_deleted(cache, GT_RELATED_CSI_NODE, NULL, "n1");
    assert_closed(cache, false, false);
}

static void give_device(struct gt_cache *cache, enum gt_related_kind kind, const char *name,
                        const char *members)
{
    char text[1024];
    bool spaced = kind == GT_RELATED_DEVICE_CLAIM || kind == GT_RELATED_DEVICE_TEMPLATE;
    snprintf(text, sizeof(text), "{\"metadata\":{%s\"name\":\"%s\"},%s}",
             spaced ? "\"namespace\":\"ns\"," : "", name, members);
    give_volume(cache, kind, text);
}

#define REQUEST(class, count)                                                                                \
    "\"devices\":{\"requests\":[{\"name\":\"r\",\"exactly\":{\"deviceClassName\":\"" class "\","             \
                                                                                           "\"count\""       \
                                                                                           ":" count "}}]}"
#define CLASS(expression) "\"spec\":{\"selectors\":[{\"cel\":{\"expression\":\"" expression "\"}}]}"
#define RESULT            "{\"request\":\"r\",\"driver\":\"nic.example\",\"pool\":\"one\",\"device\":\"a\"}"
#define ALLOCATED         "\"spec\":{},\"status\":{\"allocation\":{\"devices\":{\"results\":[" RESULT "]}}}"
#define NAMES(claim)      "{\"name\":\"" claim "\",\"resourceClaimName\":\"" claim "\"}"

/* Devices of another driver: where they are allocated, and where some are left. */
static void test_devices(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    give_plain_node(cache, "n2");
    give_node(cache, NODE(.name = "n1", .labels = "{\"zone\":\"a\"}"));
    give_pod(cache,
             POD(.name = "p", .gpus = 1, .gated = true,
                 .spec = "\"resourceClaims\":[{\"name\":\"x\",\"resourceClaimTemplateName\":\"two\"}],"));
    assert_closed(cache, false, false); /* nobody reads them */
    gt_cache_set_related(cache, GT_RELATED_DEVICE_CLAIM, GT_BEING_READ);
    assert_closed(cache, true, true);
    gt_cache_set_related(cache, GT_RELATED_DEVICE_CLAIM, GT_IS_READ);
    const struct gt_cache_pod *pod = pod_of(cache, "p");
    const struct {
        const char *class;
        bool known;
    } classes[] = {
        {CLASS("device.driver == 'nic.example'"), true},
        {CLASS(" device.driver == 'nic.example' && device.attributes['nic.example'].speed > 100"), true},
        {CLASS("device.driver == 'nic.example' || true"), false},
        {CLASS("device.attributes['nic.example'].speed > 100"), false},
        {CLASS("device.driver == 'nic.example'"), true},
    };
    give_device(cache, GT_RELATED_DEVICE_TEMPLATE, "two", "\"spec\":{\"spec\":{" REQUEST("nic", "2") "}}");
    assert_false(gt_cache_peers_bar(cache, pod, 0)); /* nothing is known of the class */
    give_device(cache, GT_RELATED_DEVICE_SLICE, "one",
                "\"spec\":{\"driver\":\"nic.example\",\"nodeName\":\"n1\",\"pool\":{\"name\":\"one\"},"
                "\"devices\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
    for (size_t i = 0; i < sizeof(classes) / sizeof(*classes); i++) {
        give_device(cache, GT_RELATED_DEVICE_CLASS, "nic", classes[i].class);
        assert_false(gt_cache_peers_bar(cache, pod, gt_cluster_find_node(gt_cache_cluster(cache), "n1")));
        assert_int_equal(gt_cache_peers_bar(cache, pod, gt_cluster_find_node(gt_cache_cluster(cache), "n2")),
                         classes[i].known);
    }
    give_device(
        cache, GT_RELATED_DEVICE_CLAIM, "other",
        "\"spec\":{},\"status\":{\"allocation\":{\"devices\":{\"results\":[" RESULT "]},\"nodeSelector\":{"
        "\"nodeSelectorTerms\":[{\"matchExpressions\":[" EXPRESSION("zone", "In", "[\"a\"]") "]}]}}}");
    assert_closed(cache, true, true); /* one of the two is given away */
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true,
                        .spec = "\"resourceClaims\":[{\"name\":\"x\",\"resourceClaimName\":\"other\"}],"));
    assert_false(
        gt_cache_peers_bar(cache, pod_of(cache, "p"), gt_cluster_find_node(gt_cache_cluster(cache), "n1")));
    assert_true(
        gt_cache_peers_bar(cache, pod_of(cache, "p"), gt_cluster_find_node(gt_cache_cluster(cache), "n2")));
    gt_cache_related_deleted(cache, GT_RELATED_DEVICE_CLAIM, "ns", "other");
    assert_closed(cache, true, true); /* it is missing */
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "other", "\"spec\":{" REQUEST("nic", "2") "}");
    assert_true(
        gt_cache_peers_bar(cache, pod_of(cache, "p"), gt_cluster_find_node(gt_cache_cluster(cache), "n2")));
    give_device(cache, GT_RELATED_DEVICE_SLICE, "everywhere",
                "\"spec\":{\"driver\":\"nic.example\",\"allNodes\":true,\"pool\":{\"name\":\"all\"},"
                "\"devices\":[{\"name\":\"c\"}]}");
    assert_false(
        gt_cache_peers_bar(cache, pod_of(cache, "p"), gt_cluster_find_node(gt_cache_cluster(cache), "n2")));
}

/* Claims of equal contents are claims of their own. */
static void test_equal_claims(void **state)
{
    (void)state;
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    give_plain_node(cache, "n1");
    gt_cache_set_related(cache, GT_RELATED_DEVICE_CLAIM, GT_IS_READ);
    give_device(cache, GT_RELATED_DEVICE_CLASS, "nic", CLASS("device.driver == 'nic.example'"));
    give_device(cache, GT_RELATED_DEVICE_SLICE, "one",
                "\"spec\":{\"driver\":\"nic.example\",\"nodeName\":\"n1\",\"pool\":{\"name\":\"one\"},"
                "\"devices\":[{\"name\":\"a\"},{\"name\":\"b\"},{\"name\":\"c\"}]}");
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "x", "\"spec\":{" REQUEST("nic", "1") "}");
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "y", "\"spec\":{" REQUEST("nic", "1") "}");
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "a", ALLOCATED);
    give_pod(cache, POD(.name = "p", .gpus = 1, .gated = true,
                        .spec = "\"resourceClaims\":[" NAMES("x") "," NAMES("y") "],"));
    assert_false(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "b", ALLOCATED); /* one of three is left */
    assert_true(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
    gt_cache_related_deleted(cache, GT_RELATED_DEVICE_CLAIM, "ns", "y");
    give_pod(cache,
             POD(.name = "p", .gpus = 1, .gated = true, .spec = "\"resourceClaims\":[" NAMES("x") "],"));
    assert_false(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
    give_device(cache, GT_RELATED_DEVICE_CLAIM, "c", ALLOCATED);
    assert_true(gt_cache_peers_bar(cache, pod_of(cache, "p"), 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_labels),       cmocka_unit_test(test_taints),
        cmocka_unit_test(test_bound),        cmocka_unit_test(test_bound_with_too_much),
        cmocka_unit_test(test_shared),       cmocka_unit_test(test_volumes),
        cmocka_unit_test(test_attached),     cmocka_unit_test(test_devices),
        cmocka_unit_test(test_equal_claims),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
