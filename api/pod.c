/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod.h"

#include <errno.h>
#include <math.h>
#include <stddef.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/pod_claim.h"
#include "api/resources.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/numa.h"
/* ---- labels and annotations ---- */

static const char *pod_find(const struct gt_pair *pairs, unsigned count, enum gt_pod_key key)
{
    const struct gt_pair *found = GT_FIND(pairs, count, key, gt_pod_key_text(key));
    return found ? found->value : NULL;
}

const char *gt_pod_label(const struct gt_pod_meta *pod, enum gt_pod_key key)
{
    return pod_find(pod->labels, pod->label_count, key);
}

const char *gt_pod_annotation(const struct gt_pod_meta *pod, enum gt_pod_key key)
{
    return pod_find(pod->annotations, pod->annotation_count, key);
}

/* No name or index is longer than GT_POD_VALUE_MAX, so one that is means nothing; of a size the user is
 * value.
 */
static unsigned pod_read_pairs(const cJSON *object, struct gt_pair *to, bool *bad)
{
    unsigned count = 0;
    bool seen[GT_POD_KEYS] = {false};
    for (const cJSON *item = cJSON_IsObject(object) ? object->child : NULL; item; item = item->next) {
        enum gt_pod_key key = item->string ? gt_pod_key_of(item->string) : GT_POD_KEYS;
        if (key == GT_POD_KEYS || key == GT_KEY_SCHEDULING_GROUP || seen[key])
            continue;
        seen[key] = true;
        if (cJSON_IsNull(item))
            continue;
        bool is_text = cJSON_IsString(item) && item->valuestring;
        bool fits = is_text && strnlen(item->valuestring, GT_POD_VALUE_MAX + 1) <= GT_POD_VALUE_MAX;
        const char *value = fits ? item->valuestring : is_text ? "(too long)" : "(no text)";
        if (fits || key < GT_KEY_SIZES)
            to[count++] = (struct gt_pair){gt_pod_key_text(key), value};
        *bad = *bad || (!is_text && key >= GT_KEY_SIZES);
    }
    return count;
}

/* ---- the rest ---- */

/* NULL: missing or empty, which is the API's way to say nothing; also where it is no text that fits. */
static const char *pod_text_of(const cJSON *object, const char *key, bool *bad)
{
    const cJSON *value = gt_get(object, key);
    if (!value)
        return NULL;
    if (cJSON_IsString(value) && value->valuestring) {
        size_t len = strnlen(value->valuestring, GT_POD_VALUE_MAX + 1);
        if (len <= GT_POD_VALUE_MAX)
            return len ? value->valuestring : NULL;
    }
    *bad = true;
    return NULL;
}

static const char *pod_name_of(const cJSON *metadata, const char *key, bool *bad)
{
    const char *name = pod_text_of(metadata, key, bad);
    return name ? name : "";
}

/* The owner that controls it, else the first. */
static void pod_read_owner(const cJSON *metadata, struct gt_pod *to, bool *bad)
{
    const cJSON *owner = gt_first(gt_get(metadata, "ownerReferences"));
    for (const cJSON *item = owner; item; item = item->next)
        if (cJSON_IsTrue(gt_get(item, "controller"))) {
            owner = item;
            break;
        }
    if (!owner)
        return;
    to->meta.owner_kind = pod_text_of(owner, "kind", bad);
    to->meta.owner_name = pod_text_of(owner, "name", bad);
    to->meta.owner_controls = cJSON_IsTrue(gt_get(owner, "controller"));
    to->owner_uid = pod_text_of(owner, "uid", bad);
    to->owner_api_version = pod_text_of(owner, "apiVersion", bad);
}

/* It says more than the PodGroup does: that is not kept for each pod. */
static void forget_pod_group(struct gt_pod *to)
{
    unsigned kept = 0;
    for (unsigned i = 0; to->meta.owner_kind && i < to->meta.annotation_count; i++)
        if (strcmp(to->annotation_pairs[i].key, GT_ANNOTATION_POD_GROUP) != 0)
            to->annotation_pairs[kept++] = to->annotation_pairs[i];
    if (to->meta.owner_kind)
        to->meta.annotation_count = (uint16_t)kept;
}

