/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_CONTENT_H
#define GPUTOPO_PLACEMENT_CONTENT_H

#include "scheduler-ext/decide/view.h"
#include "scheduler-ext/placement/objects.h"

/* From the view of a job to its GPUPlacement, and back. No I/O, no clock. */

struct placement_content {
    struct gt_gpu_placement object; /* texts are borrowed from the view, the cache, the owner, or are below */
    const char **nodes, **units;
    struct gt_gpu_placement_pod *pods;
    struct gt_gpu_placement_template *templates;
    char *parts[GT_GPU_PLACEMENT_PARTS_MAX];
    struct gt_buf texts; /* of the units, one behind the other */
    struct gt_buf where;
};

/* What is asked, and the plan; name, phase, reason, message, epoch and times are the caller's to fill in.
 * `view` NULL: neither is known. placement_content_done() in any case. */
int gt_placement_content_make(struct gt_cache *cache, const struct gt_cache_job *job,
                              const struct gt_job_view *view, const struct gt_owner *owner,
                              const struct gt_reservations *reservations, struct placement_content *ret,
                              struct gt_err **err);
void gt_placement_content_done(struct placement_content *content);
#define auto_placement_content __attribute__((cleanup(gt_placement_content_done)))

/* How a member's place stands to the one that the object names. */
enum placement_match {
    PLACEMENT_MATCHES,
    PLACEMENT_UNNAMED, /* the object names none */
    PLACEMENT_DIFFERS,
};
enum placement_match gt_placement_match(const struct gt_cluster *cluster, const struct placement_plan *plan,
                                        uint32_t rank, uint32_t node, uint64_t mask);

/* Whether the object names just this place, as this leader wrote it and the API server has acknowledged, and
 * nothing else about it is on its way. */
bool gt_placement_is_acknowledged(const struct gt_cluster *cluster, const struct placement_objects *objects,
                                  const struct placement_object *object, uint32_t rank, uint32_t node,
                                  uint64_t mask);

/*
 * Takes over the plan, where its places can still be had: gated pods without a plan are
 * planned, and places are reserved for pods that are not made: until `until` where the job wants them anyhow,
 * and until `promised_until` where it has begun. For a new leader.
 */
struct placement_adopt {
    uint64_t until, promised_until;
    bool moves, all_move;    /* pods that are elsewhere than planned have to leave; all pods */
    uint64_t leave_before_s; /* those that were made until then */
    uint64_t moving_until;   /* the places of those after them are kept until then */
};
void gt_placement_adopt(struct gt_cache *cache, struct gt_job_view *view, const struct gt_owner *owner,
                        struct gt_reservations *reservations, const struct placement_plan *plan,
                        const struct placement_adopt *how);

#endif
