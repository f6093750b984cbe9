/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "cli/view.h"

/* Nodes join their supernodes, everything gets its order and its counts. */

/* Numbers within names as numbers: n2 before n10. */
static int by_text(const char *a, const char *b)
{
    int order = strverscmp(a, b);
    return order ? order : strcmp(a, b);
}

/* ---- supernodes ---- */

static int by_tier_and_name(const void *a, const void *b)
{
    const struct cli_supernode *x = a, *y = b;
    if (x->tier != y->tier)
        return x->tier > y->tier ? -1 : 1;
    return by_text(x->name, y->name);
}

static uint32_t find_supernode(const struct cli_view *view, const char *name)
{
    for (uint32_t i = 0; i < view->supernode_count; i++)
        if (strcmp(view->supernodes[i].name, name) == 0)
            return i;
    return CLI_NONE;
}

/* A parent has a higher tier, so there are no cycles. */
static void find_parents(struct cli_view *view)
{
    for (uint32_t i = 0; i < view->supernode_count; i++) {
        struct cli_supernode *supernode = &view->supernodes[i];
        if (!supernode->parent_name[0])
            continue;
        uint32_t parent = find_supernode(view, supernode->parent_name);
        if (parent == CLI_NONE)
            cli_view_problem(view, "supernodes/%s: parent: there is no supernode %s; it counts as none",
                             supernode->name, supernode->parent_name);
        else if (view->supernodes[parent].tier <= supernode->tier)
            cli_view_problem(view,
                             "supernodes/%s: parent: %s has tier %u, a parent of tier %u must have a higher "
                             "one; it counts as none",
                             supernode->name, supernode->parent_name, view->supernodes[parent].tier,
                             supernode->tier);
        else
            supernode->parent = parent;
    }
}

/* Parents before their children: the tree from above, siblings by name. */
static bool order_supernodes(struct cli_view *view)
{
    uint32_t count = view->supernode_count, done = 0, depth = 0;
    gt_auto_free struct cli_supernode *ordered = calloc((size_t)count + 1, sizeof(*ordered));
    gt_auto_free uint32_t *place = calloc((size_t)count + 1, sizeof(*place)),
                          *next = calloc((size_t)count + 1, sizeof(*next)),
                          *first = malloc(((size_t)count + 1) * sizeof(*first));
    if (!ordered || !place || !next || !first)
        return false;
    for (uint32_t i = 0; i <= count; i++)
        first[i] = CLI_NONE;
    for (uint32_t i = count; i-- > 0;) { /* lists of children; those of the last place have no parent */
        uint32_t above = view->supernodes[i].parent == CLI_NONE ? count : view->supernodes[i].parent;
        next[i] = first[above];
        first[above] = i;
    }
    for (uint32_t at = first[count]; at != CLI_NONE;) {
        place[at] = done;
        ordered[done] = view->supernodes[at];
        ordered[done++].depth = depth;
        if (first[at] != CLI_NONE) {
            at = first[at];
            depth++;
            continue;
        }
        while (at != CLI_NONE && next[at] == CLI_NONE) {
            at = view->supernodes[at].parent;
            depth -= depth > 0;
        }
        if (at != CLI_NONE)
            at = next[at];
    }
    for (uint32_t i = 0; i < count; i++)
        if (ordered[i].parent != CLI_NONE)
            ordered[i].parent = place[ordered[i].parent];
    if (count)
        memcpy(view->supernodes, ordered, count * sizeof(*ordered));
    return true;
}

/* ---- nodes ---- */

static int by_node_name(const void *a, const void *b)
{
    return strcmp(((const struct cli_node *)a)->name, ((const struct cli_node *)b)->name);
}

static int add_silent(struct cli_view *view, const char *name, uint32_t supernode)
{
    if (view->node_count == view->node_room) {
        uint32_t room = view->node_room ? 2 * view->node_room : 64;
        struct cli_node *grown = room > CLI_VIEW_MAX ? NULL : reallocarray(view->nodes, room, sizeof(*grown));
        if (!grown)
            return -ENOMEM;
        view->nodes = grown;
        view->node_room = room;
    }
    struct cli_node node = {.name = strdup(name),
                            .product = strdup(""),
                            .trouble = strdup("no NodeGPUTopology"),
                            .state = CLI_NODE_SILENT,
                            .supernode = supernode,
                            .wiring = CLI_NONE};
    view->nodes[view->node_count++] = node;
    return node.name && node.product && node.trouble ? 0 : -ENOMEM;
}

