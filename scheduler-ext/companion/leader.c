/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/leader.h"

#include <string.h>

#include "api/lease.h"

enum { LEASE_BODY_MAX = (4 << 10) + GT_LEASE_NOTE_MAX };

struct gt_leader {
    struct gt_leader_spec spec;
    struct gt_leader_port port;
    bool leads, busy, releasing;
    bool was_seen; /* there was a lease once; it may have been deleted */
    bool known;    /* `lease` is the server's state at its last answer */
    bool is_stale; /* another replica has written it since: it has to be read again */
    struct gt_lease lease;
    uint64_t seen_ms;    /* when this state of `lease` was first seen */
    uint64_t asked_ms;   /* when the request in flight was sent */
    uint64_t renewed_ms; /* when the last successful renewal was sent */
    struct gt_leader_stats stats;
};

static void leader_read_lease(struct gt_leader *leader);

int gt_leader_new(const struct gt_leader_spec *spec, const struct gt_leader_port *port,
                  struct gt_leader **ret, struct gt_err **err)
{
    struct gt_leader *leader = calloc(1, sizeof(*leader));
    GT_NEED(leader, err, "leader election");
    leader->spec = *spec;
    leader->port = *port;
    *ret = leader;
    return 0;
}

static void withdraw(struct gt_leader *leader)
{
    if (leader->busy)
        leader->port.withdraw(leader->port.arg);
    leader->busy = false;
}

void gt_leader_free(struct gt_leader *leader)
{
    if (!leader)
        return;
    withdraw(leader);
    free(leader);
}

const char *gt_leader_identity(const struct gt_leader *leader)
{
    return leader->known ? leader->lease.identity : "";
}

void gt_leader_stats(const struct gt_leader *leader, struct gt_leader_stats *ret)
{
    *ret = leader->stats;
    ret->leads = leader->leads;
}

static void set_leads(struct gt_leader *leader, bool leads)
{
    if (leader->leads == leads)
        return;
    leader->leads = leads;
    if (!leads && !leader->releasing)
        leader->stats.lost++;
    leader->spec.on_lead(leader->spec.arg, leads);
}

bool gt_leader_is_current(const struct gt_leader *leader)
{
    return leader->leads && leader->port.now_ms(leader->port.arg) - leader->renewed_ms < GT_LEADER_RENEW_MS;
}

/* In a process that was paused, an answer may be handled before the timer: another replica may have led in
 * between, so a new term begins. */
static void end_late_term(struct gt_leader *leader)
{
    if (leader->leads && !gt_leader_is_current(leader))
        set_leads(leader, false);
}

static void leader_wake(struct gt_leader *leader)
{
    /* As in client-go: candidates wait up to 1.2 times longer, at random, so that they do not all try at the
     * same time. */
    uint64_t ms = GT_LEADER_RETRY_MS;
    if (!leader->leads)
        ms += leader->port.random_below(leader->port.arg, GT_LEADER_RETRY_MS * 12 / 10);
    leader->port.wake(leader->port.arg, ms);
}

static void leader_fail(struct gt_leader *leader, const char *what)
{
    leader->spec.on_error(leader->spec.arg, what);
    leader_wake(leader);
}

static void leader_send(struct gt_leader *leader, struct gt_kube_request request, gt_kube_done *done)
{
    gt_auto_err struct gt_err *err = NULL;
    request.resource = &gt_kube_leases;
    request.namespace_ = leader->spec.namespace_;
    request.deadline_ms = GT_LEADER_DEADLINE_MS;
    request.try_ms = GT_LEADER_DEADLINE_MS;
    leader->asked_ms = leader->port.now_ms(leader->port.arg);
    leader->busy = true;
    if (leader->port.send(leader->port.arg, &request, done, leader, &err) >= 0) {
        leader->port.wake(leader->port.arg, GT_LEADER_RETRY_MS); /* to notice when the lease expires */
        return;
    }
    leader->busy = false;
    leader_fail(leader, gt_err_text(err));
}

