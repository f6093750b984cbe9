/* SPDX-License-Identifier: Apache-2.0 */
#include "api/owner.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/pod.h"
#include "base/buf.h"
#include "base/digest.h"
#include "base/json_get.h"

/* One reader a kind: each finds the templates in its object; the rest is the same for all. */

enum { TEMPLATES_MAX = 64, ROLE_MAX = 253, SIZE_TEXT_MAX = 64 };

struct reader {
    const char *resource;
    struct gt_owner *owner;
    struct gt_job_template *templates;
    bool gpus; /* some template asks for them */
    struct gt_err **err;
};

struct kind {
    struct gt_owner_type type;
    int (*read)(struct reader *reader, const cJSON *spec);
};

/* What users say of a job. */
static const struct {
    const char *key;
    size_t at;
} annotations[] = {
    {GT_ANNOTATION_GROUP, offsetof(struct gt_job_template, group)},
    {GT_ANNOTATION_ATOMIC, offsetof(struct gt_job_template, atomic)},
    {GT_ANNOTATION_LOSS, offsetof(struct gt_job_template, loss)},
    {GT_ANNOTATION_UNPLACED, offsetof(struct gt_job_template, unplaced)},
};

static const char **text_of_key(const struct gt_job_template *template, unsigned key)
{
    return (const char **)((uintptr_t) template + annotations[key].at);
}

void gt_owner_free(struct gt_owner *owner)
{
    for (unsigned i = 0; owner->spec.templates && i < owner->spec.count; i++) {
        const struct gt_job_template *template = &owner->spec.templates[i];
        free((void *)(uintptr_t) template->role);
        free((void *)(uintptr_t) template->gpus);
        for (unsigned k = 0; k < GT_COUNT(annotations); k++)
            free((void *)(uintptr_t)*text_of_key(template, k));
    }
    free((void *)(uintptr_t)owner->spec.templates);
    free((void *)(uintptr_t)owner->spec.master);
    free((void *)(uintptr_t)owner->refusal);
    free(owner->ended_at);
    free(owner);
}

/* A count or number of pods; `fallback` where it is not given. */
static int read_count(const cJSON *json, const char *what, uint32_t fallback, uint32_t *ret,
                      struct gt_err **err)
{
    if (!json || cJSON_IsNull(json)) {
        *ret = fallback;
        return 0;
    }
    double number = cJSON_IsNumber(json) ? json->valuedouble : -1;
    if (!(number >= 0) || number > GT_OWNER_REPLICAS_MAX || number != floor(number))
        return gt_fail(err, EINVAL, "%s is no number of pods from 0 to %d", what, GT_OWNER_REPLICAS_MAX);
    *ret = (uint32_t)number;
    return 0;
}

/* An annotation as text, cut where it is longer: no size then. NULL: there is none. Custom resources
 * may hold annotations as numbers, which the pods then have as texts. */
static int copy_size(const cJSON *metadata, const char *key, const char **ret, struct gt_err **err)
{
    const cJSON *value = gt_get(gt_get(metadata, "annotations"), key);
    char text[SIZE_TEXT_MAX] = "(no text)";
    if (!value || cJSON_IsNull(value))
        return 0;
    if (cJSON_IsString(value))
        snprintf(text, sizeof(text), "%s", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(text, sizeof(text), "%.17g", value->valuedouble);
    *ret = strdup(text);
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "owner");
}