static void pod_read_metadata(const cJSON *metadata, struct gt_pod *to, bool *bad)
{
    to->created_s = (uint64_t)gt_time_of_text(pod_text_of(metadata, "creationTimestamp", bad));
    to->deleting = gt_get(metadata, "deletionTimestamp") != NULL;
    to->gone_by_s = (uint64_t)gt_time_of_text(pod_text_of(metadata, "deletionTimestamp", bad));
    to->meta.labels = to->label_pairs;
    to->meta.annotations = to->annotation_pairs;
    to->meta.label_count = pod_read_pairs(gt_get(metadata, "labels"), to->label_pairs, bad);
    to->meta.annotation_count = pod_read_pairs(to->annotations, to->annotation_pairs, bad);
    to->pod_group = pod_text_of(to->annotations, GT_ANNOTATION_POD_GROUP, bad);
    pod_read_owner(metadata, to, bad);
    forget_pod_group(to);
}

static void read_gates(const cJSON *spec, struct gt_pod *to)
{
    to->gates = gt_get(spec, "schedulingGates");
    for (const cJSON *item = gt_first(to->gates); item; item = item->next) {
        const char *name = gt_get_string(item, "name");
        const char *kueue = strcmp(name, GT_GATE_KUEUE) == 0            ? GT_GATE_KUEUE
                            : strcmp(name, GT_GATE_KUEUE_TOPOLOGY) == 0 ? GT_GATE_KUEUE_TOPOLOGY
                                                                        : NULL;
        bool ours = strcmp(name, GT_GATE) == 0;
        to->gated = to->gated || ours;
        to->kueue_gate = to->kueue_gate ? to->kueue_gate : kueue;
        to->other_gates = to->other_gates || (*name && !ours && !kueue && strcmp(name, GT_GATE_VOLCANO) != 0);
        to->gate_count++;
    }
}

static bool pod_read_priority(const cJSON *spec, int32_t *ret)
{
    const cJSON *priority = gt_get(spec, "priority");
    if (!priority)
        return true;
    if (!cJSON_IsNumber(priority) || !(fabs(priority->valuedouble) <= INT32_MAX))
        return false;
    *ret = (int32_t)priority->valuedouble;
    return true;
}

struct gt_pod_where gt_pod_where_read(const cJSON *spec)
{
    const cJSON *required =
        gt_get(gt_get_at(spec, "affinity", "nodeAffinity"), "requiredDuringSchedulingIgnoredDuringExecution");
    return (struct gt_pod_where){.selector = gt_get(spec, "nodeSelector"),
                                 .tolerations = gt_get(spec, "tolerations"),
                                 .terms = gt_get(required, "nodeSelectorTerms"),
                                 .has_terms = required != NULL};
}

/* The PodGroup of Kubernetes, kept as a label is. */
static void read_scheduling_group(const cJSON *spec, struct gt_pod *to, bool *bad)
{
    const char *group = pod_text_of(gt_get(spec, "schedulingGroup"), "podGroupName", bad);
    if (group)
        to->label_pairs[to->meta.label_count++] =
            (struct gt_pair){gt_pod_key_text(GT_KEY_SCHEDULING_GROUP), group};
}

static void pod_read_spec(const cJSON *spec, struct gt_pod *to, bool *bad)
{
    read_scheduling_group(spec, to, bad);
    pod_text_of(spec, "nodeName", bad); /* they were read, and may be bad */
    pod_text_of(spec, "schedulerName", bad);
    to->priority_class = pod_text_of(spec, "priorityClassName", bad);
    to->has_deadline = gt_get(spec, "activeDeadlineSeconds") != NULL;
    to->preempts_never = strcmp(gt_get_string(spec, "preemptionPolicy"), "Never") == 0;
    to->affinity = gt_get(spec, "affinity");
    to->has_node_affinity = gt_get(to->affinity, "nodeAffinity") != NULL;
    to->where = gt_pod_where_read(spec);
    *bad = !pod_read_priority(spec, &to->priority) || *bad;
}

