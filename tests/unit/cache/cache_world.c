/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/cache/cache_world.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "api/names.h"
#include "base/err.h"
#include "tests/unit/core/core_checks.h"

static cJSON *parse(struct gt_buf *text)
{
    assert_false(text->failed);
    cJSON *json = cJSON_Parse(text->data);
    if (!json)
        fail_msg("the test wrote no JSON: %s", text->data);
    gt_buf_done(text);
    return json;
}

static void add_gpu(struct gt_buf *to, const struct world_topology *topology, unsigned i)
{
    bool isolated = topology->isolated >> i & 1;
    bool unhealthy = isolated || topology->unhealthy >> i & 1, unknown = topology->unknown >> i & 1;
    gt_buf_printf(to,
                  "{\"index\":%u,\"uuid\":\"GPU-%s-%u\",\"bdf\":\"0000:%02x:00.0\",\"product\":\"MXC550\","
                  "\"numaNode\":%u,\"mode\":\"%s\",\"health\":\"%s\",\"zone\":1%s%s}",
                  i, topology->name, i, i + 1, topology->single_numa ? i / 4 : 0,
                  topology->shared ? "sgpu" : "native",
                  unhealthy ? "unhealthy"
                  : unknown ? "unknown"
                            : "healthy",
                  topology->slow >> i & 1 ? ",\"grade\":\"slow\"" : "",
                  isolated ? ",\"unhealthyReason\":\"isolated: ticket 4711\"" : "");
}

static void add_usage(struct gt_buf *to, const struct world_topology *topology)
{
    uint64_t used = topology->unhealthy | topology->isolated | topology->unnamed;
    const char *comma = "";
    gt_buf_puts(to, "\"owners\":[");
    for (unsigned o = 0; o < WORLD_OWNERS && topology->owners[o].pod; o++)
        for (unsigned i = 0; i < topology->gpus; i++) {
            if (!(topology->owners[o].mask >> i & 1))
                continue;
            gt_buf_printf(to, "%s{\"gpu\":%u,\"namespace\":\"ns\",\"pod\":\"%s\",\"container\":\"main\"}",
                          comma, i, topology->owners[o].pod);
            used |= UINT64_C(1) << i;
            comma = ",";
        }
    gt_buf_puts(to, "],\"free\":[");
    comma = "";
    for (unsigned i = 0; i < topology->gpus; i++)
        if (!(used >> i & 1)) {
            gt_buf_printf(to, "%s%u", comma, i);
            comma = ",";
        }
    gt_buf_puts(to, "],");
}

cJSON *world_topology(const struct world_topology *topology)
{
    struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_printf(&to, "{\"kind\":\"NodeGPUTopology\",\"metadata\":{\"name\":\"%s\"", topology->name);
    if (topology->version)
        gt_buf_printf(&to, ",\"resourceVersion\":\"%s\"", topology->version);
    if (topology->created)
        gt_buf_printf(&to, ",\"creationTimestamp\":\"%s\"", topology->created);
    if (topology->node_uid)
        gt_buf_printf(
            &to,
            ",\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"Node\",\"name\":\"%s\",\"uid\":\"%s\"}]",
            topology->name, topology->node_uid);
    if (topology->written)
        gt_buf_printf(&to,
                      ",\"managedFields\":[{\"manager\":\"a\",\"time\":\"%s\",\"fieldsV1\":"
                      "{\"f:status\":{\"f:gpus\":{}}}}]",
                      topology->written);
    if (topology->owners_since)
        gt_buf_printf(&to,
                      ",\"managedFields\":[{\"manager\":\"a\",\"time\":\"2030-01-01T00:00:00Z\",\"fieldsV1\":"
                      "{\"f:status\":{\"f:gpus\":{}}}},{\"manager\":\"b\",\"time\":\"%s\",\"fieldsV1\":"
                      "{\"f:status\":{\"f:free\":{},\"f:owners\":{}}}}]",
                      topology->owners_since);
    gt_buf_printf(&to, "},\"status\":{\"name\":\"%s\",\"gpus\":[", topology->name);
    for (unsigned i = 0; i < topology->gpus; i++) {
        gt_buf_puts(&to, i ? "," : "");
        add_gpu(&to, topology, topology->reversed ? topology->gpus - 1 - i : i);
    }
    gt_buf_puts(&to, "],\"links\":[");
    for (unsigned b = 1; b < topology->gpus; b++)
        for (unsigned a = 0; a < b; a++)
            gt_buf_printf(&to,
                          "%s{\"a\":%u,\"b\":%u,\"kind\":\"MX\",\"pathKind\":\"NODE\",\"state\":\"%s\","
                          "\"weight\":64}",
                          a + b > 1 ? "," : "", a, b, topology->link_down && b == 1 ? "down" : "up");
    gt_buf_puts(&to, "],");
    if (topology->single_numa)
        gt_buf_puts(&to, "\"kubelet\":{\"topologyManagerPolicy\":\"single-numa-node\"},");
    if (!topology->silent_on_usage)
        add_usage(&to, topology);
    if (topology->server)
        gt_buf_printf(&to, "\"supernode\":{\"uuid\":\"%s\",\"remote\":%s},", topology->server,
                      topology->remotes ? topology->remotes : "[]");
    gt_buf_puts(&to, "\"conditions\":[");
    if (topology->registered)
        gt_buf_printf(&to, "{\"type\":\"Registered\",\"status\":\"True\",\"reason\":\"%s\"},",
                      topology->registered);
    gt_buf_printf(&to, "{\"type\":\"LinksHealthy\",\"status\":\"%s\"}]}}",
                  topology->link_down ? "False" : "True");
    return parse(&to);
}

