/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "cli/view.h"

/* Joins nodes with their supernodes, and sorts and counts everything. */

/* Natural order of names: n2 before n10. */
static int view_join_by_text(const char *a, const char *b)
{
    int order = strverscmp(a, b);
    return order ? order : strcmp(a, b);
}

/* ---- supernodes ---- */

static int by_tier_and_name(const void *a, const void *b)
{
    const struct gt_picture_supernode *x = a, *y = b;
    GT_BY(y->tier, x->tier);
    return view_join_by_text(x->name, y->name);
}

static uint32_t view_join_find_supernode(const struct gt_picture *picture, const char *name)
{
    const struct gt_picture_supernode *found =
        GT_FIND(picture->supernodes, picture->supernode_count, name, name);
    return found ? (uint32_t)(found - picture->supernodes) : GT_NONE;
}

/* A parent has a higher tier, so there are no cycles. */
static void view_join_find_parents(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        struct gt_picture_supernode *supernode = &picture->supernodes[i];
        const char *name = view->supernodes[supernode->source].object.parent;
        if (!*name)
            continue;
        uint32_t parent = view_join_find_supernode(picture, name);
        if (parent == GT_NONE)
            cli_view_problem(view, "supernodes/%s: parent: there is no supernode %s; it counts as none",
                             supernode->name, name);
        else if (picture->supernodes[parent].tier <= supernode->tier)
            cli_view_problem(view,
                             "supernodes/%s: parent: %s has tier %u, a parent of tier %u must have a higher "
                             "one; it counts as none",
                             supernode->name, name, picture->supernodes[parent].tier, supernode->tier);
        else
            supernode->parent = parent;
    }
}

/* Appends all supernodes below `parent`, each before its children. The recursion is at most as deep as the
 * number of tiers. */
static uint32_t view_join_add_below(const struct gt_picture *picture, uint32_t parent, uint32_t depth,
                                    struct gt_picture_supernode *to, uint32_t count)
{
    uint32_t place = count - 1; /* index of the parent, GT_NONE at the top */
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        if (picture->supernodes[i].parent != parent)
            continue;
        to[count] = picture->supernodes[i];
        to[count].parent = place;
        to[count].depth = depth;
        count = view_join_add_below(picture, i, depth + 1, to, count + 1);
    }
    return count;
}

static bool order_supernodes(struct gt_picture *picture)
{
    struct gt_picture_supernode *ordered = calloc((size_t)picture->supernode_count + 1, sizeof(*ordered));
    if (!ordered)
        return false;
    view_join_add_below(picture, GT_NONE, 0, ordered, 0);
    free(picture->supernodes);
    picture->supernodes = ordered;
    return true;
}

/* ---- nodes ---- */

static int by_node_name(const void *a, const void *b)
{
    return strcmp(((const struct gt_picture_node *)a)->name, ((const struct gt_picture_node *)b)->name);
}

/* The nodes are sorted by name during this; new ones are appended unsorted. */
static bool join_members(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    uint32_t known = picture->node_count;
    for (uint32_t s = 0; s < picture->supernode_count; s++) {
        const struct gt_supernode_object *supernode = &view->supernodes[picture->supernodes[s].source].object;
        for (unsigned m = 0; m < supernode->member_count; m++) {
            struct gt_picture_node key = {
                .name = supernode->members[m].node, .product = "", .note = "no NodeGPUTopology"};
            const struct gt_picture_node *node =
                known ? bsearch(&key, picture->nodes, known, sizeof(key), by_node_name) : NULL;
            struct cli_view_node *of = node ? &view->nodes[node->source] : NULL,
                                 fresh = {.supernode = s, .wiring = GT_NONE};
            if (supernode->tier != 1)
                cli_view_problem(view, "supernodes/%s: members: %s: only a supernode of tier 1 has nodes",
                                 supernode->name, key.name);
            else if (!node && !cli_view_append(view, &key, &fresh))
                return false;
            else if (node && of->supernode == GT_NONE)
                of->supernode = s;
            else if (node && of->supernode != s)
                cli_view_problem(view, "supernodes/%s: members: %s is in %s already, which counts",
                                 supernode->name, key.name, picture->supernodes[of->supernode].name);
        }
    }
    return true;
}

