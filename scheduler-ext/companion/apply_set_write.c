/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/companion/apply_set_entry.h"

enum {
    WRITES_RUNNING_MAX = 8,
    APPLY_BODY_MAX = 16 << 20,
    APPLY_RETRY_MS = 200,
    APPLY_RETRY_MAX_MS = 30000,
    CATCH_UP_MS = 5000
};

void gt_apply_set_entry_free(struct gt_apply_set_entry *entry)
{
    gt_write_remove(&entry->key);
    gt_apply_set_seen_done(&entry->there);
    free(entry->awaited);
    free(entry->desired);
    free(entry);
}

/* Removes an entry whose object neither exists nor is desired. */
static void apply_set_drop_if_over(struct gt_apply_set_entry *entry)
{
    if (entry->there.state != GT_APPLY_SET_ABSENT || entry->desired || entry->awaited ||
        entry->key.state != GT_WRITE_IDLE)
        return;
    gt_auto_free struct gt_index_entry *place = gt_index_take(&entry->set->entries, "", entry->name);
    gt_apply_set_entry_free(place->item);
}

/* Counts and logs a failed write. */
static void apply_set_failed(struct gt_apply_set_entry *entry, const char *why)
{
    struct gt_apply_set *set = entry->set;
    set->stats.failed++;
    gt_log(gt_log_level_of(set->stats.error, sizeof(set->stats.error), why), "cannot write",
           GT_STR("kind", set->spec.kind), GT_STR("name", entry->name), GT_STR("why", set->stats.error));
}

/* What the writer asks for. */
struct apply_set_request {
    struct gt_apply_set_entry *entry;
    struct gt_kube_request *to;
    struct gt_buf *body;
};

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

static int apply_set_write_start(const struct apply_set_request *request, enum gt_kube_verb verb,
                                 bool to_status, char *body, struct gt_err **err)
{
    struct gt_apply_set_entry *entry = request->entry;
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    gt_auto_free char *owned = body;
    if (!owned)
        return no_memory(entry, err);
    gt_buf_puts(request->body, owned);
    *request->to = (struct gt_kube_request){
        .verb = verb,
        .resource = spec->resource,
        .namespace_ = spec->namespace_,
        .name = verb == GT_KUBE_CREATE ? NULL : entry->name,
        .subresource = to_status ? "status" : NULL,
        .field_manager = verb == GT_KUBE_DELETE ? NULL : GT_MANAGER_COMPANION,
        .force = verb == GT_KUBE_APPLY,
    };
    entry->verb = verb;
    entry->applied = 0;
    entry->has_news = false;
    return GT_WRITE_SEND;
}

static int apply_set_write_create(const struct apply_set_request *request, struct gt_err **err)
{
    struct gt_apply_set_entry *entry = request->entry;
    cJSON *labels, *root;
    gt_auto_json cJSON *desired = read_desired(entry, &labels, &root);
    if (!desired)
        return no_memory(entry, err);
    bool is_status = entry->set->spec.is_status;
    return apply_set_write_start(request, GT_KUBE_CREATE, false,
                                 body_of(entry, NULL, labels, is_status ? NULL : root), err);
}

/* An object that was deleted and created again by others in the meantime stays. */
static int erase(const struct apply_set_request *request, struct gt_err **err)
{
    struct gt_apply_set_entry *entry = request->entry;
    gt_auto_buf struct gt_buf body = GT_BUF(4 << 10);
    gt_delete_options_write(entry->there.uid, NULL, &body);
    return apply_set_write_start(request, GT_KUBE_DELETE, false, gt_buf_take(&body), err);
}

/* Removes what others have added. 0: there is nothing to remove. */
static int remove_extra_fields(const struct apply_set_request *request, const cJSON *root, const cJSON *have,
                               struct gt_err **err)
{
    const struct gt_apply_set_entry *entry = request->entry;
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    gt_auto_json cJSON *patch = cJSON_CreateObject();
    cJSON *extras = gt_desired_extras(root, cJSON_GetObjectItemCaseSensitive(have, spec->root));
    if (!extras)
        return 0;
    if (!patch || !cJSON_AddItemToObject(patch, spec->root, extras)) {
        cJSON_Delete(extras);
        return no_memory(entry, err);
    }
    return apply_set_write_start(request, GT_KUBE_MERGE_PATCH, spec->is_status, cJSON_PrintUnformatted(patch),
                                 err);
}

