/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/cache/audit_internal.h"

enum { MASK_TEXT = 256 };

/* ---- pods of a node ---- */

static const char *mask_text(char text[static MASK_TEXT], uint64_t mask)
{
    gt_auto_buf struct gt_buf list = GT_BUF(MASK_TEXT - 1);
    gt_text_add_mask(&list, mask);
    gt_text_copy(text, MASK_TEXT, list.data && !list.failed ? list.data : "?");
    return text;
}

static uint64_t key_of(const struct gt_audit *audit, const struct cache_pod *pod)
{
    return gt_digest_mix_text(audit->cache->seed, pod->pub.uid);
}

/* GPUs that it uses on the node of its plan and that are not in the plan. */
static uint64_t gpus_beside_plan(const struct cache_pod *pod)
{
    return pod->at ? pod->owned & ~pod->resolved : 0;
}

/* Whether the pod's object has a plan. A plan of the planner that was not written does not count. */
static bool audit_is_planned(const struct cache_pod *pod)
{
    return pod->plan && !pod->overrides;
}

static void audit_check_place(struct gt_audit *audit, const struct cache_pod *pod)
{
    char used[MASK_TEXT], planned[MASK_TEXT];
    const struct gt_pod_meta *meta = &pod->pub.meta;
    if (!pod->at || !audit_is_planned(pod))
        return;
    if (pod->plan->node != pod->at)
        gt_audit_see(audit, GT_FINDING_MISPLACED, key_of(audit, pod), pod,
                     "pod %s/%s is on node %s, its plan is for node %s", meta->namespace_, meta->name,
                     pod->at->name, pod->plan->node->name);
    else if (gpus_beside_plan(pod))
        gt_audit_see(audit, GT_FINDING_MISPLACED, key_of(audit, pod), pod,
                     "pod %s/%s uses GPUs %s of node %s, its plan is for %s", meta->namespace_, meta->name,
                     mask_text(used, pod->owned), pod->at->name, mask_text(planned, pod->resolved));
}

/* Other pods may be planned for the GPUs of a plan that was given up, of a plan whose pod has other GPUs, and
 * of a pod that will never start. */
static bool has_claim(const struct cache_pod *pod, const struct cache_node *node)
{
    return audit_is_planned(pod) && pod->plan->node == node && !pod->pub.refused && !gpus_beside_plan(pod) &&
           (pod->at || !pod->pub.deleting);
}

/* An older pod of the node that is planned for one of those GPUs. */
static const struct cache_pod *conflict_with(const struct cache_pod *pod, const struct cache_node *node)
{
    for (const struct cache_pod *other = node->pods; other != pod; other = other->node_next)
        if (has_claim(other, node) && other->resolved & pod->resolved)
            return other;
    return NULL;
}

static void check_claims(struct gt_audit *audit, const struct cache_node *node)
{
    uint64_t claimed = 0;
    char shared[MASK_TEXT];
    for (const struct cache_pod *pod = node->pods; pod; pod = pod->node_next) {
        if (!has_claim(pod, node))
            continue;
        const struct cache_pod *other = pod->resolved & claimed ? conflict_with(pod, node) : NULL;
        if (other)
            gt_audit_see(audit, GT_FINDING_DOUBLE_PLANNED, key_of(audit, pod), pod,
                         "GPUs %s of node %s are in the plans of two pods, %s/%s and %s/%s",
                         mask_text(shared, pod->resolved & other->resolved), node->name,
                         pod->pub.meta.namespace_, pod->pub.meta.name, other->pub.meta.namespace_,
                         other->pub.meta.name);
        claimed |= pod->resolved;
    }
}

/* ---- ResourceClaims of a node ---- */

/* Whether the node's agent reports that its pod has some of the GPUs. */
static bool audit_is_served(const struct cache_node *node, const struct cache_claim *claim, uint64_t gpus)
{
    for (uint32_t i = 0; i < node->owner_count; i++)
        if (node->owners[i].mask & gpus && strcmp(node->owners[i].pod, claim->pub.pod) == 0 &&
            strcmp(node->owners[i].namespace_, claim->pub.namespace_) == 0)
            return true;
    return false;
}

