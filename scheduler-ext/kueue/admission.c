/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/kueue/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/err.h"
#include "kube/index.h"
#include "scheduler-ext/owners/owners.h"

enum {
    QUOTA_GRACE_MS = 5000,
    AGAIN_MS = 1000, /* interval of tries during that time */
    FAILED_MS = 5000,
    HOLD_MS = 120000,
    REQUEUE_S = 10,
    REQUEUE_MAX_S = 60,
    ROUND_MAX = 16, /* decisions in one call */
    TEXT_MAX = 4000,
};

struct admission_entry {
    struct gt_workload *workload;
    uint64_t waits_ms; /* since when it has quota and does not fit; 0: not tried */
    uint64_t rest_ms;  /* no decision before then */
    /* Until when its places are held; 0: not held. Only from other Workloads: they are in the ledger while
     * these are decided on, and not between, since its own job is planned then, as all others are, wherever
     * there is room. */
    uint64_t hold_ms;
    bool whole;       /* what its claims ask for is known */
    bool decided;     /* this version of it */
    uint32_t assumed; /* so many of its places are, for this round */
    struct gt_fit_places places;
};

struct gt_admission {
    struct gt_admission_spec spec;
    struct gt_index entries; /* an entry's item is a struct admission_entry */
    char *checks[GT_ADMISSION_CHECKS_MAX];
    unsigned check_count;
    struct gt_resource_flavor flavors[GT_ADMISSION_FLAVORS_MAX];
    unsigned flavor_count;
    struct gt_admission_counters counters;
};

static struct admission_entry *kueue_admission_next(const struct gt_admission *admission, size_t *slot)
{
    return gt_index_next(&admission->entries, slot);
}

static void kueue_admission_free_entry(struct gt_admission *admission, struct admission_entry *entry)
{
    gt_workload_free(entry->workload);
    gt_fit_places_done(admission->spec.cache, &entry->places);
    free(entry);
}

int gt_admission_new(const struct gt_admission_spec *spec, struct gt_admission **ret, struct gt_err **err)
{
    gt_auto_admission struct gt_admission *admission = calloc(1, sizeof(*admission));
    GT_NEED(admission, err, "Workloads");
    admission->spec = *spec;
    admission->entries.max = GT_ADMISSION_WORKLOADS_MAX;
    *ret = gt_steal(admission);
    return 0;
}

void gt_admission_clear(struct gt_admission *admission)
{
    size_t slot = 0;
    for (struct admission_entry *entry; (entry = kueue_admission_next(admission, &slot));)
        kueue_admission_free_entry(admission, entry);
    gt_index_done(&admission->entries);
    for (unsigned i = 0; i < admission->check_count; i++)
        free(admission->checks[i]);
    for (unsigned i = 0; i < admission->flavor_count; i++)
        gt_resource_flavor_done(&admission->flavors[i]);
    admission->check_count = admission->flavor_count = 0;
    admission->counters.held = 0;
}

void gt_admission_free(struct gt_admission *admission)
{
    if (admission)
        gt_admission_clear(admission);
    free(admission);
}

/* ---- checks and flavors ---- */

void gt_admission_remove_check(struct gt_admission *admission, const char *name)
{
    for (unsigned i = 0; i < admission->check_count; i++) {
        if (strcmp(admission->checks[i], name) != 0)
            continue;
        free(admission->checks[i]);
        admission->checks[i] = admission->checks[--admission->check_count];
        return;
    }
}

void gt_admission_add_check(struct gt_admission *admission, const char *name)
{
    gt_admission_remove_check(admission, name);
    char *copy = admission->check_count < GT_ADMISSION_CHECKS_MAX ? strdup(name) : NULL;
    if (copy)
        admission->checks[admission->check_count++] = copy;
}

static bool kueue_admission_is_ours(const struct gt_admission *admission, const char *check)
{
    return GT_HAS_TEXT(admission->checks, admission->check_count, check);
}

void gt_admission_remove_flavor(struct gt_admission *admission, const char *name)
{
    struct gt_resource_flavor *flavor = GT_FIND(admission->flavors, admission->flavor_count, name, name);
    if (!flavor)
        return;
    gt_resource_flavor_done(flavor);
    *flavor = admission->flavors[--admission->flavor_count];
}

