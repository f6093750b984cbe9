/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kinds/kind.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * A group has the name of its leader, "vllm-0", and so has the StatefulSet that makes its workers,
 * "vllm-0-1" and so on.
 * kind: LeaderWorkerSet
 * job: each group is a job, of its leader's name: `vllm-0`
 * role: `leader`, if the owner has the name in label `leaderworkerset.sigs.k8s.io/name`, else `worker`
 * index: label `leaderworkerset.sigs.k8s.io/worker-index`, else the end of the pod's name
 * templates: `spec.leaderWorkerTemplate`: one group, which is planned when its leader comes
 * come: together; the workers later with `LeaderReady`
 */

enum { JOBS_MAX = 4096 };

/* The label of a worker's number may be written after this: then its name has it. */
static int identify_leader_worker_set(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                                      struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *set = gt_pod_label(pod, GT_KEY_LEADER_WORKER_SET),
               *index = gt_pod_label(pod, GT_KEY_LEADER_WORKER_SET_INDEX);
    if (!set || !gt_pod_is_owned_by(pod, "StatefulSet") || !pod->owner_name)
        return 0;
    bool leads = strcmp(pod->owner_name, set) == 0;
    ret->job = leads ? pod->name : pod->owner_name;
    ret->owner = set;
    ret->role = leads ? "leader" : "worker";
    if (index)
        return gt_index_read(pod, GT_KEY_LEADER_WORKER_SET_INDEX, index, ret, err);
    if (leads || gt_index_of_name(pod, pod->owner_name, ret)) {
        ret->has_index = true;
        return 1;
    }
    return gt_index_missing(pod, GT_KEY_LEADER_WORKER_SET_INDEX, err);
}

static int read_leader_worker_set(struct gt_template_reader *reader, const cJSON *spec)
{
    const cJSON *group = gt_get(spec, "leaderWorkerTemplate"), *workers = gt_get(group, "workerTemplate"),
                *leader = gt_get(group, "leaderTemplate");
    uint32_t size = 0, replicas = 0, subgroup = 0;
    GT_TRY(gt_template_count(gt_get(group, "size"), "size", 1, &size, reader->err));
    GT_TRY(gt_template_count(gt_get(spec, "replicas"), "replicas", 1, &replicas, reader->err));
    GT_TRY(gt_template_add(reader, "leader", NULL, 1, leader ? leader : workers));
    /* Without a template of its own, so that sentences name the worker's. */
    for (enum gt_pod_key k = 0; !leader && k < GT_KEY_SIZES; k++) {
        const char **text = &reader->templates[0].texts.of[k];
        free((void *)(uintptr_t)*text);
        *text = NULL;
    }
    GT_TRY(gt_template_add(reader, "worker", NULL, size > 1 ? size - 1 : 0, workers));
    reader->templates[1].first = 1;
    GT_TRY(gt_template_count(gt_get_at(group, "subGroupPolicy", "subGroupSize"), "subGroupSize", 0, &subgroup,
                             reader->err));
    reader->templates[1].texts.subgroup = subgroup * gt_template_gpus(&reader->templates[1]);
    reader->owner->spec.in_order = reader->owner->spec.groups = true;
    reader->owner->stopped = !replicas;
    reader->owner->sequential = strcmp(gt_get_string(spec, "startupPolicy"), "LeaderReady") == 0;
    /* A rollout may have as many groups more. */
    reader->owner->jobs = replicas > JOBS_MAX / 2 ? JOBS_MAX : 2 * replicas;
    return 0;
}

/* As JobSet's: no plan of ours knows into which domain the workers follow their leader. */
static const char *warn_of_exclusive_groups(const cJSON *object)
{
    static const char *const keys[] = {"leaderworkerset.sigs.k8s.io/exclusive-topology",
                                       "leaderworkerset.sigs.k8s.io/subgroup-exclusive-topology"};
    const cJSON *annotations = gt_get_at(object, "metadata", "annotations");
    return gt_get(annotations, keys[0]) || gt_get(annotations, keys[1])
               ? "exclusive-topology of LeaderWorkerSet and gpu-group-size place the same pods and know "
                 "nothing of each other, so that some may wait for ever: use one of them"
               : NULL;
}

const struct gt_kind gt_kind_leader_worker_set = {
    .type = {"leaderworkerset.x-k8s.io", "v1", "leaderworkersets", "LeaderWorkerSet"},
    .name = "LeaderWorkerSet",
    .child = {"StatefulSet", GT_KEY_LEADER_WORKER_SET},
    .identify = identify_leader_worker_set,
    .read = read_leader_worker_set,
    .warn = warn_of_exclusive_groups};
