/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_gpu_topology.h"

#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/bits.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/time_text.h"
#include "topology/model/node_json.h"

const char *const gt_topology_condition_names[GT_TOPOLOGY_CONDITIONS] = {
    [GT_TOPOLOGY_DISCOVERED] = GT_CONDITION_DISCOVERED,
    [GT_TOPOLOGY_VENDOR_LIBRARY] = GT_CONDITION_VENDOR_LIBRARY,
    [GT_TOPOLOGY_REGISTERED] = GT_CONDITION_REGISTERED,
    [GT_TOPOLOGY_LINKS_HEALTHY] = GT_CONDITION_LINKS_HEALTHY,
    [GT_TOPOLOGY_USAGE_KNOWN] = GT_CONDITION_USAGE_KNOWN,
    [GT_TOPOLOGY_NUMA] = GT_CONDITION_NUMA,
    [GT_TOPOLOGY_GPUS_HEALTHY] = GT_CONDITION_GPUS_HEALTHY,
};

void gt_topology_conditions_read(const cJSON *object, struct gt_condition ret[static GT_TOPOLOGY_CONDITIONS])
{
    gt_conditions_read(gt_get(object, "status"), gt_topology_condition_names, GT_TOPOLOGY_CONDITIONS, ret);
}

/* ---- reading ---- */

struct topology_reader {
    struct gt_at at;
    struct gt_node_gpu_topology *to;
    bool with_use;
    uint8_t bit_of[GT_GPUS_MAX]; /* number in the object -> bit */
};

/* The bit of the GPU that the object calls by this number. */
static int read_gpu_number(const struct topology_reader *reader, const struct gt_at *at, const char *key,
                           const cJSON *json, unsigned *ret)
{
    unsigned count = reader->to->node->gpu_count;
    uint64_t number;
    if (!cJSON_IsNumber(json))
        return gt_at_fail(at, key, "expected a number, is %s", gt_json_type(json));
    if (!gt_json_is_unsigned(json, GT_GPUS_MAX - 1, &number) || number >= count)
        return gt_at_fail(at, key, "there is no GPU %g, the node has %u", json->valuedouble, count);
    *ret = reader->bit_of[number];
    return 0;
}

static int read_free(const struct topology_reader *reader, const cJSON *status)
{
    const cJSON *array;
    unsigned count, i = 0, bit = 0;
    GT_TRY(gt_get_array(&reader->at, status, "free", GT_GPUS_MAX, &array, &count));
    for (const cJSON *item = gt_first(array); item; item = item->next, i++) {
        char key[32];
        snprintf(key, sizeof(key), "free[%u]", i);
        GT_TRY(read_gpu_number(reader, &reader->at, key, item, &bit));
        reader->to->free |= UINT64_C(1) << bit;
    }
    reader->to->use_known = array;
    return 0;
}

static int node_gpu_topology_read_owner(const struct topology_reader *reader, const char *key, unsigned i,
                                        const cJSON *item)
{
    struct gt_node_gpu_topology *to = reader->to;
    struct gt_gpu_owner owner = {.namespace_ = "", .pod = "", .container = ""};
    char path[32];
    snprintf(path, sizeof(path), "%s[%u]", key, i);
    struct gt_at at = {reader->at.source, path, reader->at.err};
    if (!cJSON_IsObject(item))
        return gt_at_fail(&at, "", "expected an object, is %s", gt_json_type(item));
    const cJSON *gpu = gt_get(item, "gpu");
    GT_TRY(gpu ? read_gpu_number(reader, &at, "gpu", gpu, &owner.gpu) : gt_at_fail(&at, "gpu", "is missing"));
    GT_TRY(gt_api_text(&at, item, "namespace", GT_API_NAME_MAX, &owner.namespace_));
    GT_TRY(gt_api_text(&at, item, "pod", GT_API_NAME_MAX, &owner.pod));
    GT_TRY(gt_api_text(&at, item, "container", GT_API_NAME_MAX, &owner.container));
    if (!owner.pod[0] || !owner.namespace_[0])
        return gt_at_fail(&at, owner.pod[0] ? "namespace" : "pod", "is missing");
    if (to->owned >> owner.gpu & 1)
        return 0;
    to->owned |= UINT64_C(1) << owner.gpu;
    to->owners[to->owner_count++] = owner;
    return 0;
}

