/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/placement/reconcile.h"
#include "scheduler-ext/placement/write.h"

/*
 * kube-scheduler says "0/8 nodes are available: 1 node(s) didn't have free ports for the requested pod ports,
 * 7 node(s) didn't match Pod's node affinity/selector. preemption: ...". The plan allows one node, so what is
 * said of others is the affinity that we have written. Words of other schedulers are taken as they are.
 */

static bool is_ours(const char *part, size_t len)
{
    static const char *const ours[] = {"node affinity/selector", "NodeAffinity", "affinity selector"};
    for (unsigned i = 0; i < GT_COUNT(ours); i++)
        if (memmem(part, len, ours[i], strlen(ours[i])))
            return true;
    return false;
}

/* Without the digits before it, which change from node to node. */
static void add_cause(const char *part, size_t len, struct gt_buf *to)
{
    size_t skip = strspn(part, "0123456789 ");
    skip = skip < len ? skip : len;
    if (is_ours(part, len) || skip == len)
        return;
    if (to->len)
        gt_buf_puts(to, ", ");
    gt_buf_add(to, part + skip, len - skip);
}

/* What a scheduler has against the planned node, without what differs from node to node; "" where that is not
 * known. */
static void lost_plans_rule(const char *said, char *to, size_t size)
{
    static const char begin[] = "nodes are available: ";
    gt_auto_buf struct gt_buf rule = GT_BUF(1024);
    const char *at = said ? strstr(said, begin) : NULL;
    to[0] = '\0';
    if (!said)
        return;
    const char *end = at ? strstr(at, ". ") : NULL;
    for (at = at ? at + strlen(begin) : NULL; at && *at;) {
        size_t left = end ? (size_t)(end - at) : strlen(at);
        const char *comma = memmem(at, left, ", ", 2);
        size_t len = comma ? (size_t)(comma - at) : left;
        add_cause(at, !comma && !end && len && at[len - 1] == '.' ? len - 1 : len, &rule);
        at = comma ? comma + 2 : NULL;
    }
    if (!rule.len)
        add_cause(said, strlen(said), &rule);
    if (rule.len)
        snprintf(to, size, "%s", rule.data);
}

/*
 * Plans that failed after the gates were removed: the planned GPUs are gone or taken, or the scheduler
 * refuses the node.
 *
 * Where a pod of the job has run, only a person knows what a restart costs, so the loss is reported, and with
 * --on-lost-plan=recreate the pods on no node are deleted. Where none has run, nothing is lost by planning
 * the job again as a whole: all its pods are evicted, their owner creates new ones, and these are planned
 * without the refused nodes.
 */

enum { LOSS_TEXT_MAX = 1536 };

/* ---- which plans are lost ---- */

static bool is_plan_refused(struct reconcile *reconcile, const struct record *record)
{
    uint64_t limit = reconcile->placement->spec.options.unschedulable_ms;
    if (!record || !record->unschedulable_ms)
        return false;
    if (reconcile->now - record->unschedulable_ms >= limit)
        return true;
    gt_placement_due(reconcile->pjob, record->unschedulable_ms + limit);
    return false;
}

bool gt_reconcile_recreate(struct reconcile *reconcile, const struct gt_cache_pod *pod, struct record *record)
{
    char braked[GT_BRAKE_WHY_SIZE];
    if (reconcile->placement->spec.options.lost_plan != GT_LOST_RECREATE || !pod->meta.owner_name ||
        gt_placement_brake_keeps(reconcile, NULL, braked))
        return false;
    gt_write_delete(reconcile->pjob, record);
    return true;
}

static void say_refusal(const struct reconcile *reconcile, const struct gt_cache_pod *pod,
                        const struct record *record, char *to, size_t size)
{
    struct gt_cluster_node node;
    bool there =
        gt_cluster_get_node(gt_cache_cluster(reconcile->placement->spec.cache), pod->planned.node, &node);
    const char *said = record ? record->object.refusal : NULL;
    snprintf(to, size,
             "the scheduler refuses %s, the planned node of pod %s; GPUs are no longer reserved there%s%s",
             there ? node.name : "a node that is gone", pod->meta.name, said ? "; it says: " : "",
             said ? said : "");
}

/* What to report about a member whose plan is lost; NULL: it is not lost. */
static const char *loss_of(struct reconcile *reconcile, const struct gt_job_view_member *member,
                           const struct record *record, char *text, size_t size)
{
    bool refused =
        member->pod->refused || (member->state == GT_MEMBER_LIFTED && is_plan_refused(reconcile, record));
    if (refused && record && record->object.held) {
        snprintf(
            text, size,
            "its queue has more than its share; the planned GPUs are no longer reserved, and other jobs use "
            "its node only where no other serves");
        return GT_CONDITION_HELD;
    }
    if (refused) {
        say_refusal(reconcile, member->pod, record, text, size);
        return GT_CONDITION_REFUSED;
    }
    snprintf(text, size, "the planned GPUs of pod %s were taken, or are gone, before it was bound",
             member->pod->meta.name);
    const char *reason = member->state == GT_MEMBER_LOST ? "PlanLost" : NULL;
    return reason;
}

