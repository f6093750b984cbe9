/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/pod_peers.h"
#include "base/cleanup.h"

/* What specs ask of other pods: which pods a term means, and which ports exclude each other. */

static struct gt_pod_peers *read_spec(const char *spec, const char *labels)
{
    cJSON *json = cJSON_Parse(spec), *own = cJSON_Parse(labels);
    struct gt_pod_peers *peers = NULL;
    char *text = NULL;
    assert_non_null(json);
    assert_int_equal(gt_pod_peers_text(json, "ns", NULL, own, &text), 0);
    if (text)
        assert_int_equal(gt_pod_peers_read(text, &peers), 0);
    free(text);
    cJSON_Delete(json);
    cJSON_Delete(own);
    return peers;
}

static void terms_mean_pods(void **state)
{
    static const struct {
        const char *term, *namespace_, *labels;
        bool means;
    } cases[] = {
        {"\"labelSelector\":{\"matchLabels\":{\"a\":\"1\"}}", "ns", "{\"b\":\"1\",\"a\":\"1\"}", true},
        {"\"labelSelector\":{\"matchLabels\":{\"a\":\"1\"}}", "ns", "{\"a\":\"11\"}", false},
        {"\"labelSelector\":{\"matchLabels\":{\"a\":\"1\"}}", "ns", "{\"aa\":\"1\"}", false},
        {"\"labelSelector\":{\"matchLabels\":{\"a\":\"1\"}}", "n", "{\"a\":\"1\"}", false},
        {"\"labelSelector\":{}", "ns", "{}", true},      /* all pods */
        {"\"maxSkew\":1", "ns", "{\"a\":\"1\"}", false}, /* without a selector none */
        {"\"labelSelector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"In\",\"values\":[\"1\","
         "\"2\"]}]}",
         "ns", "{\"a\":\"2\"}", true},
        {"\"labelSelector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"NotIn\",\"values\":[\"1\"]}]"
         "}",
         "ns", "{}", true},
        {"\"labelSelector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Exists\"}]}", "ns",
         "{\"a\":\"\"}", true},
        {"\"labelSelector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"DoesNotExist\"}]}", "ns",
         "{\"a\":\"\"}", false},
        {"\"labelSelector\":{\"matchExpressions\":[{\"key\":\"a\",\"operator\":\"Like\"}]}", "ns",
         "{\"a\":\"1\"}", false},
        {"\"labelSelector\":{},\"namespaces\":[\"x\",\"y\"]", "y", "{}", true},
        {"\"labelSelector\":{},\"namespaces\":[\"x\",\"y\"]", "ns", "{}", false},
        {"\"labelSelector\":{},\"namespaceSelector\":{}", "far", "{}", true},
        {"\"labelSelector\":{},\"namespaceSelector\":{\"matchLabels\":{\"kubernetes.io/"
         "metadata.name\":\"far\"}}",
         "far", "{}", true},
        {"\"labelSelector\":{},\"namespaceSelector\":{\"matchLabels\":{\"kubernetes.io/"
         "metadata.name\":\"far\"}}",
         "ns", "{}", false},
        /* The pod's own labels are {"v":"7"}. */
        {"\"labelSelector\":{},\"matchLabelKeys\":[\"v\",\"w\"]", "ns", "{\"v\":\"7\"}", true},
        {"\"labelSelector\":{},\"matchLabelKeys\":[\"v\"]", "ns", "{\"v\":\"8\"}", false},
        {"\"labelSelector\":{},\"mismatchLabelKeys\":[\"v\"]", "ns", "{\"v\":\"7\"}", false},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char spec[1024];
        snprintf(spec, sizeof(spec),
                 "{\"affinity\":{\"podAntiAffinity\":{\"requiredDuringSchedulingIgnoredDuringExecution\":[{"
                 "\"topologyKey\":\"zone\",%s}]}}}",
                 cases[i].term);
        struct gt_pod_peers *peers = read_spec(spec, "{\"v\":\"7\"}");
        cJSON *labels = cJSON_Parse(cases[i].labels);
        char *text = gt_peer_labels_text(cases[i].namespace_, labels);
        assert_non_null(peers);
        assert_int_equal(peers->term_count, 1);
        assert_string_equal(peers->terms[0].key, "zone");
        if (gt_peer_term_matches(peers, &peers->terms[0], text, NULL) != cases[i].means)
            fail_msg("%s: %s", cases[i].term, cases[i].labels);
        free(text);
        cJSON_Delete(labels);
        gt_pod_peers_free(peers);
    }
}

