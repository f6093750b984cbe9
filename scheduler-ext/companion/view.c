/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/view.h"

#include <string.h>

#include "base/digest.h"
#include "base/text.h"

void gt_view_free(struct gt_view *view)
{
    if (!view)
        return;
    gt_join_free(view->join);
    free(view->reports);
    free(view->sums);
    free(view->problem_first);
    free(view->problems);
    free(view);
}

void gt_view_network_forget(struct gt_view_network *kept)
{
    gt_network_places_free(kept->places);
    gt_network_free(kept->network);
    *kept = (struct gt_view_network){0};
}

/* The labels as a table, which is read as the operator's is. */
static int companion_view_labels(const struct gt_view *view, const char *keys, struct gt_network *network,
                                 struct gt_err **err)
{
    gt_auto_buf struct gt_buf table = GT_BUF(GT_NETWORK_TEXT_MAX);
    char key[GT_CACHE_LABEL_KEY_SIZE];
    gt_buf_puts(&table, "node");
    for (const char *at = keys; at;) {
        gt_text_next_listed(&at, key, sizeof(key));
        const char *slash = strrchr(key, '/');
        gt_buf_printf(&table, ",%s", slash ? slash + 1 : key);
    }
    gt_buf_puts(&table, "\n");
    for (uint32_t i = 0; i < view->node_count; i++)
        if (view->reports[i]->tiers &&
            gt_network_find(network, false, 0, view->reports[i]->name) == GT_NETWORK_NONE)
            gt_buf_printf(&table, "%s,%s\n", view->reports[i]->name, view->reports[i]->tiers);
    GT_TRY(gt_buf_check(&table, "labels of the network", err));
    return gt_network_read(network, table.data, table.len, err);
}

/* The next line of a text of gt_cache_report.ports; *at moves behind it. */
static void companion_view_line(const char **at, char to[static GT_NETWORK_NAME_MAX])
{
    size_t len = strcspn(*at, "\n");
    snprintf(to, GT_NETWORK_NAME_MAX, "%.*s", (int)len, *at);
    *at += len + ((*at)[len] == '\n');
}

/* What a node's agent has observed of its switches. One that the operator has named as a leaf is that leaf.
 */
static int companion_view_ports(const struct gt_cache_report *report, struct gt_network *network,
                                struct gt_err **err)
{
    char port[GT_NETWORK_NAME_MAX], name[GT_NETWORK_NAME_MAX], their_port[GT_NETWORK_NAME_MAX];
    uint32_t node;
    if (!report->ports || gt_network_find(network, false, 0, report->name) != GT_NETWORK_NONE)
        return 0;
    GT_TRY(gt_network_node(network, report->name, &node, err));
    for (const char *at = report->ports; *at;) {
        companion_view_line(&at, port);
        companion_view_line(&at, name);
        companion_view_line(&at, their_port);
        uint32_t high = gt_network_find(network, true, GT_NETWORK_LEAF_TIER, name);
        if (high == GT_NETWORK_NONE)
            GT_TRY(gt_network_switch(network, 0, name, name, &high, err));
        GT_TRY(gt_network_connect(network, node, port, high, their_port, err));
    }
    return 0;
}

static int companion_view_add(const struct gt_view *view, const struct gt_view_spec *spec,
                              struct gt_network *network, struct gt_err **err)
{
    if (spec->network_labels)
        GT_TRY(companion_view_labels(view, spec->network_labels, network, err));
    for (uint32_t i = 0; i < view->node_count; i++)
        GT_TRY(companion_view_ports(view->reports[i], network, err));
    return 0;
}

/* What the operator says of a node's place counts, then its labels, then what its agent has observed. What is
 * beyond the limits is left out, and noted. */
static int companion_view_network(const struct gt_view *view, const struct gt_view_spec *spec,
                                  struct gt_network **ret, struct gt_err **err)
{
    gt_auto_network struct gt_network *network = NULL;
    gt_auto_err struct gt_err *why = NULL;
    bool says_more = false;
    for (uint32_t i = 0; i < view->node_count; i++)
        says_more |= view->reports[i]->tiers || view->reports[i]->ports;
    if (!says_more)
        return 0;
    GT_TRY(gt_network_new(&network, err));
    if (spec->network)
        GT_TRY(gt_network_add(network, spec->network, err));
    int r = companion_view_add(view, spec, network, &why);
    if (r < 0 && r != -E2BIG && r != -ENOBUFS)
        return gt_fail(err, -r, "%s", gt_err_text(why));
    if (r < 0)
        gt_network_note(network, "not all labels and reports of nodes count: %s", gt_err_text(why));
    *ret = gt_steal(network);
    return 0;
}

