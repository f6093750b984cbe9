/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/kinds/kind.h"
#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * RayJob and RayService make a RayCluster of another name, so that their pods are its pods.
 * kind: RayCluster, so RayJob and RayService
 * job: each group of an owner in label `ray.io/cluster` is a job: `demo.workers`, the head `demo.headgroup`
 * role: label `ray.io/group`
 * index: the order of the pods' names; a new pod gets a free rank
 * templates: each of `spec.workerGroupSpecs`: `replicas` times `numOfHosts`, and the head
 * come: together
 */

static const char head[] = "headgroup"; /* as KubeRay calls it */

static int identify_ray(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                        struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *cluster = gt_pod_label(pod, GT_KEY_RAY_CLUSTER), *group = gt_pod_label(pod, GT_KEY_RAY_GROUP);
    if (!cluster || !gt_pod_is_owned_by(pod, kind->type.kind))
        return 0;
    if (!group)
        return gt_index_missing(pod, GT_KEY_RAY_GROUP, err);
    ret->job = cluster;
    ret->role = group;
    return 1;
}

/* The member with the cluster's spec, where it is not the object's own. */
static const cJSON *ray_cluster(const struct gt_kind *kind, const cJSON *spec)
{
    return kind->roles ? gt_get(spec, kind->roles) : spec;
}

static unsigned count_ray_groups(const struct gt_kind *kind, const cJSON *spec)
{
    int groups = cJSON_GetArraySize(gt_get(ray_cluster(kind, spec), "workerGroupSpecs"));
    return groups < GT_TEMPLATES_MAX ? (unsigned)groups + 1 : GT_TEMPLATES_MAX;
}

/* KubeRay keeps the replicas between the group's limits. */
static int count_ray_workers(const cJSON *group, uint32_t *ret_hosts, uint32_t *ret, struct gt_err **err)
{
    uint32_t replicas = 0, least = 0, most = GT_OWNER_REPLICAS_MAX;
    GT_TRY(gt_template_count(gt_get(group, "replicas"), "replicas", 0, &replicas, err));
    GT_TRY(gt_template_count(gt_get(group, "minReplicas"), "minReplicas", 0, &least, err));
    if (cJSON_GetNumberValue(gt_get(group, "maxReplicas")) < most)
        GT_TRY(gt_template_count(gt_get(group, "maxReplicas"), "maxReplicas", most, &most, err));
    GT_TRY(gt_template_count(gt_get(group, "numOfHosts"), "numOfHosts", 1, ret_hosts, err));
    replicas = replicas < least ? least : replicas > most ? most : replicas;
    if ((uint64_t)replicas * *ret_hosts > GT_OWNER_REPLICAS_MAX)
        return gt_fail(err, E2BIG, "%u replicas of %u hosts: more than %d pods", replicas, *ret_hosts,
                       GT_OWNER_REPLICAS_MAX);
    *ret = cJSON_IsTrue(gt_get(group, "suspend")) ? 0 : replicas * *ret_hosts;
    return 0;
}

static int read_ray(struct gt_template_reader *reader, const cJSON *spec)
{
    const cJSON *cluster = ray_cluster(reader->kind, spec);
    uint32_t pods = 0, hosts = 1;
    if (!reader->job)
        return gt_template_add(reader, head, NULL, 1, gt_get_at(cluster, "headGroupSpec", "template"));
    const cJSON *group = cJSON_GetArrayItem(gt_get(cluster, "workerGroupSpecs"), (int)reader->job - 1);
    const char *name = gt_get_string(group, "groupName");
    GT_TRY_WRAP(count_ray_workers(group, &hosts, &pods, reader->err), reader->err, "group %.60s", name);
    if (cJSON_IsTrue(gt_get(cluster, "enableInTreeAutoscaling")))
        reader->owner->spec.step = hosts;
    return gt_template_add(reader, name, NULL, pods, gt_get(group, "template"));
}

const struct gt_kind gt_kind_ray_cluster = {.type = {"ray.io", "v1", "rayclusters", "RayCluster"},
                                            .name = "RayCluster",
                                            .is_nameless = true,
                                            .roles_are_jobs = true,
                                            .identify = identify_ray,
                                            .count_jobs = count_ray_groups,
                                            .read = read_ray};
const struct gt_kind gt_kind_ray_job = {.type = {"ray.io", "v1", "rayjobs", "RayJob"},
                                        .name = "RayJob",
                                        .roles = "rayClusterSpec",
                                        .is_only_checked = true,
                                        .roles_are_jobs = true,
                                        .count_jobs = count_ray_groups,
                                        .read = read_ray};
const struct gt_kind gt_kind_ray_service = {.type = {"ray.io", "v1", "rayservices", "RayService"},
                                            .name = "RayService",
                                            .roles = "rayClusterConfig",
                                            .is_only_checked = true,
                                            .roles_are_jobs = true,
                                            .count_jobs = count_ray_groups,
                                            .read = read_ray};
