/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_OBJECTS_H
#define GPUTOPO_PLACEMENT_OBJECTS_H

#include "api/gpu_placement.h"
#include "base/table.h"
#include "scheduler-ext/decide/view.h"

/*
 * The GPUPlacements of the cluster, by namespace and name, as the API server has them: from the informer and
 * from the answers to our own writes, whichever is newer. No I/O; times are the caller's, in milliseconds.
 */
enum { GT_PLACEMENT_OBJECTS_MAX = 1 << 17 };

struct write;

/* Of a GPUPlacement, what is needed after it was read. Texts as there; one block. */
struct placement_known {
    const char *uid, *resource_version, *job, *part_of;
    const char *reason, *message;
    const char *promised_until, *waiting_since, *planned_at, *reserved_until;
    const char *moving, *moving_before;
    const char *const *parts;
    const struct placement_known_pod *pods; /* by rank, ascending */
    uint64_t epoch;
    uint32_t pod_count, part_count;
    enum gt_gpu_placement_phase phase;
};

struct placement_object {
    const char *namespace_, *name;
    struct placement_known *content; /* NULL: the API server has none, as far as we know */
    uint64_t epoch;                  /* the highest that was seen under this name since the process began */
    uint64_t ahead_ms; /* an answer was before the watch: until then older versions are passed over; 0: not */
    uint64_t rest_ms;  /* the API server refused a write: none before then */
    struct write *write; /* waiting, or on its way */
    void *job;           /* the placement controller's; NULL: no pod of the job is there */
    unsigned refusals;   /* one after the other */
    bool is_part;        /* `content` is a part of a plan, as it was written */
    bool acknowledged;   /* `content` is what this leader wrote in its term */
    bool is_unknown;     /* a write of ours may or may not have got through: it has to be read again */
    bool relisted; /* what comes next counts though its version is lower; see gt_placement_on_relist() */
    char names[];
};

struct placement_objects {
    struct gt_table table;
};

/* NULL where it is not there. */
struct placement_object *gt_placement_object_find(const struct placement_objects *objects,
                                                  const char *namespace_, const char *name);
/* Finds it, or makes an empty one; NULL: too many, or no memory. */
struct placement_object *gt_placement_object_get(struct placement_objects *objects, const char *namespace_,
                                                 const char *name);
/* An object from the watch; takes `content` over. False: we know something newer. Without memory it is to be
 * read again, as with the next one. */
bool gt_placement_object_observe(struct placement_object *object, struct gt_gpu_placement *content,
                                 uint64_t now);
/* The answer to our own request; takes `content` over, NULL: it is not there. `written`: it is what
 * we wrote. */
void gt_placement_object_answered(struct placement_object *object, struct gt_gpu_placement *content,
                                  bool written, uint64_t now);
/* Takes it out and frees it. */
void gt_placement_object_drop(struct placement_objects *objects, struct placement_object *object);
/* One after the other; `*slot` is 0 at first. NULL: no more. None may be added
 * meanwhile; where the last one was dropped, `*slot` goes one back. */
struct placement_object *gt_placement_objects_next(const struct placement_objects *objects, size_t *slot);
void gt_placement_objects_done(struct placement_objects *objects);

/* The job's object where it is a part's; otherwise the same one. */
struct placement_object *gt_placement_object_head(const struct placement_objects *objects,
                                                  struct placement_object *object);
/* Whether its plan is in this part, among others. */
bool gt_placement_object_names(const struct placement_object *object, const char *part);

/* The plan that the object of a job has, in itself or in its parts. Until one of them changes. */
struct placement_plan {
    const struct placement_known *slices[GT_GPU_PLACEMENT_PARTS_MAX];
    uint32_t count;
};
/* False where nobody knows what was planned: there is no object, or a part of it is not there, or not as it
 * was written. `object` may be NULL. */
bool gt_placement_object_plan(const struct placement_objects *objects, const struct placement_object *object,
                              struct placement_plan *ret);
/* The node of a pod; NULL: the plan has none for that rank. */
const char *gt_placement_plan_place(const struct placement_plan *plan, uint32_t rank, uint64_t *ret_gpus);
/* How many pods it has places for. */
uint32_t gt_placement_plan_pods(const struct placement_plan *plan);

/* ---- content.c ---- */
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
