/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/supernodes/join.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "scheduler-ext/supernodes/join_internal.h"

static struct join_about join_about_group(uint32_t supernode)
{
    return (struct join_about){supernode, GT_JOIN_NONE, GT_JOIN_NONE, true};
}

static struct join_about join_about_nodes(uint32_t node, uint32_t other)
{
    return (struct join_about){GT_JOIN_NONE, node, other, false};
}

static bool join_has_text(const char *text)
{
    return text && text[0];
}

static bool join_has_uuid(const struct gt_join_node *node)
{
    return node->uuid_node && strcmp(node->uuid_node, node->name) == 0;
}

static int join_compare_keys(const void *a, const void *b)
{
    const struct join_key *x = a, *y = b;
    int order = strcmp(x->text, y->text);
    if (order)
        return order;
    GT_BY(x->is_late, y->is_late);
    GT_BY(x->item, y->item);
    return 0;
}

/* The first position whose text is not less than `text`. */
static uint32_t join_lower_bound(const struct join_index *index, const char *text)
{
    return (uint32_t)GT_LOWER_BOUND(i, index->count, strcmp(index->keys[i].text, text) < 0);
}

/* The first item with that text; GT_JOIN_NONE: none. */
static uint32_t join_find(const struct join_index *index, const char *text)
{
    uint32_t at = join_lower_bound(index, text);
    return at < index->count && strcmp(index->keys[at].text, text) == 0 ? index->keys[at].item : GT_JOIN_NONE;
}

static void join_add_key(struct join_index *index, const char *text, bool is_late, uint32_t item)
{
    index->keys[index->count++] = (struct join_key){text, is_late, item};
}

static void join_sort(struct join_index *index)
{
    qsort(index->keys, index->count, sizeof(*index->keys), join_compare_keys);
}

static void join_make_indexes(struct join_work *work)
{
    for (uint32_t i = 0; i < work->node_count; i++) {
        const struct gt_join_node *node = &work->nodes[i];
        join_add_key(&work->by_name, node->name, false, i);
        if (join_has_text(node->server_uuid))
            join_add_key(&work->by_uuid, node->server_uuid, !join_has_uuid(node), i);
    }
    for (uint32_t i = 0; i < work->group_count; i++)
        join_add_key(&work->groups_by_name, work->groups[i].name, false, i);
    join_sort(&work->by_name);
    join_sort(&work->by_uuid);
    join_sort(&work->groups_by_name);
}

/* Whether it is a DNS label, as required for names that are also used in labels. */
static bool join_config_is_name(const char *name)
{
    size_t len = strnlen(name, GT_JOIN_NAME_SIZE);
    if (len == 0 || len == GT_JOIN_NAME_SIZE || name[0] == '-' || name[len - 1] == '-')
        return false;
    for (size_t i = 0; i < len; i++)
        if (!((name[i] >= 'a' && name[i] <= 'z') || (name[i] >= '0' && name[i] <= '9') || name[i] == '-'))
            return false;
    return true;
}

static void add_groups(struct join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        work->group_super[i] = GT_JOIN_NONE;
        if (!join_config_is_name(group->name))
            gt_join_tell(work, GT_JOIN_BAD_NAME, join_about_group(GT_JOIN_NONE),
                         "group \"%.64s\": the name of a group is 1 to 63 of a-z, 0-9 and -", group->name);
        else if (group->tier < 1 || group->tier > GT_JOIN_TIERS_MAX)
            gt_join_tell(work, GT_JOIN_BAD_TIER, join_about_group(GT_JOIN_NONE),
                         "group %s: tier %u, expected 1 to %d", group->name, group->tier, GT_JOIN_TIERS_MAX);
        else if (join_find(&work->groups_by_name, group->name) != i)
            gt_join_tell(work, GT_JOIN_GROUP_TWICE, join_about_group(GT_JOIN_NONE),
                         "group %s: there are two groups of that name, the first one counts", group->name);
        else
            work->group_super[i] = gt_join_make(work, group->name, group->tier, GT_JOIN_CONFIG);
    }
}