/* ---- whether the job is planned again as a whole ---- */

static bool has_run(const struct reconcile *reconcile)
{
    const struct gt_cache_pod *pod = reconcile->pjob->job->pods;
    while (pod && !pod->started)
        pod = pod->next;
    return pod || (reconcile->owner && reconcile->owner->ended);
}

/* Its pods that are to be evicted: they exist, and have no gate. */
static bool is_to_leave(const struct gt_cache_pod *pod)
{
    return pod->state != GT_CACHE_GATED && !pod->deleting;
}

/* NULL: the brake lets its pods go. */
static const char *brake_obstacle(struct reconcile *reconcile, const char *what, char *text, size_t size)
{
    char braked[GT_BRAKE_WHY_SIZE];
    if (!gt_placement_brake_keeps(reconcile, NULL, braked))
        return NULL;
    snprintf(text, size, "no pod is %s: %s", what, braked);
    return text;
}

/* Why the job is not planned again as a whole; NULL: it is. */
static const char *replan_obstacle(struct reconcile *reconcile, char *text, size_t size)
{
    uint32_t leave = 0;
    if (reconcile->placement->spec.options.lost_plan != GT_LOST_REPORT) {
        const char *braked = brake_obstacle(reconcile, "deleted", text, size);
        return braked ? braked : "";
    }
    if (has_run(reconcile))
        return "pods of it have run, so it is not planned again by itself";
    for (const struct gt_cache_pod *pod = reconcile->pjob->job->pods; pod; pod = pod->next) {
        if (!pod->meta.owner_name)
            return "nothing would create its pods again, so it is not planned again by itself";
        leave += is_to_leave(pod);
    }
    if (!reconcile->owner || leave <= reconcile->owner->failures_left)
        return brake_obstacle(reconcile, "evicted", text, size);
    snprintf(text, size,
             "it is not planned again by itself: its Job counts evicted pods as failed, and %u more would "
             "exceed its "
             "backoffLimit. A podFailurePolicy that ignores DisruptionTarget allows it",
             leave);
    return text;
}

static void set_stalled(struct reconcile *reconcile, const char *reason, const char *text)
{
    char whole[2 * LOSS_TEXT_MAX], why[512];
    const struct gt_job_view *view = reconcile->view;
    const char *obstacle = reconcile->may_replan ? replan_obstacle(reconcile, why, sizeof(why)) : NULL;
    if (gt_job_view_gated(view) || view->states[GT_MEMBER_TO_RESERVE])
        return; /* its state says what it waits for */
    snprintf(whole, sizeof(whole), "%u of its %u pods cannot start as planned: %s%s%s", reconcile->lost,
             view->count, text, obstacle && *obstacle ? "; " : "", obstacle ? obstacle : "");
    gt_placement_set_state(reconcile->pjob, GT_PLACEMENT_LOST, reason, whole);
}

/* ---- reports ---- */

static void report_lost(struct reconcile *reconcile, const struct gt_job_view_member *member,
                        struct record *record, const char *reason, const char *text)
{
    struct gt_placement *placement = reconcile->placement;
    bool held = strcmp(reason, GT_CONDITION_HELD) == 0; /* its node has no problem */
    if (strcmp(reason, GT_CONDITION_REFUSED) == 0)
        gt_backoff_node(&placement->backoffs, gt_cache_cluster(placement->spec.cache),
                        reconcile->pjob->job->key, member->pod->planned.node, reconcile->now);
    record->lost_reported = record->lost_reported || member->pod->refused;
    if (!record->lost_reported)
        placement->counters.pods.lost++;
    bool again = !held && gt_reconcile_recreate(reconcile, member->pod, record);
    if (!record->lost_reported) {
        const struct gt_condition_text condition = {.reason = reason, .message = text};
        if (!again && record->object.condition != gt_condition_digest(&condition))
            gt_write_condition(reconcile->placement, reconcile->pjob, record, &condition, false, NULL);
        gt_placement_event(reconcile->pjob, member->pod, true, reason, again ? "Recreate" : "Report", text);
    }
    record->lost_reported = true;
}

/*
 * A scheduler that refuses the pods of a job says so one after the other. The new plan is to avoid all of
 * their nodes, so it waits until the other pods are bound, or refused as long; but not longer than that
 * again.
 */
