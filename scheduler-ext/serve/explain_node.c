/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/serve/explain_write.h"
#include "scheduler-ext/serve/model_parts.h"

/* Who has each GPU of a node, or to whom it is promised. */

enum { HOLDER_MAX = 1024 };

static const struct gt_cache_job *job_numbered(const struct gt_cache *cache, uint64_t number)
{
    const struct gt_cache_job *job = gt_cache_next_job(cache, NULL);
    while (job && job->number != number)
        job = gt_cache_next_job(cache, job);
    return job;
}

static void say_reserved(const struct gt_debug_view *view, uint64_t number, struct gt_buf *to)
{
    const struct gt_cache_job *job = job_numbered(view->cache, number);
    struct gt_placement_job info;
    char until[GT_TIME_TEXT_SIZE];
    gt_buf_printf(to, "reserved for pods to come of %s%s", job ? "job " : "a job that has ended",
                  job ? job->key : "");
    if (!job)
        return;
    gt_debug_job(view, job, &info);
    if (!info.reserved_until_ms || info.reserved_until_ms < view->now_ms)
        return;
    gt_time_text((int64_t)((view->wall_ms + info.reserved_until_ms - view->now_ms) / 1000), until);
    gt_buf_printf(to, " until %s", until);
}

static void say_promise(const struct gt_debug_view *view, const struct gt_promise *promise, struct gt_buf *to)
{
    const struct gt_cache_job *job;
    switch (promise->kind) {
    case GT_PROMISE_RESERVED:
        say_reserved(view, promise->owner, to);
        return;
    case GT_PROMISE_ADMITTED:
        gt_buf_puts(to, "reserved for a Workload that Kueue has let in");
        return;
    case GT_PROMISE_FOREIGN:
        gt_buf_puts(to, "reserved by the other scheduler");
        return;
    case GT_PROMISE_PLANNED:
    case GT_PROMISE_VACATED:
        job = job_numbered(view->cache, promise->owner);
        gt_buf_printf(to, "planned for %s%s", job ? "job " : "a job that has ended", job ? job->key : "");
    }
}

static void say_holder(const struct gt_debug_view *view, uint32_t id, const struct gt_cluster_node *node,
                       unsigned gpu, struct gt_buf *to)
{
    uint64_t bit = UINT64_C(1) << gpu;
    const struct gt_cache_pod *user = gt_cache_gpu_user(view->cache, id, gpu);
    struct gt_promise promise;
    if (!(node->healthy & bit))
        gt_buf_puts(to, node->free & ~node->assumed & bit ? "unhealthy" : "unhealthy, ");
    if (user && (!(node->free & bit) || node->assumed & bit))
        gt_buf_printf(to, "%s pod %s/%s of job %s", node->free & bit ? "planned for" : "used by",
                      user->meta.namespace_, user->meta.name, user->job->key);
    else if (!(node->free & bit))
        gt_buf_puts(to, "used by a pod that is not known here");
    else if (gt_cluster_promise_of(gt_cache_cluster(view->cache), id, gpu, &promise))
        say_promise(view, &promise, to);
    else if (node->healthy & bit)
        gt_buf_puts(to, node->eligible ? "free" : "not used, but nothing is placed here");
}

static void explain_node_end_line(uint64_t mask, const struct gt_buf *says, struct gt_buf *to)
{
    gt_buf_puts(to, gt_bit_count(mask) == 1 ? "GPU " : "GPUs ");
    gt_text_add_mask(to, mask);
    gt_buf_printf(to, ": %s\n", says->data ? says->data : "");
}

void gt_explain_node_text(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf says = GT_BUF(HOLDER_MAX), note = GT_BUF(HOLDER_MAX);
    struct gt_cluster_node node;
    uint64_t mask = 0;
    if (!gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node))
        return;
    unsigned gpus = gt_class_gpus(node.class);
    gt_model_node_note(view, id, &note);
    gt_buf_printf(to, "node %s: %u of %u GPU%s can be given away", node.name, gt_bit_count(node.available),
                  gpus, gt_plural(gpus));
    gt_buf_printf(to, note.len ? "; %s\n" : "\n", note.data);
    for (unsigned gpu = 0; gpu < gpus; gpu++) {
        gt_auto_buf struct gt_buf one = GT_BUF(HOLDER_MAX);
        say_holder(view, id, &node, gpu, &one);
        if (mask && (one.len != says.len || memcmp(one.data, says.data, one.len) != 0)) {
            explain_node_end_line(mask, &says, to);
            mask = 0;
        }
        mask |= UINT64_C(1) << gpu;
        gt_buf_consume(&says, says.len);
        gt_buf_add(&says, one.data, one.len);
    }
    explain_node_end_line(mask, &says, to);
}
