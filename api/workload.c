/* SPDX-License-Identifier: Apache-2.0 */
#include "api/workload.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/time_text.h"
static const char *const state_names[GT_CHECK_STATES] = {
    [GT_CHECK_PENDING] = "Pending",
    [GT_CHECK_READY] = "Ready",
    [GT_CHECK_RETRY] = "Retry",
    [GT_CHECK_REJECTED] = "Rejected",
};

const char *gt_check_state_name(enum gt_check_state state)
{
    return state_names[state];
}

void gt_workload_free(struct gt_workload *workload)
{
    if (!workload)
        return;
    for (unsigned i = 0; workload->pod_sets && i < workload->pod_set_count; i++)
        free(workload->pod_sets[i].asked);
    cJSON_Delete(workload->kept);
    free(workload->pod_sets);
    free(workload->checks);
    if (workload->job)
        gt_owner_free(workload->job);
    free(workload->refusal);
    free(workload);
}

/* ---- what is kept of the object ---- */

static bool workload_keep(cJSON *to, const char *key, const cJSON *item)
{
    return !item || gt_json_attach(to, key, cJSON_Duplicate(item, true));
}

static const cJSON *assignment_of(const cJSON *object, const char *name)
{
    for (const cJSON *assignment = gt_first(gt_get_at(object, "status", "admission", "podSetAssignments"));
         assignment; assignment = assignment->next) {
        if (strcmp(gt_get_string(assignment, "name"), name) == 0)
            return assignment;
    }
    return NULL;
}

static bool keep_pod_set(cJSON *list, const cJSON *object, const cJSON *pod_set)
{
    const cJSON *spec = gt_get_at(pod_set, "template", "spec");
    cJSON *to = cJSON_CreateObject();
    return gt_json_attach(list, NULL, to) && workload_keep(to, "selector", gt_get(spec, "nodeSelector")) &&
           workload_keep(to, "affinity",
                         gt_get_at(spec, "affinity", "nodeAffinity",
                                   "requiredDuringSchedulingIgnoredDuringExecution")) &&
           workload_keep(to, "tolerations", gt_get(spec, "tolerations")) &&
           workload_keep(to, "flavors",
                         gt_get(assignment_of(object, gt_get_string(pod_set, "name")), "flavors"));
}

static const char *const copied_members[] = {"namespace", "name", "resourceVersion"};

/* NULL without memory. */
static cJSON *copy_of(const cJSON *object)
{
    cJSON *to = cJSON_CreateObject(), *metadata = to ? cJSON_AddObjectToObject(to, "metadata") : NULL;
    cJSON *status = metadata ? cJSON_AddObjectToObject(to, "status") : NULL;
    cJSON *pod_sets = status ? cJSON_AddArrayToObject(to, "podSets") : NULL;
    bool whole = pod_sets != NULL;
    for (unsigned i = 0; whole && i < GT_COUNT(copied_members); i++)
        whole = workload_keep(metadata, copied_members[i], gt_get_at(object, "metadata", copied_members[i]));
    whole = whole &&
            workload_keep(metadata, "owner", gt_first(gt_get_at(object, "metadata", "ownerReferences"))) &&
            workload_keep(status, "conditions", gt_get_at(object, "status", "conditions")) &&
            workload_keep(status, "admissionChecks", gt_get_at(object, "status", "admissionChecks"));
    for (const cJSON *pod_set = gt_first(gt_get_at(object, "spec", "podSets")); pod_set;
         pod_set = pod_set->next) {
        whole = whole && keep_pod_set(pod_sets, object, pod_set);
    }
    if (whole)
        return to;
    cJSON_Delete(to);
    return NULL;
}

/* ---- reading ---- */

static int workload_read_names(struct gt_workload *to, struct gt_err **err)
{
    const struct gt_at at = {GT_KIND_WORKLOAD, "metadata", err};
    const cJSON *metadata = gt_get(to->kept, "metadata"), *owner = gt_get(metadata, "owner");
    const struct gt_at owners = {GT_KIND_WORKLOAD, "metadata.ownerReferences[0]", err};
    to->namespace_ = to->owner_api_version = to->owner_kind = to->owner_name = "";
    GT_TRY(gt_api_meta(&at, to->kept, &to->name, &to->version));
    GT_TRY(gt_api_text(&at, metadata, "namespace", GT_API_NAME_MAX, &to->namespace_));
    GT_TRY(gt_api_text(&owners, owner, "apiVersion", GT_API_TEXT_MAX, &to->owner_api_version));
    GT_TRY(gt_api_text(&owners, owner, "kind", GT_API_TEXT_MAX, &to->owner_kind));
    return gt_api_text(&owners, owner, "name", GT_API_NAME_MAX, &to->owner_name);
}

