/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/pod_json.h"

#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/jobs/rules.h"

enum { KEY_MAX = 64 };

const cJSON *gt_pod_json_at(const cJSON *json, const char *path)
{
    while (json && *path) {
        char key[KEY_MAX];
        size_t len = strcspn(path, ".");
        if (len >= sizeof(key))
            return NULL;
        memcpy(key, path, len);
        key[len] = 0;
        json = cJSON_IsObject(json) ? cJSON_GetObjectItemCaseSensitive(json, key) : NULL;
        path += len + (path[len] == '.');
    }
    return json;
}

const char *gt_pod_json_text(const cJSON *json, const char *path)
{
    return cJSON_GetStringValue(gt_pod_json_at(json, path));
}

bool gt_pod_has_gate(const cJSON *pod, const char *name, unsigned *ret_count)
{
    bool found = false;
    unsigned count = 0;
    const cJSON *gate;
    cJSON_ArrayForEach(gate, gt_pod_json_at(pod, "spec.schedulingGates"))
    {
        const char *text = gt_pod_json_text(gate, "name");
        found = found || (text && strcmp(text, name) == 0);
        count++;
    }
    if (ret_count)
        *ret_count = count;
    return found;
}

/* Custom resources may hold annotations as numbers, which the pods then have as texts. */
static bool read_annotation(const cJSON *annotations, const char *key, char to[static GT_SHAPE_TEXT_MAX])
{
    const cJSON *value = annotations ? cJSON_GetObjectItemCaseSensitive(annotations, key) : NULL;
    if (!value || cJSON_IsNull(value))
        return false;
    if (cJSON_IsString(value)) {
        size_t len = strnlen(value->valuestring, GT_SHAPE_TEXT_MAX - 1);
        memcpy(to, value->valuestring, len);
        to[len] = 0;
    } else if (!cJSON_IsNumber(value) ||
               !cJSON_PrintPreallocated((cJSON *)(uintptr_t)value, to, GT_SHAPE_TEXT_MAX, false)) {
        gt_text_copy(to, GT_SHAPE_TEXT_MAX, "(no text)");
    }
    return true;
}

/* Of an extended resource limits and requests are equal, and one of them may be left out. */
static int read_gpus(const cJSON *container, const char *resource, unsigned *ret, struct gt_err **err)
{
    static const char *const places[] = {"resources.limits", "resources.requests"};
    for (size_t i = 0; i < GT_COUNT(places); i++) {
        const cJSON *list = gt_pod_json_at(container, places[i]);
        const cJSON *value = cJSON_IsObject(list) ? cJSON_GetObjectItemCaseSensitive(list, resource) : NULL;
        uint64_t number = 0;
        const char *name = gt_pod_json_text(container, "name");
        if (!value || cJSON_IsNull(value))
            continue;
        if (cJSON_IsNumber(value) && value->valuedouble >= 0 && value->valuedouble <= GT_POD_GPUS_MAX &&
            (double)(unsigned)value->valuedouble == value->valuedouble)
            number = (uint64_t)value->valuedouble;
        else if (!cJSON_IsString(value) || !gt_text_to_unsigned(value->valuestring, GT_POD_GPUS_MAX, &number))
            return gt_fail(err, EINVAL, "container %.60s: %s is \"%.40s\", expected a number from 0 to %d",
                           name ? name : "", resource, cJSON_IsString(value) ? value->valuestring : "",
                           GT_POD_GPUS_MAX);
        *ret = (unsigned)number;
        return 0;
    }
    *ret = 0;
    return 0;
}

static int add_gpus(struct gt_pod_shape *shape, unsigned gpus, struct gt_err **err)
{
    if (!gpus)
        return 0;
    if (shape->containers == GT_POD_CONTAINERS_MAX)
        return gt_fail(err, E2BIG, "more than %d containers with GPUs", GT_POD_CONTAINERS_MAX);
    shape->gpus[shape->containers++] = gpus;
    shape->total += gpus;
    return 0;
}