void gt_admission_put_flavor(struct gt_admission *admission, const cJSON *object)
{
    gt_admission_remove_flavor(admission, gt_meta_name(object));
    if (admission->flavor_count < GT_ADMISSION_FLAVORS_MAX)
        admission->flavor_count +=
            gt_resource_flavor_read(object, &admission->flavors[admission->flavor_count], NULL) >= 0;
}

/* ---- Workloads ---- */

static void kueue_admission_release(struct gt_admission *admission, struct admission_entry *entry)
{
    gt_fit_places_done(admission->spec.cache, &entry->places);
    entry->hold_ms = 0;
}

void gt_admission_remove(struct gt_admission *admission, const char *namespace_, const char *name)
{
    gt_auto_free struct gt_index_entry *entry = gt_index_take(&admission->entries, namespace_, name);
    if (entry)
        kueue_admission_free_entry(admission, entry->item);
}

int gt_admission_put(struct gt_admission *admission, const cJSON *object, bool whole, struct gt_err **err)
{
    gt_auto_workload struct gt_workload *workload = NULL;
    int r = gt_workload_read(object, admission->spec.resource, &workload, err);
    if (r < 0 || !workload->check_count || !workload->is_reserved) {
        admission->counters.refused += r < 0;
        gt_admission_remove(admission, gt_meta_namespace(object), gt_meta_name(object));
        return r;
    }
    struct admission_entry *entry = gt_index_item(&admission->entries, workload->namespace_, workload->name);
    if (entry) {
        bool same = strcmp(entry->workload->version, workload->version) == 0;
        if (strcmp(entry->workload->reserved_since, workload->reserved_since) != 0) {
            entry->waits_ms = 0;
            kueue_admission_release(admission, entry);
        }
        gt_workload_free(entry->workload);
        entry->workload = gt_steal(workload);
        entry->whole = whole;
        entry->decided = entry->decided && same;
        return 0;
    }
    if (admission->entries.table.count >= GT_ADMISSION_WORKLOADS_MAX)
        return gt_fail(err, E2BIG, "there are more than %d Workloads with quota", GT_ADMISSION_WORKLOADS_MAX);
    entry = calloc(1, sizeof(*entry));
    struct gt_index_entry *place =
        entry ? gt_index_add(&admission->entries, workload->namespace_, workload->name) : NULL;
    if (!place) {
        free(entry);
        return gt_fail_sys(err, ENOMEM, "Workloads");
    }
    place->item = entry;
    entry->workload = gt_steal(workload);
    entry->whole = whole;
    return 0;
}

void gt_admission_failed(struct gt_admission *admission, const char *namespace_, const char *name,
                         uint64_t now_ms)
{
    struct admission_entry *entry = gt_index_item(&admission->entries, namespace_, name);
    if (!entry)
        return;
    entry->decided = false;
    entry->rest_ms = now_ms + FAILED_MS;
    kueue_admission_release(admission, entry);
}

/* ---- held places ---- */

static bool kueue_admission_has_place(const struct gt_cache_pod *pod)
{
    return pod && !pod->deleting && (pod->node != GT_NONE || pod->plan == GT_CACHE_PLAN_ASSUMED);
}

static enum gt_job_kind kueue_admission_kind_of(const struct gt_workload *workload)
{
    return gt_owner_made_by(workload->owner_api_version, workload->owner_kind);
}

/* The object that it was made from; NULL: it is not known. */
static const struct gt_owner *kueue_admission_object_of(const struct gt_admission *admission,
                                                        const struct gt_workload *workload)
{
    enum gt_job_kind kind = kueue_admission_kind_of(workload);
    return admission->spec.owners && kind < GT_JOB_KINDS
               ? gt_owners_find(admission->spec.owners, kind, workload->namespace_, workload->owner_name,
                                NULL)
               : NULL;
}

/* Kueue knows no annotations of the object itself, and Kueue 0.15 counts one pod for each Job of a TrainJob.
 * False: the object may have some, and is not known yet. */
