/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * The vendor library inside the worker process: the only code that opens it and calls into it. Anything here
 * may hang or crash without harm to the supervisor.
 */
typedef void gt_vendor_function(void);

enum { GT_CALL_ARGS_MAX = 3 };

/* Opens the library once. False, with the reason in *ret_why (valid until the next call here). */
bool gt_vendor_open(const char *path, const char **ret_why);

/* NULL if the library does not have it. */
gt_vendor_function *gt_vendor_symbol(const char *name);

/* A call that is to be made: to which function, with which numbers. */
struct gt_vendor_query {
    const struct gt_vendor_call *call;
    gt_vendor_function *function;
    const uint32_t *args;
};

/* One call that the worker can make. `run` appends the members of the answer, from `"rc":...` on. */
struct gt_vendor_call {
    const char *name;
    unsigned args;
    void (*run)(const struct gt_vendor_query *q, struct gt_buf *to);
    const struct gt_vendor_shape *shape; /* of what it fills; for `run` */
};
extern const struct gt_vendor_call gt_vendor_calls[];
extern const unsigned gt_vendor_call_count;

/* The functions that events need; the list ends with NULL. */
extern const char *const gt_vendor_event_functions[];

/* Registers for the events of these devices and sends each one as a packet to `fd`; returns if the library
 * cannot do that (*ret_why), or when the other end is closed. */
void gt_vendor_events(int fd, const uint32_t *devices, unsigned count, const char **ret_why);
