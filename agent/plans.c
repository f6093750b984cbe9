/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/plans.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/buf.h"
#include "deviceplugin/inventory.h"

enum { IDS_TEXT_MAX = GT_PLAN_IDS_MAX * (GT_ID_SIZE + 1) };

enum plan_verdict { WAITING, SUSPECT, REPORTED };

struct pod {
    struct pod *next;
    char *namespace, *name, *uid; /* of one block */
    char *text; /* behind them, NULL: no annotation; at most GT_POD_PLAN_TEXT_MAX + 1 bytes of it */
    struct gt_pod_plan *plan;    /* NULL: none */
    enum plan_verdict *verdicts; /* of its containers */
    char block[];
};

struct gt_plan_table {
    struct pod *pods;
    unsigned known; /* their number */
    struct gt_plan_counts counts;
};

/* ---- one pod ---- */

static void forget_plan(struct pod *pod)
{
    free(gt_steal(pod->plan));
    free(gt_steal(pod->verdicts));
}

static void free_pod(struct pod *pod)
{
    forget_plan(pod);
    free(pod);
}

static struct pod *new_pod(const char *namespace, const char *name, const char *uid, const char *text)
{
    size_t text_len = text ? strnlen(text, GT_POD_PLAN_TEXT_MAX + 1) : 0;
    struct pod *pod = calloc(1, sizeof(*pod) + strlen(namespace) + strlen(name) + strlen(uid) + text_len + 4);
    if (!pod)
        return NULL;
    pod->namespace = pod->block;
    pod->name = stpcpy(pod->namespace, namespace) + 1;
    pod->uid = stpcpy(pod->name, name) + 1;
    char *end = stpcpy(pod->uid, uid) + 1;
    if (text)
        pod->text = memcpy(end, text, text_len);
    return pod;
}

static bool is_the_same(const struct pod *pod, const char *uid, const char *text)
{
    if (strcmp(pod->uid, uid) != 0 || !pod->text != !text)
        return false;
    return !text || strncmp(pod->text, text, GT_POD_PLAN_TEXT_MAX + 1) == 0;
}

/* ---- the table ---- */

static struct pod **plan_table_find(struct gt_plan_table *table, const char *namespace, const char *name)
{
    struct pod **at = &table->pods;
    while (*at && (strcmp((*at)->name, name) != 0 || strcmp((*at)->namespace, namespace) != 0))
        at = &(*at)->next;
    return at;
}

static void plan_table_take_out(struct gt_plan_table *table, struct pod **at)
{
    struct pod *pod = *at;
    table->known--;
    if (pod->plan) {
        table->counts.pods--;
        table->counts.containers -= pod->plan->count;
    }
    *at = pod->next;
    free_pod(pod);
}

static int plan_table_read_plan(struct gt_plan_table *table, struct pod *pod, struct gt_err **err)
{
    int r = 0;
    if (table->counts.pods == GT_PLANS_KNOWN_MAX)
        r = gt_fail(err, E2BIG, "there are %d planned pods already", GT_PLANS_KNOWN_MAX);
    if (r == 0)
        r = gt_pod_plan_read(pod->text, &pod->plan, err);
    if (r == 0 && table->counts.containers + pod->plan->count > GT_PLANS_MAX)
        r = gt_fail(err, E2BIG, "there are %d planned containers already", GT_PLANS_MAX);
    if (r == 0 && !(pod->verdicts = calloc(pod->plan->count + 1U, sizeof(*pod->verdicts))))
        r = gt_fail_sys(err, ENOMEM, "plan");
    if (r < 0) {
        forget_plan(pod);
        table->counts.refused++;
        return gt_wrap(err, "pod %.63s/%.253s: annotation " GT_PLAN_ANNOTATION_GPUS, pod->namespace,
                       pod->name);
    }
    table->counts.pods++;
    table->counts.containers += pod->plan->count;
    return 1;
}

int gt_plan_table_set(struct gt_plan_table *table, const char *namespace, const char *name, const char *uid,
                      const char *text, struct gt_err **err)
{
    struct pod **at = plan_table_find(table, namespace, name);
    if (*at && is_the_same(*at, uid, text))
        return 0;
    if (*at)
        plan_table_take_out(table, at);
    else if (table->known == GT_PLAN_KNOWN_MAX)
        return gt_fail(err, E2BIG, "pod %.63s/%.253s: there are %d pods already", namespace, name,
                       GT_PLAN_KNOWN_MAX);
    struct pod *pod = new_pod(namespace, name, uid, text);
    GT_NEED(pod, err, "plan");
    pod->next = table->pods;
    table->pods = pod;
    table->known++;
    return text ? plan_table_read_plan(table, pod, err) : 1;
}

