/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "api/pod_plan.h"
#include "api/read.h"
#include "base/time_text.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/jobs/rules.h"

/* From a pod's object to what is kept of it. Texts stay the object's. */

_Static_assert(GT_POD_KEYS + 2 <= CACHE_PAIRS_MAX, "all that is kept fits");

enum { VALUE_MAX = 253 };

static bool is_size(const char *key)
{
    return strcmp(key, GT_ANNOTATION_GROUP) == 0 || strcmp(key, GT_ANNOTATION_ATOMIC) == 0;
}

/* No name or index is longer than VALUE_MAX, so one that is means nothing; of a size the user is told. */
static bool read_pair(const cJSON *object, const char *key, struct gt_pair *ret, unsigned *ret_count)
{
    const cJSON *value = gt_cache_get(object, key);
    if (!value)
        return true;
    if (!cJSON_IsString(value) || !value->valuestring)
        return false;
    bool fits = strnlen(value->valuestring, VALUE_MAX + 1) <= VALUE_MAX;
    if (fits || is_size(key))
        ret[(*ret_count)++] = (struct gt_pair){key, fits ? value->valuestring : "(too long)"};
    return true;
}

/* What jobs/ reads, and of a plan what is shown to people. */
static bool read_pairs(const cJSON *object, struct gt_pair *ret, unsigned *ret_count)
{
    for (size_t i = 0; object && i < GT_POD_KEYS; i++)
        if (!read_pair(object, gt_pod_keys[i], ret, ret_count))
            return false;
    return !object || (read_pair(object, GT_PLAN_ANNOTATION_UNIT, ret, ret_count) &&
                       read_pair(object, GT_PLAN_ANNOTATION_RANK, ret, ret_count));
}

/* ---- GPUs ---- */

/* GPUs that a container asks for. */
static bool read_asked(const struct gt_cache *cache, const cJSON *container, unsigned *ret)
{
    static const char *const where[] = {"limits", "requests"};
    const cJSON *resources = gt_cache_get(container, "resources");
    *ret = 0;
    for (size_t i = 0; i < GT_COUNT(where); i++) {
        const cJSON *quantity = gt_cache_get(gt_cache_get(resources, where[i]), cache->resource);
        if (quantity)
            return gt_api_quantity(quantity, GT_POD_GPUS_MAX, ret);
    }
    return true;
}

static bool add_init(struct cache_pod_draft *draft, const cJSON *container, unsigned gpus)
{
    bool bad = false;
    const char *name = gt_cache_get_text(container, "name", VALUE_MAX, &bad);
    if (!name || draft->inits == GT_POD_CONTAINERS_MAX)
        return false;
    draft->init_names[draft->inits] = name;
    draft->init_gpus[draft->inits++] = gpus;
    return true;
}

static bool add_container(struct cache_pod_draft *draft, const cJSON *container, unsigned gpus)
{
    bool bad = false;
    const char *name = gt_cache_get_text(container, "name", VALUE_MAX, &bad);
    if (!gpus)
        return true;
    if (!name || draft->containers == GT_POD_CONTAINERS_MAX)
        return false;
    draft->container_names[draft->containers] = name;
    draft->gpus[draft->containers++] = gpus;
    draft->gpu_sum += gpus;
    return draft->gpu_sum <= GT_POD_GPUS_MAX;
}

/*
 * Kubernetes counts a pod as the sum of its containers and of its restartable init containers, or, where that
 * is more, as an ordinary init container together with the restartable ones started before it. That one is
 * then listed too, with what it needs beyond the sum.
 */