static void see_both(struct gt_audit *audit, const struct cache_node *node, const struct cache_claim *one,
                     const struct cache_claim *other, uint64_t gpus)
{
    char shared[MASK_TEXT];
    bool served = audit_is_served(node, one, gpus);
    bool later =
        served == audit_is_served(node, other, gpus) ? strcmp(one->pub.uid, other->pub.uid) > 0 : !served;
    const struct gt_cache_claim *first = later ? &other->pub : &one->pub;
    const struct gt_cache_claim *second = later ? &one->pub : &other->pub;
    gt_audit_see_claim(
        audit, GT_FINDING_DOUBLE_CLAIMED, gt_digest_mix_text(audit->cache->seed, second->uid), second,
        "GPUs %s of node %s are in two ResourceClaims, %s/%s and %s/%s; the pod of the second one "
        "waits for the other's end",
        mask_text(shared, gpus), node->name, first->namespace_, first->name, second->namespace_,
        second->name);
}

static void check_resource_claims(struct gt_audit *audit, const struct cache_node *node)
{
    uint64_t claimed = 0;
    for (const struct cache_claim *claim = node->allocated; claim; claim = claim->node_next) {
        uint64_t gpus = gt_cache_claimed_gpus(claim);
        for (const struct cache_claim *other = node->allocated; gpus & claimed && other != claim;
             other = other->node_next) {
            uint64_t shared = gpus & gt_cache_claimed_gpus(other);
            if (shared)
                see_both(audit, node, claim, other, shared);
        }
        claimed |= gpus;
    }
}

/* ---- rounds ---- */

enum { UNPLACED_COST = 10 }; /* such a pod is searched among many findings */

static void count_checked(struct gt_audit *audit, uint32_t pods)
{
    audit->left -= pods < audit->left ? pods : audit->left;
}

/* All pods of a job are checked where its first one is found. A plan is there as well where its node is not
 * known. */
static void check_unplaced(struct gt_audit *audit, const struct gt_cache_job *job)
{
    const char *group = NULL;
    for (const struct gt_cache_pod *at = job->pods; at; at = at->next) {
        const struct cache_pod *pod = (const struct cache_pod *)at;
        if (!pod->at || at->deleting || at->identity.ignored || audit_is_planned(pod) ||
            gt_pod_annotation(&at->meta, GT_KEY_PLAN_RANK))
            continue;
        group = group ? group : gt_audit_texts(audit, job).of[GT_KEY_GROUP];
        if (!group)
            return;
        gt_audit_see(audit, GT_FINDING_UNPLACED, key_of(audit, pod), pod,
                     "pod %s/%s runs on node %s without a plan, though its job %s has gpu-group-size %.60s: "
                     "its units may "
                     "lie apart. The webhook did not see the pod, or the size was set later",
                     at->meta.namespace_, at->meta.name, pod->at->name, job->key, group);
        count_checked(audit, UNPLACED_COST);
    }
}

static void audit_check_node(struct gt_audit *audit, const struct cache_node *node)
{
    check_claims(audit, node);
    check_resource_claims(audit, node);
    for (const struct cache_pod *pod = node->pods; pod; pod = pod->node_next) {
        struct cache_job *job = (struct cache_job *)pod->pub.job;
        audit_check_place(audit, pod);
        count_checked(audit, 1);
        if (!pod->at || job->audited == audit->round)
            continue;
        job->audited = audit->round;
        gt_audit_units(audit, &job->pub);
        check_unplaced(audit, &job->pub);
        count_checked(audit, job->pub.pod_count);
    }
}

bool gt_audit_step(struct gt_audit *audit, uint32_t pods, uint64_t now_ms)
{
    const struct gt_table *nodes = &audit->cache->nodes;
    audit->now_ms = now_ms;
    audit->left = pods;
    if (!audit->in_round) {
        audit->in_round = true;
        audit->slot = 0;
        audit->round++;
    }
    for (; audit->slot < nodes->size && audit->left; audit->slot++) {
        count_checked(audit, 1);
        if (nodes->items[audit->slot])
            audit_check_node(audit, nodes->items[audit->slot]);
    }
    if (audit->slot < nodes->size)
        return false;
    audit->in_round = false;
    gt_audit_end_round(audit);
    return true;
}

int gt_audit_new(const struct gt_audit_spec *spec, struct gt_audit **ret, struct gt_err **err)
{
    struct gt_audit *audit = calloc(1, sizeof(*audit));
    GT_NEED(audit, err, "audit");
    audit->spec = *spec;
    audit->cache = spec->cache;
    *ret = audit;
    return 0;
}

void gt_audit_free(struct gt_audit *audit)
{
    if (!audit)
        return;
    for (uint32_t i = 0; i < audit->count; i++)
        gt_audit_free_finding(audit->findings[i]);
    free(audit->locations);
    free(audit);
}
