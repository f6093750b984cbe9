/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"
#include "scheduler-ext/file/cluster_file.h"
#include "topology/model/node_json.h"

/* What the files of the cluster file reader share. */

/* A placeholder in errors, which cluster_file.c replaces with the file name and the line. */
#define READER_SOURCE "@"

enum { READER_NAME_SIZE = GT_CLUSTER_NAME_MAX + 1, READER_PATH_SIZE = 48 };

struct cluster_reader {
    struct gt_cluster_file *file;
    struct gt_err **err;
    struct gt_class_cache *classes;
    uint32_t count_class[GT_GPUS_MAX + 1]; /* [GPUs] of nodes given as a number; GT_NONE: not made yet */
    bool supernodes_given, sizes_given;
    uint32_t node_count;
    bool *free_given; /* [node] */
};

/* Names with their index in the file, sorted: to find a name, and to detect duplicates. */
struct named {
    const char *name;
    uint32_t index;
};

/* Adds the path in the file to an error of the core. */
static inline int gt_reader_wrap(const struct gt_at *at, int r)
{
    return r < 0 ? gt_wrap(at->err, READER_SOURCE ": %s", at->path) : r;
}

int gt_reader_object(const struct gt_at *at, const cJSON *json);

int gt_reader_supernodes(struct cluster_reader *reader, const cJSON *array, uint32_t count);
int gt_reader_nodes(struct cluster_reader *reader, const cJSON *array);
int gt_reader_pods(struct cluster_reader *reader, const cJSON *array, uint32_t count);