/* A parent must be of a higher tier than its child, so there are no cycles. */
static void link_groups(struct join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        uint32_t id = work->group_super[i];
        if (id == GT_JOIN_NONE || !join_has_text(group->parent))
            continue;
        uint32_t parent = join_find(&work->groups_by_name, group->parent);
        if (parent == GT_JOIN_NONE || work->group_super[parent] == GT_JOIN_NONE)
            gt_join_tell(work, GT_JOIN_UNKNOWN_PARENT, join_about_group(id),
                         "group %s: there is no group %.64s to be its parent", group->name, group->parent);
        else if (work->groups[parent].tier <= group->tier)
            gt_join_tell(work, GT_JOIN_BAD_TIER, join_about_group(id),
                         "group %s of tier %u: its parent %s is of tier %u, expected a higher one",
                         group->name, group->tier, group->parent, work->groups[parent].tier);
        else
            work->join->supernodes[id].parent = work->group_super[parent];
    }
}

static void place_by_config(struct join_work *work)
{
    for (uint32_t i = 0; i < work->group_count; i++) {
        const struct gt_join_group *group = &work->groups[i];
        uint32_t id = work->group_super[i];
        if (id == GT_JOIN_NONE)
            continue;
        if (group->tier > 1 && group->node_count) {
            gt_join_tell(work, GT_JOIN_BAD_TIER, join_about_group(id),
                         "group %s of tier %u has nodes, expected them in groups of tier 1", group->name,
                         group->tier);
            continue;
        }
        for (uint32_t n = 0; n < group->node_count; n++) {
            uint32_t node = join_find(&work->by_name, group->nodes[n]);
            if (node == GT_JOIN_NONE)
                gt_join_tell(work, GT_JOIN_UNKNOWN_NODE, join_about_group(id),
                             "group %s: there is no node %.128s", group->name, group->nodes[n]);
            else if (work->join->supernode_of[node] != GT_JOIN_NONE)
                gt_join_tell(work, GT_JOIN_NODE_TWICE, (struct join_about){id, node, GT_JOIN_NONE, true},
                             "group %s: node %s is in group %s already, which counts", group->name,
                             group->nodes[n], work->join->supernodes[work->join->supernode_of[node]].name);
            else
                work->join->supernode_of[node] = id;
        }
    }
}

/* ---- labels ---- */

static void join_by_label(struct join_work *work)
{
    struct gt_join *join = work->join;
    uint32_t configured = join->supernode_count;
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (join->supernode_of[i] != GT_JOIN_NONE || !join_has_text(work->nodes[i].label))
            continue;
        if (join_config_is_name(work->nodes[i].label))
            join_add_key(&work->by_label, work->nodes[i].label, false, i);
        else
            gt_join_tell(
                work, GT_JOIN_BAD_NAME, join_about_nodes(i, GT_JOIN_NONE),
                "node %s: its label \"%.64s\" is no name for a supernode, expected 1 to 63 of a-z, 0-9 and -",
                work->nodes[i].name, work->nodes[i].label);
    }
    join_sort(&work->by_label);
    for (uint32_t i = 0, id = GT_JOIN_NONE; i < work->by_label.count; i++) {
        const struct join_key *key = &work->by_label.keys[i];
        const char *label = key->text;
        if (i == 0 || strcmp(label, key[-1].text) != 0) {
            const struct gt_supernode *known = GT_FIND(join->supernodes, join->supernode_count, name, label);
            id = known ? (uint32_t)(known - join->supernodes) : GT_JOIN_NONE;
            if (id != GT_JOIN_NONE && id < configured && join->supernodes[id].tier > 1) {
                gt_join_tell(work, GT_JOIN_BAD_TIER, (struct join_about){id, key->item, GT_JOIN_NONE, false},
                             "label %s: the group of that name is of tier %u, expected 1", label,
                             join->supernodes[id].tier);
                id = GT_JOIN_NONE;
            } else if (id == GT_JOIN_NONE)
                id = gt_join_make(work, label, 1, GT_JOIN_LABEL);
        }
        join->supernode_of[key->item] = id;
    }
}

static uint32_t root_of(struct join_work *work, uint32_t node)
{
    while (work->root[node] != node) {
        work->root[node] = work->root[work->root[node]];
        node = work->root[node];
    }
    return node;
}

