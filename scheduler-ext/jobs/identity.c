/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/jobs/identity.h"

#include <errno.h>
#include <string.h>

#include "api/pod_group.h"
#include "base/text.h"
#include "scheduler-ext/core/plan.h"

/* Many controllers write the key as label and as annotation, older ones only in one place. */
static const char *either(const struct gt_pod_meta *pod, const char *key)
{
    const char *value = gt_pod_label(pod, key);
    return value ? value : gt_pod_annotation(pod, key);
}

static int read_index(const struct gt_pod_meta *pod, const char *key, const char *text,
                      struct gt_pod_identity *ret, struct gt_err **err)
{
    uint64_t number;
    if (!gt_text_to_unsigned(text, GT_PLAN_PODS_MAX - 1, &number))
        return gt_fail(err, EINVAL, "pod %s/%s: %s is \"%.60s\", expected a number from 0 to %d",
                       pod->namespace_, pod->name, key, text, GT_PLAN_PODS_MAX - 1);
    ret->has_index = true;
    ret->index = (uint32_t)number;
    return 0;
}

static int fail_missing(const struct gt_pod_meta *pod, const char *key, struct gt_err **err)
{
    return gt_fail(err, EINVAL, "pod %s/%s: %s is missing, its rank is not known", pod->namespace_, pod->name,
                   key);
}

/* The index from "<before>-<index>", where the name has that form. */
static bool index_of_name(const struct gt_pod_meta *pod, const char *before, struct gt_pod_identity *ret)
{
    size_t len = strlen(before);
    if (strncmp(pod->name, before, len) != 0 || pod->name[len] != '-')
        return false;
    return read_index(pod, "", pod->name + len + 1, ret, NULL) == 0;
}

static bool is_owner(const struct gt_pod_meta *pod, const char *kind)
{
    return pod->owner_kind && strcmp(pod->owner_kind, kind) == 0;
}

static const char *in_lower_case(const char *role)
{
    static const char *const known[] = {"master", "worker"}; /* older operators write "Master" */
    for (size_t i = 0; i < GT_COUNT(known); i++)
        if (strcasecmp(role, known[i]) == 0)
            return known[i];
    return role;
}

static int identify_pytorch(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *type = gt_pod_label(pod, GT_LABEL_PYTORCH_TYPE);
    const char *index = gt_pod_label(pod, GT_LABEL_PYTORCH_INDEX);
    if (!type)
        return fail_missing(pod, GT_LABEL_PYTORCH_TYPE, err);
    if (!index)
        return fail_missing(pod, GT_LABEL_PYTORCH_INDEX, err);
    ret->role = in_lower_case(type);
    return read_index(pod, GT_LABEL_PYTORCH_INDEX, index, ret, err);
}

static int identify_volcano(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *task = either(pod, GT_LABEL_VOLCANO_TASK), *index = either(pod, GT_LABEL_VOLCANO_INDEX);
    if (!task)
        return fail_missing(pod, GT_LABEL_VOLCANO_TASK, err);
    ret->role = task;
    if (index)
        return read_index(pod, GT_LABEL_VOLCANO_INDEX, index, ret, err);
    gt_auto_buf struct gt_buf before = GT_BUF(1024); /* older than v1.9: from the name */
    gt_buf_printf(&before, "%s-%s", ret->job, task);
    if (before.data && index_of_name(pod, before.data, ret))
        return 0;
    return fail_missing(pod, GT_LABEL_VOLCANO_INDEX, err);
}

static int identify_elastic(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *type = gt_pod_label(pod, GT_LABEL_ELASTIC_TYPE);
    const char *index = gt_pod_label(pod, GT_LABEL_ELASTIC_INDEX);
    if (type && strcmp(type, "dlrover-master") == 0) {
        ret->role = type;
        ret->ignored = true;
        return 0;
    }
    if (!type)
        return fail_missing(pod, GT_LABEL_ELASTIC_TYPE, err);
    if (!index) /* replica-index is the node id, which changes when a worker is started again */
        return fail_missing(pod, GT_LABEL_ELASTIC_INDEX, err);
    ret->role = type;
    return read_index(pod, GT_LABEL_ELASTIC_INDEX, index, ret, err);
}

static int identify_statefulset(const struct gt_pod_meta *pod, struct gt_pod_identity *ret,
                                struct gt_err **err)
{
    const char *index = gt_pod_label(pod, GT_LABEL_STATEFUL_SET_INDEX);
    if (index)
        return read_index(pod, GT_LABEL_STATEFUL_SET_INDEX, index, ret, err);
    return index_of_name(pod, ret->job, ret) ? 0 : fail_missing(pod, GT_LABEL_STATEFUL_SET_INDEX, err);
}

/* The name of the pod's Indexed Job; NULL: it has none. */
static const char *indexed_job(const struct gt_pod_meta *pod, const char **ret_index)
{
    *ret_index = either(pod, GT_LABEL_JOB_INDEX);
    if (!*ret_index)
        return NULL;
    const char *job = gt_pod_label(pod, GT_LABEL_JOB);
    if (!job)
        job = gt_pod_label(pod, GT_LABEL_OLD_JOB);
    return !job && is_owner(pod, "Job") ? pod->owner_name : job;
}

