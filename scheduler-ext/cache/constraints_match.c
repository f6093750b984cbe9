/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/pod_rules.h"
#include "base/err.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Constraints on nodes are compiled once and shared by all pods with equal ones. */

static bool constraints_is(const void *item, const void *key)
{
    return strcmp(((const struct gt_pod_rules *)item)->text, key) == 0;
}

int gt_cache_constraints_of(struct gt_cache *cache, const struct gt_pod_where *where,
                            struct gt_pod_rules **ret)
{
    gt_auto_free char *text = NULL;
    struct gt_pod_rules *constraints = NULL;
    GT_TRY(gt_pod_where_text(where, &text));
    uint32_t hash = text ? gt_cache_hash(cache, text) : 0;
    if (text)
        constraints = gt_table_find(&cache->constraints, hash, constraints_is, text);
    if (text && !constraints) {
        GT_TRY(gt_pod_rules_read(where, text, &constraints));
        if (constraints && gt_table_add(&cache->constraints, hash, constraints) < 0) {
            free(constraints);
            return -ENOMEM;
        }
        if (constraints)
            constraints->hash = hash;
    }
    if (constraints)
        constraints->refs++;
    *ret = constraints;
    return 0;
}

void gt_cache_constraints_drop(struct gt_cache *cache, struct gt_pod_rules *constraints)
{
    if (!constraints || --constraints->refs)
        return;
    gt_table_remove(&cache->constraints, constraints->hash, constraints);
    free(constraints);
}

/* ---- taints, shared by the nodes that have them ---- */

struct taint_key {
    const char *key, *value, *effect;
};

static bool constraints_is_taint(const void *item, const void *wanted)
{
    const struct cache_taint *taint = item;
    const struct taint_key *key = wanted;
    return strcmp(taint->key, key->key) == 0 && strcmp(taint->value, key->value) == 0 &&
           strcmp(taint->effect, key->effect) == 0;
}

struct cache_taint *gt_cache_taint(struct gt_cache *cache, const char *key, const char *value,
                                   const char *effect)
{
    struct taint_key wanted = {key, value, effect};
    uint64_t digest =
        gt_digest_mix_text(gt_digest_mix_text(gt_digest_mix_text(cache->seed, key), value), effect);
    uint32_t hash = gt_digest_hash(digest);
    struct cache_taint *taint = gt_table_find(&cache->taints, hash, constraints_is_taint, &wanted);
    if (taint) {
        taint->refs++;
        return taint;
    }
    size_t sizes[] = {strlen(key) + 1, strlen(value) + 1, strlen(effect) + 1};
    taint = calloc(1, sizeof(*taint) + sizes[0] + sizes[1] + sizes[2]);
    if (!taint)
        return NULL;
    char *text = (char *)(taint + 1);
    taint->key = memcpy(text, key, sizes[0]);
    taint->value = memcpy(text + sizes[0], value, sizes[1]);
    taint->effect = memcpy(text + sizes[0] + sizes[1], effect, sizes[2]);
    taint->hash = hash;
    taint->refs = 1;
    if (gt_table_add(&cache->taints, hash, taint) < 0) {
        free(taint);
        return NULL;
    }
    return taint;
}

void gt_cache_taint_drop(struct gt_cache *cache, struct cache_taint *taint)
{
    if (--taint->refs)
        return;
    gt_table_remove(&cache->taints, taint->hash, taint);
    free(taint);
}

/* Counts the taints of nodes where pods may be placed, so that it is known without a loop over all nodes
 * whether a pod is constrained. */
void gt_cache_count_taints(struct cache_node *node)
{
    bool count = gt_cache_is_open(node);
    if (count == node->taints_counted)
        return;
    for (uint32_t i = 0; i < node->object.taint_count; i++)
        node->object.taints[i]->ready_nodes += count ? 1 : UINT32_MAX;
    node->taints_counted = count;
}

bool gt_cache_tolerates(const struct gt_pod_rules *constraints, const struct cache_taint *taint)
{
    for (uint32_t i = 0; constraints && i < constraints->toleration_count; i++) {
        const struct gt_rule_toleration *by = &constraints->tolerations[i];
        if ((!by->key || strcmp(by->key, taint->key) == 0) &&
            (!by->effect || strcmp(by->effect, taint->effect) == 0) &&
            (by->exists || strcmp(by->value, taint->value) == 0))
            return true;
    }
    return false;
}

/* ---- labels ---- */

const char *gt_cache_node_label(const struct cache_node *node, const char *key)
{
    size_t at = GT_LOWER_BOUND(i, node->object.label_count, strcmp(node->object.labels[i].key, key) < 0);
    return at < node->object.label_count && strcmp(node->object.labels[at].key, key) == 0
               ? node->object.labels[at].value
               : NULL;
}

static bool to_integer(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || strchr(" \t\n\v\f\r", text[0]))
        return false;
    *ret = value;
    return true;
}

static bool is_among(const struct gt_pod_rules *constraints, const struct gt_rule_expression *expression,
                     const char *text)
{
    for (uint32_t i = 0; i < expression->value_count; i++)
        if (strcmp(constraints->values[expression->first_value + i], text) == 0)
            return true;
    return false;
}

