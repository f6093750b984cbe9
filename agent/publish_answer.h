/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/publish.h"

/* The lanes and the state of a publisher: publish.c decides what is due, and when; publish_answer.c handles
 * answers. */

enum { GT_PUBLISH_UID_SIZE = 64 };

struct lane {
    bool done;         /* OWNER and OBJECT only: nothing is left to do */
    bool changed;      /* its text may have changed */
    bool again;        /* to be written even if its text is unchanged */
    bool was_sent;     /* `sent` is valid */
    uint64_t sent;     /* digest of what the API server has */
    uint64_t sent_ms;  /* when */
    bool ever_tried;   /* `sent_ms` is valid */
    uint64_t retry_ms; /* not written before this time */
    unsigned failures; /* in a row */
    int error;         /* of the last failure, 0: none since the last success */
};

struct gt_publish {
    struct gt_publish_options options;
    struct gt_publish_source source;
    struct gt_publish_port port;
    struct gt_write_line line;
    struct gt_write_key key;
    struct lane lanes[GT_PUBLISH_LANES];
    char uid[GT_PUBLISH_UID_SIZE]; /* of the Node */
    bool begun;
    bool exists; /* the object exists, made by us or by another */
    bool gone;
    uint64_t heartbeat_at;

    enum gt_publish_lane busy; /* the lane whose request runs; GT_PUBLISH_LANES: none */
    bool passive;              /* the busy lane writes to an object that may not exist */
    uint64_t digest;           /* of the text in the running request */

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

/* The field manager of a lane's writes; NULL: the lane only reads. */
const char *gt_publish_lane_manager(enum gt_publish_lane lane);

/* Handles the answer to the busy lane's request; the lane is then no longer busy. */
void gt_publish_take_answer(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer);

/* The lane could not be written: it waits, longer each time. `error` NULL: nothing is logged. */
void gt_publish_fail_lane(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error);
