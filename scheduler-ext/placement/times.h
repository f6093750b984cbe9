/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "scheduler-ext/decide/brake.h"

/* Waiting times of the controller, in milliseconds. They need not be changed for any cluster; only tests set
 * them. */
struct gt_placement_times {
    uint64_t settle_ms; /* a job without owner object is planned when no pod was created for so long */
    uint64_t owner_ms;  /* likewise where the object is of a watched kind and not yet seen */
    uint64_t gang_ms;   /* after so long gates are removed although pods are missing */
    /* gates stay for so long after all claims of a plan were seen: a scheduler that chose one of their GPUs
     * before it saw them writes its choice in that time */
    uint64_t claims_ms;
    uint64_t return_ms;    /* how long the place of a pod that left a running job is reserved */
    uint64_t eviction_ms;  /* how long a job with preempted pods is not planned */
    uint64_t request_ms;   /* longest request to the API server (its --request-timeout) */
    uint64_t retry_ms;     /* back-off after a failed write; waiting jobs are tried at least this often */
    uint64_t node_turn_ms; /* pause until pods of the next node are evicted for its unhealthy GPUs */
    uint64_t brake_ms;     /* for so long a node whose pods were evicted counts for the brake */
    uint64_t preempt_ms;   /* a job waits for so long before pods of lower priority are evicted for it */
    uint64_t report_ms;    /* after it was reported why a job waits, the text stays as it is for so long */
};

#define GT_PLACEMENT_TIMES                                                                                   \
    ((struct gt_placement_times){.settle_ms = 2000,                                                          \
                                 .owner_ms = 30000,                                                          \
                                 .gang_ms = 2000,                                                            \
                                 .claims_ms = 2000,                                                          \
                                 .return_ms = 30000,                                                         \
                                 .eviction_ms = 15000,                                                       \
                                 .request_ms = 60000,                                                        \
                                 .retry_ms = 10000,                                                          \
                                 .node_turn_ms = 10000,                                                      \
                                 .brake_ms = GT_BRAKE_SPAN_MS,                                               \
                                 .preempt_ms = 5000,                                                         \
                                 .report_ms = 5000})