static bool read_containers(const struct gt_cache *cache, const cJSON *spec, struct cache_pod_draft *draft)
{
    const cJSON *inits = gt_cache_get(spec, "initContainers"), *largest = NULL;
    const cJSON *containers = gt_cache_get(spec, "containers");
    unsigned most = 0, gpus;
    if ((inits && !cJSON_IsArray(inits)) || (containers && !cJSON_IsArray(containers)))
        return false;
    for (const cJSON *item = inits ? inits->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *policy = gt_cache_get_text(item, "restartPolicy", 64, &bad);
        if (!read_asked(cache, item, &gpus))
            return false;
        if (policy && strcmp(policy, "Always") == 0) {
            if (!add_container(draft, item, gpus))
                return false;
            continue;
        }
        if (gpus && !add_init(draft, item, gpus))
            return false;
        if (gpus && draft->gpu_sum + gpus > most) {
            most = draft->gpu_sum + gpus;
            largest = item;
        }
    }
    draft->sidecars = draft->containers;
    for (const cJSON *item = containers ? containers->child : NULL; item; item = item->next)
        if (!read_asked(cache, item, &gpus) || !add_container(draft, item, gpus))
            return false;
    return most <= draft->gpu_sum || add_container(draft, largest, most - draft->gpu_sum);
}

/* ---- the rest ---- */

/* The owner that controls it, else the first. */
static void read_owner(const cJSON *metadata, struct cache_pod_draft *draft, bool *bad)
{
    const cJSON *owners = gt_cache_get(metadata, "ownerReferences");
    const cJSON *owner = cJSON_IsArray(owners) ? owners->child : NULL;
    for (const cJSON *item = owner; item; item = item->next)
        if (cJSON_IsTrue(gt_cache_get(item, "controller"))) {
            owner = item;
            break;
        }
    if (!owner)
        return;
    draft->owner_kind = gt_cache_get_text(owner, "kind", VALUE_MAX, bad);
    draft->owner_name = gt_cache_get_text(owner, "name", VALUE_MAX, bad);
    draft->owner_uid = gt_cache_get_text(owner, "uid", VALUE_MAX, bad);
    draft->owner_api_version = gt_cache_get_text(owner, "apiVersion", VALUE_MAX, bad);
    draft->owner_controls = cJSON_IsTrue(gt_cache_get(owner, "controller"));
}

static void read_gates(const cJSON *spec, struct cache_pod_draft *draft)
{
    const cJSON *gates = gt_cache_get(spec, "schedulingGates");
    for (const cJSON *item = cJSON_IsArray(gates) ? gates->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *name = gt_cache_get_text(item, "name", VALUE_MAX, &bad);
        if (name && strcmp(name, GT_GATE) == 0)
            draft->gated = true;
        else
            draft->other_gates = true;
    }
}

static bool is_refused(const cJSON *status)
{
    const cJSON *conditions = gt_cache_get(status, "conditions");
    for (const cJSON *item = cJSON_IsArray(conditions) ? conditions->child : NULL; item; item = item->next) {
        bool bad = false;
        const char *type = gt_cache_get_text(item, "type", VALUE_MAX, &bad);
        const char *reason = gt_cache_get_text(item, "reason", VALUE_MAX, &bad);
        if (type && reason && strcmp(type, GT_CONDITION_PLACEMENT) == 0)
            return strcmp(reason, GT_CONDITION_REFUSED) == 0;
    }
    return false;
}

static bool read_priority(const cJSON *spec, int32_t *ret)
{
    const cJSON *priority = gt_cache_get(spec, "priority");
    if (!priority)
        return true;
    if (!cJSON_IsNumber(priority) || !(fabs(priority->valuedouble) <= INT32_MAX))
        return false;
    *ret = (int32_t)priority->valuedouble;
    return true;
}

static uint64_t mix_pairs(uint64_t digest, const struct gt_pair *pairs, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        digest = gt_digest_mix_text(gt_digest_mix_text(digest, pairs[i].key), pairs[i].value);
    return gt_digest_mix(digest, count);
}

