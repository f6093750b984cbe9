/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/extender.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/json_get.h"
#include "base/prometheus.h"
#include "base/text.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/wire/request.h"

static const char *const paths[GT_WIRE_VERBS] = {
    [GT_WIRE_FILTER] = "/kube-scheduler/filter",          [GT_WIRE_PRIORITIZE] = "/kube-scheduler/prioritize",
    [GT_WIRE_PREEMPT] = "/kube-scheduler/preempt",        [GT_WIRE_VOLCANO_PREDICATE] = "/volcano/predicate",
    [GT_WIRE_VOLCANO_PRIORITIZE] = "/volcano/prioritize",
};

/* 10,000 nodes of 50 KB each, of which little is stored */
static const size_t body_max = (size_t)512 << 20;

static const double limits[] = {25e-6, 50e-6, 100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3};
enum { BUCKETS = GT_COUNT(limits) + 1 };

struct extender_query; /* one request, from the beginning of its body to the answer */

struct gt_extender {
    struct gt_extender_spec spec;
    bool ready;
    struct extender_query *idle[GT_WIRE_VERBS]; /* kept with its memory for the next request */

    /* scratch, one entry for each node of a request */
    double *values;
    uint32_t *ids;
    struct gt_filter_verdict *verdicts;
    uint8_t *tens;
    uint32_t capacity;

    uint64_t answered[GT_WIRE_VERBS], refused[GT_WIRE_VERBS], unready[GT_WIRE_VERBS],
        forbidden[GT_WIRE_VERBS];
    uint64_t buckets[BUCKETS];
    double seconds;
};

struct extender_query {
    struct gt_extender *extender;
    enum gt_wire_verb verb;
    struct gt_wire_request *request;
    struct gt_err *err;
    bool unready;
};

static void query_free(struct extender_query *query)
{
    if (!query)
        return;
    gt_wire_request_free(query->request);
    gt_err_free(query->err);
    free(query);
}
GT_DEFINE_CLEANUP(struct extender_query *, query_free)

static struct extender_query *query_new(struct gt_extender *extender, enum gt_wire_verb verb)
{
    GT_CLEANUP(query_free) struct extender_query *query = calloc(1, sizeof(*query));
    if (!query)
        return NULL;
    query->extender = extender;
    query->verb = verb;
    query->request = gt_wire_request_new(verb);
    return query->request ? gt_steal(query) : NULL;
}

/* ---- scratch ---- */

static bool extender_grow(void *array, size_t size, uint32_t count)
{
    void **at = array, *grown = realloc(*at, size * count);
    if (grown)
        *at = grown;
    return grown != NULL;
}

static bool extender_reserve(struct gt_extender *extender, uint32_t count)
{
    uint32_t capacity = extender->capacity ? extender->capacity : 1024;
    while (capacity < count)
        capacity *= 2;
    if (capacity == extender->capacity)
        return true;
    extender->capacity = 0;
    if (!extender_grow(&extender->values, sizeof(*extender->values), capacity) ||
        !extender_grow(&extender->ids, sizeof(*extender->ids), capacity) ||
        !extender_grow(&extender->verdicts, sizeof(*extender->verdicts), capacity) ||
        !extender_grow(&extender->tens, sizeof(*extender->tens), capacity))
        return false;
    extender->capacity = capacity;
    return true;
}

/* ---- answers ---- */

static struct gt_extender_pod extender_pod(const struct gt_extender *extender,
                                           const struct gt_wire_request *request)
{
    static const char *const names[GT_MIX_RESOURCES] = {
        [GT_MIX_CPU] = GT_RESOURCE_CPU, [GT_MIX_MEMORY] = GT_RESOURCE_MEMORY};
    const struct gt_pod *from = &request->pod;
    struct gt_extender_pod pod = {.namespace_ = from->meta.namespace_,
                                  .name = from->meta.name,
                                  .uid = from->uid ? from->uid : "",
                                  .gpus = from->gpus.total,
                                  .asked.requests = from->gpus.requests};
    for (unsigned i = 0; i < GT_MIX_RESOURCES; i++) {
        uint64_t amount = 0;
        gt_resources_get(&from->asked, names[i], &amount);
        pod.asked.of[i] = (int64_t)amount;
    }
    gt_extender_pod_find(extender->spec.cache, &pod);
    return pod;
}

