/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "base/clock.h"
#include "base/digest.h"
#include "base/json_get.h"
#include "base/log.h"
#include "kube/status.h"
#include "scheduler-ext/companion/apply_set_private.h"

enum { CATCH_UP_MS = 5000 };

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct gt_apply_set_entry *)a)->name, ((const struct gt_apply_set_entry *)b)->name);
}

static void seen_done(struct gt_apply_set_seen *seen)
{
    free(seen->uid);
    free(seen->version);
    free(seen->have);
    *seen = (struct gt_apply_set_seen){0};
}

static void free_entry(void *item)
{
    struct gt_apply_set_entry *entry = item;
    gt_kube_cancel(entry->call);
    seen_done(&entry->there);
    seen_done(&entry->later);
    free(entry->awaited);
    free(entry->desired);
    free(entry->name);
    free(entry);
}

static struct gt_apply_set_entry *find(const struct gt_apply_set *set, const char *name)
{
    const struct gt_apply_set_entry key = {.name = (char *)(uintptr_t)name};
    void *found = tfind(&key, &set->tree, compare);
    return found ? *(struct gt_apply_set_entry **)found : NULL;
}

static struct gt_apply_set_entry *find_or_add(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = find(set, name);
    if (entry || !*name || set->count == GT_APPLY_SET_OBJECTS_MAX)
        return entry;
    entry = calloc(1, sizeof(*entry));
    if (!entry || !(entry->name = strdup(name)) || !tsearch(entry, &set->tree, compare)) {
        if (entry)
            free_entry(entry);
        return NULL;
    }
    entry->set = set;
    set->count++;
    return entry;
}

static bool is_over(const struct gt_apply_set_entry *entry)
{
    return entry->there.state == GT_APPLY_SET_ABSENT && !entry->desired && !entry->call && !entry->awaited &&
           !entry->has_later && !entry->is_queued;
}

void gt_apply_set_drop_if_over(struct gt_apply_set_entry *entry)
{
    if (!is_over(entry))
        return;
    tdelete(entry, &entry->set->tree, compare);
    entry->set->count--;
    free_entry(entry);
}

/* ---- what is there ---- */

/* Adds what an object of somebody else's holds, under the same name; false without memory. */
static bool add_reference(cJSON *to, const char *name, const cJSON *object)
{
    cJSON *reference = cJSON_CreateObjectReference(object->child);
    if (reference && cJSON_AddItemToObject(to, name, reference))
        return true;
    cJSON_Delete(reference);
    return false;
}

/* The labels and the member that matters, as a text. NULL: no memory. */
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