/* Of all that is kept, but for selectors and the like, which are shared and compared by themselves. */
static uint64_t digest_of(const struct gt_cache *cache, const struct cache_pod_draft *draft)
{
    const char *const texts[] = {draft->uid,       draft->owner_kind,        draft->owner_name,
                                 draft->owner_uid, draft->owner_api_version, draft->scheduler,
                                 draft->node_name, draft->priority_class,    draft->plan_gpus,
                                 draft->plan_node};
    uint64_t digest = cache->seed;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        digest = gt_digest_mix_text(digest, texts[i]);
    digest = mix_pairs(digest, draft->labels, draft->label_count);
    digest = mix_pairs(digest, draft->annotations, draft->annotation_count);
    for (unsigned i = 0; i < draft->containers; i++)
        digest = gt_digest_mix(gt_digest_mix_text(digest, draft->container_names[i]), draft->gpus[i]);
    for (unsigned i = 0; i < draft->inits; i++)
        digest = gt_digest_mix(gt_digest_mix_text(digest, draft->init_names[i]), draft->init_gpus[i]);
    digest = gt_digest_mix(digest, draft->sidecars << 8 | draft->inits);
    digest = gt_digest_mix(digest, (uint32_t)draft->priority);
    digest = gt_digest_mix(digest, draft->created_s);
    return gt_digest_mix(digest, draft->owner_controls | draft->deleting << 1 | draft->gated << 2 |
                                     draft->other_gates << 3 | draft->refused << 4 | draft->containers << 5);
}

bool gt_cache_read_pod(const struct gt_cache *cache, const cJSON *object, struct cache_pod_draft *draft)
{
    const cJSON *metadata = gt_cache_get(object, "metadata"), *spec = gt_cache_get(object, "spec");
    bool bad = false;
    *draft = (struct cache_pod_draft){.spec = spec};
    draft->name = gt_cache_get_text(metadata, "name", GT_CLUSTER_NAME_MAX, &bad);
    draft->namespace_ = gt_cache_get_text(metadata, "namespace", GT_CLUSTER_NAME_MAX, &bad);
    draft->uid = gt_cache_get_text(metadata, "uid", VALUE_MAX, &bad);
    if (bad || !draft->name || !draft->namespace_ || !draft->uid || !spec)
        return false;
    const char *phase = gt_cache_get_text(gt_cache_get(object, "status"), "phase", VALUE_MAX, &bad);
    draft->ended = phase && (strcmp(phase, "Succeeded") == 0 || strcmp(phase, "Failed") == 0);
    if (!read_containers(cache, spec, draft))
        return false;
    if (draft->ended || !draft->gpu_sum)
        return true; /* nothing else of it matters */
    const cJSON *annotations = gt_cache_get(metadata, "annotations");
    if (!read_pairs(gt_cache_get(metadata, "labels"), draft->labels, &draft->label_count) ||
        !read_pairs(annotations, draft->annotations, &draft->annotation_count) ||
        !read_priority(spec, &draft->priority))
        return false;
    read_owner(metadata, draft, &bad);
    read_gates(spec, draft);
    draft->created_s =
        (uint64_t)gt_time_of_text(gt_cache_get_text(metadata, "creationTimestamp", VALUE_MAX, &bad));
    draft->deleting = gt_cache_get(metadata, "deletionTimestamp") != NULL;
    draft->scheduler = gt_cache_get_text(spec, "schedulerName", VALUE_MAX, &bad);
    draft->priority_class = gt_cache_get_text(spec, "priorityClassName", VALUE_MAX, &bad);
    draft->node_name = gt_cache_get_text(spec, "nodeName", GT_CLUSTER_NAME_MAX, &bad);
    bool bad_plan = false; /* a plan that makes no sense is none */
    draft->plan_gpus =
        gt_cache_get_text(annotations, GT_PLAN_ANNOTATION_GPUS, GT_POD_PLAN_TEXT_MAX, &bad_plan);
    draft->plan_node =
        gt_cache_get_text(annotations, GT_PLAN_ANNOTATION_NODE, GT_CLUSTER_NAME_MAX, &bad_plan);
    draft->bad_plan = bad_plan;
    draft->refused = draft->plan_node && is_refused(gt_cache_get(object, "status"));
    draft->digest = digest_of(cache, draft);
    return !bad;
}
