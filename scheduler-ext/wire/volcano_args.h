/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_VOLCANO_ARGS_H
#define GPUTOPO_WIRE_VOLCANO_ARGS_H

#include "scheduler-ext/wire/names.h"
#include "scheduler-ext/wire/pod.h"

/*
 * Volcano's extender plugin: what it posts to predicate {task, node} and to prioritize {task, nodes}, and the
 * answers. A body has the whole pods of every node, 50 MB and more: they are passed over, and so is the
 * task's own. Members that are
 * not known are passed over too, since they differ from version to version.
 *
 * Used like gt_extender_reader. Most memory, whatever the body: 13 MB of names and 2 MB of nodes,
 * 0.5 MB of the scanner; after a reset 1.5 MB in all.
 */

#define GT_VOLCANO_UNKNOWN INT64_MIN

struct gt_volcano_node {
    /* Of the resource, in thousandths of a GPU as Volcano counts in this very session, pods included that it
     * allocated a moment ago. 0 where that Resource does not name it, GT_VOLCANO_UNKNOWN where the node has
     * no such Resource or an amount that is invalid. */
    int64_t idle_milli, used_milli, releasing_milli, pipelined_milli;
};

struct gt_volcano_args {
    const char *task_namespace, *task_name, *task_uid, *task_job; /* "" where the text has none */
    uint32_t gpus;                                                /* Resreq, whole GPUs; 0: it has none */
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

/* As with gt_extender_reader. */
int gt_volcano_reader_feed(struct gt_volcano_reader *reader, const void *bytes, size_t len,
                           struct gt_err **err);
int gt_volcano_reader_finish(struct gt_volcano_reader *reader, const struct gt_volcano_args **ret,
                             struct gt_err **err);
size_t gt_volcano_reader_held(const struct gt_volcano_reader *reader);
void gt_volcano_reader_reset(struct gt_volcano_reader *reader);

enum gt_volcano_code { /* of a predicate that says no */
                       GT_VOLCANO_ERROR = 1,
                       GT_VOLCANO_UNSCHEDULABLE = 2,
                       GT_VOLCANO_UNRESOLVABLE = 3, /* preempting would not help */
};

/* `reason` NULL: the task fits. Volcano goes by the text: an empty one would mean that it fits. */
void gt_predicate_answer(struct gt_buf *to, const char *reason, enum gt_volcano_code code);

/* One score a node, added to the sums of the other plugins as it is; one that is not finite counts 0. */
void gt_node_score_answer(struct gt_buf *to, const struct gt_volcano_args *args, const double *scores);

#endif
