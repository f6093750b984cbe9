/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "api/node_gpu_topology.h"
#include "base/buf.h"
#include "base/err.h"
#include "tests/unit/seed.h"
#include "topology/model/node_json.h"

/* Readers get what the agent has written: the same node, use, owners and conditions. */

enum { NODES = 400 };

static uint64_t state_of_random;

static unsigned below(unsigned n)
{
    state_of_random = state_of_random * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(state_of_random >> 33) % n;
}

static uint64_t random_mask(unsigned bits)
{
    uint64_t mask = (uint64_t)below(1U << 31) << 33 ^ (uint64_t)below(1U << 31) << 10 ^ below(1U << 31);
    return bits == 64 ? mask : mask & ((UINT64_C(1) << bits) - 1);
}

static struct gt_node *random_node(unsigned gpus)
{
    struct gt_node *node = NULL;
    assert_int_equal(gt_node_new(gpus, below(3), &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "%04x:%02x:00.0", below(3), i);
        if (below(4))
            snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-%u-%u", i, below(1000));
        snprintf(gpu->product, sizeof(gpu->product), "%s", below(2) ? "MXC500" : "a \"GPU\", \xc3\xbc");
        gpu->health = (enum gt_gpu_health)below(3);
        if (gpu->health == GT_GPU_UNHEALTHY)
            snprintf(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), "reason %u", i);
        gpu->mode = below(9) ? GT_GPU_NATIVE : GT_GPU_SGPU;
        gpu->memory_bytes = (uint64_t)below(1U << 30) << 7;
        gpu->numa_node = (int)below(3) - 1;
    }
    for (unsigned i = 0; i < node->nic_count; i++)
        snprintf(node->nics[i].name, sizeof(node->nics[i].name), "mlx5_%u", i);
    gt_node_sort(node);
    for (unsigned i = 0; i < node->link_count; i++) {
        static const enum gt_link_kind kinds[] = {GT_LINK_MX, GT_LINK_PIX, GT_LINK_SYS, GT_LINK_UNKNOWN};
        node->links[i].kind = kinds[below(4)];
        if (node->links[i].kind == GT_LINK_MX) {
            node->links[i].state = (enum gt_link_state)below(3);
            node->links[i].bandwidth_mbps = below(2) ? 1000 * below(400) : 0;
        }
    }
    if (below(2))
        snprintf(node->server_uuid, sizeof(node->server_uuid), "server-%u", below(1000));
    node->remote_count = below(4) ? below(4) : GT_REMOTES_MAX;
    for (unsigned i = 0; i < node->remote_count; i++)
        snprintf(node->remotes[i], sizeof(node->remotes[i]), "remote-%u", i);
    gt_auto_err struct gt_err *err = NULL;
    if (gt_node_finish(node, &err) < 0)
        fail_msg("%s", gt_err_text(err));
    return node;
}

struct drawn {
    struct gt_node_gpu_topology topology;
    char pods[GT_GPUS_MAX][64];
};

static void draw(struct drawn *drawn)
{
    static const char *const reasons[] = {"", "NoGPU", "AllUp"};
    struct gt_node_gpu_topology *to = &drawn->topology;
    unsigned gpus = below(3) ? below(9) : below(GT_GPUS_MAX + 1);
    *to = (struct gt_node_gpu_topology){.name = "node-1.example",
                                        .node = random_node(gpus),
                                        .observed_at = below(2) ? "2026-01-31T12:00:00Z" : "",
                                        .use_known = below(3)};
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++)
        to->conditions[i] = (struct gt_condition){.status = (enum gt_condition_status)below(3),
                                                  .reason = reasons[below(3)],
                                                  .message = "it \"burns\"\n",
                                                  .since = below(2) ? "2026-01-30T12:00:00Z" : ""};
    if (!to->use_known || !gpus)
        return;
    uint64_t used = random_mask(gpus);
    to->free = random_mask(gpus) & ~used;
    for (unsigned i = 0; i < gpus; i++) {
        if (!(used >> i & 1) || !below(5)) /* the kubelet does not always say whose it is */
            continue;
        snprintf(drawn->pods[i], sizeof(drawn->pods[i]), "pod-%u\xc3\xbc", i / 2);
        to->owners[to->owner_count++] = (struct gt_gpu_owner){i, "default", drawn->pods[i], "main"};
        to->owned |= UINT64_C(1) << i;
    }
}

