/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "scheduler-ext/decide/node_values.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/volcano/engine.h"

/* The library's handle, and the nodes and tasks of a session. */

static int say_error(char *error, const struct gt_err *from)
{
    return gt_volcano_say(error, -gt_err_code(from), gt_err_text(from));
}

const char *gt_volcano_gpu_resource(void)
{
    return GT_RESOURCE_GPU;
}

int gt_volcano_new(struct gt_volcano **ret, const char *namespace_, const char *kinds, char *error)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_volcano *made = calloc(1, sizeof(*made));
    if (!made)
        return gt_volcano_say(error, -ENOMEM, strerror(ENOMEM));
    const struct gt_cache_spec spec = {.on_pod_deleted = gt_volcano_on_pod_gone, .arg = made};
    made->own.max = GT_CACHE_PODS_MAX;
    for (unsigned i = 0; i < VOLCANO_RESOURCES; i++)
        made->known[i].max = GT_VOLCANO_OBJECTS_MAX;
    made->weights = GT_AWARE_DEFAULT;
    made->brake =
        (struct gt_brake){.option = "brake", .percent = GT_BRAKE_PERCENT, .span_ms = GT_BRAKE_SPAN_MS};
    if (!gt_text_copy(made->trusted, sizeof(made->trusted), *namespace_ ? namespace_ : "gputopo-system"))
        made->trusted[0] = '\0';
    int r = *kinds ? gt_kinds_file_read(kinds, &err) : 0;
    if (r >= 0)
        r = gt_cache_new(&spec, &made->cache, &err);
    made->brake.cache = made->cache;
    if (r >= 0)
        r = gt_owners_new(GT_RESOURCE_GPU, &made->owners, &err);
    if (r < 0) {
        gt_volcano_free(made);
        return say_error(error, err);
    }
    *ret = made;
    return 0;
}

void gt_volcano_free(struct gt_volcano *volcano)
{
    if (!volcano)
        return;
    gt_volcano_close(volcano);
    const struct gt_cache_job *job = volcano->cache ? gt_cache_next_job(volcano->cache, NULL) : NULL;
    for (; job; job = gt_cache_next_job(volcano->cache, job))
        if (job->user)
            gt_volcano_job_free(volcano, job->user);
    free(volcano->note);
    gt_brake_done(&volcano->brake);
    gt_node_set_done(&volcano->leaving_nodes);
    gt_buf_done(&volcano->body);
    gt_ranks_done(&volcano->ranks);
    gt_index_done(&volcano->own);
    for (unsigned i = 0; i < VOLCANO_RESOURCES; i++)
        gt_index_done(&volcano->known[i]);
    gt_owners_free(volcano->owners);
    if (volcano->cache)
        gt_cache_free(volcano->cache);
    free(volcano);
}

/* ---- arguments of gpu-aware ---- */

static const char *const argument_names[] = {"weight", "score.weight", "loss.weight", "closeness.weight"};

static bool session_read_weight(const cJSON *given, double *ret)
{
    double number;
    if (cJSON_IsNumber(given))
        number = given->valuedouble;
    else if (!cJSON_IsString(given) || !gt_text_to_real(given->valuestring, &number))
        return false;
    if (number >= 0)
        *ret = number;
    return number >= 0;
}

static void tell_wrong(const cJSON *given, double standard, struct gt_buf *told)
{
    char *text = cJSON_PrintUnformatted(given);
    gt_buf_printf(told, "%sargument %s: expected a number of 0 or more, got %.100s; %g is used",
                  told->len ? "; " : "", given->string, text ? text : "none", standard);
    cJSON_free(text);
}

static void tell_unknown(const char *name, struct gt_buf *told)
{
    const char *meant = gt_text_meant(name, argument_names, GT_COUNT(argument_names));
    gt_buf_printf(told, "%sunknown argument %.100s: %s", told->len ? "; " : "", name,
                  meant ? meant : "there are");
    for (size_t i = 0; !meant && i < GT_COUNT(argument_names); i++)
        gt_buf_printf(told, "%s %s", i ? "," : "", argument_names[i]);
    gt_buf_puts(told, meant ? " is meant" : "");
}

