/* SPDX-License-Identifier: Apache-2.0 */

#include <string.h>

#include "base/bits.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/jobs/rules.h"
#include "scheduler-ext/picture/picture.h"
#include "scheduler-ext/serve/debug_view.h"

enum { NOTE_MAX = 400 };

/* NULL where it is 0. */
static const char *time_text(const struct gt_debug_view *view, uint64_t ms, char to[static GT_TIME_TEXT_SIZE])
{
    *to = '\0';
    if (ms && view->now_ms - ms <= view->wall_ms)
        gt_time_text((int64_t)((view->wall_ms - (view->now_ms - ms)) / 1000), to);
    return *to ? to : NULL;
}

void gt_model_time_json(struct gt_buf *to, const char *key, const struct gt_debug_view *view, uint64_t ms)
{
    char stamp[GT_TIME_TEXT_SIZE];
    gt_json_add_text_or_null(to, key, time_text(view, ms, stamp));
}

/* ---- a node ---- */

/* The pods that have its GPUs, or for which these are assumed. */
static void model_parts_find_pods(const struct gt_debug_view *view, uint32_t id, struct gt_picture_node *node,
                                  struct gt_picture_pod pods[static GT_GPUS_MAX])
{
    const struct gt_cache_pod *users[GT_GPUS_MAX];
    node->pods = pods;
    for (unsigned gpu = 0; gpu < node->gpus; gpu++) {
        const struct gt_cache_pod *user =
            node->free >> gpu & 1 ? NULL : gt_cache_gpu_user(view->cache, id, gpu);
        uint32_t i = 0;
        while (user && i < node->pod_count && users[i] != user)
            i++;
        if (user && i == node->pod_count) {
            users[node->pod_count] = user;
            pods[node->pod_count++] =
                (struct gt_picture_pod){.namespace_ = user->meta.namespace_,
                                        .name = user->meta.name,
                                        .job = user->job->key,
                                        .unit = gt_cache_pod_number(user, GT_KEY_PLAN_UNIT),
                                        .rank = gt_cache_pod_number(user, GT_KEY_PLAN_RANK)};
        }
        if (user)
            pods[i].place.mask |= UINT64_C(1) << gpu;
    }
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

static void add_notes(const struct gt_cluster_node *found, const struct gt_cache_node *cached,
                      const struct gt_picture_node *node, struct gt_buf *to)
{
    gt_picture_add_flags(to, node);
    if (cached->foreign) { /* without its end, which moves every few seconds */
        gt_auto_buf struct gt_buf says = GT_BUF(NOTE_MAX);
        gt_promise_say(&(struct gt_promise){.kind = GT_PROMISE_FOREIGN}, NULL, 0, &says);
        gt_picture_add_note(to, "%u %s", gt_bit_count(cached->foreign), says.data ? says.data : "");
    }
    if (cached->offered >= 0 && cached->offered < gt_bit_count(found->healthy))
        gt_picture_add_note(to, "its Node offers %lld of %u GPUs", (long long)cached->offered, node->gpus);
    if (found->slow & found->healthy) {
        gt_auto_buf struct gt_buf list = GT_BUF(NOTE_MAX);
        gt_text_add_mask(&list, found->slow & found->healthy);
        gt_picture_add_note(to, "GPU %s slow or suspect", list.data ? list.data : "");
    }
    if (found->healthy & ~cached->sliced)
        gt_picture_add_note(to, "its ResourceSlices hold %u of %u GPUs",
                            gt_bit_count(found->all & cached->sliced), node->gpus);
}

void gt_model_draw_node(const struct gt_debug_view *view, uint32_t id, struct gt_picture_node *ret,
                        struct gt_buf *note)
{
    struct gt_cluster_node found;
    struct gt_cache_node cached = {0};
    *ret = (struct gt_picture_node){0};
    if (!gt_cluster_get_node(gt_cache_cluster(view->cache), id, &found))
        return;
    gt_cache_get_node(view->cache, id, &cached);
    const struct gt_promise *kept =
        view->placement ? gt_placement_kept_from(view->placement, NULL, id) : NULL;
    bool spare = kept && kept->kind == GT_PROMISE_SPARE;
    bool reserved = !spare && (kept || !gt_cache_may_use(view->cache, NULL, id));
    *ret = (struct gt_picture_node){
        .name = found.name,
        .product = cached.product,
        .gpus = gt_class_gpus(found.class),
        .flags = (found.eligible ? GT_PICTURE_ELIGIBLE : 0) | (cached.ready ? GT_PICTURE_READY : 0) |
                 (cached.cordoned ? GT_PICTURE_CORDONED : 0) | (cached.stale ? GT_PICTURE_STALE : 0) |
                 (cached.links_down ? GT_PICTURE_LINKS_DOWN : 0) |
                 (cached.outlived ? GT_PICTURE_OUTLIVED : 0) |
                 (cached.left_alone ? GT_PICTURE_LEFT_ALONE : 0) | (reserved ? GT_PICTURE_RESERVED : 0) |
                 (spare ? GT_PICTURE_SPARE : 0),
        .free = found.free & found.healthy & ~found.assumed,
        .used = found.all & ~found.free,
        .assumed = found.assumed,
        .unhealthy = found.all & ~found.healthy,
        .isolated = cached.isolated & found.all & ~found.healthy,
        .unknown = cached.health_unknown,
    };
    add_notes(&found, &cached, ret, note);
    ret->note = note->data ? note->data : "";
}

void gt_model_node_note(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    struct gt_picture_node node;
    gt_model_draw_node(view, id, &node, to);
}

void gt_model_node_json(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node found;
    struct gt_cluster_supernode supernode;
    struct gt_cache_node cached = {0};
    struct gt_picture_node node;
    struct gt_picture_pod pods[GT_GPUS_MAX];
    char observed[GT_TIME_TEXT_SIZE];
    gt_auto_buf struct gt_buf note = GT_BUF(NOTE_MAX);
    gt_model_draw_node(view, id, &node, &note);
    if (!node.name)
        return;
    gt_cache_get_node(view->cache, id, &cached);
    model_parts_find_pods(view, id, &node, pods);
    bool below = gt_cluster_get_supernode(cluster, gt_model_supernode_of(cluster, id, &found), &supernode);
    gt_picture_node_json(&node, below ? supernode.name : NULL, time_text(view, cached.observed_ms, observed),
                         to);
}

/* ---- a pod ---- */

static void model_parts_add_ids(const struct gt_debug_view *view, uint32_t node, uint64_t mask,
                                struct gt_buf *to)
{
    gt_json_begin(to, "gpuIds", '[');
    for (uint64_t left = mask; left; left &= left - 1) {
        const char *id = gt_cache_device_id(view->cache, node, gt_bit_first(left));
        gt_json_add_text(to, NULL, id ? id : "");
    }
    gt_json_end(to, ']');
}

static void model_parts_add_claim(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                                  struct gt_buf *to)
{
    const struct gt_cache_claim *claim = pod->claim_template ? gt_cache_claim_of(view->cache, pod) : NULL;
    unsigned count;
    if (!claim) {
        gt_json_add_null(to, "claim");
        return;
    }
    const char *const *devices = gt_cache_claim_devices(claim, &count);
    gt_json_begin(to, "claim", '{');
    gt_json_add_text(to, "name", claim->name);
    gt_json_begin(to, "devices", '[');
    for (unsigned i = 0; i < count; i++)
        gt_json_add_text(to, NULL, devices[i]);
    gt_json_ends(to, "]}");
}

void gt_model_pod_json(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool ids,
                       struct gt_buf *to)
{
    struct gt_cluster_node node;
    uint32_t id;
    uint64_t mask = gt_debug_pod_gpus(view, pod, &id);
    bool known = gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text_or_null(to, "name", pod->meta.name);
    gt_json_add_text_or_null(to, "state", gt_debug_pod_state(pod));
    gt_json_add_text_or_null(to, "plan", gt_debug_plan_state(pod));
    gt_json_add_text_or_null(to, "node", known ? node.name : pod->node_name);
    gt_json_add_mask(to, "gpus", mask);
    if (ids) {
        model_parts_add_ids(view, id, mask, to);
        model_parts_add_claim(view, pod, to);
    }
    gt_json_add_unsigned(to, "wants", pod->gpus);
    gt_picture_add_id(to, "unit", gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT));
    gt_picture_add_id(to, "rank", gt_cache_pod_number(pod, GT_KEY_PLAN_RANK));
    gt_json_add_bool(to, "deleting", pod->deleting);
    gt_json_end(to, '}');
}

