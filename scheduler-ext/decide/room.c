/* SPDX-License-Identifier: Apache-2.0 */

#include "base/err.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/drain.h"
#include "scheduler-ext/core/plan_rules.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/jobs/rules.h"

/* Room for a waiting job: nodes to drain, victims, and pods that could move. */

static int attempt_least(const struct gt_job_view *view, const struct gt_node_set *avoid,
                         enum gt_cache_room room, struct gt_attempt *ret, struct gt_plan_request *ret_request)
{
    gt_auto_waiting_units struct gt_waiting_units part = {0}; /* what it needs to begin, or one more unit */
    GT_TRY(gt_attempt_make(view, avoid, NULL, room, ret, NULL));
    if (gt_part_is_allowed(view) && gt_waiting_units_make(view, &part, NULL) == 0)
        gt_attempt_choose(ret, view, &part, 0, part.least);
    *ret_request = gt_attempt_request(view, ret);
    return 0;
}

/* Computes limits as if no pods with GPUs were on the nodes: only nodes that would lack resources even then
 * remain limited. */
static int attempt_emptied(const struct gt_job_view *view, const struct gt_node_set *avoid,
                           struct gt_attempt *ret, struct gt_plan_request *ret_request)
{
    GT_TRY(attempt_least(view, avoid, GT_CACHE_ROOM_EMPTIED, ret, ret_request));
    ret_request->limits = ret->demands.limits;
    ret_request->limit_count = ret->demands.limit_count;
    return 0;
}

bool gt_decide_drain(const struct gt_job_view *view, struct gt_node_set *ret)
{
    gt_auto_attempt struct gt_attempt attempt = {0};
    struct gt_node_set set = {0};
    struct gt_plan_request request;
    if (!view->grouped || attempt_emptied(view, NULL, &attempt, &request) < 0)
        return false;
    bool found = gt_drain_plan(gt_cache_cluster(view->cache), &request);
    for (uint32_t i = 0; found && i < view->count; i++)
        if (gt_member_is_open(&view->members[i]) && !attempt.pods[i].running)
            found = gt_node_set_add(&set, attempt.pods[i].place.node, NULL) == 0;
    if (!found) {
        gt_node_set_done(&set);
        return false;
    }
    gt_node_set_done(ret);
    *ret = set;
    return true;
}

static struct gt_plan_pod *take_places(const struct gt_job_view *view, struct gt_attempt *attempt)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (!gt_member_is_open(&view->members[i]) || attempt->pods[i].running)
            attempt->pods[i].place.node = GT_NONE;
    return gt_steal(attempt->pods);
}

bool gt_decide_fits(const struct gt_job_view *view, const struct gt_node_set *avoid,
                    struct gt_plan_pod **ret_places)
{
    gt_auto_attempt struct gt_attempt attempt = {0};
    struct gt_plan_request request;
    struct gt_plan_failure failure;
    if (attempt_least(view, avoid, GT_CACHE_ROOM_NOW, &attempt, &request) < 0 ||
        !gt_demands_plan(view->cache, &attempt.demands, &request, &failure))
        return false;
    *ret_places = take_places(view, &attempt);
    return true;
}

/* Whether the job fits without the victims within its pods' rules, too: choosing does not know these. */
static bool victims_suffice(struct gt_cluster *cluster, struct gt_plan_request *request,
                            const struct gt_decide_victims *spec)
{
    size_t nodes = gt_cluster_nodes(cluster);
    gt_auto_free uint64_t *freed = calloc(nodes + 1, sizeof(*freed));
    struct gt_plan_failure failure;
    if (!freed)
        return false;
    for (size_t n = 0; spec->freed && n < nodes; n++)
        freed[n] = spec->freed[n];
    for (uint32_t i = 0; i < spec->count; i++)
        if (spec->victims[i].chosen)
            freed[spec->victims[i].place.node] |= spec->victims[i].place.mask;
    request->freed = freed;
    return gt_plan_ruled(cluster, request, &failure);
}

