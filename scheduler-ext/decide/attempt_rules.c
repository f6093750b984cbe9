/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/attempt_rules.h"
#include "base/err.h"

#include <errno.h>

#include "scheduler-ext/cache/peers.h"

enum { RULES_SAID_MAX = 2048 };

/* A member without a pod gets one like the last before it with as many GPUs, or like any. */
static const struct gt_cache_pod *like_member(const struct gt_job_view *view, uint32_t at,
                                              const struct gt_cache_pod *last)
{
    unsigned gpus = view->job->units.units[view->members[at].unit].gpus;
    if (last && last->gpus == gpus)
        return last;
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod && view->members[i].pod->gpus == gpus)
            return view->members[i].pod;
    return last;
}

int gt_attempt_rules_make(struct gt_cache *cache, const struct gt_job_view *view, struct gt_attempt *to,
                          struct gt_err **err)
{
    bool any = false;
    for (uint32_t i = 0; i < view->count && !any; i++)
        any = view->members[i].pod && gt_cache_pod_has_peers(cache, view->members[i].pod);
    if (!any)
        return 0;
    gt_auto_free struct gt_cache_peer_member *members = calloc(view->count, sizeof(*members));
    if (!members)
        return gt_fail_sys(err, ENOMEM, "plan");
    const struct gt_cache_pod *last = NULL;
    for (uint32_t i = 0; i < view->count; i++) {
        const struct gt_job_view_member *member = &view->members[i];
        const struct gt_cache_pod *pod = member->pod;
        bool has_place = pod && (pod->node_name || pod->plan == GT_CACHE_PLAN_ASSUMED);
        members[i].counted = has_place && member->state != GT_MEMBER_MOVING;
        members[i].pod = pod ? pod : like_member(view, i, last);
        members[i].guessed = !pod;
        last = pod ? pod : last;
    }
    to->said = (struct gt_buf)GT_BUF(RULES_SAID_MAX);
    return gt_cache_peer_rules(cache, members, view->count, &to->rules, &to->said, err);
}

void gt_attempt_rules_done(struct gt_attempt *attempt)
{
    if (attempt->rules)
        gt_plan_rules_done(attempt->rules);
    free(attempt->rules);
    gt_buf_done(&attempt->said);
}