static int add_template(struct reader *reader, const char *role, const cJSON *replicas, uint32_t fallback,
                        const cJSON *pod)
{
    struct gt_pod_gpus gpus;
    struct gt_job_template *template = &reader->templates[reader->owner->spec.count];
    if (reader->owner->spec.count == TEMPLATES_MAX)
        return gt_fail(reader->err, E2BIG, "more than %d templates", TEMPLATES_MAX);
    if (strlen(role) > ROLE_MAX)
        return gt_fail(reader->err, EINVAL, "a template's name is longer than %d", ROLE_MAX);
    int r = gt_pod_gpus_read(gt_get(pod, "spec"), reader->resource, &gpus, reader->err);
    if (r >= 0)
        r = read_count(replicas, "replicas", fallback, &template->replicas, reader->err);
    if (r < 0)
        return role[0] ? gt_wrap(reader->err, "template %s", role) : r;
    unsigned *counts = malloc(sizeof(*counts) * (gpus.containers + 1));
    reader->owner->spec.count++;
    template->role = strdup(role);
    template->gpus = counts;
    template->containers = gpus.containers;
    if (!template->role || !counts)
        return gt_fail_sys(reader->err, ENOMEM, "owner");
    memcpy(counts, gpus.counts, sizeof(*counts) * gpus.containers);
    reader->gpus = reader->gpus || gpus.total;
    for (unsigned k = 0; r >= 0 && k < GT_COUNT(annotations); k++)
        r = copy_size(gt_get(pod, "metadata"), annotations[k].key, text_of_key(template, k), reader->err);
    return r;
}

static int read_roles(struct reader *reader, const cJSON *roles, const char *ignored)
{
    const cJSON *role;
    cJSON_ArrayForEach(role, roles)
    {
        if (!role->string || strcmp(role->string, ignored) == 0)
            continue;
        int r = add_template(reader, role->string, gt_get(role, "replicas"), 1, gt_get(role, "template"));
        if (r < 0)
            return r;
    }
    return 0;
}

/* ---- how small a job may start ---- */

/* Where its numbers contradict each other, the first sentence of it stays. */
static void refuse(struct gt_owner *owner, const char *what, uint32_t number, uint32_t limit,
                   const char *of_what)
{
    gt_auto_buf struct gt_buf text = GT_BUF(512);
    if (owner->refusal)
        return;
    gt_buf_printf(&text, "%s: %u is more than %s, %u", what, number, of_what, limit);
    owner->refusal = gt_buf_take(&text);
}

static uint32_t all_pods(const struct gt_owner *owner)
{
    uint64_t pods = 0;
    for (unsigned i = 0; i < owner->spec.count; i++)
        pods += owner->spec.templates[i].replicas;
    return pods > UINT32_MAX ? UINT32_MAX : (uint32_t)pods;
}

static void set_minimum(struct gt_owner *owner, const char *what, uint32_t minimum)
{
    uint32_t pods = all_pods(owner);
    if (minimum > pods)
        refuse(owner, what, minimum, pods, "the number of its pods");
    else if (minimum > owner->spec.minimum)
        owner->spec.minimum = minimum;
}

/* `what` says that so many of the workers alone are enough. `most` 0: not given. */
static void set_least_workers(struct reader *reader, const char *what, uint32_t least, uint32_t most)
{
    uint64_t minimum = 0;
    if (!least)
        return;
    if (most && least > most)
        refuse(reader->owner, what, least, most, "the most");
    for (unsigned i = 0; i < reader->owner->spec.count; i++) {
        struct gt_job_template *template = &reader->templates[i];
        bool fewer = strcasecmp(template->role, "worker") == 0;
        if (fewer && least > template->replicas)
            refuse(reader->owner, what, least, template->replicas, "the replicas of its workers");
        template->minimum = fewer ? least : template->replicas;
        minimum += template->minimum;
    }
    if (!reader->owner->refusal)
        set_minimum(reader->owner, what, (uint32_t)minimum);
}

static int read_pytorch(struct reader *reader, const cJSON *spec)
{
    uint32_t minimum = 0;
    int r = read_roles(reader, gt_get(spec, "pytorchReplicaSpecs"), "");
    if (r >= 0)
        r = read_count(gt_get(gt_get_at(spec, "runPolicy", "schedulingPolicy"), "minAvailable"),
                       "schedulingPolicy.minAvailable", 0, &minimum, reader->err);
    if (r < 0)
        return r;
    set_minimum(reader->owner, "schedulingPolicy.minAvailable", minimum);
    const cJSON *policy = gt_get(spec, "elasticPolicy");
    uint32_t least = 0, most = 0;
    r = read_count(gt_get(policy, "minReplicas"), "elasticPolicy.minReplicas", 0, &least, reader->err);
    if (r >= 0)
        r = read_count(gt_get(policy, "maxReplicas"), "elasticPolicy.maxReplicas", 0, &most, reader->err);
    if (r >= 0)
        set_least_workers(reader, "elasticPolicy.minReplicas", least, most);
    return r;
}

