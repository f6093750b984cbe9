/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set_entry.h"

#include <string.h>

#include "api/meta.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/log.h"

enum { CATCH_UP_MS = 5000 };

static void seen_done(struct gt_apply_set_seen *seen)
{
    free(seen->uid);
    free(seen->version);
    free(seen->have);
    *seen = (struct gt_apply_set_seen){0};
}

static void apply_set_entry_free(struct gt_apply_set_entry *entry)
{
    gt_write_remove(&entry->key);
    seen_done(&entry->there);
    seen_done(&entry->later);
    free(entry->awaited);
    free(entry->desired);
    free(entry);
}

void gt_apply_set_free_entries(struct gt_apply_set *set)
{
    size_t slot = 0;
    for (struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));)
        apply_set_entry_free(entry);
    gt_index_done(&set->entries);
}

struct gt_apply_set_entry *gt_apply_set_find(const struct gt_apply_set *set, const char *name)
{
    return gt_index_item(&set->entries, "", name);
}

struct gt_apply_set_entry *gt_apply_set_find_or_add(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = gt_apply_set_find(set, name);
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

static bool is_over(const struct gt_apply_set_entry *entry)
{
    return entry->there.state == GT_APPLY_SET_ABSENT && !entry->desired && !entry->awaited &&
           !entry->has_later && entry->key.state == GT_WRITE_IDLE;
}

void gt_apply_set_drop_if_over(struct gt_apply_set_entry *entry)
{
    if (!is_over(entry))
        return;
    gt_auto_free struct gt_index_entry *place = gt_index_take(&entry->set->entries, "", entry->name);
    apply_set_entry_free(place->item);
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
        seen_done(&seen);
        return false;
    }
    *ret = seen;
    return true;
}

void gt_apply_set_caught_up(struct gt_apply_set_entry *entry)
{
    free(gt_steal(entry->awaited));
    if (!entry->has_later)
        return;
    seen_done(&entry->there);
    entry->there = entry->later;
    entry->later = (struct gt_apply_set_seen){0};
    entry->has_later = false;
    entry->set->spec.on_change(entry->set->spec.arg);
}

static uint64_t version_digest(const struct gt_apply_set_seen *seen)
{
    return gt_digest_keyed(seen->version ? seen->version : "");
}

/* Whether the watch sent this version while the write was in flight. */
static bool was_observed(const struct gt_apply_set_entry *entry, const struct gt_apply_set_seen *seen)
{
    if (entry->observed_count > GT_APPLY_SET_OBSERVED_MAX)
        return true; /* it may have been one of them */
    for (unsigned i = 0; i < entry->observed_count; i++)
        if (entry->observed[i] == version_digest(seen))
            return true;
    return false;
}

void gt_apply_set_wrote(struct gt_apply_set_entry *entry, const cJSON *object)
{
    struct gt_apply_set_seen seen = {0};
    if (object && !apply_set_entry_see(entry->set, object, &seen))
        return; /* the watch will send it */
    bool has_echo = was_observed(entry, &seen);
    if (entry->observed_count > has_echo)
        entry->set->spec.on_change(entry->set->spec.arg);
    /* Another client's write may have followed, and the watch will not send ours again. */
    if (has_echo) {
        seen_done(&seen);
        gt_apply_set_caught_up(entry);
        return;
    }
    seen_done(&entry->there);
    seen_done(&entry->later);
    free(entry->awaited);
    entry->has_later = false;
    entry->there = seen;
    entry->awaited = strdup(seen.version ? seen.version : "");
    entry->awaited_until = gt_clock_ms() + CATCH_UP_MS;
}

/* Handles an object from the watch; takes over `seen`. */
static void apply_set_entry_observe(struct gt_apply_set_entry *entry, struct gt_apply_set_seen *seen)
{
    struct gt_apply_set *set = entry->set;
    if (entry->key.state == GT_WRITE_RUNNING && entry->observed_count++ < GT_APPLY_SET_OBSERVED_MAX)
        entry->observed[entry->observed_count - 1] = version_digest(seen);
    if (entry->awaited && strcmp(entry->awaited, seen->version ? seen->version : "") != 0 &&
        gt_clock_ms() < entry->awaited_until) {
        seen_done(&entry->later);
        entry->later = *seen;
        entry->has_later = true;
        gt_write_add(&entry->key);
        return;
    }
    /* A state that comes during a write is judged when the answer is there: usually it is the result of the
     * write. */
    bool is_echo = entry->awaited || entry->key.state == GT_WRITE_RUNNING;
    free(gt_steal(entry->awaited));
    seen_done(&entry->later);
    entry->has_later = false;
    seen_done(&entry->there);
    entry->there = *seen;
    gt_write_add(&entry->key);
    if (!is_echo)
        set->spec.on_change(set->spec.arg);
}

void gt_apply_set_observe(struct gt_apply_set *set, const cJSON *object)
{
    struct gt_apply_set_seen seen;
    struct gt_apply_set_entry *entry = gt_apply_set_find_or_add(set, gt_meta_name(object));
    if (entry && apply_set_entry_see(set, object, &seen))
        apply_set_entry_observe(entry, &seen);
}

void gt_apply_set_observe_deleted(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = gt_apply_set_find(set, name);
    struct gt_apply_set_seen seen = {0};
    if (entry)
        apply_set_entry_observe(entry, &seen);
}

void gt_apply_set_observe_all(struct gt_apply_set *set)
{
    bool first = !gt_apply_set_is_synced(set);
    set->synced = true;
    set->stats.absent = false;
    if (first)
        set->spec.on_change(set->spec.arg);
    gt_apply_set_queue_all(set);
}

/* ---- writes ---- */

bool gt_apply_set_is_synced(const struct gt_apply_set *set)
{
    return set->synced && !set->stats.absent;
}

void gt_apply_set_queue_all(struct gt_apply_set *set)
{
    size_t slot = 0;
    if (!set->leads || !set->has_round || !gt_apply_set_is_synced(set))
        return;
    for (struct gt_apply_set_entry *entry; (entry = gt_index_next(&set->entries, &slot));)
        gt_write_add(&entry->key);
}

void gt_apply_set_failed(struct gt_apply_set_entry *entry, const char *why)
{
    struct gt_apply_set *set = entry->set;
    bool again = strncmp(set->stats.error, why, sizeof(set->stats.error) - 1) == 0;
    set->stats.failed++;
    snprintf(set->stats.error, sizeof(set->stats.error), "%s", why);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot write", GT_STR("kind", set->spec.kind),
           GT_STR("name", entry->name), GT_STR("why", set->stats.error));
}
