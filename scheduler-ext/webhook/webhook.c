/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/webhook.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/movable.h"
#include "api/names.h"
#include "api/pod_patch.h"
#include "api/pod_peers.h"
#include "api/resources.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "kube/base64.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/webhook/own_claim.h"

enum { SIBLINGS_MAX = 64, UID_MAX = 128, API_VERSION_MAX = 512 };

static const char lone_atomic[] = GT_ANNOTATION_ATOMIC " does nothing without " GT_ANNOTATION_GROUP;
static const char too_much[] = "it asks for more GPUs than a claim may have, and keeps its limits";
static const char on_a_node[] =
    "the pod names its node already: it cannot be gated, and takes no part in the placement of its job";

struct review {
    cJSON *json;
    const cJSON *request, *object;
    const char *uid, *namespace_, *operation;
};

static void free_review(struct review *review)
{
    cJSON_Delete(review->json);
}
#define auto_review __attribute__((cleanup(free_review)))

enum { WARNING_MAX = 1024, PATCH_MAX = 1 << 20 }; /* more than 256 KiB of annotations have of forged plans */

struct review_verdict {
    struct gt_buf patch; /* operations of a JSON patch, separated by commas */
    struct gt_key_warnings warnings;
    struct gt_err *refusal;
};

static void free_verdict(struct review_verdict *verdict)
{
    gt_buf_done(&verdict->patch);
    gt_err_free(verdict->refusal);
}
#define auto_verdict __attribute__((cleanup(free_verdict)))

/* ---- request and response ---- */

static int read_review(const char *body, size_t len, struct review *ret, struct gt_err **err)
{
    static const struct gt_json_limits limits = {GT_WEBHOOK_BODY_MAX, GT_WEBHOOK_VALUES_MAX};
    GT_TRY(gt_json_parse_within(body, len, "the review", &limits, &ret->json, err));
    const char *version = gt_get_string(ret->json, "apiVersion"), *kind = gt_get_string(ret->json, "kind");
    if (strcmp(kind, "AdmissionReview") != 0 || strcmp(version, "admission.k8s.io/v1") != 0)
        return gt_fail(err, EINVAL, "the body is a %.60s of %.60s, expected an AdmissionReview of %s",
                       *kind ? kind : "(nothing)", *version ? version : "(nothing)", "admission.k8s.io/v1");
    ret->request = gt_get(ret->json, "request");
    ret->uid = gt_get_string(ret->request, "uid");
    ret->operation = gt_get_string(ret->request, "operation");
    ret->object = gt_get(ret->request, "object");
    ret->namespace_ = gt_get_string(ret->request, "namespace");
    if (!*ret->uid || strlen(ret->uid) > UID_MAX || !*ret->operation)
        return gt_fail(err, EINVAL, "the review has no request with uid and operation");
    return 0;
}

/* "object" or "oldObject", in which claims are replaced. */
static cJSON *changeable(const struct review *review, const char *key)
{
    return cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(review->json, "request"), key);
}

static int write_answer(const struct review *review, const struct review_verdict *verdict, struct gt_buf *to,
                        struct gt_err **err)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "admission.k8s.io/v1");
    gt_json_add_text(to, "kind", "AdmissionReview");
    gt_json_begin(to, "response", '{');
    gt_json_add_text(to, "uid", review->uid);
    gt_json_add_bool(to, "allowed", !verdict->refusal);
    if (verdict->refusal) {
        gt_json_begin(to, "status", '{');
        bool forbidden = gt_err_code(verdict->refusal) == EPERM;
        gt_json_add_unsigned(to, "code", forbidden ? 403 : 422);
        gt_json_add_text(to, "reason", forbidden ? "Forbidden" : "Invalid"); /* of the API machinery */
        gt_json_add_text(to, "message", gt_err_text(verdict->refusal));
        gt_json_end(to, '}');
    } else if (verdict->patch.len) {
        gt_auto_buf struct gt_buf patch = GT_BUF(PATCH_MAX + 2);
        gt_buf_printf(&patch, "[%s]", verdict->patch.data);
        if (gt_buf_check(&patch, "patch", err) < 0)
            return -ENOMEM;
        gt_json_add_text(to, "patchType", "JSONPatch");
        gt_json_key(to, "patch");
        gt_buf_puts(to, "\"");
        gt_base64_encode(patch.data, patch.len, to);
        gt_buf_puts(to, "\"");
    }
    if (verdict->warnings.count) {
        gt_json_begin(to, "warnings", '[');
        for (unsigned i = 0; i < verdict->warnings.count; i++)
            gt_json_add_text(to, NULL, verdict->warnings.texts[i]);
        gt_json_end(to, ']');
    }
    gt_buf_puts(to, "}}");
    return gt_buf_check(to, "answer", err);
}