/* As the API server merges them. */
static cJSON *written(const struct gt_node_gpu_topology *topology)
{
    static const uint32_t values[GT_GPUS_MAX + 1] = {0, 1, 2, 3};
    gt_auto_buf struct gt_buf object = GT_BUF(4096), wiring = GT_BUF(1 << 20), usage = GT_BUF(1 << 20);
    gt_node_gpu_topology_write_object(topology->name, "uid", &object);
    gt_node_gpu_topology_write_wiring(topology, &wiring);
    bool reported =
        gt_node_gpu_topology_write_usage(topology, values, values, (unsigned)below(GT_GPUS_MAX), &usage);
    assert_int_equal(reported, topology->use_known);
    cJSON *json = cJSON_Parse(wiring.data), *other = cJSON_Parse(reported ? usage.data : "{}");
    assert_non_null(json);
    assert_non_null(other);
    cJSON *status = cJSON_GetObjectItem(json, "status"), *more = cJSON_GetObjectItem(other, "status");
    while (more && more->child) {
        cJSON *member = cJSON_DetachItemViaPointer(more, more->child);
        cJSON_AddItemToObject(status, member->string, member);
    }
    cJSON_Delete(other);
    other = cJSON_Parse(object.data);
    assert_non_null(other);
    cJSON_ReplaceItemInObject(json, "metadata", cJSON_DetachItemFromObject(other, "metadata"));
    cJSON_Delete(other);
    return json;
}

static char *text_of(const struct gt_node *node)
{
    cJSON *json = gt_node_to_json(node);
    cJSON_DeleteItemFromObject(json, "name"); /* of a recording; the object has the node's */
    char *text = cJSON_PrintUnformatted(json);
    cJSON_Delete(json);
    return text;
}

static void same(const struct gt_node_gpu_topology *a, const struct gt_node_gpu_topology *b)
{
    char *text_a = text_of(a->node), *text_b = text_of(b->node);
    assert_string_equal(text_a, text_b);
    free(text_a);
    free(text_b);
    assert_string_equal(a->name, b->name);
    assert_string_equal(a->observed_at, b->observed_at);
    assert_int_equal(a->use_known, b->use_known);
    assert_int_equal(a->free, b->free);
    assert_int_equal(a->owned, b->owned);
    assert_int_equal(a->owner_count, b->owner_count);
    for (unsigned i = 0; i < a->owner_count; i++) {
        assert_int_equal(a->owners[i].gpu, b->owners[i].gpu);
        assert_string_equal(a->owners[i].namespace_, b->owners[i].namespace_);
        assert_string_equal(a->owners[i].pod, b->owners[i].pod);
        assert_string_equal(a->owners[i].container, b->owners[i].container);
    }
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++) {
        const struct gt_condition *x = &a->conditions[i], *y = &b->conditions[i];
        assert_string_equal(x->reason, y->reason);
        if (!x->reason[0])
            continue;
        assert_int_equal(x->status, y->status);
        assert_string_equal(x->message, y->message);
        assert_string_equal(x->since, y->since);
    }
}

/* Puts the GPUs in any order in the array; their `index` says which is which. */
static void shuffle(cJSON *array)
{
    cJSON *items[GT_GPUS_MAX];
    unsigned count = 0;
    while (array->child)
        items[count++] = cJSON_DetachItemFromArray(array, 0);
    for (; count; count--) {
        unsigned i = below(count);
        cJSON_AddItemToArray(array, items[i]);
        items[i] = items[count - 1];
    }
}

static void what_is_written_is_read(void **state)
{
    (void)state;
    for (unsigned n = 0; n < NODES; n++) {
        struct drawn drawn;
        draw(&drawn);
        cJSON *json = written(&drawn.topology);
        for (unsigned turn = 0; turn < 2; turn++) {
            gt_auto_node_gpu_topology struct gt_node_gpu_topology got = {0};
            gt_auto_err struct gt_err *err = NULL;
            if (gt_node_gpu_topology_read(json, &got, &err) < 0)
                fail_msg("%s", gt_err_text(err));
            same(&drawn.topology, &got);
            shuffle(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "status"), "gpus"));
        }
        cJSON_Delete(json);
        gt_node_gpu_topology_done(&drawn.topology);
    }
}

