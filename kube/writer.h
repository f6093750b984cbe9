/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/backoff.h"
#include "base/buf.h"
#include "kube/client.h"

/*
 * The queue through which objects are written, as client-go's workqueue. Who writes has a key for each
 * object and a line for each kind of write, and adds the key when the object may have to change. When the
 * key's turn comes, the request is made from the state of that moment:
 *
 * - A key has at most one request in flight. Added meanwhile, it is asked again after the answer.
 * - Lines with a lower `order` come first; of lines with the same order, the one that was opened first;
 * within a line, first come, first served.
 * - All lines together have one budget, GT_WRITER_PER_SECOND requests a second and GT_WRITER_BURST at once,
 *   since an API server serves others, too. Those that pods wait for (GT_WRITE_FIRST) do not stop when it is
 *   used up: they overdraw it, by GT_WRITER_FIRST_DEBT requests at most; what should not wait for texts
 *   (GT_WRITE_SOON) does by less, and waits while more than that is overdrawn. GT_WRITE_LAST gets what is
 *   left, and waits until all of it is paid back.
 * - A failed write is made again after a back-off with jitter, not before Retry-After. A failure is reported
 *   once, until a write of the key succeeds.
 * - Without a complete answer, or after a 5xx, it is not known whether the object was written: `is_unknown`
 *   is set when the next request is made. Who cannot simply repeat the write reads the object.
 *
 * A request that is known when it is asked for needs no key: gt_write_post().
 */
struct gt_writer;
struct gt_write_line;

enum gt_write_outcome {
    GT_WRITE_DONE,
    GT_WRITE_CHANGED, /* 404, 409: the object is no longer as it was */
    GT_WRITE_REFUSED, /* other 4xx, a create of what exists, or it could not be sent */
    GT_WRITE_UNKNOWN,
};

/* Zeroed at first, except `line` and `of`. A member of the owner's struct. */
struct gt_write_key {
    struct gt_write_line *line;
    void *of; /* the owner's struct */
    bool is_unknown;
    unsigned failures; /* in a row */
    uint64_t due_ms;   /* not before then; `answered` may set it */
    /* of writer.c: */
    enum { GT_WRITE_IDLE, GT_WRITE_READY, GT_WRITE_DELAYED, GT_WRITE_RUNNING, GT_WRITE_STATES } state;
    bool added, is_repeat, is_reported, is_later, is_posted;
    uint64_t since_ms; /* when it became ready, or was sent */
    struct gt_kube_call *call;
    struct gt_write_key *next, *previous;
};

enum { GT_WRITE_NOTHING, GT_WRITE_SEND, GT_WRITE_LATER };
/* Orders: ungating and plans; what does something, as evictions; what only tells or keeps a state, as texts
 * and Events. */
enum { GT_WRITE_FIRST, GT_WRITE_SOON, GT_WRITE_LAST };

enum { GT_WRITE_BUCKETS = 6 }; /* of times: up to a millisecond, ten... ten seconds, and above */

