/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/debug_view.h"

#include <string.h>

#include "base/json_write.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/picture/picture.h"

/* Bytes for the end of the document, with the counters of what was left out. */
enum { TAIL_MAX = 512, HEAD_MAX = 8192 };

/* The document in progress: it is written item by item, so that it never ends within one. */
struct model_writer {
    const struct gt_debug_view *view;
    struct gt_buf *to, item;
    size_t limit;                                        /* of the current list */
    uint32_t supernodes, nodes, jobs, jobs_without_pods; /* left out */
};

/* False where it does not fit. */
static bool model_json_put(struct model_writer *writer)
{
    struct gt_buf *item = &writer->item;
    bool fits = !item->failed && writer->to->len + item->len + 1 <= writer->limit;
    if (fits)
        gt_json_add_raw(writer->to, NULL, item->data ? item->data : "");
    if (item->failed)
        gt_buf_done(item);
    gt_buf_consume(item, item->len);
    return fits;
}

/* ---- supernodes ---- */

/* Names of nodes by the supernode that they report: those of s from first[s] to first[s + 1]. */
struct member_lists {
    const char **names;
    uint32_t *first;
    uint32_t supernodes;
};

static bool members_make(const struct gt_cluster *cluster, struct member_lists *ret)
{
    struct gt_cluster_node node;
    uint32_t nodes = gt_cluster_nodes(cluster), supernodes = gt_cluster_supernodes(cluster), s;
    *ret = (struct member_lists){.supernodes = supernodes};
    ret->names = calloc((size_t)nodes + 1, sizeof(const char *));
    ret->first = calloc((size_t)supernodes + 2, sizeof(*ret->first));
    if (!ret->names || !ret->first)
        return false;
    for (uint32_t n = 0; n < nodes; n++)
        if ((s = gt_model_supernode_of(cluster, n, &node)) != GT_NONE)
            ret->first[s + 2]++;
    for (s = 1; s <= supernodes; s++)
        ret->first[s + 1] += ret->first[s];
    for (uint32_t n = 0; n < nodes; n++)
        if ((s = gt_model_supernode_of(cluster, n, &node)) != GT_NONE)
            ret->names[ret->first[s + 1]++] = node.name;
    return true;
}

static void write_supernode(struct model_writer *writer, const struct member_lists *members, uint32_t id)
{
    const struct gt_cluster *cluster = gt_cache_cluster(writer->view->cache);
    struct gt_cluster_supernode supernode, parent;
    if (!gt_cluster_get_supernode(cluster, id, &supernode) || supernode.is_node)
        return;
    const struct gt_picture_supernode shown = {
        .name = supernode.name,
        .tier = supernode.tier,
        .node_count = members->first[id + 1] - members->first[id],
        .counts = {.nodes = supernode.nodes, .free = supernode.available},
    };
    bool below = gt_cluster_get_supernode(cluster, supernode.parent, &parent);
    gt_picture_supernode_json(&shown, below ? parent.name : NULL, members->names + members->first[id],
                              &writer->item);
    writer->supernodes += !model_json_put(writer);
}

static void write_supernodes(struct model_writer *writer)
{
    struct member_lists members;
    if (members_make(gt_cache_cluster(writer->view->cache), &members))
        for (uint32_t s = 0; s < members.supernodes; s++)
            write_supernode(writer, &members, s);
    else
        writer->to->failed = true;
    free(members.names);
    free(members.first);
}

/* ---- nodes and jobs ---- */

static void write_job(struct model_writer *writer, const struct gt_cache_job *job)
{
    gt_model_job_json(writer->view, job, true, false, &writer->item);
    if (model_json_put(writer))
        return;
    gt_model_job_json(writer->view, job, false, false, &writer->item);
    if (model_json_put(writer))
        writer->jobs_without_pods++;
    else
        writer->jobs++;
}

/* Those that need attention come first. */
static void model_json_write_jobs(struct model_writer *writer, bool settled)
{
    const struct gt_cache *cache = writer->view->cache;
    struct gt_placement_job info;
    for (const struct gt_cache_job *job = NULL; (job = gt_cache_next_job(cache, job));) {
        gt_placement_job(writer->view->placement, job, &info);
        if (gt_debug_is_settled(writer->view, job, &info) == settled)
            write_job(writer, job);
    }
}

/* ---- counters ---- */

