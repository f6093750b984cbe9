/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>

#include "scheduler-ext/volcano/engine.h"

/* Tasks of a session, and promises for their pods that are in no object. */

int gt_volcano_say(char *error, int code, const char *text)
{
    snprintf(error, GT_VOLCANO_TEXT_SIZE, "%s", text);
    return code;
}

struct volcano_task *gt_volcano_task_of(struct volcano_session *session, const struct gt_cache_pod *pod)
{
    size_t at =
        GT_LOWER_BOUND(i, session->pods, (uintptr_t)session->tasks[session->by_pod[i]].pod < (uintptr_t)pod);
    struct volcano_task *task = at < session->pods ? &session->tasks[session->by_pod[at]] : NULL;
    return task && task->pod == pod ? task : NULL;
}

struct volcano_task *gt_volcano_task_at(struct gt_volcano *volcano, uint32_t task)
{
    return volcano->session.open && task < volcano->session.task_count ? &volcano->session.tasks[task] : NULL;
}

void gt_volcano_own(struct gt_volcano *volcano, const struct gt_cache_pod *pod)
{
    struct gt_index_entry *entry = gt_index_find(&volcano->own, pod->meta.namespace_, pod->meta.name);
    if (!entry)
        entry = gt_index_add(&volcano->own, pod->meta.namespace_, pod->meta.name);
    if (!entry) /* without memory it counts as the pod's own until it is bound or deleted */
        return;
    entry->uid = gt_digest_keyed(pod->uid);
    entry->mark = (uint32_t)volcano->session_number;
}

void gt_volcano_disown(struct gt_volcano *volcano, const struct gt_cache_pod *pod)
{
    free(gt_index_take(&volcano->own, pod->meta.namespace_, pod->meta.name));
}

void gt_volcano_assume(struct gt_volcano *volcano, struct gt_cache_pod *pod, uint32_t node)
{
    struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    struct gt_cluster_node at;
    struct gt_choice choice;
    uint32_t id = node < volcano->session.node_count
                      ? gt_cluster_find_node(cluster, volcano->session.node_names[node])
                      : GT_NONE;
    if (!gt_cluster_get_node(cluster, id, &at) ||
        !gt_choose(at.class, at.available, 0, pod->gpus, 0, &choice) ||
        gt_cache_plan_pod(volcano->cache, pod, id, choice.mask, NULL) < 0)
        return;
    gt_volcano_own(volcano, pod);
}

bool gt_volcano_has_gates(const struct gt_job_view *view)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod && view->members[i].pod->state == GT_CACHE_GATED)
            return true;
    return false;
}