static void read_conditions(struct gt_workload *to, const cJSON *spec)
{
    static const char *const types[] = {"QuotaReserved", "Evicted", "Finished"};
    struct gt_condition conditions[GT_COUNT(types)];
    gt_conditions_read(gt_get(to->kept, "status"), types, GT_COUNT(types), conditions);
    to->is_reserved = conditions[0].status == GT_CONDITION_TRUE &&
                      conditions[1].status != GT_CONDITION_TRUE &&
                      conditions[2].status != GT_CONDITION_TRUE && !cJSON_IsFalse(gt_get(spec, "active"));
    to->reserved_since = conditions[0].since;
}

/* One in a state that is not known is Pending: nothing is decided yet. */
static int read_checks(struct gt_workload *to, struct gt_err **err)
{
    const struct gt_at at = {GT_KIND_WORKLOAD, "status", err},
                       below = {GT_KIND_WORKLOAD, "status.admissionChecks", err};
    const cJSON *list = NULL;
    int r = gt_get_array(&at, gt_get(to->kept, "status"), "admissionChecks", GT_WORKLOAD_CHECKS_MAX, &list,
                         &to->check_count);
    to->checks = calloc((size_t)to->check_count + 1, sizeof(*to->checks));
    if (r < 0 || !to->checks)
        return r < 0 ? r : gt_fail_sys(err, ENOMEM, GT_KIND_WORKLOAD);
    struct gt_workload_check *check = to->checks;
    for (const cJSON *item = gt_first(list); item; item = item->next) {
        size_t state = GT_PLACE_OF_TEXT(state_names, GT_CHECK_STATES, gt_get_string(item, "state"));
        uint64_t retries = 0;
        check->name = "";
        GT_TRY(gt_api_text(&below, item, "name", GT_API_NAME_MAX, &check->name));
        check->state = state < GT_CHECK_STATES ? (enum gt_check_state)state : GT_CHECK_PENDING;
        gt_json_is_unsigned(gt_get(item, "retryCount"), UINT32_MAX, &retries);
        check->retries = (unsigned)retries;
        check->since_s = gt_time_of_text(gt_get_string(item, "lastTransitionTime"));
        check++;
    }
    return 0;
}

/* The names are copied into `kept`. False without memory. */
static bool workload_read_asked(const cJSON *spec, cJSON *kept, struct gt_workload_pod_set *to)
{
    struct gt_resources asked;
    gt_pod_resources_read(spec, &asked);
    cJSON *names = cJSON_AddArrayToObject(kept, "asked");
    to->asked = names ? calloc((size_t)asked.count + 1, sizeof(*to->asked)) : NULL;
    for (unsigned i = 0; to->asked && i < asked.count; i++) {
        cJSON *name = cJSON_CreateString(asked.list[i].name);
        if (!gt_json_attach(names, NULL, name))
            return false;
        to->asked[to->asked_count++] = (struct gt_amount){name->valuestring, asked.list[i].amount};
    }
    return to->asked != NULL;
}