#define GPU(index, bus) "{\"index\":" index ",\"bdf\":\"0000:" bus ":00.0\",\"product\":\"" bus "\"}"
#define OBJECT(status)  "{\"metadata\":{\"name\":\"n1\",\"resourceVersion\":\"7\"},\"status\":" status "}"

static int read_text(const char *text, struct gt_node_gpu_topology *ret, cJSON **ret_json,
                     struct gt_err **err)
{
    *ret_json = cJSON_Parse(text);
    assert_non_null(*ret_json);
    return gt_node_gpu_topology_read(*ret_json, ret, err);
}

/* Free ones and owners mean the `index` of the object, or the position where there is none; bits are in the
 * order of the addresses. */
static void numbers_of_the_object_are_its_own(void **state)
{
    static const char *const objects[] = {
        OBJECT("{\"gpus\":[" GPU("0", "30") "," GPU("1", "10") "," GPU(
            "2", "20") "],\"free\":[0],"
                       "\"owners\":[{\"gpu\":1,\"namespace\":\"ns\",\"pod\":\"p\"}]}"),
        OBJECT("{\"gpus\":[" GPU("2", "20") "," GPU("0", "30") "," GPU(
            "1", "10") "],\"free\":[0],"
                       "\"owners\":[{\"gpu\":1,\"namespace\":\"ns\",\"pod\":\"p\"}]}"),
        OBJECT("{\"gpus\":[" GPU("null", "30") "," GPU("null", "10") "," GPU(
            "null", "20") "],\"free\":[0],"
                          "\"owners\":[{\"gpu\":1,\"namespace\":\"ns\",\"pod\":\"p\"}]}"),
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(objects); i++) {
        gt_auto_node_gpu_topology struct gt_node_gpu_topology got = {0};
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json;
        if (read_text(objects[i], &got, &json, &err) < 0)
            fail_msg("%s", gt_err_text(err));
        assert_int_equal(got.free, 1 << 2);
        assert_int_equal(got.owned, 1 << 0);
        assert_string_equal(got.node->gpus[got.owners[0].gpu].product, "10");
        assert_string_equal(got.owners[0].container, "");
        assert_string_equal(got.resource_version, "7");
        cJSON_Delete(json);
    }
}

static void an_object_may_be_empty_yet(void **state)
{
    static const char *const texts[] = {"{\"metadata\":{\"name\":\"n1\"}}", OBJECT("{}"), OBJECT("null"),
                                        OBJECT("{\"free\":7,\"owners\":{}}")};
    (void)state;
    for (size_t i = 0; i < GT_COUNT(texts); i++) {
        struct gt_node_gpu_topology got = {.free = 1};
        cJSON *json;
        assert_int_equal(read_text(texts[i], &got, &json, NULL), 0);
        assert_null(got.node);
        assert_false(got.use_known);
        assert_int_equal(got.free, 0);
        assert_string_equal(got.name, "n1");
        cJSON_Delete(json);
    }
}

static void when_owners_were_written(void **state)
{
    static const char text[] =
        "{\"metadata\":{\"name\":\"n1\",\"managedFields\":["
        "{\"time\":\"2026-01-31T12:00:00Z\",\"fieldsV1\":{\"f:status\":{\"f:owners\":{}}}},"
        "{\"time\":\"2026-01-31T13:00:00Z\",\"fieldsV1\":{\"f:status\":{\"f:owners\":{}}}},"
        "{\"time\":\"2026-01-31T14:00:00Z\",\"fieldsV1\":{\"f:status\":{\"f:gpus\":{}}}},7,"
        "{\"time\":7,\"fieldsV1\":{\"f:status\":{\"f:owners\":{}}}}]},\"status\":{\"gpus\":[]}}";
    gt_auto_node_gpu_topology struct gt_node_gpu_topology got = {0};
    cJSON *json;
    (void)state;
    assert_int_equal(read_text(text, &got, &json, NULL), 0);
    assert_int_equal(got.owners_written_s, 1769864400);
    cJSON_Delete(json);
}