/* As Kubernetes counts, and the cache: the sum of the containers and of the restartable init containers, or
 * an ordinary init container with the restartable ones before it where that is more. */
static int add_containers(const cJSON *pod, const char *resource, struct gt_pod_shape *shape,
                          struct gt_err **err)
{
    const cJSON *item;
    unsigned gpus, most = 0;
    int r = 0;
    cJSON_ArrayForEach(item, gt_pod_json_at(pod, "spec.initContainers"))
    {
        const char *policy = gt_pod_json_text(item, "restartPolicy");
        r = read_gpus(item, resource, &gpus, err);
        if (r >= 0 && policy && strcmp(policy, "Always") == 0)
            r = add_gpus(shape, gpus, err);
        else if (r >= 0 && gpus && shape->total + gpus > most)
            most = shape->total + gpus;
        if (r < 0)
            return r;
    }
    cJSON_ArrayForEach(item, gt_pod_json_at(pod, "spec.containers"))
    {
        r = read_gpus(item, resource, &gpus, err);
        if (r >= 0)
            r = add_gpus(shape, gpus, err);
        if (r < 0)
            return r;
    }
    return most > shape->total ? add_gpus(shape, most - shape->total, err) : 0;
}

int gt_pod_shape_read(const cJSON *pod, const char *resource, struct gt_pod_shape *ret, struct gt_err **err)
{
    struct gt_pod_shape shape = {0};
    int r = add_containers(pod, resource, &shape, err);
    if (r < 0)
        return r;
    const cJSON *annotations = gt_pod_json_at(pod, "metadata.annotations");
    shape.has_group = read_annotation(annotations, GT_ANNOTATION_GROUP, shape.group);
    shape.has_atomic = read_annotation(annotations, GT_ANNOTATION_ATOMIC, shape.atomic);
    *ret = shape;
    return 0;
}

/* The owner that controls it, else the first. */
static const cJSON *owner_of(const cJSON *pod)
{
    const cJSON *owners = gt_pod_json_at(pod, "metadata.ownerReferences"), *owner;
    cJSON_ArrayForEach(owner, owners)
    {
        if (cJSON_IsTrue(gt_pod_json_at(owner, "controller")))
            return owner;
    }
    return cJSON_GetArrayItem(owners, 0);
}

/* By the keys that are read, since an object may have any number of others. */
static unsigned read_pairs(const cJSON *pod, const char *path, struct gt_pair *to)
{
    unsigned count = 0;
    const cJSON *all = gt_pod_json_at(pod, path);
    for (unsigned i = 0; cJSON_IsObject(all) && i < GT_POD_KEYS; i++) {
        const char *value = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(all, gt_pod_keys[i]));
        if (value)
            to[count++] = (struct gt_pair){gt_pod_keys[i], value};
    }
    return count;
}

void gt_pod_meta_read(const cJSON *pod, const char *namespace_, const struct gt_pod_shape *shape,
                      struct gt_pod_pairs *pairs, struct gt_pod_meta *ret, const char **ret_api_version)
{
    const char *name = gt_pod_json_text(pod, "metadata.name");
    const cJSON *owner = owner_of(pod);
    *ret =
        (struct gt_pod_meta){.namespace_ = namespace_,
                             .name = name ? name : "",
                             .labels = pairs->labels,
                             .annotations = pairs->annotations,
                             .label_count = read_pairs(pod, "metadata.labels", pairs->labels),
                             .annotation_count = read_pairs(pod, "metadata.annotations", pairs->annotations),
                             .owner_kind = gt_pod_json_text(owner, "kind"),
                             .owner_name = gt_pod_json_text(owner, "name"),
                             .owner_controls = cJSON_IsTrue(gt_pod_json_at(owner, "controller")),
                             .gpus = shape->gpus,
                             .containers = shape->containers};
    *ret_api_version = gt_pod_json_text(owner, "apiVersion");
}
