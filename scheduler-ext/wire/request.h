/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "api/pod.h"
#include "base/buf.h"

/*
 * Takes some fields out of a JSON text that comes in pieces, and drops all others as they come: of 50 MB that
 * Volcano posts, 50 KB are needed. What is left is JSON again, for base/json.h, which finds all mistakes in
 * it. Of what is dropped only strings and the depth of brackets are looked at.
 */
struct gt_field {
    const char *name;              /* the case of its letters does not matter, as in Go */
    const struct gt_field *fields; /* of the object, or of the objects in the array; NULL: the whole value */
    bool dropped;                  /* this one is not taken */
    bool others;                   /* of the last, without a name: the fields that are not named are taken */
};

enum { GT_FIELD_DEPTH_MAX = 8, GT_FIELD_NAME_SIZE = 64 };

struct gt_field_level { /* an object or array of which only some fields are taken */
    const struct gt_field *fields;
    bool is_array, has_fields;
    uint64_t seen; /* a bit for each field */
};

struct gt_field_reader {
    struct gt_buf text; /* what is left; the caller sets the limit */

    /* For fields.c: all zeros at the start of a text. */
    struct gt_field_state {
        enum gt_field_at {
            GT_AT_VALUE,
            GT_AT_KEY,
            GT_IN_KEY,
            GT_AT_COLON,
            GT_IN_TAKEN,
            GT_IN_DROPPED,
            GT_AFTER_VALUE,
        } at;
        unsigned depth;
        struct gt_field_level levels[GT_FIELD_DEPTH_MAX + 1];
        const struct gt_field *wanted; /* the fields of the value that comes */
        char key[GT_FIELD_NAME_SIZE];
        unsigned key_len;
        bool in_string, escaped;
        uint32_t nested; /* brackets that are open in a value that is taken or dropped as a whole */
        uint64_t offset; /* of the piece */
    } state;
};

/* -EINVAL: no JSON, -EMSGSIZE: beyond a limit; then no more pieces may follow. */
int gt_field_reader_feed(struct gt_field_reader *reader, const struct gt_field *fields, const char *bytes,
                         size_t len, struct gt_err **err);

/* For the next text. A buffer of more than `kept` bytes is freed. */
void gt_field_reader_reset(struct gt_field_reader *reader, size_t kept);

/*
 * What the schedulers post to their HTTP extenders: kube-scheduler's ExtenderArgs and ExtenderPreemptionArgs,
 * and the {task, node} or {task, nodes} of Volcano's plugin, which has whole nodes with all their pods. The
 * pod is read as every other (api/pod.h); of whole nodes only what is needed. kube-scheduler has to send
 * names (nodeCacheCapable: true).
 *
 *     gt_wire_request_feed() for each piece of the body, then gt_wire_request_read(), then the members, then
 *     gt_wire_request_reset() for the next body, which reuses the memory.
 */

enum {
    GT_WIRE_NODES_MAX = 65536,
    GT_WIRE_TEXT_MAX = 24 << 20,   /* bytes of the body without what is dropped */
    GT_WIRE_VALUES_MAX = 400000,   /* JSON values in that */
    GT_WIRE_ANSWER_MAX = 64 << 20, /* bytes, for the gt_buf that an answer is written to */
};

enum gt_wire_verb {
    GT_WIRE_FILTER,
    GT_WIRE_PRIORITIZE,
    GT_WIRE_PREEMPT,
    GT_WIRE_VOLCANO_PREDICATE,
    GT_WIRE_VOLCANO_PRIORITIZE,
    GT_WIRE_VERBS
};

struct gt_wire_request {
    enum gt_wire_verb verb;
    struct gt_pod pod;
    uint32_t count;     /* of nodes; predicate: one */
    const char **nodes; /* their names */
    /* Volcano: whole GPUs of each node that are idle in its session, with the pods that it has just
     * allocated; -1: not known. */
    int32_t *idle;
    const cJSON **victims; /* preempt: of each node an object with Pods and NumPDBViolations */

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
size_t gt_wire_request_bytes(const struct gt_wire_request *request);

/* ---- answers ---- */

/* The result of filter for a node. */
struct gt_filter_verdict {
    const char *reason; /* NULL: the pod may go there */
    bool unresolvable;  /* preempting pods there would not help */
};

/* Writes an ExtenderFilterResult from one verdict for each node. */
void gt_filter_answer(struct gt_buf *to, const struct gt_wire_request *request,
                      const struct gt_filter_verdict *verdicts);

/* Writes that the filter failed as a whole: the pod is not scheduled in this attempt, unless the extender is
 * ignorable. */
void gt_filter_error(struct gt_buf *to, const char *error);

/* Writes a HostPriorityList from one score for each node, 0 to 10; a higher one is cut to 10. */
void gt_prioritize_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *scores);

/* Writes an ExtenderPreemptionResult of the nodes for which `keep` is not 0. */
void gt_preempt_answer(struct gt_buf *to, const struct gt_wire_request *request, const uint8_t *keep);

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
