/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_EXTENDER_ARGS_H
#define GPUTOPO_WIRE_EXTENDER_ARGS_H

#include "scheduler-ext/wire/names.h"
#include "scheduler-ext/wire/pod.h"

/*
 * kube-scheduler's HTTP extender: what it posts to filter and to prioritize (ExtenderArgs), and the answers.
 *
 *     gt_extender_reader_feed() for each piece of the body, then gt_extender_reader_finish(), then use the
 *     args, then gt_extender_reader_reset() for the next request, which reuses the memory.
 *
 * Most memory of a reader for any body: 13 MB for names and offsets, GT_WIRE_KEPT_MAX where nodes are copied,
 * 0.5 MB for the scanner; after a reset 1.5 MB in all. The caller limits the memory of all active readers.
 */

enum {
    GT_WIRE_KEPT_MAX = 40 << 20,  /* bytes of copied Node objects */
    GT_WIRE_ANSWER_MAX = 64 << 20 /* bytes, for the gt_buf that an answer is written to */
};

struct gt_extender_args {
    struct gt_wire_pod pod;
    struct gt_wire_names nodes;
    bool by_name; /* NodeNames was given (nodeCacheCapable: true), not Nodes */
    /* With keep_nodes: text of node i from kept_offsets[i] to kept_offsets[i + 1]; else NULL */
    const char *kept;
    const uint32_t *kept_offsets;
};

struct gt_extender_reader;

/* `keep_nodes`: for filter, since with nodeCacheCapable false the answer must repeat whole Node objects. NULL
 * without memory. */
struct gt_extender_reader *gt_extender_reader_new(bool keep_nodes);
void gt_extender_reader_free(struct gt_extender_reader *reader);
GT_DEFINE_CLEANUP(struct gt_extender_reader *, gt_extender_reader_free)
#define gt_auto_extender_reader GT_CLEANUP(gt_extender_reader_free)

/* Errors as gt_scan_feed(); a pod or node that is invalid is -EINVAL with a sentence. */
int gt_extender_reader_feed(struct gt_extender_reader *reader, const void *bytes, size_t len,
                            struct gt_err **err);

/* Bytes of memory that it uses now. */
size_t gt_extender_reader_held(const struct gt_extender_reader *reader);

/* *ret belongs to the reader, until its reset. */
int gt_extender_reader_finish(struct gt_extender_reader *reader, const struct gt_extender_args **ret,
                              struct gt_err **err);
void gt_extender_reader_reset(struct gt_extender_reader *reader);

/* The result of filter for a node. */
struct gt_filter_verdict {
    const char *reason; /* NULL: the pod may go there */
    bool unresolvable;  /* preempting pods there would not help */
};

/* Writes an ExtenderFilterResult from one verdict for each node. Nodes that were given and copied are
 * repeated, otherwise only their names are written: docs/how-to/score-nodes-by-topology.md says what the
 * scheduler loses then. */
void gt_filter_answer(struct gt_buf *to, const struct gt_extender_args *args,
                      const struct gt_filter_verdict *verdicts);

/* Writes that the filter failed as a whole: the pod is not scheduled in this attempt, unless the extender is
 * ignorable. */
void gt_filter_error(struct gt_buf *to, const char *error);

/* Writes a HostPriorityList from one score for each node, 0 to 10; a higher one is cut to 10. */
void gt_prioritize_answer(struct gt_buf *to, const struct gt_extender_args *args, const uint8_t *scores);

#endif
