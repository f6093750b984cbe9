/* SPDX-License-Identifier: Apache-2.0 */
#include "api/custom_kinds.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/kinds/kind.h"
#include "base/json_get.h"
#include "base/text.h"

/* Kinds as data. The document is checked when it is loaded, and asked then for each object and pod. */

enum { CUSTOM_TEMPLATES_MAX = 16, CUSTOM_NAME_MAX = 63, CUSTOM_VALUES_MAX = 16, CUSTOM_AT_MAX = 96 };

struct custom_kind {
    struct gt_kind kind; /* the first member */
    char group[254], version[CUSTOM_NAME_MAX + 1];
    enum gt_pod_key job, role, index; /* GT_POD_KEYS: its pods have no such label */
    const cJSON *says;
};

static struct custom_kind custom_kinds[GT_CUSTOM_KINDS_MAX];
static cJSON *custom_document; /* the kinds point into it */

/* ---- an object, a pod ---- */

/* `.a.b` below the object; the object itself for "". */
static const cJSON *follow_path(const cJSON *json, const char *path)
{
    while (json && *path == '.') {
        char name[CUSTOM_NAME_MAX + 1];
        size_t len = strcspn(++path, ".");
        snprintf(name, sizeof(name), "%.*s", (int)len, path);
        json = gt_get(json, name);
        path += len;
    }
    return json;
}

/* Paths of the document begin with .spec or .status, which is `json`. */
static const cJSON *follow_from(const cJSON *json, const char *path)
{
    return follow_path(json, path + strcspn(path + 1, ".") + 1);
}

static int add_custom_template(struct gt_template_reader *reader, const cJSON *template, const cJSON *from,
                               bool below)
{
    const cJSON *(*follow)(const cJSON *, const char *) = below ? follow_path : follow_from;
    const char *role = gt_get_string(template, "role"), *replicas = gt_get_string(template, "replicas");
    const cJSON *pod = follow(from, gt_get_string(template, "path"));
    if (!pod)
        return 0;
    if (*role == '.')
        role = cJSON_GetStringValue(follow(from, role));
    else if (!*role && below && from->string)
        role = from->string;
    return gt_template_add(reader, role ? role : "", *replicas ? follow(from, replicas) : NULL, 1, pod);
}

static int read_custom(struct gt_template_reader *reader, const cJSON *spec)
{
    const struct custom_kind *custom = (const struct custom_kind *)reader->kind;
    const char *minimum = gt_get_string(custom->says, "minimum"),
               *suspend = gt_get_string(custom->says, "suspend");
    const cJSON *from;
    uint32_t pods = 0;
    int r = 0;
    reader->owner->spec.in_order = true;
    for (const cJSON *template = gt_first(gt_get(custom->says, "templates")); template;
         template = template->next) {
        const char *each = gt_get_string(template, "each");
        if (!*each)
            r = add_custom_template(reader, template, spec, false);
        else
            cJSON_ArrayForEach(from, follow_from(spec, each)) if (r >= 0) r =
                add_custom_template(reader, template, from, true);
        if (r < 0)
            return r;
    }
    if (*minimum)
        r = gt_template_count(follow_from(spec, minimum), minimum, 0, &pods, reader->err);
    if (pods)
        gt_template_set_minimum(reader->owner, minimum, pods);
    reader->owner->stopped = *suspend && cJSON_IsTrue(follow_from(spec, suspend));
    return r;
}

static bool has_custom_stopped(const struct gt_kind *kind, const cJSON *status)
{
    const cJSON *ended = gt_get(((const struct custom_kind *)kind)->says, "ended"), *one;
    const char *path = gt_get_string(ended, "path");
    cJSON_ArrayForEach(one, gt_get(ended, "conditions"))
    {
        if (gt_kind_condition_is_true(status, one->valuestring))
            return true;
    }
    const char *value = *path ? cJSON_GetStringValue(follow_from(status, path)) : NULL;
    cJSON_ArrayForEach(one, gt_get(ended, "values"))
    {
        if (value && strcmp(one->valuestring, value) == 0)
            return true;
    }
    return false;
}

