/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/mirror.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "kube/status.h"
#include "scheduler-ext/companion/mirror_private.h"

enum { CATCH_UP_MS = 5000 };

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct gt_mirror_entry *)a)->name, ((const struct gt_mirror_entry *)b)->name);
}

void gt_mirror_seen_done(struct gt_mirror_seen *seen)
{
    free(seen->uid);
    free(seen->version);
    free(seen->have);
    *seen = (struct gt_mirror_seen){0};
}

static void free_entry(void *item)
{
    struct gt_mirror_entry *entry = item;
    gt_kube_cancel(entry->call);
    gt_mirror_seen_done(&entry->there);
    gt_mirror_seen_done(&entry->later);
    free(entry->awaited);
    free(entry->wish);
    free(entry->name);
    free(entry);
}

static struct gt_mirror_entry *find(const struct gt_mirror *mirror, const char *name)
{
    const struct gt_mirror_entry key = {.name = (char *)(uintptr_t)name};
    void *found = tfind(&key, &mirror->tree, compare);
    return found ? *(struct gt_mirror_entry **)found : NULL;
}

static struct gt_mirror_entry *find_or_add(struct gt_mirror *mirror, const char *name)
{
    struct gt_mirror_entry *entry = find(mirror, name);
    if (entry || !*name || mirror->count == GT_MIRROR_OBJECTS_MAX)
        return entry;
    entry = calloc(1, sizeof(*entry));
    if (!entry || !(entry->name = strdup(name)) || !tsearch(entry, &mirror->tree, compare)) {
        if (entry)
            free_entry(entry);
        return NULL;
    }
    entry->mirror = mirror;
    mirror->count++;
    return entry;
}

static bool is_over(const struct gt_mirror_entry *entry)
{
    return entry->there.state == GT_MIRROR_ABSENT && !entry->wish && !entry->call && !entry->awaited &&
           !entry->has_later && !entry->is_queued;
}

void gt_mirror_drop_if_over(struct gt_mirror_entry *entry)
{
    if (!is_over(entry))
        return;
    tdelete(entry, &entry->mirror->tree, compare);
    entry->mirror->count--;
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
static char *trim(const struct gt_mirror *mirror, const cJSON *object)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(metadata, "labels");
    const cJSON *root = cJSON_GetObjectItemCaseSensitive(object, mirror->spec.root);
    cJSON *kept = cJSON_CreateObject();
    bool whole = kept && (!cJSON_IsObject(labels) || add_reference(kept, "labels", labels)) &&
                 (!cJSON_IsObject(root) || add_reference(kept, mirror->spec.root, root));
    char *text = whole ? cJSON_PrintUnformatted(kept) : NULL;
    cJSON_Delete(kept);
    return text;
}

static bool see(const struct gt_mirror *mirror, const cJSON *object, struct gt_mirror_seen *ret)
{
    const cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(metadata, "labels");
    bool ours = strcmp(gt_kube_text(labels, GT_MIRROR_LABEL), GT_MIRROR_MANAGER) == 0;
    struct gt_mirror_seen seen = {.state = ours ? GT_MIRROR_OURS : GT_MIRROR_FOREIGN,
                                  .uid = strdup(gt_kube_text(metadata, "uid")),
                                  .version = strdup(gt_kube_text(metadata, "resourceVersion")),
                                  .have = trim(mirror, object)};
    if (!seen.uid || !seen.version || !seen.have) {
        gt_mirror_seen_done(&seen);
        return false;
    }
    *ret = seen;
    return true;
}

void gt_mirror_wrote(struct gt_mirror_entry *entry, const cJSON *object)
{
    struct gt_mirror_seen seen = {0};
    if (object && !see(entry->mirror, object, &seen))
        return; /* the watch will tell */
    gt_mirror_seen_done(&entry->there);
    gt_mirror_seen_done(&entry->later);
    free(entry->awaited);
    entry->has_later = false;
    entry->there = seen;
    entry->awaited = strdup(seen.version ? seen.version : "");
    entry->awaited_until = gt_clock_ms() + CATCH_UP_MS;
}