static bool webhook_is(const char *text, const char *other)
{
    return text && strcmp(text, other) == 0;
}

/* ---- a pod and its job ---- */

struct seen_pod {
    struct gt_pod pod;
    struct gt_pod_identity identity;
    struct gt_err *unknown; /* why jobs/ cannot identify the pod */
    const struct gt_owner *owner;
    enum gt_job_kind kind;
};

static void free_seen(struct seen_pod *seen)
{
    gt_err_free(seen->unknown);
}
#define auto_seen __attribute__((cleanup(free_seen)))

static bool is_new_pod(const struct review *review)
{
    const char *group = gt_get_string(gt_get(review->request, "kind"), "group");
    const char *sub = gt_get_string(review->request, "subResource");
    return webhook_is(gt_get_string(gt_get(review->request, "kind"), "kind"), "Pod") && !*group && !*sub &&
           webhook_is(review->operation, "CREATE") && cJSON_IsObject(review->object);
}

static void see_pod(const struct gt_webhook *webhook, const struct review *review, struct seen_pod *ret)
{
    const char *name = NULL;
    ret->kind = GT_JOB_KINDS;
    gt_pod_read(review->object, webhook->resource, &ret->pod);
    ret->pod.meta.namespace_ = review->namespace_;
    if (ret->pod.invalid || !ret->pod.gpus.total ||
        gt_pod_identify(&ret->pod.meta, &ret->identity, &ret->unknown) < 0)
        return;
    ret->kind = gt_owner_of_pod(&ret->pod.meta, &ret->identity, ret->pod.owner_api_version, &name);
    if (webhook->owners && ret->kind != GT_JOB_KINDS)
        ret->owner = gt_owners_find(webhook->owners, ret->kind, review->namespace_, name, ret->identity.role);
}

static bool sibling_has(const struct gt_webhook *webhook, const struct seen_pod *seen, enum gt_pod_key key)
{
    gt_auto_buf struct gt_buf job_key = GT_BUF(2048);
    gt_job_key(&seen->pod.meta, &seen->identity, &job_key);
    const struct gt_cache_job *job =
        webhook->cache && job_key.data ? gt_cache_find_job(webhook->cache, job_key.data) : NULL;
    const struct gt_cache_pod *pod = job ? job->pods : NULL;
    for (unsigned i = 0; pod && i < SIBLINGS_MAX; pod = pod->next, i++)
        if (gt_pod_annotation(&pod->meta, key))
            return true;
    return false;
}

/* Whether its job has a group size, or may have one. */
static bool is_grouped(const struct gt_webhook *webhook, const struct seen_pod *seen, bool *ret_doubt)
{
    *ret_doubt = false;
    if (gt_pod_annotation(&seen->pod.meta, GT_KEY_GROUP))
        return true;
    if (seen->unknown || seen->identity.ignored)
        return false;
    if (seen->owner)
        return gt_owner_is_grouped(seen->owner);
    if (sibling_has(webhook, seen, GT_KEY_GROUP))
        return true;
    *ret_doubt = seen->kind != GT_JOB_KINDS;
    return *ret_doubt;
}

/* ---- changes ---- */

