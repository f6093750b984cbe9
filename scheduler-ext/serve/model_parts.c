/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/model_parts.h"

#include <inttypes.h>
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/jobs/rules.h"
#include "scheduler-ext/serve/model_json.h"

static void key_of(struct gt_buf *to, bool more, const char *key)
{
    gt_buf_puts(to, more ? ",\"" : "\"");
    gt_buf_puts(to, key);
    gt_buf_add(to, "\":", 2);
}

void gt_json_text(struct gt_buf *to, bool more, const char *key, const char *text)
{
    key_of(to, more, key);
    if (text)
        gt_text_quote(to, text);
    else
        gt_buf_puts(to, "null");
}

static void number_of(struct gt_buf *to, uint64_t number)
{
    char digits[24], *p = digits + sizeof(digits);
    do
        *--p = (char)('0' + number % 10);
    while (number /= 10);
    gt_buf_add(to, p, (size_t)(digits + sizeof(digits) - p));
}

void gt_json_number(struct gt_buf *to, bool more, const char *key, uint64_t number)
{
    key_of(to, more, key);
    number_of(to, number);
}

void gt_json_id(struct gt_buf *to, const char *key, uint32_t id)
{
    if (id == GT_NONE)
        gt_json_text(to, true, key, NULL);
    else
        gt_json_number(to, true, key, id);
}

void gt_json_bool(struct gt_buf *to, bool more, const char *key, bool value)
{
    key_of(to, more, key);
    gt_buf_puts(to, value ? "true" : "false");
}

void gt_json_time(struct gt_buf *to, const char *key, const struct gt_debug_view *view, uint64_t ms)
{
    char stamp[GT_TEXT_TIME_SIZE] = "";
    if (ms && view->now_ms - ms <= view->wall_ms)
        gt_text_time((int64_t)((view->wall_ms - (view->now_ms - ms)) / 1000), stamp);
    gt_json_text(to, true, key, stamp[0] ? stamp : NULL);
}

void gt_json_mask(struct gt_buf *to, const char *key, uint64_t mask)
{
    key_of(to, true, key);
    gt_buf_puts(to, "[");
    for (uint64_t left = mask; left; left &= left - 1) {
        if (left != mask)
            gt_buf_add(to, ",", 1);
        number_of(to, (uint64_t)__builtin_ctzll(left));
    }
    gt_buf_puts(to, "]");
}

/* ---- a node ---- */

/* "namespace/name" */
static void add_pod_name(struct gt_buf *to, const char *key, const struct gt_cache_pod *pod)
{
    char name[2 * GT_CLUSTER_NAME_MAX + 8];
    snprintf(name, sizeof(name), "%s/%s", pod->meta.namespace_, pod->meta.name);
    gt_json_text(to, true, key, name);
}

/* Neighbours in the same state for the same pod are one entry. */
static void add_gpus(const struct gt_debug_view *view, uint32_t id, const struct gt_cluster_node *node,
                     struct gt_buf *to)
{
    const struct gt_cache_pod *users[GT_GPUS_MAX];
    enum gt_debug_gpu states[GT_GPUS_MAX];
    unsigned count = gt_class_gpus(node->class);
    uint64_t told = 0;
    for (unsigned i = 0; i < count; i++) {
        states[i] = gt_debug_gpu_state(node, i);
        users[i] = states[i] == GT_DEBUG_GPU_FREE ? NULL : gt_cache_gpu_user(view->cache, id, i);
    }
    gt_buf_puts(to, ",\"gpus\":[");
    for (unsigned i = 0; i < count; i++) {
        uint64_t mask = 0;
        if (told >> i & 1)
            continue;
        for (unsigned j = i; j < count; j++)
            if (states[j] == states[i] && users[j] == users[i])
                mask |= UINT64_C(1) << j;
        gt_buf_puts(to, told ? ",{" : "{");
        told |= mask;
        gt_json_text(to, false, "state", gt_debug_gpu_name(states[i]));
        gt_json_mask(to, "gpus", mask);
        if (users[i]) {
            gt_json_text(to, true, "job", users[i]->job->key);
            add_pod_name(to, "pod", users[i]);
            gt_json_id(to, "unit", gt_debug_pod_number(users[i], GT_PLAN_ANNOTATION_UNIT));
            gt_json_id(to, "rank", gt_debug_pod_number(users[i], GT_PLAN_ANNOTATION_RANK));
        }
        gt_buf_puts(to, "}");
    }
    gt_buf_puts(to, "]");
}