static bool read_nodes(const char **at, uint32_t *ret)
{
    char *end;
    unsigned long number = isdigit((unsigned char)**at) ? strtoul(*at, &end, 10) : ULONG_MAX;
    if (number > GT_OWNER_REPLICAS_MAX)
        return false;
    *at = end;
    *ret = (uint32_t)number;
    return true;
}

/* Its object has no field for that; an argument of the launcher says it: "dlrover-run --nnodes=MIN:MAX". */
static void read_launcher(struct reader *reader, const cJSON *words)
{
    static const char option[] = "--nnodes";
    const cJSON *word;
    cJSON_ArrayForEach(word, words)
    {
        const char *at = cJSON_GetStringValue(word);
        uint32_t least, most;
        at = at ? strstr(at, option) : NULL;
        if (!at)
            continue;
        at += sizeof(option) - 1;
        at = *at || !word->next ? at : cJSON_GetStringValue(word->next);
        at = at ? at + strspn(at, "= \"'") : "";
        if (read_nodes(&at, &least) && *at++ == ':' && read_nodes(&at, &most))
            set_least_workers(reader, option, least, most);
    }
}

/* Its own master does no training (jobs/identity.h). */
static int read_elastic(struct reader *reader, const cJSON *spec)
{
    const cJSON *role, *container, *roles = gt_get(spec, "replicaSpecs");
    int r = read_roles(reader, roles, "dlrover-master");
    cJSON_ArrayForEach(role, roles)
    {
        if (r < 0 || !role->string || strcasecmp(role->string, "worker") != 0)
            continue;
        cJSON_ArrayForEach(container, gt_get_at(gt_get(role, "template"), "spec", "containers"))
        {
            read_launcher(reader, gt_get(container, "command"));
            read_launcher(reader, gt_get(container, "args"));
        }
    }
    return r;
}

static int read_volcano_task(struct reader *reader, const cJSON *task, uint32_t *sum)
{
    const char *name = gt_get_string(task, "name");
    int r =
        add_template(reader, *name ? name : "default", gt_get(task, "replicas"), 1, gt_get(task, "template"));
    if (r < 0)
        return r;
    struct gt_job_template *template = &reader->templates[reader->owner->spec.count - 1];
    r = read_count(gt_get(task, "minAvailable"), "minAvailable", template->replicas, &template->minimum,
                   reader->err);
    if (r < 0)
        return r;
    if (template->minimum > template->replicas)
        refuse(reader->owner, "minAvailable of a task", template->minimum, template->replicas,
               "its replicas");
    *sum += template->minimum;
    return 0;
}

/* As Volcano has it: minima of tasks count unless the job's own is less than their sum. */
static int read_volcano_minimum(struct reader *reader, const cJSON *spec, uint32_t sum)
{
    uint32_t minimum = 0;
    int r = read_count(gt_get(spec, "minAvailable"), "minAvailable", 0, &minimum, reader->err);
    if (r < 0)
        return r;
    for (unsigned i = 0; minimum && minimum < sum && i < reader->owner->spec.count; i++)
        reader->templates[i].minimum = 0;
    set_minimum(reader->owner, "minAvailable", minimum ? minimum : sum);
    return 0;
}

static int read_volcano(struct reader *reader, const cJSON *spec)
{
    static const char option[] = "--master=";
    const cJSON *task, *argument;
    uint32_t sum = 0;
    cJSON_ArrayForEach(task, gt_get(spec, "tasks"))
    {
        int r = read_volcano_task(reader, task, &sum);
        if (r < 0)
            return r;
    }
    int r = read_volcano_minimum(reader, spec, sum);
    if (r < 0)
        return r;
    cJSON_ArrayForEach(argument, gt_get_at(spec, "plugins", "pytorch"))
    {
        const char *text = cJSON_GetStringValue(argument);
        if (!text || strncmp(text, option, strlen(option)) != 0 || reader->owner->spec.master)
            continue;
        reader->owner->spec.master = strdup(text + strlen(option));
        if (!reader->owner->spec.master)
            return gt_fail_sys(reader->err, ENOMEM, "owner");
    }
    return 0;
}

