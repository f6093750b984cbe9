/* SPDX-License-Identifier: Apache-2.0 */
#include "api/node_feature.h"

#include <stdio.h>

#include "api/names.h"
#include "base/json_write.h"

static void node_feature_add_number(struct gt_buf *to, const char *key, unsigned number)
{
    char text[16];
    snprintf(text, sizeof(text), "%u", number);
    gt_json_add_text(to, key, text);
}

void gt_node_feature_gpus(const struct gt_node *node, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '[');
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        gt_json_begin(to, NULL, '{');
        gt_json_begin(to, "attributes", '{');
        node_feature_add_number(to, "index", i);
        gt_json_add_text_if(to, "product", gpu->product);
        gt_json_add_text(to, "bdf", gpu->bdf);
        if (gpu->numa_node >= 0)
            node_feature_add_number(to, "numaNode", (unsigned)gpu->numa_node);
        node_feature_add_number(to, "zone", gpu->zone);
        gt_json_add_text(to, "health", gt_gpu_health_name(gpu->health));
        gt_json_add_text(to, "healthy", gt_gpu_usable(gpu) ? "true" : "false");
        gt_buf_puts(to, "}}");
    }
    gt_json_end(to, ']');
}

static void begin_elements(struct gt_buf *to, const char *feature)
{
    gt_json_begin(to, feature, '{');
    gt_json_begin(to, "elements", '{');
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
    gt_json_begin(to, "attributes", '{');
    begin_elements(to, "metax.node");
    node_feature_add_number(to, "gpus", feature->gpus < 0 ? 0 : (unsigned)feature->gpus);
    gt_json_add_text(to, "links", links[feature->links]);
    gt_buf_puts(to, "}}");
    if (feature->supernode_count) {
        begin_elements(to, "metax.supernode");
        gt_json_add_text(to, "name", feature->supernodes[0].name);
        node_feature_add_number(to, "tier", feature->supernodes[0].tier);
        gt_json_add_text(to, "source", feature->source);
        if (feature->supernode_count > 1)
            gt_json_add_text(to, "parent", feature->supernodes[1].name);
        gt_buf_puts(to, "}}");
    }
    gt_json_end(to, '}');
}

/* NFD wants all three kinds of features to be there. */
void gt_node_feature_write(const struct gt_node_feature *feature, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "labels", '{');
    gt_json_add_text(to, "nfd.node.kubernetes.io/node-name", feature->node);
    gt_json_end(to, '}');
    gt_json_begin(to, "spec", '{');
    write_labels(feature, to);
    gt_json_begin(to, "features", '{');
    gt_json_add_raw(to, "flags", "{}");
    node_feature_write_attributes(feature, to);
    gt_json_begin(to, "instances", '{');
    gt_json_begin(to, "metax.gpu", '{');
    gt_json_add_raw(to, "elements", feature->gpu_attributes ? feature->gpu_attributes : "[]");
    gt_buf_puts(to, "}}}}}");
}