cJSON *world_node(const struct world_node *node)
{
    struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_printf(&to, "{\"kind\":\"Node\",\"metadata\":{\"name\":\"%s\",", node->name);
    if (node->uid)
        gt_buf_printf(&to, "\"uid\":\"%s\",", node->uid);
    if (node->created)
        gt_buf_printf(&to, "\"creationTimestamp\":\"%s\",", node->created);
    gt_buf_printf(&to, "\"labels\":%s},\"spec\":{%s", node->labels ? node->labels : "{}",
                  node->cordoned ? "\"unschedulable\":true," : "");
    gt_buf_printf(&to,
                  "\"taints\":%s},\"status\":{\"capacity\":{\"metax-tech.com/"
                  "gpu\":\"8\"},\"allocatable\":%s,\"conditions\":[{"
                  "\"type\":\"MemoryPressure\",\"status\":\"False\"},{\"type\":\"Ready\",\"status\":\"%s\","
                  "\"lastTransitionTime\":\"%s\"}]}}",
                  node->taints ? node->taints : "[]", node->allocatable ? node->allocatable : "{}",
                  node->not_ready ? "Unknown" : "True", node->ready_since ? node->ready_since : "");
    return parse(&to);
}

cJSON *world_supernode(const struct world_supernode *supernode)
{
    struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_printf(&to, "{\"kind\":\"Supernode\",\"metadata\":{\"name\":\"%s\"},\"status\":{\"tier\":%u,",
                  supernode->name, supernode->tier);
    if (supernode->parent)
        gt_buf_printf(&to, "\"parent\":\"%s\",", supernode->parent);
    if (supernode->gbps > 0)
        gt_buf_printf(&to, "\"bandwidthGBps\":%g,", supernode->gbps);
    gt_buf_puts(&to, "\"source\":\"config\",\"members\":[");
    for (unsigned i = 0; i < GT_COUNT(supernode->members) && supernode->members[i]; i++)
        gt_buf_printf(&to, "%s{\"node\":\"%s\"}", i ? "," : "", supernode->members[i]);
    gt_buf_puts(&to, "]}}");
    return parse(&to);
}

static void add_plan(struct gt_buf *to, const struct world_pod *pod)
{
    gt_buf_printf(to,
                  "\"" GT_PLAN_ANNOTATION_NODE "\":\"%s\",\"" GT_PLAN_ANNOTATION_GPUS "\":\"{\\\"main\\\":[",
                  pod->plan_node);
    const char *comma = "";
    for (uint64_t left = pod->plan_mask; left; left &= left - 1, comma = ",")
        gt_buf_printf(to, "%s\\\"GPU-%s-%d\\\"", comma, pod->plan_node, __builtin_ctzll(left));
    gt_buf_puts(to, "]}\",");
}

cJSON *world_pod(const struct world_pod *pod)
{
    struct gt_buf to = GT_BUF(1 << 20);
    gt_buf_printf(&to,
                  "{\"kind\":\"Pod\",\"metadata\":{\"namespace\":\"ns\",\"name\":\"%s\",\"uid\":\"%s\","
                  "\"creationTimestamp\":\"%s\",",
                  pod->name, pod->uid ? pod->uid : pod->name,
                  pod->created ? pod->created : "2026-01-01T00:00:00Z");
    if (pod->deleting)
        gt_buf_puts(&to, "\"deletionTimestamp\":\"2026-01-02T00:00:00Z\",");
    if (pod->job)
        gt_buf_printf(
            &to,
            "\"ownerReferences\":[{\"apiVersion\":\"apps/v1\",\"kind\":\"ReplicaSet\",\"name\":\"%s\","
            "\"uid\":\"uid-of-%s\",\"controller\":true}],",
            pod->job, pod->job);
    if (pod->owner)
        gt_buf_printf(&to, "\"ownerReferences\":[%s],", pod->owner);
    gt_buf_printf(&to, "\"labels\":{%s},\"annotations\":{", pod->labels ? pod->labels : "");
    if (pod->plan_node)
        add_plan(&to, pod);
    gt_buf_printf(&to, "%s\"z\":\"\"}},\"spec\":{\"schedulerName\":\"volcano\",\"schedulingGates\":[",
                  pod->annotations ? pod->annotations : "");
    if (pod->gated)
        gt_buf_puts(&to, "{\"name\":\"" GT_GATE "\"}");
    if (pod->other_gate)
        gt_buf_printf(&to, "%s{\"name\":\"example.com/other\"}", pod->gated ? "," : "");
    gt_buf_puts(&to, "],");
    if (pod->node)
        gt_buf_printf(&to, "\"nodeName\":\"%s\",", pod->node);
    gt_buf_printf(
        &to,
        "%s\"containers\":[{\"name\":\"main\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"%u\","
        "\"cpu\":\"1500m\"}}}]},\"status\":{\"phase\":\"%s\"}}",
        pod->spec ? pod->spec : "", pod->gpus, pod->phase ? pod->phase : "Pending");
    return parse(&to);
}