static bool see(const struct gt_apply_set *set, const cJSON *object, struct gt_apply_set_seen *ret)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(metadata, "labels");
    bool ours = strcmp(gt_get_string(labels, GT_LABEL_MANAGED_BY), GT_MANAGER_COMPANION) == 0;
    struct gt_apply_set_seen seen = {.state = ours ? GT_APPLY_SET_OURS : GT_APPLY_SET_FOREIGN,
                                     .uid = strdup(gt_get_string(metadata, "uid")),
                                     .version = strdup(gt_get_string(metadata, "resourceVersion")),
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

/* Whether the watch has told of this version while the write was on its way. */
static bool was_heard(const struct gt_apply_set_entry *entry, const struct gt_apply_set_seen *seen)
{
    if (entry->heard_count > GT_APPLY_SET_HEARD_MAX)
        return true; /* it may have been one of them */
    for (unsigned i = 0; i < entry->heard_count; i++)
        if (entry->heard[i] == version_digest(seen))
            return true;
    return false;
}

void gt_apply_set_wrote(struct gt_apply_set_entry *entry, const cJSON *object)
{
    struct gt_apply_set_seen seen = {0};
    if (object && !see(entry->set, object, &seen))
        return; /* the watch will tell */
    /* Somebody else's write may have followed, and nobody tells of that again. */
    if (was_heard(entry, &seen)) {
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

/* What the watch tells; it takes `seen` over. */
static void hear(struct gt_apply_set_entry *entry, struct gt_apply_set_seen *seen)
{
    struct gt_apply_set *set = entry->set;
    if (entry->call && entry->heard_count++ < GT_APPLY_SET_HEARD_MAX)
        entry->heard[entry->heard_count - 1] = version_digest(seen);
    if (entry->awaited && strcmp(entry->awaited, seen->version ? seen->version : "") != 0 &&
        gt_clock_ms() < entry->awaited_until) {
        seen_done(&entry->later);
        entry->later = *seen;
        entry->has_later = true;
        gt_apply_set_queue(entry);
        return;
    }
    bool is_echo = entry->awaited != NULL;
    free(gt_steal(entry->awaited));
    seen_done(&entry->later);
    entry->has_later = false;
    seen_done(&entry->there);
    entry->there = *seen;
    gt_apply_set_queue(entry);
    if (!is_echo)
        set->spec.on_change(set->spec.arg);
}

void gt_apply_set_saw(struct gt_apply_set *set, const cJSON *object)
{
    struct gt_apply_set_seen seen;
    struct gt_apply_set_entry *entry = find_or_add(set, gt_kube_meta(object, "name"));
    if (entry && see(set, object, &seen))
        hear(entry, &seen);
}

void gt_apply_set_saw_gone(struct gt_apply_set *set, const char *name)
{
    struct gt_apply_set_entry *entry = find(set, name);
    struct gt_apply_set_seen seen = {0};
    if (entry)
        hear(entry, &seen);
}

void gt_apply_set_saw_all(struct gt_apply_set *set)
{
    bool first = !gt_apply_set_is_synced(set);
    set->synced = true;
    set->stats.absent = false;
    if (first)
        set->spec.on_change(set->spec.arg);
    gt_apply_set_kick(set, GT_APPLY_SET_SOON_MS);
}

static void on_object(void *arg, cJSON *object)
{
    gt_apply_set_saw(arg, object);
}

static void on_gone(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)namespace_;
    (void)object;
    gt_apply_set_saw_gone(arg, name);
}

static void on_synced(void *arg)
{
    gt_apply_set_saw_all(arg);
}

static void on_error(void *arg, const struct gt_err *error)
{
    struct gt_apply_set *set = arg;
    const char *why = gt_err_text(error);
    bool is_absent = set->spec.is_optional && gt_err_code(error) == ENOENT;
    if (is_absent && !set->stats.absent)
        gt_info("the cluster does not know this kind, it is looked for now and then",
                GT_STR("kind", set->spec.kind), GT_STR("apiVersion", set->spec.api_version));
    if (is_absent && !set->stats.absent) {
        set->stats.absent = true; /* until it is listed again */
        set->spec.on_change(set->spec.arg);
    }
    if (is_absent)
        return;
    bool again = strncmp(set->stats.error, why, sizeof(set->stats.error) - 1) == 0;
    snprintf(set->stats.error, sizeof(set->stats.error), "%s", why);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch", GT_STR("kind", set->spec.kind),
           GT_STR("why", set->stats.error));
}

bool gt_apply_set_is_synced(const struct gt_apply_set *set)
{
    return set->synced && !set->stats.absent;
}

enum gt_apply_set_state gt_apply_set_state_of(const struct gt_apply_set *set, const char *name)
{
    const struct gt_apply_set_entry *entry = find(set, name);
    return entry ? entry->there.state : GT_APPLY_SET_ABSENT;
}

struct each {
    gt_apply_set_visit *visit;
    void *arg;
};

static void visit_entry(const void *node, VISIT which, void *arg)
{
    const struct each *each = arg;
    const struct gt_apply_set_entry *entry = *(const struct gt_apply_set_entry *const *)node;
    if ((which == postorder || which == leaf) && entry->there.state != GT_APPLY_SET_ABSENT)
        each->visit(each->arg, entry->name, entry->there.state, entry->there.have);
}

void gt_apply_set_each(const struct gt_apply_set *set, gt_apply_set_visit *visit, void *arg)
{
    struct each each = {visit, arg};
    twalk_r(set->tree, visit_entry, &each);
}

/* ---- desired states ---- */

void gt_apply_set_begin(struct gt_apply_set *set)
{
    set->round++;
}

bool gt_apply_set_want(struct gt_apply_set *set, const char *name, const char *desired)
{
    struct gt_apply_set_entry *entry = find_or_add(set, name);
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
    gt_apply_set_queue(entry);
    return true;
}

static void end_entry(const void *node, VISIT which, void *arg)
{
    struct gt_apply_set_entry *entry = *(struct gt_apply_set_entry *const *)node;
    struct gt_apply_set *set = arg;
    if ((which != postorder && which != leaf) || entry->round == set->round)
        return;
    if (entry->desired || entry->there.state == GT_APPLY_SET_OURS)
        gt_apply_set_queue(entry);
    free(gt_steal(entry->desired));
}

void gt_apply_set_end(struct gt_apply_set *set)
{
    set->has_round = true;
    twalk_r(set->tree, end_entry, set);
    gt_apply_set_kick(set, GT_APPLY_SET_SOON_MS);
}

static void cancel_entry(const void *node, VISIT which, void *arg)
{
    struct gt_apply_set_entry *entry = *(struct gt_apply_set_entry *const *)node;
    (void)arg;
    if ((which == postorder || which == leaf) && entry->call) {
        gt_kube_cancel(gt_steal(entry->call));
        gt_apply_set_queue(entry);
    }
}

void gt_apply_set_lead(struct gt_apply_set *set, bool leads)
{
    set->leads = leads;
    if (!leads) {
        twalk_r(set->tree, cancel_entry, NULL);
        set->running = 0;
    }
    gt_apply_set_kick(set, GT_APPLY_SET_SOON_MS);
}

/* ---- life ---- */

void gt_apply_set_free(struct gt_apply_set *set)
{
    if (!set)
        return;
    gt_kube_informer_free(set->informer);
    tdestroy(set->tree, free_entry);
    gt_source_free(set->timer);
    free(set);
}

int gt_apply_set_new(const struct gt_apply_set_spec *spec, struct gt_apply_set **ret, struct gt_err **err)
{
    gt_auto_apply_set struct gt_apply_set *set = calloc(1, sizeof(*set));
    if (!set)
        return gt_fail_sys(err, ENOMEM, "set of %s", spec->kind);
    set->spec = *spec;
    set->last = &set->first;
    set->tokens = GT_APPLY_SET_BURST;
    set->tokens_at = gt_clock_ms();
    gt_jitter_seed(&set->jitter);
    const struct gt_kube_informer_spec informer = {
        .selection = {.resource = spec->resource,
                      .namespace_ = spec->namespace_,
                      .label_selector = spec->selector},
        .objects_max = GT_APPLY_SET_OBJECTS_MAX,
        .on_add = on_object,
        .on_update = on_object,
        .on_delete = on_gone,
        .on_synced = on_synced,
        .on_error = on_error,
        .arg = set,
    };
    int r = gt_loop_add_timer(spec->loop, gt_apply_set_run, set, &set->timer, err);
    if (r >= 0 && !spec->is_told)
        r = gt_kube_informer_start(spec->kube, &informer, &set->informer, err);
    if (r < 0)
        return r;
    *ret = gt_steal(set);
    return 0;
}

static void count_entry(const void *node, VISIT which, void *arg)
{
    const struct gt_apply_set_entry *entry = *(const struct gt_apply_set_entry *const *)node;
    struct gt_apply_set_stats *stats = arg;
    if (which != postorder && which != leaf)
        return;
    stats->ours += entry->there.state == GT_APPLY_SET_OURS;
    stats->foreign += entry->there.state == GT_APPLY_SET_FOREIGN;
    stats->desired += entry->desired != NULL;
    stats->waiting += entry->call || (entry->is_queued && !entry->awaited);
}

void gt_apply_set_stats(const struct gt_apply_set *set, struct gt_apply_set_stats *ret)
{
    *ret = set->stats;
    ret->synced = gt_apply_set_is_synced(set);
    twalk_r(set->tree, count_entry, ret);
}
