/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_feature.h"

#include <stdio.h>

#include "api/names.h"
#include "base/json_write.h"

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
