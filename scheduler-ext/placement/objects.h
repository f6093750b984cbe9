/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/gpu_placement.h"
#include "base/table.h"
#include "scheduler-ext/decide/view.h"

/*
 * The GPUPlacements of the cluster, by namespace and name, as known from the informer and from the answers to
 * our own writes, whichever is newer. No I/O; times are the caller's, in milliseconds.
 */
enum { GT_PLACEMENT_OBJECTS_MAX = 1 << 17 };

struct write;

/* The part of a GPUPlacement that is needed after it was read, in one block of memory. */
struct placement_known {
    const char *uid, *resource_version, *job, *part_of;
    const char *reason, *message;
    const char *promised_until, *waiting_since, *planned_at, *reserved_until;
    const char *moving, *moving_before, *moves;
    const char *const *parts;
    const struct placement_known_pod *pods; /* by rank, ascending */
    uint64_t epoch;
    uint32_t pod_count, part_count;
    enum gt_gpu_placement_phase phase;
};

struct placement_object {
    const char *namespace_, *name;
    struct placement_known *content; /* NULL: the API server has none, as far as we know */
    uint64_t epoch;                  /* the highest epoch seen under this name in this process */
    uint64_t ahead_ms;   /* an answer came before the watch: until then older versions are ignored; 0: no */
    uint64_t rest_ms;    /* back-off after the API server refused a write: none before then */
    struct write *write; /* waiting or in flight */
    void *job;           /* the placement controller's; NULL: the job has no pods */
    unsigned refusals;   /* refused writes in a row */
    char *refusal;       /* the answer to the last of them; NULL: none was refused */
    bool is_part;        /* `content` is an intact part of a plan */
    bool acknowledged;   /* this leader wrote `content` in its term */
    bool is_unknown;     /* the result of a write of ours is unknown: it has to be read again */
    bool relisted;       /* the next state counts even with a lower version, see gt_placement_on_relist() */
    char names[];
};

struct placement_objects {
    struct gt_table table;
};

/* A write of it has succeeded. */
void gt_placement_object_clear_refusal(struct placement_object *object);

/* NULL where it is not known. */
struct placement_object *gt_placement_object_find(const struct placement_objects *objects,
                                                  const char *namespace_, const char *name);
/* Finds it, or adds an empty one; NULL: too many, or no memory. */
struct placement_object *gt_placement_object_get(struct placement_objects *objects, const char *namespace_,
                                                 const char *name);
/* A state from the watch; takes over `placement`. False: a newer state is known. Without memory is_unknown is
 * set, here and in the next function. */
bool gt_placement_object_observe(struct placement_object *object, struct gt_gpu_placement *placement,
                                 uint64_t now);
/* The answer to our own request; takes over `placement`, NULL: the object does not exist. `written`: it is
 * what we wrote. */
void gt_placement_object_answered(struct placement_object *object, struct gt_gpu_placement *placement,
                                  bool written, uint64_t now);
/* Takes it out and frees it. */
void gt_placement_object_drop(struct placement_objects *objects, struct placement_object *object);
/* Iterates; *slot is 0 at first. NULL: no more. None may be added meanwhile; after dropping the returned
 * object, decrement *slot. */
struct placement_object *gt_placement_objects_next(const struct placement_objects *objects, size_t *slot);
void gt_placement_objects_done(struct placement_objects *objects);

/* The job's object that a part belongs to; for other objects the object itself. */
struct placement_object *gt_placement_object_head(const struct placement_objects *objects,
                                                  struct placement_object *object);
/* Whether the object names this part as one of its plan. */
bool gt_placement_object_names(const struct placement_object *object, const char *part);

/* The plan of a job's object, in itself or in its parts. Valid until one of them changes. */
struct placement_plan {
    const struct placement_known *slices[GT_GPU_PLACEMENT_PARTS_MAX];
    uint32_t count;
};
/* False where the plan is not known: there is no object, or a part is missing or was changed. `object` may be
 * NULL. */
bool gt_placement_object_plan(const struct placement_objects *objects, const struct placement_object *object,
                              struct placement_plan *ret);
/* The node of the pod of a rank, and the mask of its GPUs; NULL: the plan has no place for it. */
const char *gt_placement_plan_place(const struct placement_plan *plan, uint32_t rank, uint64_t *ret_gpus);
/* The same of its pod number `at`, counted from 0 in the plan's order. */
const char *gt_placement_plan_at(const struct placement_plan *plan, uint32_t at, uint64_t *ret_gpus);
/* Number of pods with a place in the plan. */
uint32_t gt_placement_plan_pods(const struct placement_plan *plan);

/* ---- content.c ---- */
/* Conversion between the view of a job and its GPUPlacement. No I/O, no clock. */

struct placement_content {
    struct gt_gpu_placement object; /* texts are borrowed from view, cache and owner, or are below */
    const char **nodes, **units;
    struct gt_gpu_placement_pod *pods;
    struct gt_gpu_placement_template *templates;
    char *parts[GT_GPU_PLACEMENT_PARTS_MAX];
    struct gt_buf texts; /* of the units, one after the other */
    struct gt_buf where;
};

/* Fills in the job's request and its plan; the caller fills in name, phase, reason, message, epoch and times.
 * `view` NULL: neither is known. Call gt_placement_content_done() in any case. */
int gt_placement_content_make(const struct gt_cache_job *job, const struct gt_job_view *view,
                              const struct gt_owner *owner, struct placement_content *ret,
                              struct gt_err **err);
void gt_placement_content_done(struct placement_content *content);
#define auto_placement_content __attribute__((cleanup(gt_placement_content_done)))

/* Whether a member's place is the one that the object names. */
enum placement_match {
    PLACEMENT_MATCHES,
    PLACEMENT_UNNAMED, /* the object has no place for it */
    PLACEMENT_DIFFERS,
};
enum placement_match gt_placement_match(const struct gt_cluster *cluster, const struct placement_plan *plan,
                                        uint32_t rank, uint32_t node, uint64_t mask);

/* Whether the object names exactly this place, this leader wrote it, the API server has acknowledged it, and
 * no other write of it is in flight. */
bool gt_placement_is_acknowledged(const struct gt_cluster *cluster, const struct placement_objects *objects,
                                  const struct placement_object *object, uint32_t rank, uint32_t node,
                                  uint64_t mask);

/*
 * For a new leader: takes over the plan as far as its places are still available: gated pods without a plan
 * are planned, and places are reserved for missing pods: until `until` where the job needs them in any case,
 * and until `promised_until` where it has begun.
 */
struct placement_adopt {
    uint64_t until, promised_until;
    bool moves, all_move;    /* pods on other places than planned have to leave; all pods have to */
    uint64_t leave_before_s; /* only pods created until then */
    uint64_t moving_until;   /* end of the reservations for their successors */
};
void gt_placement_adopt(struct gt_job_view *view, const struct gt_owner *owner,
                        const struct placement_plan *plan, const struct placement_adopt *adopt);
