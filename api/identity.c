/* SPDX-License-Identifier: Apache-2.0 */
#include "api/identity.h"

#include "api/kinds/kind.h"
#include "api/names.h"
#include "api/pod_group.h"

int gt_pod_identify(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err)
{
    struct gt_pod_identity identity = {.role = ""};
    const char *group = gt_pod_annotation(pod, GT_KEY_POD_GROUP);
    for (unsigned kind = 0; kind < GT_JOB_KINDS; kind++) {
        const struct gt_kind *one = gt_kind_of((enum gt_job_kind)kind);
        int r = one->identify ? one->identify(one, pod, &identity, err) : 0;
        if (r < 0)
            return r;
        if (r > 0) {
            identity.kind = (enum gt_job_kind)kind;
            *ret = identity;
            return 0;
        }
    }
    if (pod->owner_controls && pod->owner_kind && pod->owner_name) {
        identity.kind = GT_JOB_OWNED;
        identity.job = pod->owner_name;
    } else if (!pod->owner_kind && group && !gt_pod_group_is_made_for_pods(group)) {
        identity.kind = GT_JOB_POD_GROUP;
        identity.job = group;
    } else {
        identity.kind = GT_JOB_POD;
        identity.job = pod->name;
    }
    *ret = identity;
    return 0;
}

const char *gt_job_kind_name(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS        ? gt_kind_of(kind)->name
           : kind == GT_JOB_OWNED     ? "Owned"
           : kind == GT_JOB_POD_GROUP ? GT_KIND_POD_GROUP
                                      : "Pod";
}

bool gt_job_kind_may_grow(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS && gt_kind_of(kind)->may_grow;
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
}