/* What the watch tells; it takes `seen` over. */
static void hear(struct gt_mirror_entry *entry, struct gt_mirror_seen *seen)
{
    struct gt_mirror *mirror = entry->mirror;
    if (entry->awaited && strcmp(entry->awaited, seen->version ? seen->version : "") != 0 &&
        gt_clock_ms() < entry->awaited_until) {
        gt_mirror_seen_done(&entry->later);
        entry->later = *seen;
        entry->has_later = true;
        gt_mirror_queue(entry);
        return;
    }
    bool is_echo = entry->awaited != NULL;
    free(gt_steal(entry->awaited));
    gt_mirror_seen_done(&entry->later);
    entry->has_later = false;
    gt_mirror_seen_done(&entry->there);
    entry->there = *seen;
    gt_mirror_queue(entry);
    if (!is_echo)
        mirror->spec.on_change(mirror->spec.arg);
}

static void on_object(void *arg, cJSON *object)
{
    struct gt_mirror *mirror = arg;
    struct gt_mirror_seen seen;
    struct gt_mirror_entry *entry = find_or_add(mirror, gt_kube_meta(object, "name"));
    if (entry && see(mirror, object, &seen))
        hear(entry, &seen);
}

static void on_gone(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct gt_mirror_entry *entry = find(arg, name);
    struct gt_mirror_seen seen = {0};
    (void)namespace_;
    (void)object;
    if (entry)
        hear(entry, &seen);
}

static void on_synced(void *arg)
{
    struct gt_mirror *mirror = arg;
    bool first = !gt_mirror_is_synced(mirror);
    mirror->synced = true;
    mirror->stats.absent = false;
    if (first)
        mirror->spec.on_change(mirror->spec.arg);
    gt_mirror_kick(mirror, GT_MIRROR_SOON_MS);
}

static void on_error(void *arg, const struct gt_err *error)
{
    struct gt_mirror *mirror = arg;
    const char *why = gt_err_text(error);
    bool is_absent = mirror->spec.is_optional && gt_err_code(error) == ENOENT;
    if (is_absent && !mirror->stats.absent)
        gt_info("the cluster does not know this kind, it is looked for now and then",
                GT_STR("kind", mirror->spec.kind), GT_STR("apiVersion", mirror->spec.api_version));
    if (is_absent && !mirror->stats.absent) {
        mirror->stats.absent = true; /* until it is listed again */
        mirror->spec.on_change(mirror->spec.arg);
    }
    if (is_absent)
        return;
    bool again = strncmp(mirror->stats.error, why, sizeof(mirror->stats.error) - 1) == 0;
    snprintf(mirror->stats.error, sizeof(mirror->stats.error), "%s", why);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch", GT_STR("kind", mirror->spec.kind),
           GT_STR("why", mirror->stats.error));
}

bool gt_mirror_is_synced(const struct gt_mirror *mirror)
{
    return mirror->synced && !mirror->stats.absent;
}

enum gt_mirror_state gt_mirror_look(const struct gt_mirror *mirror, const char *name)
{
    const struct gt_mirror_entry *entry = find(mirror, name);
    return entry ? entry->there.state : GT_MIRROR_ABSENT;
}

struct each {
    gt_mirror_visit *visit;
    void *arg;
};

static void visit_entry(const void *node, VISIT which, void *arg)
{
    const struct each *each = arg;
    const struct gt_mirror_entry *entry = *(const struct gt_mirror_entry *const *)node;
    if ((which == postorder || which == leaf) && entry->there.state != GT_MIRROR_ABSENT)
        each->visit(each->arg, entry->name, entry->there.state, entry->there.have);
}

void gt_mirror_each(const struct gt_mirror *mirror, gt_mirror_visit *visit, void *arg)
{
    struct each each = {visit, arg};
    twalk_r(mirror->tree, visit_entry, &each);
}

/* ---- wishes ---- */

void gt_mirror_begin(struct gt_mirror *mirror)
{
    mirror->round++;
}