/* ---- a job ---- */

static void add_counts(const struct gt_cache_job *job, struct gt_buf *to)
{
    const struct gt_debug_pods pods = gt_debug_count_pods(job);
    char stamp[GT_TIME_TEXT_SIZE] = "";
    gt_json_add_int(to, "priority", pods.priority);
    gt_time_text((int64_t)pods.created_s, stamp);
    gt_json_add_text_or_null(to, "created", *stamp ? stamp : NULL);
    gt_json_add_unsigned(to, "wants", gt_cache_job_gpus(job));
    gt_json_begin(to, "podCounts", '{');
    gt_json_add_unsigned(to, "gated", pods.counts[GT_CACHE_GATED]);
    gt_json_add_unsigned(to, "pending", pods.counts[GT_CACHE_WAITING]);
    gt_json_add_unsigned(to, "starting", pods.counts[GT_CACHE_BOUND]);
    gt_json_add_unsigned(to, "running", pods.counts[GT_CACHE_RUNNING]);
    gt_json_end(to, '}');
}

/* The number of units in the plans of its pods; 0: not known. */
static uint32_t count_units(const struct gt_cache_job *job)
{
    uint32_t units = 0;
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        uint32_t unit = gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT);
        units = unit != GT_NONE && unit >= units ? unit + 1 : units;
    }
    return units;
}

