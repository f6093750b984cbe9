/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/names.h"
#include "api/removal.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/companion/apply_set_entry.h"
#include "scheduler-ext/companion/desired.h"

enum { WRITE_DEADLINE_MS = 20000 };

static void apply_set_write_on_written(void *arg, struct gt_kube_answer *answer);

static int apply_set_write_send(struct gt_apply_set_entry *entry, enum gt_kube_verb verb, bool to_status,
                                const char *body, struct gt_err **err)
{
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    const struct gt_kube_request request = {
        .verb = verb,
        .resource = spec->resource,
        .namespace_ = spec->namespace_,
        .name = verb == GT_KUBE_CREATE ? NULL : entry->name,
        .subresource = to_status ? "status" : NULL,
        .body = body,
        .field_manager = verb == GT_KUBE_DELETE ? NULL : GT_MANAGER_COMPANION,
        .force = verb == GT_KUBE_APPLY,
        .deadline_ms = WRITE_DEADLINE_MS,
    };
    entry->verb = verb;
    entry->applied = 0;
    entry->observed_count = 0;
    int r =
        gt_kube_start(entry->set->spec.kube, &request, apply_set_write_on_written, entry, &entry->call, err);
    return r < 0 ? r : 1;
}

/* {"apiVersion","kind","metadata":{"name"...},ROOT}; `labels` and `root` may be NULL, they are copied. */
static char *body_of(const struct gt_apply_set_entry *entry, const char *uid, const cJSON *labels,
                     const cJSON *root)
{
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    gt_auto_json cJSON *object = cJSON_CreateObject();
    if (!cJSON_AddStringToObject(object, "apiVersion", spec->api_version) ||
        !cJSON_AddStringToObject(object, "kind", spec->kind))
        return NULL;
    cJSON *metadata = cJSON_AddObjectToObject(object, "metadata");
    bool whole = cJSON_AddStringToObject(metadata, "name", entry->name) != NULL;
    if (spec->namespace_)
        whole = whole && cJSON_AddStringToObject(metadata, "namespace", spec->namespace_);
    if (uid && *uid)
        whole = whole && cJSON_AddStringToObject(metadata, "uid", uid);
    if (labels)
        whole = whole && cJSON_AddItemReferenceToObject(metadata, "labels", (cJSON *)(uintptr_t)labels);
    if (root)
        whole = whole && cJSON_AddItemReferenceToObject(object, spec->root, (cJSON *)(uintptr_t)root);
    return whole ? cJSON_PrintUnformatted(object) : NULL;
}

/* The desired state with our label; `*ret_root` is a member of it. */
static cJSON *read_desired(const struct gt_apply_set_entry *entry, cJSON **ret_labels, cJSON **ret_root)
{
    gt_auto_json cJSON *desired = cJSON_Parse(entry->desired);
    cJSON *labels = cJSON_GetObjectItemCaseSensitive(desired, "labels");
    if (!labels)
        labels = cJSON_AddObjectToObject(desired, "labels");
    *ret_root = cJSON_GetObjectItemCaseSensitive(desired, entry->set->spec.root);
    *ret_labels = labels;
    if (!*ret_root || !cJSON_AddStringToObject(labels, GT_LABEL_MANAGED_BY, GT_MANAGER_COMPANION))
        return NULL;
    return gt_steal(desired);
}

static int no_memory(const struct gt_apply_set_entry *entry, struct gt_err **err)
{
    return gt_fail_sys(err, ENOMEM, "%s %s", entry->set->spec.kind, entry->name);
}

static int apply_set_write_start(struct gt_apply_set_entry *entry, enum gt_kube_verb verb, bool to_status,
                                 char *body, struct gt_err **err)
{
    gt_auto_free char *owned = body;
    return owned ? apply_set_write_send(entry, verb, to_status, owned, err) : no_memory(entry, err);
}

static int apply_set_write_create(struct gt_apply_set_entry *entry, struct gt_err **err)
{
    cJSON *labels, *root;
    gt_auto_json cJSON *desired = read_desired(entry, &labels, &root);
    if (!desired)
        return no_memory(entry, err);
    bool is_status = entry->set->spec.is_status;
    return apply_set_write_start(entry, GT_KUBE_CREATE, false,
                                 body_of(entry, NULL, labels, is_status ? NULL : root), err);
}

/* An object that was deleted and created again by others in the meantime stays. */
static int erase(struct gt_apply_set_entry *entry, struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(4 << 10);
    gt_delete_options_write(entry->there.uid, NULL, &body);
    return apply_set_write_start(entry, GT_KUBE_DELETE, false, gt_buf_take(&body), err);
}

