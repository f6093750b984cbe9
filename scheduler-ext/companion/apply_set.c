/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set.h"

#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "base/log.h"
#include "scheduler-ext/companion/apply_set_entry.h"

static struct gt_apply_set_entry *apply_set_find(const struct gt_apply_set *set, const char *name)
{
    return gt_index_item(&set->entries, "", name);
}

static struct gt_apply_set_entry *apply_set_find_or_add(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = apply_set_find(set, name);
    if (entry || !*name || !(entry = calloc(1, sizeof(*entry))))
        return entry;
    struct gt_index_entry *place = gt_index_add(&set->entries, "", name);
    if (!place) {
        free(entry);
        return NULL;
    }
    entry->set = set;
    entry->name = gt_index_name(place);
    entry->key = (struct gt_write_key){.line = &set->line, .of = entry};
    return place->item = entry;
}

/* ---- existing objects ---- */

/* Adds the contents of a foreign object of the same name; false without memory. */
static bool add_reference(cJSON *to, const char *name, const cJSON *object)
{
    cJSON *reference = cJSON_CreateObjectReference(object->child);
    if (reference && cJSON_AddItemToObject(to, name, reference))
        return true;
    cJSON_Delete(reference);
    return false;
}

/* The labels and the desired member as a text. NULL: no memory. */
static char *trim(const struct gt_apply_set *set, const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(metadata, "labels");
    const cJSON *root = cJSON_GetObjectItemCaseSensitive(object, set->spec.root);
    cJSON *kept = cJSON_CreateObject();
    bool whole = kept && (!cJSON_IsObject(labels) || add_reference(kept, "labels", labels)) &&
                 (!cJSON_IsObject(root) || add_reference(kept, set->spec.root, root));
    char *text = whole ? cJSON_PrintUnformatted(kept) : NULL;
    cJSON_Delete(kept);
    return text;
}

static bool apply_set_entry_see(const struct gt_apply_set *set, const cJSON *object,
                                struct gt_apply_set_seen *ret)
{
    bool ours = gt_meta_is_companions(object);
    struct gt_apply_set_seen seen = {.state = ours ? GT_APPLY_SET_OURS : GT_APPLY_SET_FOREIGN,
                                     .uid = strdup(gt_meta_uid(object)),
                                     .version = strdup(gt_meta_version(object)),
                                     .have = trim(set, object)};
    if (!seen.uid || !seen.version || !seen.have) {
        gt_apply_set_seen_done(&seen);
        return false;
    }
    *ret = seen;
    return true;
}

/* Takes over `seen`. What comes during a write, or before the watch has it, is usually its result. */
static void apply_set_entry_observe(struct gt_apply_set_entry *entry, struct gt_apply_set_seen *seen)
{
    struct gt_apply_set *set = entry->set;
    bool is_echo = entry->awaited || entry->key.state == GT_WRITE_RUNNING;
    entry->has_news = true;
    gt_apply_set_seen_done(&entry->there);
    entry->there = *seen;
    if (entry->awaited && strcmp(entry->awaited, seen->version ? seen->version : "") == 0)
        free(gt_steal(entry->awaited));
    gt_write_add(&entry->key);
    if (!is_echo || set->spec.reports_own)
        set->spec.on_change(set->spec.arg);
}

void gt_apply_set_observe(struct gt_apply_set *set, const cJSON *object)
{
    struct gt_apply_set_seen seen;
    struct gt_apply_set_entry *entry = apply_set_find_or_add(set, gt_meta_name(object));
    if (entry && apply_set_entry_see(set, object, &seen))
        apply_set_entry_observe(entry, &seen);
}

void gt_apply_set_observe_deleted(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = apply_set_find(set, name);
    struct gt_apply_set_seen seen = {0};
    if (entry)
        apply_set_entry_observe(entry, &seen);
}

bool gt_apply_set_is_synced(const struct gt_apply_set *set)
{
    return set->synced && !set->stats.absent;
}

/* Makes the writes that are needed, once more for all entries where the set may write now. */
static void apply_set_queue_all(struct gt_apply_set *set)
{
    size_t slot = 0;
    if (!set->leads || !set->has_round || !gt_apply_set_is_synced(set))
        return;
    for (struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));)
        gt_write_add(&entry->key);
}

void gt_apply_set_observe_all(struct gt_apply_set *set)
{
    bool first = !gt_apply_set_is_synced(set);
    set->synced = true;
    set->stats.absent = false;
    if (first)
        set->spec.on_change(set->spec.arg);
    apply_set_queue_all(set);
}

/* ---- the watch ---- */

static void apply_set_on_object(void *arg, cJSON *object)
{
    gt_apply_set_observe(arg, object);
}

static void apply_set_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)namespace_;
    (void)object;
    gt_apply_set_observe_deleted(arg, name);
}

static void apply_set_on_synced(void *arg)
{
    gt_apply_set_observe_all(arg);
}