/* Kinds that create StatefulSets or Jobs, which then are not jobs by themselves. */
#define UNSUPPORTED_HELD(kinds)                                                                              \
    kinds ": they are not supported yet, so the pods are held: to run them where the scheduler puts them, "  \
          "remove their gate " GT_GATE ", or gpu-group-size from all pods and templates"
#define UNSUPPORTED_LEFT(kinds)                                                                              \
    kinds ": they are not supported yet, so the scheduler places the pods one by one"
static const struct {
    const char *label, *held, *not_held;
} unsupported[] = {
    {GT_LABEL_LEADER_WORKER_SET, UNSUPPORTED_HELD("LeaderWorkerSets"), UNSUPPORTED_LEFT("LeaderWorkerSets")},
    {GT_LABEL_JOB_SET, UNSUPPORTED_HELD("JobSets"), UNSUPPORTED_LEFT("JobSets")},
};

const char *gt_job_unsupported(const struct gt_pod_identity *identity, bool held)
{
    if (!identity->unsupported)
        return NULL;
    return held ? unsupported[identity->unsupported - 1].held
                : unsupported[identity->unsupported - 1].not_held;
}

static bool is_unsupported(const struct gt_pod_meta *pod, struct gt_pod_identity *ret)
{
    const char *job = NULL;
    for (unsigned i = 0; i < GT_COUNT(unsupported) && !job; i++)
        if ((job = gt_pod_label(pod, unsupported[i].label)))
            ret->unsupported = (uint8_t)(i + 1);
    if (!job)
        return false;
    ret->kind = pod->owner_kind ? GT_JOB_OWNED : GT_JOB_POD;
    ret->job = ret->kind == GT_JOB_OWNED ? job : pod->name;
    return true;
}

int gt_pod_identify(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    struct gt_pod_identity identity = {.role = ""};
    const char *pytorch = gt_pod_label(pod, GT_LABEL_PYTORCH_JOB);
    const char *volcano = either(pod, GT_LABEL_VOLCANO_JOB);
    const char *elastic = gt_pod_label(pod, GT_LABEL_ELASTIC_JOB);
    const char *group = gt_pod_annotation(pod, GT_ANNOTATION_POD_GROUP);
    const char *index, *indexed = indexed_job(pod, &index);
    int r = 0;
    if (is_unsupported(pod, &identity)) {
        *ret = identity;
        return 0;
    }
    /* With gang scheduling the training operator also writes Volcano's task-spec, so its own label is checked
     * first. */
    if (pytorch && (!pod->owner_kind || is_owner(pod, "PyTorchJob"))) {
        identity.kind = GT_JOB_PYTORCH;
        identity.job = pytorch;
        r = identify_pytorch(pod, &identity, err);
    } else if (elastic) {
        identity.kind = GT_JOB_ELASTIC;
        identity.job = elastic;
        r = identify_elastic(pod, &identity, err);
    } else if (volcano) {
        identity.kind = GT_JOB_VOLCANO;
        identity.job = volcano;
        r = identify_volcano(pod, &identity, err);
    } else if (indexed) {
        identity.kind = GT_JOB_INDEXED;
        identity.job = indexed;
        r = read_index(pod, GT_LABEL_JOB_INDEX, index, &identity, err);
    } else if (is_owner(pod, "StatefulSet") && pod->owner_name) {
        identity.kind = GT_JOB_STATEFULSET;
        identity.job = pod->owner_name;
        r = identify_statefulset(pod, &identity, err);
    } else if (pod->owner_controls && pod->owner_kind && pod->owner_name) {
        identity.kind = GT_JOB_OWNED;
        identity.job = pod->owner_name;
    } else if (!pod->owner_kind && group && !gt_pod_group_is_made_for_pods(group)) {
        identity.kind = GT_JOB_POD_GROUP;
        identity.job = group;
    } else {
        identity.kind = GT_JOB_POD;
        identity.job = pod->name;
    }
    if (r >= 0)
        *ret = identity;
    return r;
}

const char *gt_job_kind_name(enum gt_job_kind kind)
{
    switch (kind) {
    case GT_JOB_PYTORCH:
        return "PyTorchJob";
    case GT_JOB_VOLCANO:
        return "VolcanoJob";
    case GT_JOB_ELASTIC:
        return "ElasticJob";
    case GT_JOB_INDEXED:
        return "Job";
    case GT_JOB_STATEFULSET:
        return "StatefulSet";
    case GT_JOB_OWNED:
        return "Owned";
    case GT_JOB_POD_GROUP:
        return GT_KIND_POD_GROUP;
    case GT_JOB_POD:
        break;
    }
    return "Pod";
}

void gt_job_key(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity, struct gt_buf *to)
{
    gt_buf_printf(to, "%s/%s", pod->namespace_, gt_job_kind_name(identity->kind));
    if (identity->kind == GT_JOB_OWNED)
        gt_buf_printf(to, "/%s", pod->owner_kind);
    gt_buf_printf(to, "/%s", identity->job);
}
