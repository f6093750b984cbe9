/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cjson/cJSON.h>
/*
 * The annotation GT_ANNOTATION_MOVABLE of a pod, which says when it may move for others: "true" at any time;
 * "6h" (a number of s, m, h or d) when it has run for so long; "22:00-06:00" in these hours of the day, by
 * UTC; "after-checkpoint" when it has written one, for which it is asked with GT_ANNOTATION_CHECKPOINT_ASKED
 * and which it tells with the same value of GT_ANNOTATION_CHECKPOINT_DONE; "false" never.
 */
struct gt_movable {
    bool never, after_checkpoint;
    uint64_t after_s;     /* it has run for so long */
    uint32_t from, until; /* minutes of the day; equal: at any time */
};

/* False: it is none of these. */
bool gt_movable_read(const char *text, struct gt_movable *ret);

/* Whether the pod may move now, after a checkpoint where it wants one. Unix times. */
bool gt_movable_is_due(const struct gt_movable *movable, uint64_t created_s, uint64_t now_s);

/*
 * The annotation GT_ANNOTATION_RESERVED of a Node or a Supernode: people reserve it. "UNTIL", a time, with
 * "from=TIME" and "for=NAMESPACE" or "for=NAMESPACE/KIND/NAME" behind it where they are wanted, with spaces
 * between them. Without `for` it is for nobody.
 */
struct gt_reserved {
    int64_t from_s, until_s; /* Unix times; from_s 0: from now on */
    const char *for_;        /* not terminated */
    size_t for_len;
};

/* False: it is none. *ret points into the text. */
bool gt_reserved_read(const char *text, struct gt_reserved *ret);

/* Whether it keeps this job off at that time; `job` NULL: any. The key is gt_job_key(). */
bool gt_reserved_keeps_off(const struct gt_reserved *reserved, const char *job, int64_t now_s);

/*
 * Warnings about annotations of ours that do nothing as they are: a key that is nearly one of ours, a label
 * in place of an annotation, or one that stands where it is not read. The API server shows them to the
 * client.
 */
enum {
    GT_KEY_WARNINGS_MAX = 5,   /* of one object; further ones are left out */
    GT_KEY_WARNING_SIZE = 256, /* the API server cuts longer ones */
};

struct gt_key_warnings {
    unsigned count;
    char texts[GT_KEY_WARNINGS_MAX][GT_KEY_WARNING_SIZE];
};

/* Each text once. */
void gt_key_warnings_add(struct gt_key_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Checks the keys of an object and of all pod templates in it. */
void gt_user_keys_check(const cJSON *object, struct gt_key_warnings *to);

/* A key that users write for jobs, as an annotation of its own metadata or of a pod template's; NULL: it has
 * none. */
const char *gt_user_keys_any(const cJSON *object);
