/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resource_quota.h"

#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/resources.h"
#include "base/text.h"

/* ---- reading ---- */

/* What is read, before it is put into one block. */
struct quota_reader {
    struct gt_resource_quota quota;
    struct gt_quota_scope scopes[GT_QUOTA_SCOPES_MAX];
    const char *values[GT_QUOTA_VALUES_MAX];
    unsigned value_count;
};

/* An amount in a list of resources; *ret stays as it is where it is missing. Who writes more than can be
 * counted means that there is no limit. */
static int resource_quota_read_amount(const struct gt_at *at, const cJSON *list, const char *resource,
                                      bool *ret_there, uint64_t *ret)
{
    const cJSON *json = gt_get(list, resource);
    bool negative = false;
    *ret_there = json != NULL;
    if (!json)
        return 0;
    const char *text = cJSON_GetStringValue(json);
    if (!text)
        return gt_at_fail(at, resource, "expected a quantity, is %s", gt_json_type(json));
    switch (gt_quantity_parse(text, strlen(text), GT_QUANTITY_LIMIT, &negative, ret)) {
    case GT_QUANTITY_OK:
        *ret = negative ? 0 : *ret;
        return 0;
    case GT_QUANTITY_TOO_LARGE:
        *ret = GT_QUANTITY_LIMIT;
        return 0;
    default:
        return gt_at_fail(at, resource, "\"%.40s\" is no whole number", text);
    }
}

static int read_amounts(const struct gt_at *at, const cJSON *object, const char *resource, bool *ret_limits,
                        struct gt_resource_quota *to)
{
    const struct gt_at spec = {at->source, "spec.hard", at->err},
                       status = {at->source, "status.hard", at->err},
                       usage = {at->source, "status.used", at->err};
    char name[GT_API_NAME_MAX + 16];
    uint64_t enforced = 0;
    bool is_enforced, is_used;
    snprintf(name, sizeof(name), "requests.%s", resource);
    GT_TRY(resource_quota_read_amount(&spec, gt_get_at(object, "spec", "hard"), name, ret_limits, &to->hard));
    if (!*ret_limits)
        return 0;
    GT_TRY(resource_quota_read_amount(&status, gt_get_at(object, "status", "hard"), name, &is_enforced,
                                      &enforced));
    GT_TRY(
        resource_quota_read_amount(&usage, gt_get_at(object, "status", "used"), name, &is_used, &to->used));
    if (is_enforced && enforced < to->hard)
        to->hard = enforced;
    return 0;
}

static enum gt_quota_scope_kind resource_quota_kind_of(const char *name)
{
    static const char *const names[GT_QUOTA_OTHER_SCOPE] = {
        [GT_QUOTA_TERMINATING] = "Terminating",      [GT_QUOTA_NOT_TERMINATING] = "NotTerminating",
        [GT_QUOTA_BEST_EFFORT] = "BestEffort",       [GT_QUOTA_NOT_BEST_EFFORT] = "NotBestEffort",
        [GT_QUOTA_PRIORITY_CLASS] = "PriorityClass",
    };
    return (enum gt_quota_scope_kind)GT_PLACE_OF_TEXT(names, GT_QUOTA_OTHER_SCOPE, name);
}

static int add_scope(const struct gt_at *at, const struct gt_quota_scope *scope, struct quota_reader *to)
{
    if (to->quota.scope_count == GT_QUOTA_SCOPES_MAX)
        return gt_at_fail(at, "", "more than %d scopes", GT_QUOTA_SCOPES_MAX);
    to->scopes[to->quota.scope_count++] = *scope;
    return 0;
}

static int read_operator(const struct gt_at *at, const cJSON *item, enum gt_quota_operator *ret)
{
    static const char *const names[] = {[GT_QUOTA_EXISTS] = "Exists",
                                        [GT_QUOTA_DOES_NOT_EXIST] = "DoesNotExist",
                                        [GT_QUOTA_IN] = "In",
                                        [GT_QUOTA_NOT_IN] = "NotIn"};
    size_t i = GT_PLACE_OF_TEXT(names, GT_COUNT(names), gt_get_string(item, "operator"));
    if (i == GT_COUNT(names))
        return gt_at_fail(at, "operator", "is none of Exists, DoesNotExist, In, NotIn");
    *ret = (enum gt_quota_operator)i;
    return 0;
}

static int read_values(const struct gt_at *at, const cJSON *item, struct gt_quota_scope *scope,
                       struct quota_reader *to)
{
    const cJSON *array;
    int r =
        gt_get_array(at, item, "values", GT_QUOTA_VALUES_MAX - to->value_count, &array, &scope->value_count);
    if (r < 0 || !array)
        return r;
    scope->values = &to->values[to->value_count];
    for (const cJSON *value = array->child; value; value = value->next) {
        const char *text = cJSON_GetStringValue(value);
        if (!text || strlen(text) > GT_API_NAME_MAX)
            return gt_at_fail(at, "values", "an entry is no text of at most %d bytes", GT_API_NAME_MAX);
        to->values[to->value_count++] = text;
    }
    return 0;
}

