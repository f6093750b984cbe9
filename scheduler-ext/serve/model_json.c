/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/model_json.h"

#include <string.h>

#include "base/clock.h"
#include "base/json_write.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/picture/picture.h"

/* Bytes for the end of the document, with the counters of what was left out. */
enum { TAIL_MAX = 512, HEAD_MAX = 8192 };

/* Bytes that are reserved for each job without its pods while other jobs are written with theirs. */
enum { JOB_BYTES = 1024 };

enum { KEYS_MAX = 256 << 20 }; /* a key may be as long as a namespace and a name, and there are 2^18 pods */

/* The document in progress: it is written item by item, so that it never ends within one. */
struct model_writer {
    const struct gt_debug_view *view;
    struct gt_buf *to;
    struct gt_buf item;
    size_t limit; /* of the current list */
    uint32_t next_node;
    bool in_jobs;
    struct gt_buf keys; /* keys of the jobs, each with its NUL; first those that need attention */
    size_t next_key;
    uint32_t jobs_to_come;
    uint32_t supernodes, nodes, jobs, jobs_without_pods; /* left out */
};

static void model_json_empty(struct model_writer *writer)
{
    if (writer->item.failed)
        gt_buf_done(&writer->item);
    gt_buf_consume(&writer->item, writer->item.len);
    writer->item.max = writer->to->max;
}

/* False where it does not fit. */
static bool model_json_put(struct model_writer *writer)
{
    const struct gt_buf *item = &writer->item;
    bool fits = !item->failed && writer->to->len + item->len + 1 <= writer->limit;
    if (fits) {
        gt_json_add_raw(writer->to, NULL, item->data ? item->data : "");
    }
    model_json_empty(writer);
    return fits;
}

/* ---- supernodes ---- */

/* Names of nodes by the supernode that they report: those of s from first[s] to first[s + 1]. */
struct member_lists {
    const char **names;
    uint32_t *first;
    uint32_t supernodes;
};

static void members_done(struct member_lists *members)
{
    free(members->names);
    free(members->first);
}

uint32_t gt_model_supernode_of(const struct gt_cluster *cluster, uint32_t id,
                               struct gt_cluster_node *ret_node)
{
    struct gt_cluster_supernode supernode;
    if (!gt_cluster_get_node(cluster, id, ret_node) ||
        !gt_cluster_get_supernode(cluster, ret_node->supernode, &supernode))
        return GT_NONE;
    return supernode.is_node ? supernode.parent : ret_node->supernode;
}

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
    members_done(&members);
}

/* ---- nodes and jobs ---- */

static void model_json_write_node(struct model_writer *writer, uint32_t id)
{
    struct gt_cluster_node node;
    if (!gt_cluster_get_node(gt_cache_cluster(writer->view->cache), id, &node))
        return;
    gt_model_node_json(writer->view, id, &writer->item);
    writer->nodes += !model_json_put(writer);
}

/* The most bytes for an item, so that `remain` bytes are left after it. */
static void model_json_leave(struct model_writer *writer, size_t remains)
{
    size_t taken = writer->to->len + 1 + remains;
    writer->item.max = writer->limit > taken ? writer->limit - taken : 0;
}

static void write_job(struct model_writer *writer, const struct gt_cache_job *job)
{
    writer->jobs_to_come -= writer->jobs_to_come > 0;
    model_json_leave(writer, (size_t)writer->jobs_to_come * JOB_BYTES); /* its pods displace no other job */
    gt_model_job_json(writer->view, job, true, false, &writer->item);
    if (model_json_put(writer))
        return;
    model_json_leave(writer, 0);
    gt_model_job_json(writer->view, job, false, false, &writer->item);
    if (model_json_put(writer))
        writer->jobs_without_pods++;
    else
        writer->jobs++;
}