static void session_read_arguments(const cJSON *arguments, struct gt_aware_weights *weights,
                                   struct gt_buf *told)
{
    double *const values[] = {&weights->weight, &weights->score_weight, &weights->loss_weight,
                              &weights->closeness_weight};
    const cJSON *given;
    cJSON_ArrayForEach(given, arguments)
    {
        size_t i = 0;
        while (i < GT_COUNT(argument_names) && strcmp(argument_names[i], given->string) != 0)
            i++;
        if (i == GT_COUNT(argument_names))
            tell_unknown(given->string, told);
        else if (!session_read_weight(given, values[i]))
            tell_wrong(given, *values[i], told);
    }
}

/* 1 where there is something new to tell. Sessions begin every second with the same arguments. */
static int tell_once(struct gt_volcano *volcano, const struct gt_buf *told, char *error)
{
    uint64_t digest = told->len ? gt_digest_keyed(told->data) : 0;
    bool is_new = digest && digest != volcano->told;
    volcano->told = digest;
    return is_new ? gt_volcano_say(error, 1, told->data) : 0;
}

int gt_volcano_set_arguments(struct gt_volcano *volcano, const char *json, size_t len, char *error)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_json cJSON *arguments = NULL;
    gt_auto_buf struct gt_buf told = GT_BUF(GT_VOLCANO_TEXT_SIZE);
    struct gt_aware_weights weights = GT_AWARE_DEFAULT;
    if (gt_json_parse(json, len, "arguments", &arguments, &err) < 0)
        gt_buf_puts(&told, gt_err_text(err));
    else if (cJSON_IsObject(arguments))
        session_read_arguments(arguments, &weights, &told);
    if (gt_score_set_weights(gt_cache_cluster(volcano->cache), &weights, &err) < 0)
        return say_error(error, err);
    weights.close = weights.closeness_weight > 0;
    volcano->weights = weights;
    return tell_once(volcano, &told, error);
}

/* ---- a session's arrays ---- */

/* Gives up plans of earlier sessions for pods that still wait. */
static void give_up_plans(struct gt_volcano *volcano)
{
    size_t slot = 0;
    struct gt_index_entry *entry;
    while ((entry = gt_index_take_unmarked(&volcano->own, (uint32_t)volcano->session_number, &slot))) {
        struct gt_cache_pod *pod = gt_cache_find_pod(volcano->cache, entry->key, gt_index_name(entry));
        if (pod && pod->state < GT_CACHE_BOUND && gt_digest_keyed(pod->uid) == entry->uid)
            gt_cache_unplan_pod(volcano->cache, pod);
        free(entry);
    }
}

static int by_address(const void *a, const void *b, void *arg)
{
    const struct volcano_task *tasks = arg;
    uintptr_t x = (uintptr_t)tasks[*(const uint32_t *)a].pod, y = (uintptr_t)tasks[*(const uint32_t *)b].pod;
    return (x > y) - (x < y);
}

/* The text that begins at *at, which is moved after its end; NULL: there is none. */
static const char *next_text(const struct volcano_session *session, size_t size, size_t *at)
{
    if (*at >= size)
        return NULL;
    const char *text = session->texts + *at;
    *at += strlen(text) + 1;
    return text;
}

static int session_read_nodes(struct gt_volcano *volcano, const uint32_t *nodes, size_t size)
{
    struct volcano_session *session = &volcano->session;
    const struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    session->ids = gt_cluster_nodes(cluster);
    session->node_names = calloc((size_t)session->node_count + 1, sizeof(*session->node_names));
    session->asked_names = calloc((size_t)session->node_count + 1, sizeof(*session->asked_names));
    session->asked_ids = calloc((size_t)session->node_count + 1, sizeof(*session->asked_ids));
    session->node_of = malloc(((size_t)session->ids + 1) * sizeof(*session->node_of));
    if (!session->node_names || !session->asked_names || !session->asked_ids || !session->node_of)
        return -ENOMEM;
    for (uint32_t id = 0; id < session->ids; id++)
        session->node_of[id] = GT_VOLCANO_NO_NODE;
    for (uint32_t i = 0; i < session->node_count; i++) {
        size_t at = nodes[i];
        const char *name = next_text(session, size, &at);
        if (!name)
            return -EINVAL;
        session->node_names[i] = name;
        uint32_t id = gt_cluster_find_node(cluster, name);
        if (id < session->ids)
            session->node_of[id] = i;
    }
    return 0;
}

