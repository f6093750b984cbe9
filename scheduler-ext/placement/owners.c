/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/owners.h"

#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "kube/index.h"
#include "kube/status.h"

struct gt_owners {
    const char *resource;
    struct {
        struct gt_index index; /* an entry's mark is a place in `slots` */
        bool synced;
    } kinds[GT_OWNER_KINDS];
    struct gt_owner **slots;
    uint32_t slot_count, slot_capacity;
    uint32_t *gaps;
    uint32_t gap_count;
    struct gt_owners_counters counters;
};

int gt_owners_new(const char *resource, struct gt_owners **ret, struct gt_err **err)
{
    struct gt_owners *owners = calloc(1, sizeof(*owners));
    if (!owners)
        return gt_fail_sys(err, ENOMEM, "owners");
    owners->resource = resource;
    for (unsigned i = 0; i < GT_OWNER_KINDS; i++)
        owners->kinds[i].index.max = GT_OWNERS_MAX;
    *ret = owners;
    return 0;
}

void gt_owners_free(struct gt_owners *owners)
{
    if (!owners)
        return;
    for (uint32_t i = 0; i < owners->slot_count; i++)
        if (owners->slots[i])
            gt_owner_free(owners->slots[i]);
    for (unsigned i = 0; i < GT_OWNER_KINDS; i++)
        gt_index_done(&owners->kinds[i].index);
    free(owners->slots);
    free(owners->gaps);
    free(owners);
}

const char *gt_owners_resource(const struct gt_owners *owners)
{
    return owners->resource;
}

static bool grow(struct gt_owners *owners)
{
    uint32_t capacity = owners->slot_capacity ? owners->slot_capacity * 2 : 64;
    struct gt_owner **slots = realloc(owners->slots, sizeof(struct gt_owner *) * capacity);
    if (!slots)
        return false;
    owners->slots = slots;
    uint32_t *gaps = realloc(owners->gaps, sizeof(*gaps) * capacity);
    if (!gaps)
        return false;
    owners->gaps = gaps;
    owners->slot_capacity = capacity;
    return true;
}

void gt_owners_remove(struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_,
                      const char *name)
{
    struct gt_index_entry *entry = gt_index_take(&owners->kinds[kind].index, namespace_, name);
    if (!entry)
        return;
    gt_owner_free(gt_steal(owners->slots[entry->mark]));
    owners->gaps[owners->gap_count++] = entry->mark;
    owners->counters.owners--;
    free(entry);
}

static bool keep(struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_, const char *name,
                 struct gt_owner *owner)
{
    struct gt_index_entry *entry = gt_index_find(&owners->kinds[kind].index, namespace_, name);
    if (entry) {
        gt_owner_free(owners->slots[entry->mark]);
        owners->slots[entry->mark] = owner;
        return true;
    }
    if (owners->counters.owners >= GT_OWNERS_MAX ||
        (!owners->gap_count && owners->slot_count == owners->slot_capacity && !grow(owners)))
        return false;
    entry = gt_index_add(&owners->kinds[kind].index, namespace_, name);
    if (!entry)
        return false;
    entry->mark = owners->gap_count ? owners->gaps[--owners->gap_count] : owners->slot_count++;
    owners->slots[entry->mark] = owner;
    owners->counters.owners++;
    return true;
}

static uint64_t version_of(const cJSON *object)
{
    const cJSON *meta = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *generation = cJSON_GetObjectItemCaseSensitive(meta, "generation");
    const char *uid = gt_kube_meta(object, "uid");
    if (!uid || !cJSON_IsNumber(generation) || !(generation->valuedouble > 0) ||
        generation->valuedouble > UINT32_MAX)
        return 0;
    return gt_digest_number(gt_digest_keyed(uid), (uint64_t)generation->valuedouble);
}