/* Of all that nodes' places are made from, but the operator's network. */
static uint64_t companion_view_digest(const struct gt_view *view)
{
    uint64_t digest = gt_digest_keyed("network");
    for (uint32_t i = 0; i < view->node_count; i++) {
        digest = gt_digest_mix_text(digest, view->reports[i]->name);
        digest = gt_digest_mix_text(digest, view->reports[i]->tiers);
        digest = gt_digest_mix_text(digest, view->reports[i]->ports);
    }
    return digest ? digest : 1;
}

static int companion_view_place(const struct gt_view *view, const struct gt_view_spec *spec,
                                struct gt_err **err)
{
    struct gt_view_network *kept = spec->kept;
    uint64_t digest = kept ? companion_view_digest(view) : 0;
    if (!kept || kept->digest == digest)
        return 0;
    gt_view_network_forget(kept);
    GT_TRY(companion_view_network(view, spec, &kept->network, err));
    const struct gt_network *network = kept->network ? kept->network : spec->network;
    gt_auto_free const char **names = calloc((size_t)view->node_count + 1, sizeof(*names));
    if (!names)
        return gt_fail_sys(err, ENOMEM, "supernodes");
    for (uint32_t i = 0; i < view->node_count; i++)
        names[i] = view->reports[i]->name;
    if (network)
        GT_TRY(gt_network_place(network, names, view->node_count, &kept->places, err));
    kept->digest = digest;
    return 0;
}

static int companion_view_join(struct gt_view *view, const struct gt_view_spec *spec, struct gt_err **err)
{
    gt_auto_free struct gt_join_node *nodes = calloc((size_t)view->node_count + 1, sizeof(*nodes));
    const struct gt_groups *groups = spec->groups;
    GT_NEED(nodes, err, "supernodes");
    if (spec->servers)
        GT_TRY(gt_servers_settle(spec->servers, view->reports, view->node_count, err));
    GT_TRY(companion_view_place(view, spec, err));
    for (uint32_t i = 0; i < view->node_count; i++) {
        const struct gt_cache_report *report = view->reports[i];
        nodes[i] = (struct gt_join_node){.name = report->name,
                                         .server_uuid = report->server_uuid,
                                         .remotes = report->remotes,
                                         .remote_count = report->remote_count,
                                         .label = report->label,
                                         .uuid_node = gt_servers_node(spec->servers, report->server_uuid)};
    }
    const struct gt_join_input input = {.nodes = nodes,
                                        .node_count = view->node_count,
                                        .groups = groups ? groups->items : NULL,
                                        .group_count = groups ? groups->count : 0,
                                        .places = spec->kept ? spec->kept->places : NULL};
    return gt_join_supernodes(&input, &view->join, err);
}

static void companion_view_add_node(struct gt_sum *sum, const struct gt_cache_report *report, uint32_t node)
{
    sum->nodes++;
    if (report->gpus < 0) {
        sum->silent++;
        sum->links_unknown++;
        if (sum->a_silent == GT_JOIN_NONE)
            sum->a_silent = node;
        return;
    }
    sum->usable += report->usable;
    if (report->free >= 0)
        sum->free += (uint32_t)report->free;
    else
        sum->use_unknown++;
    sum->links_down += report->links == GT_CONDITION_FALSE;
    sum->links_unknown += report->links == GT_CONDITION_UNKNOWN;
}

static void add_sum(struct gt_sum *to, const struct gt_sum *from)
{
    to->nodes += from->nodes;
    to->usable += from->usable;
    to->free += from->free;
    to->silent += from->silent;
    to->use_unknown += from->use_unknown;
    to->links_down += from->links_down;
    to->links_unknown += from->links_unknown;
    to->children++;
    if (to->a_silent == GT_JOIN_NONE)
        to->a_silent = from->a_silent;
}

