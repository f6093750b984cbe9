/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/prometheus.h"
#include "base/text.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/placement_private.h"
#include "scheduler-ext/owners/owner_watch.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/webhook/webhook.h"

/* The part "placement": the controller acts on the leader, the webhook answers on every replica. */

enum { SYNC_MS = 200 };

struct placement_part {
    struct gt_informers *informers;
    struct gt_owners *owners;
    struct gt_pod_groups *pod_groups;
    struct gt_owner_watch *watch;
    struct gt_placement *placement;
    struct gt_audit_watch *audit;
    enum gt_claims claims;
    struct gt_claim_templates *templates; /* NULL: no limits are turned into claims */
    struct gt_own_claims *own_claims;     /* likewise */
    struct gt_namespace_weights *weights;
    struct gt_moved_gpus *moved;
    struct gt_source *sync_timer;
    bool leads, started;
    bool serves_https;   /* without it there is no webhook */
    const char *clients; /* accepted names in the API server's certificate; "": no certificate needed */
    const char *namespace_, *not_asked; /* namespaces that are excluded from the webhook */
    struct {
        uint64_t mutated, validated, broken, refused, forbidden;
        uint64_t pods_made; /* pods with GPUs in other namespaces */
    } counts;               /* of the webhook */
};

/* ---- the controller ---- */

static bool placement_part_is_synced(const struct placement_part *part)
{
    return gt_informers_is_synced(part->informers, NULL) && gt_owner_watch_is_synced(part->watch);
}

static void start_or_stop(struct placement_part *part);

static void placement_part_on_sync_timer(void *arg)
{
    start_or_stop(arg);
}

static void placement_part_lead(void *self, bool leads)
{
    struct placement_part *part = self;
    part->leads = leads;
    gt_audit_watch_lead(part->audit, leads);
    gt_moved_gpus_lead(part->moved, leads);
    if (part->templates)
        gt_claim_templates_lead(part->templates, leads);
    start_or_stop(part);
}

static void observe_pod(void *arg, const struct gt_pod *pod)
{
    struct placement_part *part = arg;
    if (part->templates)
        gt_claim_templates_observe_pod(part->templates, pod);
    gt_placement_observe_pod(part->placement, pod);
}

/* The API server has created it, so it should have called the webhook, here or at another replica. */
static void made_pod(void *arg, const struct gt_pod *pod)
{
    struct placement_part *part = arg;
    const char *namespace_ = pod->meta.namespace_;
    if (pod->gpus.total && strcmp(namespace_, part->namespace_) != 0 &&
        !gt_text_is_listed(namespace_, part->not_asked))
        part->counts.pods_made++;
}

static void placement_part_observe(void *arg, enum gt_informer_kind kind, const cJSON *object)
{
    struct placement_part *part = arg;
    if (kind == GT_INFORMER_PLACEMENTS)
        gt_placement_observe_object(part->placement, object);
    else if (kind == GT_INFORMER_QUOTAS)
        gt_placement_observe_quota(part->placement, object);
    else if (kind == GT_INFORMER_TOPOLOGIES)
        gt_moved_gpus_observe(part->moved, object);
    else if (part->templates && kind == GT_INFORMER_CLAIM_TEMPLATES) {
        gt_claim_templates_observe(part->templates, object);
        gt_own_claims_observe_template(part->own_claims, gt_meta_namespace(object));
    }
}

static void placement_part_observe_deleted(void *arg, enum gt_informer_kind kind, const char *namespace_,
                                           const char *name)
{
    struct placement_part *part = arg;
    if (kind == GT_INFORMER_PODS)
        gt_placement_observe_pod_deleted(part->placement, namespace_, name);
    else if (kind == GT_INFORMER_PLACEMENTS)
        gt_placement_observe_object_deleted(part->placement, namespace_, name);
    else if (kind == GT_INFORMER_QUOTAS)
        gt_placement_observe_quota_deleted(part->placement, namespace_, name);
    else if (kind == GT_INFORMER_TOPOLOGIES)
        gt_moved_gpus_observe_deleted(part->moved, name);
    else if (part->templates && kind == GT_INFORMER_CLAIM_TEMPLATES)
        gt_claim_templates_observe_deleted(part->templates, namespace_, name);
}

