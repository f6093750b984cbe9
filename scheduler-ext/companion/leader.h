/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/lease.h"
#include "base/loop.h"
#include "kube/client.h"

/*
 * Leader election: of several replicas, only the one that holds a Lease writes; rules and times are those of
 * client-go. A lease has expired when this process has seen it unchanged for its leaseDurationSeconds; clocks
 * of other machines are never compared. A leader that cannot renew for GT_LEADER_RENEW_MS stops leading, well
 * before another replica can begin. All on the loop's thread; clock, timer and requests come through the
 * port.
 */
struct gt_leader;

enum {
    GT_LEADER_LEASE_S = 15,
    GT_LEADER_RENEW_MS = 10000,
    GT_LEADER_RETRY_MS = 2000,
    GT_LEADER_DEADLINE_MS = 5000, /* of one request */
};

struct gt_leader_port {
    uint64_t (*now_ms)(void *arg); /* monotonic */
    void (*now_text)(void *arg,
                     char to[static GT_TIME_TEXT_SIZE]); /* with six digits of a second, as MicroTime */
    uint64_t (*random_below)(void *arg, uint64_t max);
    void (*wake)(void *arg, uint64_t ms); /* sets the only timer: calls gt_leader_run() after `ms` */
    int (*send)(void *arg, const struct gt_kube_request *request, gt_kube_done *done, void *done_arg,
                struct gt_err **err);
    void (*withdraw)(void *arg); /* cancels the request in flight */
    void *arg;
};

struct gt_leader_spec {
    const char *namespace_, *name, *identity; /* must outlive the leader */
    void (*on_lead)(void *arg, bool leads);
    void (*on_released)(void *arg);
    void (*on_error)(void *arg, const char *what); /* an error that was handled: only to be logged */
    /* A note from the leader to the other replicas: with each renewal the leader appends it (plain ASCII
     * without quotes) to the lease, and the others read it from there. */
    void (*write_note)(void *arg, struct gt_buf *to);
    /* The note that is left when the lease is released, for the next leader, which reads it before it leads.
     * Where there never was a lease, it reads GT_LEASE_NOTE_NO_LEADER. */
    void (*write_last_note)(void *arg, struct gt_buf *to);
    void (*read_note)(void *arg, const char *note);
    void *arg;
};

struct gt_leader_stats {
    bool leads;
    uint64_t lost;
};

int gt_leader_new(const struct gt_leader_spec *spec, const struct gt_leader_port *port,
                  struct gt_leader **ret, struct gt_err **err);
/* Cancels the request in flight; the lease stays as it is. */
void gt_leader_free(struct gt_leader *leader);

/* To be called by the timer, and once to begin. */
void gt_leader_run(struct gt_leader *leader);

/* Stops leading and releases the lease, so that another replica need not wait for its end; then calls
 * on_released() once. */
void gt_leader_release(struct gt_leader *leader);

/* Whether it leads by the clock: after a pause of the process its timer may be late. */
bool gt_leader_is_current(const struct gt_leader *leader);

void gt_leader_stats(const struct gt_leader *leader, struct gt_leader_stats *ret);
/* The replica that held the lease when it was read last; "": none. */
const char *gt_leader_identity(const struct gt_leader *leader);

/* A leader with the loop's timer, the real clock and a client; to be freed before the client. */
struct gt_elect;
int gt_elect_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_leader_spec *spec,
                 struct gt_elect **ret, struct gt_err **err);
void gt_elect_free(struct gt_elect *elect);
GT_DEFINE_CLEANUP(struct gt_elect *, gt_elect_free)
struct gt_leader *gt_elect_leader(const struct gt_elect *elect);