/* Jobs may be added or deleted between two pieces of the document, so they are found by their keys. */
static void list_jobs(struct model_writer *writer)
{
    gt_auto_buf struct gt_buf settled = GT_BUF(KEYS_MAX);
    const struct gt_cache *cache = writer->view->cache;
    for (const struct gt_cache_job *job = gt_cache_next_job(cache, NULL); job;
         job = gt_cache_next_job(cache, job)) {
        struct gt_placement_job info;
        gt_debug_job(writer->view, job, &info);
        gt_buf_add(gt_debug_is_settled(writer->view, job, &info) ? &settled : &writer->keys, job->key,
                   strlen(job->key) + 1);
        writer->jobs_to_come++;
    }
    if (settled.len)
        gt_buf_add(&writer->keys, settled.data, settled.len);
    if (settled.failed || writer->keys.failed)
        writer->to->failed = true;
    writer->in_jobs = true;
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
    gt_json_add_unsigned(to, "podsPlanned", counters.pods_planned);
    gt_json_add_unsigned(to, "podsLifted", counters.pods_lifted);
    gt_json_add_unsigned(to, "jobsRefused", counters.refused);
    gt_json_add_unsigned(to, "podsLost", counters.lost);
    gt_json_add_unsigned(to, "reservedGpus", counters.reserved_gpus);
    gt_json_add_unsigned(to, "reservedNodes", counters.reserved_node_count);
    gt_json_add_unsigned(to, "writesWaiting", counters.writes_waiting);
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

/* ---- in pieces ---- */

static void write_tail(struct model_writer *writer)
{
    struct gt_buf *to = writer->to;
    gt_json_end(to, ']');
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

static void model_json_start(struct model_writer *writer)
{
    size_t max = writer->to->max, room = max > TAIL_MAX + HEAD_MAX ? max - TAIL_MAX : 0;
    writer->limit = room / 4 * 3;
    if (!room)
        writer->to->failed = true;
    model_json_write_head(writer->view, writer->to);
    gt_json_begin(writer->to, "supernodes", '[');
    write_supernodes(writer);
    gt_json_end(writer->to, ']');
    gt_json_begin(writer->to, "nodes", '[');
}

/* False: there was nothing more to write. */
static bool model_json_write_next(struct model_writer *writer)
{
    const struct gt_debug_view *view = writer->view;
    if (writer->next_node < gt_cluster_nodes(gt_cache_cluster(view->cache))) {
        model_json_write_node(writer, writer->next_node++);
    } else if (!writer->in_jobs) {
        writer->limit = writer->to->max - TAIL_MAX;
        gt_json_end(writer->to, ']');
        gt_json_begin(writer->to, "jobs", '[');
        list_jobs(writer);
    } else if (writer->next_key < writer->keys.len) {
        const char *key = writer->keys.data + writer->next_key;
        const struct gt_cache_job *job = gt_cache_find_job(view->cache, key);
        writer->next_key += strlen(key) + 1;
        if (job)
            write_job(writer, job);
    } else {
        return false;
    }
    return !writer->to->failed;
}

static void model_json_done(struct model_writer *writer)
{
    gt_buf_done(&writer->item);
    gt_buf_done(&writer->keys);
}

struct gt_model {
    struct gt_debug_view view;
    struct gt_buf text;
    struct model_writer writer;
};

int gt_model_new(const struct gt_debug_view *view, size_t max, struct gt_model **ret, struct gt_err **err)
{
    struct gt_model *model = calloc(1, sizeof(*model));
    GT_NEED(model, err, "model");
    *model = (struct gt_model){
        .view = *view,
        .text = GT_BUF(max),
        .writer = {.item = GT_BUF(max), .keys = GT_BUF(KEYS_MAX)},
    };
    model->writer.view = &model->view;
    model->writer.to = &model->text;
    model_json_start(&model->writer);
    *ret = model;
    return 0;
}

void gt_model_free(struct gt_model *model)
{
    if (!model)
        return;
    model_json_done(&model->writer);
    gt_buf_done(&model->text);
    free(model);
}

bool gt_model_write(struct gt_model *model, uint64_t budget_ns)
{
    uint64_t end = gt_clock_ns() + budget_ns;
    do {
        if (!model_json_write_next(&model->writer)) {
            write_tail(&model->writer);
            return true;
        }
    } while (gt_clock_ns() < end);
    return false;
}

struct gt_buf *gt_model_text(struct gt_model *model)
{
    return &model->text;
}