static int update(const struct apply_set_request *request, struct gt_err **err)
{
    struct gt_apply_set_entry *entry = request->entry;
    const struct gt_apply_set_spec *spec = &entry->set->spec;
    cJSON *labels, *root;
    gt_auto_json cJSON *desired = read_desired(entry, &labels, &root);
    gt_auto_json cJSON *have = cJSON_Parse(entry->there.have);
    if (!desired || !have)
        return no_memory(entry, err);
    const cJSON *had = cJSON_GetObjectItemCaseSensitive(have, spec->root);
    bool labels_match = gt_desired_is_met(labels, cJSON_GetObjectItemCaseSensitive(have, "labels"));
    bool root_matches = gt_desired_is_met(root, had);
    int r = spec->is_strict ? remove_extra_fields(request, root, have, err) : 0;
    if (r)
        return r;
    const char *uid = entry->there.uid;
    if (!labels_match || (!root_matches && !spec->is_status)) {
        r = apply_set_write_start(request, GT_KUBE_APPLY, false,
                                  body_of(entry, uid, labels, spec->is_status ? NULL : root), err);
        entry->applied = spec->is_status ? 0 : gt_digest_keyed(entry->desired);
        return r;
    }
    if (root_matches)
        return 0;
    char now[GT_TIME_TEXT_SIZE];
    gt_time_text(time(NULL), now);
    if (!gt_desired_stamp(root, had, now))
        return no_memory(entry, err);
    r = apply_set_write_start(request, GT_KUBE_APPLY, true, body_of(entry, uid, NULL, root), err);
    entry->applied = gt_digest_keyed(entry->desired);
    return r;
}

static int apply_set_write_step(const struct apply_set_request *request, struct gt_err **err)
{
    const struct gt_apply_set_entry *entry = request->entry;
    switch (entry->there.state) {
    case GT_APPLY_SET_ABSENT:
        return entry->desired ? apply_set_write_create(request, err) : GT_WRITE_NOTHING;
    case GT_APPLY_SET_OURS:
        return entry->desired ? update(request, err) : erase(request, err);
    case GT_APPLY_SET_FOREIGN:
        break;
    }
    return GT_WRITE_NOTHING;
}

static int apply_set_write_make(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                                struct gt_err **err)
{
    struct gt_apply_set_entry *entry = key->of;
    const struct gt_apply_set *set = entry->set;
    int r = GT_WRITE_NOTHING;
    if (entry->awaited && gt_clock_ms() >= entry->awaited_until) {
        free(gt_steal(entry->awaited));
        set->spec.on_change(set->spec.arg);
    }
    if (!entry->awaited && set->leads && set->has_round && set->synced && !set->stats.absent)
        r = apply_set_write_step(&(struct apply_set_request){entry, ret, body}, err);
    if (r == GT_WRITE_NOTHING && entry->awaited) {
        key->due_ms = entry->awaited_until;
        return GT_WRITE_LATER;
    }
    if (r == GT_WRITE_NOTHING)
        apply_set_drop_if_over(entry);
    return r;
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
    return !root || gt_desired_is_met(root, cJSON_GetObjectItemCaseSensitive(object, root_name));
}

/* Nothing more is written until the watch has the version that was written. Where it has sent something else
 * meanwhile, that may be an edit after it, and the version does not come again. */
static void await_echo(struct gt_apply_set_entry *entry, const char *version)
{
    struct gt_apply_set *set = entry->set;
    if (strcmp(version, entry->there.version ? entry->there.version : "") == 0)
        return;
    if (entry->has_news) {
        set->spec.on_change(set->spec.arg);
        return;
    }
    entry->awaited = strdup(version);
    entry->awaited_until = gt_clock_ms() + CATCH_UP_MS;
}

static bool apply_set_write_on_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                                       struct gt_kube_answer *answer)
{
    struct gt_apply_set_entry *entry = key->of;
    struct gt_apply_set *set = entry->set;
    bool is_gone = entry->verb == GT_KUBE_DELETE && answer->status == 404;
    if (outcome != GT_WRITE_DONE && !is_gone) {
        apply_set_failed(entry, gt_err_text(answer->error));
        if (entry->has_news)
            set->spec.on_change(set->spec.arg);
        return true;
    }
    bool kept = is_stored(entry, answer->object);
    entry->unkept = kept ? 0 : entry->unkept + 1;
    key->failures = entry->unkept;
    key->due_ms =
        kept ? 0 : gt_clock_ms() + gt_backoff_step(entry->unkept, APPLY_RETRY_MS / 2, APPLY_RETRY_MAX_MS);
    if (kept)
        set->stats.error[0] = '\0';
    set->stats.created += entry->verb == GT_KUBE_CREATE;
    set->stats.deleted += entry->verb == GT_KUBE_DELETE;
    set->stats.applied += entry->verb == GT_KUBE_APPLY || entry->verb == GT_KUBE_MERGE_PATCH;
    await_echo(entry, entry->verb == GT_KUBE_DELETE ? "" : gt_meta_version(answer->object));
    if (!kept)
        apply_set_failed(entry,
                         "the API server does not store all of it: is its custom resource definition that "
                         "of this version?");
    gt_write_add(key);
    return true;
}

void gt_apply_set_open(struct gt_apply_set *set)
{
    set->line = (struct gt_write_line){.name = set->spec.resource->plural,
                                       .order = GT_WRITE_LAST,
                                       .running_max = WRITES_RUNNING_MAX,
                                       .body_max = APPLY_BODY_MAX,
                                       .retry_ms = APPLY_RETRY_MS,
                                       .retry_max_ms = APPLY_RETRY_MAX_MS,
                                       .make = apply_set_write_make,
                                       .answered = apply_set_write_on_written};
    gt_write_open(gt_kube_writer(set->spec.kube), &set->line);
}
