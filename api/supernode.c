/* SPDX-License-Identifier: Apache-2.0 */
#include "api/supernode.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/bits.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
#include "topology/model/node.h"
static const char *const condition_names[GT_SUPERNODE_CONDITIONS] = {
    [GT_SUPERNODE_READY] = "Ready",
    [GT_SUPERNODE_CONFLICT] = "Conflict",
    [GT_SUPERNODE_HYPERNODE] = "HyperNode",
};

/* ---- reading ---- */

static int read_member_at(const struct gt_at *at, const cJSON *item, struct gt_supernode_member *to)
{
    *to = (struct gt_supernode_member){.node = "", .server = "", .gpus = -1, .free = -1};
    if (!cJSON_IsObject(item))
        return gt_at_fail(at, "", "expected an object, is %s", gt_json_type(item));
    GT_TRY(gt_api_text(at, item, "node", GT_API_NAME_MAX, &to->node));
    if (!to->node[0])
        return gt_at_fail(at, "node", "is missing");
    GT_TRY(gt_api_text(at, item, "server", GT_API_TEXT_MAX, &to->server));
    GT_TRY(gt_get_int(at, item, "gpus", GT_GPUS_MAX, &to->gpus));
    return gt_get_int(at, item, "free", GT_GPUS_MAX, &to->free);
}

/* Where it is is written only for an error: objects come often. */
static int supernode_read_member(const struct gt_at *at, const cJSON *item, unsigned i,
                                 struct gt_supernode_member *to)
{
    char path[32];
    if (read_member_at(&(struct gt_at){at->source, at->path, NULL}, item, to) >= 0)
        return 0;
    snprintf(path, sizeof(path), "members[%u]", i);
    return read_member_at(&(struct gt_at){at->source, path, at->err}, item, to);
}

static int supernode_read_members(const struct gt_at *at, const cJSON *status, struct gt_supernode_object *to)
{
    const cJSON *array;
    unsigned count, i = 0;
    int r = gt_get_array(at, status, "members", GT_SUPERNODE_MEMBERS_MAX, &array, &count);
    if (r < 0 || !count)
        return r;
    gt_auto_free struct gt_supernode_member *members = calloc(count, sizeof(*members));
    if (!members)
        return gt_fail_sys(at->err, ENOMEM, "%s", at->source);
    for (const cJSON *item = array->child; item && r >= 0; item = item->next, i++)
        r = supernode_read_member(at, item, i, &members[i]);
    if (r < 0)
        return r;
    to->members = gt_steal(members);
    to->member_count = count;
    return 0;
}

static int supernode_read_count(const struct gt_at *at, const cJSON *status, const char *key, int64_t *ret)
{
    uint64_t count = UINT64_MAX;
    GT_TRY(gt_get_integer(at, status, key, UINT32_MAX, &count));
    if (count != UINT64_MAX)
        *ret = (int64_t)count;
    return 0;
}

static int supernode_read_status(const struct gt_at *at, const cJSON *status, struct gt_supernode_object *to)
{
    bool links = false;
    GT_TRY(gt_get_unsigned(at, status, "tier", GT_SUPERNODE_TIERS_MAX, &to->tier));
    if (!to->tier)
        return gt_at_fail(at, "tier", "expected 1 (best performance) to %d", GT_SUPERNODE_TIERS_MAX);
    GT_TRY(gt_api_text(at, status, "source", GT_API_TEXT_MAX, &to->source));
    GT_TRY(gt_api_text(at, status, "parent", GT_API_NAME_MAX, &to->parent));
    if (strcmp(to->parent, to->name) == 0)
        return gt_at_fail(at, "parent", "is the supernode itself");
    GT_TRY(supernode_read_count(at, status, "nodes", &to->nodes));
    GT_TRY(supernode_read_count(at, status, "capacity", &to->capacity));
    GT_TRY(supernode_read_count(at, status, "free", &to->free));
    GT_TRY(supernode_read_count(at, status, "spares", &to->spares));
    GT_TRY(gt_get_number(at, status, "bandwidthGBps", GT_SUPERNODE_GBPS_MAX, &to->gbps));
    GT_TRY(gt_get_bool(at, status, "linksHealthy", &links));
    GT_TRY(supernode_read_members(at, status, to));
    if (gt_get(status, "linksHealthy"))
        to->links_healthy = links ? GT_CONDITION_TRUE : GT_CONDITION_FALSE;
    return 0;
}

