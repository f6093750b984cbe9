/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/reconcile.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/placement/write.h"

static uint32_t pods_max(const struct gt_placement *placement)
{
    uint32_t max = placement->spec.object_pods;
    return max && max < GT_GPU_PLACEMENT_PODS_MAX ? max : GT_GPU_PLACEMENT_PODS_MAX;
}

/* Whether the first slice is the whole plan. Units without a place are in it as empty texts. */
static bool is_all(const struct gt_gpu_placement_slice *slice, const struct gt_gpu_placement *whole)
{
    size_t empty = (size_t)(whole->unit_count - slice->unit_count) * (sizeof("\"\",") - 1);
    return slice->pod_count == whole->pod_count && whole->unit_count <= GT_GPU_PLACEMENT_PODS_MAX &&
           slice->size + empty <= GT_GPU_PLACEMENT_PLAN_MAX;
}

static void fill_part(const struct gt_gpu_placement *whole, const struct gt_gpu_placement_slice *slice,
                      struct gt_gpu_placement *to)
{
    *to = *whole;
    to->part_of = whole->name;
    to->name = to->uid = to->resource_version = to->on_lost_plan = to->reason = to->message = to->behind =
        to->where = to->promised_until = to->waiting_since = to->planned_at = to->reserved_until =
            to->moving = to->moving_before = to->moves = "";
    to->template_count = to->part_count = 0;
    to->phase = GT_GPU_PLACEMENT_PART;
    to->nodes = slice->nodes;
    to->node_count = slice->node_count;
    to->units = slice->units;
    to->unit_count = slice->unit_count;
    to->pods = slice->pods;
    to->pod_count = slice->pod_count;
}

static char *parts_name_of(const struct gt_gpu_placement *part)
{
    gt_auto_buf struct gt_buf name = GT_BUF(GT_GPU_PLACEMENT_JOB_MAX);
    gt_gpu_placement_part_name(part, &name);
    return gt_buf_take(&name);
}

/* The part at the same index of the previous plan, if its content is the same. */
static char *name_of_old(const struct gt_placement *placement, const struct placement_object *head,
                         uint32_t at, const struct gt_gpu_placement *part)
{
    const struct placement_object *old =
        head->content && at < head->content->part_count
            ? gt_placement_object_find(&placement->objects, head->namespace_, head->content->parts[at])
            : NULL;
    struct gt_gpu_placement again = *part;
    if (!old || !old->is_part)
        return NULL;
    again.epoch = old->content->epoch;
    gt_auto_free char *name = parts_name_of(&again);
    return name && strcmp(name, old->name) == 0 ? gt_steal(name) : NULL;
}

/* Whether the API server has the part; otherwise takes the next step towards it. */
static bool is_made(struct reconcile *reconcile, struct placement_object *object,
                    const struct gt_gpu_placement *part)
{
    struct gt_placement *placement = reconcile->placement;
    if (object->write) {
        gt_placement_due(reconcile->pjob,
                         reconcile->now + placement->times.retry_ms); /* which may belong to no job */
    } else if (object->rest_ms > reconcile->now) {
        gt_placement_due(reconcile->pjob, object->rest_ms);
    } else if (object->is_unknown) {
        gt_write_object_get(placement, object, reconcile->pjob);
    } else if (object->is_part) {
        return true;
    } else if (object->content) { /* it was changed by others */
        gt_write_object_delete(placement, object);
        gt_placement_due(reconcile->pjob, reconcile->now + placement->times.retry_ms);
    } else {
        gt_write_object(reconcile->pjob, object, part, true);
    }
    return false;
}

static int make_part(struct reconcile *reconcile, struct placement_content *content,
                     const struct gt_gpu_placement_slice *slice, uint32_t at, struct gt_err **err)
{
    struct gt_placement *placement = reconcile->placement;
    struct gt_gpu_placement part;
    fill_part(&content->object, slice, &part);
    if ((content->parts[at] = name_of_old(placement, reconcile->pjob->object, at, &part)))
        return 1;
    part.name = content->parts[at] = parts_name_of(&part);
    struct placement_object *object =
        part.name ? gt_placement_object_get(&placement->objects, part.namespace_, part.name) : NULL;
    GT_NEED(object, err, "placement");
    return is_made(reconcile, object, &part);
}

int gt_placement_make_parts(struct reconcile *reconcile, struct placement_content *content,
                            struct gt_err **err)
{
    struct gt_gpu_placement *object = &content->object;
    uint32_t first = 0, count = 0;
    bool ready = true;
    for (int r = 1; first < object->pod_count; ready = ready && r > 0) {
        struct gt_gpu_placement_slice slice;
        bool sliced = gt_gpu_placement_slice(object, first, pods_max(reconcile->placement), &slice);
        bool all = sliced && !first && is_all(&slice, object);
        first += slice.pod_count;
        if (!sliced)
            r = gt_fail_sys(err, ENOMEM, "placement");
        else if (count == GT_GPU_PLACEMENT_PARTS_MAX)
            r = gt_fail(err, E2BIG, "its plan takes more than %d parts of a %s", GT_GPU_PLACEMENT_PARTS_MAX,
                        GT_KIND_GPU_PLACEMENT);
        else if (!all)
            r = make_part(reconcile, content, &slice, count++, err);
        gt_gpu_placement_slice_done(&slice);
        if (r < 0 || all)
            return r;
    }
    if (!count || !ready)
        return ready;
    object->parts = (const char *const *)content->parts;
    object->part_count = count;
    object->pod_count = object->node_count = object->unit_count = 0;
    return 1;
}

bool gt_placement_is_left_over(const struct gt_placement *placement, struct placement_object *object)
{
    const struct placement_object *head = gt_placement_object_head(&placement->objects, object);
    bool is_ours =
        head->acknowledged || placement->term.began_ms + placement->times.request_ms <= gt_clock_ms();
    return head != object && is_ours && !head->write && !head->is_unknown && head->content &&
           object->content->epoch <= head->content->epoch && !gt_placement_object_names(head, object->name);
}