static bool constraints_expression_matches(const struct gt_pod_rules *constraints,
                                           const struct gt_rule_expression *expression,
                                           const struct cache_node *node)
{
    const char *value = expression->is_name ? node->name : gt_cache_node_label(node, expression->key);
    int64_t is, limit;
    switch (expression->how) {
    case GT_RULE_IN:
        return value && is_among(constraints, expression, value);
    case GT_RULE_NOT_IN:
        return !value || !is_among(constraints, expression, value);
    case GT_RULE_EXISTS:
        return value;
    case GT_RULE_DOES_NOT_EXIST:
        return !value;
    case GT_RULE_GT:
    case GT_RULE_LT:
        if (!value || expression->value_count != 1 || !to_integer(value, &is) ||
            !to_integer(constraints->values[expression->first_value], &limit))
            return false;
        return expression->how == GT_RULE_GT ? is > limit : is < limit;
    case GT_RULE_NEVER:
        break;
    }
    return false;
}

/* `named`: the node of its plan, since for the successor a required affinity to this node is ignored. NULL:
 * none. */
static bool constraints_match_node(const struct gt_pod_rules *constraints, const struct cache_node *node,
                                   const char *named)
{
    for (uint32_t i = 0; i < constraints->selector_count; i++)
        if (!constraints_expression_matches(constraints, &constraints->expressions[i], node))
            return false;
    for (uint32_t t = 0; t < constraints->term_count; t++) {
        uint32_t fulfilled = 0;
        while (fulfilled < constraints->terms[t].count) {
            const struct gt_rule_expression *expression =
                &constraints->expressions[constraints->terms[t].first + fulfilled];
            bool is_plan = named && expression->is_name && expression->how == GT_RULE_IN &&
                           is_among(constraints, expression, named);
            if (!is_plan && !constraints_expression_matches(constraints, expression, node))
                break;
            fulfilled++;
        }
        if (fulfilled && fulfilled == constraints->terms[t].count)
            return true;
    }
    return !constraints->has_terms;
}

/* ---- questions ---- */

bool gt_cache_taints_fit(const struct gt_pod_rules *constraints, const struct cache_node *node)
{
    for (uint32_t i = 0; i < node->object.taint_count; i++)
        if (!gt_cache_tolerates(constraints, node->object.taints[i]))
            return false;
    return true;
}

bool gt_cache_labels_fit(const struct gt_pod_rules *constraints, const struct cache_node *node,
                         const char *named)
{
    return !constraints || constraints_match_node(constraints, node, named);
}

static bool constraints_fit(const struct gt_pod_rules *constraints, const struct cache_node *node,
                            const char *named)
{
    return gt_cache_taints_fit(constraints, node) && gt_cache_labels_fit(constraints, node, named);
}

static bool is_constrained(const struct gt_cache *cache, const struct gt_pod_rules *constraints)
{
    if (constraints && (constraints->selector_count || constraints->has_terms))
        return true;
    for (const struct cache_taint *taint = gt_table_after(&cache->taints, 0, NULL); taint;
         taint = gt_table_after(&cache->taints, taint->hash, taint))
        if (taint->ready_nodes && !gt_cache_tolerates(constraints, taint))
            return true;
    return false;
}

/* A claim can only get GPUs of a node whose agent is the DRA driver. Pods with limits can run on both, since
 * kube-scheduler can make a claim from limits. */
static bool constraints_is_served(const struct cache_pod *pod, const struct cache_node *node)
{
    return !pod->pub.claim_template || node->by_claims;
}

bool gt_cache_pod_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pub, uint32_t node_id)
{
    const struct cache_pod *pod = (const struct cache_pod *)pub;
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    if (!node || !node->has_node || (!pod->at && !gt_cache_may_use(cache, pub, node_id)))
        return false;
    return pod->at ? pod->at == node
                   : constraints_is_served(pod, node) && constraints_fit(pod->constraints, node, NULL);
}

bool gt_cache_successor_fits_node(const struct gt_cache *cache, const struct gt_cache_pod *pub,
                                  uint32_t node_id)
{
    const struct cache_pod *pod = (const struct cache_pod *)pub;
    const struct cache_node *node = gt_cache_node_of(cache, node_id);
    return node && node->has_node && constraints_is_served(pod, node) &&
           gt_cache_may_use(cache, pub, node_id) &&
           constraints_fit(pod->constraints, node, pod->plan ? pod->plan->node->name : NULL);
}

bool gt_cache_pod_is_constrained(const struct gt_cache *cache, const struct gt_cache_pod *pub)
{
    const struct cache_pod *pod = (const struct cache_pod *)pub;
    return pod->at || cache->has_reserved || (pod->pub.claim_template && cache->by_plugin) ||
           is_constrained(cache, pod->constraints);
}

bool gt_cache_pods_fit_alike(const struct gt_cache_pod *a, const struct gt_cache_pod *b)
{
    return ((const struct cache_pod *)a)->constraints == ((const struct cache_pod *)b)->constraints &&
           !a->claim_template == !b->claim_template;
}

int gt_cache_exclude_unfit(struct gt_cache *cache, const struct gt_pod_where *where, bool closed,
                           struct gt_node_set *to, struct gt_err **err)
{
    struct gt_pod_rules *constraints = NULL;
    int r = gt_cache_constraints_of(cache, where, &constraints);
    if (r < 0)
        return gt_fail(err, -r, "its node selector, affinity or tolerations are invalid");
    for (uint32_t n = 0; r >= 0 && is_constrained(cache, constraints) && n < gt_cluster_nodes(cache->cluster);
         n++) {
        const struct cache_node *node = gt_cache_node_of(cache, n);
        struct gt_cluster_node info;
        if (gt_cluster_get_node(cache->cluster, n, &info) && (closed || info.eligible) &&
            !(node && node->has_node && constraints_fit(constraints, node, NULL)))
            r = gt_node_set_add(to, n, err);
    }
    gt_cache_constraints_drop(cache, constraints);
    return r;
}
