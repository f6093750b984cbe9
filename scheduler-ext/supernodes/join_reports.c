/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/supernodes/join_work.h"

#include "base/digest.h"

static uint32_t root_of(struct gt_join_work *work, uint32_t node)
{
    while (work->root[node] != node) {
        work->root[node] = work->root[work->root[node]];
        node = work->root[node];
    }
    return node;
}

static bool reports(const struct gt_join_node *node, const char *uuid)
{
    for (uint32_t i = 0; i < node->remote_count; i++)
        if (strcmp(node->remotes[i], uuid) == 0)
            return true;
    return false;
}

/* A server UUID means only one node: its holder; where that is not known, none. */
static bool is_the_server(const struct gt_join_work *work, uint32_t node)
{
    if (work->nodes[node].uuid_holder)
        return gt_join_holds_uuid(&work->nodes[node]);
    const char *uuid = work->nodes[node].server_uuid;
    uint32_t at = gt_join_lower_bound(work, work->by_uuid, work->uuid_count, uuid, gt_join_node_uuid);
    return at + 1 >= work->uuid_count || strcmp(work->nodes[work->by_uuid[at + 1]].server_uuid, uuid) != 0;
}

static void find_same_uuids(struct gt_join_work *work)
{
    for (uint32_t i = 0; i < work->uuid_count; i++) {
        uint32_t node = work->by_uuid[i], before = i ? work->by_uuid[i - 1] : GT_JOIN_NONE;
        const struct gt_join_node *a = i ? &work->nodes[before] : NULL, *b = &work->nodes[node];
        if (b->uuid_holder) {
            if (!gt_join_holds_uuid(b))
                gt_join_problem(work, GT_JOIN_TAKEN_UUID,
                                gt_join_about_nodes(node, gt_join_find(work, work->by_name, work->node_count,
                                                                       b->uuid_holder, gt_join_node_name)),
                                "node %s reports server UUID %.64s, which is that of node %s", b->name,
                                b->server_uuid, b->uuid_holder);
        } else if (a && strcmp(a->server_uuid, b->server_uuid) == 0) {
            gt_join_problem(work, GT_JOIN_SAME_UUID, gt_join_about_nodes(before, node),
                            "nodes %s and %s both report server UUID %.64s", a->name, b->name,
                            a->server_uuid);
        }
    }
}

/* Whether the node takes part in joining by report. */
static bool by_report(const struct gt_join_work *work, uint32_t node)
{
    return work->join->supernode_of[node] == GT_JOIN_NONE &&
           gt_join_has_text(work->nodes[node].server_uuid) && is_the_server(work, node);
}

static void join_reports(struct gt_join_work *work)
{
    find_same_uuids(work);
    for (uint32_t i = 0; i < work->node_count; i++)
        work->root[i] = i;
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (!by_report(work, i))
            continue;
        const struct gt_join_node *node = &work->nodes[i];
        for (uint32_t r = 0; r < node->remote_count && r < GT_JOIN_REMOTES_MAX; r++) {
            uint32_t other =
                gt_join_find(work, work->by_uuid, work->uuid_count, node->remotes[r], gt_join_node_uuid);
            /* A server that is no node of this cluster, or is placed by configuration or label, is not
             * joined. */
            if (other == GT_JOIN_NONE || other == i || !by_report(work, other))
                continue;
            if (reports(&work->nodes[other], node->server_uuid)) {
                uint32_t a = root_of(work, i), b = root_of(work, other);
                work->root[a > b ? a : b] = a > b ? b : a;
            } else
                gt_join_problem(work, GT_JOIN_ASYMMETRIC, gt_join_about_nodes(i, other),
                                "%s sees %s over MetaXLink, but %s does not see %s", node->name,
                                work->nodes[other].name, work->nodes[other].name, node->name);
        }
    }
}

struct roots {
    const struct gt_join_node *nodes;
    const char **least; /* [root] */
};

static int compare_least(const void *a, const void *b, void *arg)
{
    const struct roots *roots = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(roots->least[x], roots->least[y]);
    return order ? order : strcmp(roots->nodes[x].server_uuid, roots->nodes[y].server_uuid);
}

/* A name that is stable as long as the least UUID is. Groups or labels are unlikely to have such a name; if
 * one has, this name is changed. */
static void join_reports_make_name(const struct gt_join *join, uint32_t others, const char *uuid,
                                   char to[static GT_JOIN_NAME_SIZE])
{
    unsigned long long digest = gt_digest_bytes(GT_DIGEST_EMPTY, uuid, strlen(uuid));
    snprintf(to, GT_JOIN_NAME_SIZE, "mx-%016llx", digest);
    for (uint32_t i = 0; i < others; i++)
        if (to[0] == join->supernodes[i].name[0] && strcmp(to, join->supernodes[i].name) == 0) {
            snprintf(to, GT_JOIN_NAME_SIZE, "mx-%016llx-report", digest);
            return;
        }
}

/*
 * Makes the supernodes of the joined nodes. Each is named after the least server UUID of its members and of
 * all servers that they see, so that the name stays the same while a member is down. Two supernodes with the
 * same least UUID are parts of one. `size` and `order` have one entry for each node.
 */
static void make_supernodes(struct gt_join_work *work, uint32_t *size, uint32_t *order, const char **least)
{
    struct gt_join *join = work->join;
    uint32_t roots = 0, others = join->supernode_count;
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (!by_report(work, i))
            continue;
        uint32_t root = root_of(work, i);
        const struct gt_join_node *node = &work->nodes[i];
        if (!size[root]++)
            least[root] = node->server_uuid;
        if (strcmp(node->server_uuid, least[root]) < 0)
            least[root] = node->server_uuid;
        for (uint32_t r = 0; r < node->remote_count && r < GT_JOIN_REMOTES_MAX; r++)
            if (strcmp(node->remotes[r], least[root]) < 0)
                least[root] = node->remotes[r];
    }
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (size[i] > 1)
            order[roots++] = i;
        else if (size[i] == 0 && work->root[i] == i)
            work->root[i] = GT_JOIN_NONE; /* not joined */
    }
    struct roots arg = {work->nodes, least};
    qsort_r(order, roots, sizeof(*order), compare_least, &arg);
    for (uint32_t i = 0; i < roots; i++) {
        uint32_t root = order[i];
        bool part = i && strcmp(least[root], least[order[i - 1]]) == 0;
        char name[GT_JOIN_NAME_SIZE];
        join_reports_make_name(join, others, part ? work->nodes[root].server_uuid : least[root], name);
        size[root] = gt_join_add(work, name, 1, GT_JOIN_REPORT); /* its number from here on */
        if (part)
            gt_join_problem(
                work, GT_JOIN_SPLIT, (struct gt_join_about){size[root], root, order[i - 1], false},
                "the servers of node %s and of node %s both see server %.64s, but not one another",
                work->nodes[root].name, work->nodes[order[i - 1]].name, least[root]);
    }
    for (uint32_t i = 0; i < roots; i++)
        join->supernode_of[order[i]] = size[order[i]];
    for (uint32_t i = 0; i < work->node_count; i++)
        if (work->root[i] != GT_JOIN_NONE && root_of(work, i) != i)
            join->supernode_of[i] = size[root_of(work, i)];
}

void gt_join_by_report(struct gt_join_work *work, uint32_t *size, uint32_t *order, const char **least)
{
    join_reports(work);
    make_supernodes(work, size, order, least);
}