static int by_supernode(const void *a, const void *b, void *view)
{
    const struct gt_picture_node *x = a, *y = b;
    const struct cli_view_node *nodes = ((const struct cli_view *)view)->nodes;
    if (nodes[x->source].supernode != nodes[y->source].supernode) /* GT_NONE is last */
        return nodes[x->source].supernode < nodes[y->source].supernode ? -1 : 1;
    return view_join_by_text(x->name, y->name);
}

/* Until here pods refer to their node by its source. */
static bool order_nodes(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    if (picture->node_count)
        qsort(picture->nodes, picture->node_count, sizeof(*picture->nodes), by_node_name);
    if (!join_members(view))
        return false;
    uint32_t count = picture->node_count;
    gt_auto_free uint32_t *place = calloc((size_t)count + 1, sizeof(*place));
    if (!place)
        return false;
    if (count)
        qsort_r(picture->nodes, count, sizeof(*picture->nodes), by_supernode, view);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t source = picture->nodes[i].source;
        place[source] = i;
        if (view->nodes[source].supernode == GT_NONE)
            continue;
        struct gt_picture_supernode *supernode = &picture->supernodes[view->nodes[source].supernode];
        if (!supernode->node_count++)
            supernode->first_node = i;
    }
    for (uint32_t i = 0; i < picture->pod_count; i++)
        picture->pods[i].place.node = place[picture->pods[i].place.node];
    return true;
}

/* ---- pods ---- */

/* Where two nodes list a pod of the same name, the one from the node that was observed later comes first. */
static int by_pod_name(const void *a, const void *b, void *view)
{
    const struct gt_picture_pod *x = a, *y = b;
    const struct cli_view *of = view;
    int order = strcmp(x->namespace_, y->namespace_);
    if (!order)
        order = strcmp(x->name, y->name);
    if (order)
        return order;
    int64_t p = of->nodes[of->picture.nodes[x->place.node].source].observed,
            q = of->nodes[of->picture.nodes[y->place.node].source].observed;
    return p != q ? (p > q ? -1 : 1) : x->place.node < y->place.node ? -1 : 1;
}

static int by_node_and_gpu(const void *a, const void *b)
{
    const struct gt_picture_pod *x = a, *y = b;
    GT_BY(x->place.node, y->place.node);
    return (int)gt_bit_first(x->place.mask) - (int)gt_bit_first(y->place.mask);
}

/* A pod runs on one node: where two nodes list it, the one that was observed later is right. */
static void order_pods(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    struct gt_picture_pod *pods = picture->pods;
    uint32_t kept = 0;
    if (picture->pod_count)
        qsort_r(pods, picture->pod_count, sizeof(*pods), by_pod_name, view);
    for (uint32_t i = 0; i < picture->pod_count; i++) {
        const struct gt_picture_pod *other = kept ? &pods[kept - 1] : NULL;
        if (other && strcmp(pods[i].name, other->name) == 0 &&
            strcmp(pods[i].namespace_, other->namespace_) == 0)
            cli_view_problem(view, "nodegputopologies/%s: owners: pod %s/%s has GPUs on %s too, which counts",
                             picture->nodes[pods[i].place.node].name, pods[i].namespace_, pods[i].name,
                             picture->nodes[other->place.node].name);
        else
            pods[kept++] = pods[i];
    }
    picture->pod_count = kept;
    if (kept)
        qsort(pods, kept, sizeof(*pods), by_node_and_gpu);
    for (uint32_t i = 0; i < kept; i++) {
        struct gt_picture_node *node = &picture->nodes[pods[i].place.node];
        if (!node->pod_count++)
            node->pods = &pods[i];
    }
}

/* ---- jobs ---- */

static int view_join_by_job(const void *a, const void *b)
{
    return strcmp((*(struct gt_picture_pod *const *)a)->job, (*(struct gt_picture_pod *const *)b)->job);
}

static int by_gpus(const void *a, const void *b)
{
    const struct gt_picture_job *x = a, *y = b;
    GT_BY(y->gpus, x->gpus);
    return view_join_by_text(x->name, y->name);
}