static int read_job(struct reader *reader, const cJSON *spec)
{
    uint32_t parallelism = 0, completions = 0;
    int r = read_count(gt_get(spec, "parallelism"), "parallelism", 1, &parallelism, reader->err);
    if (r >= 0)
        r = read_count(gt_get(spec, "completions"), "completions", parallelism, &completions, reader->err);
    if (r < 0)
        return r;
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
    return add_template(reader, "", NULL, completions, gt_get(spec, "template"));
}

static int read_statefulset(struct reader *reader, const cJSON *spec)
{
    const char *policy = gt_get_string(spec, "podManagementPolicy");
    reader->owner->sequential = strcmp(policy, "Parallel") != 0;
    int r = add_template(reader, "", gt_get(spec, "replicas"), 1, gt_get(spec, "template"));
    return r < 0 ? r
                 : read_count(gt_get_at(spec, "ordinals", "start"), "ordinals.start", 0,
                              &reader->templates[0].first, reader->err);
}

static int read_replicaset(struct reader *reader, const cJSON *spec)
{
    return add_template(reader, "", gt_get(spec, "replicas"), 1, gt_get(spec, "template"));
}

static const struct kind kinds[GT_OWNER_KINDS] = {
    [GT_OWNER_PYTORCH] = {{"kubeflow.org", "v1", "pytorchjobs", "PyTorchJob"}, read_pytorch},
    [GT_OWNER_VOLCANO] = {{"batch.volcano.sh", "v1alpha1", "jobs", "Job"}, read_volcano},
    [GT_OWNER_ELASTIC] = {{"elastic.iml.github.io", "v1alpha1", "elasticjobs", "ElasticJob"}, read_elastic},
    [GT_OWNER_JOB] = {{"batch", "v1", "jobs", "Job"}, read_job},
    [GT_OWNER_STATEFULSET] = {{"apps", "v1", "statefulsets", "StatefulSet"}, read_statefulset},
    [GT_OWNER_REPLICASET] = {{"apps", "v1", "replicasets", "ReplicaSet"}, read_replicaset},
};

const struct gt_owner_type *gt_owner_type(enum gt_owner_kind kind)
{
    return &kinds[kind].type;
}

enum gt_owner_kind gt_owner_kind_of(const char *api_version, const char *kind)
{
    size_t len = api_version ? strcspn(api_version, "/") : 0;
    for (int i = 0; kind && api_version && i < GT_OWNER_KINDS; i++)
        if (strcmp(kinds[i].type.kind, kind) == 0 && strlen(kinds[i].type.group) == len &&
            strncmp(kinds[i].type.group, api_version, len) == 0)
            return (enum gt_owner_kind)i;
    return GT_OWNER_KINDS;
}

/* ---- pods that have ended ---- */

static uint32_t succeeded(const cJSON *status)
{
    double number = cJSON_GetNumberValue(gt_get(status, "succeeded"));
    return number > 0 && number <= GT_OWNER_REPLICAS_MAX ? (uint32_t)number : 0;
}

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

static void read_ended(struct gt_owner *owner, enum gt_owner_kind kind, const cJSON *status)
{
    const cJSON *role;
    owner->ended = succeeded(status);
    cJSON_ArrayForEach(role, gt_get(status, "replicaStatuses")) owner->ended += succeeded(role);
    if (kind != GT_OWNER_JOB)
        return;
    add_ended(owner, cJSON_GetStringValue(gt_get(status, "completedIndexes")));
    add_ended(owner, cJSON_GetStringValue(gt_get(status, "failedIndexes")));
}

bool gt_owner_has_ended(const struct gt_owner *owner, uint32_t rank)
{
    return owner->ended_at && rank < owner->spec.templates[0].replicas &&
           owner->ended_at[rank / 64] >> rank % 64 & 1;
}

static bool is_true(const cJSON *conditions, const char *type)
{
    const cJSON *condition;
    cJSON_ArrayForEach(condition, conditions)
    {
        if (strcmp(gt_get_string(condition, "type"), type) == 0)
            return strcmp(gt_get_string(condition, "status"), "True") == 0;
    }
    return false;
}

