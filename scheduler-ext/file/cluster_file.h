/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "scheduler-ext/core/cluster.h"

/*
 * A cluster as a JSON file (docs/reference/cluster-file.md, docs/cluster.schema.json): nodes, supernodes and,
 * for advice, the running pods.
 */
enum {
    GT_CLUSTER_PODS_MAX = 1 << 17,
    GT_CLUSTER_FILE_MAX = 64 << 20,  /* bytes: enough for the most nodes and pods */
    GT_CLUSTER_VALUES_MAX = 4000000, /* JSON values, likewise */
    GT_CLUSTER_GPU_WEIGHT = 64, /* GB/s between any two GPUs of a node that is given as a number of GPUs */
};

struct gt_cluster_pod {
    char *name;
    char *job;          /* "" not known */
    unsigned unit_gpus; /* of its unit, or of its atom; 0: it has none */
};

struct gt_cluster_file {
    struct gt_cluster *cluster; /* node ids are the positions in the file */
    struct gt_cluster_pod *pods;
    struct gt_running_pod *running; /* [pod] their jobs are not numbered; none of their GPUs is free */
    uint32_t pod_count;
};

/* Reads a file of at most GT_CLUSTER_FILE_MAX bytes. The error is one line with the file, the line number and
 * the cause. gt_cluster_file_free() frees *ret. */
int gt_cluster_file_read(const char *path, struct gt_cluster_file **ret, struct gt_err **err);

/* The same from a text; `source` is the name in errors. */
int gt_cluster_file_parse(const char *text, size_t len, const char *source, struct gt_cluster_file **ret,
                          struct gt_err **err);

void gt_cluster_file_free(struct gt_cluster_file *file);
GT_DEFINE_CLEANUP(struct gt_cluster_file *, gt_cluster_file_free)
#define gt_auto_cluster_file GT_CLEANUP(gt_cluster_file_free)

struct gt_err;

/* Decisions that a companion has kept (core/decision_log.h, docs/reference/bundle.md), made again. */
enum { GT_DECISION_LINE_MAX = 16 << 20 };

struct gt_decision_again {
    uint64_t number;
    const char *job, *time;      /* "" not known */
    const char *recorded, *made; /* the same bytes: nothing has changed */
};

struct gt_decision_file {
    void (*on_decision)(void *arg, const struct gt_decision_again *again);
    void *arg;
};

/* Makes each plan of these lines of JSON again. An invalid line is -EINVAL: "SOURCE: line 3: ..."; those
 * before it were told. */
int gt_decision_file_run(const char *text, size_t len, const char *source,
                         const struct gt_decision_file *file, struct gt_err **err);