static int identify_custom(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                           struct gt_pod_identity *ret, struct gt_err **err)
{
    const struct custom_kind *custom = (const struct custom_kind *)kind;
    const char *role = gt_pod_key_value(pod, custom->role), *index = gt_pod_key_value(pod, custom->index);
    ret->job = custom->job != GT_POD_KEYS                 ? gt_pod_key_value(pod, custom->job)
               : gt_pod_is_owned_by(pod, kind->type.kind) ? pod->owner_name
                                                          : NULL;
    if (!ret->job)
        return 0;
    if (!role && custom->role != GT_POD_KEYS)
        return gt_index_missing(pod, custom->role, err);
    if (!index && custom->index != GT_POD_KEYS)
        return gt_index_missing(pod, custom->index, err);
    ret->role = role ? role : "";
    return index ? gt_index_read(pod, custom->index, index, ret, err) : 1;
}

/* ---- the document ---- */

#define LOWER "abcdefghijklmnopqrstuvwxyz0123456789-"
#define MIXED LOWER "ABCDEFGHIJKLMNOPQRSTUVWXYZ"

static bool custom_is_name(const char *text, const char *letters, size_t max)
{
    size_t len = strspn(text, letters);
    return len && len <= max && !text[len];
}

/* That it is an object with only these members. */
static int check_members(const struct gt_at *at, const cJSON *object, const char *const *names)
{
    const cJSON *member;
    if (!cJSON_IsObject(object))
        return gt_at_fail(at, "", "it is %s, expected a mapping", gt_json_type(object));
    size_t count = 0;
    while (names[count])
        count++;
    cJSON_ArrayForEach(member, object)
    {
        const char *meant = gt_text_meant(member->string, names, count);
        if (!meant || strcmp(meant, member->string) != 0)
            return meant ? gt_at_fail(at, member->string, "there is no such member, did you mean %s?", meant)
                         : gt_at_fail(at, member->string, "there is no such member");
    }
    return 0;
}
#define check_members_(at, object, ...)                                                                      \
    check_members((at), (object), (const char *const[]){__VA_ARGS__, NULL})

/* A path below `root` (".spec"; "" any). */
static int custom_check_path(const struct gt_at *at, const cJSON *object, const char *key, const char *root)
{
    const cJSON *member = gt_get(object, key);
    const char *path = cJSON_GetStringValue(member);
    size_t len = strlen(root);
    if (!member)
        return 0;
    for (const char *p = path; p && *p; p++) {
        size_t name = *p == '.' ? strspn(p + 1, MIXED "_") : 0;
        if (!name || name > CUSTOM_NAME_MAX)
            path = NULL;
        p += name;
    }
    if (!path || !*path || strncmp(path, root, len) != 0 || path[len] != '.')
        return gt_at_fail(at, key, "expected a path such as %s.worker.replicas", root);
    return 0;
}

static int custom_check_text(const struct gt_at *at, const cJSON *object, const char *key)
{
    const cJSON *member = gt_get(object, key);
    return member && !cJSON_IsString(member)
               ? gt_at_fail(at, key, "it is %s, expected a text", gt_json_type(member))
               : 0;
}

static int custom_check_texts(const struct gt_at *at, const cJSON *object, const char *key)
{
    const cJSON *list = gt_get(object, key), *one;
    int count = 0;
    cJSON_ArrayForEach(one, list) count +=
        cJSON_IsString(one) && *one->valuestring ? 1 : CUSTOM_VALUES_MAX + 1;
    if (list && (!cJSON_IsArray(list) || !count || count > CUSTOM_VALUES_MAX))
        return gt_at_fail(at, key, "expected a list of 1 to %d texts", CUSTOM_VALUES_MAX);
    return 0;
}

/* `at`: the kind, whose pods of several templates are known by their role. */
static int check_template(const struct gt_at *at, const struct gt_at *here, const cJSON *kind,
                          const cJSON *template)
{
    const cJSON *templates = gt_get(kind, "templates"), *other = templates->child;
    const char *label = gt_get_string(gt_get(kind, "labels"), "role"),
               *role = gt_get_string(template, "role");
    const bool each = *gt_get_string(template, "each");
    const char *root = each ? "" : ".spec";
    GT_TRY(check_members_(here, template, "each", "path", "role", "replicas"));
    GT_TRY(custom_check_path(here, template, "each", ".spec"));
    if (!*gt_get_string(template, "path"))
        return gt_at_fail(here, "path", "it is missing: the path of a pod's template");
    GT_TRY(custom_check_path(here, template, "path", root));
    GT_TRY(custom_check_path(here, template, "replicas", root));
    GT_TRY(custom_check_text(here, template, "role"));
    if (*role == '.')
        GT_TRY(custom_check_path(here, template, "role", root));
    if (!*label && (each || other->next))
        return gt_at_fail(at, "labels.role",
                          "it is missing, by which the pods of several templates are known");
    if (*label && !each && !*role)
        return gt_at_fail(here, "role", "it is missing: pods have one in the label %s", label);
    for (unsigned number = 0; other != template; other = other->next, number++)
        if (*role && *role != '.' && strcmp(gt_get_string(other, "role"), role) == 0)
            return gt_at_fail(here, "role", "templates[%u] has %s, too", number, role);
    return 0;
}