int gt_supernode_object_read_status(const char *name, const cJSON *json, struct gt_supernode_object *ret,
                                    struct gt_err **err)
{
    const cJSON *status = gt_get(json, "status");
    struct gt_supernode_object supernode = {.name = name,
                                            .resource_version = "",
                                            .source = "",
                                            .parent = "",
                                            .spare_nodes = -1,
                                            .nodes = -1,
                                            .capacity = -1,
                                            .free = -1,
                                            .spares = -1};
    char source[GT_API_NAME_MAX + 32];
    snprintf(source, sizeof(source), GT_PLURAL_SUPERNODE "/%s", name);
    gt_conditions_read(status, condition_names, GT_SUPERNODE_CONDITIONS, supernode.conditions);
    GT_TRY(gt_get(status, "tier")
               ? supernode_read_status(&(struct gt_at){source, "", err}, status, &supernode)
               : 0);
    *ret = supernode;
    return 0;
}

static int64_t read_spares(const cJSON *annotations)
{
    const cJSON *value =
        annotations ? cJSON_GetObjectItemCaseSensitive(annotations, GT_ANNOTATION_SPARES) : NULL;
    const char *text = cJSON_GetStringValue(value);
    uint64_t number;
    if (!text)
        return -1;
    return gt_text_to_unsigned(text, INT64_MAX, &number) ? (int64_t)number : INT64_MAX;
}

int gt_supernode_object_read(const cJSON *json, struct gt_supernode_object *ret, struct gt_err **err)
{
    const struct gt_at at = {GT_PLURAL_SUPERNODE, "", err};
    const char *name, *version;
    GT_TRY(gt_api_meta(&at, json, &name, &version));
    GT_TRY(gt_supernode_object_read_status(name, json, ret, err));
    ret->resource_version = version;
    ret->reserved = cJSON_GetStringValue(gt_get_at(json, "metadata", "annotations", GT_ANNOTATION_RESERVED));
    ret->spare_nodes = read_spares(gt_get_at(json, "metadata", "annotations"));
    return 0;
}

void gt_supernode_object_done(struct gt_supernode_object *supernode)
{
    free((void *)(uintptr_t)supernode->members);
    supernode->members = NULL;
    supernode->member_count = 0;
}

/* ---- writing ---- */

static void write_count(const char *key, int64_t count, struct gt_buf *to)
{
    if (count >= 0)
        gt_json_add_int(to, key, count);
}