static bool kueue_admission_complete(const struct gt_admission *admission, const struct gt_workload *workload)
{
    const struct gt_owner *object = kueue_admission_object_of(admission, workload);
    if (!workload->job || !admission->spec.owners)
        return true;
    if (object) {
        bool is_maker =
            strcmp(gt_owner_type(kueue_admission_kind_of(workload))->kind, workload->owner_kind) != 0;
        return gt_owner_complete(workload->job, object, is_maker, NULL) >= 0;
    }
    return gt_owner_is_grouped(workload->job) || !gt_owner_is_watched(kueue_admission_kind_of(workload));
}

/* Whether there is room for it, in places that become its own. */
static enum gt_fit kueue_admission_fit(const struct gt_admission *admission, const struct gt_fit_spec *fit,
                                       struct admission_entry *entry, struct gt_buf *text)
{
    const struct gt_workload *workload = entry->workload;
    enum gt_job_kind kind = kueue_admission_kind_of(workload);
    gt_auto_buf struct gt_buf key = GT_BUF(1024);
    struct gt_fit_spec own = *fit;
    if (kind < GT_JOB_KINDS)
        gt_owner_job_key(kind, kueue_admission_object_of(admission, workload), workload->namespace_,
                         workload->owner_name, 0, &key);
    own.job = kind < GT_JOB_KINDS && key.data ? key.data : workload->namespace_;
    return gt_fit_workload(&own, workload, &entry->places, text);
}

/* A LeaderWorkerSet has a Workload for each of its groups, and Kueue labels their pods with its name. */
static bool kueue_admission_is_of_workload(const struct gt_cache_pod *pod, const struct gt_workload *workload)
{
    const char *name = gt_pod_label(&pod->meta, GT_KEY_KUEUE_GROUP);
    return !name || strcmp(name, workload->name) == 0;
}

/* Whether its pods have their plan; all pods of a job get it together. For kinds that are not known here only
 * the time decides. */
static bool kueue_admission_is_planned(const struct gt_admission *admission,
                                       const struct gt_workload *workload)
{
    const struct gt_cache *cache = admission->spec.cache;
    enum gt_job_kind kind = kueue_admission_kind_of(workload);
    bool more = true;
    if (strcmp(workload->owner_kind, "Pod") == 0)
        return kueue_admission_has_place(
            gt_cache_find_pod(cache, workload->namespace_, workload->owner_name));
    for (unsigned number = 0; kind < GT_JOB_KINDS && more; number++) {
        gt_auto_buf struct gt_buf key = GT_BUF(1024);
        more = gt_owner_job_key(kind, kueue_admission_object_of(admission, workload), workload->namespace_,
                                workload->owner_name, number, &key);
        const struct gt_cache_job *job = more && key.data ? gt_cache_find_job(cache, key.data) : NULL;
        for (const struct gt_cache_pod *pod = job ? job->pods : NULL; pod; pod = pod->next)
            if (kueue_admission_has_place(pod) && kueue_admission_is_of_workload(pod, workload))
                return true;
    }
    return false;
}

static void forget(struct gt_cache *cache, struct admission_entry *entry)
{
    while (entry->assumed) {
        uint32_t i = --entry->assumed;
        gt_cluster_end_promise(gt_cache_cluster(cache), entry->places.promises[i]);
        gt_cache_forget_room(cache, entry->places.pods[i].place.node, entry->places.requests[i]);
    }
}

/* False, and nothing is taken, where its places are not free. */
static bool assume(struct gt_cache *cache, struct admission_entry *entry)
{
    const struct gt_fit_places *places = &entry->places;
    for (uint32_t i = 0; i < places->count; i++) {
        const struct gt_plan_pod *pod = &places->pods[i];
        const struct gt_promise promise = {.kind = GT_PROMISE_ADMITTED,
                                           .place = pod->place,
                                           .requests = pod->requests,
                                           .until_ms = entry->hold_ms};
        bool room = gt_cache_assume_room(cache, pod->place.node, places->requests[i]);
        if (!room || gt_cluster_promise(gt_cache_cluster(cache), &promise, &places->promises[i], NULL) < 0) {
            if (room)
                gt_cache_forget_room(cache, pod->place.node, places->requests[i]);
            forget(cache, entry);
            return false;
        }
        entry->assumed++;
    }
    return places->count > 0;
}

/* Its own held places are available for itself. */
static void give_places_back(struct gt_admission *admission, struct gt_fit_spec *fit,
                             struct admission_entry *entry)
{
    forget(admission->spec.cache, entry);
    fit->held -= entry->hold_ms != 0;
    kueue_admission_release(admission, entry);
}