static int read_scopes(const char *source, const cJSON *spec, struct quota_reader *to, struct gt_err **err)
{
    const struct gt_at at = {source, "spec", err}, selector = {source, "spec.scopeSelector", err};
    const cJSON *names, *terms;
    unsigned count;
    GT_TRY(gt_get_array(&at, spec, "scopes", GT_QUOTA_SCOPES_MAX, &names, &count));
    for (const cJSON *item = names ? names->child : NULL; item; item = item->next) {
        const char *name = cJSON_GetStringValue(item);
        GT_TRY(
            add_scope(&at, &(struct gt_quota_scope){.kind = resource_quota_kind_of(name ? name : "")}, to));
    }
    GT_TRY(gt_get_array(&selector, gt_get(spec, "scopeSelector"), "matchExpressions", GT_QUOTA_SCOPES_MAX,
                        &terms, &count));
    for (const cJSON *item = terms ? terms->child : NULL; item; item = item->next) {
        struct gt_quota_scope scope = {.kind = resource_quota_kind_of(gt_get_string(item, "scopeName"))};
        GT_TRY(read_operator(&selector, item, &scope.operator));
        GT_TRY(read_values(&selector, item, &scope, to));
        GT_TRY(add_scope(&selector, &scope, to));
    }
    return 0;
}

static int resource_quota_copy(const struct quota_reader *from, struct gt_resource_quota **ret,
                               struct gt_err **err)
{
    size_t size = sizeof(**ret) + from->quota.scope_count * sizeof(from->scopes[0]) +
                  from->value_count * sizeof(from->values[0]) + strlen(from->quota.namespace_) +
                  strlen(from->quota.name) + 2;
    for (unsigned i = 0; i < from->value_count; i++)
        size += strlen(from->values[i]) + 1;
    struct gt_resource_quota *to = malloc(size);
    GT_NEED(to, err, "quota");
    struct gt_quota_scope *scopes = (struct gt_quota_scope *)(to + 1);
    const char **values = (const char **)(scopes + from->quota.scope_count);
    char *next = (char *)(values + from->value_count);
    *to = from->quota;
    to->namespace_ = gt_text_put(from->quota.namespace_, &next);
    to->name = gt_text_put(from->quota.name, &next);
    for (unsigned i = 0; i < from->value_count; i++)
        values[i] = gt_text_put(from->values[i], &next);
    for (unsigned i = 0; i < from->quota.scope_count; i++) {
        scopes[i] = from->scopes[i];
        scopes[i].values = scopes[i].values ? values + (scopes[i].values - from->values) : NULL;
    }
    to->scopes = scopes;
    *ret = to;
    return 0;
}

int gt_resource_quota_read(const cJSON *object, const char *resource, struct gt_resource_quota **ret,
                           struct gt_err **err)
{
    const struct gt_at at = {"resourcequotas", "", err}, metadata = {"resourcequotas", "metadata", err};
    struct quota_reader reader = {.quota = {.namespace_ = ""}};
    char source[2 * GT_API_NAME_MAX + 32];
    bool limits = false;
    GT_TRY(gt_api_meta(&at, object, &reader.quota.name, NULL));
    GT_TRY(gt_api_text(&metadata, gt_get(object, "metadata"), "namespace", GT_API_NAME_MAX,
                       &reader.quota.namespace_));
    snprintf(source, sizeof(source), "resourcequotas/%s/%s", reader.quota.namespace_, reader.quota.name);
    const struct gt_at named = {source, "", err};
    GT_TRY(read_amounts(&named, object, resource, &limits, &reader.quota));
    if (limits)
        GT_TRY(read_scopes(source, gt_get(object, "spec"), &reader, err));
    *ret = NULL;
    return limits ? resource_quota_copy(&reader, ret, err) : 0;
}

/* ---- what it applies to ---- */

static bool has_value(const struct gt_quota_scope *scope, const char *value)
{
    return GT_HAS_TEXT(scope->values, scope->value_count, value);
}

static bool matches_class(const struct gt_quota_scope *scope, const char *class)
{
    bool has = class && *class;
    switch (scope->operator) {
    case GT_QUOTA_IN:
        return has && has_value(scope, class);
    case GT_QUOTA_NOT_IN:
        return !has || !has_value(scope, class);
    case GT_QUOTA_DOES_NOT_EXIST:
        return !has;
    default:
        return has;
    }
}

static bool resource_quota_matches(const struct gt_quota_scope *scope, const struct gt_quota_pod *pod)
{
    switch (scope->kind) {
    case GT_QUOTA_TERMINATING:
        return pod->has_deadline;
    case GT_QUOTA_NOT_TERMINATING:
        return !pod->has_deadline;
    case GT_QUOTA_BEST_EFFORT:
        return pod->best_effort;
    case GT_QUOTA_NOT_BEST_EFFORT:
        return !pod->best_effort;
    case GT_QUOTA_PRIORITY_CLASS:
        return matches_class(scope, pod->priority_class);
    default:
        return false;
    }
}

bool gt_resource_quota_matches(const struct gt_resource_quota *quota, const struct gt_quota_pod *pod)
{
    for (unsigned i = 0; i < quota->scope_count; i++)
        if (!resource_quota_matches(&quota->scopes[i], pod))
            return false;
    return true;
}