static bool has_plan(const struct gt_pod *pod, const struct gt_plan_texts *texts)
{
    return webhook_is(pod->plan_gpus, texts->gpus) && webhook_is(pod->plan_node, texts->node) &&
           webhook_is(gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT), texts->unit) &&
           webhook_is(gt_pod_annotation(&pod->meta, GT_KEY_PLAN_RANK), texts->rank);
}

/* Gives a pod of a planned job its place; false where that cannot be done. */
static bool give_place(const struct gt_webhook *webhook, const struct review *review,
                       const struct seen_pod *seen, struct gt_buf *to)
{
    const struct gt_pod *pod = &seen->pod;
    struct gt_placement_offer offer = {0};
    bool given = false;
    if (!webhook->placement || !seen->owner ||
        !gt_placement_offer(webhook->placement, &pod->meta, &seen->identity, pod->owner_api_version, &offer))
        return false;
    if (has_plan(pod, &offer.texts)) {
        given = true; /* we gave it its place before, and another webhook has changed it since */
    } else if (!offer.taken && !pod->gate_count && !pod->has_node_affinity &&
               !gt_pod_has_own_claims(pod->spec, pod->meta.name)) {
        /* Only for a pod without constraints of its own on nodes; others are left to the controller. The
           claims of a StatefulSet's pod were not known when its place was reserved. */
        struct gt_pair pairs[GT_PLAN_PAIRS];
        gt_plan_pairs(&offer.texts, pairs);
        gt_pod_json_remove_plan(pod, to);
        gt_pod_json_add_annotations(pod, pairs, GT_PLAN_PAIRS, to);
        gt_pod_json_add_node(pod, offer.texts.node, to);
        gt_pod_json_remove_managers(review->object, to);
        if (!cJSON_IsTrue(gt_get(review->request, "dryRun")))
            gt_placement_reserve_offer(&offer);
        given = true;
    }
    gt_plan_texts_done(&offer.texts);
    return given;
}

/* ---- rules for pods ---- */

/* The rules for one pod: its sizes, compared with its owner's templates and its own GPUs. */
static int webhook_check_pod(const struct seen_pod *seen, struct gt_err **err)
{
    unsigned count = seen->owner ? seen->owner->spec.count : 0;
    gt_auto_free struct gt_job_texts *texts = calloc((size_t)count + 1, sizeof(*texts));
    struct gt_job_sizes sizes;
    GT_NEED(texts, err, "pod");
    for (unsigned i = 0; i < count; i++) {
        const struct gt_job_template *template = &seen->owner->spec.templates[i];
        texts[i] = gt_job_template_texts(template, template->role[0] ? template->role : "the template");
    }
    const struct gt_pod_meta *meta = &seen->pod.meta;
    texts[count] = gt_job_pod_texts(meta, meta->name[0] ? meta->name : count ? "the pod" : "");
    if (seen->owner && seen->owner->spec.groups)
        gt_job_texts_keep(texts, count, count + 1);
    int r = gt_job_sizes_read(texts, count + 1, &sizes, err);
    if (r < 0 || !sizes.group)
        return r;
    /* A whole unit of such pods breaks exactly the rules that this pod breaks. */
    uint32_t gpus = seen->pod.gpus.total, pods = sizes.group % gpus ? 1 : sizes.group / gpus;
    if (pods > GT_PLAN_PODS_MAX)
        pods = 1;
    gt_auto_free struct gt_job_pod *unit = calloc(pods, sizeof(*unit));
    GT_NEED(unit, err, "pod");
    for (uint32_t i = 0; i < pods; i++)
        unit[i] = (struct gt_job_pod){meta->gpus, meta->containers, 0};
    struct gt_job_units units = {0};
    r = gt_job_units_make(&sizes, unit, pods, &units, err);
    if (r >= 0)
        gt_job_units_done(&units);
    return r;
}