static void placement_part_on_listed(void *arg, enum gt_informer_kind kind)
{
    struct placement_part *part = arg;
    if (part->templates && kind == GT_INFORMER_CLAIM_TEMPLATES)
        gt_claim_templates_on_listed(part->templates);
}

static void prepare_owner(void *arg, enum gt_job_kind kind, cJSON *object)
{
    struct placement_part *part = arg;
    if (part->own_claims)
        gt_own_claims_prepare(part->own_claims, kind, object);
}

static void owner_gone(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name)
{
    struct placement_part *part = arg;
    if (part->own_claims)
        gt_own_claims_forget(part->own_claims, kind, namespace_, name);
}

static void placement_part_on_pod(void *arg, struct gt_cache_pod *pod)
{
    gt_placement_on_pod(((struct placement_part *)arg)->placement, pod);
}

static void on_pod_deleted(void *arg, struct gt_cache_pod *pod)
{
    gt_placement_on_pod_deleted(((struct placement_part *)arg)->placement, pod);
}

static void on_refused(void *arg, const char *namespace_, const char *name, const char *why)
{
    gt_placement_on_refused(((struct placement_part *)arg)->placement, namespace_, name, why);
}

static void on_relist(void *arg, enum gt_informer_kind kind)
{
    if (kind == GT_INFORMER_PODS || kind == GT_INFORMER_PLACEMENTS)
        gt_placement_on_relist(((struct placement_part *)arg)->placement);
}

static void placement_part_on_capacity(void *arg)
{
    gt_placement_on_capacity(((struct placement_part *)arg)->placement);
}

static void on_owner(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name)
{
    gt_placement_on_owner(((struct placement_part *)arg)->placement, kind, namespace_, name);
}

static void on_pod_group(void *arg, const char *namespace_)
{
    gt_placement_on_pod_group(((struct placement_part *)arg)->placement, namespace_);
}

static void on_note(void *arg, bool warning, const char *job, const char *text)
{
    (void)arg;
    gt_log(warning ? GT_LOG_WARNING : GT_LOG_INFO, text, GT_STR("job", job));
}

/* It starts when this replica leads and the cache is synced: a plan that is based on a part of the cluster
 * would be bad. */
static void start_or_stop(struct placement_part *part)
{
    bool wanted = part->leads && placement_part_is_synced(part);
    gt_auto_err struct gt_err *error = NULL;
    if (wanted && !part->started) {
        gt_placement_start(part->placement);
        /* Only the leader needs them: each watch of Events costs the API server work for every one. */
        if (gt_owner_watch_events(part->watch, true, &error) < 0)
            gt_warning("cannot watch", GT_STR("kind", "Event"), GT_STR("error", gt_err_text(error)));
    } else if (!part->leads && part->started) {
        gt_placement_stop(part->placement);
        gt_owner_watch_events(part->watch, false, NULL);
    }
    part->started = part->leads && (wanted || part->started);
    if (part->leads && !part->started)
        gt_source_arm(part->sync_timer, SYNC_MS);
}

static uint32_t placement_part_weight_of(void *arg, const char *namespace_)
{
    return gt_namespace_weight(((struct placement_part *)arg)->weights, namespace_);
}

static void on_weights(void *arg)
{
    struct placement_part *part = arg;
    if (part->placement)
        gt_placement_on_capacity(part->placement); /* waiting jobs are tried again */
}

/* ---- the webhook ---- */

typedef int review(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                   struct gt_err **err);

static void answer_review(struct placement_part *part, review *answer, uint64_t *counter,
                          const struct gt_http_request *request, struct gt_http_response *response)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_webhook webhook = {.resource = GT_RESOURCE_GPU,
                                 .owners = part->owners,
                                 .cache = gt_informers_cache(part->informers),
                                 .placement = part->placement,
                                 .claims = part->claims};
    if (request->method != GT_HTTP_POST) {
        response->status = 405;
        gt_buf_puts(&response->body, "this is asked with POST\n");
    } else if (!request->content_type || strncasecmp(request->content_type, "application/json", 16) != 0) {
        response->status = 415;
        gt_buf_puts(&response->body, "expected the content type application/json\n");
    } else if (!placement_part_is_synced(
                   part)) { /* it would gate all pods whose owners it does not know yet */
        response->status = 503;
        gt_buf_puts(&response->body, "gputopo-scheduler has not read the cluster yet\n");
    } else if (answer(&webhook, request->body, request->body_len, &response->body, &err) < 0) {
        part->counts.refused++;
        response->status = 400;
        gt_buf_printf(&response->body, "%s\n", gt_err_text(err));
    } else {
        ++*counter;
        response->content_type = "application/json";
    }
}

