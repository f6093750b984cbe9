/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/informer.h"

#include <string.h>

#include "api/meta.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/process.h"
#include "base/text.h"
#include "kube/index.h"
#include "kube/internal.h"

struct gt_kube_informer {
    struct gt_kube *kube;
    struct gt_kube_informer_spec spec; /* its strings are ours */
    char *namespace_, *label_selector, *field_selector;
    struct gt_index index;
    uint32_t mark; /* of the list that runs, or was the last */
    struct gt_kube_list *list;
    struct gt_kube_watch *watch;
    struct gt_source *timer;
    struct gt_backoff backoff;
    uint64_t watch_started_ms;
    struct gt_kube_informer_counters counters; /* .watch: of the watches before this one */
    unsigned busy;                             /* callbacks that are running */
    bool dead;
    int failing; /* code of the last error since the last list, which is logged; 0: none */
};

static void free_informer(struct gt_kube_informer *informer)
{
    gt_source_free(informer->timer);
    gt_index_done(&informer->index);
    free(informer->namespace_);
    free(informer->label_selector);
    free(informer->field_selector);
    free(informer);
}
GT_DEFINE_CLEANUP(struct gt_kube_informer *, free_informer)

void gt_kube_informer_free(struct gt_kube_informer *informer)
{
    if (!informer || informer->dead)
        return;
    gt_kube_list_cancel(gt_steal(informer->list));
    gt_kube_watch_free(gt_steal(informer->watch));
    if (informer->busy)
        informer->dead = true;
    else
        free_informer(informer);
}

/* Around everything that calls the user. */
static void informer_enter(struct gt_kube_informer *informer)
{
    informer->busy++;
}

static bool informer_is_gone(struct gt_kube_informer *informer)
{
    if (--informer->busy || !informer->dead)
        return !informer->dead;
    free_informer(informer);
    return false;
}

static void sum_watches(struct gt_kube_watch_counters *counters, const struct gt_kube_watch *watch)
{
    struct gt_kube_watch_counters of;
    if (!watch)
        return;
    gt_kube_watch_counters(watch, &of);
    counters->connects += of.connects;
    counters->events += of.events;
    counters->bookmarks += of.bookmarks;
    counters->errors += of.errors;
    counters->connected = of.connected;
    if (of.last_received_ms)
        counters->last_received_ms = of.last_received_ms;
}

void gt_kube_informer_counters(const struct gt_kube_informer *informer, struct gt_kube_informer_counters *ret)
{
    *ret = informer->counters;
    ret->objects = informer->index.table.count;
    sum_watches(&ret->watch, informer->watch);
}

static void report_delete(struct gt_kube_informer *informer, const struct gt_index_entry *entry,
                          cJSON *object)
{
    informer->counters.deleted++;
    if (informer->spec.on_delete)
        informer->spec.on_delete(informer->spec.arg, entry->key, gt_index_name(entry), object);
}

/* An object as it is now. Called between informer_enter() and informer_is_gone(). */
static void informer_see(struct gt_kube_informer *informer, cJSON *object)
{
    const char *namespace_ = gt_meta_namespace(object), *name = gt_meta_name(object);
    uint64_t uid = gt_digest_keyed(gt_meta_uid(object));
    struct gt_index_entry *entry = *name ? gt_index_find(&informer->index, namespace_, name) : NULL;
    if (entry && entry->uid != uid) {
        struct gt_index_entry *gone = gt_index_take(&informer->index, namespace_, name);
        report_delete(informer, gone, NULL);
        free(gone);
        if (informer->dead)
            return;
        entry = NULL;
    }
    bool is_new = !entry;
    if (is_new)
        entry = *name ? gt_index_add(&informer->index, namespace_, name) : NULL;
    if (!entry) {
        informer->counters.refused++;
        return;
    }
    entry->mark = informer->mark;
    entry->uid = uid;
    if (is_new) {
        informer->counters.added++;
        informer->spec.on_add(informer->spec.arg, object);
    } else {
        informer->counters.updated++;
        informer->spec.on_update(informer->spec.arg, object);
    }
}