static void ports_exclude_each_other(void **state)
{
    static const struct {
        const char *a, *b;
        bool conflict;
    } cases[] = {
        {"\"hostPort\":1", "\"hostPort\":1", true},
        {"\"hostPort\":1", "\"hostPort\":2", false},
        {"\"hostPort\":1,\"protocol\":\"UDP\"", "\"hostPort\":1,\"protocol\":\"TCP\"", false},
        {"\"hostPort\":1,\"hostIP\":\"10.0.0.1\"", "\"hostPort\":1", true},
        {"\"hostPort\":1,\"hostIP\":\"10.0.0.1\"", "\"hostPort\":1,\"hostIP\":\"10.0.0.2\"", false},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_pod_peers *peers[2];
        for (unsigned k = 0; k < 2; k++) {
            char spec[256];
            snprintf(spec, sizeof(spec), "{\"containers\":[{\"ports\":[{%s}]}]}",
                     k ? cases[i].b : cases[i].a);
            peers[k] = read_spec(spec, "{}");
            assert_non_null(peers[k]);
        }
        assert_int_equal(gt_peer_ports_conflict(peers[0], peers[1]), cases[i].conflict);
        assert_int_equal(gt_peer_ports_conflict(peers[1], peers[0]), cases[i].conflict);
        gt_pod_peers_free(peers[0]);
        gt_pod_peers_free(peers[1]);
    }
    /* Init containers have ended when others begin, but for sidecars; a soft constraint is none. */
    assert_null(read_spec("{\"initContainers\":[{\"ports\":[{\"hostPort\":1}]}]}", "{}"));
    assert_null(read_spec("{\"containers\":[{\"ports\":[{\"containerPort\":1}]}]}", "{}"));
    assert_null(
        read_spec("{\"topologySpreadConstraints\":[{\"whenUnsatisfiable\":\"ScheduleAnyway\"}]}", "{}"));
    struct gt_pod_peers *sidecar =
        read_spec("{\"initContainers\":[{\"restartPolicy\":\"Always\",\"ports\":[{\"hostPort\":1}]}]}", "{}");
    assert_non_null(sidecar);
    assert_int_equal(sidecar->port_count, 1);
    gt_pod_peers_free(sidecar);
}

static void claims_are_told(void **state)
{
    static const char spec[] =
        "{\"volumes\":[{\"name\":\"a\",\"emptyDir\":{}},{\"persistentVolumeClaim\":{\"claimName\":\"data\"}},"
        "{\"persistentVolumeClaim\":{\"claimName\":\"disk-w-0\"}},{\"name\":\"tmp\",\"ephemeral\":{}}]}";
    cJSON *json = cJSON_Parse(spec);
    struct gt_pod_peers *peers;
    char *text;
    (void)state;
    assert_int_equal(gt_pod_peers_text(json, "ns", "w-0", NULL, &text), 0);
    assert_int_equal(gt_pod_peers_read(text, &peers), 0);
    assert_int_equal(cJSON_GetArraySize(peers->claims), 1);
    assert_string_equal(peers->claims->child->valuestring, "data");
    assert_int_equal(cJSON_GetArraySize(peers->own), 2);
    assert_string_equal(peers->own->child->valuestring, "disk-w-0");
    assert_string_equal(peers->own->child->next->valuestring, "w-0-tmp");
    gt_pod_peers_free(peers);
    free(text);
    cJSON_Delete(json);
    assert_null(read_spec(spec, "{}")); /* nobody asks for its volumes */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(terms_mean_pods),
                                       cmocka_unit_test(ports_exclude_each_other),
                                       cmocka_unit_test(claims_are_told)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
