/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/ranks.h"

#include <stdlib.h>

#include "base/text.h"
#include "kube/status.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/placement/pod_json.h"

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

static bool is_nameless(const cJSON *object, const char *namespace_)
{
    static const struct gt_pod_shape none;
    struct gt_pod_pairs pairs = {0};
    struct gt_pod_meta meta;
    struct gt_pod_identity identity;
    const char *api_version;
    gt_pod_meta_read(object, namespace_, &none, &pairs, &meta, &api_version);
    return gt_pod_identify(&meta, &identity, NULL) == 0 && identity.kind == GT_JOB_OWNED;
}

void gt_ranks_read(struct gt_ranks *ranks, const cJSON *object)
{
    const char *namespace_ = gt_kube_meta(object, "namespace"), *name = gt_kube_meta(object, "name");
    const cJSON *annotations = gt_pod_json_at(object, "metadata.annotations");
    const char *text =
        cJSON_IsObject(annotations)
            ? cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(annotations, GT_PLAN_ANNOTATION_RANK))
            : NULL;
    uint64_t rank;
    if (text && gt_text_to_unsigned(text, GT_PLAN_PODS_MAX - 1, &rank) && is_nameless(object, namespace_))
        gt_ranks_set(ranks, namespace_, name, (uint32_t)rank);
}

void gt_ranks_done(struct gt_ranks *ranks)
{
    gt_index_done(&ranks->index);
}