static int check_templates(const struct gt_at *at, const cJSON *kind)
{
    const cJSON *templates = gt_get(kind, "templates");
    int count = cJSON_IsArray(templates) ? cJSON_GetArraySize(templates) : 0, number = 0;
    if (!count || count > CUSTOM_TEMPLATES_MAX)
        return gt_at_fail(at, "templates", "expected a list of 1 to %d templates", CUSTOM_TEMPLATES_MAX);
    for (const cJSON *template = gt_first(templates); template; template = template->next) {
        char path[CUSTOM_AT_MAX];
        snprintf(path, sizeof(path), "%s.templates[%d]", at->path, number++);
        GT_TRY(check_template(at, &(struct gt_at){at->source, path, at->err}, kind, template));
    }
    return 0;
}

static int check_ended(const struct gt_at *at, const cJSON *kind)
{
    const cJSON *ended = gt_get(kind, "ended");
    char path[CUSTOM_AT_MAX];
    snprintf(path, sizeof(path), "%s.ended", at->path);
    const struct gt_at below = {at->source, path, at->err};
    if (!ended)
        return 0;
    GT_TRY(check_members_(&below, ended, "conditions", "path", "values"));
    GT_TRY(custom_check_texts(&below, ended, "conditions"));
    GT_TRY(custom_check_texts(&below, ended, "values"));
    GT_TRY(custom_check_path(&below, ended, "path", ".status"));
    if (!ended->child)
        return gt_at_fail(at, "ended", "expected conditions, or path and values");
    if (!gt_get(ended, "path") != !gt_get(ended, "values"))
        return gt_at_fail(&below, "values", "path and values go together");
    return 0;
}

/* The number of that label: that of another kind, or a new one. GT_POD_KEYS: none is given. */
static int custom_read_label(const struct gt_at *at, const cJSON *labels, const char *name,
                             enum gt_pod_key *ret)
{
    const cJSON *label = gt_get(labels, name);
    const char *text = label ? cJSON_GetStringValue(label) : "", *slash = text ? strchr(text, '/') : NULL;
    const char *last = slash ? slash + 1 : text;
    *ret = GT_POD_KEYS;
    if (!label)
        return 0;
    if (!text || !custom_is_name(last, MIXED "_.", CUSTOM_NAME_MAX) ||
        (slash && (slash == text || strspn(text, LOWER ".") != (size_t)(slash - text) || slash - text > 253)))
        return gt_at_fail(at, "labels", "%s is no name of a label", name);
    *ret = gt_pod_key_of(text);
    if (*ret == GT_POD_KEYS)
        *ret = gt_pod_key_add(text);
    return *ret == GT_POD_KEYS ? gt_fail_sys(at->err, ENOMEM, "%s", at->source) : 0;
}

/* `custom`: also the kinds before it. No other kind may have its pods. */
static int custom_read_labels(const struct gt_at *at, const cJSON *labels, struct custom_kind *custom)
{
    static const char *const names[] = {"job", "role", "index"};
    enum gt_pod_key *const keys[] = {&custom->job, &custom->role, &custom->index};
    for (size_t i = 0; i < GT_COUNT(names); i++) {
        GT_TRY(custom_read_label(at, labels, names[i], keys[i]));
        for (size_t other = 0; other < i; other++)
            if (*keys[i] != GT_POD_KEYS && *keys[i] == *keys[other])
                return gt_at_fail(at, "labels", "%s and %s are the same label", names[other], names[i]);
    }
    if (custom->job < GT_KEY_CUSTOM)
        return gt_at_fail(at, "labels.job", "pods of other kinds have %s, too", gt_pod_key_text(custom->job));
    for (const struct custom_kind *other = custom_kinds; other < custom; other++)
        if (custom->job != GT_POD_KEYS && other->job == custom->job)
            return gt_at_fail(at, "labels.job", "the pods of kinds[%u] have %s, too",
                              (unsigned)(other - custom_kinds), gt_pod_key_text(custom->job));
    return 0;
}

