/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "api/kinds/kind.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * kind: PyTorchJob, TFJob, XGBoostJob, PaddleJob, JAXJob, MPIJob (Kubeflow's training operator; MPI operator)
 * job: label `training.kubeflow.org/job-name`, and the owner is of this kind; a Job owns the MPI operator's
 *   launcher
 * role: label `training.kubeflow.org/replica-type`; MPI operator: label `training.kubeflow.org/job-role`
 * index: label `training.kubeflow.org/replica-index`; a launcher without one is not of the job
 * templates: `spec.*ReplicaSpecs`; a launcher without GPUs has no rank; a TFJob's chief has rank 0, and so
 *   has the launcher with `runLauncherAsWorker` (MPI operator 0.7.0 or newer)
 * come: together
 */

static const char *in_lower_case(const char *role)
{
    static const char *const known[] = {"master", "worker"}; /* older operators write "Master" */
    for (size_t i = 0; i < GT_COUNT(known); i++)
        if (strcasecmp(role, known[i]) == 0)
            return known[i];
    return role;
}

static int identify_kubeflow(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                             struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *job = gt_pod_label(pod, GT_KEY_KUBEFLOW_JOB), *type = gt_pod_label(pod, GT_KEY_KUBEFLOW_TYPE),
               *index = gt_pod_label(pod, GT_KEY_KUBEFLOW_INDEX);
    if (!job || !gt_pod_is_owned_by(pod, kind->type.kind))
        return 0;
    if (!type)
        return gt_index_missing(pod, GT_KEY_KUBEFLOW_TYPE, err);
    if (!index)
        return gt_index_missing(pod, GT_KEY_KUBEFLOW_INDEX, err);
    ret->job = job;
    ret->role = in_lower_case(type);
    return gt_index_read(pod, GT_KEY_KUBEFLOW_INDEX, index, ret, err);
}

/* Also pods without an owner, which scripts make. */
static int identify_pytorch(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                            struct gt_pod_identity *ret, struct gt_err **err)
{
    struct gt_pod_meta as_owned = *pod;
    as_owned.owner_kind = pod->owner_kind ? pod->owner_kind : kind->type.kind;
    return identify_kubeflow(kind, &as_owned, ret, err);
}

/* The MPI operator writes the role under another key. A Job makes its launcher, which has an index where it
 * is a worker, too. */
static int identify_mpi(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                        struct gt_pod_identity *ret, struct gt_err **err)
{
    const char *job = gt_pod_label(pod, GT_KEY_KUBEFLOW_JOB), *role = gt_pod_label(pod, GT_KEY_KUBEFLOW_ROLE),
               *index = gt_pod_label(pod, GT_KEY_KUBEFLOW_INDEX);
    bool is_worker =
        gt_pod_is_owned_by(pod, kind->type.kind) || (index && gt_pod_is_owned_by(pod, kind->child.kind));
    if (!job || !role || gt_pod_label(pod, GT_KEY_KUBEFLOW_TYPE) || !is_worker)
        return 0;
    if (!index)
        return gt_index_missing(pod, GT_KEY_KUBEFLOW_INDEX, err);
    ret->job = job;
    ret->role = in_lower_case(role);
    return gt_index_read(pod, GT_KEY_KUBEFLOW_INDEX, index, ret, err);
}

static int read_kubeflow(struct gt_template_reader *reader, const cJSON *spec)
{
    uint32_t minimum = 0;
    GT_TRY(gt_template_add_roles(reader, gt_get(spec, reader->kind->roles), ""));
    GT_TRY(gt_template_count(gt_get(gt_get_at(spec, "runPolicy", "schedulingPolicy"), "minAvailable"),
                             "schedulingPolicy.minAvailable", 0, &minimum, reader->err));
    gt_template_set_minimum(reader->owner, "schedulingPolicy.minAvailable", minimum);
    return 0;
}

static int read_pytorch(struct gt_template_reader *reader, const cJSON *spec)
{
    const cJSON *policy = gt_get(spec, "elasticPolicy");
    uint32_t least = 0, most = 0;
    GT_TRY(read_kubeflow(reader, spec));
    GT_TRY(gt_template_count(gt_get(policy, "minReplicas"), "elasticPolicy.minReplicas", 0, &least,
                             reader->err));
    GT_TRY(
        gt_template_count(gt_get(policy, "maxReplicas"), "elasticPolicy.maxReplicas", 0, &most, reader->err));
    gt_template_set_least_workers(reader, "elasticPolicy.minReplicas", least, most);
    return 0;
}

static int read_with_master(struct gt_template_reader *reader, const cJSON *spec, const char *master)
{
    reader->owner->spec.master = strdup(master);
    return reader->owner->spec.master ? read_kubeflow(reader, spec)
                                      : gt_fail_sys(reader->err, ENOMEM, "owner");
}

static int read_tf(struct gt_template_reader *reader, const cJSON *spec)
{
    return read_with_master(reader, spec, "chief");
}

/* Where the launcher is a worker, the operator numbers the others from 1. */
static int read_mpi(struct gt_template_reader *reader, const cJSON *spec)
{
    if (!cJSON_IsTrue(gt_get(spec, "runLauncherAsWorker")))
        return read_kubeflow(reader, spec);
    int r = read_with_master(reader, spec, "launcher");
    for (unsigned i = 0; r >= 0 && i < reader->owner->spec.count; i++)
        reader->templates[i].first = strcasecmp(reader->templates[i].role, "worker") == 0;
    return r;
}

#define KUBEFLOW_KIND(VERSION, PLURAL, KIND, ROLES, IDENTIFY, READ, ...)                                     \
    {                                                                                                        \
        .type = {"kubeflow.org", (VERSION), (PLURAL), (KIND)}, .name = (KIND), .roles = (ROLES),             \
        .identify = (IDENTIFY), .read = (READ), .ended = "Succeeded", ##__VA_ARGS__                          \
    }

const struct gt_kind gt_kind_pytorch =
    KUBEFLOW_KIND("v1", "pytorchjobs", "PyTorchJob", "pytorchReplicaSpecs", identify_pytorch, read_pytorch);
const struct gt_kind gt_kind_tf =
    KUBEFLOW_KIND("v1", "tfjobs", "TFJob", "tfReplicaSpecs", identify_kubeflow, read_tf);
const struct gt_kind gt_kind_xgboost =
    KUBEFLOW_KIND("v1", "xgboostjobs", "XGBoostJob", "xgbReplicaSpecs", identify_kubeflow, read_kubeflow);
const struct gt_kind gt_kind_paddle =
    KUBEFLOW_KIND("v1", "paddlejobs", "PaddleJob", "paddleReplicaSpecs", identify_kubeflow, read_kubeflow);
const struct gt_kind gt_kind_jax =
    KUBEFLOW_KIND("v1", "jaxjobs", "JAXJob", "jaxReplicaSpecs", identify_kubeflow, read_kubeflow);
const struct gt_kind gt_kind_mpi =
    KUBEFLOW_KIND("v2beta1", "mpijobs", "MPIJob", "mpiReplicaSpecs", identify_mpi, read_mpi,
                  .child = {"Job", GT_KEY_KUBEFLOW_JOB});
const struct gt_kind gt_kind_mpi_v1 =
    KUBEFLOW_KIND("v1", "mpijobs", "MPIJob", "mpiReplicaSpecs", identify_kubeflow, read_kubeflow);
