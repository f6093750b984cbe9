/* SPDX-License-Identifier: Apache-2.0 */
#include "api/owner.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/kinds/kind.h"
#include "api/names.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/json_get.h"

/* What all kinds have in common; kinds/ has a file for each. */

static void free_job(struct gt_owner *owner)
{
    for (unsigned i = 0; owner->spec.templates && i < owner->spec.count; i++) {
        const struct gt_job_template *template = &owner->spec.templates[i];
        free((void *)(uintptr_t) template->role);
        free((void *)(uintptr_t) template->gpus);
        for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++)
            free((void *)(uintptr_t) template->texts.of[k]);
    }
    free((void *)(uintptr_t)owner->spec.templates);
    free((void *)(uintptr_t)owner->spec.master);
    free((void *)(uintptr_t)owner->refusal);
    free((void *)(uintptr_t)owner->broken);
    free(owner->ended_at);
    free(owner);
}

void gt_owner_free(struct gt_owner *owner)
{
    for (struct gt_owner *next; owner; owner = next) {
        next = owner->next;
        free_job(owner);
    }
}

/* ---- pods that have ended ---- */

static uint32_t succeeded(const cJSON *status)
{
    double number = cJSON_GetNumberValue(gt_get(status, "succeeded"));
    return number > 0 && number <= GT_OWNER_REPLICAS_MAX ? (uint32_t)number : 0;
}

static void read_ended(struct gt_owner *owner, const struct gt_kind *kind, const cJSON *status)
{
    const cJSON *role;
    owner->ended = succeeded(status);
    cJSON_ArrayForEach(role, gt_get(status, "replicaStatuses")) owner->ended += succeeded(role);
    if (kind->read_ended)
        kind->read_ended(owner, status);
}

bool gt_owner_has_ended(const struct gt_owner *owner, uint32_t rank)
{
    return owner->ended_at && rank < owner->spec.templates[0].replicas &&
           owner->ended_at[rank / 64] >> rank % 64 & 1;
}

static bool owner_is_stopped(const struct gt_kind *kind, const cJSON *object)
{
    const cJSON *spec = gt_get(object, "spec"), *status = gt_get(object, "status");
    return gt_get_at(object, "metadata", "deletionTimestamp") || cJSON_IsTrue(gt_get(spec, "suspend")) ||
           cJSON_IsTrue(gt_get_at(spec, "runPolicy", "suspend")) ||
           (kind->ended && (gt_kind_condition_is_true(status, kind->ended) ||
                            gt_kind_condition_is_true(status, "Failed"))) ||
           (kind->has_stopped && kind->has_stopped(kind, status));
}

/* An annotation of the object itself counts as if all templates had it, where none has it. *ret_digest
 * changes with what counts: the generation of the object does not. */
static int read_own(struct gt_template_reader *reader, const cJSON *metadata, uint64_t *ret_digest)
{
    const unsigned count = reader->owner->spec.count;
    int r = 0;
    reader->owner->spec.units_in_roles = reader->kind->units_in_roles;
    for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++) {
        bool given = false;
        for (unsigned i = 0; i < count && !given; i++)
            given = reader->templates[i].texts.of[k];
        for (unsigned i = 0; i < count && !given && r >= 0; i++)
            r = gt_template_copy_text(metadata, k, &reader->templates[i], reader->err);
        const char *own = count && !given && r >= 0 ? reader->templates[0].texts.of[k] : NULL;
        if (own && k == GT_KEY_GROUP)
            reader->owner->spec.units_in_roles = false;
        if (own)
            *ret_digest = gt_digest_number(gt_digest_number(*ret_digest, k), gt_digest_keyed(own));
    }
    return r;
}

static uint64_t version_of(const cJSON *metadata, uint64_t uid)
{
    uint64_t generation;
    if (!uid || !gt_json_is_unsigned(gt_get(metadata, "generation"), UINT32_MAX, &generation) || !generation)
        return 0;
    return gt_digest_number(uid, generation);
}