static void filter(struct gt_extender *extender, const struct gt_wire_request *request, struct gt_buf *to)
{
    struct gt_extender_pod pod = extender_pod(extender, request);
    const struct gt_cluster *cluster = gt_cache_cluster(extender->spec.cache);
    struct gt_node_set passed = {0};
    gt_auto_buf struct gt_buf reasons = GT_BUF((size_t)GT_WIRE_NODES_MAX * GT_FEASIBILITY_REASON_MAX);
    uint64_t now_ms = gt_clock_ms();
    gt_cache_pass(extender->spec.cache, pod.namespace_, pod.name, gt_mix_numa_pod(&pod.asked), &passed,
                  now_ms); /* it asks again */
    for (uint32_t i = 0; i < request->count; i++) {
        uint32_t node = gt_cluster_find_node(cluster, request->nodes[i]);
        enum gt_feasibility feasibility =
            gt_node_feasibility(extender->spec.cache, extender->spec.placement, &pod, node);
        if (feasibility == GT_FEASIBLE && pod.gpus && pod.planned == GT_NONE &&
            gt_numa_judges(cluster, node) && gt_node_set_add(&passed, node, NULL) < 0)
            feasibility = GT_NUMA_REFUSED; /* no memory */
        extender->ids[i] = (uint32_t)reasons.len;
        extender->verdicts[i] = (struct gt_filter_verdict){.reason = feasibility == GT_FEASIBLE ? NULL : ""};
        if (feasibility == GT_FEASIBLE)
            continue;
        extender->verdicts[i].unresolvable = feasibility == GT_PLANNED_ELSEWHERE;
        gt_feasibility_reason(extender->spec.cache, extender->spec.placement, &pod, node, feasibility,
                              &reasons);
        gt_buf_add(&reasons, "", 1);
    }
    gt_cache_pass(extender->spec.cache, pod.namespace_, pod.name, gt_mix_numa_pod(&pod.asked), &passed,
                  now_ms);
    if (reasons.failed) {
        gt_filter_error(to, "gputopo: no memory for the reasons");
        return;
    }
    for (uint32_t i = 0; i < request->count; i++) /* now that their addresses are final */
        if (extender->verdicts[i].reason)
            extender->verdicts[i].reason = reasons.data + extender->ids[i];
    gt_filter_answer(to, request, extender->verdicts);
}

/* ---- preemption ---- */

/* What it costs to preempt on a node, and the GPUs that the pod would get. */
struct extender_preemption {
    int64_t violations; /* of disruption budgets */
    int64_t priority;   /* the highest of a victim with GPUs */
    struct gt_choice choice;
};

static bool is_victim(const cJSON *victims, const struct gt_cache_pod *pod)
{
    const cJSON *pods = gt_get(victims, "Pods"), *victim = pods ? pods->child : NULL;
    while (victim && strcmp(gt_get_string(victim, "UID"), pod->uid) != 0)
        victim = victim->next;
    return victim;
}

/* False: the pod would not get its GPUs there, for example since the node is reserved for another one. */
static bool look_at_preemption(const struct gt_extender *extender, const struct gt_extender_pod *pod,
                               const struct gt_wire_request *request, uint32_t at,
                               struct extender_preemption *ret)
{
    const struct gt_cluster *cluster = gt_cache_cluster(extender->spec.cache);
    uint32_t id = gt_cluster_find_node(cluster, request->nodes[at]);
    struct gt_cluster_node node;
    *ret = (struct extender_preemption){.priority = INT64_MIN};
    gt_json_is_int(gt_get(request->victims[at], "NumPDBViolations"), &ret->violations);
    if (!gt_cluster_get_node(cluster, id, &node)) {
        ret->priority = INT64_MAX; /* nothing is known of it: others come first */
        return true;
    }
    if ((pod->planned != GT_NONE && pod->planned != id) ||
        gt_node_is_kept(extender->spec.cache, extender->spec.placement, pod, id))
        return false;
    uint64_t available = gt_node_available(&node, gt_cluster_promised(cluster, id, GT_PROMISE_NOTED));
    for (unsigned gpu = 0; gpu < gt_class_gpus(node.class); gpu++) {
        const struct gt_cache_pod *user = gt_cache_gpu_user(extender->spec.cache, id, gpu);
        if (!user || !is_victim(request->victims[at], user))
            continue;
        available |= node.healthy & UINT64_C(1) << gpu;
        ret->priority = user->priority > ret->priority ? user->priority : ret->priority;
    }
    return gt_choose(node.class, available, 0, pod->gpus, 0, &ret->choice);
}