static void two_owners_of_one_gpu(void **state)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology got = {0};
    cJSON *json;
    (void)state;
    assert_int_equal(read_text(OBJECT("{\"gpus\":[" GPU(
                                   "0", "10") "],\"free\":[0],\"owners\":["
                                              "{\"gpu\":0,\"namespace\":\"ns\",\"pod\":\"first\"},"
                                              "{\"gpu\":0,\"namespace\":\"ns\",\"pod\":\"second\"}]}"),
                               &got, &json, NULL),
                     0);
    assert_int_equal(got.owner_count, 1);
    assert_string_equal(got.owners[0].pod, "first");
    assert_int_equal(got.owned, 1);
    cJSON_Delete(json);
}

static void nonsense_is_refused_with_its_path(void **state)
{
    static const struct {
        const char *text, *error;
    } cases[] = {
        {"{}", "nodegputopologies: metadata.name: is missing"},
        {"[]", "nodegputopologies: metadata.name: is missing"},
        {"{\"metadata\":{\"name\":7}}", "nodegputopologies: metadata.name: expected a string, is a number"},
        {OBJECT("{\"gpus\":7}"), "nodegputopologies/n1: gpus: expected an array, is a number"},
        {OBJECT("{\"gpus\":[{\"index\":0}]}"), "nodegputopologies/n1: gpus[0].bdf: is missing"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"free\":{}}"),
         "nodegputopologies/n1: free: expected an array, is an object"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"free\":[\"0\"]}"),
         "nodegputopologies/n1: free[0]: expected a number, is a string"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"free\":[0,1]}"),
         "nodegputopologies/n1: free[1]: there is no GPU 1, the node has 1"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"free\":[0.5]}"),
         "nodegputopologies/n1: free[0]: there is no GPU 0.5, the node has 1"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"free\":[-1]}"),
         "nodegputopologies/n1: free[0]: there is no GPU -1, the node has 1"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"owners\":[7]}"),
         "nodegputopologies/n1: owners[0]: expected an object, is a number"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"owners\":[{\"namespace\":\"ns\",\"pod\":\"p\"}]}"),
         "nodegputopologies/n1: owners[0].gpu: is missing"},
        {OBJECT(
             "{\"gpus\":[" GPU("0", "10") "],\"owners\":[{\"gpu\":64,\"namespace\":\"n\",\"pod\":\"p\"}]}"),
         "nodegputopologies/n1: owners[0].gpu: there is no GPU 64, the node has 1"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"owners\":[{\"gpu\":0,\"namespace\":\"ns\"}]}"),
         "nodegputopologies/n1: owners[0].pod: is missing"},
        {OBJECT("{\"gpus\":[" GPU("0", "10") "],\"owners\":[{\"gpu\":0,\"pod\":\"p\"}]}"),
         "nodegputopologies/n1: owners[0].namespace: is missing"},
        {OBJECT("{\"gpus\":[" GPU(
             "0", "10") "],\"owners\":[{\"gpu\":0,\"namespace\":\"n\",\"pod\":\"\\u0007\"}]}"),
         "nodegputopologies/n1: owners[0].pod: holds a control character or bytes that are no UTF-8"},
        {OBJECT("{\"gpus\":[],\"observedAt\":7}"),
         "nodegputopologies/n1: observedAt: expected a string, is a number"},
    };
    (void)state;
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        struct gt_node_gpu_topology got = {.free = 77};
        gt_auto_err struct gt_err *err = NULL;
        cJSON *json;
        assert_int_equal(read_text(cases[i].text, &got, &json, &err), -EINVAL);
        assert_string_equal(gt_err_text(err), cases[i].error);
        assert_int_equal(got.free, 77);
        cJSON_Delete(json);
    }
}

int main(void)
{
    state_of_random = test_seed();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_written_is_read),    cmocka_unit_test(numbers_of_the_object_are_its_own),
        cmocka_unit_test(an_object_may_be_empty_yet), cmocka_unit_test(when_owners_were_written),
        cmocka_unit_test(two_owners_of_one_gpu),      cmocka_unit_test(nonsense_is_refused_with_its_path),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