static int read_owners(const struct topology_reader *reader, const char *key, const cJSON *status)
{
    const cJSON *array;
    unsigned count, i = 0;
    GT_TRY(gt_get_array(&reader->at, status, key, GT_GPUS_MAX, &array, &count));
    for (const cJSON *item = gt_first(array); item; item = item->next)
        GT_TRY(node_gpu_topology_read_owner(reader, key, i++, item));
    return 0;
}

int gt_node_gpu_topology_read_usage(const struct gt_at *at, const cJSON *usage, const char *owners,
                                    struct gt_node_gpu_topology *topology)
{
    struct topology_reader reader = {.at = *at, .to = topology};
    for (unsigned i = 0; i < GT_GPUS_MAX; i++)
        reader.bit_of[i] = (uint8_t)i;
    GT_TRY(read_free(&reader, usage));
    return read_owners(&reader, owners, usage);
}

/* When a member of the status was last written. Pods' ages are by the API server's clock, so this is too. */
static int64_t read_written(const cJSON *object, const char *member)
{
    int64_t latest = 0;
    for (const cJSON *item = gt_first(gt_get_at(object, "metadata", "managedFields")); item;
         item = item->next) {
        const cJSON *fields = gt_get_at(item, "fieldsV1", "f:status");
        int64_t at = gt_time_of_text(gt_get_string(item, "time"));
        if (gt_get(fields, member) && at > latest)
            latest = at;
    }
    return latest;
}

static void read_origin(const cJSON *object, struct gt_node_gpu_topology *to)
{
    const cJSON *metadata = gt_get(object, "metadata"), *owners = gt_get(metadata, "ownerReferences");
    for (const cJSON *item = gt_first(owners); item; item = item->next) {
        const char *kind = gt_get_string(item, "kind"), *uid = gt_get_string(item, "uid");
        if (kind && uid && strcmp(kind, "Node") == 0)
            to->node_uid = uid;
    }
    to->owners_written_s = read_written(object, "f:owners");
    to->written_s = read_written(object, "f:gpus");
    if (!to->written_s)
        to->written_s = gt_time_of_text(gt_get_string(metadata, "creationTimestamp"));
}

static int node_gpu_topology_read_status(struct topology_reader *reader, const cJSON *object,
                                         const cJSON *status)
{
    struct gt_node_gpu_topology *to = reader->to;
    const struct gt_at *at = &reader->at;
    GT_TRY(gt_node_from_json_numbered(status, at->source, &to->node, reader->bit_of, at->err));
    GT_TRY(gt_api_text(at, status, "observedAt", GT_API_TEXT_MAX, &to->observed_at));
    GT_TRY(reader->with_use ? read_free(reader, status) : 0);
    GT_TRY(reader->with_use ? read_owners(reader, "owners", status) : 0);
    read_origin(object, to);
    return 0;
}

static int read_object(const cJSON *object, bool with_use, struct gt_node_gpu_topology *ret,
                       struct gt_err **err)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {.observed_at = "", .node_uid = ""};
    char source[GT_API_NAME_MAX + 32];
    snprintf(source, sizeof(source), GT_PLURAL_NODE_GPU_TOPOLOGY);
    struct topology_reader reader = {.at = {source, "", err}, .to = &topology, .with_use = with_use};
    GT_TRY(gt_api_meta(&reader.at, object, &topology.name, &topology.resource_version));
    snprintf(source, sizeof(source), GT_PLURAL_NODE_GPU_TOPOLOGY "/%s", topology.name);
    const cJSON *status = gt_get(object, "status");
    gt_topology_conditions_read(object, topology.conditions);
    GT_TRY(gt_get(status, "gpus") ? node_gpu_topology_read_status(&reader, object, status) : 0);
    *ret = topology;
    topology.node = NULL;
    return 0;
}

