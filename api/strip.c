/* SPDX-License-Identifier: Apache-2.0 */
#include "api/strip.h"

#include <string.h>

#include "api/names.h"
#include "base/cleanup.h"
#include "base/json_get.h"

static const char *const strip_container_keys[] = {
    "env",           "envFrom",       "command",        "args",         "volumeMounts",   "lifecycle",
    "volumeDevices", "livenessProbe", "readinessProbe", "startupProbe", "securityContext"};

/* Nothing of ours depends on it, and it may be secret. */
static void strip_containers(cJSON *spec, const char *list, bool anonymous)
{
    const cJSON *containers = cJSON_GetObjectItemCaseSensitive(spec, list);
    for (cJSON *container = containers ? containers->child : NULL; container; container = container->next) {
        for (size_t i = 0; i < GT_COUNT(strip_container_keys); i++)
            cJSON_DeleteItemFromObjectCaseSensitive(container, strip_container_keys[i]);
        if (anonymous)
            cJSON_DeleteItemFromObjectCaseSensitive(container, "image");
    }
}

static void strip_keys(cJSON *metadata, const char *member, bool anonymous)
{
    cJSON *map = cJSON_GetObjectItemCaseSensitive(metadata, member);
    for (cJSON *item = map ? map->child : NULL, *next; item; item = next) {
        next = item->next;
        if (strcmp(item->string, "kubectl.kubernetes.io/last-applied-configuration") == 0 ||
            (anonymous && !strstr(item->string, GT_USER_PREFIX)))
            cJSON_Delete(cJSON_DetachItemViaPointer(map, item));
    }
}

void gt_strip(cJSON *object, bool anonymous)
{
    static const char *const private[] = {"affinity",    "nodeSelector", "tolerations",
                                          "hostAliases", "dnsConfig",    "imagePullSecrets"};
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    cJSON *spec = cJSON_GetObjectItemCaseSensitive(object, "spec");
    cJSON *status = cJSON_GetObjectItemCaseSensitive(object, "status");
    cJSON_DeleteItemFromObjectCaseSensitive(metadata, "managedFields");
    strip_keys(metadata, "annotations", anonymous);
    if (anonymous)
        strip_keys(metadata, "labels", true);
    cJSON_DeleteItemFromObjectCaseSensitive(spec, "volumes");
    strip_containers(spec, "containers", anonymous);
    strip_containers(spec, "initContainers", anonymous);
    strip_containers(spec, "ephemeralContainers", anonymous);
    cJSON_DeleteItemFromObjectCaseSensitive(status, "images");
    cJSON_DeleteItemFromObjectCaseSensitive(status, "volumesAttached");
    for (size_t i = 0; anonymous && i < GT_COUNT(private); i++)
        cJSON_DeleteItemFromObjectCaseSensitive(spec, private[i]);
    if (anonymous) {
        cJSON_DeleteItemFromObjectCaseSensitive(status, "containerStatuses");
        cJSON_DeleteItemFromObjectCaseSensitive(status, "initContainerStatuses");
    }
}

bool gt_program_of_pod(const cJSON *object, struct gt_program *ret)
{
    const cJSON *containers = gt_get_at(object, "spec", "containers");
    const cJSON *first = cJSON_IsArray(containers) ? containers->child : NULL;
    const cJSON *ports = gt_get(first, "ports");
    *ret = (struct gt_program){.container = gt_get_string(first, "name")};
    for (const cJSON *port = cJSON_IsArray(ports) ? ports->child : NULL; port; port = port->next) {
        uint64_t number;
        if (strcmp(gt_get_string(port, "name"), "http") == 0 &&
            gt_json_is_unsigned(gt_get(port, "containerPort"), UINT16_MAX, &number))
            ret->http = (uint16_t)number;
    }
    return *ret->container;
}