/* Removes what others have added. 0: there is nothing to remove. */
static int remove_extra_fields(struct gt_apply_set_entry *entry, const cJSON *root, const cJSON *have,
                               struct gt_err **err)
{
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    gt_auto_json cJSON *patch = cJSON_CreateObject();
    cJSON *extras = gt_desired_extras(root, cJSON_GetObjectItemCaseSensitive(have, spec->root));
    if (!extras)
        return 0;
    if (!patch || !cJSON_AddItemToObject(patch, spec->root, extras)) {
        cJSON_Delete(extras);
        return no_memory(entry, err);
    }
    return apply_set_write_start(entry, GT_KUBE_MERGE_PATCH, spec->is_status, cJSON_PrintUnformatted(patch),
                                 err);
}

static int update(struct gt_apply_set_entry *entry, struct gt_err **err)
{
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    cJSON *labels, *root;
    gt_auto_json cJSON *desired = read_desired(entry, &labels, &root);
    gt_auto_json cJSON *have = cJSON_Parse(entry->there.have);
    if (!desired || !have)
        return no_memory(entry, err);
    const cJSON *had = cJSON_GetObjectItemCaseSensitive(have, spec->root);
    bool labels_hold = gt_desired_holds(labels, cJSON_GetObjectItemCaseSensitive(have, "labels"));
    bool root_holds = gt_desired_holds(root, had);
    int r = spec->is_strict ? remove_extra_fields(entry, root, have, err) : 0;
    if (r)
        return r;
    const char *uid = entry->there.uid;
    if (!labels_hold || (!root_holds && !spec->is_status)) {
        r = apply_set_write_start(entry, GT_KUBE_APPLY, false,
                                  body_of(entry, uid, labels, spec->is_status ? NULL : root), err);
        entry->applied = spec->is_status ? 0 : gt_digest_keyed(entry->desired);
        return r;
    }
    if (root_holds)
        return 0;
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(time(NULL), now);
    if (!gt_desired_stamp(root, had, now))
        return no_memory(entry, err);
    r = apply_set_write_start(entry, GT_KUBE_APPLY, true, body_of(entry, uid, NULL, root), err);
    entry->applied = gt_digest_keyed(entry->desired);
    return r;
}

int gt_apply_set_step(struct gt_apply_set_entry *entry, struct gt_err **err)
{
    switch (entry->there.state) {
    case GT_APPLY_SET_ABSENT:
        return entry->desired ? apply_set_write_create(entry, err) : 0;
    case GT_APPLY_SET_OURS:
        return entry->desired ? update(entry, err) : erase(entry, err);
    case GT_APPLY_SET_FOREIGN:
        break;
    }
    return 0;
}

static void apply_set_write_count(struct gt_apply_set_stats *stats, enum gt_kube_verb verb)
{
    stats->created += verb == GT_KUBE_CREATE;
    stats->deleted += verb == GT_KUBE_DELETE;
    stats->applied += verb == GT_KUBE_APPLY || verb == GT_KUBE_MERGE_PATCH;
}

/* Whether the server has kept what was applied: it drops fields that its CustomResourceDefinition does not
 * have. */
static bool is_stored(const struct gt_apply_set_entry *entry, const cJSON *object)
{
    const char *root_name = entry->set->spec.root;
    if (!entry->applied || entry->applied != gt_digest_keyed(entry->desired ? entry->desired : ""))
        return true;
    gt_auto_json cJSON *desired = cJSON_Parse(entry->desired);
    const cJSON *root = cJSON_GetObjectItemCaseSensitive(desired, root_name);
    return !root || gt_desired_holds(root, cJSON_GetObjectItemCaseSensitive(object, root_name));
}

static void apply_set_write_on_written(void *arg, struct gt_kube_answer *answer)
{
    struct gt_apply_set_entry *entry = arg;
    struct gt_apply_set *set = entry->set;
    entry->call = NULL;
    set->running--;
    bool is_gone = entry->verb == GT_KUBE_DELETE && answer->status == 404;
    if (!answer->error || is_gone) {
        bool kept = is_stored(entry, answer->object);
        if (kept) {
            entry->backoff.failures = 0;
            set->stats.error[0] = '\0';
        }
        apply_set_write_count(&set->stats, entry->verb);
        gt_apply_set_wrote(entry, entry->verb == GT_KUBE_DELETE ? NULL : answer->object);
        if (!kept)
            gt_apply_set_failed(
                entry, "the API server does not store all of it: is its custom resource definition that "
                       "of this version?");
        if (set->spec.reports_own)
            set->spec.on_change(set->spec.arg);
    } else {
        gt_apply_set_failed(entry, gt_err_text(answer->error));
        if (entry->observed_count > 0)
            set->spec.on_change(set->spec.arg);
    }
    gt_apply_set_queue(entry);
}