/* kube-scheduler looks at violations and at the highest priority first, too. */
static int compare_preemptions(const struct extender_preemption *a, const struct extender_preemption *b)
{
    GT_BY(a->violations, b->violations);
    GT_BY(a->priority, b->priority);
    GT_BY(b->choice.score, a->choice.score);
    return (a->choice.loss > b->choice.loss) - (a->choice.loss < b->choice.loss);
}

/* Of the nodes that are equally good so far kube-scheduler chooses one by its other rules. */
static void preempt(struct gt_extender *extender, const struct gt_wire_request *request, struct gt_buf *to)
{
    struct gt_extender_pod pod = extender_pod(extender, request);
    struct extender_preemption best = {0}, one;
    bool any = false;
    for (uint32_t i = 0; i < request->count; i++) {
        extender->tens[i] = !pod.gpus;
        if (!pod.gpus || !look_at_preemption(extender, &pod, request, i, &one))
            continue;
        int order = any ? compare_preemptions(&one, &best) : -1;
        if (order < 0) {
            memset(extender->tens, 0, i);
            best = one;
        }
        extender->tens[i] = order <= 0;
        any = true;
    }
    gt_preempt_answer(to, request, extender->tens);
}

static void predicate(struct gt_extender *extender, const struct gt_wire_request *request, struct gt_buf *to)
{
    struct gt_extender_pod pod = extender_pod(extender, request);
    gt_auto_buf struct gt_buf reason = GT_BUF(4 << 10);
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(extender->spec.cache), request->nodes[0]);
    enum gt_feasibility feasibility =
        gt_node_feasibility(extender->spec.cache, extender->spec.placement, &pod, node);
    if (feasibility == GT_FEASIBLE) {
        gt_predicate_answer(to, NULL, GT_VOLCANO_UNSCHEDULABLE);
        return;
    }
    gt_feasibility_reason(extender->spec.cache, extender->spec.placement, &pod, node, feasibility, &reason);
    gt_predicate_answer(
        to, reason.data && reason.len ? reason.data : "gputopo has reserved this node for others",
        feasibility == GT_PLANNED_ELSEWHERE ? GT_VOLCANO_UNRESOLVABLE : GT_VOLCANO_UNSCHEDULABLE);
}

static void score(struct gt_extender *extender, const struct gt_wire_request *request, struct gt_buf *to)
{
    struct gt_extender_pod pod = extender_pod(extender, request);
    bool volcano = request->verb == GT_WIRE_VOLCANO_PRIORITIZE;
    gt_node_values(extender->spec.cache, &pod.asked, pod.planned, request->nodes,
                   volcano ? request->idle : NULL, request->count, extender->values, extender->ids);
    const struct gt_aware_weights weights =
        gt_node_weights(extender->spec.cache, &extender->spec.weights, pod.known);
    gt_node_values_near(extender->spec.cache, &weights, pod.known, extender->ids, request->count,
                        extender->values);
    if (volcano) {
        gt_volcano_scores(extender->spec.cache, &weights, extender->values, extender->ids, request->count,
                          extender->values);
        gt_node_score_answer(to, request, extender->values);
        return;
    }
    gt_score_kube_scheduler(gt_cache_cluster(extender->spec.cache), &weights, extender->values, extender->ids,
                            request->count, extender->tens);
    gt_prioritize_answer(to, request, extender->tens);
}

