/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>
#include <time.h>

/* Times as texts, by RFC 3339 and in UTC: "2026-01-31T12:00:00Z". Kubernetes writes all times in this form.
 */
enum { GT_TIME_TEXT_SIZE = 40 };

/* Unix time as such a text; empty if its year does not have four digits. */
void gt_time_text(int64_t unix_s, char ret[static GT_TIME_TEXT_SIZE]);

/* The same with a fraction of `digits` digits, 0 to 9: "2026-01-31T12:00:00.250Z". */
void gt_time_text_fine(const struct timespec *when, unsigned digits, char ret[static GT_TIME_TEXT_SIZE]);

/* The Unix time of such a text, in whole seconds. 0 for NULL, an invalid text, or a time before 1970. */
int64_t gt_time_of_text(const char *text);

/* A span of time: "119 s", "2 min", "5 h", "4 d"; "0 s" if it is negative. Returns `ret`. */
const char *gt_time_span_text(int64_t seconds, char ret[static GT_TIME_TEXT_SIZE]);
