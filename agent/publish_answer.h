/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PUBLISH_ANSWER_H
#define GPUTOPO_AGENT_PUBLISH_ANSWER_H

#include "agent/publish_lanes.h"

/* Handles the answer to the busy lane's request; the lane is then no longer busy. */
void gt_publish_take_answer(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer);

/* The lane could not be written: it waits, longer each time. `error` NULL: nothing is logged. */
void gt_publish_fail_lane(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error);

/* The API server gave no usable answer: all lanes wait. `status` is 429 only if Retry-After was longer than
 * the request's deadline. */
void gt_publish_go_away(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error,
                        unsigned status);

#endif