/* Of a job that has a plan the controller says what is wrong with it by now. */
static void judge_pod(const struct gt_webhook *webhook, struct seen_pod *seen, struct gt_err **refusal)
{
    if (seen->unknown)
        *refusal = gt_steal(seen->unknown);
    else if (seen->owner && seen->owner->broken && !sibling_has(webhook, seen, GT_KEY_PLAN_RANK))
        gt_fail(refusal, EINVAL, "%s", seen->owner->broken);
    else
        webhook_check_pod(seen, refusal);
}

/* Whether it is to get its GPUs by a claim; not if it has its node already, since then no scheduler would
 * allocate the claim. */
static bool wants_claim(const struct gt_webhook *webhook, const struct gt_pod *pod, bool grouped)
{
    return !pod->node_name &&
           (webhook->claims == GT_CLAIMS_OF_ALL || (webhook->claims == GT_CLAIMS_OF_GROUPS && grouped));
}

/* Handles claims of its user; -EINVAL, -ENOENT: they cannot be planned, `refusal` says why. */
static int see_own_claim(const struct gt_webhook *webhook, const struct review *review, struct gt_buf *patch,
                         struct gt_err **refusal)
{
    if (webhook->claims == GT_CLAIMS_OFF)
        return 0;
    cJSON *spec = gt_pod_spec(changeable(review, "object"));
    int r = gt_own_claim_replace(webhook->cache, review->namespace_, webhook->resource, spec, patch, refusal);
    if (r < 0)
        gt_pod_spec_ask_for_one(spec, webhook->resource); /* so that it is seen whose it is */
    return r;
}

int gt_webhook_mutate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                      struct gt_err **err)
{
    auto_review struct review review = {0};
    auto_seen struct seen_pod seen = {0};
    auto_verdict struct review_verdict verdict = {.patch = GT_BUF(PATCH_MAX)};
    gt_auto_buf struct gt_buf own_patch = GT_BUF(PATCH_MAX);
    gt_auto_err struct gt_err *unfit = NULL;
    bool doubt;
    int own = 0;
    GT_TRY(read_review(body, len, &review, err));
    if (is_new_pod(&review)) {
        own = see_own_claim(webhook, &review, &own_patch, &unfit);
        see_pod(webhook, &review, &seen);
    }
    const struct gt_pod *pod = &seen.pod;
    bool grouped = !pod->invalid && pod->gpus.total && is_grouped(webhook, &seen, &doubt);
    if (pod->invalid || own < 0) {
        gt_pod_json_remove_plan(pod, &verdict.patch);
        if (grouped && !doubt)
            verdict.refusal = gt_steal(unfit);
    } else if (pod->gpus.total) {
        if (own && grouped && !pod->node_name)
            gt_buf_add(&verdict.patch, own_patch.data, own_patch.len);
        if (grouped && !doubt ? pod->node_name != NULL : gt_pod_annotation(&pod->meta, GT_KEY_ATOMIC) != NULL)
            gt_key_warnings_add(&verdict.warnings, "%s", grouped && !doubt ? on_a_node : lone_atomic);
        if (!pod->meta.owner_kind) /* otherwise a controller made it, and nobody would see that */
            gt_user_keys_check(review.object, &verdict.warnings);
        bool waits = grouped && !pod->node_name && !pod->gated;
        bool claims = wants_claim(webhook, pod, grouped);
        /* The claim of a pod is created after the pod: its devices are written while the pod is gated. */
        if (!waits || doubt || claims || !give_place(webhook, &review, &seen, &verdict.patch)) {
            gt_pod_json_remove_plan(pod, &verdict.patch);
            if (claims && !gt_pod_json_add_claim(review.object, webhook->resource, &verdict.patch))
                gt_key_warnings_add(&verdict.warnings, "%s", too_much);
            if (waits) {
                gt_pod_json_add_gate(pod, &verdict.patch);
                gt_pod_json_remove_managers(review.object, &verdict.patch);
            }
            if (grouped && !doubt)
                judge_pod(webhook, &seen, &verdict.refusal);
        }
    }
    int r = gt_buf_check(&verdict.patch, "patch", err);
    return r < 0 ? r : write_answer(&review, &verdict, answer, err);
}