/* Where it is: a node of no tier-1 supernode may be in an inner one. */
static const char *supernode_of(const struct gt_cluster *cluster, uint32_t id,
                                struct gt_cluster_supernode *buffer)
{
    if (!gt_cluster_get_supernode(cluster, id, buffer))
        return NULL;
    if (buffer->is_node && !gt_cluster_get_supernode(cluster, buffer->parent, buffer))
        return NULL;
    return buffer->name;
}

void gt_model_node_json(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    const struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    struct gt_cluster_node node;
    struct gt_cluster_supernode supernode;
    struct gt_cache_node fed = {0};
    if (!gt_cluster_get_node(cluster, id, &node))
        return;
    gt_cache_get_node(view->cache, id, &fed);
    gt_buf_puts(to, "{");
    gt_json_text(to, false, "name", node.name);
    gt_json_text(to, true, "supernode", supernode_of(cluster, node.supernode, &supernode));
    gt_json_text(to, true, "product", fed.product);
    gt_json_bool(to, true, "eligible", node.eligible);
    gt_json_bool(to, true, "ready", fed.ready);
    gt_json_bool(to, true, "cordoned", fed.cordoned);
    gt_json_bool(to, true, "stale", fed.stale);
    gt_json_bool(to, true, "linksDown", fed.links_down);
    gt_json_bool(to, true, "leftAlone", fed.left_alone);
    gt_json_bool(to, true, "kept", view->placement && gt_placement_is_kept(view->placement, NULL, id));
    gt_json_time(to, "heard", view, fed.heard_ms);
    if (fed.health_unknown)
        gt_json_mask(to, "healthUnknown", fed.health_unknown);
    add_gpus(view, id, &node, to);
    gt_buf_puts(to, "}");
}

/* ---- a pod ---- */

static void add_ids(const struct gt_debug_view *view, uint32_t node, uint64_t mask, struct gt_buf *to)
{
    gt_buf_puts(to, ",\"gpuIds\":[");
    for (uint64_t left = mask; left; left &= left - 1) {
        const char *id = gt_cache_device_id(view->cache, node, (unsigned)__builtin_ctzll(left));
        gt_buf_puts(to, left == mask ? "" : ",");
        gt_text_quote(to, id ? id : "");
    }
    gt_buf_puts(to, "]");
}

void gt_model_pod_json(const struct gt_debug_view *view, const struct gt_cache_pod *pod, bool ids,
                       struct gt_buf *to)
{
    struct gt_cluster_node node;
    uint32_t id;
    uint64_t mask = gt_debug_pod_gpus(view, pod, &id);
    bool known = gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node);
    gt_buf_puts(to, "{");
    gt_json_text(to, false, "name", pod->meta.name);
    gt_json_text(to, true, "state", gt_debug_pod_state(pod));
    gt_json_text(to, true, "plan", gt_debug_plan_state(pod));
    gt_json_text(to, true, "node", known ? node.name : pod->node_name);
    gt_json_mask(to, "gpus", mask);
    if (ids)
        add_ids(view, id, mask, to);
    gt_json_number(to, true, "wants", pod->gpus);
    gt_json_id(to, "unit", gt_debug_pod_number(pod, GT_PLAN_ANNOTATION_UNIT));
    gt_json_id(to, "rank", gt_debug_pod_number(pod, GT_PLAN_ANNOTATION_RANK));
    gt_json_bool(to, true, "deleting", pod->deleting);
    gt_buf_puts(to, "}");
}

