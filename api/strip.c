/* SPDX-License-Identifier: Apache-2.0 */
#include "api/strip.h"

#include <string.h>

#include "api/names.h"
#include "base/cleanup.h"
#include "base/json_get.h"

/* Members that are taken out wherever they stand: nothing of ours depends on them, and they may be secret.
 * Labels may have such keys, too: texts stay but where all foreign labels go. */
static const char *const strip_always[] = {
    "managedFields",   "env",       "envFrom",         "command",           "args",         "volumeMounts",
    "volumeDevices",   "lifecycle", "livenessProbe",   "readinessProbe",    "startupProbe", "volumes",
    "securityContext", "images",    "volumesAttached", "staticPodURLHeader"};
/* Texts that say nothing of GPUs, in each of many pods; no label has such a key. */
static const char *const strip_long[] = {"imageID", "containerID", "terminationMessagePath",
                                         "terminationMessagePolicy", "imagePullPolicy"};
static const char *const strip_private[] = {"image",
                                            "affinity",
                                            "nodeSelector",
                                            "taints",
                                            "topologySpreadConstraints",
                                            "tolerations",
                                            "hostAliases",
                                            "dnsConfig",
                                            "imagePullSecrets",
                                            "containerStatuses",
                                            "initContainerStatuses",
                                            "by",
                                            "serial",
                                            "providerID",
                                            "machineID",
                                            "systemUUID",
                                            "bootID",
                                            "staticPodURL"};

static void strip_members(cJSON *value, bool anonymous, bool ours)
{
    for (cJSON *item = value ? value->child : NULL, *next; item; item = next) {
        next = item->next;
        const char *key = item->string ? item->string : "";
        if (strcmp(key, "terminated") == 0) /* may be the end of a container's log */
            cJSON_DeleteItemFromObjectCaseSensitive(item, "message");
        if ((GT_HAS_TEXT(strip_always, GT_COUNT(strip_always), key) && !cJSON_IsString(item) &&
             !(ours && !anonymous && strcmp(key, "args") == 0)) ||
            GT_HAS_TEXT(strip_long, GT_COUNT(strip_long), key) ||
            (anonymous && GT_HAS_TEXT(strip_private, GT_COUNT(strip_private), key)))
            cJSON_Delete(cJSON_DetachItemViaPointer(value, item));
        else
            strip_members(item, anonymous, ours);
    }
}

/* Of others' annotations those of Kubernetes and Volcano stay: what else people keep there is not known. */
static bool strip_keeps(const char *key, const char *member, bool anonymous)
{
    if (strstr(key, GT_USER_PREFIX) || anonymous)
        return strstr(key, GT_USER_PREFIX);
    return strcmp(member, "labels") == 0 ||
           (!strstr(key, "last-applied") &&
            (strstr(key, "k8s.io/") || strstr(key, "kubernetes.io/") || strstr(key, "volcano.sh/")));
}

static void strip_keys(cJSON *metadata, const char *member, bool anonymous)
{
    cJSON *map = cJSON_GetObjectItemCaseSensitive(metadata, member);
    for (cJSON *item = map ? map->child : NULL, *next; item; item = next) {
        next = item->next;
        if (!strip_keeps(item->string, member, anonymous))
            cJSON_Delete(cJSON_DetachItemViaPointer(map, item));
    }
}

void gt_strip(cJSON *object, bool anonymous, bool ours)
{
    cJSON *metadata = cJSON_GetObjectItemCaseSensitive(object, "metadata");
    strip_keys(metadata, "annotations", anonymous);
    strip_keys(metadata, "labels", anonymous);
    strip_members(object, anonymous, ours);
}

bool gt_program_of_pod(const cJSON *object, struct gt_program *ret)
{
    const cJSON *first = gt_first(gt_get_at(object, "spec", "containers"));
    *ret = (struct gt_program){.container = gt_get_string(first, "name")};
    for (const cJSON *port = gt_first(gt_get(first, "ports")); port; port = port->next) {
        uint64_t number;
        if (strcmp(gt_get_string(port, "name"), "http") == 0 &&
            gt_json_is_unsigned(gt_get(port, "containerPort"), UINT16_MAX, &number))
            ret->http = (uint16_t)number;
    }
    return *ret->container;
}
