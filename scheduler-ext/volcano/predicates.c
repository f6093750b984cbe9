/* SPDX-License-Identifier: Apache-2.0 */
#include <limits.h>
#include <string.h>

#include "base/bits.h"
#include "scheduler-ext/volcano/engine.h"

/* What the predicates of Volcano's other plugins say, as sets of nodes for a job's plan. */

/* Marks the nodes of the members that the session may still place elsewhere. */
static void mark_planned(struct gt_volcano *volcano, const struct volcano_job *job, uint8_t *nodes)
{
    const struct volcano_session *session = &volcano->session;
    for (uint32_t i = 0; i < job->view->count; i++) {
        uint32_t id =
            job->view->members[i].state == GT_MEMBER_PLACED ? GT_NONE : gt_job_view_place(job->view, i, NULL);
        if (id < session->ids && session->node_of[id] != GT_VOLCANO_NO_NODE)
            nodes[session->node_of[id]] = GT_VOLCANO_ASKED;
    }
}

/* Marks the nodes with enough available GPUs for a pod of the job. */
static void mark_roomy(struct gt_volcano *volcano, const struct volcano_job *job, uint8_t *nodes)
{
    const struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    const struct volcano_session *session = &volcano->session;
    struct gt_cluster_node node;
    unsigned least = UINT_MAX;
    for (uint32_t u = 0; u < job->view->job->units.count; u++)
        if (job->view->job->units.units[u].gpus < least)
            least = job->view->job->units.units[u].gpus;
    for (uint32_t id = 0; id < session->ids; id++)
        if (session->node_of[id] != GT_VOLCANO_NO_NODE && gt_cluster_get_node(cluster, id, &node) &&
            (unsigned)gt_bit_count(node.available) >= least)
            nodes[session->node_of[id]] = GT_VOLCANO_ASKED;
}

static bool is_of_template(const struct gt_cache_pod *a, const struct gt_cache_pod *b)
{
    return strcmp(a->identity.role, b->identity.role) == 0 && gt_cache_pods_fit_alike(a, b);
}

/* The first waiting task of each template, as far as that is seen: by the role and what it asks of nodes. */
static int list_templates(struct volcano_session *session, const struct volcano_job *job, uint32_t *ret)
{
    int count = 0;
    for (uint32_t i = 0; i < job->view->count && count < GT_VOLCANO_TEMPLATES_MAX; i++) {
        const struct gt_cache_pod *pod = job->view->members[i].pod;
        const struct volcano_task *task = pod ? gt_volcano_task_of(session, pod) : NULL;
        int known = 0;
        if (!task || !task->waits || task->allocated)
            continue;
        while (known < count && !is_of_template(pod, session->tasks[ret[known]].pod))
            known++;
        if (known == count)
            ret[count++] = (uint32_t)(task - session->tasks);
    }
    return count;
}

int gt_volcano_ask(struct gt_volcano *volcano, uint32_t number, bool all, uint8_t *ret, uint32_t *ret_tasks)
{
    struct volcano_session *session = &volcano->session;
    const struct volcano_job *job = gt_volcano_asking_job(volcano, number);
    bool any = false;
    memset(ret, 0, session->node_count);
    if (!job || job->allocated || (!all && !job->planned))
        return 0;
    if (all)
        mark_roomy(volcano, job, ret);
    else
        mark_planned(volcano, job, ret);
    for (uint32_t id = 0; id < session->ids; id++) {
        uint32_t at = session->node_of[id];
        if (at == GT_VOLCANO_NO_NODE)
            continue;
        if (gt_node_set_has(&job->suitable, id) || gt_node_set_has(&job->refused, id))
            ret[at] = 0;
        any = any || ret[at];
    }
    return any ? list_templates(session, job, ret_tasks) : 0;
}

void gt_volcano_answer(struct gt_volcano *volcano, uint32_t number, const uint8_t *nodes)
{
    const struct volcano_session *session = &volcano->session;
    struct volcano_job *job = gt_volcano_asking_job(volcano, number);
    bool refused = false;
    for (uint32_t id = 0; job && id < session->ids; id++) {
        uint32_t at = session->node_of[id];
        if (at == GT_VOLCANO_NO_NODE || !nodes[at])
            continue;
        refused = refused || nodes[at] == GT_VOLCANO_REFUSED;
        /* Without memory the node is asked about again, or refused at its allocation. */
        gt_node_set_add(nodes[at] == GT_VOLCANO_REFUSED ? &job->refused : &job->suitable, id, NULL);
    }
    if (refused && job->planned && !job->allocated)
        gt_volcano_give_back(volcano, job);
}