/* A namespace's GPUs are those of its pods; here there is one. */
static void check_namespace(const struct gt_cache *cache)
{
    const struct gt_cache_pod *first = gt_cache_next_pod(cache, NULL);
    uint64_t gpus = 0, asked = 0;
    uint32_t count = 0, terminating = 0;
    for (const struct gt_cache_pod *pod = first; pod; pod = gt_cache_next_pod(cache, pod), count++) {
        assert_ptr_equal(pod->namespace_, first->namespace_);
        assert_string_equal(pod->namespace_->name, pod->meta.namespace_);
        if (pod->state == GT_CACHE_BOUND || pod->state == GT_CACHE_RUNNING ||
            pod->plan == GT_CACHE_PLAN_ASSUMED)
            gpus += pod->gpus;
        asked += pod->deleting ? 0 : pod->gpus;
        terminating += pod->deleting && pod->node_name;
    }
    if (first)
        assert_true(first->namespace_->gpus == gpus && first->namespace_->asked == asked &&
                    first->namespace_->pod_count == count);
    assert_int_equal(gt_cache_terminating(cache), terminating);
}

void check_cache(const struct gt_cache *cache)
{
    check_namespace(cache);
    union { /* checking changes nothing */
        const struct gt_cache *in;
        struct gt_cache *out;
    } same = {cache};
    gt_auto_err struct gt_err *err = NULL;
    if (gt_cluster_check(gt_cache_cluster(same.out), &err) < 0)
        fail_msg("%s", gt_err_text(err));
}

void give_topology(struct gt_cache *cache, const struct world_topology *topology, uint64_t now_ms)
{
    cJSON *object = world_topology(topology);
    gt_cache_topology(cache, object, now_ms);
    cJSON_Delete(object);
    check_cache(cache);
}

void give_node(struct gt_cache *cache, const struct world_node *node)
{
    cJSON *object = world_node(node);
    gt_cache_node(cache, object);
    cJSON_Delete(object);
    check_cache(cache);
}

void give_supernode(struct gt_cache *cache, const struct world_supernode *supernode)
{
    cJSON *object = world_supernode(supernode);
    gt_cache_supernode(cache, object);
    cJSON_Delete(object);
    check_cache(cache);
}

void give_json_pod(struct gt_cache *cache, const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_cache_pod(cache, &pod);
}

void give_pod(struct gt_cache *cache, const struct world_pod *pod)
{
    cJSON *object = world_pod(pod);
    give_json_pod(cache, object);
    cJSON_Delete(object);
    check_cache(cache);
}

void give_plain_node(struct gt_cache *cache, const char *name)
{
    give_node(cache, NODE(.name = name));
    give_topology(cache, TOPOLOGY(.name = name, .gpus = 8), 1);
}

struct gt_cache *new_cache(const struct gt_cache_spec *spec)
{
    struct gt_cache *cache;
    assert_int_equal(gt_cache_new(spec, &cache, NULL), 0);
    return cache;
}

struct gt_cluster_node cluster_node(struct gt_cache *cache, const char *name)
{
    struct gt_cluster_node node;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), gt_cluster_find_node(gt_cache_cluster(cache), name),
                             &node))
        fail_msg("node %s is not in the cluster", name);
    return node;
}

struct gt_cache_pod *pod_of(struct gt_cache *cache, const char *name)
{
    struct gt_cache_pod *pod = gt_cache_find_pod(cache, "ns", name);
    if (!pod)
        fail_msg("pod %s is not in the cache", name);
    return pod;
}

uint64_t gpus_of(struct gt_cache *cache, const char *node, const char *pod)
{
    uint32_t id = gt_cluster_find_node(gt_cache_cluster(cache), node);
    uint64_t mask = 0;
    for (unsigned i = 0; i < GT_GPUS_MAX; i++) {
        const struct gt_cache_pod *user = gt_cache_gpu_user(cache, id, i);
        if (user && strcmp(user->meta.name, pod) == 0)
            mask |= UINT64_C(1) << i;
    }
    return mask;
}

uint64_t refused(struct gt_cache *cache)
{
    struct gt_cache_counters counters;
    gt_cache_counters(cache, &counters);
    return counters.refused;
}
