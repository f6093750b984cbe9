/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/kinds/kind.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * kind: Volcano Job
 * job: label or annotation `volcano.sh/job-name`
 * role: `volcano.sh/task-spec`, either
 * index: `volcano.sh/task-index`, either; else the end of the pod's name
 * templates: `spec.tasks`; the master as `--master=` of the pytorch plugin says
 * come: together
 */

static int identify_volcano(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                            struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *job = gt_pod_key_value(pod, GT_KEY_VOLCANO_JOB),
               *task = gt_pod_key_value(pod, GT_KEY_VOLCANO_TASK),
               *index = gt_pod_key_value(pod, GT_KEY_VOLCANO_INDEX);
    if (!job)
        return 0;
    if (!task)
        return gt_index_missing(pod, GT_KEY_VOLCANO_TASK, err);
    ret->job = job;
    ret->role = task;
    if (index)
        return gt_index_read(pod, GT_KEY_VOLCANO_INDEX, index, ret, err);
    gt_auto_buf struct gt_buf before = GT_BUF(1024); /* older than v1.9: from the name */
    gt_buf_printf(&before, "%s-%s", job, task);
    return before.data && gt_index_of_name(pod, before.data, ret)
               ? 1
               : gt_index_missing(pod, GT_KEY_VOLCANO_INDEX, err);
}

static int read_volcano_task(struct gt_template_reader *reader, const cJSON *task, uint32_t *sum)
{
    const char *name = gt_get_string(task, "name");
    GT_TRY(gt_template_add(reader, *name ? name : "default", gt_get(task, "replicas"), 1,
                           gt_get(task, "template")));
    struct gt_job_template *template = &reader->templates[reader->owner->spec.count - 1];
    GT_TRY(gt_template_count(gt_get(task, "minAvailable"), "minAvailable", template->replicas,
                             &template->minimum, reader->err));
    if (template->minimum > template->replicas)
        gt_template_refuse(reader->owner, "minAvailable", template->role, template->minimum,
                           template->replicas, "its replicas");
    *sum += template->minimum;
    return 0;
}

/* As Volcano has it: minima of tasks count unless the job's own is less than their sum. */
static int read_volcano_minimum(struct gt_template_reader *reader, const cJSON *spec, uint32_t sum)
{
    uint32_t minimum = 0;
    GT_TRY(gt_template_count(gt_get(spec, "minAvailable"), "minAvailable", 0, &minimum, reader->err));
    for (unsigned i = 0; minimum && minimum < sum && i < reader->owner->spec.count; i++)
        reader->templates[i].minimum = 0;
    gt_template_set_minimum(reader->owner, "minAvailable", minimum ? minimum : sum);
    return 0;
}

static int read_volcano(struct gt_template_reader *reader, const cJSON *spec)
{
    static const char option[] = "--master=";
    uint32_t sum = 0;
    for (const cJSON *task = gt_first(gt_get(spec, "tasks")); task; task = task->next) {
        GT_TRY(read_volcano_task(reader, task, &sum));
    }
    GT_TRY(read_volcano_minimum(reader, spec, sum));
    for (const cJSON *argument = gt_first(gt_get_at(spec, "plugins", "pytorch")); argument;
         argument = argument->next) {
        const char *text = cJSON_GetStringValue(argument);
        if (!text || strncmp(text, option, strlen(option)) != 0 || reader->owner->spec.master)
            continue;
        reader->owner->spec.master = strdup(text + strlen(option));
        if (!reader->owner->spec.master)
            return gt_fail_sys(reader->err, ENOMEM, "owner");
    }
    return 0;
}

/* It suspends by aborting. */
static bool has_volcano_stopped(const struct gt_kind *kind, const cJSON *status)
{
    (void)kind;
    static const char *const phases[] = {"Aborting",    "Aborted",    "Completing", "Completed",
                                         "Terminating", "Terminated", "Failed"};
    const char *phase = gt_get_string(gt_get(status, "state"), "phase");
    return GT_HAS_TEXT(phases, GT_COUNT(phases), phase);
}

const struct gt_kind gt_kind_volcano = {.type = {"batch.volcano.sh", "v1alpha1", "jobs", "Job"},
                                        .name = "VolcanoJob",
                                        .identify = identify_volcano,
                                        .read = read_volcano,
                                        .has_stopped = has_volcano_stopped};