struct gt_write_line {
    const char *name; /* for the log and the metrics */
    unsigned order, running_max;
    size_t body_max;
    /* Of the back-off. Both 0: GT_BACKOFF_FIRST_MS and GT_BACKOFF_MAX_MS; only the second: pauses do not
     * grow.
     */
    uint64_t retry_ms, retry_max_ms;
    unsigned
        quiet_tries; /* so many failures in a row that may pass (no answer, 429, 5xx) are only repeated */
    /* False: nothing is sent now, and asked again after retry_ms. NULL: always true. */
    bool (*may_send)(void *arg);
    void *arg;
    /* NULL: all its keys are posted. Makes the next request. GT_WRITE_NOTHING: the object is as it should be,
     * and the key may be removed and freed; GT_WRITE_LATER: ask again when it is added, or at `due_ms`, which
     * is after retry_ms if it is not set; or a negative error. The texts of the request are used before the
     * next call. */
    int (*make)(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                struct gt_err **err);
    /* False: the key is not to be asked again until it is added; it may have been removed and freed (a posted
     * one: only by the writer). NULL: false. */
    bool (*answered)(struct gt_write_key *key, enum gt_write_outcome outcome, struct gt_kube_answer *answer);
    /* `again`: the key has failed before. NULL: nothing is reported. */
    void (*report)(const struct gt_write_key *key, bool again, const struct gt_err *error);
    /* of writer.c: */
    struct gt_writer *writer;
    struct gt_write_line *next;
    struct gt_write_list {
        struct gt_write_key *first, *last;
        unsigned count;
    } lists[GT_WRITE_STATES];
    uint64_t delayed_ms; /* the earliest time of the delayed ones */
    struct gt_write_stats {
        uint64_t adds, retries, queued_ms, worked_ms;
        uint64_t queued[GT_WRITE_BUCKETS], worked[GT_WRITE_BUCKETS];
    } stats;
};

enum {
    GT_WRITER_PER_SECOND = 500,
    GT_WRITER_BURST = 1000,
    GT_WRITER_FIRST_DEBT = 10000, /* paid back in 20 seconds */
    GT_WRITER_SOON_DEBT = 500,
};

/* What the writer needs: the client and the loop's timer, or a test. */
struct gt_writer_port {
    int (*start)(struct gt_kube *kube, const struct gt_kube_request *request, gt_kube_done *done,
                 void *done_arg, struct gt_kube_call **ret, struct gt_err **err);
    void (*cancel)(struct gt_kube_call *call);
    uint64_t (*now)(void);
    void (*wake)(struct gt_kube *kube, uint64_t after_ms);
    struct gt_kube *kube;
};

int gt_writer_new(const struct gt_writer_port *port, struct gt_writer **ret, struct gt_err **err);
void gt_writer_free(struct gt_writer *writer); /* its lines must be closed */
/* The writer of a client. */
struct gt_writer *gt_kube_writer(struct gt_kube *kube);

/* Adds a line. Its owner keeps it where it is until gt_write_close(). */
void gt_write_open(struct gt_writer *writer, struct gt_write_line *line);
/* Removes its keys. A line that was never opened is allowed. */
void gt_write_close(struct gt_write_line *line);
void gt_write_clear(struct gt_write_line *line);
/* How many keys wait, in a pause too, or are in flight. */
unsigned gt_write_count(const struct gt_write_line *line);

void gt_write_add(struct gt_write_key *key);
/* Adds a request that is sent as it is; its namespace, name and body are copied. It replaces the line's
 * request about the same object that waits, and follows the one in flight. False: no memory. */
/* In place of one that waits it keeps that one's back-off. */
bool gt_write_post(struct gt_write_line *line, const struct gt_kube_request *request, void *of);
/* Of a posted key. */
const struct gt_kube_request *gt_write_request(const struct gt_write_key *key);
/* The posted key of this object; NULL: there is none. `namespace_` may be NULL. */
struct gt_write_key *gt_write_find(const struct gt_write_line *line, const char *namespace_,
                                   const char *name);
/* Takes the key out, and cancels its request: it is not known whether that is done. */
void gt_write_remove(struct gt_write_key *key);
uint64_t gt_writer_now(const struct gt_writer *writer); /* by the port's clock */
/* Sends what is due; for the timer of the port. */
void gt_writer_run(struct gt_writer *writer);

/* For reports of daemons: a warning, or a line for debugging if `again`. `namespace_` may be NULL. */
void gt_write_log(const char *kind, const char *namespace_, const char *name, bool again,
                  const struct gt_err *error);
/* A line's `report`, where all its keys are posted. */
void gt_write_log_posted(const struct gt_write_key *key, bool again, const struct gt_err *error);

/* As client-go's workqueue has them, with the label `name`. */
void gt_writer_metrics(const struct gt_writer *writer, struct gt_buf *to);