/* ---- rules for owners ---- */

/* All jobs of an object. */
static int check_jobs(const struct gt_owner *owner, struct gt_err **err)
{
    int r = 0;
    for (; owner && r >= 0; owner = owner->next) {
        gt_auto_job struct gt_job *job = NULL;
        r = gt_owner_check(owner, &job, err);
        if (r < 0 && owner->role)
            gt_wrap(err, "group %.60s", owner->role);
    }
    return r;
}

static bool has_groups(const struct gt_owner *owner)
{
    while (owner && !gt_owner_is_grouped(owner))
        owner = owner->next;
    return owner;
}

/* What the pod templates of an owner need. */
struct templates {
    struct gt_cache *cache;
    const char *resource;
    struct gt_cache_demand demands[GT_DEMANDS_MAX];
    struct gt_cache_request *requests[GT_DEMANDS_MAX];
    unsigned count;
    struct gt_node_set unfit;
    bool failed; /* without memory, or with a template that cannot be read */
};

static void templates_done(struct templates *templates)
{
    for (unsigned i = 0; i < templates->count; i++)
        gt_cache_request_drop(templates->cache, templates->requests[i]);
    gt_node_set_done(&templates->unfit);
}

static void see_template(void *arg, cJSON *spec)
{
    struct templates *templates = arg;
    struct gt_pod_gpus gpus;
    struct gt_resources asked;
    const struct gt_pod_where where = gt_pod_where_read(spec);
    if (gt_pod_gpus_read(spec, templates->resource, &gpus, NULL) < 0 || templates->count == GT_DEMANDS_MAX) {
        templates->failed = true;
        return;
    }
    if (!gpus.total)
        return;
    if (gt_cache_exclude_unfit(templates->cache, &where, true, &templates->unfit, NULL) < 0)
        templates->failed = true;
    gt_pod_resources_read(spec, &asked);
    struct gt_cache_request *request = gt_cache_request_make(templates->cache, &asked, true);
    templates->requests[templates->count] = request;
    templates->demands[templates->count++] = (struct gt_cache_demand){request, gpus.total};
}

/* The first pods, as many as must start together; the others count as left out. */
static struct gt_plan_pod *first_pods(const struct gt_owner *owner, const struct gt_job *job)
{
    struct gt_plan_pod *pods = calloc((size_t)job->member_count + 1, sizeof(*pods));
    uint32_t least = owner->spec.minimum ? owner->spec.minimum : job->member_count;
    for (uint32_t u = 0; pods && u < job->units.count; u++) {
        const struct gt_plan_unit *unit = &job->units.units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            pods[i] = (struct gt_plan_pod){.running = unit->first >= least,
                                           .requests = job->members[i].gpus.requests};
    }
    return pods;
}

/* Whether a job that is being created would not fit even into the empty cluster (decide/never.h); a sentence
 * says why. `object` is its owner's object, of which `job` was made. */
static bool never_fits_ahead(struct gt_cache *cache, const char *resource, const cJSON *object,
                             const struct gt_owner *owner, const struct gt_job *job, struct gt_buf *text)
{
    __attribute__((cleanup(templates_done))) struct templates templates = {.cache = cache,
                                                                           .resource = resource};
    gt_auto_free struct gt_plan_pod *pods = first_pods(owner, job);
    gt_owner_each_template((cJSON *)(uintptr_t)object, see_template, &templates);
    const struct gt_never_spec spec = {.units = &job->units,
                                       .pods = pods,
                                       .excluded = &templates.unfit,
                                       .demands = templates.demands,
                                       .demand_count = templates.count};
    return pods && !templates.failed && gt_never_fits(cache, &spec, text);
}

