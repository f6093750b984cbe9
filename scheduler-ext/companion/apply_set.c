/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/apply_set.h"

#include <errno.h>
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
        gt_apply_set_queue_all(set);
}

void gt_apply_set_lead(struct gt_apply_set *set, bool leads)
{
    set->leads = leads;
    size_t slot = 0;
    for (struct gt_apply_set_entry *entry; !leads && (entry = gt_index_next(&set->entries, &slot));) {
        gt_write_remove(&entry->key);
        gt_write_add(&entry->key); /* it may still wait for the watch */
    }
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
    int r = 0;
    if (!spec->no_informer)
        r = gt_kube_informer_start(spec->kube, &informer, &set->informer, err);
    if (r < 0)
        return r;
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