/* Takes over the server's answer. False: it is invalid. */
static bool leader_read(struct gt_leader *leader, const cJSON *object)
{
    struct gt_lease lease;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_lease_read(object, &lease, &err) < 0) {
        leader_fail(leader, gt_err_text(err));
        return false;
    }
    if (!leader->known || strcmp(lease.resource_version, leader->lease.resource_version) != 0)
        leader->seen_ms = leader->port.now_ms(leader->port.arg);
    leader->lease = lease;
    leader->known = leader->was_seen = true;
    leader->is_stale = false;
    return true;
}

static bool leader_is_ours(const struct gt_leader *leader)
{
    return leader->known && strcmp(leader->lease.identity, leader->spec.identity) == 0;
}

static void leader_on_written(void *arg, struct gt_kube_answer *answer)
{
    struct gt_leader *leader = arg;
    leader->busy = false;
    end_late_term(leader);
    if (!answer->error) {
        if (!leader_read(leader, answer->object))
            return;
        leader->renewed_ms = leader->asked_ms;
        set_leads(leader, true);
        leader_wake(leader);
    } else if (answer->status == 409 || answer->status == 404) {
        /* Another replica was faster, or our own first try succeeded and its answer was lost. */
        leader->is_stale = true;
        leader_read_lease(leader);
    } else
        leader_fail(leader, gt_err_text(answer->error));
}

/* Writes the lease with us as the holder. `lease` is its current state, or empty. */
static void claim(struct gt_leader *leader, enum gt_kube_verb verb, struct gt_lease lease)
{
    gt_auto_buf struct gt_buf body = GT_BUF(LEASE_BODY_MAX);
    gt_auto_buf struct gt_buf note = GT_BUF(GT_LEASE_NOTE_MAX);
    if (leader->leads)
        leader->spec.write_note(leader->spec.arg, &note);
    lease.note = note.failed ? NULL : note.data;
    leader->port.now_text(leader->port.arg, lease.renewed);
    if (strcmp(lease.identity, leader->spec.identity) != 0) {
        lease.transitions += verb == GT_KUBE_UPDATE;
        snprintf(lease.identity, sizeof(lease.identity), "%s", leader->spec.identity);
        memcpy(lease.acquired, lease.renewed, sizeof(lease.acquired));
    }
    lease.duration_s = GT_LEADER_LEASE_S;
    gt_lease_write(&body, leader->spec.namespace_, leader->spec.name, &lease);
    const struct gt_kube_request request = {
        .verb = verb, .name = verb == GT_KUBE_CREATE ? NULL : leader->spec.name, .body = body.data};
    if (body.failed)
        leader_fail(leader, "out of memory");
    else
        leader_send(leader, request, leader_on_written);
}

static bool is_abandoned(const struct gt_leader *leader)
{
    unsigned s = leader->lease.duration_s ? leader->lease.duration_s : GT_LEADER_LEASE_S;
    if (s > GT_LEASE_DURATION_MAX_S)
        s = GT_LEASE_DURATION_MAX_S;
    return leader->port.now_ms(leader->port.arg) - leader->seen_ms >= (uint64_t)s * 1000;
}

static void on_read(void *arg, struct gt_kube_answer *answer)
{
    struct gt_leader *leader = arg;
    leader->busy = false;
    end_late_term(leader);
    if (answer->status == 404) {
        if (!leader->was_seen)
            leader->spec.read_note(leader->spec.arg, GT_LEASE_NOTE_NO_LEADER);
        leader->known = false;
        set_leads(leader, false); /* it was deleted: another replica may hold it by now */
        claim(leader, GT_KUBE_CREATE, (struct gt_lease){0});
    } else if (answer->error)
        leader_fail(leader, gt_err_text(answer->error));
    else if (leader_read(leader, answer->object)) {
        if (!leader->lease.identity[0])
            leader->spec.read_note(leader->spec.arg, gt_lease_note(answer->object));
        if (leader_is_ours(leader) || !leader->lease.identity[0] || is_abandoned(leader)) {
            claim(leader, GT_KUBE_UPDATE, leader->lease);
        } else {
            set_leads(leader, false);
            leader->spec.read_note(leader->spec.arg, gt_lease_note(answer->object));
            leader_wake(leader);
        }
    }
}