static int answer_query(struct gt_extender *extender, struct extender_query *query, struct gt_buf *to)
{
    static void (*const answers[GT_WIRE_VERBS])(struct gt_extender *, const struct gt_wire_request *,
                                                struct gt_buf *) = {
        [GT_WIRE_FILTER] = filter,
        [GT_WIRE_PRIORITIZE] = score,
        [GT_WIRE_PREEMPT] = preempt,
        [GT_WIRE_VOLCANO_PREDICATE] = predicate,
        [GT_WIRE_VOLCANO_PRIORITIZE] = score,
    };
    GT_TRY(gt_wire_request_read(query->request, &query->err));
    if (!extender_reserve(extender, query->request->count))
        return gt_fail(&query->err, ENOMEM, "no memory for %u nodes", query->request->count);
    answers[query->verb](extender, query->request, to);
    return 0;
}

static void count_time(struct gt_extender *extender, uint64_t since_ns)
{
    double seconds = (double)(gt_clock_ns() - since_ns) * 1e-9;
    unsigned bucket = 0;
    while (bucket < BUCKETS - 1 && seconds > limits[bucket])
        bucket++;
    extender->buckets[bucket]++;
    extender->seconds += seconds;
}

/* ---- a body ---- */

static int extender_consume(void *arg, const char *data, size_t len)
{
    struct extender_query *query = arg;
    if (query->unready)
        return -EAGAIN;
    return gt_wire_request_feed(query->request, data, len, &query->err);
}

/* All memory counts, also the little that is kept for the next request. */
static size_t bytes_used(const void *arg)
{
    return gt_wire_request_bytes(((const struct extender_query *)arg)->request);
}

static void extender_refuse(struct gt_http_response *response, unsigned status, const char *why)
{
    response->status = status;
    gt_buf_printf(&response->body, "%s\n", why);
}

static void extender_done(void *arg, struct gt_http_response *response)
{
    struct extender_query *query = arg;
    struct gt_extender *e = query->extender;
    uint64_t start = gt_clock_ns();
    if (query->unready) {
        e->unready[query->verb]++;
        extender_refuse(response, 503, "gputopo-scheduler has not read the cluster yet");
        return;
    }
    int r = -gt_err_code(query->err);
    if (r == 0)
        r = answer_query(e, query, &response->body);
    if (r < 0) {
        e->refused[query->verb]++;
        extender_refuse(response,
                        r == -ENOMEM                    ? 503
                        : r == -EMSGSIZE || r == -E2BIG ? 413
                                                        : 400,
                        gt_err_text(query->err));
        return;
    }
    response->content_type = "application/json";
    e->answered[query->verb]++;
    count_time(e, start);
}

/* One for each verb is kept for the next request. */
static void extender_put_back(void *arg)
{
    struct extender_query *query = arg;
    struct gt_extender *e = query->extender;
    gt_err_free(query->err);
    query->err = NULL;
    query->unready = false;
    if (e->idle[query->verb]) {
        query_free(query);
        return;
    }
    gt_wire_request_reset(query->request);
    e->idle[query->verb] = query;
}

/* ---- the endpoint ---- */

static enum gt_wire_verb verb_of(const char *path)
{
    unsigned verb = 0;
    while (verb < GT_WIRE_VERBS && strcmp(path, paths[verb]) != 0)
        verb++;
    return (enum gt_wire_verb)verb;
}

static bool is_json(const char *content_type)
{
    static const char json[] = "application/json";
    size_t length = sizeof(json) - 1;
    return content_type && strncasecmp(content_type, json, length) == 0 &&
           (content_type[length] == '\0' || content_type[length] == ';' || content_type[length] == ' ');
}

/* The status of the refusal where this client may not send this request, since it has no certificate or not
 * an accepted name; else 0. */
static unsigned forbids(const struct gt_extender *extender, enum gt_wire_verb verb,
                        const struct gt_http_request *request)
{
    if (!extender->spec.client_wanted || verb > GT_WIRE_PREEMPT)
        return 0;
    if (!request->client)
        return 401;
    return gt_http_client_is(request, extender->spec.clients) ? 0 : 403;
}

