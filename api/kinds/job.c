/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/kinds/kind.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_get.h"

/*
 * Also any other Job of Kubernetes, whose pods have no index.
 * kind: Indexed Job
 * job: label `batch.kubernetes.io/job-name` (or `job-name`, or the owner)
 * index: annotation or label `batch.kubernetes.io/job-completion-index`
 * templates: `completions`
 * come: together, or [unit by unit](#jobs-that-start-small)
 */

static int identify_indexed(const struct gt_kind *kind, const struct gt_pod_meta *pod,
                            struct gt_pod_identity *ret, struct gt_err **err)
{
    (void)kind;
    const char *index = gt_pod_key_value(pod, GT_KEY_JOB_INDEX), *job = gt_pod_label(pod, GT_KEY_JOB);
    job = job ? job : gt_pod_label(pod, GT_KEY_OLD_JOB);
    job = !job && gt_pod_is_owned_by(pod, "Job") ? pod->owner_name : job;
    if (!index || !job)
        return 0;
    ret->job = job;
    return gt_index_read(pod, GT_KEY_JOB_INDEX, index, ret, err);
}

static int kind_job_read(struct gt_template_reader *reader, const cJSON *spec)
{
    uint32_t parallelism = 0, completions = 0;
    GT_TRY(gt_template_count(gt_get(spec, "parallelism"), "parallelism", 1, &parallelism, reader->err));
    GT_TRY(gt_template_count(gt_get(spec, "completions"), "completions", parallelism, &completions,
                             reader->err));
    reader->owner->stopped = !parallelism;
    if (parallelism < completions && strcmp(gt_get_string(spec, "completionMode"), "Indexed") != 0) {
        gt_auto_buf struct gt_buf text = GT_BUF(256);
        gt_buf_printf(&text,
                      "parallelism %u is less than completions %u: with gpu-group-size that needs "
                      "completionMode Indexed",
                      parallelism, completions);
        reader->owner->refusal = gt_buf_take(&text);
    } else if (parallelism < completions) {
        reader->owner->spec.at_once = reader->owner->spec.minimum = parallelism;
    }
    return gt_template_add(reader, "", NULL, completions, gt_get(spec, "template"));
}

/* ---- pods that have ended ---- */

/* Ranges in ascending order, "0-2,5", as far as they make sense. */
static void add_ended(struct gt_owner *owner, const char *ranges)
{
    uint32_t pods = owner->spec.count ? owner->spec.templates[0].replicas : 0;
    if (!ranges || (!owner->ended_at && !(owner->ended_at = calloc(pods / 64 + 1, sizeof(uint64_t)))))
        return;
    for (unsigned long next = 0; *ranges; ranges++) {
        char *end;
        unsigned long first = strtoul(ranges, &end, 10);
        unsigned long last = *end == '-' ? strtoul(end + 1, &end, 10) : first;
        if (end == ranges || first < next || last < first || last >= pods)
            return;
        for (next = first; next <= last; next++)
            owner->ended_at[next / 64] |= UINT64_C(1) << next % 64;
        ranges = end;
        if (*ranges != ',')
            return;
    }
}

static void read_ended_indexes(struct gt_owner *owner, const cJSON *status)
{
    add_ended(owner, cJSON_GetStringValue(gt_get(status, "completedIndexes")));
    add_ended(owner, cJSON_GetStringValue(gt_get(status, "failedIndexes")));
}

/* ---- pods that may fail ---- */

enum { BACKOFF_LIMIT = 6 }; /* the API server's default */

bool gt_job_ignores_disruption(const cJSON *spec)
{
    for (const cJSON *rule = gt_first(gt_get_at(spec, "podFailurePolicy", "rules")); rule;
         rule = rule->next) {
        bool ignores = strcmp(gt_get_string(rule, "action"), "Ignore") == 0;
        for (const cJSON *pattern = gt_first(gt_get(rule, "onPodConditions")); pattern;
             pattern = pattern->next) {
            if (strcmp(gt_get_string(pattern, "type"), "DisruptionTarget") != 0)
                continue;
            const char *status = gt_get_string(pattern, "status");
            if (!*status || strcmp(status, "True") == 0)
                return ignores; /* the first rule that matches counts */
        }
    }
    return false;
}

/* The Job's controller counts an evicted pod as failed. With a limit for each index it counts by index, which
 * is not read: none may be evicted. */
static uint32_t job_failures_left(const cJSON *spec, const cJSON *status)
{
    uint64_t limit = BACKOFF_LIMIT, failed = 0;
    if (gt_job_ignores_disruption(spec))
        return UINT32_MAX;
    if (gt_get(spec, "backoffLimitPerIndex"))
        return 0;
    gt_json_is_unsigned(gt_get(spec, "backoffLimit"), UINT32_MAX - 1, &limit);
    gt_json_is_unsigned(gt_get(status, "failed"), UINT32_MAX - 1, &failed);
    return limit > failed ? (uint32_t)(limit - failed) : 0;
}

const struct gt_kind gt_kind_job = {.type = {"batch", "v1", "jobs", "Job"},
                                    .name = "Job",
                                    .identify = identify_indexed,
                                    .is_also_owned = true,
                                    .read = kind_job_read,
                                    .ended = "Complete",
                                    .read_ended = read_ended_indexes,
                                    .failures_left = job_failures_left};