/* The nodes stand by name while this runs; those that are added go behind, unsorted. */
static int join_members(struct cli_view *view)
{
    uint32_t known = view->node_count;
    for (uint32_t s = 0; s < view->supernode_count; s++) {
        const struct cli_supernode *supernode = &view->supernodes[s];
        for (uint32_t m = 0; m < supernode->member_count; m++) {
            struct cli_node key = {.name = supernode->members[m]};
            struct cli_node *node =
                known ? bsearch(&key, view->nodes, known, sizeof(key), by_node_name) : NULL;
            if (supernode->tier != 1)
                cli_view_problem(view, "supernodes/%s: members: %s: only a supernode of tier 1 has nodes",
                                 supernode->name, key.name);
            else if (!node && add_silent(view, key.name, s) < 0)
                return -ENOMEM;
            else if (node && node->supernode == CLI_NONE)
                node->supernode = s;
            else if (node && node->supernode != s)
                cli_view_problem(view, "supernodes/%s: members: %s is in %s already, which counts",
                                 supernode->name, key.name, view->supernodes[node->supernode].name);
        }
    }
    return 0;
}

static int by_supernode(const void *a, const void *b)
{
    const struct cli_node *x = a, *y = b;
    if (x->supernode != y->supernode) /* CLI_NONE is last */
        return x->supernode < y->supernode ? -1 : 1;
    return by_text(x->name, y->name);
}

/* Pods know their node by its place: it moves with the node. first_pod holds the old place meanwhile. */
static bool order_nodes(struct cli_view *view)
{
    uint32_t count = view->node_count;
    for (uint32_t i = 0; i < count; i++)
        view->nodes[i].first_pod = i;
    if (count)
        qsort(view->nodes, count, sizeof(*view->nodes), by_node_name);
    if (join_members(view) < 0)
        return false;
    for (uint32_t i = count; i < view->node_count; i++)
        view->nodes[i].first_pod = CLI_NONE;
    count = view->node_count;
    if (count)
        qsort(view->nodes, count, sizeof(*view->nodes), by_supernode);
    gt_auto_free uint32_t *place = calloc((size_t)count + 1, sizeof(*place));
    if (!place)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        struct cli_node *node = &view->nodes[i];
        if (node->first_pod != CLI_NONE)
            place[node->first_pod] = i;
        node->first_pod = 0;
        if (node->supernode == CLI_NONE)
            continue;
        struct cli_supernode *supernode = &view->supernodes[node->supernode];
        if (!supernode->node_count++)
            supernode->first_node = i;
    }
    for (uint32_t i = 0; i < view->pod_count; i++)
        view->pods[i].node = place[view->pods[i].node];
    return true;
}

/* ---- pods ---- */

struct named_pod {
    const char *name;
    uint32_t pod;
    int64_t observed;
};

static int by_pod_name(const void *a, const void *b)
{
    const struct named_pod *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    if (order)
        return order;
    if (x->observed != y->observed)
        return x->observed > y->observed ? -1 : 1;
    return (x->pod > y->pod) - (x->pod < y->pod);
}

static int by_node_and_gpu(const void *a, const void *b)
{
    const struct cli_pod *x = a, *y = b;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    int p = x->mask ? gt_bit_first(x->mask) : 64, q = y->mask ? gt_bit_first(y->mask) : 64;
    return p - q;
}

/* A pod runs in one place: where two nodes claim it, the one that was seen later is right. */
static bool order_pods(struct cli_view *view)
{
    gt_auto_free struct named_pod *list = calloc((size_t)view->pod_count + 1, sizeof(*list));
    gt_auto_free bool *gone = calloc((size_t)view->pod_count + 1, sizeof(*gone));
    if (!list || !gone)
        return false;
    for (uint32_t i = 0; i < view->pod_count; i++)
        list[i] = (struct named_pod){view->pods[i].name, i, view->nodes[view->pods[i].node].observed};
    if (view->pod_count)
        qsort(list, view->pod_count, sizeof(*list), by_pod_name);
    for (uint32_t i = 1; i < view->pod_count; i++)
        if (strcmp(list[i].name, list[i - 1].name) == 0) {
            const struct cli_pod *pod = &view->pods[list[i].pod], *other = &view->pods[list[i - 1].pod];
            cli_view_problem(view, "nodegputopologies/%s: owners: pod %s has GPUs on %s too, which counts",
                             view->nodes[pod->node].name, pod->name, view->nodes[other->node].name);
            gone[list[i].pod] = true;
        }
    uint32_t kept = 0;
    for (uint32_t i = 0; i < view->pod_count; i++)
        if (gone[i])
            free(view->pods[i].name);
        else
            view->pods[kept++] = view->pods[i];
    view->pod_count = kept;
    if (kept)
        qsort(view->pods, kept, sizeof(*view->pods), by_node_and_gpu);
    for (uint32_t i = 0; i < kept; i++) {
        struct cli_node *node = &view->nodes[view->pods[i].node];
        if (!node->pod_count++)
            node->first_pod = i;
    }
    return true;
}

/* ---- jobs ---- */

struct job_of {
    char *name; /* namespace/job */
    uint32_t pod;
};

static int by_job(const void *a, const void *b)
{
    return strcmp(((const struct job_of *)a)->name, ((const struct job_of *)b)->name);
}

static int by_gpus(const void *a, const void *b)
{
    const struct cli_group *x = a, *y = b;
    if (x->gpus != y->gpus)
        return x->gpus > y->gpus ? -1 : 1;
    return by_text(x->name, y->name);
}

