/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_TIMES_H
#define GPUTOPO_PLACEMENT_TIMES_H

#include <stdint.h>

/* How long the controller waits for what is usually there at once. No cluster needs other times: only tests
 * set them, to wait less, or for ever. */
struct gt_placement_times {
    uint64_t settle_ms; /* a job whose object is not known is planned when no pod has come for so long */
    uint64_t owner_ms;  /* likewise where the object is of a kind that is followed: it is on its way */
    uint64_t gang_ms;   /* gates are lifted though pods are missing after so long */
    /* gates stay for so long after the claims of a plan were all seen: a scheduler that chose one of their
     * GPUs before it saw them writes that meanwhile */
    uint64_t claims_ms;
    uint64_t return_ms;   /* the place of a pod that left a running job is reserved for so long */
    uint64_t eviction_ms; /* a job whose pods a scheduler evicted for others is not planned for so long */
    uint64_t request_ms;  /* no request to the API server lasts longer (its --request-timeout) */
    uint64_t retry_ms;    /* after a failed write, and at least so often waiting jobs are tried */
};

#define GT_PLACEMENT_TIMES                                                                                   \
    ((struct gt_placement_times){.settle_ms = 2000,                                                          \
                                 .owner_ms = 30000,                                                          \
                                 .gang_ms = 2000,                                                            \
                                 .claims_ms = 2000,                                                          \
                                 .return_ms = 30000,                                                         \
                                 .eviction_ms = 15000,                                                       \
                                 .request_ms = 60000,                                                        \
                                 .retry_ms = 10000})

#endif
