/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/custom_kinds.h"
#include "api/identity.h"
#include "api/workload.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/owners/pod_groups.h"
#include "tests/fuzz/fuzz.h"

/* An object of any kind, as JSON: it is refused, or the owner made from it is consistent. It may have a
 * member "description" of kinds that users describe, and a "pod", which has a job or a sentence why not. */
static const char resource[] = "metax-tech.com/gpu";

static void check_owner(const struct gt_owner *owner)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_job struct gt_job *job = NULL;
    int r = gt_owner_check(owner, &job, &err);
    if ((r < 0) != (err != NULL) || (r < 0) != (job == NULL))
        abort();
    for (unsigned i = 0; i < owner->spec.count; i++)
        if (!owner->spec.templates[i].role ||
            (!owner->spec.templates[i].gpus && owner->spec.templates[i].containers))
            abort();
    uint64_t pods = 0;
    for (unsigned i = 0; i < owner->spec.count; i++) {
        const struct gt_job_template *template = &owner->spec.templates[i];
        pods += template->replicas;
        if (!owner->refusal && template->minimum > template->replicas)
            abort();
    }
    if (owner->spec.minimum > pods || owner->spec.at_once > pods)
        abort();
    for (uint32_t i = 1; job && i < job->member_count; i++)
        if (job->members[i - 1].rank >= job->members[i].rank)
            abort();
    for (uint32_t i = 0; job && i < job->member_count && i < 1000; i++)
        gt_owner_has_ended(owner, job->members[i].rank);
    gt_owner_is_grouped(owner);
}

static void check_volcano(const cJSON *object)
{
    struct gt_pod_group group;
    struct gt_volcano_queue queue;
    gt_auto_err struct gt_err *group_err = NULL, *queue_err = NULL;
    GT_CLEANUP(gt_pod_groups_free) struct gt_pod_groups *groups = NULL;
    bool is_group = gt_pod_group_read(GT_KEY_POD_GROUP, object, &group, &group_err) >= 0;
    bool is_queue = gt_volcano_queue_read(object, resource, &queue, &queue_err) >= 0;
    if (is_group == (group_err != NULL) || is_queue == (queue_err != NULL) ||
        gt_pod_groups_new(resource, &groups, NULL) < 0)
        abort();
    if (gt_pod_groups_put(groups, 0, object) != is_group ||
        gt_pod_groups_put(groups, GT_VOLCANO_QUEUE, object) != is_queue)
        abort();
    if ((is_group && !gt_pod_groups_find(groups, GT_KEY_POD_GROUP, group.namespace_, group.name)) ||
        (is_queue && !gt_pod_groups_find_queue(groups, queue.name)))
        abort();
}

static void check_kueue(const cJSON *object)
{
    struct gt_admission_check check;
    gt_auto_workload struct gt_workload *workload = NULL;
    gt_auto_err struct gt_err *err = NULL, *check_err = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(1 << 20);
    const char *names[] = {"a"};
    int r = gt_workload_read(object, resource, &workload, &err);
    if ((r < 0) != (err != NULL) || (r < 0) != (workload == NULL))
        abort();
    if (workload) {
        const struct gt_check_verdict verdict = {GT_CHECK_RETRY, workload->refusal ? workload->refusal : "",
                                                 1};
        gt_workload_write_checks("v1beta2", workload, names, 1, &verdict, 0, &text);
        if (workload->job && !workload->refusal)
            check_owner(workload->job);
    }
    r = gt_admission_check_read(object, &check, &check_err);
    if ((r < 0) != (check_err != NULL))
        abort();
    if (r >= 0)
        gt_admission_check_write("v1beta1", &check, &check.active, &text);
}

static void check_pod(const cJSON *object)
{
    struct gt_pod pod;
    struct gt_pod_identity identity;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf key = GT_BUF(1 << 20);
    gt_pod_read(object, resource, &pod);
    int r = pod.invalid ? 0 : gt_pod_identify(&pod.meta, &identity, &err);
    if ((r < 0) != (err != NULL))
        abort();
    if (pod.invalid || r < 0)
        return;
    gt_job_key(&pod.meta, &identity, &key);
    if (!identity.job || !identity.role || !key.data || !*key.data)
        abort();
}

static void count_templates(void *arg, cJSON *spec)
{
    *(unsigned *)arg += spec != NULL;
}

static void check_object(enum gt_job_kind kind, cJSON *object)
{
    gt_auto_owner struct gt_owner *owner = NULL;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_owners struct gt_owners *owners = NULL;
    unsigned templates = 0;
    int r = gt_owner_read(kind, object, resource, &owner, &err);
    if ((r < 0) != (err != NULL) || (r < 0 && owner))
        abort();
    for (const struct gt_owner *job = owner; job; job = job->next)
        check_owner(job);
    gt_owner_warning(kind, object);
    gt_owner_each_template(object, count_templates, &templates);
    if (gt_owners_new(resource, &owners, NULL) < 0)
        abort();
    gt_owners_put(owners, kind, object);
    gt_owners_put(owners, kind, object); /* the same again changes nothing */
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, "name"));
    const char *namespace_ = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(meta, "namespace"));
    if (!name || !namespace_)
        return;
    if (gt_owners_find(owners, kind, namespace_, name, NULL) && !owner)
        abort();
    gt_owners_remove(owners, kind, namespace_, name);
    if (gt_owners_find(owners, kind, namespace_, name, NULL))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    cJSON *object = cJSON_ParseWithLength((const char *)data, size);
    const cJSON *description = cJSON_GetObjectItemCaseSensitive(object, "description"),
                *pod = cJSON_GetObjectItemCaseSensitive(object, "pod");
    const char *version = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "apiVersion")),
               *kind = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, "kind"));
    gt_auto_err struct gt_err *err = NULL;
    if (description && (gt_custom_kinds_load(description, "kinds", &err) < 0) != (err != NULL))
        abort();
    if (version && kind && gt_owner_kind_of(version, kind) != GT_JOB_KINDS)
        check_object(gt_owner_kind_of(version, kind), object);
    if (pod)
        check_pod(pod);
    check_volcano(object);
    check_kueue(object);
    cJSON_Delete(object);
    return 0;
}