bool gt_decide_victims(const struct gt_job_view *view, const struct gt_decide_victims *spec,
                       struct gt_plan_pod **ret_places)
{
    gt_auto_attempt struct gt_attempt attempt = {0};
    struct gt_plan_request request;
    if (!view->grouped || attempt_emptied(view, spec->avoid, &attempt, &request) < 0)
        return false;
    request.freed = spec->freed;
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    bool found = gt_victims_choose(cluster, &request, spec->victims, spec->count, spec->least);
    if (!found && spec->others_leave) {
        request.limit_count = 0;
        found = gt_victims_choose(cluster, &request, spec->victims, spec->count, spec->least);
    }
    if (!found || (!spec->others_leave && !victims_suffice(cluster, &request, spec)))
        return false;
    *ret_places = take_places(view, &attempt);
    return true;
}

uint32_t gt_decide_unit_gpus(const struct gt_cache_job *job, const struct gt_job_texts *texts)
{
    struct gt_job_sizes sizes;
    if (!texts->of[GT_KEY_GROUP])
        return 0;
    if (gt_job_sizes_read(texts, 1, &sizes, NULL) < 0)
        return UINT32_MAX;
    if (sizes.within && !sizes.whole && sizes.group < gt_cache_job_gpus(job))
        return UINT32_MAX;
    return sizes.whole ? gt_cache_job_gpus(job) : sizes.group;
}

/* Where pods of a job that must lie in one supernode have places, the others go to that one. */
static int stay_together(const struct gt_cluster *cluster, const struct gt_plan_request *request,
                         struct gt_node_set *excluded, struct gt_err **err)
{
    struct gt_cluster_node node;
    uint32_t own = GT_NONE;
    for (uint32_t i = 0; request->within && own == GT_NONE && i < request->pod_count; i++)
        if (request->pods[i].running && gt_cluster_get_node(cluster, request->pods[i].place.node, &node))
            own = gt_cluster_domain(cluster, node.supernode, request->within);
    for (uint32_t n = 0; own != GT_NONE && n < gt_cluster_nodes(cluster); n++)
        if (gt_cluster_get_node(cluster, n, &node) &&
            gt_cluster_domain(cluster, node.supernode, request->within) != own)
            GT_TRY(gt_node_set_add(excluded, n, err));
    return 0;
}

int gt_decide_moves(const struct gt_job_view *view, const struct gt_decide_moves *spec,
                    struct gt_relocation *ret, struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    gt_auto_attempt struct gt_attempt attempt = {0};
    gt_auto_free uint64_t *freed = calloc((size_t)gt_cluster_nodes(cluster) + 1, sizeof(*freed));
    struct gt_relocate_spec relocate = {
        .moves_avoid = spec->moves_avoid, .work = spec->work, .may_go = spec->may_go, .arg = spec->arg};
    struct gt_relocation found = {0};
    struct gt_plan_request request;
    struct gt_plan_failure failure;
    GT_NEED(freed, err, "moves");
    *ret = found;
    if (!view->grouped || attempt_emptied(view, spec->avoid, &attempt, &request) < 0 ||
        !gt_advise_job_of(&request, &relocate.job) ||
        (request.slow == GT_SLOW_NEVER && gt_cluster_has_slow(cluster))) /* which this search does not know */
        return 0;
    GT_TRY(stay_together(cluster, &request, &attempt.excluded, err));
    relocate.job_avoids = request.excluded;
    relocate.tier = request.within;
    GT_TRY(gt_relocate_within(cluster, spec->pods, spec->count, &relocate, &found, err));
    for (uint32_t i = 0; i < found.count; i++)
        freed[spec->pods[found.moves[i].pod].place.node] |= spec->pods[found.moves[i].pod].place.mask;
    request.freed = freed;
    if (found.count && gt_relocate_promise(cluster, &found, false)) {
        /* Other resources and rules of the job count only here. */
        found.possible = gt_plan_ruled(cluster, &request, &failure);
        gt_relocate_promise(cluster, &found, true);
    }
    for (uint32_t i = 0; spec->room && found.count && found.possible && i < view->count; i++)
        if (gt_member_is_open(&view->members[i]) && !attempt.pods[i].running &&
            gt_node_set_add(spec->room, attempt.pods[i].place.node, NULL) < 0)
            found.possible = false;
    *ret = found;
    return 0;
}