static int fill_kind(const struct gt_at *at, const cJSON *says, struct custom_kind *custom)
{
    const char *version = gt_get_string(says, "apiVersion"), *slash = strchr(version, '/'),
               *kind = gt_get_string(says, "kind"), *resource = gt_get_string(says, "resource"),
               *child = gt_get_string(says, "child");
    snprintf(custom->group, sizeof(custom->group), "%.*s", (int)strcspn(version, "/"), version);
    if (!slash || (size_t)(slash - version) >= sizeof(custom->group) ||
        !custom_is_name(custom->group, LOWER ".", sizeof(custom->group)) ||
        !custom_is_name(slash + 1, LOWER, CUSTOM_NAME_MAX))
        return gt_at_fail(at, "apiVersion", "expected GROUP/VERSION");
    if (!custom_is_name(kind, MIXED, CUSTOM_NAME_MAX))
        return gt_at_fail(at, "kind", "expected a kind, for instance Training");
    if (!custom_is_name(resource, LOWER, CUSTOM_NAME_MAX))
        return gt_at_fail(at, "resource", "expected the name of the resource, for instance trainings");
    if (*child && !custom_is_name(child, MIXED, CUSTOM_NAME_MAX))
        return gt_at_fail(at, "child", "expected a kind, for instance Job");
    if (gt_owner_kind_of(version, kind) != GT_JOB_KINDS)
        return gt_at_fail(at, "kind", "%s of %s is known already", kind, version);
    snprintf(custom->version, sizeof(custom->version), "%s", slash + 1);
    GT_TRY(custom_read_labels(at, gt_get(says, "labels"), custom));
    custom->says = says;
    custom->kind = (struct gt_kind){.type = {custom->group, custom->version, resource, kind},
                                    .name = kind,
                                    .child = {*child ? child : NULL, custom->job},
                                    .is_nameless = custom->index == GT_POD_KEYS,
                                    .identify = identify_custom,
                                    .read = read_custom,
                                    .has_stopped = has_custom_stopped};
    return 0;
}

static int custom_check_kind(const struct gt_at *at, const cJSON *says)
{
    char path[CUSTOM_AT_MAX];
    snprintf(path, sizeof(path), "%s.labels", at->path);
    GT_TRY(check_members_(at, says, "apiVersion", "kind", "resource", "child", "labels", "templates",
                          "minimum", "suspend", "ended"));
    if (gt_get(says, "labels"))
        GT_TRY(check_members_((&(struct gt_at){at->source, path, at->err}), gt_get(says, "labels"), "job",
                              "role", "index"));
    GT_TRY(custom_check_text(at, says, "child"));
    if (*gt_get_string(says, "child") && !*gt_get_string(gt_get(says, "labels"), "job"))
        return gt_at_fail(at, "child", "labels.job is missing, by which its objects and pods are known");
    GT_TRY(check_templates(at, says));
    GT_TRY(custom_check_path(at, says, "minimum", ".spec"));
    GT_TRY(custom_check_path(at, says, "suspend", ".spec"));
    return check_ended(at, says);
}

static void forget_kinds(void)
{
    for (unsigned i = 0; i < GT_CUSTOM_KINDS_MAX; i++)
        gt_kind_describe(i, NULL);
}

int gt_custom_kinds_load(const cJSON *document, const char *source, struct gt_err **err)
{
    cJSON *own = cJSON_Duplicate(document, true);
    const struct gt_at top = {source, "", err};
    const cJSON *kinds = gt_get(own, "kinds");
    unsigned count = 0;
    forget_kinds();
    int r = own ? check_members_(&top, own, "kinds") : gt_fail_sys(err, ENOMEM, "%s", source);
    if (r >= 0 && (!cJSON_IsArray(kinds) || cJSON_GetArraySize(kinds) > GT_CUSTOM_KINDS_MAX))
        r = gt_at_fail(&top, "kinds", "expected a list of at most %d kinds", GT_CUSTOM_KINDS_MAX);
    for (const cJSON *says = gt_first(kinds); says; says = says->next) {
        char path[CUSTOM_AT_MAX];
        snprintf(path, sizeof(path), "kinds[%u]", count);
        const struct gt_at at = {source, path, err};
        r = r < 0 ? r : custom_check_kind(&at, says);
        if (r >= 0)
            r = fill_kind(&at, says, &custom_kinds[count]);
        if (r < 0)
            break;
        gt_kind_describe(count, &custom_kinds[count].kind);
        count++;
    }
    if (r < 0)
        forget_kinds();
    cJSON_Delete(custom_document);
    custom_document = own;
    return r;
}