/* A list of lines. */
static void model_parts_add_lines(const char *text, struct gt_buf *to)
{
    gt_json_begin(to, "plan", '[');
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        gt_auto_free char *copy = strndup(line, len);
        gt_json_add_text(to, NULL, copy ? copy : "");
        line += len + (line[len] == '\n');
    }
    gt_json_end(to, ']');
}

void gt_model_job_json(const struct gt_debug_view *view, const struct gt_cache_job *job, bool pods, bool ids,
                       struct gt_buf *to)
{
    struct gt_placement_job info;
    uint32_t units = count_units(job);
    char since[GT_TIME_TEXT_SIZE];
    uint32_t unplaced = gt_debug_job_unplaced(view, job);
    struct gt_job_texts texts;
    gt_placement_job(view->placement, job, &info);
    gt_debug_job_texts(view, job, &texts);
    if (unplaced && !*info.reason) {
        info.reason = "Unplaced";
        info.text = "pods of it run without a plan, though it has a group size";
    }
    gt_json_begin(to, NULL, '{');
    gt_json_add_text_or_null(to, "key", job->key);
    gt_json_add_text_or_null(to, "kind", gt_debug_job_kind(job));
    gt_json_add_text_or_null(to, "namespace", job->pods->meta.namespace_);
    gt_json_add_text_or_null(to, "name", gt_job_key_name(job->key));
    gt_json_add_text_or_null(to, "state", gt_debug_job_state(job, &info));
    gt_json_add_bool(to, "settled", gt_debug_is_settled(view, job, &info));
    gt_time_text(info.state == GT_PLACEMENT_NONE ? 0 : info.since_s, since);
    gt_json_add_text_or_null(to, "since", info.state != GT_PLACEMENT_NONE && info.since_s ? since : NULL);
    gt_json_add_text_or_null(to, "reason", *info.reason ? info.reason : NULL);
    gt_json_add_text_or_null(to, "text", *info.text ? info.text : NULL);
    gt_picture_add_id(to, "place", info.place);
    gt_json_add_unsigned(to, "tries", info.tries);
    gt_json_add_bool(to, "holds", info.holds_until_ms);
    gt_json_add_unsigned(to, "reservedGpus", info.reserved_gpus);
    gt_json_add_text_or_null(to, "groupSize", texts.of[GT_KEY_GROUP]);
    gt_json_add_text_or_null(to, "atomicGroupSize", texts.of[GT_KEY_ATOMIC]);
    gt_json_add_unsigned(to, "unplaced", unplaced);
    gt_picture_add_id(to, "units", units ? units : GT_NONE);
    model_parts_add_lines(info.plan, to);
    add_counts(job, to);
    if (pods) {
        gt_json_begin(to, "pods", '[');
        for (const struct gt_cache_pod *pod = job->pods; pod && !to->failed; pod = pod->next)
            gt_model_pod_json(view, pod, ids, to);
        gt_json_end(to, ']');
    }
    gt_json_end(to, '}');
}