/* Volcano suspends by aborting. The names of phases and conditions are those of the kinds' own controllers.
 */
static bool is_stopped(enum gt_owner_kind kind, const cJSON *object)
{
    static const char *const phases[] = {"Aborting",    "Aborted",    "Completing", "Completed",
                                         "Terminating", "Terminated", "Failed"};
    static const char *const conditions[] = {"Complete", "Succeeded", "Failed"};
    const cJSON *spec = gt_get(object, "spec"), *status = gt_get(object, "status");
    if (gt_get_at(object, "metadata", "deletionTimestamp") || cJSON_IsTrue(gt_get(spec, "suspend")) ||
        cJSON_IsTrue(gt_get_at(spec, "runPolicy", "suspend")))
        return true;
    const char *phase = gt_get_string(gt_get(status, "state"), "phase");
    for (unsigned i = 0; kind == GT_OWNER_VOLCANO && i < GT_COUNT(phases); i++)
        if (strcmp(phase, phases[i]) == 0)
            return true;
    for (unsigned i = 0; (kind == GT_OWNER_JOB || kind == GT_OWNER_PYTORCH) && i < GT_COUNT(conditions); i++)
        if (is_true(gt_get(status, "conditions"), conditions[i]))
            return true;
    return false;
}

/* An annotation of the object itself counts as if all templates had it, where none has it. *ret_digest
 * changes with what counts: the generation of the object does not. */
static int read_own(struct reader *reader, const cJSON *metadata, uint64_t *ret_digest)
{
    const unsigned count = reader->owner->spec.count;
    int r = 0;
    for (unsigned k = 0; k < GT_COUNT(annotations); k++) {
        bool given = false;
        for (unsigned i = 0; i < count && !given; i++)
            given = *text_of_key(&reader->templates[i], k);
        for (unsigned i = 0; i < count && !given && r >= 0; i++)
            r = copy_size(metadata, annotations[k].key, text_of_key(&reader->templates[i], k), reader->err);
        const char *own = count && !given && r >= 0 ? *text_of_key(&reader->templates[0], k) : NULL;
        if (own)
            *ret_digest = gt_digest_number(gt_digest_number(*ret_digest, k), gt_digest_keyed(own));
    }
    return r;
}

/* ---- pods that may fail ---- */

enum { BACKOFF_LIMIT = 6 }; /* the API server's default */

