/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"
#include "base/buf.h"
#include "kube/writer.h"

/*
 * Decides what is written to the API server, and when (docs/reference/publishing.md). The texts come from
 * callbacks. All on the loop's thread.
 *
 * There are nine lanes, each a key of the writer, and one request at a time. The first two are done once.
 * Each of the others is written again when its text has changed, at most once a second, and at every
 * heartbeat. What the API server refuses waits alone; while it does not answer, all wait.
 */
enum gt_publish_lane {
    GT_PUBLISH_OWNER,       /* the UID of the Node is read */
    GT_PUBLISH_OBJECT,      /* the NodeGPUTopology is created, owned by the Node; needs OWNER */
    GT_PUBLISH_WIRING,      /* its status without the part of USAGE */
    GT_PUBLISH_USAGE,       /* the part that changes often; both need OBJECT */
    GT_PUBLISH_ANNOTATIONS, /* of the Node; needs OWNER */
    GT_PUBLISH_LABELS,      /* of the Node; needs OWNER */
    GT_PUBLISH_CONDITION,   /* of the Node's status; needs OBJECT, which says since when */
    GT_PUBLISH_COUNTERS,    /* the ResourceSlice of its counters (--dra-composites); needs OWNER */
    GT_PUBLISH_SLICE,       /* the one of its devices (--advertise=dra); needs OWNER */
    GT_PUBLISH_LANES,
};

/* Callbacks that make what is written. */
struct gt_publish_source {
    /*
     * Appends the whole body of a lane's request (not called for OWNER). `uid` is the Node's, "" while it is
     * not needed. If `at` is NULL, the text is for comparison only: what always changes is left out. False:
     * the lane has nothing to publish now, and what was published stays.
     */
    bool (*write)(void *arg, enum gt_publish_lane lane, const char *uid, const char *at, struct gt_buf *to);
    /* False: no object is created for this node. An existing one is still updated. */
    bool (*wanted)(void *arg);
    /* Called after OBJECT with the object as the API server has it. */
    void (*found)(void *arg, const cJSON *object);
    /* Another manager owns a field of this lane, and we do not force it; returns true if the lane's text is
     * now different. */
    bool (*conflict)(void *arg, enum gt_publish_lane lane, const cJSON *status);
    void *arg;
};

struct gt_publish_options {
    const char *node_name;                  /* must outlive the publisher */
    const char *slice_name, *counters_name; /* likewise; NULL: no such ResourceSlice */
    uint64_t heartbeat_ms;                  /* plus or minus a fifth */
    struct gt_jitter jitter;                /* seeded */
    bool force_annotations;
    bool node_only; /* no NodeGPUTopology, only annotations and labels of the Node */
};

enum {
    GT_PUBLISH_INTERVAL_MS = 1000, /* between two writes of a lane */
    GT_PUBLISH_DEADLINE_MS = 15000,
    GT_PUBLISH_AWAY_MAX_MS = 30000, /* the longest pause after a request that was not answered */
};

struct gt_publish_stats {
    uint64_t writes[GT_PUBLISH_LANES];   /* requests that were answered with 2xx */
    uint64_t failures[GT_PUBLISH_LANES]; /* requests that were not */
    bool away;                           /* the API server did not answer the last request */
    bool gone;                           /* the Node does not exist */
    bool current;                        /* everything is published */
};

struct gt_publish;

int gt_publish_new(const struct gt_publish_options *options, const struct gt_publish_source *source,
                   struct gt_writer *writer, struct gt_publish **ret, struct gt_err **err);
void gt_publish_free(struct gt_publish *publish);
GT_DEFINE_CLEANUP(struct gt_publish *, gt_publish_free)

/* Begins, when there is something to publish, after a second and a jitter of up to a thirtieth of the
 * heartbeat. */
void gt_publish_begin(struct gt_publish *publish);

/* The texts of write() may have changed. This is cheap: they are made only when they are due. */
void gt_publish_changed(struct gt_publish *publish);

/* As if the heartbeat were due: everything is written again, even if it is unchanged here. */
void gt_publish_refresh(struct gt_publish *publish);

/* Writes this lane again, since it was deleted in the API server. */
void gt_publish_again(struct gt_publish *publish, enum gt_publish_lane lane);

void gt_publish_stats(const struct gt_publish *publish, struct gt_publish_stats *ret);

/* "owner", "object", "wiring"... */
const char *gt_publish_lane_name(enum gt_publish_lane lane);