static void leader_read_lease(struct gt_leader *leader)
{
    leader_send(leader, (struct gt_kube_request){.verb = GT_KUBE_GET, .name = leader->spec.name}, on_read);
}

void gt_leader_run(struct gt_leader *leader)
{
    if (leader->releasing)
        return;
    if (leader->leads && !gt_leader_is_current(leader)) {
        withdraw(leader);
        leader->is_stale = true;
        set_leads(leader, false);
    }
    if (leader->busy)
        leader->port.wake(leader->port.arg, GT_LEADER_RETRY_MS);
    else if (leader->leads && leader_is_ours(leader) && !leader->is_stale)
        claim(leader, GT_KUBE_UPDATE, leader->lease);
    else
        leader_read_lease(leader);
}

/* A request while it is given back; nobody waits for long. */
static void leader_release_by(struct gt_leader *leader, enum gt_kube_verb verb, const char *body,
                              gt_kube_done *done)
{
    const struct gt_kube_request request = {.verb = verb,
                                            .resource = &gt_kube_leases,
                                            .namespace_ = leader->spec.namespace_,
                                            .name = leader->spec.name,
                                            .body = body,
                                            .deadline_ms = GT_LEADER_RETRY_MS};
    leader->busy = true;
    if (leader->port.send(leader->port.arg, &request, done, leader, NULL) < 0) {
        leader->busy = false;
        leader->spec.on_released(leader->spec.arg);
    }
}

static void leader_give_back(struct gt_leader *leader);

/* What the server has, for another try, if it is still ours. */
static void leader_on_reread(void *arg, struct gt_kube_answer *answer)
{
    struct gt_leader *leader = arg;
    leader->busy = false;
    if (!answer->error && leader_read(leader, answer->object) && leader_is_ours(leader))
        leader_give_back(leader);
    else
        leader->spec.on_released(leader->spec.arg);
}

static void leader_on_released(void *arg, struct gt_kube_answer *answer)
{
    struct gt_leader *leader = arg;
    leader->busy = false;
    if (answer->status == 409) { /* a renewal that was withdrawn has been written */
        leader_release_by(leader, GT_KUBE_GET, NULL, leader_on_reread);
        return;
    }
    if (answer->error)
        leader->spec.on_error(leader->spec.arg, gt_err_text(answer->error));
    leader->spec.on_released(leader->spec.arg);
}

static void leader_give_back(struct gt_leader *leader)
{
    gt_auto_buf struct gt_buf body = GT_BUF(LEASE_BODY_MAX);
    gt_auto_buf struct gt_buf note = GT_BUF(GT_LEASE_NOTE_MAX);
    struct gt_lease lease = leader->lease;
    leader->spec.write_last_note(leader->spec.arg, &note);
    lease.note = note.failed ? NULL : note.data;
    lease.identity[0] = '\0';
    lease.duration_s = 1;
    leader->port.now_text(leader->port.arg, lease.renewed);
    gt_lease_write(&body, leader->spec.namespace_, leader->spec.name, &lease);
    if (body.failed)
        leader->spec.on_released(leader->spec.arg);
    else
        leader_release_by(leader, GT_KUBE_UPDATE, body.data, leader_on_released);
}

void gt_leader_release(struct gt_leader *leader)
{
    if (leader->releasing)
        return;
    bool had = leader->leads;
    leader->releasing = true;
    withdraw(leader);
    set_leads(leader, false);
    if (!had || !leader_is_ours(leader)) {
        leader->spec.on_released(leader->spec.arg);
        return;
    }
    leader_give_back(leader);
}
