/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/ranks.h"

#include <stdlib.h>

#include "api/identity.h"
#include "base/text.h"
#include "scheduler-ext/core/plan.h"

void gt_ranks_set(struct gt_ranks *ranks, const char *namespace_, const char *name, uint32_t rank)
{
    struct gt_index_entry *entry = gt_index_find(&ranks->index, namespace_, name);
    ranks->index.max = GT_RANKS_MAX;
    if (!entry)
        entry = gt_index_add(&ranks->index, namespace_, name);
    if (entry)
        entry->mark = rank;
}

void gt_ranks_remove(struct gt_ranks *ranks, const char *namespace_, const char *name)
{
    free(gt_index_take(&ranks->index, namespace_, name));
}

uint32_t gt_ranks_find(const struct gt_ranks *ranks, const char *namespace_, const char *name)
{
    const struct gt_index_entry *entry = ranks ? gt_index_find(&ranks->index, namespace_, name) : NULL;
    return entry ? entry->mark : GT_NONE;
}

void gt_ranks_read(struct gt_ranks *ranks, const struct gt_pod *pod)
{
    struct gt_pod_identity identity;
    const char *text = gt_pod_annotation(&pod->meta, GT_KEY_PLAN_RANK);
    uint64_t rank;
    if (text && gt_text_to_unsigned(text, GT_PLAN_PODS_MAX - 1, &rank) &&
        gt_pod_identify(&pod->meta, &identity, NULL) == 0 && gt_job_kind_is_nameless(identity.kind))
        gt_ranks_set(ranks, pod->meta.namespace_, pod->meta.name, (uint32_t)rank);
}

void gt_ranks_done(struct gt_ranks *ranks)
{
    gt_index_done(&ranks->index);
}