static bool kueue_admission_is_ready(const struct gt_admission *admission, const struct gt_workload *workload,
                                     int64_t *ret_since)
{
    bool ready = false;
    for (unsigned i = 0; i < workload->check_count; i++)
        if (kueue_admission_is_ours(admission, workload->checks[i].name)) {
            if (workload->checks[i].state != GT_CHECK_READY)
                return false;
            ready = true;
            *ret_since = workload->checks[i].since_s;
        }
    return ready;
}

/* A new leader continues from the object's state. */
static void kueue_admission_adopt(const struct gt_admission *admission, struct admission_entry *entry,
                                  uint64_t now_ms, int64_t now_s)
{
    int64_t since = 0;
    if (entry->hold_ms || entry->decided || !kueue_admission_is_ready(admission, entry->workload, &since))
        return;
    int64_t age = now_s - since;
    entry->decided = true; /* only this time */
    if (age >= 0 && age < HOLD_MS / 1000)
        entry->hold_ms = now_ms + HOLD_MS - (uint64_t)age * 1000;
}

/* Assumes all held places for this round. Returns the earliest end of a hold. */
static uint64_t kueue_admission_assume_holds(struct gt_admission *admission, struct gt_fit_spec *fit,
                                             uint64_t now_ms, int64_t now_s)
{
    uint64_t end = UINT64_MAX;
    size_t slot = 0;
    for (struct admission_entry *entry; (entry = kueue_admission_next(admission, &slot));) {
        kueue_admission_adopt(admission, entry, now_ms, now_s);
        if (!entry->hold_ms)
            continue;
        if (now_ms >= entry->hold_ms || kueue_admission_is_planned(admission, entry->workload)) {
            kueue_admission_release(admission, entry);
            continue;
        }
        if (!assume(admission->spec.cache, entry)) { /* the places were taken: it will get others */
            gt_auto_buf struct gt_buf text = GT_BUF(TEXT_MAX);
            gt_fit_places_done(admission->spec.cache, &entry->places);
            kueue_admission_complete(admission, entry->workload);
            enum gt_fit fits = kueue_admission_fit(admission, fit, entry, &text);
            if (fits == GT_FIT_NOTHING || fits == GT_FIT_NEVER) {
                kueue_admission_release(admission, entry);
                continue;
            }
            assume(admission->spec.cache, entry);
        }
        end = entry->hold_ms < end ? entry->hold_ms : end;
        fit->held++;
    }
    return end;
}

/* ---- decisions ---- */

static bool is_pending(const struct gt_admission *admission, const struct admission_entry *entry)
{
    for (unsigned i = 0; !entry->decided && i < entry->workload->check_count; i++)
        if (entry->workload->checks[i].state == GT_CHECK_PENDING &&
            kueue_admission_is_ours(admission, entry->workload->checks[i].name))
            return true;
    return false;
}

static int by_order(const void *a, const void *b)
{
    const struct gt_workload *x = (*(struct admission_entry *const *)a)->workload,
                             *y = (*(struct admission_entry *const *)b)->workload;
    GT_BY(y->priority, x->priority);
    int order = strcmp(x->reserved_since, y->reserved_since);
    if (!order)
        order = strcmp(x->namespace_, y->namespace_);
    return order ? order : strcmp(x->name, y->name);
}

static unsigned requeue_of(const struct gt_workload *workload)
{
    unsigned retries = 0, seconds = REQUEUE_S;
    for (unsigned i = 0; i < workload->check_count; i++)
        retries = workload->checks[i].retries > retries ? workload->checks[i].retries : retries;
    for (; retries && seconds < REQUEUE_MAX_S; retries--)
        seconds *= 2;
    return seconds < REQUEUE_MAX_S ? seconds : REQUEUE_MAX_S;
}