static void list_later(struct gt_kube_informer *informer)
{
    gt_source_arm(informer->timer, gt_backoff_next(&informer->backoff, 0, &informer->kube->jitter));
}

static void report_error(struct gt_kube_informer *informer, const struct gt_err *error)
{
    const struct gt_kube_selection *selection = &informer->spec.selection;
    if (!error)
        return;
    if (informer->spec.on_error)
        informer->spec.on_error(informer->spec.arg, error);
    else
        gt_log(informer->failing == gt_err_code(error) ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch",
               GT_STR("resource", selection->resource->plural),
               GT_STR("of", selection->field_selector ? selection->field_selector : ""),
               GT_STR("error", gt_err_text(error)));
    informer->failing = gt_err_code(error);
}

static void informer_on_event(void *arg, enum gt_kube_event_type type, cJSON *object)
{
    struct gt_kube_informer *informer = arg;
    informer_enter(informer);
    if (type == GT_KUBE_DELETED) {
        struct gt_index_entry *gone =
            gt_index_take(&informer->index, gt_meta_namespace(object), gt_meta_name(object));
        if (gone)
            report_delete(informer, gone, object);
        free(gone);
    } else {
        informer_see(informer, object);
    }
    informer_is_gone(informer);
}

/*
 * An object that has become too large to be read. Its earlier state stays, so that what it holds does not
 * count as free. If it was created again with the same name, it is another object. Called between
 * informer_enter() and informer_is_gone().
 */
static void pass_over(struct gt_kube_informer *informer, bool is_gone, const char *namespace_,
                      const char *name, const char *uid)
{
    struct gt_index_entry *entry = gt_index_find(&informer->index, namespace_, name);
    if (!entry)
        return;
    entry->mark = informer->mark;
    if (!is_gone && (!*uid || entry->uid == gt_digest_keyed(uid)))
        return;
    entry = gt_index_take(&informer->index, namespace_, name);
    report_delete(informer, entry, NULL);
    free(entry);
}

static void on_watch_oversize(void *arg, bool deleted, const struct gt_kube_peek *peek)
{
    struct gt_kube_informer *informer = arg;
    informer_enter(informer);
    pass_over(informer, deleted, peek->namespace_, peek->name, peek->uid);
    informer_is_gone(informer);
}

static void on_list_oversize(void *arg, cJSON *object)
{
    struct gt_kube_informer *informer = arg;
    informer_enter(informer);
    pass_over(informer, false, gt_meta_namespace(object), gt_meta_name(object), gt_meta_uid(object));
    informer_is_gone(informer);
}

static void on_watch_error(void *arg, const struct gt_err *error)
{
    struct gt_kube_informer *informer = arg;
    informer_enter(informer);
    report_error(informer, error);
    informer_is_gone(informer);
}

static void on_lost(void *arg, const struct gt_err *error)
{
    struct gt_kube_informer *informer = arg;
    sum_watches(&informer->counters.watch, informer->watch);
    informer->watch = NULL; /* it frees itself */
    /* A watch that lasted a while was no failure. A watch that is lost at once every time must not cause many
     * lists in a short time. */
    if (gt_clock_ms() - informer->watch_started_ms > GT_BACKOFF_MAX_MS)
        informer->backoff.failures = 0;
    informer_enter(informer);
    report_error(informer, error);
    if (informer_is_gone(informer))
        list_later(informer);
}

static void start_watch(struct gt_kube_informer *informer, const char *version)
{
    const struct gt_kube_watch_spec spec = {.selection = informer->spec.selection,
                                            .resource_version = version,
                                            .timeout_s = informer->spec.timeout_s,
                                            .line_max = informer->spec.line_max,
                                            .on_event = informer_on_event,
                                            .on_oversize = on_watch_oversize,
                                            .on_error = on_watch_error,
                                            .on_lost = on_lost,
                                            .arg = informer};
    gt_auto_err struct gt_err *error = NULL;
    informer->watch_started_ms = gt_clock_ms();
    if (gt_kube_watch_start(informer->kube, &spec, &informer->watch, &error) == 0)
        return;
    informer_enter(informer);
    report_error(informer, error);
    if (informer_is_gone(informer))
        list_later(informer);
}