/* ---- a job ---- */

static void add_counts(const struct gt_cache_job *job, struct gt_buf *to)
{
    uint32_t counts[GT_CACHE_RUNNING + 1] = {0};
    uint64_t created = UINT64_MAX;
    int32_t priority = INT32_MIN;
    char stamp[GT_TEXT_TIME_SIZE] = "";
    for (const struct gt_cache_pod *pod = job->pods; pod; pod = pod->next) {
        counts[pod->state]++;
        created = pod->created_s < created ? pod->created_s : created;
        priority = pod->priority > priority ? pod->priority : priority;
    }
    gt_buf_printf(to, ",\"priority\":%" PRId32, priority);
    gt_text_time((int64_t)created, stamp);
    gt_json_text(to, true, "created", stamp[0] ? stamp : NULL);
    gt_json_number(to, true, "wants", gt_debug_job_gpus(job));
    gt_buf_puts(to, ",\"podCounts\":{");
    gt_json_number(to, false, "gated", counts[GT_CACHE_GATED]);
    gt_json_number(to, true, "pending", counts[GT_CACHE_WAITING]);
    gt_json_number(to, true, "starting", counts[GT_CACHE_BOUND]);
    gt_json_number(to, true, "running", counts[GT_CACHE_RUNNING]);
    gt_buf_puts(to, "}");
}

/* A list of lines. */
static void add_lines(const char *text, struct gt_buf *to)
{
    gt_buf_puts(to, ",\"plan\":[");
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        gt_auto_free char *copy = strndup(line, len);
        gt_buf_puts(to, line == text ? "" : ",");
        gt_text_quote(to, copy ? copy : "");
        line += len + (line[len] == '\n');
    }
    gt_buf_puts(to, "]");
}

void gt_model_job_json(const struct gt_debug_view *view, const struct gt_cache_job *job, bool pods, bool ids,
                       struct gt_buf *to)
{
    struct gt_placement_job info;
    uint32_t units = gt_debug_job_units(job);
    gt_debug_job(view, job, &info);
    gt_buf_puts(to, "{");
    gt_json_text(to, false, "key", job->key);
    gt_json_text(to, true, "kind", gt_debug_job_kind(job));
    gt_json_text(to, true, "namespace", job->pods->meta.namespace_);
    gt_json_text(to, true, "name", job->pods->identity.job);
    gt_json_text(to, true, "state", gt_debug_job_state(job, &info));
    gt_json_bool(to, true, "settled", gt_debug_is_settled(job, &info));
    gt_json_time(to, "since", view, info.state == GT_PLACEMENT_NONE ? 0 : info.since_ms);
    gt_json_text(to, true, "reason", *info.reason ? info.reason : NULL);
    gt_json_text(to, true, "text", *info.text ? info.text : NULL);
    gt_json_id(to, "place", info.place);
    gt_json_number(to, true, "tries", info.tries);
    gt_json_bool(to, true, "holds", info.holds);
    gt_json_number(to, true, "reservedGpus", info.reserved_gpus);
    gt_json_text(to, true, "groupSize", gt_debug_job_annotation(job, GT_ANNOTATION_GROUP));
    gt_json_text(to, true, "atomicGroupSize", gt_debug_job_annotation(job, GT_ANNOTATION_ATOMIC));
    gt_json_id(to, "units", units ? units : GT_NONE);
    add_lines(info.plan, to);
    add_counts(job, to);
    if (pods) {
        gt_buf_puts(to, ",\"pods\":[");
        for (const struct gt_cache_pod *pod = job->pods; pod && !to->failed; pod = pod->next) {
            gt_buf_puts(to, pod == job->pods ? "" : ",");
            gt_model_pod_json(view, pod, ids, to);
        }
        gt_buf_puts(to, "]");
    }
    gt_buf_puts(to, "}");
}