static bool is_webhook(const char *path)
{
    return strcmp(path, "/webhook/mutate") == 0 || strcmp(path, "/webhook/validate") == 0 ||
           strcmp(path, "/webhook/forbid") == 0;
}

struct refusal {
    unsigned status;
    const char *why;
};

/* Refuses a client that may not call the webhook before its body is read; NULL: it may. */
static const struct refusal *placement_part_refusal_of(const struct placement_part *part,
                                                       const struct gt_http_request *request)
{
    static const struct refusal plain = {403, "the webhook answers on the port of --https alone\n"},
                                nobody = {401,
                                          "this is asked with a client certificate (--webhook-clients)\n"},
                                other = {403, "the client certificate has none of the names of "
                                              "--webhook-clients\n"};
    if (!request->tls)
        return &plain;
    if (!*part->clients || gt_http_client_is(request, part->clients))
        return NULL;
    return request->client ? &other : &nobody;
}

static int consume_nothing(void *consumer, const char *data, size_t len)
{
    (void)consumer;
    (void)data;
    (void)len;
    return -EPERM;
}

static void answer_refused(void *consumer, struct gt_http_response *response)
{
    const struct refusal *refusal = consumer;
    response->status = refusal->status;
    gt_buf_puts(&response->body, refusal->why);
}

static bool placement_part_on_body(void *self, const struct gt_http_request *request,
                                   struct gt_http_consumer *ret)
{
    struct placement_part *part = self;
    const struct refusal *refusal =
        is_webhook(request->path) ? placement_part_refusal_of(part, request) : NULL;
    if (!refusal)
        return false;
    part->counts.forbidden++;
    *ret = (struct gt_http_consumer){.consumer = (void *)(uintptr_t)refusal,
                                     .consume = consume_nothing,
                                     .done = answer_refused,
                                     .body_max = ret->body_max};
    return true;
}

static bool placement_part_serve(void *self, const struct gt_http_request *request,
                                 struct gt_http_response *response)
{
    struct placement_part *part = self;
    if (strcmp(request->path, "/webhook/mutate") == 0)
        answer_review(part, gt_webhook_mutate, &part->counts.mutated, request, response);
    else if (strcmp(request->path, "/webhook/validate") == 0)
        answer_review(part, gt_webhook_validate, &part->counts.validated, request, response);
    else if (strcmp(request->path, "/webhook/forbid") == 0)
        answer_review(part, gt_webhook_forbid, &part->counts.broken, request, response);
    else
        return false;
    return true;
}

/* ---- creation and end ---- */

static void placement_part_free(void *self)
{
    struct placement_part *part = self;
    if (!part)
        return;
    gt_informers_remove_handlers(part->informers, part);
    gt_source_free(part->sync_timer);
    gt_audit_watch_free(part->audit);
    gt_moved_gpus_free(part->moved);
    gt_claim_templates_free(part->templates);
    gt_owner_watch_free(part->watch);
    gt_own_claims_free(part->own_claims);
    gt_placement_free(part->placement);
    gt_namespace_weights_free(part->weights);
    gt_owners_free(part->owners);
    gt_pod_groups_free(part->pod_groups);
    free(part);
}
GT_DEFINE_CLEANUP(void *, placement_part_free)

static int start_controller(const struct gt_part_env *env, struct placement_part *part, struct gt_err **err)
{
    struct gt_placement_spec spec = {
        .loop = env->loop,
        .kube = env->kube,
        .recorder = env->recorder,
        .cache = gt_informers_cache(env->informers),
        .owners = part->owners,
        .pod_groups = part->pod_groups,
        .options = env->options->placement,
        .weight = placement_part_weight_of,
        .on_note = on_note,
        .arg = part,
        .may_write = env->is_leading,
        .may_write_arg = env->leading_arg,
    };
    struct gt_owner_watch_spec watch = {.kube = env->kube,
                                        .owners = part->owners,
                                        .pod_groups = part->pod_groups,
                                        .prepare = prepare_owner,
                                        .on_deleted = owner_gone,
                                        .on_owner = on_owner,
                                        .on_pod_group = on_pod_group,
                                        .arg = part};
    GT_TRY(gt_placement_new(&spec, &part->placement, err));
    GT_TRY(gt_owner_watch_new(&watch, &part->watch, err));
    return gt_loop_add_timer(env->loop, placement_part_on_sync_timer, part, &part->sync_timer, err);
}

