/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/explain.h"

#include <stdio.h>
#include <string.h>

#include "api/identity.h"
#include "base/json_write.h"
#include "base/text.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/unit_room.h"

enum { QUERY_NAME_MAX = 1024, CANDIDATES_MAX = 8 };

/* ---- finding the pod, job or node ---- */

struct found {
    struct {
        const struct gt_cache_pod *pod;
        const struct gt_cache_job *job;
        uint32_t node; /* where it is neither */
    } all[CANDIDATES_MAX];
    uint32_t count;
};

static void add_found(struct found *found, const struct gt_cache_pod *pod, const struct gt_cache_job *job)
{
    if (found->count < CANDIDATES_MAX) {
        found->all[found->count].pod = pod;
        found->all[found->count].job = job;
    }
    found->count++;
}

static void explain_find_pods(const struct gt_cache *cache, const char *text, struct found *found)
{
    const char *slash = strchr(text, '/');
    if (slash) {
        gt_auto_free char *namespace_ = strndup(text, (size_t)(slash - text));
        const struct gt_cache_pod *pod = namespace_ ? gt_cache_find_pod(cache, namespace_, slash + 1) : NULL;
        if (pod)
            add_found(found, pod, NULL);
        return;
    }
    for (const struct gt_cache_pod *pod = NULL; (pod = gt_cache_next_pod(cache, pod));)
        if (strcmp(pod->meta.name, text) == 0)
            add_found(found, pod, NULL);
}

/* NAME, NAMESPACE/NAME or NAMESPACE/KIND/NAME, with that name. */
static bool is_called(const struct gt_cache_job *job, const char *name, const char *text)
{
    const struct gt_cache_pod *pod = job->pods;
    const char *parts[] = {pod->meta.namespace_, gt_debug_job_kind(job), name};
    const char *slash = strchr(text, '/');
    bool kind = slash && strchr(slash + 1, '/');
    for (unsigned i = slash ? 0 : 2; i < GT_COUNT(parts); i++) {
        if (i == 1 && !kind)
            continue;
        size_t len = strlen(parts[i]);
        if (strncmp(text, parts[i], len) != 0 || text[len] != (i < 2 ? '/' : '\0'))
            return false;
        text += len + 1;
    }
    return *name;
}

/* The name of the object that has several jobs. */
static const char *object_name(const struct gt_cache_job *job)
{
    struct gt_pod_identity identity;
    if (gt_pod_identify(&job->pods->meta, &identity, NULL) < 0)
        return "";
    return identity.owner ? identity.owner : identity.job;
}

/* KubeRay names a RayCluster by the RayJob or RayService that has it: NAME-12345, NAME-raycluster-12345. */
static const char *name_of_ray_owner(const struct gt_cache_job *job, char *to, size_t size)
{
    enum { RANDOM = 5 };
    static const char between[] = "-raycluster";
    const char *name = object_name(job);
    size_t len = strlen(name), more = sizeof(between) - 1;
    if (strcmp(gt_debug_job_kind(job), "RayCluster") != 0 || len <= RANDOM + 1 ||
        name[len - RANDOM - 1] != '-')
        return "";
    len -= RANDOM + 1;
    if (len > more && strncmp(name + len - more, between, more) == 0)
        len -= more;
    snprintf(to, size, "%.*s", (int)len, name);
    return to;
}

static void find_jobs(const struct gt_cache *cache, const char *text, struct found *found)
{
    const struct gt_cache_job *exact = gt_cache_find_job(cache, text);
    const uint32_t before = found->count;
    char ray[QUERY_NAME_MAX];
    if (exact) {
        add_found(found, NULL, exact);
        return;
    }
    for (unsigned names = 0; names < 3 && found->count == before; names++)
        for (const struct gt_cache_job *job = NULL; (job = gt_cache_next_job(cache, job));)
            if (is_called(job,
                          names == 0   ? gt_job_key_name(job->key)
                          : names == 1 ? object_name(job)
                                       : name_of_ray_owner(job, ray, sizeof(ray)),
                          text))
                add_found(found, NULL, job);
}

static void find_node(const struct gt_debug_view *view, const char *text, struct found *found)
{
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(view->cache), text);
    if (node == GT_NONE)
        return;
    if (found->count < CANDIDATES_MAX)
        found->all[found->count].node = node;
    add_found(found, NULL, NULL);
}

/* A pod without a controller is a job of the same name. */
static void find_either(const struct gt_cache *cache, const char *text, struct found *found)
{
    explain_find_pods(cache, text, found);
    uint32_t pods = found->count;
    find_jobs(cache, text, found);
    if (pods == 1 && found->count == 2 && found->all[1].job == found->all[0].pod->job &&
        found->all[1].job->pod_count == 1)
        found->count = 1;
}

/* ---- other answers ---- */