bool gt_mirror_want(struct gt_mirror *mirror, const char *name, const char *wish)
{
    struct gt_mirror_entry *entry = find_or_add(mirror, name);
    if (!entry)
        return false;
    if (entry->round == mirror->round)
        return true; /* the first one counts */
    entry->round = mirror->round;
    if (entry->wish && strcmp(entry->wish, wish) == 0)
        return true;
    char *copied = strdup(wish);
    if (!copied)
        return false;
    free(entry->wish);
    entry->wish = copied;
    gt_mirror_queue(entry);
    return true;
}

static void end_entry(const void *node, VISIT which, void *arg)
{
    struct gt_mirror_entry *entry = *(struct gt_mirror_entry *const *)node;
    struct gt_mirror *mirror = arg;
    if ((which != postorder && which != leaf) || entry->round == mirror->round)
        return;
    if (entry->wish || entry->there.state == GT_MIRROR_OURS)
        gt_mirror_queue(entry);
    free(gt_steal(entry->wish));
}

void gt_mirror_end(struct gt_mirror *mirror)
{
    mirror->has_round = true;
    twalk_r(mirror->tree, end_entry, mirror);
    gt_mirror_kick(mirror, GT_MIRROR_SOON_MS);
}

static void cancel_entry(const void *node, VISIT which, void *arg)
{
    struct gt_mirror_entry *entry = *(struct gt_mirror_entry *const *)node;
    (void)arg;
    if ((which == postorder || which == leaf) && entry->call) {
        gt_kube_cancel(gt_steal(entry->call));
        gt_mirror_queue(entry);
    }
}

void gt_mirror_lead(struct gt_mirror *mirror, bool leads)
{
    mirror->leads = leads;
    if (!leads) {
        twalk_r(mirror->tree, cancel_entry, NULL);
        mirror->running = 0;
    }
    gt_mirror_kick(mirror, GT_MIRROR_SOON_MS);
}

/* ---- life ---- */

void gt_mirror_free(struct gt_mirror *mirror)
{
    if (!mirror)
        return;
    gt_kube_informer_free(mirror->informer);
    tdestroy(mirror->tree, free_entry);
    gt_source_free(mirror->timer);
    free(mirror);
}

int gt_mirror_new(const struct gt_mirror_spec *spec, struct gt_mirror **ret, struct gt_err **err)
{
    gt_auto_mirror struct gt_mirror *mirror = calloc(1, sizeof(*mirror));
    if (!mirror)
        return gt_fail_sys(err, ENOMEM, "mirror of %s", spec->kind);
    mirror->spec = *spec;
    mirror->last = &mirror->first;
    mirror->tokens = GT_MIRROR_BURST;
    mirror->tokens_at = gt_clock_ms();
    gt_jitter_seed(&mirror->jitter);
    const struct gt_kube_informer_spec informer = {
        .selection = {.resource = spec->resource,
                      .namespace_ = spec->namespace_,
                      .label_selector = spec->selector},
        .objects_max = GT_MIRROR_OBJECTS_MAX,
        .on_add = on_object,
        .on_update = on_object,
        .on_delete = on_gone,
        .on_synced = on_synced,
        .on_error = on_error,
        .arg = mirror,
    };
    int r = gt_loop_add_timer(spec->loop, gt_mirror_run, mirror, &mirror->timer, err);
    if (r >= 0)
        r = gt_kube_informer_start(spec->kube, &informer, &mirror->informer, err);
    if (r < 0)
        return r;
    *ret = gt_steal(mirror);
    return 0;
}

static void count_entry(const void *node, VISIT which, void *arg)
{
    const struct gt_mirror_entry *entry = *(const struct gt_mirror_entry *const *)node;
    struct gt_mirror_stats *stats = arg;
    if (which != postorder && which != leaf)
        return;
    stats->ours += entry->there.state == GT_MIRROR_OURS;
    stats->foreign += entry->there.state == GT_MIRROR_FOREIGN;
    stats->wished += entry->wish != NULL;
    stats->waiting += entry->call || (entry->is_queued && !entry->awaited);
}

void gt_mirror_stats(const struct gt_mirror *mirror, struct gt_mirror_stats *ret)
{
    *ret = mirror->stats;
    ret->synced = gt_mirror_is_synced(mirror);
    twalk_r(mirror->tree, count_entry, ret);
}
