/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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