static int read_pod_sets(struct gt_workload *to, const cJSON *object, const char *resource,
                         struct gt_err **err)
{
    const struct gt_at at = {GT_KIND_WORKLOAD, "spec", err};
    const cJSON *list = NULL;
    gt_auto_err struct gt_err *error = NULL;
    int r = gt_get_array(&at, gt_get(object, "spec"), "podSets", GT_WORKLOAD_POD_SETS_MAX, &list,
                         &to->pod_set_count);
    to->pod_sets = calloc((size_t)to->pod_set_count + 1, sizeof(*to->pod_sets));
    if (r < 0 || !to->pod_sets)
        return r < 0 ? r : gt_fail_sys(err, ENOMEM, GT_KIND_WORKLOAD);
    struct gt_workload_pod_set *pod_set = to->pod_sets;
    const cJSON *kept = gt_get(to->kept, "podSets");
    const cJSON *from = list ? list->child : NULL;
    for (cJSON *item = kept ? kept->child : NULL; item && from; item = item->next, from = from->next) {
        const cJSON *required = gt_get(item, "affinity");
        *pod_set = (struct gt_workload_pod_set){.where = {.selector = gt_get(item, "selector"),
                                                          .tolerations = gt_get(item, "tolerations"),
                                                          .terms = gt_get(required, "nodeSelectorTerms"),
                                                          .has_terms = required != NULL},
                                                .flavors = gt_get(item, "flavors")};
        GT_NEED(workload_read_asked(gt_get_at(from, "template", "spec"), item, pod_set++), err,
                GT_KIND_WORKLOAD);
    }
    enum gt_job_kind kind = gt_owner_kind_of(to->owner_api_version, to->owner_kind);
    if (gt_owner_read_pod_sets(kind, object, resource, &to->job, &error) >= 0)
        return 0;
    to->refusal = strdup(gt_err_text(error));
    return to->refusal ? 0 : gt_fail_sys(err, ENOMEM, GT_KIND_WORKLOAD);
}

int gt_workload_read(const cJSON *object, const char *resource, struct gt_workload **ret, struct gt_err **err)
{
    gt_auto_workload struct gt_workload *workload = calloc(1, sizeof(*workload));
    const cJSON *spec = gt_get(object, "spec");
    int64_t priority = 0;
    if (!workload || !(workload->kept = copy_of(object)))
        return gt_fail_sys(err, ENOMEM, GT_KIND_WORKLOAD);
    GT_TRY(workload_read_names(workload, err));
    GT_TRY(read_checks(workload, err));
    GT_TRY(read_pod_sets(workload, object, resource, err));
    read_conditions(workload, spec);
    if (gt_json_is_int(gt_get(spec, "priority"), &priority) && priority >= INT32_MIN && priority <= INT32_MAX)
        workload->priority = (int32_t)priority;
    *ret = gt_steal(workload);
    return 0;
}

/* ---- writing ---- */

const char *gt_kueue_version(const cJSON *group)
{
    static const char *const known[] = {"v1beta2", "v1beta1"}; /* the members that are used are the same */
    for (unsigned i = 0; i < GT_COUNT(known); i++)
        for (const cJSON *item = gt_first(gt_get(group, "versions")); item; item = item->next) {
            if (strcmp(gt_get_string(item, "version"), known[i]) == 0)
                return known[i];
        }
    return NULL;
}

static void workload_begin_object(const char *api_version, const char *kind, const char *namespace_,
                                  const char *name, const char *version, struct gt_buf *to)
{
    char api[64];
    snprintf(api, sizeof(api), GT_KUEUE_GROUP "/%s", api_version);
    gt_json_printf(to,
                   "{'apiVersion': %s, 'kind': %s, 'metadata': {?'namespace': %s, 'name': %s,"
                   "?'resourceVersion': %s}, 'status': {",
                   api, kind, namespace_, name, version);
}

void gt_workload_write_checks(const char *version, const struct gt_workload *workload,
                              const char *const names[], unsigned count,
                              const struct gt_check_verdict *verdict, int64_t now_s, struct gt_buf *to)
{
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(now_s, now);
    workload_begin_object(version, GT_KIND_WORKLOAD, workload->namespace_, workload->name, workload->version,
                          to);
    gt_json_begin(to, "admissionChecks", '[');
    for (unsigned i = 0; i < count; i++) {
        gt_json_printf(to, "{'name': %s, 'state': %s, 'lastTransitionTime': %s, 'message': %s", names[i],
                       state_names[verdict->state], now, verdict->message);
        if (verdict->state == GT_CHECK_RETRY)
            gt_json_add_unsigned(to, "requeueAfterSeconds", verdict->requeue_s);
        gt_json_end(to, '}');
    }
    gt_buf_puts(to, "]}}");
}