static void informer_on_begin(void *arg)
{
    struct gt_kube_informer *informer = arg;
    informer->mark++;
}

static void informer_on_object(void *arg, cJSON *object)
{
    struct gt_kube_informer *informer = arg;
    informer_enter(informer);
    informer_see(informer, object);
    informer_is_gone(informer);
}

/* Objects that were not in the complete list are deleted. */
static void sweep(struct gt_kube_informer *informer)
{
    struct gt_index_entry *gone;
    size_t slot = 0;
    while (!informer->dead && (gone = gt_index_take_unmarked(&informer->index, informer->mark, &slot))) {
        report_delete(informer, gone, NULL);
        free(gone);
    }
}

static void on_list_done(void *arg, const char *version, const struct gt_err *error)
{
    struct gt_kube_informer *informer = arg;
    informer->list = NULL; /* it frees itself */
    informer_enter(informer);
    if (version) {
        informer->counters.lists++;
        gt_process_trim(); /* pages of a long list lie freed below what stays */
        sweep(informer);
        if (!informer->dead) {
            informer->counters.synced = true;
            informer->failing = 0;
            if (informer->spec.on_synced)
                informer->spec.on_synced(informer->spec.arg);
        }
    } else {
        informer->counters.lists_failed++;
        report_error(informer, error);
    }
    if (!informer_is_gone(informer))
        return;
    if (version)
        start_watch(informer, version);
    else
        list_later(informer);
}

static void informer_on_timer(void *arg)
{
    struct gt_kube_informer *informer = arg;
    const struct gt_kube_list_spec spec = {.selection = informer->spec.selection,
                                           .limit = informer->spec.limit,
                                           .page_max = informer->spec.page_max,
                                           .backoff = &informer->backoff,
                                           .on_begin = informer_on_begin,
                                           .on_object = informer_on_object,
                                           .on_oversize = on_list_oversize,
                                           .on_done = on_list_done,
                                           .arg = informer};
    gt_auto_err struct gt_err *error = NULL;
    if (gt_kube_list_start(informer->kube, &spec, &informer->list, &error) == 0)
        return;
    informer->counters.lists_failed++;
    informer_enter(informer);
    report_error(informer, error);
    if (informer_is_gone(informer))
        list_later(informer);
}

static int informer_keep(char **to, const char **text, struct gt_err **err)
{
    GT_TRY(gt_text_dup(*text, "informer", to, err));
    *text = *to;
    return 0;
}

int gt_kube_informer_start(struct gt_kube *kube, const struct gt_kube_informer_spec *spec,
                           struct gt_kube_informer **ret, struct gt_err **err)
{
    GT_CLEANUP(free_informer) struct gt_kube_informer *informer = calloc(1, sizeof(*informer));
    GT_NEED(informer, err, "informer");
    informer->kube = kube;
    informer->spec = *spec;
    informer->index.max = spec->objects_max ? spec->objects_max : GT_KUBE_OBJECTS_MAX;
    struct gt_kube_selection *selection = &informer->spec.selection;
    gt_auto_free char *path = NULL; /* an invalid path is reported here, not at each request */
    GT_TRY(informer_keep(&informer->namespace_, &selection->namespace_, err));
    GT_TRY(informer_keep(&informer->label_selector, &selection->label_selector, err));
    GT_TRY(informer_keep(&informer->field_selector, &selection->field_selector, err));
    GT_TRY(gt_kube_selection_path(selection, &path, err));
    GT_TRY(gt_loop_add_timer(kube->loop, informer_on_timer, informer, &informer->timer, err));
    gt_source_arm(informer->timer, gt_jitter_below(&kube->jitter, spec->start_jitter_ms));
    *ret = gt_steal(informer);
    return 0;
}