/* Made by an object of another kind, which labels it, or its pods alone. */
static bool is_part_of_another(enum gt_job_kind kind, const cJSON *object)
{
    const cJSON *labels = gt_get_at(object, "metadata", "labels"),
                *of_pods = gt_get_at(gt_get_at(object, "spec", "template"), "metadata", "labels");
    for (unsigned i = 0; i < GT_JOB_KINDS; i++) {
        const struct gt_kind *other = gt_kind_of((enum gt_job_kind)i);
        if (!other || !other->child.kind || i == kind)
            continue;
        const char *key = gt_pod_key_text(other->child.key);
        if (gt_get(labels, key) ||
            (gt_get(of_pods, key) && strcmp(other->child.kind, gt_owner_type(kind)->kind) == 0))
            return true;
    }
    return false;
}

/* *ret is NULL if its templates ask for no GPUs. */
static int owner_read_job(const struct gt_kind *kind, const cJSON *object, unsigned job, const char *resource,
                          struct gt_owner **ret, struct gt_err **err)
{
    gt_auto_owner struct gt_owner *owner = calloc(1, sizeof(*owner));
    struct gt_template_reader reader = {
        .kind = kind, .resource = resource, .job = job, .owner = owner, .err = err};
    const cJSON *spec = gt_get(object, "spec");
    if (!owner || !(reader.templates = calloc(GT_TEMPLATES_MAX, sizeof(*reader.templates))))
        return gt_fail_sys(err, ENOMEM, "owner");
    owner->spec.templates = reader.templates;
    GT_TRY(kind->read(&reader, spec));
    read_ended(owner, kind, gt_get(object, "status"));
    owner->failures_left =
        kind->failures_left ? kind->failures_left(spec, gt_get(object, "status")) : UINT32_MAX;
    const cJSON *metadata = gt_get(object, "metadata");
    const char *uid = gt_get_string(metadata, "uid");
    uint64_t own = owner->uid = *uid ? gt_digest_keyed(uid) : 0;
    GT_TRY(read_own(&reader, metadata, &own));
    owner->version = version_of(metadata, own);
    owner->stopped = owner->stopped || owner_is_stopped(kind, object);
    struct gt_job_template *fitting =
        realloc(reader.templates, sizeof(*fitting) * (owner->spec.count ? owner->spec.count : 1));
    owner->spec.templates = fitting ? fitting : reader.templates;
    owner->role = kind->roles_are_jobs && owner->spec.count ? owner->spec.templates[0].role : NULL;
    *ret = reader.gpus ? gt_steal(owner) : NULL;
    return 0;
}

int gt_owner_read(enum gt_job_kind number, const cJSON *object, const char *resource, struct gt_owner **ret,
                  struct gt_err **err)
{
    const struct gt_kind *kind = gt_kind_of(number);
    const cJSON *spec = gt_get(object, "spec");
    gt_auto_owner struct gt_owner *first = NULL;
    struct gt_owner **last = &first;
    if (!cJSON_IsObject(spec))
        return gt_fail(err, EINVAL, "a %s without a spec", kind->type.kind);
    unsigned jobs = kind->count_jobs ? kind->count_jobs(kind, spec) : 1;
    for (unsigned job = 0; job < jobs; job++) {
        GT_TRY(owner_read_job(kind, object, job, resource, last, err));
        last = *last ? &(*last)->next : last;
    }
    *ret = first && !is_part_of_another(number, object) ? gt_steal(first) : NULL;
    return 0;
}

/* NULL: none is assigned yet. */
static const cJSON *assigned_count(const cJSON *workload, const char *name)
{
    for (const cJSON *assignment = gt_first(gt_get_at(workload, "status", "admission", "podSetAssignments"));
         assignment; assignment = assignment->next) {
        if (strcmp(gt_get_string(assignment, "name"), name) == 0)
            return gt_get(assignment, "count");
    }
    return NULL;
}