int gt_admission_check_read(const cJSON *object, struct gt_admission_check *ret, struct gt_err **err)
{
    static const char *const types[] = {"Active"};
    struct gt_admission_check made = {.controller = ""};
    const struct gt_at at = {GT_KIND_ADMISSION_CHECK, "metadata", err},
                       below = {GT_KIND_ADMISSION_CHECK, "spec", err};
    const cJSON *spec = gt_get(object, "spec"), *status = gt_get(object, "status");
    GT_TRY(gt_api_meta(&at, object, &made.name, NULL));
    GT_TRY(gt_api_text(&below, spec, "controllerName", GT_API_NAME_MAX, &made.controller));
    made.has_parameters = gt_get(spec, "parameters") != NULL;
    gt_json_is_unsigned(gt_get_at(object, "metadata", "generation"), INT64_MAX, &made.generation);
    gt_conditions_read(status, types, 1, &made.active);
    for (const cJSON *condition = gt_first(gt_get(status, "conditions")); condition;
         condition = condition->next) {
        if (strcmp(gt_get_string(condition, "type"), types[0]) == 0)
            gt_json_is_unsigned(gt_get(condition, "observedGeneration"), INT64_MAX, &made.observed);
    }
    *ret = made;
    return 0;
}

void gt_admission_check_write(const char *version, const struct gt_admission_check *check,
                              const struct gt_condition *condition, struct gt_buf *to)
{
    workload_begin_object(version, GT_KIND_ADMISSION_CHECK, "", check->name, "", to);
    gt_json_printf(to,
                   "'conditions': [{'type': 'Active', 'status': %s, 'reason': %s, 'message': %s,"
                   "'lastTransitionTime': %s, 'observedGeneration': %" PRIu64 "}]}}",
                   gt_condition_status_name(condition->status), condition->reason, condition->message,
                   condition->since, check->generation);
}

void gt_resource_flavor_done(struct gt_resource_flavor *flavor)
{
    free(flavor->name);
    cJSON_Delete(flavor->labels);
    cJSON_Delete(flavor->tolerations);
    *flavor = (struct gt_resource_flavor){0};
}

int gt_resource_flavor_read(const cJSON *object, struct gt_resource_flavor *ret, struct gt_err **err)
{
    const struct gt_at at = {"ResourceFlavor", "", err};
    const cJSON *labels = gt_get_at(object, "spec", "nodeLabels"),
                *tolerations = gt_get_at(object, "spec", "tolerations");
    const char *name;
    GT_TRY(gt_api_meta(&at, object, &name, NULL));
    struct gt_resource_flavor flavor = {.name = strdup(name),
                                        .labels = labels ? cJSON_Duplicate(labels, true) : NULL,
                                        .tolerations =
                                            tolerations ? cJSON_Duplicate(tolerations, true) : NULL};
    if (!flavor.name || !flavor.labels != !labels || !flavor.tolerations != !tolerations) {
        gt_resource_flavor_done(&flavor);
        return gt_fail_sys(err, ENOMEM, "ResourceFlavor");
    }
    *ret = flavor;
    return 0;
}

static bool copy_members(cJSON *to, const cJSON *from)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, from)
    {
        if (!gt_json_attach(to, cJSON_IsArray(to) ? NULL : item->string, cJSON_Duplicate(item, true)))
            return false;
    }
    return true;
}

static const struct gt_resource_flavor *resource_flavor_find(const struct gt_resource_flavor *flavors,
                                                             unsigned count, const char *name)
{
    return name ? GT_FIND(flavors, count, name, name) : NULL;
}

int gt_workload_where(const struct gt_workload_pod_set *pod_set, const struct gt_resource_flavor *flavors,
                      unsigned count, struct gt_pod_where *ret, struct gt_err **err)
{
    cJSON *selector = cJSON_CreateObject(), *tolerations = cJSON_CreateArray();
    struct gt_pod_where where = pod_set->where;
    bool whole = selector && tolerations && copy_members(selector, where.selector) &&
                 copy_members(tolerations, where.tolerations);
    const cJSON *item;
    cJSON_ArrayForEach(item, pod_set->flavors)
    {
        const struct gt_resource_flavor *flavor =
            resource_flavor_find(flavors, count, cJSON_GetStringValue(item));
        whole = whole && (!flavor || (copy_members(selector, flavor->labels) &&
                                      copy_members(tolerations, flavor->tolerations)));
    }
    where.selector = selector;
    where.tolerations = tolerations;
    if (!whole) {
        gt_workload_where_done(&where);
        return gt_fail_sys(err, ENOMEM, "pod set");
    }
    *ret = where;
    return 0;
}

void gt_workload_where_done(struct gt_pod_where *where)
{
    cJSON_Delete((cJSON *)(uintptr_t)where->selector);
    cJSON_Delete((cJSON *)(uintptr_t)where->tolerations);
    *where = (struct gt_pod_where){0};
}
