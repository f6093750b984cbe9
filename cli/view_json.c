/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/json_write.h"
#include "cli/view.h"

/* A view as a cluster file: docs/reference/cluster-file.md. */

/* Appends a JSON text of several lines, indented. */
static void add_indented(struct gt_buf *to, const char *text, unsigned indent)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        if (line != text)
            gt_buf_printf(to, "\n%*s", (int)indent, "");
        gt_buf_add(to, line, len);
        line += len + (line[len] == '\n');
    }
}

static void view_json_add_node(const struct cli_view *view, const struct gt_picture_node *node,
                               const char *like, struct gt_buf *to)
{
    const struct cli_view_node *more = &view->nodes[node->source];
    gt_json_new_line(to, 4);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", node->name);
    if (more->supernode != GT_NONE)
        gt_json_add_text(to, "supernode", view->picture.supernodes[more->supernode].name);
    gt_json_add_mask(to, "free", node->free); /* not known counts as not free: a plan must not rely on it */
    if (more->topology) {
        gt_json_key(to, "topology");
        add_indented(to, more->topology, 6);
    } else if (more->wiring == GT_NONE) {
        gt_json_add_unsigned(to, "gpus", node->gpus);
    } else {
        if (node->unhealthy)
            gt_json_add_mask(to, "unhealthy", node->unhealthy);
        if (more->slow)
            gt_json_add_mask(to, "slow", more->slow);
        gt_json_add_text(to, "like", like);
    }
    gt_json_end(to, '}');
}

static void view_json_add_nodes(const struct cli_view *view, struct gt_buf *to)
{
    gt_auto_free const char **like = calloc((size_t)view->wiring_count + 1, sizeof(*like));
    if (!like) {
        to->failed = true;
        return;
    }
    for (unsigned round = 0; round < 2; round++) /* first the nodes that others refer to */
        for (uint32_t i = 0; i < view->picture.node_count; i++) {
            const struct gt_picture_node *node = &view->picture.nodes[i];
            const struct cli_view_node *more = &view->nodes[node->source];
            if (!node->known || !more->topology != (round == 1))
                continue;
            bool wired = more->wiring != GT_NONE;
            view_json_add_node(view, node, wired ? like[more->wiring] : NULL, to);
            if (wired && !like[more->wiring])
                like[more->wiring] = node->name;
        }
}

static void begin_list(struct gt_buf *to, const char *key)
{
    gt_json_new_line(to, 2);
    gt_json_begin(to, key, '[');
}

/* As far as Supernodes tell; the last one of a tier counts. */
static void view_json_add_tiers(const struct cli_view *view, struct gt_buf *to)
{
    double gbps[GT_SUPERNODE_TIERS_MAX + 1] = {0};
    bool any = false;
    for (uint32_t i = 0; i < view->picture.supernode_count; i++) {
        const struct gt_supernode_object *object =
            &view->supernodes[view->picture.supernodes[i].source].object;
        gbps[object->tier] = object->gbps > 0 ? object->gbps : gbps[object->tier];
    }
    for (unsigned tier = 1; tier <= GT_SUPERNODE_TIERS_MAX; tier++) {
        if (!(gbps[tier] > 0))
            continue;
        if (!any)
            begin_list(to, "tiers");
        any = true;
        gt_json_printf(to, "{'tier': %u, 'bandwidthGBps': %g}", tier, gbps[tier]);
    }
    if (any)
        gt_json_end(to, ']');
}

void cli_view_json(const struct cli_view *view, struct gt_buf *to)
{
    const struct gt_picture *picture = &view->picture;
    gt_json_begin(to, NULL, '{');
    begin_list(to, "supernodes");
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        const struct gt_picture_supernode *supernode = &picture->supernodes[i];
        gt_json_new_line(to, 4);
        gt_json_printf(to, "{'name': %s, 'tier': %u, ?'parent': %s}", supernode->name, supernode->tier,
                       supernode->parent != GT_NONE ? picture->supernodes[supernode->parent].name : "");
    }
    gt_json_end(to, ']');
    view_json_add_tiers(view, to);
    begin_list(to, "nodes");
    view_json_add_nodes(view, to);
    gt_json_end(to, ']');
    begin_list(to, "pods");
    for (uint32_t i = 0; i < picture->pod_count; i++) {
        const struct gt_picture_pod *pod = &picture->pods[i];
        char name[2 * GT_CLUSTER_NAME_MAX + 8];
        gt_json_new_line(to, 4);
        snprintf(name, sizeof(name), "%s/%s", pod->namespace_, pod->name);
        gt_json_printf(to, "{'name': %s, 'node': %s", name, picture->nodes[pod->place.node].name);
        gt_json_add_mask(to, "gpus", pod->place.mask);
        gt_json_printf(to, "'movable': true}");
    }
    gt_buf_puts(to, "]\n}\n");
}

static void add_count(struct gt_buf *to, const char *key, int64_t count)
{
    if (count >= 0)
        gt_json_add_unsigned(to, key, (uint64_t)count);
}

void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to)
{
    const struct gt_picture_supernode *shown = view->picture.supernodes;
    gt_json_begin(to, NULL, '{');
    begin_list(to, "supernodes");
    for (uint32_t i = 0; i < view->picture.supernode_count; i++) {
        const struct gt_supernode_object *supernode = &view->supernodes[shown[i].source].object;
        gt_json_new_line(to, 4);
        gt_json_printf(to, "{'name': %s, 'tier': %u, 'parent': ~%s, 'source': %s", supernode->name,
                       supernode->tier, shown[i].parent != GT_NONE ? shown[shown[i].parent].name : "",
                       supernode->source);
        add_count(to, "nodes", supernode->nodes);
        add_count(to, "gpus", supernode->capacity);
        add_count(to, "free", supernode->free);
        if (supernode->links_healthy != GT_CONDITION_UNKNOWN)
            gt_json_add_bool(to, "linksHealthy", supernode->links_healthy == GT_CONDITION_TRUE);
        gt_json_printf(to, "'conflict': ~%s, 'members': [", shown[i].note);
        for (unsigned m = 0; m < supernode->member_count; m++)
            gt_json_add_text(to, NULL, supernode->members[m].node);
        gt_json_ends(to, "]}");
    }
    gt_buf_puts(to, "]\n}\n");
}
