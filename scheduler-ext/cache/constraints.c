/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/constraints.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"

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
    uint32_t hash = text ? gt_digest_hash(gt_digest_mix_text(cache->seed, text)) : 0;
    if (text)
        constraints = gt_table_find(&cache->constraints, hash, constraints_is, text);
    if (text && !constraints) {
        GT_TRY(gt_pod_rules_read(where, text, &constraints));
        if (constraints && gt_table_add(&cache->constraints, hash, constraints) < 0) {
            free(constraints);
            return -ENOMEM;
        }
        if (constraints) {
            constraints->hash = hash;
            gt_cache_adopt(&cache->bytes, constraints);
        }
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
    gt_cache_release(&cache->bytes, constraints);
}