/* "namespace/job" */
static const char *view_join_job_of(struct cli_view *view, const struct gt_picture_pod *pod)
{
    char job[2 * GT_CLUSTER_NAME_MAX];
    int len = snprintf(job, sizeof(job), "%.*s/", GT_CLUSTER_NAME_MAX, pod->namespace_);
    cli_job_of_pod(pod->name, job + len, sizeof(job) - (size_t)len);
    return cli_view_keep(view, job);
}

static bool group_pods(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    uint32_t count = picture->pod_count;
    gt_auto_free struct gt_picture_pod **pods = calloc((size_t)count + 1, sizeof(struct gt_picture_pod *));
    gt_auto_free uint32_t *place = calloc((size_t)count + 1, sizeof(*place));
    picture->jobs = calloc((size_t)count + 1, sizeof(*picture->jobs));
    if (!pods || !place || !picture->jobs)
        return false;
    for (uint32_t i = 0; i < count; i++) {
        pods[i] = &picture->pods[i];
        if (!pods[i]->job)
            pods[i]->job = view_join_job_of(view, pods[i]);
    }
    if (count)
        qsort(pods, count, sizeof(*pods), view_join_by_job);
    for (uint32_t i = 0; i < count; i++) {
        if (!i || view_join_by_job(&pods[i - 1], &pods[i]) != 0) {
            picture->jobs[picture->job_count] =
                (struct gt_picture_job){.name = pods[i]->job, .source = picture->job_count};
            picture->job_count++;
        }
        pods[i]->job_number = picture->job_count - 1;
        picture->jobs[picture->job_count - 1].pods++;
        picture->jobs[picture->job_count - 1].gpus += gt_bit_count(pods[i]->place.mask);
    }
    if (picture->job_count)
        qsort(picture->jobs, picture->job_count, sizeof(*picture->jobs), by_gpus);
    for (uint32_t i = 0; i < picture->job_count; i++)
        place[picture->jobs[i].source] = i;
    for (uint32_t i = 0; i < count; i++)
        picture->pods[i].job_number = place[picture->pods[i].job_number];
    return true;
}

/* ---- counts ---- */

static void view_join_count_all(struct cli_view *view)
{
    struct gt_picture *picture = &view->picture;
    for (uint32_t i = 0; i < picture->node_count; i++) {
        const struct gt_picture_node *node = &picture->nodes[i];
        gt_picture_count(&picture->counts, node);
        for (uint32_t s = view->nodes[node->source].supernode; s != GT_NONE;
             s = picture->supernodes[s].parent)
            gt_picture_count(&picture->supernodes[s].counts, node);
    }
    for (uint32_t i = 0; i < picture->supernode_count; i++)
        picture->tier1_count += picture->supernodes[i].tier == 1;
}

/* The length of ".cluster.example.com" where all nodes' names end with it. */
static unsigned common_domain(const struct gt_picture *picture)
{
    const char *domain = picture->node_count > 1 ? strchr(picture->nodes[0].name, '.') : NULL;
    for (uint32_t i = 1; i < picture->node_count && domain; i++) {
        const char *other = strchr(picture->nodes[i].name, '.');
        while (domain && !(other && strcmp(other, domain) == 0)) {
            size_t n = strlen(domain), m = other ? strlen(other) : 0;
            if (m > n)
                other = strchr(other + 1, '.');
            else
                domain = other ? strchr(domain + 1, '.') : NULL;
        }
    }
    for (uint32_t i = 0; i < picture->node_count && domain; i++)
        if (strlen(picture->nodes[i].name) <= strlen(domain)) /* nothing would be left of the name */
            domain = NULL;
    return domain ? (unsigned)strlen(domain) : 0;
}

int cli_view_finish(struct cli_view *view, struct gt_err **err)
{
    struct gt_picture *picture = &view->picture;
    if (picture->supernode_count)
        qsort(picture->supernodes, picture->supernode_count, sizeof(*picture->supernodes), by_tier_and_name);
    view_join_find_parents(view);
    bool whole = !view->failed && order_supernodes(picture) && order_nodes(view);
    if (whole)
        order_pods(view);
    if (!whole || !group_pods(view) || view->failed)
        return gt_fail(err, ENOBUFS, "the cluster is larger than %d of a kind, or there is no memory for it",
                       CLI_VIEW_MAX);
    view_join_count_all(view);
    picture->domain = common_domain(picture);
    return 0;
}