static int session_read_tasks(struct gt_volcano *volcano, const struct gt_volcano_task *tasks, size_t size)
{
    struct volcano_session *session = &volcano->session;
    session->tasks = calloc((size_t)session->task_count + 1, sizeof(*session->tasks));
    session->by_pod = malloc(((size_t)session->task_count + 1) * sizeof(*session->by_pod));
    if (!session->tasks || !session->by_pod)
        return -ENOMEM;
    for (uint32_t i = 0; i < session->task_count; i++) {
        struct volcano_task *task = &session->tasks[i];
        size_t at = tasks[i].names;
        const char *namespace_ = next_text(session, size, &at), *name = next_text(session, size, &at);
        const char *uid = next_text(session, size, &at);
        bool waits = tasks[i].node == GT_VOLCANO_NO_NODE;
        if (!uid || tasks[i].group >= session->group_count ||
            (!waits && tasks[i].node >= session->node_count))
            return -EINVAL;
        struct gt_cache_pod *pod = gt_cache_find_pod(volcano->cache, namespace_, name);
        *task = (struct volcano_task){
            .group = tasks[i].group, .at = GT_NONE, .waits = waits, .leaves = tasks[i].leaves};
        if (!pod || strcmp(pod->uid, uid) != 0)
            continue;
        task->pod = pod;
        session->leaving += task->leaves || pod->deleting;
        session->by_pod[session->pods++] = i;
        struct gt_index_entry *own =
            waits || pod->state >= GT_CACHE_BOUND ? NULL : gt_index_find(&volcano->own, namespace_, name);
        if (own)
            own->mark = (uint32_t)volcano->session_number;
    }
    qsort_r(session->by_pod, session->pods, sizeof(*session->by_pod), by_address, session->tasks);
    return 0;
}

/* For tasks that are being bound and were not planned by the last session, or for another node. */
static void assume_bound(struct gt_volcano *volcano, const struct gt_volcano_task *tasks)
{
    struct volcano_session *session = &volcano->session;
    for (uint32_t i = 0; i < session->task_count; i++) {
        struct gt_cache_pod *pod = session->tasks[i].pod;
        if (!pod || session->tasks[i].waits || pod->state != GT_CACHE_WAITING)
            continue;
        bool assumed = pod->plan == GT_CACHE_PLAN_ASSUMED && pod->planned.node < session->ids &&
                       session->node_of[pod->planned.node] == tasks[i].node;
        if (!assumed)
            gt_volcano_assume(volcano, pod, tasks[i].node);
    }
}

int gt_volcano_open(struct gt_volcano *volcano, const char *texts, size_t texts_size, const uint32_t *nodes,
                    uint32_t node_count, const struct gt_volcano_group *groups, uint32_t group_count,
                    const struct gt_volcano_task *tasks, uint32_t task_count, char *error)
{
    struct volcano_session *session = &volcano->session;
    gt_volcano_close(volcano);
    if (!texts_size || texts[texts_size - 1] || node_count > GT_VOLCANO_NODES_MAX ||
        task_count > GT_VOLCANO_TASKS_MAX || group_count > GT_VOLCANO_TASKS_MAX)
        return gt_volcano_say(error, -EINVAL, "a session with more than the limits, or without texts");
    volcano->session_number++;
    gt_cache_tick(volcano->cache, gt_clock_ms());
    *session = (struct volcano_session){.open = true,
                                        .node_count = node_count,
                                        .group_count = group_count,
                                        .task_count = task_count,
                                        .given_back = 1,
                                        .texts = malloc(texts_size),
                                        .groups = calloc((size_t)group_count + 1, sizeof(*groups))};
    int r = session->texts && session->groups ? 0 : -ENOMEM;
    if (r >= 0)
        memcpy(session->texts, texts, texts_size);
    for (uint32_t i = 0; r >= 0 && i < group_count; i++) {
        session->groups[i] = groups[i];
        r = groups[i].name < texts_size ? 0 : -EINVAL;
    }
    if (r >= 0)
        r = session_read_nodes(volcano, nodes, texts_size);
    if (r >= 0)
        r = session_read_tasks(volcano, tasks, texts_size);
    if (r < 0) {
        gt_volcano_close(volcano);
        return gt_volcano_say(error, r, r == -ENOMEM ? strerror(ENOMEM) : "the session's arrays are invalid");
    }
    give_up_plans(volcano);
    assume_bound(volcano, tasks);
    gt_volcano_rooms_open(volcano);
    return 0;
}