static struct extender_query *open_query(struct gt_extender *extender, enum gt_wire_verb verb)
{
    struct extender_query *query = extender->idle[verb] ? extender->idle[verb] : query_new(extender, verb);
    if (!query)
        return NULL;
    extender->idle[verb] = NULL;
    query->unready = !extender->ready;
    return query;
}

bool gt_extender_on_body(struct gt_extender *extender, const struct gt_http_request *request,
                         struct gt_http_consumer *ret)
{
    enum gt_wire_verb verb = verb_of(request->path);
    if (verb == GT_WIRE_VERBS || !is_json(request->content_type) || forbids(extender, verb, request))
        return false;
    struct extender_query *query = open_query(extender, verb);
    if (!query)
        return false;
    *ret = (struct gt_http_consumer){.consumer = query,
                                     .consume = extender_consume,
                                     .done = extender_done,
                                     .free = extender_put_back,
                                     .bytes_used = bytes_used,
                                     .body_max = body_max};
    return true;
}

static void refuse_client(struct gt_extender *extender, enum gt_wire_verb verb,
                          const struct gt_http_request *request, unsigned status,
                          struct gt_http_response *response)
{
    extender->forbidden[verb]++;
    if (status == 401) {
        extender_refuse(response, status, "this is asked with a client certificate");
        return;
    }
    response->status = status;
    gt_buf_puts(&response->body, "the client certificate is that of ");
    gt_text_quote(&response->body, request->client);
    gt_buf_printf(&response->body, "; who may ask this (--extender-clients): %s\n", extender->spec.clients);
}

bool gt_extender_serve(struct gt_extender *extender, const struct gt_http_request *request,
                       struct gt_http_response *response)
{
    enum gt_wire_verb verb = verb_of(request->path);
    if (verb == GT_WIRE_VERBS)
        return false;
    unsigned forbidden = forbids(extender, verb, request);
    if (request->method != GT_HTTP_POST)
        extender_refuse(response, 405, "this is asked with POST");
    else if (forbidden)
        refuse_client(extender, verb, request, forbidden, response);
    else if (!is_json(request->content_type))
        extender_refuse(response, 415, "expected the content type application/json");
    else /* otherwise its body is read in pieces */
        extender_refuse(response, 503, "no memory for one more question");
    return true;
}

int gt_extender_new(const struct gt_extender_spec *spec, struct gt_extender **ret, struct gt_err **err)
{
    struct gt_extender *extender = calloc(1, sizeof(*extender));
    if (!extender)
        return gt_fail(err, ENOMEM, "no memory for the extender");
    extender->spec = *spec;
    *ret = extender;
    return 0;
}

void gt_extender_free(struct gt_extender *extender)
{
    if (!extender)
        return;
    for (unsigned verb = 0; verb < GT_WIRE_VERBS; verb++)
        query_free(extender->idle[verb]);
    free(extender->values);
    free(extender->ids);
    free(extender->verdicts);
    free(extender->tens);
    free(extender);
}

void gt_extender_set_ready(struct gt_extender *extender, bool ready)
{
    extender->ready = ready;
}

void gt_extender_metrics(const struct gt_extender *extender, struct gt_buf *to)
{
    static const char name[] = "gputopo_extender_requests_total";
    gt_prom_head(to, name, "Questions of schedulers, by path and result.");
    for (unsigned verb = 0; verb < GT_WIRE_VERBS; verb++) {
        const struct gt_prom_sample results[] = {{"answered", extender->answered[verb]},
                                                 {"refused", extender->refused[verb]},
                                                 {"not_ready", extender->unready[verb]},
                                                 {"forbidden", extender->forbidden[verb]}};
        for (unsigned i = 0; i < GT_COUNT(results); i++)
            gt_buf_printf(to, "%s{path=\"%s\",result=\"%s\"} %llu\n", name, paths[verb], results[i].of,
                          (unsigned long long)results[i].value);
    }
    gt_prom_histogram(to, "gputopo_extender_decision_seconds",
                      "Time for a decision, from the end of its body to the answer.",
                      &(struct gt_prom_buckets){limits, extender->buckets, BUCKETS, extender->seconds});
}