/* It is let in all the same: hardware may come. */
static void warn_of_never(const struct gt_webhook *webhook, const struct review *review,
                          const struct gt_owner *owner, struct review_verdict *verdict)
{
    struct gt_cache *cache = (struct gt_cache *)(uintptr_t)webhook->cache;
    for (; cache && owner; owner = owner->next) {
        gt_auto_job struct gt_job *job = NULL;
        gt_auto_buf struct gt_buf text = GT_BUF(WARNING_MAX);
        if (gt_owner_check(owner, &job, NULL) < 0 || !job)
            return;
        if (never_fits_ahead(cache, webhook->resource, review->object, owner, job, &text) &&
            gt_buf_check(&text, "warning", NULL) >= 0)
            gt_key_warnings_add(&verdict->warnings, "%s: %s", GT_REASON_NEVER_FITS, text.data);
    }
}

static uint64_t webhook_count_pods(const struct gt_owner *owner)
{
    uint64_t pods = 0;
    for (; owner; owner = owner->next)
        for (unsigned i = 0; i < owner->spec.count; i++)
            pods += owner->spec.templates[i].replicas;
    return pods;
}

/* `known`: its GPUs are, so that no owner was read where it asks for none. An object that was made for
 * another one has nobody who sees the warnings. */
static void warn_of_owner(const struct gt_webhook *webhook, const cJSON *object, const struct gt_owner *owner,
                          bool known, struct gt_key_warnings *to)
{
    if (gt_get_at(object, "metadata", "ownerReferences"))
        return;
    gt_user_keys_check(object, to);
    const char *key = known && !owner ? gt_user_keys_any(object) : NULL;
    if (key)
        gt_key_warnings_add(to, "its %s does nothing: no pod of it asks for %.100s",
                            key + sizeof(GT_USER_PREFIX) - 1, webhook->resource);
}

static void warn_of_ungrouped(const struct gt_owner *owner, struct gt_key_warnings *to)
{
    static const char required[] = "required=";
    static const enum gt_pod_key keys[] = {GT_KEY_ATOMIC, GT_KEY_JOB_TOPOLOGY, GT_KEY_GROUP_TOPOLOGY};
    for (unsigned i = 0; i < owner->spec.count; i++)
        for (unsigned k = 0; k < GT_COUNT(keys); k++) {
            const char *text = owner->spec.templates[i].texts.of[keys[k]];
            bool of_job = keys[k] == GT_KEY_JOB_TOPOLOGY; /* its other words count for the scores */
            if (text && (!of_job || strncmp(text, required, sizeof(required) - 1) == 0))
                gt_key_warnings_add(to, "%s%s does nothing without " GT_ANNOTATION_GROUP,
                                    gt_pod_key_text(keys[k]), of_job ? " required=TIER" : "");
        }
}

/* Rules between pods of a template that contradict each other; pods are made all the same, and the API server
 * or the scheduler then refuses them. */
static void warn_of_peers(void *arg, cJSON *spec)
{
    struct gt_key_warnings *to = arg;
    struct gt_pod_peers *peers = NULL;
    gt_auto_free char *text = NULL;
    gt_auto_buf struct gt_buf wrong = GT_BUF(512);
    if (gt_pod_peers_text(spec, "", NULL, NULL, &text) < 0 || !text || gt_pod_peers_read(text, &peers) < 0)
        return;
    if (gt_pod_peers_contradict(peers, &wrong) && wrong.data)
        gt_key_warnings_add(to, "%s", wrong.data);
    gt_pod_peers_free(peers);
}

/* Without a group size only these annotations have an effect. */
static int check_ungrouped(const struct gt_owner *owner, struct gt_err **err)
{
    for (unsigned i = 0; i < owner->spec.count; i++) {
        const struct gt_job_template *template = &owner->spec.templates[i];
        const char *const *of = template->texts.of;
        const struct gt_job_texts texts = {
            .of = {[GT_KEY_SLOW] = of[GT_KEY_SLOW], [GT_KEY_JOB_TOPOLOGY] = of[GT_KEY_JOB_TOPOLOGY]},
            .where = template->role};
        struct gt_job_sizes sizes;
        GT_TRY(gt_job_sizes_read(&texts, 1, &sizes, err));
    }
    return 0;
}

