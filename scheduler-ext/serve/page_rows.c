/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/json_write.h"
#include "base/text.h"
#include "scheduler-ext/picture/picture.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/page_state.h"

enum { LIST_MAX = 256, POD_NAME_SIZE = 2 * GT_CLUSTER_NAME_MAX + 2 };

static void add_mask(struct gt_buf *to, uint64_t mask)
{
    gt_auto_buf struct gt_buf list = GT_BUF(LIST_MAX);
    if (mask)
        gt_text_add_mask(&list, mask);
    gt_json_add_text(to, NULL, list.data ? list.data : "");
    to->failed = to->failed || list.failed;
}

static void add_user(const struct gt_cache_pod *pod, uint64_t mask, struct gt_buf *to)
{
    char name[POD_NAME_SIZE];
    snprintf(name, sizeof(name), "%s/%s", pod->meta.namespace_, pod->meta.name);
    gt_json_begin(to, NULL, '[');
    gt_json_add_text(to, NULL, pod->job->key);
    add_mask(to, mask);
    gt_picture_add_id(to, NULL, gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT));
    gt_picture_add_id(to, NULL, gt_cache_pod_number(pod, GT_KEY_PLAN_RANK));
    gt_json_add_text(to, NULL, name);
    gt_json_end(to, ']');
}

static bool may_show(const struct gt_cache_pod *user, const char *only)
{
    return user && (!only || strcmp(user->meta.namespace_, only) == 0);
}

static bool has_user(const struct gt_debug_view *view, uint32_t id, uint64_t taken, const char *only)
{
    for (; taken; taken &= taken - 1)
        if (may_show(gt_cache_gpu_user(view->cache, id, gt_bit_first(taken)), only))
            return true;
    return false;
}

static void add_users(const struct gt_debug_view *view, uint32_t id, uint64_t taken, const char *only,
                      struct gt_buf *to)
{
    const struct gt_cache_pod *users[GT_GPUS_MAX] = {NULL};
    for (uint64_t left = taken; left; left &= left - 1)
        users[gt_bit_first(left)] = gt_cache_gpu_user(view->cache, id, gt_bit_first(left));
    gt_json_begin(to, NULL, '[');
    while (taken) {
        const struct gt_cache_pod *user = users[gt_bit_first(taken)];
        uint64_t mask = 0;
        for (uint64_t left = taken; left; left &= left - 1)
            if (users[gt_bit_first(left)] == user)
                mask |= left & -left;
        taken &= ~mask;
        if (may_show(user, only))
            add_user(user, mask, to);
    }
    gt_json_end(to, ']');
}

void gt_page_node_row(const struct gt_debug_view *view, uint32_t id, const char *only, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node node;
    struct gt_picture_node drawn;
    gt_auto_buf struct gt_buf note = GT_BUF(2 * LIST_MAX);
    uint32_t supernode = gt_model_supernode_of(cluster, id, &node);
    if (!gt_cluster_get_node(cluster, id, &node))
        return;
    uint64_t taken = node.all & ~(node.free & ~node.assumed);
    if (only && !has_user(view, id, taken, only))
        return;
    gt_model_draw_node(view, id, &drawn, &note);
    gt_json_begin(to, NULL, '[');
    gt_json_add_unsigned(to, NULL, id);
    gt_json_add_text(to, NULL, node.name);
    gt_picture_add_id(to, NULL, supernode);
    gt_json_add_unsigned(to, NULL, drawn.gpus);
    gt_json_add_unsigned(to, NULL, drawn.flags & GT_PICTURE_RESERVED ? 0 : gt_bit_count(node.available));
    gt_json_add_unsigned(to, NULL, drawn.flags);
    add_mask(to, drawn.free);
    add_mask(to, drawn.assumed);
    add_mask(to, drawn.unhealthy & ~drawn.isolated);
    add_mask(to, drawn.isolated);
    add_mask(to, drawn.unknown);
    gt_json_add_text(to, NULL, note.data ? note.data : "");
    add_users(view, id, taken, only, to);
    gt_json_end(to, ']');
}

void gt_page_job_row(const struct gt_debug_view *view, const struct gt_cache_job *job, struct gt_buf *to)
{
    struct gt_placement_job info;
    struct gt_job_texts texts;
    const struct gt_debug_pods pods = gt_debug_count_pods(job);
    gt_placement_job(view->placement, job, &info);
    gt_debug_job_texts(view, job, &texts);
    bool since = info.state != GT_PLACEMENT_NONE && info.since_s;
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "key", job->key);
    gt_json_add_text(to, "kind", gt_debug_job_kind(job));
    gt_json_add_text(to, "namespace", job->pods->meta.namespace_);
    gt_json_add_text(to, "name", gt_job_key_name(job->key));
    gt_json_add_text(to, "state", gt_debug_job_state(job, &info));
    gt_json_add_bool(to, "settled", gt_debug_is_settled(view, job, &info));
    gt_json_add_int(to, "since",
                    since                         ? info.since_s
                    : pods.created_s < UINT64_MAX ? (int64_t)pods.created_s
                                                  : 0);
    gt_json_add_text_if(to, "reason", info.reason);
    gt_json_add_text_if(to, "text", info.text);
    gt_picture_add_id(to, "place", info.place);
    gt_json_add_unsigned(to, "wants", gt_cache_job_gpus(job));
    gt_json_add_text_if(to, "group", texts.of[GT_KEY_GROUP]);
    gt_json_add_text_if(to, "atomic", texts.of[GT_KEY_ATOMIC]);
    gt_json_add_bool(to, "holds", info.holds_until_ms);
    gt_json_add_unsigned(to, "unplaced", gt_debug_job_unplaced(view, job));
    gt_json_begin(to, "pods", '[');
    for (unsigned state = 0; state <= GT_CACHE_RUNNING; state++)
        gt_json_add_unsigned(to, NULL, pods.counts[state]);
    gt_json_ends(to, "]}");
}

/* The wiring of a node as decisions see it: the weight of each pair of GPUs. */
bool gt_page_node_json(const struct gt_debug_view *view, const char *name, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node node;
    struct gt_cache_node cached = {0};
    uint32_t id = gt_cluster_find_node(cluster, name);
    if (!gt_cluster_get_node(cluster, id, &node))
        return false;
    gt_cache_get_node(view->cache, id, &cached);
    unsigned gpus = gt_class_gpus(node.class);
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "name", node.name);
    gt_json_add_text_or_null(to, "product", cached.product);
    gt_model_time_json(to, "observedAt", view, cached.observed_ms);
    gt_json_begin(to, "weights", '[');
    for (unsigned i = 0; i < gpus; i++) {
        gt_json_begin(to, NULL, '[');
        for (unsigned j = 0; j < gpus; j++)
            gt_json_add_unsigned(to, NULL,
                                 i == j ? 0 : gt_class_sum(node.class, UINT64_C(1) << i | UINT64_C(1) << j));
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "ids", '[');
    for (unsigned i = 0; i < gpus; i++) {
        const char *gpu = gt_cache_device_id(view->cache, id, i);
        gt_json_add_text(to, NULL, gpu ? gpu : "");
    }
    gt_json_ends(to, "]}");
    return true;
}
