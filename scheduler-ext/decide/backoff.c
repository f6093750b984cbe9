/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/backoff.h"

#include <stdio.h>
#include <string.h>

#include "api/identity.h"
#include "base/backoff.h"
#include "base/digest.h"
#include "base/time_text.h"
#include "scheduler-ext/decide/reservations.h"

/* ---- nodes ---- */

/*
 * A scheduler may refuse a node for lack of CPU or memory, or for reasons that are not known here. With
 * --on-lost-plan=recreate the same node would be chosen again and again for the new pod. The reason may
 * disappear, so the node is excluded for some minutes, or until a pod leaves it.
 */
enum { NODE_MS = 600000 };

/* `node`: GT_NONE where it is not known yet. */
static void exclude_node(struct backoffs *backoffs, const char *key, uint32_t node, uint64_t node_digest,
                         uint64_t now_ms)
{
    const struct refused_node seen = {gt_digest_keyed(key), now_ms + NODE_MS, node, node_digest};
    struct refused_node *to = &backoffs->nodes[0];
    for (unsigned i = 1; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].until_ms < to->until_ms)
            to = &backoffs->nodes[i];
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].key == seen.key && backoffs->nodes[i].node_digest == seen.node_digest)
            to = &backoffs->nodes[i];
    if (to->key != seen.key || to->node_digest != seen.node_digest || to->until_ms < seen.until_ms)
        *to = seen;
}

void gt_backoff_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                     uint32_t node, uint64_t now_ms)
{
    uint64_t digest = gt_reservations_node_digest(cluster, node);
    if (digest)
        exclude_node(backoffs, key, node, digest, now_ms);
}

void gt_backoff_forget_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                            uint32_t node)
{
    uint64_t digest = gt_reservations_node_digest(cluster, node), own = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++)
        if (backoffs->nodes[i].node_digest == digest && backoffs->nodes[i].key != own)
            backoffs->nodes[i] = (struct refused_node){0};
}

/* Pods may be listed before nodes, and a node may come back with another id. */
static uint32_t refused_id(const struct gt_cluster *cluster, const struct refused_node *one)
{
    uint32_t node = one->node, end = gt_cluster_nodes(cluster);
    if (gt_reservations_node_digest(cluster, node) == one->node_digest)
        return node;
    for (node = 0; node < end && gt_reservations_node_digest(cluster, node) != one->node_digest;)
        node++;
    return node < end ? node : GT_NONE;
}

void gt_backoff_nodes(const struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                      uint64_t now_ms, struct gt_node_set *to)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_NODES_MAX; i++) {
        const struct refused_node *one = &backoffs->nodes[i];
        uint32_t node = one->key == digest && one->until_ms > now_ms ? refused_id(cluster, one) : GT_NONE;
        if (node != GT_NONE)
            gt_node_set_add(to, node, NULL);
    }
}

/* ---- jobs ---- */

/*
 * A scheduler evicts pods (preemption, Volcano's reclaim) since another pod needs their GPUs. Reserving the
 * place for the successor, or planning it at once, would take the GPUs back before the other pod is bound,
 * which would lead to another eviction, without end.
 */
static struct backoff_job *find_backoff(const struct backoffs *backoffs, const char *key)
{
    uint64_t digest = gt_digest_keyed(key);
    for (unsigned i = 0; i < BACKOFF_JOBS_MAX; i++)
        if (backoffs->jobs[i].last_ms && backoffs->jobs[i].key == digest)
            return (struct backoff_job *)(uintptr_t)&backoffs->jobs[i];
    return NULL;
}

/* The entry of the job, in place of the oldest where it has none, which counts until `last_ms`. */
static struct backoff_job *make_backoff(struct backoffs *backoffs, const char *key, uint64_t last_ms)
{
    struct backoff_job *to = find_backoff(backoffs, key);
    if (!to) {
        to = &backoffs->jobs[0];
        for (unsigned i = 1; i < BACKOFF_JOBS_MAX; i++)
            if (backoffs->jobs[i].last_ms < to->last_ms)
                to = &backoffs->jobs[i];
        *to = (struct backoff_job){.key = gt_digest_keyed(key)};
    }
    to->last_ms = last_ms > to->last_ms ? last_ms : to->last_ms;
    return to;
}

void gt_backoff_job(struct backoffs *backoffs, const char *key, uint64_t until_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, until_ms);
    job->until_ms = until_ms > job->until_ms ? until_ms : job->until_ms;
}

uint64_t gt_backoff_job_until(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job ? job->until_ms : 0;
}

enum { REPLAN_MAX_MS = 600000 };

unsigned gt_backoff_replan(struct backoffs *backoffs, const char *key, const char *rule, uint64_t now_ms,
                           uint64_t first_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, now_ms);
    job->alike = strcmp(job->rule, rule) == 0 ? job->alike + 1 : 1;
    snprintf(job->rule, sizeof(job->rule), "%s", rule);
    uint64_t pause = gt_backoff_rule(backoffs, key) ? REPLAN_MAX_MS
                                                    : gt_backoff_step(job->replans, first_ms, REPLAN_MAX_MS);
    gt_backoff_job(backoffs, key, now_ms + pause);
    return ++job->replans;
}

const char *gt_backoff_rule(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job && job->rule[0] && job->alike >= BACKOFF_ALIKE ? job->rule : NULL;
}

unsigned gt_backoff_replans(const struct backoffs *backoffs, const char *key)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job ? job->replans : 0;
}

void gt_backoff_forget_replans(struct backoffs *backoffs, const char *key)
{
    struct backoff_job *job = find_backoff(backoffs, key);
    if (job) {
        job->replans = job->alike = 0;
        job->rule[0] = '\0';
    }
}

