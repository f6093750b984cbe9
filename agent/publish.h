/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PUBLISH_H
#define GPUTOPO_AGENT_PUBLISH_H

#include "base/buf.h"
#include "base/time_text.h"
#include "kube/client.h"

/*
 * Decides what is written to the API server next, and when. Knows no clock, no connection and no GPUs
 * (docs/reference/publishing.md). All on the loop's thread.
 *
 * There are eight lanes, and one request at a time. The first two are there to be done once, the others are
 * written again when their text has changed, at most once a second each, and at every heartbeat.
 */
enum gt_publish_lane {
    GT_PUBLISH_OWNER,       /* the Node is asked for its UID */
    GT_PUBLISH_OBJECT,      /* the NodeGPUTopology is made, owned by the Node; needs OWNER */
    GT_PUBLISH_WIRING,      /* its status except for: */
    GT_PUBLISH_USAGE,       /* what changes often; both need OBJECT */
    GT_PUBLISH_ANNOTATIONS, /* of the Node; needs OWNER */
    GT_PUBLISH_LABELS,      /* of the Node; needs OWNER */
    GT_PUBLISH_COUNTERS,    /* the ResourceSlice of its counters (--dra-composites); needs OWNER */
    GT_PUBLISH_SLICE,       /* the one of its devices (--advertise=dra); needs OWNER */
    GT_PUBLISH_LANES,
};

/* What is to be written. */
struct gt_publish_source {
    /*
     * Appends the whole body of a lane's request (not asked for OWNER). `uid` is the Node's, "" while it is
     * not needed. `at` is NULL where the text is wanted for comparison only: what always changes is left
     * out. False: this lane has nothing to say now, what was published stays.
     */
    bool (*write)(void *arg, enum gt_publish_lane lane, const char *uid, const char *at, struct gt_buf *to);
    /* False: this node is none to make an object for. One that is there is kept right all the same. */
    bool (*wanted)(void *arg);
    /* The object as the API server has it, after OBJECT. */
    void (*found)(void *arg, const cJSON *object);
    /* Somebody else owns a field of this lane and we do not force it; true: the lane's text is another now.
     */
    bool (*conflict)(void *arg, enum gt_publish_lane lane, const cJSON *status);
    void *arg;
};

enum { GT_PUBLISH_TIME_SIZE = GT_TIME_TEXT_SIZE };

/* The clock, timer and connection, as callbacks. */
struct gt_publish_port {
    uint64_t (*now_ms)(void *arg);                     /* only goes forward */
    void (*now_text)(void *arg, char *to);             /* "2026-01-31T12:00:00Z", GT_PUBLISH_TIME_SIZE */
    void (*wake)(void *arg, uint64_t ms);              /* one timer: gt_publish_run() after so long */
    uint64_t (*random_below)(void *arg, uint64_t max); /* 0 to max - 1 */
    int (*send)(void *arg, const struct gt_kube_request *request, gt_kube_done *done, void *done_arg,
                struct gt_err **err);
    bool (*is_idle)(void *arg); /* the request waits between two tries, and not because of a Retry-After */
    void (*withdraw)(void *arg);
    void *arg;
};

struct gt_publish_options {
    const char *node_name;                  /* lives as long as the publisher */
    const char *slice_name, *counters_name; /* likewise; NULL: no such ResourceSlice */
    uint64_t heartbeat_ms;                  /* plus or minus a fifth */
    bool force_annotations;
    bool node_only; /* no NodeGPUTopology: annotations and labels of the Node alone */
};

enum {
    GT_PUBLISH_INTERVAL_MS = 1000,   /* between two writes of a lane */
    GT_PUBLISH_DEADLINE_MS = 15000,  /* of the request after one that was answered */
    GT_PUBLISH_AWAY_MS = 600000,     /* of one after one that was not: the client waits on its own */
    GT_PUBLISH_AWAY_MAX_MS = 30000,  /* the longest pause before such a one */
    GT_PUBLISH_THROTTLED_MS = 120000 /* after a 429 that asked for more than the deadline */
};

struct gt_publish_stats {
    uint64_t writes[GT_PUBLISH_LANES];   /* requests that were answered with 2xx */
    uint64_t failures[GT_PUBLISH_LANES]; /* that were not */
    bool away;                           /* the API server did not answer the last request */
    bool gone;                           /* there is no such Node */
    bool current;                        /* everything that is to be published is */
    double last_s;                       /* Unix time of the last write of a status, 0: none */
};

struct gt_publish;

int gt_publish_new(const struct gt_publish_options *options, const struct gt_publish_source *source,
                   const struct gt_publish_port *port, struct gt_publish **ret, struct gt_err **err);
/* The port's withdraw() is called where a request runs. */
void gt_publish_free(struct gt_publish *publish);
GT_DEFINE_CLEANUP(struct gt_publish *, gt_publish_free)

/* There is something to publish: begins, after a second and a jitter of a thirtieth of the heartbeat. */
void gt_publish_begin(struct gt_publish *publish);

/* What write() says may be something else now. Cheap: the texts are made when their time has come. */
void gt_publish_changed(struct gt_publish *publish);

/* As if the heartbeat was due: everything is written again, whoever has changed it. */
void gt_publish_refresh(struct gt_publish *publish);

/* This lane is written again, since what the API server had of it is gone. */
void gt_publish_again(struct gt_publish *publish, enum gt_publish_lane lane);

/* The timer. */
void gt_publish_run(struct gt_publish *publish);

void gt_publish_stats(const struct gt_publish *publish, struct gt_publish_stats *ret);

/* "owner", "object", "wiring"... */
const char *gt_publish_lane_name(enum gt_publish_lane lane);

#endif
