/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "base/json_write.h"
#include "scheduler-ext/picture/picture.h"

/* A picture as JSON, for the cluster page. */

/* The flags of a node: the JSON member of each, and the word for the state that is a problem. */
static const struct {
    unsigned flag;
    const char *key, *word;
    bool missing; /* the word is for a node without the flag */
} flags[] = {
    {GT_PICTURE_ELIGIBLE, "eligible", NULL, false},
    {GT_PICTURE_STALE, "stale", "stale", false},
    {GT_PICTURE_OUTLIVED, "outlived", "report of an earlier Node", false},
    {GT_PICTURE_READY, "ready", "not Ready", true},
    {GT_PICTURE_CORDONED, "cordoned", "cordoned", false},
    {GT_PICTURE_LINKS_DOWN, "linksDown", "link down", false},
    {GT_PICTURE_LEFT_ALONE, "leftAlone", "shared GPUs", false},
    {GT_PICTURE_RESERVED, "reserved", "reserved", false},
    {GT_PICTURE_SPARE, "spare", "spare", false},
};

void gt_picture_add_flags(struct gt_buf *note, const struct gt_picture_node *node)
{
    for (unsigned i = 0; i < GT_COUNT(flags); i++)
        if (flags[i].word && !(node->flags & flags[i].flag) == flags[i].missing)
            gt_picture_add_note(note, "%s", flags[i].word);
    if (node->unknown)
        gt_picture_add_note(note, "health unknown");
}

void gt_picture_add_id(struct gt_buf *to, const char *key, uint32_t id)
{
    if (id == GT_NONE)
        gt_json_add_null(to, key);
    else
        gt_json_add_unsigned(to, key, id);
}

static void picture_json_add_pod(struct gt_buf *to, const struct gt_picture_pod *pod)
{
    char name[2 * GT_CLUSTER_NAME_MAX + 8];
    snprintf(name, sizeof(name), "%s/%s", pod->namespace_, pod->name);
    gt_json_add_text(to, "job", pod->job);
    gt_json_add_text(to, "pod", name);
    gt_picture_add_id(to, "unit", pod->unit);
    gt_picture_add_id(to, "rank", pod->rank);
}

/* The state in JSON; health has its own member. */
static enum gt_picture_state plain(enum gt_picture_state state)
{
    return state == GT_PICTURE_NOT_KNOWN            ? GT_PICTURE_FREE
           : state == GT_PICTURE_USED_BY_OTHERS     ? GT_PICTURE_USED
           : state == GT_PICTURE_UNHEALTHY_AND_USED ? GT_PICTURE_UNHEALTHY
                                                    : state;
}

/* GPUs in the same state for the same pod are one entry. */
static void picture_json_add_gpus(const struct gt_picture_node *node, struct gt_buf *to)
{
    enum gt_picture_state states[GT_GPUS_MAX];
    const struct gt_picture_pod *pods[GT_GPUS_MAX];
    uint64_t reported = 0;
    for (unsigned i = 0; i < node->gpus; i++)
        states[i] = plain(gt_picture_gpu(node, i, &pods[i]));
    gt_json_begin(to, "gpus", '[');
    for (unsigned i = 0; i < node->gpus; i++) {
        uint64_t mask = 0;
        if (reported >> i & 1)
            continue;
        for (unsigned j = i; j < node->gpus; j++)
            if (states[j] == states[i] && pods[j] == pods[i])
                mask |= UINT64_C(1) << j;
        reported |= mask;
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "state", gt_picture_styles[states[i]].name);
        gt_json_add_mask(to, "gpus", mask);
        if (pods[i])
            picture_json_add_pod(to, pods[i]);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

void gt_picture_node_json(const struct gt_picture_node *node, const char *supernode, const char *observed,
                          struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", node->name);
    gt_json_add_text_or_null(to, "supernode", supernode);
    gt_json_add_text_or_null(to, "product", node->product);
    for (unsigned i = 0; i < GT_COUNT(flags); i++)
        gt_json_add_bool(to, flags[i].key, node->flags & flags[i].flag);
    gt_json_add_text_or_null(to, "observedAt", observed);
    gt_json_add_text_if(to, "note", node->note);
    if (node->unknown)
        gt_json_add_mask(to, "healthUnknown", node->unknown);
    picture_json_add_gpus(node, to);
    gt_json_end(to, '}');
}

void gt_picture_supernode_json(const struct gt_picture_supernode *supernode, const char *parent,
                               const char *const nodes[], struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", supernode->name);
    gt_json_add_unsigned(to, "tier", supernode->tier);
    gt_json_add_text_or_null(to, "parent", parent);
    gt_json_add_unsigned(to, "nodesInAll", supernode->counts.nodes);
    gt_json_add_unsigned(to, "available", supernode->counts.free);
    gt_json_begin(to, "nodes", '[');
    for (uint32_t i = 0; i < supernode->node_count; i++)
        gt_json_add_text(to, NULL, nodes[i]);
    gt_json_ends(to, "]}");
}