static const char *const condition_types[GT_POD_CONDITIONS] = {
    [GT_POD_SCHEDULED] = "PodScheduled",
    [GT_POD_PLACEMENT] = GT_CONDITION_PLACEMENT,
    [GT_POD_DISRUPTED] = "DisruptionTarget",
};

static void pod_read_status(const cJSON *status, struct gt_pod *to, bool *bad)
{
    to->nominated_node = pod_text_of(status, "nominatedNodeName", bad);
    to->best_effort = strcmp(gt_get_string(status, "qosClass"), "BestEffort") == 0;
    to->condition_list = gt_get(status, "conditions");
    if (strcmp(gt_get_string(status, "phase"), "Failed") == 0) {
        to->failed_for = pod_text_of(status, "reason", bad);
        to->start_s = (uint64_t)gt_time_of_text(pod_text_of(status, "startTime", bad));
    }
    gt_conditions_read(status, condition_types, GT_POD_CONDITIONS, to->conditions);
}

static bool has_ended(const char *phase)
{
    return strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0;
}

/* What is read of every pod: most pods of a cluster are none of ours. */
static int read_head(const cJSON *object, const cJSON *metadata, const char *resource, struct gt_pod *to,
                     bool *bad)
{
    const cJSON *spec = gt_get(object, "spec");
    bool bad_plan = false; /* a plan that is invalid is none */
    bool bad_node = false; /* set by pod_read_spec() */
    to->meta.name = pod_name_of(metadata, "name", bad);
    to->meta.namespace_ = pod_name_of(metadata, "namespace", bad);
    to->uid = pod_text_of(metadata, "uid", bad);
    to->resource_version = pod_text_of(metadata, "resourceVersion", bad);
    to->annotations = gt_get(metadata, "annotations");
    to->labels = gt_get(metadata, "labels");
    to->spec = spec;
    to->plan_gpus = cJSON_GetStringValue(gt_get(to->annotations, GT_PLAN_ANNOTATION_GPUS));
    to->plan_node = pod_text_of(to->annotations, GT_PLAN_ANNOTATION_NODE, &bad_plan);
    gt_text_to_unsigned(gt_get_string(to->annotations, GT_PLAN_ANNOTATION_EPOCH), UINT64_C(1) << 53,
                        &to->fence);
    const char *phase = gt_get_string(gt_get(object, "status"), "phase");
    to->ended = has_ended(phase);
    to->started = *phase && strcmp(phase, "Pending") != 0;
    to->node_name = pod_text_of(spec, "nodeName", &bad_node);
    to->scheduler = pod_text_of(spec, "schedulerName", &bad_node);
    read_gates(spec, to);
    to->asked.count = 0;
    if (!to->ended)
        gt_pod_resources_read(spec, &to->asked);
    int r = gt_pod_gpus_read(spec, resource, &to->gpus, NULL);
    struct gt_claim_of_pod claim;
    gt_claim_of_pod_read(spec, &claim);
    to->claim_template = claim.template_;
    to->meta.gpus = to->gpus.counts;
    to->meta.containers = to->gpus.containers;
    to->meta.requests = to->gpus.requests;
    return r;
}