static void add_candidates(const struct found *found, const char *text, struct gt_buf *to)
{
    gt_buf_printf(to, "%u have the name ", found->count);
    gt_text_quote(to, text);
    for (uint32_t i = 0; i < found->count && i < CANDIDATES_MAX; i++) {
        const struct gt_cache_pod *pod = found->all[i].pod;
        gt_buf_puts(to, i ? ", " : ": ");
        if (pod)
            gt_buf_printf(to, "pod %s/%s", pod->meta.namespace_, pod->meta.name);
        else if (found->all[i].job)
            gt_buf_printf(to, "job %s", found->all[i].job->key);
        else
            gt_buf_puts(to, "a node");
    }
    gt_buf_printf(to, "%s; say which\n", found->count > CANDIDATES_MAX ? " and more" : "");
}

static void add_no_candidate(const char *what, const char *text, struct gt_buf *to)
{
    gt_buf_printf(to, "there is no %s ", what);
    gt_text_quote(to, text);
    gt_buf_puts(to, strcmp(what, "node") == 0 ? " with GPUs\n" : " that asks for GPUs and has not ended\n");
}

/* ---- explanations ---- */

static bool needs_nodes(const struct gt_cache_pod *pod)
{
    return (pod->state == GT_CACHE_GATED || pod->state == GT_CACHE_WAITING) &&
           pod->plan != GT_CACHE_PLAN_ASSUMED && !pod->deleting && pod->gpus > 0 && pod->gpus <= GT_GPUS_MAX;
}

static void add_nodes_json(const struct gt_debug_view *view, const struct gt_feasible_nodes *nodes,
                           struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node node;
    gt_json_add_unsigned(to, "feasible", nodes->feasible);
    gt_json_begin(to, "best", '[');
    for (unsigned i = 0; i < nodes->best_count; i++) {
        const struct gt_assessed_node *best = &nodes->best[i];
        gt_json_begin(to, NULL, '{');
        gt_json_add_text_or_null(to, "node",
                                 gt_cluster_get_node(cluster, best->id, &node) ? node.name : NULL);
        gt_json_add_real(to, "value", best->value, 6);
        gt_json_add_bool(to, "exactFit", best->exact);
        gt_json_add_real(to, "scorePart", best->score_part, 6);
        gt_json_add_real(to, "lossPart", best->loss_part, 6);
        gt_json_add_real(to, "strandedPart", best->stranded_part, 6);
        gt_json_add_unsigned(to, "kubeScheduler", best->ten);
        gt_json_add_real(to, "volcano", best->sum, 6);
        gt_json_add_mask(to, "gpus", best->mask);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
    gt_json_begin(to, "refused", '[');
    for (enum gt_refusal refusal = 0; refusal < GT_REFUSALS; refusal++) {
        const struct gt_refused *refused = &nodes->refused[refusal];
        if (!refused->count)
            continue;
        gt_json_begin(to, NULL, '{');
        gt_json_add_text_or_null(to, "reason", gt_refusal_name(refusal));
        gt_json_add_unsigned(to, "nodes", refused->count);
        gt_json_begin(to, "examples", '[');
        for (uint32_t i = 0; i < refused->count && i < GT_ASSESSED_EXAMPLES; i++) {
            bool known = gt_cluster_get_node(cluster, refused->examples[i], &node);
            gt_json_add_text(to, NULL, known ? node.name : "");
        }
        gt_buf_puts(to, "]}");
    }
    gt_json_end(to, ']');
}

/* Where a pod could go: a unit's to a supernode, any other to a node. */
static void explain_add_places(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool json,
                               struct gt_buf *to)
{
    struct gt_feasible_nodes nodes;
    struct gt_unit_rooms rooms;
    bool unit = gt_unit_rooms_apply(view, pod), with_nodes = json || !unit;
    if ((with_nodes && gt_feasible_nodes(view, pod, &nodes, NULL) < 0) ||
        (unit && gt_unit_rooms_find(view, pod, &rooms, NULL) < 0)) {
        to->failed = true;
        return;
    }
    if (with_nodes && json)
        add_nodes_json(view, &nodes, to);
    else if (with_nodes)
        gt_explain_nodes_text(view, pod, &nodes, to);
    if (unit && json)
        gt_unit_rooms_json(view, &rooms, to);
    else if (unit)
        gt_unit_rooms_text(view, &rooms, to);
}

static void explain_pod(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool json,
                        struct gt_http_response *response)
{
    struct gt_buf *to = &response->body;
    if (!json) {
        gt_explain_pod_text(view, pod, to);
        if (needs_nodes(pod))
            explain_add_places(view, pod, json, to);
        return;
    }
    gt_json_begin(to, NULL, '{');
    gt_json_add_text_or_null(to, "namespace", pod->meta.namespace_);
    gt_json_key(to, "pod");
    gt_model_pod_json(view, pod, true, to);
    gt_json_key(to, "job");
    gt_model_job_json(view, pod->job, false, false, to);
    if (needs_nodes(pod))
        explain_add_places(view, pod, json, to);
    gt_buf_puts(to, "}\n");
}

/* A pod of the job without a place: for most nodes all of them have the same result. */
static const struct gt_cache_pod *without_place(const struct gt_cache_job *job)
{
    const struct gt_cache_pod *pod = job->pods;
    while (pod && !needs_nodes(pod))
        pod = pod->next;
    return pod;
}

static void explain_job(const struct gt_debug_view *view, const struct gt_cache_job *job, bool json,
                        struct gt_http_response *response)
{
    const struct gt_cache_pod *pod = without_place(job);
    struct gt_buf *to = &response->body;
    if (!json) {
        gt_explain_job_text(view, job, to);
        if (pod)
            explain_add_places(view, pod, json, to);
        return;
    }
    gt_json_begin(to, NULL, '{');
    gt_json_key(to, "job");
    gt_model_job_json(view, job, true, true, to);
    if (pod) {
        gt_json_add_text_or_null(to, "example", pod->meta.name);
        explain_add_places(view, pod, json, to);
    }
    gt_buf_puts(to, "}\n");
}

static void explain_node(const struct gt_debug_view *view, uint32_t node, bool json,
                         struct gt_http_response *response)
{
    struct gt_buf *to = &response->body;
    if (!json) {
        gt_explain_node_text(view, node, to);
        return;
    }
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 10);
    gt_explain_node_text(view, node, &text);
    gt_json_begin(to, NULL, '{');
    gt_json_key(to, "node");
    gt_model_node_json(view, node, to);
    gt_json_add_text_or_null(to, "text", text.data);
    gt_json_end(to, '}');
    gt_buf_puts(to, "\n");
}

