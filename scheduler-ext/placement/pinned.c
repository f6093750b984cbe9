/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "api/lease.h"
#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/decide/noted.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/state.h"

/* Nodes to which other jobs' pods are pinned. */

/*
 * A pod without its gate is pinned to its node. Where its plan is lost nothing is reserved there, but others
 * should avoid the node, since the pod can only run when that node has room.
 */
int gt_placement_pinned(const struct pjob *pjob, struct gt_node_set *to, struct gt_err **err)
{
    for (const struct pjob *other = pjob->placement->jobs.lists[PJOBS_LOST].first; other;
         other = other->links[PJOBS_LOST].next) {
        if (other == pjob)
            continue;
        for (const struct gt_cache_pod *pod = other->job->pods; pod; pod = pod->next) {
            if (pod->state != GT_CACHE_WAITING || pod->deleting || pod->planned.node == GT_NONE)
                continue;
            GT_TRY(gt_node_set_add(to, pod->planned.node, err));
        }
    }
    return 0;
}

/* The supernodes of the job with that key. */
static int pinned_add_supernodes(const struct gt_cluster *cluster, const struct gt_cache_job *job,
                                 struct gt_node_set *to, struct gt_err **err)
{
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        uint32_t node = pod->node != GT_NONE ? pod->node : pod->planned.node;
        struct gt_cluster_node info;
        if (!pod->deleting && node != GT_NONE && gt_cluster_get_node(cluster, node, &info))
            GT_TRY(gt_node_set_add(to, info.supernode, err));
    }
    return 0;
}

int gt_placement_spread(const struct reconcile *reconcile, struct gt_node_set *to, struct gt_err **err)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set used = {0};
    struct gt_cache *cache = reconcile->placement->spec.cache;
    const struct gt_cache_job *own = reconcile->pjob->job;
    const struct gt_cluster *cluster = gt_cache_cluster(cache);
    bool more = reconcile->view->job->sizes.spread && reconcile->owner && reconcile->owner->jobs;
    for (unsigned number = 0; more; number++) {
        gt_auto_buf struct gt_buf key = GT_BUF(2048);
        more = gt_owner_job_key(reconcile->kind, reconcile->owner, own->pods->meta.namespace_,
                                own->pods->identity.owner, number, &key);
        const struct gt_cache_job *other = more && key.data ? gt_cache_find_job(cache, key.data) : NULL;
        if (other && other != own)
            GT_TRY(pinned_add_supernodes(cluster, other, &used, err));
    }
    for (uint32_t n = 0; used.nodes && n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node info;
        if (gt_cluster_get_node(cluster, n, &info) && gt_node_set_has(&used, info.supernode))
            GT_TRY(gt_node_set_add(to, n, err));
    }
    return 0;
}

const struct gt_node_set *gt_placement_kept_nodes(const struct pjob *pjob)
{
    const struct gt_placement *placement = pjob->placement;
    return placement->nodes.holder && placement->nodes.holder != pjob
               ? gt_cluster_kept_nodes(gt_cache_cluster(placement->spec.cache), GT_PROMISE_NODE)
               : NULL;
}

const char *gt_placement_say_holder(const struct gt_placement *placement, struct gt_buf *to)
{
    const struct pjob *holder = placement->nodes.holder;
    if (!holder)
        return NULL;
    const struct gt_promise as_published = {.kind = GT_PROMISE_NODE,
                                            .owner = holder->job->number,
                                            .until_ms = (uint64_t)holder->place.reserved_until.unix_s * 1000};
    gt_cache_say_promise(placement->spec.cache, &as_published, 0, to);
    return to->data;
}

/* Spare nodes, which only replacements may use. */

void gt_placement_find_spares(struct gt_placement *placement)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set spares = {0};
    struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    placement->nodes.spares_ms = gt_clock_ms();
    if (gt_cache_spares(placement->spec.cache, (uint32_t)placement->spec.options.spare_nodes, &spares, NULL) <
        0)
        gt_node_set_clear(&spares);
    if (gt_node_set_next(gt_cluster_kept_nodes(cluster, GT_PROMISE_SPARE), 0) != GT_NONE ||
        gt_node_set_next(&spares, 0) != GT_NONE)
        gt_cluster_promise_nodes(cluster, GT_PROMISE_SPARE, 0, &spares, 0);
}

