/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds/kind.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "api/names.h"
#include "api/pod.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/text.h"

enum { ROLE_MAX = 253, SIZE_TEXT_MAX = 64 };

uint32_t gt_template_gpus(const struct gt_job_template *template)
{
    uint32_t gpus = 0;
    for (unsigned i = 0; i < template->containers; i++)
        gpus += template->gpus[i];
    return gpus;
}

int gt_template_count(const cJSON *json, const char *what, uint32_t fallback, uint32_t *ret,
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

int gt_template_copy_text(const cJSON *metadata, enum gt_pod_key key, struct gt_job_template *template,
                          struct gt_err **err)
{
    const cJSON *value = gt_get(gt_get(metadata, "annotations"), gt_pod_key_text(key));
    char text[SIZE_TEXT_MAX] = "(no text)";
    if (!value || cJSON_IsNull(value))
        return 0;
    if (cJSON_IsString(value))
        snprintf(text, sizeof(text), "%s", value->valuestring);
    else if (cJSON_IsNumber(value))
        snprintf(text, sizeof(text), "%.17g", value->valuedouble);
    template->texts.of[key] = strdup(text);
    return template->texts.of[key] ? 0 : gt_fail_sys(err, ENOMEM, "owner");
}

int gt_template_add(struct gt_template_reader *reader, const char *role, const cJSON *replicas,
                    uint32_t fallback, const cJSON *pod)
{
    struct gt_pod_gpus gpus;
    struct gt_job_template *template = &reader->templates[reader->owner->spec.count];
    if (reader->owner->spec.count == GT_TEMPLATES_MAX)
        return gt_fail(reader->err, E2BIG, "more than %d templates", GT_TEMPLATES_MAX);
    if (strlen(role) > ROLE_MAX)
        return gt_fail(reader->err, EINVAL, "a template's name is longer than %d", ROLE_MAX);
    int r = gt_pod_gpus_read(gt_get(pod, "spec"), reader->resource, &gpus, reader->err);
    if (r >= 0)
        r = gt_template_count(replicas, "replicas", fallback, &template->replicas, reader->err);
    if (r < 0)
        return role[0] ? gt_wrap(reader->err, "template %s", role) : r;
    unsigned *counts = malloc(sizeof(*counts) * (gpus.containers + 1));
    reader->owner->spec.count++;
    template->role = strdup(role);
    template->gpus = counts;
    template->containers = gpus.containers;
    template->requests = gpus.requests;
    if (!template->role || !counts)
        return gt_fail_sys(reader->err, ENOMEM, "owner");
    memcpy(counts, gpus.counts, sizeof(*counts) * gpus.containers);
    reader->gpus = reader->gpus || gpus.total;
    for (enum gt_pod_key k = 0; r >= 0 && k < GT_KEY_SIZES; k++)
        r = gt_template_copy_text(gt_get(pod, "metadata"), k, template, reader->err);
    return r;
}

int gt_template_add_roles(struct gt_template_reader *reader, const cJSON *roles, const char *ignored)
{
    const cJSON *role;
    cJSON_ArrayForEach(role, roles)
    {
        if (!role->string || strcmp(role->string, ignored) == 0)
            continue;
        GT_TRY(gt_template_add(reader, role->string, gt_get(role, "replicas"), 1, gt_get(role, "template")));
    }
    return 0;
}

/* ---- how small a job may start ---- */

void gt_template_refuse(struct gt_owner *owner, const char *what, const char *role, uint32_t number,
                        uint32_t limit, const char *of_what)
{
    gt_auto_buf struct gt_buf text = GT_BUF(512);
    if (owner->refusal)
        return;
    gt_buf_printf(&text, "%s%s%s: %u is more than %s, %u", what, role[0] ? " of " : "", role, number, of_what,
                  limit);
    owner->refusal = gt_buf_take(&text);
}

static uint32_t all_pods(const struct gt_owner *owner)
{
    uint64_t pods = 0;
    for (unsigned i = 0; i < owner->spec.count; i++)
        pods += owner->spec.templates[i].replicas;
    return pods > UINT32_MAX ? UINT32_MAX : (uint32_t)pods;
}

void gt_template_set_minimum(struct gt_owner *owner, const char *what, uint32_t minimum)
{
    uint32_t pods = all_pods(owner);
    if (minimum > pods)
        gt_template_refuse(owner, what, "", minimum, pods, "the number of its pods");
    else if (minimum > owner->spec.minimum)
        owner->spec.minimum = minimum;
}

void gt_template_set_least_workers(struct gt_template_reader *reader, const char *what, uint32_t least,
                                   uint32_t most)
{
    uint64_t minimum = 0;
    if (!least)
        return;
    if (most && least > most)
        gt_template_refuse(reader->owner, what, "", least, most, "the maximum");
    for (unsigned i = 0; i < reader->owner->spec.count; i++) {
        struct gt_job_template *template = &reader->templates[i];
        bool fewer = strcasecmp(template->role, "worker") == 0;
        if (fewer && least > template->replicas)
            gt_template_refuse(reader->owner, what, "", least, template->replicas,
                               "the replicas of its workers");
        template->minimum = fewer ? least : template->replicas;
        minimum += template->minimum;
    }
    if (!reader->owner->refusal)
        gt_template_set_minimum(reader->owner, what, (uint32_t)minimum);
}

const char *gt_pod_key_value(const struct gt_pod_meta *pod, enum gt_pod_key key)
{
    if (key == GT_POD_KEYS)
        return NULL;
    const char *value = gt_pod_label(pod, key);
    return value ? value : gt_pod_annotation(pod, key);
}

int gt_index_read(const struct gt_pod_meta *pod, enum gt_pod_key key, const char *text,
                  struct gt_pod_identity *ret, struct gt_err **err)
{
    uint64_t number;
    if (!gt_text_to_unsigned(text, GT_OWNER_REPLICAS_MAX - 1, &number))
        return gt_fail(err, EINVAL, "pod %s/%s: %s is \"%.60s\", expected a number from 0 to %d",
                       pod->namespace_, pod->name, gt_pod_key_text(key), text, GT_OWNER_REPLICAS_MAX - 1);
    ret->has_index = true;
    ret->index = (uint32_t)number;
    return 1;
}

int gt_index_missing(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_err **err)
{
    return gt_fail(err, EINVAL, "pod %s/%s: %s is missing, its rank is not known", pod->namespace_, pod->name,
                   gt_pod_key_text(key));
}

bool gt_index_of_name(const struct gt_pod_meta *pod, const char *before, struct gt_pod_identity *ret)
{
    size_t len = strlen(before);
    if (strncmp(pod->name, before, len) != 0 || pod->name[len] != '-')
        return false;
    return gt_index_read(pod, GT_KEY_GROUP, pod->name + len + 1, ret, NULL) > 0;
}

bool gt_pod_is_owned_by(const struct gt_pod_meta *pod, const char *kind)
{
    return pod->owner_kind && strcmp(pod->owner_kind, kind) == 0;
}
