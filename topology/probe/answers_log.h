/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/json_get.h"
#include "topology/model/node.h"

/* A vendor call log (docs/probe-protocol.md) as a list of answers: for answers.h, and for readers of single
 * answers. Answers point into gt_answers.json and are valid until gt_answers_done(). */

enum {
    GT_VENDOR_DEVICES = 64, /* device numbers below this are read */
    GT_VENDOR_PORTS = 7,
    GT_VENDOR_LINK_NUMBERS = 8, /* links are queried by the numbers 0 to 7 */
    GT_ANSWER_ARGS_MAX = 3,
};

/* One entry of the log. */
struct gt_answer {
    const char *call;
    unsigned args[GT_ANSWER_ARGS_MAX];
    unsigned arg_count;
    const cJSON *value; /* NULL unless the call succeeded with a value of the documented form */
    long code;          /* return code, -1 where the call did not return */
    const char *why;    /* it hung, crashed, or broke its form; NULL if there is only a code */
};

struct gt_answers {
    cJSON *json;
    struct gt_answer *calls;
    unsigned count, malformed;
    const cJSON *missing;      /* names of symbols */
    const char *library_error; /* NULL where the library was found */
    const char *stopped;       /* why the scan ended early, or NULL */
};

int gt_answers_read(const char *log, size_t len, struct gt_answers *ret, struct gt_err **err);
void gt_answers_done(struct gt_answers *answers);
static inline void gt_answers_done_p(struct gt_answers *answers)
{
    gt_answers_done(answers);
}
#define gt_auto_answers __attribute__((cleanup(gt_answers_done_p)))

/* Whether any entry of this call has a value. */
bool gt_answers_have(const struct gt_answers *answers, const char *call);

bool gt_answer_is(const struct gt_answer *answer, const char *call); /* and it has a value */

/* The BDF that an answer of a DeviceInfo call carries, canonical. */
bool gt_answer_bdf(const struct gt_answer *answer, char to[static GT_BDF_SIZE]);

/* Copies a text without surrounding blanks. False unless it is printable ASCII of at least one and less than
 * `size` bytes. */
bool gt_value_text(const cJSON *item, char *to, size_t size);
