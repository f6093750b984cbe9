/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds/kind.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "api/pod_group.h"
#include "base/err.h"
#include "base/text.h"

/*
 * Pods that say themselves which job they form, since the object that made them is not in this cluster or is
 * of no known kind: our own annotations, the pod groups of Kueue, of the scheduler plugin Coscheduling, of
 * Kubernetes itself, and of Volcano. Three of these groups are objects (api/pod_group.h).
 */

static const struct {
    enum gt_pod_key job, pods, index; /* index GT_POD_KEYS: it has no such key; pods too */
    enum gt_job_kind kind;
} conventions[] = {
    {GT_KEY_OWN_JOB, GT_KEY_OWN_PODS, GT_KEY_OWN_RANK, GT_JOB_PODS},
    {GT_KEY_KUEUE_GROUP, GT_KEY_KUEUE_PODS, GT_KEY_KUEUE_INDEX, GT_JOB_PODS},
    {GT_KEY_COSCHEDULING_GROUP, GT_POD_KEYS, GT_POD_KEYS, GT_JOB_PODS},
    {GT_KEY_SCHEDULING_GROUP, GT_POD_KEYS, GT_POD_KEYS, GT_JOB_PODS},
    {GT_KEY_POD_GROUP, GT_POD_KEYS, GT_POD_KEYS, GT_JOB_POD_GROUP},
};

/* Volcano's controller makes PodGroups for the pods of owners, too, and some frameworks one for each pod. */
static const char *kind_pods_job_of(const struct gt_pod_meta *pod, enum gt_pod_key key)
{
    if (key != GT_KEY_POD_GROUP)
        return gt_pod_key_value(pod, key);
    const char *name = pod->owner_kind ? NULL : gt_pod_annotation(pod, key);
    return name && gt_pod_group_is_made_for_pods(name) ? NULL : name;
}

/* What other controllers number their pods by, where no convention does. */
static const enum gt_pod_key indices[] = {GT_KEY_JOB_INDEX, GT_KEY_STATEFUL_SET_INDEX, GT_KEY_VOLCANO_INDEX,
                                          GT_KEY_KUBEFLOW_INDEX};

static int kind_pods_read(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_pod_identity *ret,
                          struct gt_err **err)
{
    const char *text = gt_pod_key_value(pod, key);
    uint64_t pods = 0;
    if (text && (!gt_text_to_unsigned(text, GT_OWNER_REPLICAS_MAX, &pods) || !pods))
        return gt_fail(err, EINVAL, "pod %s/%s: %s is \"%.60s\", expected a number of pods from 1 to %d",
                       pod->namespace_, pod->name, gt_pod_key_text(key), text, GT_OWNER_REPLICAS_MAX);
    ret->pods = (uint32_t)pods;
    return 1;
}

/* The last part of the name between dashes that is a number: "run-3", and "run-3-x-team-x-virtual" as
 * syncers of virtual clusters write it. */
static int number_of_name(const struct gt_pod_meta *pod, enum gt_pod_key missing, struct gt_pod_identity *ret,
                          struct gt_err **err)
{
    char text[16] = "";
    for (const char *dash = strchr(pod->name, '-'); dash; dash = strchr(dash + 1, '-')) {
        size_t digits = strspn(dash + 1, "0123456789");
        if (digits && digits < sizeof(text) && (!dash[1 + digits] || dash[1 + digits] == '-')) {
            memcpy(text, dash + 1, digits);
            text[digits] = '\0';
        }
    }
    return text[0] ? gt_index_read(pod, missing, text, ret, err) : gt_index_missing(pod, missing, err);
}

static int read_index(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_pod_identity *ret,
                      struct gt_err **err)
{
    const char *text = gt_pod_key_value(pod, key);
    enum gt_pod_key from = key;
    for (size_t i = 0; i < GT_COUNT(indices) && !text; i++)
        if ((text = gt_pod_key_value(pod, indices[i])))
            from = indices[i];
    return text ? gt_index_read(pod, from, text, ret, err)
                : number_of_name(pod, key == GT_POD_KEYS ? GT_KEY_OWN_RANK : key, ret, err);
}

int gt_pods_identify(const struct gt_pod_meta *pod, bool ours, struct gt_pod_identity *ret,
                     struct gt_err **err)
{
    for (size_t i = ours ? 0 : 1; i < (ours ? 1 : GT_COUNT(conventions)); i++) {
        const char *job = kind_pods_job_of(pod, conventions[i].job);
        if (!job || !*job)
            continue;
        ret->job = job;
        ret->kind = conventions[i].kind;
        if (ret->kind == GT_JOB_POD_GROUP) /* which gives no index */
            return 1;
        GT_TRY(kind_pods_read(pod, conventions[i].pods, ret, err));
        return read_index(pod, conventions[i].index, ret, err);
    }
    return 0;
}