static void write_members(const struct gt_supernode_object *supernode, struct gt_buf *to)
{
    gt_json_begin(to, "members", '[');
    for (unsigned i = 0; i < supernode->member_count && i < GT_SUPERNODE_MEMBERS_MAX; i++) {
        const struct gt_supernode_member *member = &supernode->members[i];
        gt_json_printf(to, "{'node': %s, ?'server': %s", member->node, member->server);
        write_count("gpus", member->gpus, to);
        write_count("free", member->free, to);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

void gt_supernode_object_write_status(const struct gt_supernode_object *supernode, struct gt_buf *to)
{
    gt_json_printf(to, "{'status': {'tier': %u, ?'source': %s, ?'parent': %s", supernode->tier,
                   supernode->source, supernode->parent);
    if (supernode->tier == 1)
        write_members(supernode, to);
    write_count("nodes", supernode->nodes, to);
    write_count("capacity", supernode->capacity, to);
    write_count("free", supernode->free, to);
    write_count("spares", supernode->spares, to);
    gt_json_printf(to, "?'bandwidthGBps': %g", supernode->gbps > 0 ? supernode->gbps : 0);
    if (supernode->links_healthy != GT_CONDITION_UNKNOWN)
        gt_json_add_bool(to, "linksHealthy", supernode->links_healthy == GT_CONDITION_TRUE);
    gt_conditions_write(supernode->conditions, condition_names, GT_SUPERNODE_CONDITIONS, to);
    gt_buf_puts(to, "}}");
}

static const char *const type_names[] = {"HyperNode", "Node"};

struct gt_hyper_node_member *gt_hyper_node_add(struct gt_hyper_node *node)
{
    /* There is room for the next power of two. */
    if (node->count == GT_HYPER_NODE_MEMBERS_MAX)
        return NULL;
    if (!(node->count & (node->count - 1))) {
        size_t capacity = node->count ? 2 * (size_t)node->count : 1;
        struct gt_hyper_node_member *grown = reallocarray(node->members, capacity, sizeof(*grown));
        if (!grown)
            return NULL;
        node->members = grown;
    }
    node->members[node->count] = (struct gt_hyper_node_member){0};
    return &node->members[node->count++];
}

void gt_hyper_node_done(struct gt_hyper_node *node)
{
    free(node->members);
    *node = (struct gt_hyper_node){0};
}

int gt_hyper_node_read(const cJSON *object, struct gt_hyper_node *ret, struct gt_err **err)
{
    gt_auto_hyper_node struct gt_hyper_node node = {0};
    const cJSON *spec = gt_get(object, "spec");
    uint64_t tier = 0;
    gt_json_is_unsigned(gt_get(spec, "tier"), INT_MAX, &tier);
    node.tier = (unsigned)tier;
    for (const cJSON *item = gt_first(gt_get(spec, "members")); item; item = item->next) {
        const cJSON *selector = gt_get(item, "selector"), *exact = gt_get(selector, "exactMatch"),
                    *regex = gt_get(selector, "regexMatch");
        struct gt_hyper_node_member *member = gt_hyper_node_add(&node);
        if (!member)
            return gt_fail(err, ENOMEM, "HyperNode: no room for more than %u members", node.count);
        *member = (struct gt_hyper_node_member){
            .is_node = strcmp(gt_get_string(item, "type"), type_names[false]) != 0,
            .name = exact ? gt_get_string(exact, "name") : NULL,
            .pattern = regex ? gt_get_string(regex, "pattern") : NULL,
            .by_labels = gt_get(selector, "labelMatch")};
    }
    *ret = node;
    node.members = NULL;
    return 0;
}

void gt_hyper_node_write(const struct gt_hyper_node *node, struct gt_buf *to)
{
    gt_json_printf(to,
                   "{'labels': {'volcano.sh/network-topology-source': 'gputopo'},"
                   "'spec': {'tier': %u, 'members': [",
                   node->tier);
    for (unsigned i = 0; i < node->count; i++)
        gt_json_printf(to, "{'type': %s, 'selector': {'exactMatch': {'name': %s}}}",
                       type_names[node->members[i].is_node], node->members[i].name);
    gt_buf_puts(to, "]}}");
}

void gt_node_feature_gpus(const struct gt_node *node, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '[');
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        gt_json_printf(to, "{'attributes': {'index': $%u, ?'product': %s, 'bdf': %s", i, gpu->product,
                       gpu->bdf);
        if (gpu->numa_node >= 0)
            gt_json_printf(to, "'numaNode': $%d", gpu->numa_node);
        gt_json_printf(to, "'zone': $%u, 'health': %s, 'healthy': %s}}", gpu->zone,
                       gt_gpu_health_name(gpu->health), gt_gpu_usable(gpu) ? "true" : "false");
    }
    gt_json_end(to, ']');
}

/* A label for the supernode, and one for each around it: what places pods by one label of nodes can take any.
 */
static void write_labels(const struct gt_node_feature *feature, struct gt_buf *to)
{
    gt_json_begin(to, "labels", '{');
    for (unsigned i = 0; i < feature->supernode_count; i++) {
        char label[sizeof(GT_LABEL_TIER_PREFIX) + 10];
        snprintf(label, sizeof(label), GT_LABEL_TIER_PREFIX "%u", feature->supernodes[i].tier);
        gt_json_add_text(to, i ? label : GT_LABEL_MEMBER_OF, feature->supernodes[i].name);
    }
    gt_json_end(to, '}');
}

static void node_feature_write_attributes(const struct gt_node_feature *feature, struct gt_buf *to)
{
    static const char *const links[] = {
        [GT_CONDITION_TRUE] = "up", [GT_CONDITION_FALSE] = "down", [GT_CONDITION_UNKNOWN] = "unknown"};
    gt_json_printf(to, "'attributes': {'metax.node': {'elements': {'gpus': $%d, 'links': %s}}",
                   feature->gpus < 0 ? 0 : feature->gpus, links[feature->links]);
    if (feature->supernode_count)
        gt_json_printf(
            to, "'metax.supernode': {'elements': {'name': %s, 'tier': $%u, 'source': %s, ?'parent': %s}}",
            feature->supernodes[0].name, feature->supernodes[0].tier, feature->source,
            feature->supernode_count > 1 ? feature->supernodes[1].name : "");
    gt_json_end(to, '}');
}

/* NFD wants all three kinds of features to be there. */
void gt_node_feature_write(const struct gt_node_feature *feature, struct gt_buf *to)
{
    gt_json_printf(to, "{'labels': {'nfd.node.kubernetes.io/node-name': %s}, 'spec': {", feature->node);
    write_labels(feature, to);
    gt_json_printf(to, "'features': {'flags': {},");
    node_feature_write_attributes(feature, to);
    gt_json_printf(to, "'instances': {'metax.gpu': {'elements': =%s}}}}}",
                   feature->gpu_attributes ? feature->gpu_attributes : "[]");
}