void gt_pod_read(const cJSON *object, const char *resource, struct gt_pod *ret)
{
    const cJSON *metadata = gt_get(object, "metadata");
    bool bad = false;
    /* But for the arrays at its end, which are most of it. */
    memset(ret, 0, offsetof(struct gt_pod, gpus) + offsetof(struct gt_pod_gpus, names));
    int r = read_head(object, metadata, resource, ret, &bad);
    if (bad || r < 0)
        ret->invalid = r == -E2BIG
                           ? "it has more than 64 containers with GPUs, or more GPUs than any node has"
                       : r < 0 ? "its numbers of GPUs are invalid"
                               : "it has invalid fields";
    if (r >= 0 && !ret->gpus.total && !ret->gated && !gt_pod_is_planned(ret))
        return;
    pod_read_metadata(metadata, ret, &bad);
    pod_read_spec(gt_get(object, "spec"), ret, &bad);
    pod_read_status(gt_get(object, "status"), ret, &bad);
    for (unsigned i = 0; i < ret->gpus.containers + ret->gpus.inits; i++)
        bad = bad || !ret->gpus.names[i][0] ||
              strnlen(ret->gpus.names[i], GT_POD_VALUE_MAX + 1) > GT_POD_VALUE_MAX;
    if (bad && ret->gpus.total && !ret->invalid) /* of others it does not matter */
        ret->invalid = "it has invalid fields";
}

bool gt_pod_is_refused_by_kubelet(const struct gt_pod *pod)
{
    static const char *const reasons[] = {"TopologyAffinityError", "UnexpectedAdmissionError", "NodePorts"};
    return pod->failed_for && (GT_HAS_TEXT(reasons, GT_COUNT(reasons), pod->failed_for) ||
                               strncmp(pod->failed_for, "OutOf", strlen("OutOf")) == 0);
}

cJSON *gt_pod_spec(cJSON *object)
{
    return cJSON_GetObjectItemCaseSensitive(object, "spec");
}

int gt_pod_containers_add(struct gt_pod_containers *to, const struct gt_pod_container *container,
                          struct gt_err **err)
{
    if (!container->gpus)
        return 0;
    if (to->count == GT_COUNT(to->list))
        return gt_fail(err, E2BIG, "more than %d containers with GPUs", (int)GT_COUNT(to->list));
    to->list[to->count++] = *container;
    return 0;
}

static int check_limits(unsigned containers, unsigned inits, unsigned gpus, struct gt_err **err)
{
    if (containers > GT_POD_CONTAINERS_MAX)
        return gt_fail(err, E2BIG, "more than %d containers with GPUs", GT_POD_CONTAINERS_MAX);
    if (inits > GT_POD_CONTAINERS_MAX)
        return gt_fail(err, E2BIG, "more than %d init containers with GPUs", GT_POD_CONTAINERS_MAX);
    if (gpus > GT_POD_GPUS_MAX)
        return gt_fail(err, E2BIG, "%u GPUs, the limit is %d", gpus, GT_POD_GPUS_MAX);
    return 0;
}

/* The requests of its containers. Where one is larger than any node, the pod never runs. */
static uint64_t requests_of(const struct gt_pod_containers *from)
{
    uint64_t requests = 0;
    unsigned count = 0;
    for (const struct gt_pod_container *at = from->list; at < from->list + from->count; at++) {
        if (at->claimed)
            continue;
        if (count == GT_NUMA_REQUESTS_MAX || at->gpus >= GT_NUMA_INIT)
            return GT_NUMA_TOO_MANY;
        uint64_t request = at->gpus | (at->init && !at->sidecar ? GT_NUMA_INIT : 0U);
        requests |= request << 8 * count++;
    }
    return count > 1 ? requests : 0;
}

static void api_pod_gpus_put(struct gt_pod_gpus *to, unsigned at, const char *name, unsigned gpus)
{
    to->names[at] = name;
    to->counts[at] = gpus;
}

