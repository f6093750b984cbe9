/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/err.h"
#include "scheduler-ext/volcano/engine.h"

/* Passes objects of the API server to the cache and to the owners. */

static const char without_owner[] = "jobs of this kind are planned from the pods that are there";

static const struct gt_volcano_resource fixed[VOLCANO_OWNERS] = {
    [VOLCANO_TOPOLOGIES] = {GT_API_GROUP, GT_API_VERSION, GT_PLURAL_NODE_GPU_TOPOLOGY, "", 0,
                            "no node is known: jobs with a group size wait, and nodes are not scored"},
    [VOLCANO_SUPERNODES] = {GT_API_GROUP, GT_API_VERSION, GT_PLURAL_SUPERNODE, "", 0,
                            "each node is a supernode of itself"},
    [VOLCANO_NODES] = {"", "v1", "nodes", "", 1, ""},
    [VOLCANO_PODS] = {"", "v1", "pods", "status.phase!=Succeeded", 1, ""},
    [VOLCANO_LEASES] = {"coordination.k8s.io", "v1", "leases", "metadata.name=" GT_COMPANION_NAME, 0,
                        "places that gputopo-scheduler has reserved for pods to come are taken for free"},
    [VOLCANO_NAMESPACES] = {"", "v1", "namespaces", "", 0,
                            "no Namespace is known to ask that its jobs lie close"},
};

/* GT_JOB_KINDS: it is none of them. */
static enum gt_job_kind kind_of_resource(unsigned resource)
{
    return resource < VOLCANO_OWNERS ? GT_JOB_KINDS : gt_owner_watched(resource - VOLCANO_OWNERS);
}

const struct gt_volcano_resource *gt_volcano_resource(unsigned resource)
{
    static struct gt_volcano_resource owners[GT_JOB_KINDS];
    if (resource < VOLCANO_OWNERS)
        return &fixed[resource];
    enum gt_job_kind kind = kind_of_resource(resource);
    if (kind == GT_JOB_KINDS)
        return NULL;
    const struct gt_owner_type *type = gt_owner_type(kind);
    struct gt_volcano_resource *made = &owners[resource - VOLCANO_OWNERS];
    *made = (struct gt_volcano_resource){type->group, type->version, type->plural, "", 0, without_owner};
    return made;
}

/* 1: a kubelet refuses a pod of a job with units, and `told` says so, once. The cache forgets a pod that has
 * ended. Of one that was refused before it was listed, the plan says that its job has units. */
static int put_pod(struct gt_volcano *volcano, const cJSON *object, char *told)
{
    struct gt_pod pod;
    struct backoff_refusal refusal;
    const struct gt_cache_moment now = {.ms = gt_clock_ms(), .unix_s = (int64_t)(gt_clock_wall_ms() / 1000)};
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_ranks_read(&volcano->ranks, &pod);
    const struct gt_cache_pod *known = gt_cache_find_pod(volcano->cache, pod.meta.namespace_, pod.meta.name);
    const struct volcano_job *job = known ? known->job->user : NULL;
    bool grouped =
        known ? job && job->verdict == 1 : gt_get(pod.annotations, GT_PLAN_ANNOTATION_UNIT) != NULL;
    bool refused = grouped && gt_pod_is_refused_by_kubelet(&pod) &&
                   gt_backoff_refusal(&volcano->backoffs, volcano->cache, known, &pod, &now, &refusal);
    gt_cache_pod(volcano->cache, &pod);
    return refused ? gt_volcano_say(told, 1, refusal.text) : 0;
}

/* Without memory it stays even when a later list does not contain it. */
static void know(struct gt_volcano *volcano, unsigned resource, const cJSON *object)
{
    const char *namespace_ = gt_meta_namespace(object), *name = gt_meta_name(object);
    struct gt_index *index = &volcano->known[resource];
    struct gt_index_entry *entry = *name ? gt_index_find(index, namespace_, name) : NULL;
    if (!entry && *name)
        entry = gt_index_add(index, namespace_, name);
    if (entry)
        entry->mark = (uint32_t)volcano->session_number;
}

int gt_volcano_put(struct gt_volcano *volcano, unsigned resource, const char *json, size_t len, char *error)
{
    if (volcano->session.open)
        return gt_volcano_say(error, -EBUSY, "objects are handed in between sessions");
    gt_auto_err struct gt_err *err = NULL;
    enum gt_closeness closeness;
    int told = 0;
    cJSON *object = len <= GT_VOLCANO_OBJECT_MAX ? cJSON_ParseWithLength(json, len) : NULL;
    if (!cJSON_IsObject(object) || resource >= VOLCANO_RESOURCES) {
        cJSON_Delete(object);
        return gt_volcano_say(error, -EINVAL, "it is no object that can be read");
    }
    switch (resource) {
    case VOLCANO_TOPOLOGIES:
        gt_cache_topology(volcano->cache, object, gt_clock_ms());
        break;
    case VOLCANO_SUPERNODES:
        gt_cache_supernode(volcano->cache, object);
        break;
    case VOLCANO_NODES:
        gt_cache_node(volcano->cache, object);
        break;
    case VOLCANO_PODS:
        told = put_pod(volcano, object, error);
        break;
    case VOLCANO_LEASES:
        gt_volcano_put_lease(volcano, object);
        break;
    case VOLCANO_NAMESPACES:
        gt_cache_related(volcano->cache, GT_RELATED_NAMESPACE, object);
        gt_namespace_closeness(object, &closeness, &err);
        break;
    default:
        gt_owners_put(volcano->owners, kind_of_resource(resource), object);
    }
    know(volcano, resource, object);
    cJSON_Delete(object);
    return err ? gt_volcano_say(error, -gt_err_code(err), gt_err_text(err)) : told;
}

static void volcano_objects_forget(struct gt_volcano *volcano, unsigned resource, const char *namespace_,
                                   const char *name)
{
    switch (resource) {
    case VOLCANO_TOPOLOGIES:
        gt_cache_topology_deleted(volcano->cache, name);
        break;
    case VOLCANO_SUPERNODES:
        gt_cache_supernode_deleted(volcano->cache, name);
        break;
    case VOLCANO_NODES:
        gt_cache_node_deleted(volcano->cache, name);
        break;
    case VOLCANO_PODS:
        gt_ranks_remove(&volcano->ranks, namespace_, name);
        gt_cache_pod_deleted(volcano->cache, namespace_, name);
        break;
    case VOLCANO_LEASES:
        gt_volcano_remove_lease(volcano, namespace_);
        break;
    case VOLCANO_NAMESPACES:
        gt_cache_related_deleted(volcano->cache, GT_RELATED_NAMESPACE, "", name);
        break;
    default:
        gt_owners_remove(volcano->owners, kind_of_resource(resource), namespace_, name);
    }
}

void gt_volcano_remove(struct gt_volcano *volcano, unsigned resource, const char *namespace_,
                       const char *name)
{
    if (volcano->session.open || resource >= VOLCANO_RESOURCES)
        return;
    free(gt_index_take(&volcano->known[resource], namespace_, name));
    volcano_objects_forget(volcano, resource, namespace_, name);
}

void gt_volcano_listed(struct gt_volcano *volcano, unsigned resource)
{
    size_t slot = 0;
    struct gt_index_entry *entry;
    if (volcano->session.open || resource >= VOLCANO_RESOURCES)
        return;
    while ((entry = gt_index_take_unmarked(&volcano->known[resource], (uint32_t)volcano->session_number,
                                           &slot))) {
        volcano_objects_forget(volcano, resource, entry->key, gt_index_name(entry));
        free(entry);
    }
}
