/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/view.h"
#include "scheduler-ext/file/cluster_file.h"

/*
 * `gputopo try`: what a cluster's Nodes and Pods say without any program of ours in it. try.c reads them,
 * try_find.c looks for jobs that lie apart, try_write.c writes what was found.
 *
 * Which GPUs of its node a pod has is known to the agent alone: here it is assumed, and counts only as a
 * number.
 */

/* A pod with GPUs that has not ended. */
struct try_pod {
    const char *job;  /* its key; equal texts are equal pointers once jobs are made */
    const char *name; /* "namespace/name" */
    unsigned gpus;
    struct gt_place place; /* its node in the picture; GT_NONE: it waits */
};

/* A job of several pods, or one with pods that wait. */
struct try_job {
    const char *name;
    const struct try_pod *pods;
    uint32_t count, waiting; /* its pods; those without a node */
    unsigned gpus;           /* of each pod; 0: not all have the same number, then nothing below is known */
    uint32_t supernodes;     /* that its running pods lie in */
    uint32_t needed;         /* that it would need in the empty cluster; 0: it does not fit there */
    uint32_t again;          /* that it would lie in if it was placed again now; 0: it has no place */
    bool is_apart;           /* it runs, in more than needed */
};

enum { TRY_FITS = 5 };

struct try_result {
    struct cli_view view;
    struct gt_cluster_file *file; /* the same cluster; node ids are the positions in the picture */
    struct try_pod *pods;
    uint32_t pod_count, alone; /* alone: nodes without a supernode's label */
    struct try_job *jobs;      /* those that lie apart first, then by GPUs */
    uint32_t job_count, apart, closer, waiting, mixed;
    unsigned unit_gpus; /* of the pods of which the units are */
    struct {
        uint32_t gpus, units;
    } fits[TRY_FITS];
    unsigned fit_count;
    uint32_t *empty[GT_GPUS_MAX + 1]; /* [GPUs of a pod] how many pods supernodes hold in the empty cluster,
                                         the most first; NULL: it was not asked for */
    const char *labels;               /* the keys that were looked for */
};

/* Fills `file` and all that is found in it, from the view and the pods. */
int try_find(struct try_result *result, struct gt_err **err);

void try_write_text(const struct try_result *result, struct gt_buf *to);
void try_write_json(const struct try_result *result, struct gt_buf *to);
/* One file with the text and a picture. */
void try_write_html(const struct try_result *result, struct gt_buf *to);