/* When it was, by the object of the pod; 0: too long ago. A time before the boot of this machine is 1. */
static uint64_t refused_at(const struct gt_pod *pod, const struct gt_cache_moment *moment)
{
    int64_t ago_s = moment->unix_s - (int64_t)(pod->start_s ? pod->start_s : pod->created_s);
    uint64_t ago_ms = ago_s > 0 ? (uint64_t)ago_s * 1000 : 0;
    return ago_ms >= BACKOFF_REFUSALS_MS ? 0 : ago_ms < moment->ms ? moment->ms - ago_ms : 1;
}

/* An object tells its time in whole seconds of another clock. Where as many are known already, one that came
 * so much later at most may be one that gave way to them. */
enum { REFUSED_AT_ONCE_MS = 10000 };

static bool is_counted(const struct backoff_job *job, uint64_t uid)
{
    for (unsigned i = 0; i < BACKOFF_REFUSALS; i++)
        if (job->refused[i].ms && job->refused[i].uid == uid)
            return true;
    return false;
}

/* False: as many came later. */
static bool add_refused(struct backoff_job *job, struct backoff_pod pod, bool fresh)
{
    uint64_t oldest = job->refused[BACKOFF_REFUSALS - 1].ms;
    unsigned at = 0;
    if (oldest && pod.ms < oldest + (fresh ? 0 : REFUSED_AT_ONCE_MS))
        return false;
    while (job->refused[at].ms > pod.ms)
        at++;
    memmove(&job->refused[at + 1], &job->refused[at], (BACKOFF_REFUSALS - at - 1) * sizeof(pod));
    job->refused[at] = pod;
    return true;
}

/* Its owner makes the next pod at once: without a limit hundreds are refused in a day. Their objects often
 * stay, so whoever lists them can go on with the count. */
bool gt_backoff_refusal(struct backoffs *backoffs, struct gt_cache *cache, const struct gt_cache_pod *known,
                        const struct gt_pod *pod, const struct gt_cache_moment *moment,
                        struct backoff_refusal *ret)
{
    gt_auto_buf struct gt_buf key = GT_BUF(2048);
    struct gt_pod_identity identity;
    bool fresh = known && pod->uid && strcmp(known->uid, pod->uid) == 0;
    uint64_t when = fresh ? moment->ms : refused_at(pod, moment);
    if (!when || pod->invalid || !pod->uid || !pod->node_name ||
        gt_pod_identify(&pod->meta, &identity, NULL) < 0)
        return false;
    gt_job_key(&pod->meta, &identity, &key);
    if (!key.data || key.failed)
        return false;
    struct backoff_job *job = make_backoff(backoffs, key.data, when + BACKOFF_REFUSED_MS);
    const struct backoff_pod refused = {when, gt_digest_keyed(pod->uid)};
    if (is_counted(job, refused.uid))
        return false;
    exclude_node(backoffs, key.data, gt_cluster_find_node(gt_cache_cluster(cache), pod->node_name),
                 gt_digest_keyed(pod->node_name), when);
    if (!add_refused(job, refused, fresh))
        return false;
    ret->job = gt_cache_find_job(cache, key.data);
    snprintf(
        ret->text, sizeof(ret->text),
        "the kubelet of node %s refuses pod %s (%s): pods of the job are not planned there for %d minutes%s",
        pod->node_name, pod->meta.name, pod->failed_for, BACKOFF_REFUSALS_MS / 60000,
        gt_backoff_refused_until(backoffs, key.data, moment->ms)
            ? ", and wait meanwhile, since kubelets have refused several"
            : "");
    return true;
}

unsigned gt_backoff_refusals(const struct backoffs *backoffs, const char *key, uint64_t now_ms,
                             uint64_t *ret_last)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    uint64_t last = job ? job->refused[0].ms : 0;
    unsigned recent = 0;
    while (last && recent < BACKOFF_REFUSALS && job->refused[recent].ms &&
           job->refused[recent].ms + BACKOFF_REFUSALS_MS > now_ms)
        recent++;
    *ret_last = last && last + BACKOFF_REFUSED_MS > now_ms ? last : 0;
    return recent;
}

uint64_t gt_backoff_refused_until(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    uint64_t first = job ? job->refused[BACKOFF_REFUSALS - 1].ms : 0;
    return first && first + BACKOFF_REFUSALS_MS > now_ms ? first + BACKOFF_REFUSALS_MS : 0;
}

void gt_backoff_refused_text(int64_t until_s, char text[static BACKOFF_TEXT_SIZE])
{
    char when[GT_TIME_TEXT_SIZE];
    gt_time_text(until_s, when);
    snprintf(
        text, BACKOFF_TEXT_SIZE,
        "kubelets have refused %d of its pods within %d minutes, Events RefusedByKubelet say why: further "
        "ones are planned from %s on",
        BACKOFF_REFUSALS, BACKOFF_REFUSALS_MS / 60000, when);
}

void gt_backoff_set_recreated(struct backoffs *backoffs, const char *key, uint64_t leave_before_s,
                              uint64_t until_ms)
{
    struct backoff_job *job = make_backoff(backoffs, key, until_ms);
    job->recreated_ms = until_ms;
    job->leave_before_s = leave_before_s;
}

uint64_t gt_backoff_recreated(const struct backoffs *backoffs, const char *key, uint64_t now_ms)
{
    const struct backoff_job *job = find_backoff(backoffs, key);
    return job && job->recreated_ms > now_ms ? job->leave_before_s : 0;
}