void gt_volcano_close(struct gt_volcano *volcano)
{
    struct volcano_session *session = &volcano->session;
    if (session->open)
        gt_volcano_rooms_close(volcano);
    for (struct volcano_job *job = session->jobs, *next; job; job = next) {
        next = job->next;
        gt_volcano_job_close(volcano, job);
    }
    free(session->texts);
    free(session->node_names);
    free(session->node_of);
    free(session->groups);
    free(session->tasks);
    free(session->by_pod);
    free(session->asked_names);
    free(session->asked_ids);
    free(session->freed);
    *session = (struct volcano_session){0};
}

/* ---- nodes for one task ---- */

int gt_volcano_score_nodes(struct gt_volcano *volcano, uint32_t number, const uint32_t *nodes, uint32_t count,
                           double *ret, char *error)
{
    struct volcano_session *session = &volcano->session;
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    if (!task || count > session->node_count)
        return gt_volcano_say(error, -EINVAL, "there is no such task, or there are not as many nodes");
    for (uint32_t i = 0; i < count; i++) {
        if (nodes[i] >= session->node_count)
            return gt_volcano_say(error, -EINVAL, "there is no such node");
        session->asked_names[i] = session->node_names[nodes[i]];
        ret[i] = 0;
    }
    if (!task->pod)
        return 0;
    uint32_t planned = task->pod->plan == GT_CACHE_PLAN_ASSUMED ? task->pod->planned.node : GT_NONE;
    struct gt_mix_amounts asked;
    gt_cache_asked(volcano->cache, task->pod, &asked);
    gt_node_values(volcano->cache, &asked, planned, session->asked_names, NULL, count, ret,
                   session->asked_ids);
    const struct gt_aware_weights weights = gt_node_weights(volcano->cache, &volcano->weights, task->pod);
    gt_node_values_near(volcano->cache, &weights, task->pod, session->asked_ids, count, ret);
    gt_volcano_scores(volcano->cache, &weights, ret, session->asked_ids, count, ret);
    return 0;
}

void gt_volcano_may_use(struct gt_volcano *volcano, uint32_t number, uint8_t *ret, uint32_t node_count)
{
    const struct volcano_session *session = &volcano->session;
    const struct volcano_task *task = gt_volcano_task_at(volcano, number);
    const struct gt_cluster *cluster = gt_cache_cluster(volcano->cache);
    struct gt_mix_amounts asked = {0};
    memset(ret, 1, node_count);
    if (task && task->pod)
        gt_cache_asked(volcano->cache, task->pod, &asked);
    for (uint32_t id = 0; task && task->pod && id < session->ids; id++) {
        struct gt_cluster_node node;
        uint32_t at = session->node_of[id];
        if (at < node_count && gt_cluster_get_node(cluster, id, &node))
            ret[at] = !gt_node_gpus_are_reserved(&node, 0, task->pod->gpus) &&
                      !gt_node_kubelet_refuses(volcano->cache, id, 0, gt_mix_numa_pod(&asked)) &&
                      !gt_node_slow_refuses(volcano->cache, id, 0, &asked);
    }
    if (task && task->pod)
        gt_volcano_room_forbid(volcano, task->pod->gpus, ret, node_count);
}