/* The names of all jobs, NAME of one namespace, else NAMESPACE/NAME, as a question takes them. */
static void explain_list_jobs(const struct gt_cache *cache, const char *namespace_, struct gt_buf *to)
{
    for (const struct gt_cache_job *job = NULL; (job = gt_cache_next_job(cache, job));) {
        const char *of = job->pods->meta.namespace_, *name = gt_job_key_name(job->key);
        if (!*namespace_)
            gt_buf_printf(to, "%s/%s\n", of, name);
        else if (strcmp(of, namespace_) == 0)
            gt_buf_printf(to, "%s\n", name);
    }
}

static bool read_format(const char *query, bool *ret_json, bool *ret_name)
{
    char format[16];
    bool given = gt_query_get(query, "format", format, sizeof(format));
    *ret_json = strcmp(format, "json") == 0;
    *ret_name = strcmp(format, "name") == 0;
    return !given || *ret_json || *ret_name || strcmp(format, "text") == 0;
}

void gt_explain(const struct gt_debug_view *view, const char *query, struct gt_http_response *response)
{
    char text[QUERY_NAME_MAX];
    struct found found = {0};
    bool json, list;
    const char *what = "pod";
    if (!read_format(query, &json, &list)) {
        response->status = 400;
        gt_buf_puts(&response->body, "format: expected text, json or name\n");
        return;
    }
    if (list) {
        gt_query_get(query, "namespace", text, sizeof(text));
        explain_list_jobs(view->cache, text, &response->body);
        return;
    }
    if (gt_query_get(query, "pod", text, sizeof(text)) && *text) {
        explain_find_pods(view->cache, text, &found);
    } else if (gt_query_get(query, "job", text, sizeof(text)) && *text) {
        what = "job";
        find_jobs(view->cache, text, &found);
    } else if (gt_query_get(query, "name", text, sizeof(text)) && *text) {
        what = "pod, job or node";
        find_either(view->cache, text, &found);
        find_node(view, text, &found);
    } else if (gt_query_get(query, "node", text, sizeof(text)) && *text) {
        what = "node";
        find_node(view, text, &found);
    } else {
        response->status = 400;
        gt_buf_puts(
            &response->body,
            "expected ?pod=NAMESPACE/NAME, ?job=NAMESPACE/NAME, ?node=NAME or ?name=NAMESPACE/NAME\n");
        return;
    }
    if (found.count != 1) {
        response->status = found.count ? 300 : 404;
        if (found.count)
            add_candidates(&found, text, &response->body);
        else
            add_no_candidate(what, text, &response->body);
        return;
    }
    if (json)
        response->content_type = "application/json";
    if (found.all[0].pod)
        explain_pod(view, found.all[0].pod, json, response);
    else if (found.all[0].job)
        explain_job(view, found.all[0].job, json, response);
    else
        explain_node(view, found.all[0].node, json, response);
}

enum { DECISIONS_ANSWER_MAX = 1 << 20 };

void gt_decisions_serve(const struct gt_placement *placement, const char *query,
                        struct gt_http_response *response)
{
    const struct gt_decision_log *log = gt_placement_decisions(placement);
    char text[24];
    uint64_t after = 0;
    bool given = gt_query_get(query, "after", text, sizeof(text));
    response->content_type = "application/x-ndjson";
    if (given && !gt_text_to_unsigned(text, UINT64_MAX, &after)) {
        response->status = 400;
        response->content_type = "text/plain; charset=utf-8";
        gt_buf_puts(&response->body, "after: expected the number of a decision\n");
    } else if (log)
        gt_decision_log_write(log, after, DECISIONS_ANSWER_MAX, &response->body);
}
