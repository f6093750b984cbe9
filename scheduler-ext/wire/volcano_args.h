/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_VOLCANO_ARGS_H
#define GPUTOPO_WIRE_VOLCANO_ARGS_H

#include "scheduler-ext/wire/names.h"
#include "scheduler-ext/wire/pod.h"

/*
 * Volcano's extender plugin: what it posts to predicate {task, node} and to prioritize {task, nodes}, and the
 * answers. A body contains all pods of every node, 50 MB and more: they are skipped, and so is the task's own
 * pod. Unknown members are skipped, too, since they differ from version to version.
 *
 * Used like gt_extender_reader. Most memory for any body: 13 MB for names, 2 MB for nodes, 0.5 MB for the
 * scanner; after a reset 1.5 MB in all.
 */

#define GT_VOLCANO_UNKNOWN INT64_MIN

struct gt_volcano_node {
    /* Amounts of the resource, in thousandths of a GPU, as counted by Volcano in this session, with the pods
     * that it has just allocated. 0 where the node's Resource does not contain it; GT_VOLCANO_UNKNOWN where
     * the node has no such Resource, or the amount is invalid. */
    int64_t idle_milli, used_milli, releasing_milli, pipelined_milli;
};

struct gt_volcano_args {
    const char *task_namespace, *task_name, *task_uid, *task_job; /* "" where the text has none */
    uint32_t gpus;                                                /* whole GPUs from Resreq; 0: none */
    struct gt_wire_names nodes;                                   /* predicate: one */
    const struct gt_volcano_node *node;
};

enum gt_volcano_verb { GT_VOLCANO_PREDICATE, GT_VOLCANO_PRIORITIZE };

struct gt_volcano_reader;

/* NULL without memory. */
struct gt_volcano_reader *gt_volcano_reader_new(enum gt_volcano_verb verb);
void gt_volcano_reader_free(struct gt_volcano_reader *reader);
GT_DEFINE_CLEANUP(struct gt_volcano_reader *, gt_volcano_reader_free)
#define gt_auto_volcano_reader GT_CLEANUP(gt_volcano_reader_free)

/* As for gt_extender_reader. */
int gt_volcano_reader_feed(struct gt_volcano_reader *reader, const void *bytes, size_t len,
                           struct gt_err **err);
int gt_volcano_reader_finish(struct gt_volcano_reader *reader, const struct gt_volcano_args **ret,
                             struct gt_err **err);
size_t gt_volcano_reader_held(const struct gt_volcano_reader *reader);
void gt_volcano_reader_reset(struct gt_volcano_reader *reader);

enum gt_volcano_code { /* of a predicate that refuses */
                       GT_VOLCANO_ERROR = 1,
                       GT_VOLCANO_UNSCHEDULABLE = 2,
                       GT_VOLCANO_UNRESOLVABLE = 3, /* preempting would not help */
};

/* `reason` NULL: the task fits. Volcano decides by the text: an empty one would mean that the task fits. */
void gt_predicate_answer(struct gt_buf *to, const char *reason, enum gt_volcano_code code);

/* One score for each node, which Volcano adds to the scores of the other plugins; one that is not finite
 * counts as 0. */
void gt_node_score_answer(struct gt_buf *to, const struct gt_volcano_args *args, const double *scores);

#endif
