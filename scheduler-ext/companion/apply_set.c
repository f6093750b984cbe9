/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set.h"

#include <errno.h>
#include <search.h>
#include <string.h>

#include "base/log.h"
#include "scheduler-ext/companion/apply_set_entry.h"

/* ---- existing objects ---- */

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
    bool again = strncmp(set->stats.error, why, sizeof(set->stats.error) - 1) == 0;
    snprintf(set->stats.error, sizeof(set->stats.error), "%s", why);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch", GT_STR("kind", set->spec.kind),
           GT_STR("why", set->stats.error));
}

enum gt_apply_set_state gt_apply_set_state_of(const struct gt_apply_set *set, const char *name)
{
    const struct gt_apply_set_entry *entry = gt_apply_set_find(set, name);
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
    struct gt_apply_set_entry *entry = gt_apply_set_find_or_add(set, name);
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

static void end_entry(const void *node, VISIT which, void *arg)
{
    struct gt_apply_set_entry *entry = *(struct gt_apply_set_entry *const *)node;
    struct gt_apply_set *set = arg;
    if ((which != postorder && which != leaf) || entry->round == set->round)
        return;
    if (entry->desired || entry->there.state == GT_APPLY_SET_OURS)
        gt_write_add(&entry->key);
    free(gt_steal(entry->desired));
}

void gt_apply_set_end(struct gt_apply_set *set)
{
    bool first = !set->has_round;
    set->has_round = true;
    twalk_r(set->tree, end_entry, set);
    if (first)
        gt_apply_set_queue_all(set);
}

static void cancel_entry(const void *node, VISIT which, void *arg)
{
    struct gt_apply_set_entry *entry = *(struct gt_apply_set_entry *const *)node;
    (void)arg;
    if (which != postorder && which != leaf)
        return;
    gt_write_remove(&entry->key);
    gt_write_add(&entry->key); /* it may still wait for the watch */
}

void gt_apply_set_lead(struct gt_apply_set *set, bool leads)
{
    set->leads = leads;
    if (!leads)
        twalk_r(set->tree, cancel_entry, NULL);
    gt_apply_set_queue_all(set);
}

/* ---- creation and end ---- */

void gt_apply_set_free(struct gt_apply_set *set)
{
    if (!set)
        return;
    gt_kube_informer_free(set->informer);
    gt_apply_set_free_entries(set);
    gt_write_close(&set->line);
    free(set);
}

int gt_apply_set_new(const struct gt_apply_set_spec *spec, struct gt_apply_set **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_apply_set_free) struct gt_apply_set *set = calloc(1, sizeof(*set));
    if (!set)
        return gt_fail_sys(err, ENOMEM, "set of %s", spec->kind);
    set->spec = *spec;
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
    int r = 0;
    if (!spec->no_informer)
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
    stats->waiting += entry->key.state != GT_WRITE_IDLE && !entry->awaited;
}

void gt_apply_set_stats(const struct gt_apply_set *set, struct gt_apply_set_stats *ret)
{
    *ret = set->stats;
    ret->synced = gt_apply_set_is_synced(set);
    twalk_r(set->tree, count_entry, ret);
}