int gt_node_gpu_topology_read(const cJSON *object, struct gt_node_gpu_topology *ret, struct gt_err **err)
{
    return read_object(object, true, ret, err);
}

int gt_node_gpu_topology_read_wiring(const cJSON *object, struct gt_node_gpu_topology *ret,
                                     struct gt_err **err)
{
    return read_object(object, false, ret, err);
}

void gt_node_gpu_topology_done(struct gt_node_gpu_topology *topology)
{
    gt_node_unref(topology->node);
    topology->node = NULL;
}

/* ---- writing ---- */

/* Up to its metadata, which is still open. */
static void node_gpu_topology_begin_object(const char *name, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'apiVersion': '" GT_API_GROUP_VERSION "', 'kind': '" GT_KIND_NODE_GPU_TOPOLOGY
                   "', 'metadata': {'name': %s",
                   name);
}

void gt_node_gpu_topology_write_object(const char *name, const char *node_uid, struct gt_buf *to)
{
    node_gpu_topology_begin_object(name, to);
    gt_json_printf(to, "'ownerReferences': [{'apiVersion': 'v1', 'kind': 'Node', 'name': %s, 'uid': %s}]}}",
                   name, node_uid);
}

void gt_node_gpu_topology_write_wiring(const struct gt_node_gpu_topology *topology, struct gt_buf *to)
{
    const struct gt_node *node = topology->node;
    node_gpu_topology_begin_object(topology->name, to);
    gt_json_printf(to, "}, 'status': {");
    gt_node_add_json(node, topology->name, to); /* the recording's name, if any, gives way */
    gt_json_printf(to, "'gpuCount': %u, 'healthyCount': %u, 'unknownCount': %u", node->gpu_count,
                   gt_bit_count(gt_node_with_health(node, GT_GPU_HEALTHY)),
                   gt_bit_count(gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN)));
    gt_conditions_write(topology->conditions, gt_topology_condition_names, GT_TOPOLOGY_CONDITIONS, to);
    gt_json_add_text_if(to, "observedAt", topology->observed_at);
    gt_buf_puts(to, "}}");
}

void gt_gpu_owner_write(const struct gt_gpu_owner *owner, struct gt_buf *to)
{
    gt_json_printf(to, "{'gpu': %u, 'namespace': %s, 'pod': %s, 'container': %s}", owner->gpu,
                   owner->namespace_, owner->pod, owner->container);
}

static void node_gpu_topology_write_counts(const char *key, const uint32_t values[], unsigned count,
                                           struct gt_buf *to)
{
    gt_json_begin(to, key, '[');
    for (unsigned k = 1; k <= count; k++)
        gt_json_add_unsigned(to, NULL, values[k]);
    gt_json_end(to, ']');
}

bool gt_node_gpu_topology_write_usage(const struct gt_node_gpu_topology *topology, const uint32_t scores[],
                                      const uint32_t losses[], unsigned count, struct gt_buf *to)
{
    if (!topology->use_known)
        return false;
    node_gpu_topology_begin_object(topology->name, to);
    gt_json_printf(to, "}, 'status': {");
    gt_json_add_mask(to, "free", topology->free);
    gt_json_printf(to, "'freeCount': %u, 'owners': [", gt_bit_count(topology->free));
    for (unsigned i = 0; i < topology->owner_count; i++)
        gt_gpu_owner_write(&topology->owners[i], to);
    gt_json_end(to, ']');
    node_gpu_topology_write_counts("scoreByCount", scores, count, to);
    node_gpu_topology_write_counts("lossByCount", losses, count, to);
    gt_buf_puts(to, "}}");
    return true;
}