static void judge_owner(const struct gt_webhook *webhook, const struct review *review, enum gt_job_kind kind,
                        struct review_verdict *verdict)
{
    gt_auto_owner struct gt_owner *owner = NULL, *old = NULL;
    gt_auto_err struct gt_err *unreadable = NULL;
    bool update = webhook_is(review->operation, "UPDATE"), known = kind != GT_JOB_KINDS;
    if ((!update && !webhook_is(review->operation, "CREATE")) || !cJSON_IsObject(review->object) ||
        gt_meta_is_deleting(review->object))
        return;
    if (webhook->claims != GT_CLAIMS_OFF) {
        known = gt_own_claims_replace(webhook->cache, review->namespace_, webhook->resource,
                                      changeable(review, "object")) &&
                known;
        gt_own_claims_replace(webhook->cache, review->namespace_, webhook->resource,
                              changeable(review, "oldObject"));
    }
    int r = kind == GT_JOB_KINDS
                ? 0
                : gt_owner_read(kind, review->object, webhook->resource, &owner, &unreadable);
    warn_of_owner(webhook, review->object, owner, known && r >= 0, &verdict->warnings);
    if ((r == -EINVAL || r == -E2BIG) && gt_user_keys_any(review->object))
        verdict->refusal = gt_steal(unreadable);
    else if (owner && !has_groups(owner)) {
        warn_of_ungrouped(owner, &verdict->warnings);
        if (!update)
            check_ungrouped(owner, &verdict->refusal);
    } else if (owner && check_jobs(owner, &verdict->refusal) >= 0) {
        const char *warning = gt_owner_warning(kind, review->object);
        if (warning)
            gt_key_warnings_add(&verdict->warnings, "%s", warning);
        warn_of_never(webhook, review, owner, verdict);
        gt_owner_each_template((cJSON *)(uintptr_t)review->object, warn_of_peers, &verdict->warnings);
    }
    if (!update || !verdict->refusal)
        return;
    /* Giving back GPUs is always allowed, since a Deployment in a rolling update does it in steps. */
    r = gt_owner_read(kind, gt_get(review->request, "oldObject"), webhook->resource, &old, NULL);
    if (r < 0 || (old && ((owner && webhook_count_pods(owner) < webhook_count_pods(old)) ||
                          check_jobs(old, NULL) < 0)))
        gt_err_free(gt_steal(verdict->refusal));
}

int gt_webhook_validate(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                        struct gt_err **err)
{
    auto_review struct review review = {0};
    auto_verdict struct review_verdict verdict = {0};
    GT_TRY(read_review(body, len, &review, err));
    const char *sub = gt_get_string(review.request, "subResource");
    const cJSON *asked = gt_get(review.request, "kind");
    const char *name = gt_get_string(asked, "kind");
    char version[API_VERSION_MAX];
    snprintf(version, sizeof(version), "%s/%s", gt_get_string(asked, "group"),
             gt_get_string(asked, "version"));
    /* A Deployment's spec says of its pods what that of its ReplicaSet says. */
    enum gt_job_kind kind = gt_owner_kind_of(version, webhook_is(name, "Deployment") ? "ReplicaSet" : name);
    if (!*sub && !webhook_is(name, "Pod"))
        judge_owner(webhook, &review, kind, &verdict);
    return write_answer(&review, &verdict, answer, err);
}

int gt_webhook_forbid(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                      struct gt_err **err)
{
    (void)webhook;
    auto_review struct review review = {0};
    auto_verdict struct review_verdict verdict = {0};
    GT_TRY(read_review(body, len, &review, err));
    gt_fail(&verdict.refusal, EPERM,
            "it breaks a rule that docs/reference/permissions.md lists by this name");
    return write_answer(&review, &verdict, answer, err);
}