/* In the log and as an Event. */
static void warn_about(const struct gt_placement *placement, const struct gt_event_object *event)
{
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, event->name, event->note);
    if (placement->spec.recorder)
        gt_kube_record(placement->spec.recorder, event);
}

void gt_placement_report_spares(struct gt_placement *placement)
{
    uint64_t spares;
    uint32_t nodes;
    char text[128];
    for (const char *name;
         (name = gt_cache_next_excess(placement->spec.cache, (uint32_t)placement->spec.options.spare_nodes,
                                      &spares, &nodes));) {
        if (spares == INT64_MAX)
            snprintf(text, sizeof(text), GT_ANNOTATION_SPARES " is no number of nodes: it has no spares");
        else
            snprintf(text, sizeof(text),
                     "%" PRIu64 " spare nodes are more than its %u nodes: it has no spares", spares, nodes);
        const struct gt_event_object event = {.api_version = GT_API_GROUP_VERSION,
                                              .kind = GT_KIND_SUPERNODE,
                                              .name = name,
                                              .warning = true,
                                              .reason = "TooManySpares",
                                              .action = "Place",
                                              .note = text};
        warn_about(placement, &event);
    }
}

/* What people reserve. */

void gt_placement_note_reserved(struct gt_placement *placement)
{
    bool is_node;
    gt_cache_promise_reserved(placement->spec.cache);
    for (const char *name; (name = gt_cache_next_wrong_reserved(placement->spec.cache, &is_node));) {
        const char *text = GT_ANNOTATION_RESERVED
            " is not read: expected a time such as 2026-01-31T12:00:00Z, then from=TIME and "
            "for=NAMESPACE or for=NAMESPACE/KIND/NAME where they are wanted";
        const struct gt_event_object event = {.api_version = is_node ? "v1" : GT_API_GROUP_VERSION,
                                              .kind = is_node ? "Node" : GT_KIND_SUPERNODE,
                                              .name = name,
                                              .uid = is_node ? name : NULL, /* as the kubelet does */
                                              .warning = true,
                                              .reason = "BadReservation",
                                              .action = "Place",
                                              .note = text};
        warn_about(placement, &event);
    }
}

/* The reservations of the leader, written for the other replicas. */

void gt_placement_write_note(const struct gt_placement *placement, struct gt_buf *to)
{
    gt_noted_write(gt_cache_cluster(placement->spec.cache), to);
    gt_lease_note_add_moved(to, placement->moves.made.times_s, placement->moves.made.count);
}

/* Called after the end of a term. */
void gt_placement_write_last_note(const struct gt_placement *placement, struct gt_buf *to)
{
    uint64_t now = gt_clock_ms(), request_ms = placement->times.request_ms;
    uint64_t end = placement->term.offered_ms ? placement->term.offered_ms + request_ms : 0;
    if (!placement->term.earlier_known)
        return;
    end = placement->term.earlier_end_ms > end ? placement->term.earlier_end_ms : end;
    gt_lease_note_add_quiet(to, end > now ? (request_ms - (end - now)) / 1000 : UINT32_MAX);
    gt_lease_note_add_moved(to, placement->moves.made.times_s, placement->moves.made.count);
}

void gt_placement_read_note(struct gt_placement *placement, const char *note)
{
    uint64_t quiet_s, request_ms = placement->times.request_ms;
    if (placement->round.started)
        return;
    placement->term.note_is_fresh = true;
    placement->term.earlier_known = gt_lease_note_quiet(note, &quiet_s);
    if (placement->term.earlier_known)
        placement->term.earlier_end_ms =
            quiet_s * 1000 < request_ms ? gt_clock_ms() + request_ms - quiet_s * 1000 : 0;
    gt_rebalance_read_note(placement, note);
    gt_noted_read(gt_cache_cluster(placement->spec.cache), note);
}