/* Once, and not for each of its pods; nor whenever its status changes. */
static void check_rules(const struct gt_owner *before, const cJSON *object, struct gt_owner *owner)
{
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *error = NULL;
    owner->version = version_of(object);
    if (before && before->version && before->version == owner->version)
        owner->broken = before->broken ? strdup(before->broken) : NULL;
    else if (gt_owner_check(owner, &job, &error) < 0)
        owner->broken = strdup(gt_err_text(error));
}

void gt_owners_put(struct gt_owners *owners, enum gt_owner_kind kind, const cJSON *object)
{
    const char *namespace_ = gt_kube_meta(object, "namespace"), *name = gt_kube_meta(object, "name");
    gt_auto_owner struct gt_owner *owner = NULL;
    if (gt_owner_read(kind, object, owners->resource, &owner, NULL) < 0)
        owners->counters.refused++;
    else if (owner)
        check_rules(gt_owners_find(owners, kind, namespace_, name), object, owner);
    if (!owner)
        gt_owners_remove(owners, kind, namespace_, name);
    else if (keep(owners, kind, namespace_, name, owner))
        owner = NULL;
    else
        owners->counters.refused++;
}

const struct gt_owner *gt_owners_find(const struct gt_owners *owners, enum gt_owner_kind kind,
                                      const char *namespace_, const char *name)
{
    if (kind == GT_OWNER_KINDS)
        return NULL;
    const struct gt_index_entry *entry = gt_index_find(&owners->kinds[kind].index, namespace_, name);
    return entry ? owners->slots[entry->mark] : NULL;
}

void gt_owners_set_synced(struct gt_owners *owners, enum gt_owner_kind kind, bool synced)
{
    owners->kinds[kind].synced = synced;
}

bool gt_owners_is_synced(const struct gt_owners *owners, enum gt_owner_kind kind)
{
    return owners->kinds[kind].synced;
}

enum gt_owner_kind gt_owner_of_pod(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity,
                                   const char *owner_api_version, const char **ret_name)
{
    static const enum gt_owner_kind of[] = {
        [GT_JOB_PYTORCH] = GT_OWNER_PYTORCH,         [GT_JOB_VOLCANO] = GT_OWNER_VOLCANO,
        [GT_JOB_ELASTIC] = GT_OWNER_ELASTIC,         [GT_JOB_INDEXED] = GT_OWNER_JOB,
        [GT_JOB_STATEFULSET] = GT_OWNER_STATEFULSET,
    };
    *ret_name = identity->job;
    if (identity->kind < GT_COUNT(of))
        return of[identity->kind];
    if (identity->kind != GT_JOB_OWNED)
        return GT_OWNER_KINDS;
    *ret_name = pod->owner_name;
    return gt_owner_kind_of(owner_api_version, pod->owner_kind);
}

bool gt_owner_job_key(enum gt_owner_kind kind, const char *namespace_, const char *name, unsigned number,
                      struct gt_buf *to)
{
    static const enum gt_job_kind of[GT_OWNER_KINDS] = {
        [GT_OWNER_PYTORCH] = GT_JOB_PYTORCH,         [GT_OWNER_VOLCANO] = GT_JOB_VOLCANO,
        [GT_OWNER_ELASTIC] = GT_JOB_ELASTIC,         [GT_OWNER_JOB] = GT_JOB_INDEXED,
        [GT_OWNER_STATEFULSET] = GT_JOB_STATEFULSET, [GT_OWNER_REPLICASET] = GT_JOB_OWNED,
    };
    bool plain_job = kind == GT_OWNER_JOB && number == 1; /* one that is not Indexed */
    if (number > 0 && !plain_job)
        return false;
    struct gt_pod_meta pod = {.namespace_ = namespace_,
                              .name = "",
                              .owner_kind = gt_owner_kind_name(kind),
                              .owner_name = name,
                              .owner_controls = true};
    struct gt_pod_identity identity = {.kind = plain_job ? GT_JOB_OWNED : of[kind], .job = name, .role = ""};
    gt_job_key(&pod, &identity, to);
    return true;
}

void gt_owners_counters(const struct gt_owners *owners, struct gt_owners_counters *ret)
{
    *ret = owners->counters;
}