static bool await_verdicts(struct reconcile *reconcile)
{
    uint64_t limit = reconcile->placement->spec.options.unschedulable_ms, first = UINT64_MAX;
    bool open = false;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        if (member->state != GT_MEMBER_LIFTED && member->state != GT_MEMBER_LOST)
            continue;
        const struct record *record = gt_record_of(reconcile->placement, member->pod);
        uint64_t since = record ? record->unschedulable_ms : 0;
        first = since && since < first ? since : first;
        open |= member->state == GT_MEMBER_LIFTED && !(since && reconcile->now >= since + limit) &&
                !gt_node_set_has(&reconcile->refused, member->pod->planned.node);
    }
    if (!open || first == UINT64_MAX || reconcile->now >= first + 2 * limit)
        return false;
    gt_placement_due(reconcile->pjob, first + 2 * limit);
    return true;
}

void gt_lost_plans_handle(struct reconcile *reconcile)
{
    char text[LOSS_TEXT_MAX], first[LOSS_TEXT_MAX] = "";
    const char *first_reason = NULL;
    for (uint32_t i = 0; i < reconcile->view->count; i++) {
        const struct gt_job_view_member *member = &reconcile->view->members[i];
        if (member->state != GT_MEMBER_LOST && member->state != GT_MEMBER_LIFTED)
            continue;
        const struct record *known = gt_record_of(reconcile->placement, member->pod);
        const char *reason = loss_of(reconcile, member, known, text, sizeof(text));
        if (!reason)
            continue;
        reconcile->lost++;
        reconcile->may_replan += strcmp(reason, GT_CONDITION_HELD) != 0;
        if (!first_reason)
            memcpy(first, text, sizeof(first));
        first_reason = first_reason ? first_reason : reason;
        struct record *record = gt_record_writable(reconcile->pjob, member->pod, reconcile->now);
        if (record)
            report_lost(reconcile, member, record, reason, text);
    }
    if (first_reason)
        set_stalled(reconcile, first_reason, first);
    reconcile->verdicts_open = reconcile->may_replan && await_verdicts(reconcile);
    gt_placement_list(reconcile->pjob, PJOBS_LOST, reconcile->lost > 0);
}

/* ---- planning it again ---- */

bool gt_lost_plans_wait(struct reconcile *reconcile, uint64_t until_ms)
{
    struct pjob *pjob = reconcile->pjob;
    unsigned times = gt_backoff_replans(&reconcile->placement->backoffs, pjob->job->key);
    uint32_t refused = reconcile->refused.nodes ? gt_node_set_count(&reconcile->refused) : 0;
    const char *rule = gt_backoff_rule(&reconcile->placement->backoffs, pjob->job->key);
    char text[256 + BACKOFF_RULE_SIZE], when[GT_TIME_TEXT_SIZE];
    if (!times)
        return false;
    gt_placement_time_text(until_ms, when);
    snprintf(text, sizeof(text),
             "its plan failed before any of its pods had run: it is planned again at %s (for the %u. time), "
             "without the "
             "%u nodes that its scheduler refused%s%s",
             when, times, refused,
             rule ? "; the reason is always the same, so others are not tried now: " : "", rule ? rule : "");
    gt_placement_set_state(pjob, GT_PLACEMENT_GATHERS, "PlannedAgain", text);
    return true;
}

static void begin_replan(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    struct gt_placement *placement = reconcile->placement;
    char text[128], rule[BACKOFF_RULE_SIZE] = "";
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod && !rule[0]; pod = pod->next) {
        const struct record *record = gt_record_of(placement, pod);
        if (record && record->object.unschedulable)
            lost_plans_rule(record->object.refusal, rule, sizeof(rule));
    }
    unsigned times = gt_backoff_replan(&placement->backoffs, pjob->job->key, rule, reconcile->now,
                                       placement->times.eviction_ms);
    pjob->move.replans = true;
    gt_placement_brake_take(reconcile);
    snprintf(text, sizeof(text),
             "none of its pods has run: all are evicted, and the job is planned again as a whole (for the "
             "%u. time)",
             times);
    gt_placement_event(pjob, pjob->job->pods, true, "PlannedAgain", "Evict", text);
}

bool gt_lost_plans_replan(struct reconcile *reconcile)
{
    struct pjob *pjob = reconcile->pjob;
    char why[512];
    bool leaves = false;
    if (has_run(reconcile) && !pjob->move.replans)
        gt_backoff_forget_replans(&reconcile->placement->backoffs, pjob->job->key);
    if (!pjob->move.replans &&
        (!reconcile->may_replan || reconcile->verdicts_open || replan_obstacle(reconcile, why, sizeof(why))))
        return false;
    if (!pjob->move.replans)
        begin_replan(reconcile);
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next) {
        if (!is_to_leave(pod))
            continue;
        leaves = true;
        gt_evict_pod(reconcile, pod);
    }
    pjob->move.replans = leaves;
    if (leaves && pjob->state != GT_PLACEMENT_LOST)
        gt_placement_set_state(pjob, GT_PLACEMENT_LOST, "PlannedAgain",
                               "its pods are evicted, to be planned again");
    if (leaves)
        gt_placement_publish(pjob, reconcile->view, reconcile->owner);
    return leaves;
}
