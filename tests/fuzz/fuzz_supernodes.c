/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "scheduler-ext/companion/view.h"
#include "tests/fuzz/fuzz.h"

/*
 * Pieces between NUL bytes: the first is the operator's configuration, the others begin with their type (n: a
 * Node, t: a NodeGPUTopology, s: a Supernode, h: a HyperNode of ours, H: of somebody else's). Whatever they
 * hold, every wish that comes of it is JSON.
 */
struct pieces {
    char *text;
    size_t left;
};

static char *next_piece(struct pieces *pieces)
{
    if (!pieces->left)
        return NULL;
    char *piece = pieces->text;
    size_t len = strnlen(piece, pieces->left);
    size_t step = len < pieces->left ? len + 1 : len;
    pieces->text += step;
    pieces->left -= step;
    return piece;
}

static void hand_in(struct gt_cache *cache, struct gt_servers *servers, struct gt_member_parents *users,
                    const char *piece)
{
    cJSON *object = cJSON_Parse(piece + 1);
    if (object && *piece == 'n')
        gt_cache_node(cache, object);
    else if (object && *piece == 't')
        gt_cache_topology(cache, object, 1);
    else if (object && *piece == 's')
        gt_servers_learn(servers, "x", GT_APPLY_SET_OURS, piece + 1);
    else if (object && (*piece == 'h' || *piece == 'H')) {
        char name[3] = {*piece, piece[1] ? 'x' : 'y', 0};
        gt_member_parents_add(users, name, *piece == 'h' ? GT_APPLY_SET_OURS : GT_APPLY_SET_FOREIGN,
                              piece + 1);
    }
    cJSON_Delete(object);
}

static void expect_json(const struct gt_buf *wish)
{
    cJSON *object = cJSON_ParseWithOpts(wish->data, NULL, true);
    if (!object)
        abort();
    cJSON_Delete(object);
}

static void write_all(const struct gt_view *view, const struct gt_member_parents *users)
{
    gt_auto_free bool *made = calloc((size_t)view->join->supernode_count + 1, sizeof(*made));
    for (uint32_t s = 0; made && s < view->join->supernode_count; s++) {
        struct gt_projected projected = {0};
        gt_auto_buf struct gt_buf hyper = GT_BUF(GT_APPLY_SET_BODY_MAX),
                                  status = GT_BUF(GT_APPLY_SET_BODY_MAX);
        if (gt_hypernode_write(view, s, users, made, &projected, &hyper))
            expect_json(&hyper);
        gt_view_write_supernode(view, s, &projected, &status);
        expect_json(&status);
    }
    for (uint32_t i = 0; i < view->node_count; i++) {
        gt_auto_buf struct gt_buf feature = GT_BUF(GT_APPLY_SET_BODY_MAX);
        gt_view_write_nodefeature(view, i, &feature);
        expect_json(&feature);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gt_cache_spec spec = {.reports = true,
                                       .gpu_attributes = true,
                                       .reports_only = true,
                                       .supernode_labels = "l",
                                       .network_labels = "l,m"};
    gt_auto_cache struct gt_cache *cache = NULL;
    gt_auto_groups struct gt_groups *groups = NULL;
    gt_auto_member_parents struct gt_member_parents *users = NULL;
    gt_auto_view struct gt_view *view = NULL;
    gt_auto_free char *copy = malloc(size + 1);
    gt_auto_servers struct gt_servers *servers = NULL;
    if (!copy || gt_cache_new(&spec, &cache, NULL) < 0 || gt_servers_new(&servers, NULL) < 0 ||
        gt_member_parents_new(&users, NULL) < 0)
        return 0;
    memcpy(copy, data, size);
    copy[size] = '\0';
    struct pieces pieces = {copy, size};
    char *piece = next_piece(&pieces);
    if (piece && gt_groups_read(piece, strlen(piece), &groups, NULL) < 0)
        groups = NULL;
    while ((piece = next_piece(&pieces)))
        hand_in(cache, servers, users, piece);
    gt_member_parents_end(users);
    struct gt_view_network kept = {0};
    const struct gt_view_spec wanted = {
        .groups = groups, .servers = servers, .network_labels = "l,m", .kept = &kept, .spare_nodes = 1};
    if (gt_view_make(cache, &wanted, &view, NULL) >= 0)
        write_all(view, users);
    gt_view_network_forget(&kept);
    return 0;
}