static bool reports(const struct gt_join_node *node, const char *uuid)
{
    return GT_HAS_TEXT(node->remotes, node->remote_count, uuid);
}

/* A server UUID means only one node: its holder; where that is not known, none. */
static bool is_the_server(const struct join_work *work, uint32_t node)
{
    if (work->nodes[node].uuid_node)
        return join_has_uuid(&work->nodes[node]);
    const char *uuid = work->nodes[node].server_uuid;
    uint32_t next = join_lower_bound(&work->by_uuid, uuid) + 1;
    return next >= work->by_uuid.count || strcmp(work->by_uuid.keys[next].text, uuid) != 0;
}

static void find_same_uuids(struct join_work *work)
{
    for (uint32_t i = 0; i < work->by_uuid.count; i++) {
        const struct join_key *key = &work->by_uuid.keys[i];
        uint32_t node = key->item, before = i ? key[-1].item : GT_JOIN_NONE;
        const struct gt_join_node *a = i ? &work->nodes[before] : NULL, *b = &work->nodes[node];
        if (b->uuid_node) {
            if (!join_has_uuid(b))
                gt_join_tell(work, GT_JOIN_TAKEN_UUID,
                             join_about_nodes(node, join_find(&work->by_name, b->uuid_node)),
                             "node %s reports server UUID %.64s, which is that of node %s", b->name,
                             b->server_uuid, b->uuid_node);
        } else if (a && strcmp(a->server_uuid, b->server_uuid) == 0) {
            gt_join_tell(work, GT_JOIN_SAME_UUID, join_about_nodes(before, node),
                         "nodes %s and %s both report server UUID %.64s", a->name, b->name, a->server_uuid);
        }
    }
}

/* Whether the node takes part in joining by report. */
static bool by_report(const struct join_work *work, uint32_t node)
{
    return work->join->supernode_of[node] == GT_JOIN_NONE && join_has_text(work->nodes[node].server_uuid) &&
           is_the_server(work, node);
}

