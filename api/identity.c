/* SPDX-License-Identifier: Apache-2.0 */
#include "api/identity.h"

#include <string.h>

#include "api/kinds/kind.h"
#include "api/pod_group.h"

/* 1, also sets its kind; 0: it is of none. What the pod's author wrote for this comes first, then the kinds
 * that users describe, whose pods may be made by objects of the others. */
static int identity_identify(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    int r = gt_pods_identify(pod, true, ret, err);
    for (unsigned i = 0; !r && i < GT_JOB_KINDS; i++) {
        ret->kind = (enum gt_job_kind)((i + GT_JOB_CUSTOM) % GT_JOB_KINDS);
        const struct gt_kind *kind = gt_kind_of(ret->kind);
        r = kind && kind->identify ? kind->identify(kind, pod, ret, err) : 0;
        if (r)
            return r;
    }
    return r ? r : gt_pods_identify(pod, false, ret, err);
}

int gt_pod_identify(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    struct gt_pod_identity identity = {.role = ""};
    int r = identity_identify(pod, &identity, err);
    if (r < 0)
        return r;
    if (!r) {
        bool is_owned = pod->owner_controls && pod->owner_kind && pod->owner_name;
        identity.kind = is_owned ? GT_JOB_OWNED : GT_JOB_POD;
        identity.job = is_owned ? pod->owner_name : pod->name;
    }
    *ret = identity;
    return 0;
}

const char *gt_job_kind_name(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS        ? gt_kind_of(kind)->name
           : kind == GT_JOB_PODS      ? "Pods"
           : kind == GT_JOB_OWNED     ? "Owned"
           : kind == GT_JOB_POD_GROUP ? GT_KIND_POD_GROUP
                                      : "Pod";
}

bool gt_job_kind_may_grow(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS && gt_kind_of(kind)->may_grow;
}

bool gt_job_kind_is_gang(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS ? !gt_kind_of(kind)->is_no_gang : kind != GT_JOB_OWNED && kind != GT_JOB_POD;
}

bool gt_job_kind_is_nameless(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS ? gt_kind_of(kind)->is_nameless
                               : kind == GT_JOB_OWNED || kind == GT_JOB_POD_GROUP;
}

unsigned gt_owner_pods_are(enum gt_job_kind owner, enum gt_job_kind ret[static 2])
{
    const struct gt_kind *kind = gt_kind_of(owner);
    unsigned count = 0;
    if (kind->identify)
        ret[count++] = owner;
    if (kind->is_also_owned)
        ret[count++] = GT_JOB_OWNED;
    return count;
}

void gt_job_key(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity, struct gt_buf *to)
{
    gt_buf_printf(to, "%s/%s", pod->namespace_, gt_job_kind_name(identity->kind));
    if (identity->kind == GT_JOB_OWNED)
        gt_buf_printf(to, "/%s", pod->owner_kind);
    gt_buf_printf(to, "/%s", identity->job);
    if (identity->kind < GT_JOB_KINDS && gt_kind_of(identity->kind)->roles_are_jobs)
        gt_buf_printf(to, ".%s", identity->role);
}

const char *gt_job_key_name(const char *key)
{
    const char *slash = strrchr(key, '/');
    return slash ? slash + 1 : key;
}
