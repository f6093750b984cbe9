/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/owner.h"
#include "api/pod.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/plan.h"

/*
 * The rules of the annotations (docs/reference/jobs.md): their texts give sizes; sizes and pods give the
 * units that gt_plan_job() places. A broken rule is -EINVAL with one sentence for the author of the job.
 */
enum { GT_GROUP_MAX = GT_CHAIN_SIZE_MAX }; /* GPUs */

/* Those of a template, and of a pod, which are borrowed. */
struct gt_job_texts gt_job_template_texts(const struct gt_job_template *template, const char *where);
struct gt_job_texts gt_job_pod_texts(const struct gt_pod_meta *pod, const char *where);
/* Pods of an earlier state of the templates keep what they were made with. The pods' texts follow those of
 * `templates` templates. */
void gt_job_texts_keep(struct gt_job_texts *texts, uint32_t templates, uint32_t count);

/* What happens to a unit that loses a node (docs/reference/placement-controller.md). */
enum gt_on_node_loss {
    GT_ON_NODE_LOSS_WAIT, /* it waits for room in its supernode */
    GT_ON_NODE_LOSS_UNIT, /* it moves as a whole */
    GT_ON_NODE_LOSS_JOB,  /* it moves, and all other pods of the job restart */
};

struct gt_job_sizes {
    uint32_t group, atomic; /* GPUs; 0: not given */
    bool whole;             /* all pods are one unit: `group` is known with them */
    bool of_group;          /* the job is a group of a larger one, and sentences say so */
    enum gt_on_node_loss loss;
    bool spread; /* the jobs of its object lie in different supernodes where they can */
    enum gt_slow_use slow;
    bool flat; /* the job is not brought together above the supernode */
    unsigned within,
        unit_within; /* tiers: the job, or each of its units, lies in one such supernode; 0: not asked */
    bool recreate;   /* where its pods run without a plan, all of them are evicted and it is placed again */
};

/* What a pod alone says of slow GPUs; AVOID where that is not known. */
enum gt_slow_use gt_job_slow_use(const char *text);

/* An annotation on one template counts for the whole job; templates must not contradict each other. */
int gt_job_sizes_read(const struct gt_job_texts *texts, uint32_t count, struct gt_job_sizes *ret,
                      struct gt_err **err);

struct gt_job_pod {
    const unsigned *gpus; /* of each container */
    unsigned containers;
    uint64_t requests; /* struct gt_numa_pod */
};

/* The sum of all containers' GPUs, at most UINT32_MAX. */
uint32_t gt_job_pod_gpus(const struct gt_job_pod *pod);

struct gt_job_units {
    struct gt_plan_unit *units; /* NULL: the job has no units: gpu-aware places its pods one by one */
    uint32_t count;
    const char *warning; /* a sentence about an annotation without effect; NULL: none */
};

/*
 * Divides pods (in rank order, each with one GPU or more) into units. Without a group size there are none.
 * Units are hard without an atomic size, or where it equals the group size. Sets the group size where it is
 * the whole job. The caller frees the units with gt_job_units_done().
 */
int gt_job_units_make(struct gt_job_sizes *sizes, const struct gt_job_pod *pods, uint32_t count,
                      struct gt_job_units *ret, struct gt_err **err);

void gt_job_units_done(struct gt_job_units *units);
