/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/owners.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "api/custom_kinds.h"
#include "api/meta.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/file.h"
#include "kube/index.h"
#include "kube/yaml.h"

struct gt_owners {
    const char *resource;
    struct gt_index kinds[GT_JOB_KINDS]; /* an entry's item is a struct gt_owner */
    uint32_t count;
};

int gt_owners_new(const char *resource, struct gt_owners **ret, struct gt_err **err)
{
    struct gt_owners *owners = calloc(1, sizeof(*owners));
    GT_NEED(owners, err, "owners");
    owners->resource = resource;
    for (unsigned i = 0; i < GT_JOB_KINDS; i++)
        owners->kinds[i].max = GT_OWNERS_MAX;
    *ret = owners;
    return 0;
}

void gt_owners_free(struct gt_owners *owners)
{
    if (!owners)
        return;
    for (unsigned i = 0; i < GT_JOB_KINDS; i++) {
        size_t slot = 0;
        for (struct gt_owner *owner; (owner = gt_index_next(&owners->kinds[i], &slot));)
            gt_owner_free(owner);
        gt_index_done(&owners->kinds[i]);
    }
    free(owners);
}

void gt_owners_remove(struct gt_owners *owners, enum gt_job_kind kind, const char *namespace_,
                      const char *name)
{
    struct gt_index_entry *entry = gt_index_take(&owners->kinds[kind], namespace_, name);
    if (!entry)
        return;
    gt_owner_free(entry->item);
    owners->count--;
    free(entry);
}

static struct gt_owner *owners_find(const struct gt_owners *owners, enum gt_job_kind kind,
                                    const char *namespace_, const char *name)
{
    return kind < GT_JOB_KINDS ? gt_index_item(&owners->kinds[kind], namespace_, name) : NULL;
}

int gt_owner_check(const struct gt_owner *owner, struct gt_job **ret, struct gt_err **err)
{
    struct gt_job *job = NULL;
    if (owner->refusal && gt_owner_is_grouped(owner))
        return gt_fail(err, EINVAL, "%s", owner->refusal);
    GT_TRY(gt_job_make(NULL, 0, &owner->spec, &job, err));
    *ret = job;
    return 0;
}

static struct gt_owner *owners_job_of(struct gt_owner *owner, const char *role)
{
    while (owner && owner->role && role && strcmp(owner->role, role) != 0)
        owner = owner->next;
    return owner;
}

/* Checks a job when its owner changes, and not for each of its pods, nor when only its status changes. */
static void check_rules(struct gt_owner *owner, const struct gt_owner *before)
{
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *error = NULL;
    if (before && before->version && before->version == owner->version)
        owner->broken = before->broken ? strdup(before->broken) : NULL;
    else if (gt_owner_check(owner, &job, &error) < 0)
        owner->broken = strdup(gt_err_text(error));
    if (before && before->uid == owner->uid)
        owner->failed_s = before->failed_s;
}

void gt_owners_put(struct gt_owners *owners, enum gt_job_kind kind, const cJSON *object)
{
    const char *namespace_ = gt_meta_namespace(object), *name = gt_meta_name(object);
    gt_auto_owner struct gt_owner *new = NULL;
    gt_owner_read(kind, object, owners->resource, &new, NULL);
    if (!new) {
        gt_owners_remove(owners, kind, namespace_, name);
        return;
    }
    struct gt_index_entry *entry = gt_index_find(&owners->kinds[kind], namespace_, name);
    for (struct gt_owner *job = new; job; job = job->next)
        check_rules(job, entry ? owners_job_of(entry->item, job->role) : NULL);
    if (!entry && owners->count < GT_OWNERS_MAX) {
        entry = gt_index_add(&owners->kinds[kind], namespace_, name);
        owners->count += entry != NULL;
    }
    if (!entry)
        return;
    gt_owner_free(entry->item);
    entry->item = gt_steal(new);
}

bool gt_owners_failed(struct gt_owners *owners, enum gt_job_kind kind, const char *namespace_,
                      const char *name, const char *uid, uint64_t at_s)
{
    struct gt_owner *owner = owners_find(owners, kind, namespace_, name);
    if (!owner || owner->uid != gt_digest_keyed(uid) || owner->failed_s >= at_s)
        return false;
    for (struct gt_owner *job = owner; job; job = job->next)
        job->failed_s = at_s;
    return true;
}

const struct gt_owner *gt_owners_find(const struct gt_owners *owners, enum gt_job_kind kind,
                                      const char *namespace_, const char *name, const char *role)
{
    return owners_job_of(owners_find(owners, kind, namespace_, name), role);
}

enum gt_job_kind gt_owner_of_pod(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity,
                                 const char *owner_api_version, const char **ret_name)
{
    *ret_name = identity->owner ? identity->owner : identity->job;
    if (identity->kind < GT_JOB_KINDS)
        return identity->kind;
    if (identity->kind != GT_JOB_OWNED)
        return GT_JOB_KINDS;
    *ret_name = pod->owner_name;
    return gt_owner_kind_of(owner_api_version, pod->owner_kind);
}

void gt_owners_add_texts(const struct gt_owners *owners, const struct gt_pod_meta *pod,
                         const struct gt_pod_identity *identity, const char *owner_api_version,
                         struct gt_job_texts *texts)
{
    const char *name;
    enum gt_job_kind kind = gt_owner_of_pod(pod, identity, owner_api_version, &name);
    const struct gt_owner *owner =
        kind < GT_JOB_KINDS ? gt_owners_find(owners, kind, pod->namespace_, name, identity->role) : NULL;
    for (unsigned i = 0; owner && i < owner->spec.count; i++) {
        const struct gt_job_texts *more = &owner->spec.templates[i].texts;
        for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++)
            texts->of[k] = texts->of[k] ? texts->of[k] : more->of[k];
        texts->subgroup = texts->subgroup ? texts->subgroup : more->subgroup;
    }
}

bool gt_owner_job_key(enum gt_job_kind kind, const struct gt_owner *owner, const char *namespace_,
                      const char *name, unsigned number, struct gt_buf *to)
{
    enum gt_job_kind kinds[2];
    unsigned count = gt_owner_pods_are(kind, kinds), jobs = owner && owner->jobs ? owner->jobs : 1;
    gt_auto_buf struct gt_buf job = GT_BUF(512);
    const char *role = "";
    if (owner && owner->role) {
        for (unsigned i = 0; i < number && owner; i++)
            owner = owner->next;
        if (!owner)
            return false;
        role = owner->role;
    } else if (number >= count * jobs)
        return false;
    gt_buf_printf(&job, "%s", name);
    if (owner && owner->jobs)
        gt_buf_printf(&job, "-%u", number / count);
    if (!job.data)
        return false;
    struct gt_pod_meta pod = {.namespace_ = namespace_,
                              .name = "",
                              .owner_kind = gt_owner_type(kind)->kind,
                              .owner_name = name,
                              .owner_controls = true};
    struct gt_pod_identity identity = {
        .kind = kinds[*role ? 0 : number % count], .job = job.data, .role = role};
    gt_job_key(&pod, &identity, to);
    return true;
}

enum { KINDS_FILE_MAX = 256 << 10 };

int gt_kinds_file_read(const char *path, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    cJSON *document = NULL;
    size_t len;
    GT_TRY(gt_file_read(AT_FDCWD, path, KINDS_FILE_MAX, &text, &len, err));
    int r = gt_yaml_read(text, len, &document, err);
    r = r < 0 ? gt_wrap(err, "%s", path) : gt_custom_kinds_load(document, path, err);
    cJSON_Delete(document);
    return r;
}
