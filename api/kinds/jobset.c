/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/kinds/kind.h"
#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * Sets of equal Jobs. Kubeflow's trainer makes a JobSet of its TrainJob's name.
 * kind: JobSet, so Kubeflow's TrainJob
 * job: `jobset.sigs.k8s.io/jobset-name`, label or annotation, as the next two
 * role: `jobset.sigs.k8s.io/replicatedjob-name`
 * index: `jobset.sigs.k8s.io/job-index`, then the completion index
 * templates: `spec.replicatedJobs`, all or nothing over the set
 * come: together; with `InOrder` or `dependsOn` between Jobs with GPUs one after the other
 */

static int identify_jobset(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                           struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *job = gt_pod_key_value(pod, GT_KEY_JOB_SET),
               *role = gt_pod_key_value(pod, GT_KEY_JOB_SET_ROLE),
               *child = gt_pod_key_value(pod, GT_KEY_JOB_SET_INDEX),
               *index = gt_pod_key_value(pod, GT_KEY_JOB_INDEX);
    if (!job)
        return 0;
    if (!role || !child || !index)
        return gt_index_missing(pod,
                                !role    ? GT_KEY_JOB_SET_ROLE
                                : !child ? GT_KEY_JOB_SET_INDEX
                                         : GT_KEY_JOB_INDEX,
                                err);
    int r = gt_index_read(pod, GT_KEY_JOB_SET_INDEX, child, ret, err);
    ret->job = job;
    ret->role = role;
    ret->child = ret->index;
    return r < 0 ? r : gt_index_read(pod, GT_KEY_JOB_INDEX, index, ret, err);
}

static int read_replicated_job(struct gt_template_reader *reader, const cJSON *job)
{
    uint32_t replicas = 0, parallelism = 0, completions = 0;
    const cJSON *template = gt_get(job, "template"), *spec = gt_get(template, "spec");
    const char *name = gt_get_string(job, "name");
    GT_TRY(gt_template_count(gt_get(job, "replicas"), "replicas", 1, &replicas, reader->err));
    GT_TRY(gt_template_count(gt_get(spec, "parallelism"), "parallelism", 1, &parallelism, reader->err));
    GT_TRY(gt_template_count(gt_get(spec, "completions"), "completions", parallelism, &completions,
                             reader->err));
    if ((uint64_t)replicas * completions > GT_OWNER_REPLICAS_MAX)
        return gt_fail(reader->err, E2BIG, "%.60s: %u Jobs of %u pods are more than %d pods", name, replicas,
                       completions, GT_OWNER_REPLICAS_MAX);
    GT_TRY(gt_template_add(reader, name, NULL, replicas * completions, gt_get(spec, "template")));
    struct gt_job_template *added = &reader->templates[reader->owner->spec.count - 1];
    added->per_child = completions;
    if (parallelism < completions)
        gt_template_refuse(reader->owner, "completions", added->role, completions, parallelism,
                           "its parallelism");
    for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++) /* as for a Job, its own metadata counts */
        if (!added->texts.of[k])
            GT_TRY(gt_template_copy_text(gt_get(template, "metadata"), k, added, reader->err));
    return 0;
}

/* A later Job with GPUs may come when an earlier one is ready, or has ended. */
static int read_jobset(struct gt_template_reader *reader, const cJSON *spec)
{
    const char *order = gt_get_string(gt_get(spec, "startupPolicy"), "startupPolicyOrder");
    bool ordered = strcmp(order, "InOrder") == 0;
    unsigned with_gpus = 0;
    reader->owner->spec.in_order = true;
    for (const cJSON *job = gt_first(gt_get(spec, "replicatedJobs")); job; job = job->next) {
        GT_TRY(read_replicated_job(reader, job));
        if (!gt_template_gpus(&reader->templates[reader->owner->spec.count - 1]))
            continue;
        ordered = ordered || cJSON_GetArraySize(gt_get(job, "dependsOn"));
        reader->owner->sequential = ordered && with_gpus++;
    }
    return 0;
}

/* It counts Jobs that have succeeded. */
static void read_ended_jobs(struct gt_owner *owner, const cJSON *status)
{
    for (const cJSON *job = gt_first(gt_get(status, "replicatedJobsStatus")); job; job = job->next) {
        uint64_t jobs = 0;
        gt_json_is_unsigned(gt_get(job, "succeeded"), GT_OWNER_REPLICAS_MAX, &jobs);
        for (unsigned i = 0; i < owner->spec.count; i++) {
            const struct gt_job_template *template = &owner->spec.templates[i];
            if (gt_template_gpus(template) && strcmp(template->role, gt_get_string(job, "name")) == 0)
                owner->ended += jobs * template->per_child < template->replicas
                                    ? (uint32_t)jobs * template->per_child
                                    : template->replicas;
        }
    }
}

/* Each Job counts its failures by itself, which is not read. */
static uint32_t jobset_failures_left(const cJSON *spec, const cJSON *status)
{
    (void)status;
    for (const cJSON *job = gt_first(gt_get(spec, "replicatedJobs")); job; job = job->next) {
        if (!gt_job_ignores_disruption(gt_get_at(job, "template", "spec")))
            return 0;
    }
    return UINT32_MAX;
}

/* JobSet lets all pods of a Job follow its first one into a domain, which no plan of ours knows. */
static const char *warn_of_exclusive(const cJSON *object)
{
    static const char key[] = "alpha.jobset.sigs.k8s.io/exclusive-topology";
    bool given = gt_get(gt_get_at(object, "metadata", "annotations"), key);
    const cJSON *job;
    cJSON_ArrayForEach(job, gt_get_at(object, "spec", "replicatedJobs")) given =
        given || gt_get(gt_get_at(job, "template", "metadata", "annotations"), key);
    return given ? "alpha.jobset.sigs.k8s.io/exclusive-topology and gpu-group-size place the same pods and "
                   "know nothing of each other, so that some may wait for ever: use one of them"
                 : NULL;
}

const struct gt_kind gt_kind_jobset = {.type = {"jobset.x-k8s.io", "v1alpha2", "jobsets", "JobSet"},
                                       .name = "JobSet",
                                       .child = {"Job", GT_KEY_JOB_SET},
                                       .maker = {"trainer.kubeflow.org", "TrainJob"},
                                       .units_in_roles = true,
                                       .identify = identify_jobset,
                                       .read = read_jobset,
                                       .warn = warn_of_exclusive,
                                       .ended = "Completed",
                                       .read_ended = read_ended_jobs,
                                       .failures_left = jobset_failures_left};
