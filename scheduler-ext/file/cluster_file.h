/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_FILE_CLUSTER_FILE_H
#define GPUTOPO_FILE_CLUSTER_FILE_H

#include "scheduler-ext/core/cluster.h"

/*
 * A cluster written down as JSON (docs/reference/cluster-file.md, docs/cluster.schema.json): nodes,
 * supernodes and, for advice, the pods that run.
 */
enum {
    GT_CLUSTER_PODS_MAX = 1 << 17,
    GT_CLUSTER_FILE_MAX = 64 << 20,    /* bytes: as many nodes and pods as there may be */
    GT_CLUSTER_VALUES_MAX = 4000000,   /* of JSON, likewise */
    GT_CLUSTER_TABLES_MAX = 512 << 20, /* bytes of loss tables, all classes */
    GT_CLUSTER_GPU_WEIGHT = 64,        /* between any two GPUs of a node that is only a count, GB/s */
};

struct gt_cluster_pod {
    char *name;
    char *job; /* "" not known */
    uint32_t node;
    uint64_t mask; /* the GPUs it uses; never free ones */
    uint32_t
        together; /* GPUs that must lie in one supernode with its own: of its atom, else its unit; 0: none */
    bool movable;
};

struct gt_cluster_file {
    struct gt_cluster *cluster; /* node ids are the positions in the file */
    struct gt_cluster_pod *pods;
    uint32_t pod_count;
};

/* Reads a file of at most GT_CLUSTER_FILE_MAX bytes. The error is one line with the file, the line number and
 * the cause. */
int gt_cluster_file_read(const char *path, struct gt_cluster_file **ret, struct gt_err **err);

/* The same from a text; `source` stands for the file in errors. */
int gt_cluster_file_parse(const char *text, size_t len, const char *source, struct gt_cluster_file **ret,
                          struct gt_err **err);

void gt_cluster_file_free(struct gt_cluster_file *file);
GT_DEFINE_CLEANUP(struct gt_cluster_file *, gt_cluster_file_free)
#define gt_auto_cluster_file GT_CLEANUP(gt_cluster_file_free)

#endif
