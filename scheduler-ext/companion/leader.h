/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_LEADER_H
#define GPUTOPO_COMPANION_LEADER_H

#include "api/lease.h"
#include "kube/client.h"

/*
 * Which of several replicas writes: the one that holds a Lease, by client-go's rules and in its times. A
 * lease counts as abandoned when this process has seen it unchanged for as long as it says it is good for;
 * clocks of other machines are never compared. Who cannot renew for GT_LEADER_RENEW_MS leads no more, well
 * before anybody else can begin. All on the loop's thread; clock, timer and requests come through the port.
 */
struct gt_leader;

enum {
    GT_LEADER_LEASE_S = 15,
    GT_LEADER_RENEW_MS = 10000,
    GT_LEADER_RETRY_MS = 2000,
    GT_LEADER_DEADLINE_MS = 5000, /* of one request */
};

struct gt_leader_port {
    uint64_t (*now_ms)(void *arg); /* only goes forward */
    void (*now_text)(void *arg,
                     char to[static GT_TIME_TEXT_SIZE]); /* with six digits of a second, as MicroTime */
    uint64_t (*random_below)(void *arg, uint64_t max);
    void (*wake)(void *arg, uint64_t ms); /* one timer: gt_leader_run() after so long */
    int (*send)(void *arg, const struct gt_kube_request *request, gt_kube_done *done, void *done_arg,
                struct gt_err **err);
    void (*withdraw)(void *arg); /* the request that is on its way */
    void *arg;
};

struct gt_leader_spec {
    const char *namespace_, *name, *identity; /* live as long as the leader */
    void (*on_lead)(void *arg, bool leads);
    void (*on_released)(void *arg);
    void (*on_error)(void *arg, const char *what); /* it goes on */
    /* What the others should know meanwhile: with each renewal the one that leads appends it, plain ASCII
     * without quotes; the others read it from the lease. */
    void (*write_note)(void *arg, struct gt_buf *to);
    void (*read_note)(void *arg, const char *note);
    void *arg;
};

struct gt_leader_stats {
    bool leads;
    uint64_t acquired, lost, failures;
};

int gt_leader_new(const struct gt_leader_spec *spec, const struct gt_leader_port *port,
                  struct gt_leader **ret, struct gt_err **err);
/* Withdraws what is on its way; the lease stays as it is. */
void gt_leader_free(struct gt_leader *leader);

/* The timer; also the first step. */
void gt_leader_run(struct gt_leader *leader);

/* Leads no more and gives the lease back, so that another one need not wait; then on_released(), once. */
void gt_leader_release(struct gt_leader *leader);

/* Whether it leads by the clock: a process that was halted may find other work before its timer. */
bool gt_leader_is_current(const struct gt_leader *leader);

void gt_leader_stats(const struct gt_leader *leader, struct gt_leader_stats *ret);

#endif