static bool name_jobs(const struct cli_view *view, struct job_of *jobs)
{
    for (uint32_t i = 0; i < view->pod_count; i++) {
        const char *pod = view->pods[i].name, *slash = strchr(pod, '/');
        char job[320];
        size_t head = slash ? (size_t)(slash + 1 - pod) : 0;
        head = head < 64 ? head : 64;
        memcpy(job, pod, head);
        cli_job_of_pod(slash ? slash + 1 : pod, job + head, sizeof(job) - head);
        jobs[i] = (struct job_of){strdup(job), i};
        if (!jobs[i].name)
            return false;
    }
    return true;
}

static bool group_pods(struct cli_view *view)
{
    uint32_t count = view->pod_count;
    gt_auto_free struct job_of *jobs = calloc((size_t)count + 1, sizeof(*jobs));
    view->groups = calloc((size_t)count + 1, sizeof(*view->groups));
    gt_auto_free uint32_t *place = calloc((size_t)count + 1, sizeof(*place));
    bool good = jobs && view->groups && place && name_jobs(view, jobs);
    if (good && count)
        qsort(jobs, count, sizeof(*jobs), by_job);
    for (uint32_t i = 0; i < count && good; i++) {
        bool same = i && strcmp(jobs[i].name, view->groups[view->group_count - 1].name) == 0;
        if (!same) {
            view->groups[view->group_count++].name = strdup(jobs[i].name);
            good = view->groups[view->group_count - 1].name;
        }
        struct cli_group *group = &view->groups[view->group_count - 1];
        group->pods++;
        group->gpus += gt_bit_count(view->pods[jobs[i].pod].mask);
        view->pods[jobs[i].pod].group = view->group_count - 1;
    }
    for (uint32_t i = 0; jobs && i < count; i++)
        free(jobs[i].name);
    if (!good || !view->group_count)
        return good;
    /* By size; the pods follow. `pods` holds the old place while it sorts. */
    gt_auto_free uint32_t *pods = calloc(view->group_count, sizeof(*pods));
    if (!pods)
        return false;
    for (uint32_t i = 0; i < view->group_count; i++) {
        pods[i] = view->groups[i].pods;
        view->groups[i].pods = i;
    }
    qsort(view->groups, view->group_count, sizeof(*view->groups), by_gpus);
    for (uint32_t i = 0; i < view->group_count; i++) {
        place[view->groups[i].pods] = i;
        view->groups[i].pods = pods[view->groups[i].pods];
    }
    for (uint32_t i = 0; i < count; i++)
        view->pods[i].group = place[view->pods[i].group];
    return true;
}

/* ---- counts ---- */

void cli_counts_add(struct cli_counts *to, const struct cli_node *node)
{
    to->nodes++;
    to->gpus += node->gpus;
    to->free += gt_bit_count(node->free);
    to->used += gt_bit_count(node->used & ~node->ill);
    to->ill += gt_bit_count(node->ill);
    to->free_unsure += gt_bit_count(node->free & node->unsure);
}

static void count_all(struct cli_view *view)
{
    for (uint32_t i = 0; i < view->node_count; i++) {
        const struct cli_node *node = &view->nodes[i];
        cli_counts_add(&view->counts, node);
        for (uint32_t s = node->supernode; s != CLI_NONE; s = view->supernodes[s].parent)
            cli_counts_add(&view->supernodes[s].counts, node);
    }
    for (uint32_t i = 0; i < view->supernode_count; i++)
        view->tier1_count += view->supernodes[i].tier == 1;
}

/* ".cluster.example.com", where every node has it behind its name. */
static unsigned common_domain(const struct cli_view *view)
{
    const char *domain = view->node_count > 1 ? strchr(view->nodes[0].name, '.') : NULL;
    for (uint32_t i = 1; i < view->node_count && domain; i++) {
        const char *other = strchr(view->nodes[i].name, '.');
        while (domain && !(other && strcmp(other, domain) == 0)) {
            size_t n = strlen(domain), m = other ? strlen(other) : 0;
            if (m > n)
                other = strchr(other + 1, '.');
            else
                domain = other ? strchr(domain + 1, '.') : NULL;
        }
    }
    for (uint32_t i = 0; i < view->node_count && domain; i++)
        if (strlen(view->nodes[i].name) <= strlen(domain)) /* nothing would be left */
            domain = NULL;
    return domain ? (unsigned)strlen(domain) : 0;
}

int cli_view_finish(struct cli_view *view, struct gt_err **err)
{
    if (view->failed)
        return gt_fail(err, ENOBUFS, "the cluster is larger than %d nodes, or there is no memory for it",
                       CLI_VIEW_MAX);
    if (view->supernode_count)
        qsort(view->supernodes, view->supernode_count, sizeof(*view->supernodes), by_tier_and_name);
    find_parents(view);
    if (!order_supernodes(view) || !order_nodes(view) || !order_pods(view) || !group_pods(view) ||
        view->failed)
        return gt_fail_sys(err, ENOMEM, "cluster");
    count_all(view);
    view->domain = common_domain(view);
    return 0;
}