bool gt_plan_table_drop(struct gt_plan_table *table, const char *namespace, const char *name)
{
    struct pod **at = plan_table_find(table, namespace, name);
    if (!*at)
        return false;
    plan_table_take_out(table, at);
    return true;
}

int gt_plan_table_snapshot(const struct gt_plan_table *table, bool is_complete, struct gt_plans **ret,
                           struct gt_err **err)
{
    unsigned count = 0, known = 0;
    gt_auto_free struct gt_plan *plans = calloc(table->counts.containers + 1U, sizeof(*plans));
    gt_auto_free struct gt_bound_pod *pods = calloc(table->known + 1U, sizeof(*pods));
    GT_NEED(plans && pods, err, "plans");
    for (const struct pod *pod = table->pods; pod; pod = pod->next) {
        pods[known++] = (struct gt_bound_pod){pod->namespace, pod->name};
        for (unsigned i = 0; pod->plan && i < pod->plan->count; i++) {
            const struct gt_planned_container *container = &pod->plan->containers[i];
            plans[count++] = (struct gt_plan){pod->namespace, pod->name, container->name, container->ids,
                                              container->count};
        }
    }
    is_complete = is_complete && known < GT_PLAN_KNOWN_MAX;
    return gt_plans_new(plans, count, is_complete ? pods : NULL, is_complete ? known : 0, ret, err);
}

/* ---- what the containers got ---- */

static bool plans_is_user(const struct gt_device_user *user, const struct pod *pod,
                          const struct gt_planned_container *container)
{
    return strcmp(user->container, container->name) == 0 && strcmp(user->pod, pod->name) == 0 &&
           strcmp(user->namespace, pod->namespace) == 0;
}

static void add_id(struct gt_buf *to, const char *id)
{
    gt_buf_printf(to, "%s%s", to->len ? "," : "", id);
}

static void report_mismatch(const struct pod *pod, const struct gt_planned_container *container,
                            const struct gt_device_uses *uses, gt_plan_mismatched *mismatched, void *arg)
{
    gt_auto_buf struct gt_buf planned = GT_BUF(IDS_TEXT_MAX), actual = GT_BUF(IDS_TEXT_MAX);
    for (unsigned i = 0; i < container->count; i++)
        add_id(&planned, container->ids[i]);
    for (unsigned i = 0; i < uses->count; i++)
        if (plans_is_user(&uses->users[i], pod, container))
            add_id(&actual, uses->users[i].id);
    const struct gt_plan_mismatch mismatch = {pod->namespace, pod->name, container->name,
                                              planned.data ? planned.data : "",
                                              actual.data ? actual.data : ""};
    mismatched(arg, &mismatch);
}

static void plan_table_compare(struct gt_plan_table *table, const struct pod *pod, unsigned at,
                               const struct gt_device_uses *uses, gt_plan_mismatched *mismatched, void *arg)
{
    const struct gt_planned_container *container = &pod->plan->containers[at];
    enum plan_verdict *verdict = &pod->verdicts[at];
    unsigned used = 0, planned = 0;
    for (unsigned i = 0; i < uses->count; i++)
        if (plans_is_user(&uses->users[i], pod, container)) {
            used++;
            planned += GT_HAS_TEXT(container->ids, container->count, uses->users[i].id);
        }
    if (!used) {
        *verdict = WAITING;
    } else if (used == container->count && planned == used) {
        *verdict = REPORTED;
        table->counts.as_planned++;
    } else if (*verdict == WAITING) {
        *verdict = SUSPECT;
    } else {
        *verdict = REPORTED;
        table->counts.otherwise++;
        report_mismatch(pod, container, uses, mismatched, arg);
    }
}

void gt_plan_table_compare(struct gt_plan_table *table, const struct gt_device_uses *uses,
                           gt_plan_mismatched *mismatched, void *arg)
{
    if (uses->settling)
        return;
    for (struct pod *pod = table->pods; pod; pod = pod->next)
        for (unsigned i = 0; pod->plan && i < pod->plan->count; i++)
            if (pod->verdicts[i] != REPORTED)
                plan_table_compare(table, pod, i, uses, mismatched, arg);
}

void gt_plan_table_counts(const struct gt_plan_table *table, struct gt_plan_counts *ret)
{
    *ret = table->counts;
}

int gt_plan_table_new(struct gt_plan_table **ret, struct gt_err **err)
{
    struct gt_plan_table *table = calloc(1, sizeof(*table));
    GT_NEED(table, err, "plans");
    *ret = table;
    return 0;
}

void gt_plan_table_free(struct gt_plan_table *table)
{
    if (!table)
        return;
    while (table->pods)
        plan_table_take_out(table, &table->pods);
    free(table);
}