int gt_pod_gpus_count(const struct gt_pod_containers *from, struct gt_pod_gpus *ret, struct gt_err **err)
{
    const struct gt_pod_container *end = from->list + from->count, *largest = NULL;
    unsigned kept = 0, most = 0; /* kept: of the sidecars that have started */
    struct gt_pod_gpus gpus;
    gpus.total = gpus.containers = gpus.sidecars = gpus.inits = 0;
    for (const struct gt_pod_container *at = from->list; at < end; at++) {
        if (at->init && !at->sidecar) {
            gpus.inits++;
            if (kept + at->gpus > most) {
                most = kept + at->gpus;
                largest = at;
            }
            continue;
        }
        gpus.containers++;
        gpus.sidecars += at->init;
        gpus.total += at->gpus;
        kept += at->init ? at->gpus : 0;
    }
    unsigned sum = gpus.total;
    if (most > sum) {
        gpus.containers++;
        gpus.total = most;
    }
    GT_TRY(check_limits(gpus.containers, gpus.inits, gpus.total, err));
    ret->total = gpus.total;
    ret->containers = gpus.containers;
    ret->sidecars = gpus.sidecars;
    ret->inits = gpus.inits;
    ret->requests = requests_of(from);
    unsigned sidecar = 0, other = gpus.sidecars, init = gpus.containers;
    for (const struct gt_pod_container *at = from->list; at < end; at++)
        api_pod_gpus_put(ret, !at->init ? other++ : at->sidecar ? sidecar++ : init++, at->name, at->gpus);
    if (most > sum)
        api_pod_gpus_put(ret, other, largest->name, most - sum);
    return 0;
}

/* ---- from JSON ---- */

/* Of an extended resource limits and requests are equal, and one of them may be left out. */
static int api_pod_gpus_read_gpus(const cJSON *container, const char *resource, unsigned *ret,
                                  struct gt_err **err)
{
    const cJSON *resources = gt_get(container, "resources");
    const cJSON *const amounts[] = {gt_get(gt_get(resources, "requests"), resource),
                                    gt_get(gt_get(resources, "limits"), resource)};
    *ret = 0;
    for (size_t i = 0; i < GT_COUNT(amounts); i++)
        GT_TRY(amounts[i] ? gt_quantity_from_json(amounts[i], GT_POD_GPUS_MAX, resource, ret, err) : 0);
    return 0;
}

static int api_pod_gpus_read_list(const cJSON *spec, bool init, const char *resource,
                                  const struct gt_claim_of_pod *claim, struct gt_pod_containers *to,
                                  struct gt_err **err)
{
    const char *key = init ? "initContainers" : "containers";
    const cJSON *list = gt_get(spec, key);
    if (list && !cJSON_IsArray(list))
        return gt_fail(err, EINVAL, "%s: expected an array, is %s", key, gt_json_type(list));
    unsigned at = 0;
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        struct gt_pod_container container = {.name = gt_get_string(item, "name"), .init = init, .at = at};
        gt_auto_err struct gt_err *error = NULL;
        int r = api_pod_gpus_read_gpus(item, resource, &container.gpus, err ? &error : NULL);
        if (r < 0)
            return gt_fail(err, -r, "container %.63s: %s", container.name, gt_err_text(error));
        at++;
        unsigned claimed = gt_claim_gpus_of(claim, item);
        container.gpus += claimed;
        container.claimed = claimed > 0;
        container.sidecar = init && strcmp(gt_get_string(item, "restartPolicy"), "Always") == 0;
        GT_TRY(gt_pod_containers_add(to, &container, err));
    }
    return 0;
}

int gt_pod_gpu_containers_read(const cJSON *spec, const char *resource, struct gt_pod_containers *ret,
                               struct gt_err **err)
{
    struct gt_claim_of_pod claim;
    gt_claim_of_pod_read(spec, &claim);
    ret->count = 0;
    GT_TRY(api_pod_gpus_read_list(spec, true, resource, &claim, ret, err));
    return api_pod_gpus_read_list(spec, false, resource, &claim, ret, err);
}

int gt_pod_gpus_read(const cJSON *spec, const char *resource, struct gt_pod_gpus *ret, struct gt_err **err)
{
    struct gt_pod_containers containers;
    GT_TRY(gt_pod_gpu_containers_read(spec, resource, &containers, err));
    return gt_pod_gpus_count(&containers, ret, err);
}