int gt_owner_read_pod_sets(enum gt_job_kind kind, const cJSON *workload, const char *resource,
                           struct gt_owner **ret, struct gt_err **err)
{
    gt_auto_owner struct gt_owner *owner = calloc(1, sizeof(*owner));
    struct gt_template_reader reader = {.resource = resource, .owner = owner, .err = err};
    if (!owner || !(reader.templates = calloc(GT_TEMPLATES_MAX, sizeof(*reader.templates))))
        return gt_fail_sys(err, ENOMEM, "owner");
    owner->spec.templates = reader.templates;
    for (const cJSON *pod_set = gt_first(gt_get_at(workload, "spec", "podSets")); pod_set;
         pod_set = pod_set->next) {
        const char *name = gt_get_string(pod_set, "name");
        const cJSON *count = assigned_count(workload, name);
        GT_TRY(gt_template_add(&reader, name, count ? count : gt_get(pod_set, "count"), 1,
                               gt_get(pod_set, "template")));
        /* How large a subgroup is a Workload does not say: such units are not checked. */
        const char **group = &reader.templates[owner->spec.count - 1].texts.of[GT_KEY_GROUP];
        if (*group && strcmp(*group, GT_GROUP_PART) == 0) {
            free((void *)(uintptr_t)*group);
            *group = NULL;
        }
    }
    owner->spec.sizes_of_roles = kind < GT_JOB_KINDS && gt_kind_of(kind)->roles_are_jobs;
    *ret = reader.gpus ? gt_steal(owner) : NULL;
    return 0;
}

/* The template of that role; else, where all are of one job, the last: Kueue calls the only one "main". */
static const struct gt_job_template *owner_template_of(const struct gt_owner *owner, const char *role)
{
    for (const struct gt_owner *job = owner; job; job = job->next)
        for (unsigned i = 0; i < job->spec.count; i++)
            if (strcasecmp(job->spec.templates[i].role, role) == 0)
                return &job->spec.templates[i];
    return owner->role || !owner->spec.count ? NULL : &owner->spec.templates[owner->spec.count - 1];
}

int gt_owner_complete(struct gt_owner *workload, const struct gt_owner *owner, bool pods, struct gt_err **err)
{
    for (unsigned i = 0; i < workload->spec.count; i++) {
        struct gt_job_template *to = (struct gt_job_template *)(uintptr_t)&workload->spec.templates[i];
        const struct gt_job_template *from = owner_template_of(owner, to->role);
        to->texts.subgroup = from ? from->texts.subgroup : 0;
        to->replicas = from && pods ? from->replicas : to->replicas;
        for (enum gt_pod_key k = 0; k < GT_KEY_SIZES && from; k++) {
            const char **text = &to->texts.of[k], *given = from->texts.of[k];
            if (!*text && given && !(*text = strdup(given)))
                return gt_fail_sys(err, ENOMEM, "owner");
        }
    }
    return 0;
}

const char *gt_owner_warning(enum gt_job_kind kind, const cJSON *object)
{
    const struct gt_kind *of = gt_kind_of(kind);
    return of->warn ? of->warn(object) : NULL;
}

bool gt_owner_is_grouped(const struct gt_owner *owner)
{
    for (unsigned i = 0; i < owner->spec.count; i++)
        if (owner->spec.templates[i].texts.of[GT_KEY_GROUP])
            return true;
    return false;
}

enum { TEMPLATE_DEPTH = 6 }; /* below the spec; a JobSet's are the deepest of known kinds, with 4 */

static void visit_below(cJSON *json, unsigned depth, void (*visit)(void *arg, cJSON *spec), void *arg)
{
    cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        cJSON *spec = cJSON_GetObjectItemCaseSensitive(item, "spec");
        if (cJSON_IsArray(gt_get(spec, "containers"))) /* whatever it is called */
            visit(arg, spec);
        else if (depth && (cJSON_IsObject(item) || cJSON_IsArray(item)))
            visit_below(item, depth - 1, visit, arg);
    }
}

void gt_owner_each_template(cJSON *object, void (*visit)(void *arg, cJSON *spec), void *arg)
{
    visit_below(cJSON_GetObjectItemCaseSensitive(object, "spec"), TEMPLATE_DEPTH, visit, arg);
}