static void write_placement(const struct gt_debug_view *view, struct gt_buf *to)
{
    struct gt_placement_counters counters;
    if (!view->placement) {
        gt_json_add_null(to, "placement");
        return;
    }
    gt_placement_counters(view->placement, &counters);
    gt_json_begin(to, "placement", '{');
    gt_json_add_bool(to, "acts", counters.leads);
    gt_json_add_unsigned(to, "jobsPlaced", counters.placed);
    gt_json_add_unsigned(to, "podsPlanned", counters.pods.planned);
    gt_json_add_unsigned(to, "podsLifted", counters.pods.lifted);
    gt_json_add_unsigned(to, "jobsRefused", counters.refused);
    gt_json_add_unsigned(to, "podsLost", counters.pods.lost);
    gt_json_add_unsigned(to, "reservedGpus", counters.reserved_gpus);
    gt_json_add_unsigned(to, "reservedNodes", counters.reserved_node_count);
    gt_json_add_unsigned(to, "writesWaiting", counters.writes.waiting);
    gt_json_begin(to, "jobs", '{');
    for (unsigned s = 0; s < GT_PLACEMENT_STATES; s++)
        gt_json_add_unsigned(to, gt_placement_state_name((enum gt_placement_state)s), counters.jobs[s]);
    gt_buf_puts(to, "}}");
}

/* As in a cluster file. */
static void write_unit_sizes(const struct gt_debug_view *view, struct gt_buf *to)
{
    struct gt_chain_seen seen;
    gt_json_begin(to, "unitSizes", '[');
    for (unsigned i = 0; gt_chain_get_seen(gt_cache_cluster(view->cache), i, &seen); i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_unsigned(to, "gpus", seen.size);
        gt_json_add_unsigned(to, "present", seen.present);
        gt_json_add_real(to, "past", seen.past, 3);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

static void model_json_write_head(const struct gt_debug_view *view, struct gt_buf *to)
{
    struct gt_cache_counters counters;
    gt_cache_counters(view->cache, &counters);
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "version", 1);
    gt_model_time_json(to, "time", view, view->now_ms);
    gt_json_add_bool(to, "leader", view->leads);
    gt_json_add_bool(to, "synced", view->synced);
    gt_json_begin(to, "counters", '{');
    gt_json_add_unsigned(to, "nodes", counters.nodes);
    gt_json_add_unsigned(to, "nodesWithoutTopology", counters.nodes_without_topology);
    gt_json_add_unsigned(to, "nodesStale", counters.nodes_stale);
    gt_json_add_unsigned(to, "supernodes", counters.supernodes);
    gt_json_add_unsigned(to, "jobs", counters.jobs);
    gt_json_add_unsigned(to, "podsGated", counters.pods[GT_CACHE_GATED]);
    gt_json_add_unsigned(to, "podsPending", counters.pods[GT_CACHE_WAITING]);
    gt_json_add_unsigned(to, "podsStarting", counters.pods[GT_CACHE_BOUND]);
    gt_json_add_unsigned(to, "podsRunning", counters.pods[GT_CACHE_RUNNING]);
    gt_json_add_unsigned(to, "podsBeyond", counters.pods_beyond);
    gt_json_add_unsigned(to, "objectsRefused", counters.refused);
    write_placement(view, to);
    gt_json_end(to, '}');
    write_unit_sizes(view, to);
}

/* ---- the document ---- */

static void write_tail(const struct model_writer *writer, struct gt_buf *to)
{
    gt_json_begin(to, "leftOut", '{');
    gt_json_add_unsigned(to, "supernodes", writer->supernodes);
    gt_json_add_unsigned(to, "nodes", writer->nodes);
    gt_json_add_unsigned(to, "jobs", writer->jobs);
    gt_json_add_unsigned(to, "podsOfJobs", writer->jobs_without_pods);
    gt_json_end(to, '}');
    gt_json_add_bool(to, "truncated",
                     writer->supernodes || writer->nodes || writer->jobs || writer->jobs_without_pods);
    gt_buf_puts(to, "}\n");
}

void gt_model_json(const struct gt_debug_view *view, struct gt_buf *to)
{
    size_t capacity = to->max > TAIL_MAX + HEAD_MAX ? to->max - TAIL_MAX : 0;
    struct model_writer writer = {.view = view, .to = to, .item = GT_BUF(to->max), .limit = capacity / 4 * 3};
    struct gt_cluster_node node;
    to->failed |= !capacity;
    model_json_write_head(view, to);
    gt_json_begin(to, "supernodes", '[');
    write_supernodes(&writer);
    gt_json_end(to, ']');
    gt_json_begin(to, "nodes", '[');
    for (uint32_t id = 0; id < gt_cluster_nodes(gt_cache_cluster(view->cache)); id++)
        if (gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node)) {
            gt_model_node_json(view, id, &writer.item);
            writer.nodes += !model_json_put(&writer);
        }
    gt_json_end(to, ']');
    writer.limit = capacity;
    gt_json_begin(to, "jobs", '[');
    model_json_write_jobs(&writer, false);
    model_json_write_jobs(&writer, true);
    gt_json_end(to, ']');
    write_tail(&writer, to);
    gt_buf_done(&writer.item);
}