static void sum_up(struct gt_view *view, const struct gt_cache *cache, uint32_t spare_nodes)
{
    const struct gt_join *joined = view->join;
    for (uint32_t s = 0; s < joined->supernode_count; s++) {
        const struct gt_supernode *supernode = &joined->supernodes[s];
        view->sums[s].a_silent = GT_JOIN_NONE;
        for (uint32_t i = 0; i < supernode->count; i++) {
            uint32_t node = joined->members[supernode->first + i];
            companion_view_add_node(&view->sums[s], view->reports[node], node);
        }
        uint64_t spares = supernode->tier == 1 ? gt_cache_spares_of(cache, supernode->name, spare_nodes) : 0;
        view->sums[s].spares = spares <= view->sums[s].nodes ? (uint32_t)spares : 0;
    }
    /* A parent is of a higher tier than its child. */
    for (unsigned tier = 1; tier < GT_JOIN_TIERS_MAX; tier++)
        for (uint32_t s = 0; s < joined->supernode_count; s++) {
            const struct gt_supernode *supernode = &joined->supernodes[s];
            if (supernode->tier == tier && supernode->parent != GT_JOIN_NONE)
                add_sum(&view->sums[supernode->parent], &view->sums[s]);
        }
}

/* The supernodes that a problem concerns, each once. */
static unsigned concerned(const struct gt_join *joined, const struct gt_join_problem *problem,
                          uint32_t to[static 3])
{
    uint32_t all[3] = {problem->supernode,
                       problem->node == GT_JOIN_NONE ? GT_JOIN_NONE : joined->supernode_of[problem->node],
                       problem->other == GT_JOIN_NONE ? GT_JOIN_NONE : joined->supernode_of[problem->other]};
    unsigned count = 0;
    for (unsigned i = 0; i < GT_COUNT(all); i++) {
        bool known = all[i] == GT_JOIN_NONE;
        for (unsigned k = 0; k < count; k++)
            known |= to[k] == all[i];
        if (!known)
            to[count++] = all[i];
    }
    return count;
}

static void sort_problems(struct gt_view *view)
{
    const struct gt_join *joined = view->join;
    uint32_t supernodes[3];
    for (uint32_t p = 0; p < joined->problem_count; p++)
        for (unsigned k = concerned(joined, &joined->problems[p], supernodes); k--;)
            view->problem_first[supernodes[k] + 1]++;
    for (uint32_t s = 0; s < joined->supernode_count; s++)
        view->problem_first[s + 1] += view->problem_first[s];
    /* Filled from the end: problem_first[s + 1] is decremented down to the start of s. */
    for (uint32_t p = joined->problem_count; p--;)
        for (unsigned k = concerned(joined, &joined->problems[p], supernodes); k--;)
            view->problems[--view->problem_first[supernodes[k] + 1]] = p;
    uint32_t total = 0;
    for (uint32_t p = 0; p < joined->problem_count; p++)
        total += concerned(joined, &joined->problems[p], supernodes);
    memmove(view->problem_first, view->problem_first + 1, joined->supernode_count * sizeof(uint32_t));
    view->problem_first[joined->supernode_count] = total;
}

int gt_view_make(const struct gt_cache *cache, const struct gt_view_spec *spec, struct gt_view **ret,
                 struct gt_err **err)
{
    gt_auto_view struct gt_view *view = calloc(1, sizeof(*view));
    GT_NEED(view, err, "supernodes");
    view->groups = spec->groups;
    view->reports = gt_cache_reports(cache, &view->node_count);
    GT_NEED(view->reports, err, "supernodes");
    GT_TRY(companion_view_join(view, spec, err));
    view->sums = calloc((size_t)view->join->supernode_count + 1, sizeof(*view->sums));
    view->problem_first = calloc((size_t)view->join->supernode_count + 2, sizeof(uint32_t));
    view->problems = calloc((size_t)view->join->problem_count * 3 + 1, sizeof(uint32_t));
    GT_NEED(view->sums && view->problem_first && view->problems, err, "supernodes");
    sum_up(view, cache, spec->spare_nodes);
    sort_problems(view);
    *ret = gt_steal(view);
    return 0;
}
