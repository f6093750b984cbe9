/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PUBLISH_PRIVATE_H
#define GPUTOPO_AGENT_PUBLISH_PRIVATE_H

#include "agent/publish.h"

/* Between publish.c (what is due, and when) and publish_answer.c (what an answer means). */

enum { GT_PUBLISH_UID_SIZE = 64 };

struct lane {
    bool done;         /* of OWNER and OBJECT: nothing to do */
    bool look;         /* its text may be another one now */
    bool again;        /* to be written whatever its text */
    bool was_sent;     /* `sent` is right */
    uint64_t sent;     /* digest of what the API server has */
    uint64_t sent_ms;  /* when */
    bool ever_tried;   /* sent_ms is right */
    uint64_t retry_ms; /* not before */
    unsigned failures; /* in a row */
    int error;         /* of the last failure, 0: none since the last success */
};

struct gt_publish {
    struct gt_publish_options options;
    struct gt_publish_source source;
    struct gt_publish_port port;
    struct lane lanes[GT_PUBLISH_LANES];
    char uid[GT_PUBLISH_UID_SIZE]; /* of the Node */
    bool begun;
    bool exists; /* the object was seen, ours or another's */
    bool gone;
    uint64_t heartbeat_at;

    enum gt_publish_lane busy; /* GT_PUBLISH_LANES: none is */
    bool passive;              /* the busy one goes to an object that may not be there */
    uint64_t digest;           /* of what is on its way */

    unsigned away; /* requests in a row without an answer */
    int away_error;
    uint64_t away_until;
    struct gt_publish_stats stats;
};

static inline uint64_t gt_publish_now(const struct gt_publish *publish)
{
    return publish->port.now_ms(publish->port.arg);
}

static inline uint64_t gt_publish_random(const struct gt_publish *publish, uint64_t max)
{
    return max ? publish->port.random_below(publish->port.arg, max) : 0;
}

/* The outcome of the busy lane's request, which is busy no more. */
void gt_publish_take_answer(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer);

/* The lane could not be written: it waits, longer each time. `error` NULL: nothing to log. */
void gt_publish_fail_lane(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error);

/* The API server said nothing of use: everything waits. `status` 429 only where it asked for longer than the
 * request had. */
void gt_publish_go_away(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error,
                        unsigned status);

#endif