static void join_reports(struct join_work *work)
{
    find_same_uuids(work);
    for (uint32_t i = 0; i < work->node_count; i++)
        work->root[i] = i;
    for (uint32_t i = 0; i < work->node_count; i++) {
        if (!by_report(work, i))
            continue;
        const struct gt_join_node *node = &work->nodes[i];
        for (uint32_t r = 0; r < node->remote_count && r < GT_JOIN_REMOTES_MAX; r++) {
            uint32_t other = join_find(&work->by_uuid, node->remotes[r]);
            /* A server that is no node of this cluster, or is placed by configuration or label, is not
             * joined. */
            if (other == GT_JOIN_NONE || other == i || !by_report(work, other))
                continue;
            if (reports(&work->nodes[other], node->server_uuid)) {
                uint32_t a = root_of(work, i), b = root_of(work, other);
                work->root[a > b ? a : b] = a > b ? b : a;
            } else
                gt_join_tell(work, GT_JOIN_ASYMMETRIC, join_about_nodes(i, other),
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
static void make_supernodes(struct join_work *work, uint32_t *size, uint32_t *order, const char **least)
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
        size[root] = gt_join_make(work, name, 1, GT_JOIN_REPORT); /* its number from here on */
        if (part)
            gt_join_tell(work, GT_JOIN_SPLIT, (struct join_about){size[root], root, order[i - 1], false},
                         "the servers of node %s and of node %s both see server %.64s, but not one another",
                         work->nodes[root].name, work->nodes[order[i - 1]].name, least[root]);
    }
    for (uint32_t i = 0; i < roots; i++)
        join->supernode_of[order[i]] = size[order[i]];
    for (uint32_t i = 0; i < work->node_count; i++)
        if (work->root[i] != GT_JOIN_NONE && root_of(work, i) != i)
            join->supernode_of[i] = size[root_of(work, i)];
}

static void work_done(struct join_work *work)
{
    free(work->by_name.keys);
    free(work->by_uuid.keys);
    free(work->by_label.keys);
    free(work->groups_by_name.keys);
    free(work->group_super);
    free(work->root);
    free(work->made);
    gt_table_done(&work->taken);
}

void gt_join_free(struct gt_join *join)
{
    if (!join)
        return;
    free(join->supernodes);
    free(join->members);
    free(join->supernode_of);
    free(join->problems);
    free(join);
}

static void count_out_members(struct gt_join *join)
{
    for (uint32_t i = 0; i < join->node_count; i++)
        if (join->supernode_of[i] != GT_JOIN_NONE)
            join->supernodes[join->supernode_of[i]].count++;
    uint32_t first = 0;
    for (uint32_t s = 0; s < join->supernode_count; s++) {
        join->supernodes[s].first = first;
        first += join->supernodes[s].count;
        join->supernodes[s].count = 0;
    }
    for (uint32_t i = 0; i < join->node_count; i++) {
        if (join->supernode_of[i] == GT_JOIN_NONE)
            continue;
        struct gt_supernode *s = &join->supernodes[join->supernode_of[i]];
        join->members[s->first + s->count++] = i;
    }
}

int gt_join_supernodes(const struct gt_join_input *input, struct gt_join **ret, struct gt_err **err)
{
    uint32_t node_count = input->node_count, group_count = input->group_count;
    if (node_count > GT_JOIN_NODES_MAX || group_count > GT_JOIN_GROUPS_MAX)
        return gt_fail(err, E2BIG, "supernodes: %u nodes in %u groups, at most %d and %d are joined",
                       node_count, group_count, GT_JOIN_NODES_MAX, GT_JOIN_GROUPS_MAX);
    gt_auto_join struct gt_join *join = calloc(1, sizeof(*join));
    __attribute__((cleanup(work_done))) struct join_work work = {.nodes = input->nodes,
                                                                 .node_count = node_count,
                                                                 .groups = input->groups,
                                                                 .group_count = group_count,
                                                                 .join = join,
                                                                 .places = input->places};
    size_t capacity = (size_t)node_count + 1, group_capacity = (size_t)group_count + 1;
    gt_auto_free uint32_t *order = calloc(capacity, sizeof(*order));
    gt_auto_free const char **least = calloc(capacity, sizeof(*least));
    work.by_name.keys = calloc(capacity, sizeof(struct join_key));
    work.by_uuid.keys = calloc(capacity, sizeof(struct join_key));
    work.by_label.keys = calloc(capacity, sizeof(struct join_key));
    work.root = calloc(capacity, sizeof(uint32_t));
    work.groups_by_name.keys = calloc(group_capacity, sizeof(struct join_key));
    work.group_super = calloc(group_capacity, sizeof(uint32_t));
    if (join) {
        /* At most one supernode for each node, besides those of the groups and of the network. */
        size_t domains = input->places ? input->places->domain_count : 0;
        join->supernodes = calloc(capacity + group_count + domains, sizeof(*join->supernodes));
        join->members = calloc(capacity, sizeof(*join->members));
        join->supernode_of = malloc(capacity * sizeof(*join->supernode_of));
        join->problems = calloc(GT_JOIN_PROBLEMS_MAX, sizeof(*join->problems));
        join->node_count = node_count;
    }
    GT_NEED(join && order && least && work.by_name.keys && work.by_uuid.keys && work.by_label.keys &&
                work.root && work.groups_by_name.keys && work.group_super && join->supernodes &&
                join->members && join->supernode_of && join->problems,
            err, "supernodes");

    for (uint32_t i = 0; i < node_count; i++)
        join->supernode_of[i] = GT_JOIN_NONE;
    join_make_indexes(&work);
    add_groups(&work);
    link_groups(&work);
    place_by_config(&work);
    join_by_label(&work);
    GT_TRY(gt_join_by_network(&work, err));
    join_reports(&work);
    make_supernodes(&work, order, join->members, least);
    GT_TRY(gt_join_tiers(&work, err));
    count_out_members(join);
    *ret = gt_steal(join);
    return 0;
}

const char *gt_join_source_name(enum gt_join_source source)
{
    static const char *const names[] = {"config", "label", "network", "report"};
    return names[source];
}

const char *gt_join_problem_name(enum gt_join_problem_kind kind)
{
    static const char *const names[] = {"Asymmetric", "NodeTwice",  "UnknownNode", "UnknownParent",
                                        "BadTier",    "GroupTwice", "SameUUID",    "BadName",
                                        "Split",      "TakenUUID",  "Cabling"};
    return names[kind];
}
