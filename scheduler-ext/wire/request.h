/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_REQUEST_H
#define GPUTOPO_WIRE_REQUEST_H

#include "api/pod.h"
#include "scheduler-ext/wire/fields.h"

/*
 * What the schedulers post to their HTTP extenders: kube-scheduler's ExtenderArgs, and the {task, node} or
 * {task, nodes} of Volcano's plugin, which has whole nodes with all their pods. The pod is read as every
 * other (api/pod.h); of whole nodes only what is needed.
 *
 *     gt_wire_request_feed() for each piece of the body, then gt_wire_request_read(), then the members, then
 *     gt_wire_request_reset() for the next body, which reuses the memory.
 */

enum {
    GT_WIRE_NODES_MAX = 65536,
    GT_WIRE_TEXT_MAX = 24 << 20,   /* bytes of the body without what is dropped */
    GT_WIRE_VALUES_MAX = 400000,   /* JSON values in that */
    GT_WIRE_COPIES_MAX = 40 << 20, /* bytes of Node objects that are copied */
    GT_WIRE_ANSWER_MAX = 64 << 20  /* bytes, for the gt_buf that an answer is written to */
};

enum gt_wire_verb {
    GT_WIRE_FILTER,
    GT_WIRE_PRIORITIZE,
    GT_WIRE_VOLCANO_PREDICATE,
    GT_WIRE_VOLCANO_PRIORITIZE,
    GT_WIRE_VERBS
};

struct gt_wire_request {
    enum gt_wire_verb verb;
    struct gt_pod pod;
    uint32_t count;     /* of nodes; predicate: one */
    const char **nodes; /* their names */
    /* kube-scheduler: NodeNames was given (nodeCacheCapable: true), not Nodes. */
    bool by_name;
    /* Filter with Nodes, which the answer must repeat: the text of node i is `copies` from ends[i - 1] to
     * ends[i]; else NULL. */
    const char *copies;
    const uint32_t *ends;
    /* Volcano: whole GPUs of each node that are idle in its session, with the pods that it has just
     * allocated; -1: not known. */
    int32_t *idle;

    struct gt_field_reader reader;
    cJSON *json; /* has all texts */
};

/* NULL without memory. */
struct gt_wire_request *gt_wire_request_new(enum gt_wire_verb verb);
void gt_wire_request_free(struct gt_wire_request *request);
GT_DEFINE_CLEANUP(struct gt_wire_request *, gt_wire_request_free)
#define gt_auto_wire_request GT_CLEANUP(gt_wire_request_free)

/* -EINVAL: not such a body; -EMSGSIZE: beyond a limit. After a failure only the reset may follow. */
int gt_wire_request_feed(struct gt_wire_request *request, const char *bytes, size_t len, struct gt_err **err);
/* The same of the whole body, whose end has come. */
int gt_wire_request_read(struct gt_wire_request *request, struct gt_err **err);
void gt_wire_request_reset(struct gt_wire_request *request);

/* Bytes of memory that it uses until the body is complete. Its JSON tree, which is there until the reset,
 * takes up to 100 bytes for each value besides. */
size_t gt_wire_request_held(const struct gt_wire_request *request);

/* ---- answers ---- */

/* The result of filter for a node. */
struct gt_filter_verdict {
    const char *reason; /* NULL: the pod may go there */
    bool unresolvable;  /* preempting pods there would not help */
};

/* Writes an ExtenderFilterResult from one verdict for each node. Nodes that were given and copied are
 * repeated, otherwise only their names are written: docs/how-to/score-nodes-by-topology.md says what the
 * scheduler loses then. */
void gt_filter_answer(struct gt_buf *to, const struct gt_wire_request *request,
                      const struct gt_filter_verdict *verdicts);

/* Writes that the filter failed as a whole: the pod is not scheduled in this attempt, unless the extender is
 * ignorable. */
void gt_filter_error(struct gt_buf *to, const char *error);

/* Writes a HostPriorityList from one score for each node, 0 to 10; a higher one is cut to 10. */
void gt_prioritize_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *scores);

enum gt_volcano_code { /* of a predicate that refuses */
                       GT_VOLCANO_ERROR = 1,
                       GT_VOLCANO_UNSCHEDULABLE = 2,
                       GT_VOLCANO_UNRESOLVABLE = 3, /* preempting would not help */
};

/* `reason` NULL: the task fits. Volcano decides by the text: an empty one would mean that the task fits. */
void gt_predicate_answer(struct gt_buf *to, const char *reason, enum gt_volcano_code code);

/* One score for each node, which Volcano adds to the scores of the other plugins; one that is not finite
 * counts as 0. */
void gt_node_score_answer(struct gt_buf *to, const struct gt_wire_request *request, const double *scores);

#endif