static void apply_set_on_error(void *arg, const struct gt_err *error)
{
    struct gt_apply_set *set = arg;
    const char *why = gt_err_text(error);
    bool is_absent = set->spec.is_optional && gt_err_code(error) == ENOENT;
    if (is_absent && !set->stats.absent)
        gt_info("the cluster does not know this kind, it is looked up again now and then",
                GT_STR("kind", set->spec.kind), GT_STR("apiVersion", set->spec.api_version));
    if (is_absent && !set->stats.absent) {
        set->stats.absent = true; /* until it is listed again */
        set->spec.on_change(set->spec.arg);
    }
    if (is_absent)
        return;
    gt_log(gt_log_level_of(set->stats.error, sizeof(set->stats.error), why), "cannot watch",
           GT_STR("kind", set->spec.kind), GT_STR("why", set->stats.error));
}

enum gt_apply_set_state gt_apply_set_state_of(const struct gt_apply_set *set, const char *name)
{
    const struct gt_apply_set_entry *entry = apply_set_find(set, name);
    return entry ? entry->there.state : GT_APPLY_SET_ABSENT;
}

void gt_apply_set_each(const struct gt_apply_set *set, gt_apply_set_visit *visit, void *arg)
{
    size_t slot = 0;
    for (const struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));)
        if (entry->there.state != GT_APPLY_SET_ABSENT)
            visit(arg, entry->name, entry->there.state, entry->there.have);
}

/* ---- desired states ---- */

void gt_apply_set_begin(struct gt_apply_set *set)
{
    set->round++;
}

bool gt_apply_set_want(struct gt_apply_set *set, const char *name, const char *desired)
{
    struct gt_apply_set_entry *entry = apply_set_find_or_add(set, name);
    if (!entry)
        return false;
    if (entry->round == set->round)
        return true; /* the first one counts */
    entry->round = set->round;
    if (entry->desired && strcmp(entry->desired, desired) == 0)
        return true;
    char *copied = strdup(desired);
    if (!copied)
        return false;
    free(entry->desired);
    entry->desired = copied;
    gt_write_add(&entry->key);
    return true;
}

void gt_apply_set_end(struct gt_apply_set *set)
{
    bool first = !set->has_round;
    size_t slot = 0;
    set->has_round = true;
    for (struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));) {
        if (entry->round == set->round)
            continue;
        if (entry->desired || entry->there.state == GT_APPLY_SET_OURS)
            gt_write_add(&entry->key);
        free(gt_steal(entry->desired));
    }
    if (first)
        apply_set_queue_all(set);
}

void gt_apply_set_lead(struct gt_apply_set *set, bool leads)
{
    set->leads = leads;
    size_t slot = 0;
    for (struct gt_apply_set_entry *entry; !leads && (entry = gt_index_next(&set->entries, &slot));) {
        gt_write_remove(&entry->key);
        gt_write_add(&entry->key); /* it may still wait for the watch */
    }
    apply_set_queue_all(set);
}

/* ---- creation and end ---- */

void gt_apply_set_free(struct gt_apply_set *set)
{
    if (!set)
        return;
    size_t slot = 0;
    gt_kube_informer_free(set->informer);
    for (struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));)
        gt_apply_set_entry_free(entry);
    gt_index_done(&set->entries);
    gt_write_close(&set->line);
    free(set);
}

int gt_apply_set_new(const struct gt_apply_set_spec *spec, struct gt_apply_set **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_apply_set_free) struct gt_apply_set *set = calloc(1, sizeof(*set));
    GT_NEED(set, err, "set of %s", spec->kind);
    set->spec = *spec;
    set->entries.max = GT_APPLY_SET_OBJECTS_MAX;
    gt_apply_set_open(set);
    const struct gt_kube_informer_spec informer = {
        .selection = {.resource = spec->resource,
                      .namespace_ = spec->namespace_,
                      .label_selector = spec->selector},
        .objects_max = GT_APPLY_SET_OBJECTS_MAX,
        .on_add = apply_set_on_object,
        .on_update = apply_set_on_object,
        .on_delete = apply_set_on_deleted,
        .on_synced = apply_set_on_synced,
        .on_error = apply_set_on_error,
        .arg = set,
    };
    if (!spec->no_informer)
        GT_TRY(gt_kube_informer_start(spec->kube, &informer, &set->informer, err));
    *ret = gt_steal(set);
    return 0;
}

void gt_apply_set_stats(const struct gt_apply_set *set, struct gt_apply_set_stats *ret)
{
    size_t slot = 0;
    *ret = set->stats;
    ret->synced = gt_apply_set_is_synced(set);
    for (const struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));) {
        ret->ours += entry->there.state == GT_APPLY_SET_OURS;
        ret->foreign += entry->there.state == GT_APPLY_SET_FOREIGN;
        ret->desired += entry->desired != NULL;
        ret->waiting += entry->key.state != GT_WRITE_IDLE && !entry->awaited;
    }
}