static int placement_part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    GT_CLEANUP(placement_part_free) void *made = calloc(1, sizeof(struct placement_part));
    struct placement_part *part = made;
    if (!part)
        return gt_fail(err, ENOMEM, "no memory");
    part->informers = env->informers;
    part->namespace_ = env->namespace_;
    part->clients = env->options->serve.webhook_clients;
    part->not_asked = env->options->serve.webhook_except;
    part->serves_https = env->options->serve.https != NULL;
    GT_TRY(gt_owners_new(GT_RESOURCE_GPU, &part->owners, err));
    GT_TRY(gt_pod_groups_new(GT_RESOURCE_GPU, &part->pod_groups, err));
    GT_TRY(gt_namespace_weights_new(env->kube, env->namespace_, on_weights, part, &part->weights, err));
    GT_TRY(start_controller(env, part, err));
    GT_TRY(gt_audit_watch_new(env, part->owners, &part->audit, err));
    GT_TRY(gt_moved_gpus_new(env, &part->moved, err));
    part->claims = env->options->placement.claims;
    if (part->claims != GT_CLAIMS_OFF)
        GT_TRY(gt_claim_templates_new(env, &part->templates, err));
    if (part->templates)
        GT_TRY(gt_own_claims_new(&(struct gt_own_claims_spec){.cache = gt_informers_cache(env->informers),
                                                              .owners = part->owners,
                                                              .on_owner = on_owner,
                                                              .arg = part},
                                 &part->own_claims, err));
    gt_informers_add_handlers(env->informers,
                              &(struct gt_cache_handlers){.observe_pod = observe_pod,
                                                          .made_pod = made_pod,
                                                          .observe = placement_part_observe,
                                                          .observe_deleted = placement_part_observe_deleted,
                                                          .on_pod = placement_part_on_pod,
                                                          .on_pod_deleted = on_pod_deleted,
                                                          .on_refused = on_refused,
                                                          .on_capacity = placement_part_on_capacity,
                                                          .on_relist = on_relist,
                                                          .on_listed = placement_part_on_listed,
                                                          .arg = part});
    *ret = gt_steal(made);
    return 0;
}

static bool placement_part_ready(const void *self, struct gt_buf *why)
{
    const struct placement_part *part = self;
    if (!gt_informers_is_synced(part->informers, why))
        return false;
    if (!gt_owner_watch_is_synced(part->watch)) {
        gt_buf_puts(why, "waiting for the list of jobs");
        return false;
    }
    return true;
}

static struct gt_placement *part_placement(void *self)
{
    return ((struct placement_part *)self)->placement;
}

/* ---- metrics ---- */

static void placement_part_metrics(const void *self, struct gt_buf *to)
{
    const struct placement_part *part = self;
    gt_placement_metrics(part->placement, to);
    gt_audit_watch_metrics(part->audit, to);
    gt_prom_by(to, "gputopo_webhook_reviews_total", "Questions of the API server, by kind.", "kind",
               (const struct gt_prom_sample[]){{"mutate", part->counts.mutated},
                                               {"validate", part->counts.validated},
                                               {"forbid", part->counts.broken},
                                               {"nonsense", part->counts.refused},
                                               {"forbidden", part->counts.forbidden},
                                               {NULL, 0}});
    if (part->serves_https)
        gt_prom_number(to, "gputopo_webhook_pods_total",
                       "Pods with GPUs that were made where the webhook should have been asked.",
                       part->counts.pods_made);
}

const struct gt_part gt_placement_part = {
    .name = "placement",
    .help = "plans the gated pods of jobs with groups; its webhook sets the gates",
    .kinds = GT_INFORMER_CLUSTER | 1U << GT_INFORMER_PLACEMENTS | 1U << GT_INFORMER_QUOTAS,
    .new = placement_part_new,
    .free = placement_part_free,
    .ready = placement_part_ready,
    .lead = placement_part_lead,
    .metrics = placement_part_metrics,
    .serve = placement_part_serve,
    .on_body = placement_part_on_body,
    .placement = part_placement,
};