static bool kueue_admission_report(struct gt_admission *admission, struct admission_entry *entry,
                                   enum gt_check_state state, const char *text)
{
    const struct gt_workload *workload = entry->workload;
    const char *names[GT_WORKLOAD_CHECKS_MAX];
    unsigned count = 0;
    const struct gt_check_verdict verdict = {
        .state = state, .message = text, .requeue_s = requeue_of(workload)};
    for (unsigned i = 0; i < workload->check_count; i++)
        if (kueue_admission_is_ours(admission, workload->checks[i].name))
            names[count++] = workload->checks[i].name;
    entry->decided = admission->spec.decided(admission->spec.arg, workload, names, count, &verdict);
    admission->counters.decided[state] += entry->decided;
    return entry->decided;
}

static void kueue_admission_decide(struct gt_admission *admission, struct gt_fit_spec *fit,
                                   struct admission_entry *entry, uint64_t now_ms)
{
    gt_auto_buf struct gt_buf text = GT_BUF(TEXT_MAX);
    give_places_back(admission, fit, entry);
    enum gt_fit fits = GT_FIT_NO;
    bool waited = entry->waits_ms && now_ms - entry->waits_ms >= QUOTA_GRACE_MS;
    if (entry->whole && (kueue_admission_complete(admission, entry->workload) || waited))
        fits = kueue_admission_fit(admission, fit, entry, &text);
    else if (!entry->whole)
        gt_buf_puts(&text, "a ResourceClaimTemplate that its pods name is not there");
    const char *said = text.data ? text.data : "";
    entry->rest_ms = now_ms + AGAIN_MS;
    if (fits == GT_FIT_YES || fits == GT_FIT_NOTHING) {
        bool reported = kueue_admission_report(admission, entry, GT_CHECK_READY, said);
        if (!reported)
            kueue_admission_release(admission, entry);
        if (!reported || fits == GT_FIT_NOTHING)
            return;
        entry->hold_ms = now_ms + HOLD_MS;
        assume(admission->spec.cache, entry);
        fit->held++;
    } else if (fits == GT_FIT_NEVER) {
        kueue_admission_report(admission, entry, GT_CHECK_REJECTED, said);
    } else if (fits == GT_FIT_NO && waited) {
        kueue_admission_report(admission, entry, GT_CHECK_RETRY, said);
    } else if (!entry->waits_ms) {
        entry->waits_ms = now_ms;
    }
}

/* Collects the due Workloads; `*ret_due`: when the next one is due. */
static uint32_t kueue_admission_collect(const struct gt_admission *admission, struct admission_entry **to,
                                        uint64_t now_ms, uint64_t *ret_due)
{
    uint32_t count = 0;
    size_t slot = 0;
    for (struct admission_entry *entry; (entry = kueue_admission_next(admission, &slot));) {
        if (!is_pending(admission, entry))
            continue;
        if (entry->rest_ms <= now_ms)
            to[count++] = entry;
        else if (entry->rest_ms < *ret_due)
            *ret_due = entry->rest_ms;
    }
    qsort(to, count, sizeof(struct admission_entry *), by_order);
    return count;
}

uint64_t gt_admission_decide(struct gt_admission *admission, uint64_t now_ms, int64_t now_s)
{
    uint64_t due = UINT64_MAX;
    gt_auto_free struct admission_entry **entries =
        calloc((size_t)admission->entries.table.count + 1, sizeof(struct admission_entry *));
    if (!entries)
        return now_ms + AGAIN_MS;
    struct gt_fit_spec fit = {.cache = admission->spec.cache,
                              .flavors = admission->flavors,
                              .flavor_count = admission->flavor_count};
    uint64_t end = kueue_admission_assume_holds(admission, &fit, now_ms, now_s);
    uint32_t count = kueue_admission_collect(admission, entries, now_ms, &due);
    for (uint32_t i = 0; i < count && i < ROUND_MAX; i++) {
        kueue_admission_decide(admission, &fit, entries[i], now_ms);
        if (!entries[i]->decided && entries[i]->rest_ms < due)
            due = entries[i]->rest_ms;
    }
    size_t slot = 0;
    for (struct admission_entry *entry; (entry = kueue_admission_next(admission, &slot));)
        forget(admission->spec.cache, entry);
    admission->counters.held = fit.held;
    if (count > ROUND_MAX)
        return now_ms;
    return end < due ? end : due;
}

void gt_admission_counters(const struct gt_admission *admission, struct gt_admission_counters *ret)
{
    *ret = admission->counters;
    ret->workloads = admission->entries.table.count;
}