static bool ignores_disruption(const cJSON *spec)
{
    const cJSON *rule, *pattern;
    cJSON_ArrayForEach(rule, gt_get_at(spec, "podFailurePolicy", "rules"))
    {
        bool ignores = strcmp(gt_get_string(rule, "action"), "Ignore") == 0;
        cJSON_ArrayForEach(pattern, gt_get(rule, "onPodConditions"))
        {
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
static uint32_t failures_left(enum gt_owner_kind kind, const cJSON *spec, const cJSON *status)
{
    uint64_t limit = BACKOFF_LIMIT, failed = 0;
    if (kind != GT_OWNER_JOB || ignores_disruption(spec))
        return UINT32_MAX;
    if (gt_get(spec, "backoffLimitPerIndex"))
        return 0;
    gt_json_is_unsigned(gt_get(spec, "backoffLimit"), UINT32_MAX - 1, &limit);
    gt_json_is_unsigned(gt_get(status, "failed"), UINT32_MAX - 1, &failed);
    return limit > failed ? (uint32_t)(limit - failed) : 0;
}

static uint64_t version_of(const cJSON *metadata, uint64_t uid)
{
    uint64_t generation;
    if (!uid || !gt_json_is_unsigned(gt_get(metadata, "generation"), UINT32_MAX, &generation) || !generation)
        return 0;
    return gt_digest_number(uid, generation);
}

/* Made by an object of a kind that is left alone. */
static bool is_part_of_another(const cJSON *object)
{
    const cJSON *labels = gt_get_at(object, "metadata", "labels");
    return gt_get(labels, GT_LABEL_LEADER_WORKER_SET) || gt_get(labels, GT_LABEL_JOB_SET);
}

int gt_owner_read(enum gt_owner_kind kind, const cJSON *object, const char *resource, struct gt_owner **ret,
                  struct gt_err **err)
{
    gt_auto_owner struct gt_owner *owner = calloc(1, sizeof(*owner));
    struct reader reader = {.resource = resource, .owner = owner, .err = err};
    const cJSON *spec = gt_get(object, "spec");
    if (!owner || !(reader.templates = calloc(TEMPLATES_MAX, sizeof(*reader.templates))))
        return gt_fail_sys(err, ENOMEM, "owner");
    owner->spec.templates = reader.templates;
    if (!cJSON_IsObject(spec))
        return gt_fail(err, EINVAL, "a %s without a spec", kinds[kind].type.kind);
    int r = kinds[kind].read(&reader, spec);
    if (r < 0)
        return r;
    read_ended(owner, kind, gt_get(object, "status"));
    owner->failures_left = failures_left(kind, spec, gt_get(object, "status"));
    const cJSON *metadata = gt_get(object, "metadata");
    const char *uid = gt_get_string(metadata, "uid");
    uint64_t own = owner->uid = *uid ? gt_digest_keyed(uid) : 0;
    r = read_own(&reader, metadata, &own);
    if (r < 0)
        return r;
    owner->version = version_of(metadata, own);
    owner->stopped = owner->stopped || is_stopped(kind, object);
    struct gt_job_template *fitting =
        realloc(reader.templates, sizeof(*fitting) * (owner->spec.count ? owner->spec.count : 1));
    owner->spec.templates = fitting ? fitting : reader.templates;
    *ret = reader.gpus && !is_part_of_another(object) ? gt_steal(owner) : NULL;
    return 0;
}

/* NULL: none is assigned yet. */
static const cJSON *assigned_count(const cJSON *workload, const char *name)
{
    const cJSON *assignment;
    cJSON_ArrayForEach(assignment, gt_get_at(workload, "status", "admission", "podSetAssignments"))
    {
        if (strcmp(gt_get_string(assignment, "name"), name) == 0)
            return gt_get(assignment, "count");
    }
    return NULL;
}

int gt_owner_read_pod_sets(const cJSON *workload, const char *resource, struct gt_owner **ret,
                           struct gt_err **err)
{
    gt_auto_owner struct gt_owner *owner = calloc(1, sizeof(*owner));
    struct reader reader = {.resource = resource, .owner = owner, .err = err};
    const cJSON *pod_set;
    if (!owner || !(reader.templates = calloc(TEMPLATES_MAX, sizeof(*reader.templates))))
        return gt_fail_sys(err, ENOMEM, "owner");
    owner->spec.templates = reader.templates;
    cJSON_ArrayForEach(pod_set, gt_get_at(workload, "spec", "podSets"))
    {
        const char *name = gt_get_string(pod_set, "name");
        const cJSON *count = assigned_count(workload, name);
        int r = add_template(&reader, name, count ? count : gt_get(pod_set, "count"), 1,
                             gt_get(pod_set, "template"));
        if (r < 0)
            return r;
    }
    *ret = reader.gpus ? gt_steal(owner) : NULL;
    return 0;
}

bool gt_owner_is_grouped(const struct gt_owner *owner)
{
    for (unsigned i = 0; i < owner->spec.count; i++)
        if (owner->spec.templates[i].group)
            return true;
    return false;
}

enum { TEMPLATE_DEPTH = 4 }; /* below the spec: replica specs, a role, its template */

static void visit_below(cJSON *json, unsigned depth, void (*visit)(void *arg, cJSON *spec), void *arg)
{
    cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        cJSON *spec = item->string && strcmp(item->string, "template") == 0
                          ? cJSON_GetObjectItemCaseSensitive(item, "spec")
                          : NULL;
        if (spec)
            visit(arg, spec);
        else if (depth && (cJSON_IsObject(item) || cJSON_IsArray(item)))
            visit_below(item, depth - 1, visit, arg);
    }
}

void gt_owner_each_template(cJSON *object, void (*visit)(void *arg, cJSON *spec), void *arg)
{
    visit_below(cJSON_GetObjectItemCaseSensitive(object, "spec"), TEMPLATE_DEPTH, visit, arg);
}
