/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"

/*
 * GPUPlacement: what a job asks for, and its plan. There is one for each job; only the companion writes it. A
 * plan that is too large for one object is split into parts, objects of the same kind that the job's object
 * names: a part is written once and never changed, and its name depends on its content.
 */

enum gt_gpu_placement_phase {
    GT_GPU_PLACEMENT_PENDING, /* some of its pods or its owner do not exist yet */
    GT_GPU_PLACEMENT_WAITING, /* it does not fit now */
    GT_GPU_PLACEMENT_PLACED,  /* the plan is valid */
    GT_GPU_PLACEMENT_STALLED, /* some of its planned pods are refused, or have lost their places */
    GT_GPU_PLACEMENT_REFUSED, /* it cannot be placed as it is */
    GT_GPU_PLACEMENT_PART,    /* it is a part of another one's plan */
    GT_GPU_PLACEMENT_PHASES,
};

enum {
    GT_GPU_PLACEMENT_PODS_MAX = 16384, /* also the limit of nodes and of units */
    GT_GPU_PLACEMENT_PARTS_MAX = 128,  /* enough for all pods that a job may have, with the longest names */
    GT_GPU_PLACEMENT_TEMPLATES_MAX = 64,
    GT_GPU_PLACEMENT_SIZE_MAX = 1 << 23, /* GPUs in a group */
    GT_GPU_PLACEMENT_JOB_MAX = 512,      /* bytes of a job's key */
    GT_GPU_PLACEMENT_MESSAGE_MAX = 4096, /* bytes */
    GT_GPU_PLACEMENT_MOVES_MAX = 16384,  /* bytes */
    GT_GPU_PLACEMENT_SUPERS_MAX = 4096,  /* bytes of the text of a unit's supernodes */
    GT_GPU_PLACEMENT_TEXT_MAX = 1540000, /* bytes of an object: etcd takes requests of 1.5 MiB, and the API
                                            server adds less than 32 KiB */
    GT_GPU_PLACEMENT_PLAN_MAX = GT_GPU_PLACEMENT_TEXT_MAX - (64 << 10), /* bytes of the plan in it */
};

struct gt_gpu_placement_pod {
    uint32_t rank, unit, node; /* the last two are positions in the tables */
    uint64_t gpus;             /* mask */
    const char *name;          /* NULL if it follows from the rank */
};

struct gt_gpu_placement_template {
    const char *role;                                    /* "" if the kind has none */
    uint32_t pods, gpus /* of one pod */, group, atomic; /* sizes in GPUs, 0: none */
    const char *claim; /* the ResourceClaimTemplate by which its pods get their GPUs; "": by limits */
};

/* Texts are "" if there is none. A text that is too long for the reader is cut when it is written. */
struct gt_gpu_placement {
    const char *namespace_, *name;
    const char *uid, *resource_version; /* "" before it was created */
    /* of the first owner; kind "": none */
    const char *owner_api_version, *owner_kind, *owner_name, *owner_uid;
    /* spec */
    const char *job;     /* gt_job_key() */
    const char *part_of; /* a part: the name of the job's object */
    const struct gt_gpu_placement_template *templates;
    unsigned template_count;
    int32_t priority;
    const char *on_lost_plan; /* "Report", "Recreate" */
    /* status */
    enum gt_gpu_placement_phase phase;
    const char *reason, *message; /* a word, a sentence */
    const char *behind;           /* the job that is before it in the queue */
    const char *where;            /* the supernodes and nodes, for human readers */
    uint64_t epoch;
    const char *const *nodes;
    uint32_t node_count;
    const char *const *units; /* the supernodes of each unit, "sn-1,sn-2" */
    uint32_t unit_count;
    const struct gt_gpu_placement_pod *pods; /* by rank, ascending */
    uint32_t pod_count;
    const char *const *parts; /* names; nodes, units and pods are then in these objects */
    uint32_t part_count;
    /* until when places of pods that do not exist are reserved; times are RFC 3339 */
    const char *promised_until;
    const char *waiting_since, *planned_at;
    const char *reserved_until; /* until when nodes are or were reserved for it while it waits */
    /* "Unit": pods that are not where they are planned must be removed; "Job": all pods. Only pods that were
     * created until `moving_before`, by the API server's clock. */
    const char *moving, *moving_before;
    /* The moves that are made so that it fits, a word a unit: "NAMESPACE/POD/UID=NODE,NAMESPACE/...", after
     * the word "room=NODE,NODE", the nodes that it gets then. */
    const char *moves;
};

/* -EINVAL with the path of what is invalid. *ret is one block with its texts; free it with
 * free(). */
int gt_gpu_placement_read(const cJSON *object, struct gt_gpu_placement **ret, struct gt_err **err);

/* Appends the whole object, for a create. */
void gt_gpu_placement_write(const struct gt_gpu_placement *placement, struct gt_buf *to);

/*
 * Appends a merge patch of all that may change once it is created: templates, priority, onLostPlan and the
 * status. Uid and resourceVersion are in it as preconditions. If not `with_plan`, nodes, units, pods and
 * parts stay as they are in the object.
 */
void gt_gpu_placement_write_patch(const struct gt_gpu_placement *placement, bool with_plan,
                                  struct gt_buf *to);

/*
 * Appends the name of the object of a job: "pytorchjob-demo". `kind` is the part between namespace and name
 * in the key of the job, so it may contain a '/'. If the name had to be changed to be valid, it ends with a
 * digest.
 */
void gt_gpu_placement_name(const char *kind, const char *job, struct gt_buf *to);

/*
 * Appends the name of a part: "part.pytorchjob-demo-" with a digest of its epoch and its plan. Names of a
 * job's object never have a '.' before the first '-', so the two cannot be equal.
 */
void gt_gpu_placement_part_name(const struct gt_gpu_placement *part, struct gt_buf *to);

/* Whether it is a part, and its content matches its name. */
bool gt_gpu_placement_is_part(const struct gt_gpu_placement *placement);

/*
 * The part of a plan that fits in one object, from pod `first` on: its pods, with their nodes and units.
 * False without memory.
 */
struct gt_gpu_placement_slice {
    const char **nodes, **units; /* owned; their texts are those of the whole plan */
    struct gt_gpu_placement_pod *pods;
    uint32_t node_count, unit_count, pod_count;
    size_t size; /* bytes of its text */
};
bool gt_gpu_placement_slice(const struct gt_gpu_placement *whole, uint32_t first, uint32_t max_pods,
                            struct gt_gpu_placement_slice *ret);
void gt_gpu_placement_slice_done(struct gt_gpu_placement_slice *slice);
