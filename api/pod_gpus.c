/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/pod.h"
#include "api/pod_claim.h"
#include "api/quantity.h"
#include "base/json_get.h"
#include "topology/model/numa.h"

int gt_pod_containers_add(struct gt_pod_containers *to, const struct gt_pod_container *container,
                          struct gt_err **err)
{
    if (!container->gpus)
        return 0;
    if (to->count == GT_COUNT(to->list))
        return gt_fail(err, E2BIG, "more than %d containers with GPUs", (int)GT_COUNT(to->list));
    to->list[to->count++] = *container;
    return 0;
}

static int check_limits(unsigned containers, unsigned inits, unsigned gpus, struct gt_err **err)
{
    if (containers > GT_POD_CONTAINERS_MAX)
        return gt_fail(err, E2BIG, "more than %d containers with GPUs", GT_POD_CONTAINERS_MAX);
    if (inits > GT_POD_CONTAINERS_MAX)
        return gt_fail(err, E2BIG, "more than %d init containers with GPUs", GT_POD_CONTAINERS_MAX);
    if (gpus > GT_POD_GPUS_MAX)
        return gt_fail(err, E2BIG, "%u GPUs, the limit is %d", gpus, GT_POD_GPUS_MAX);
    return 0;
}

/* The requests of its containers. Where one is larger than any node, the pod never runs. */
static uint64_t requests_of(const struct gt_pod_containers *from)
{
    uint64_t requests = 0;
    unsigned count = 0;
    for (const struct gt_pod_container *at = from->list; at < from->list + from->count; at++) {
        if (at->claimed)
            continue;
        if (count == GT_NUMA_REQUESTS_MAX || at->gpus >= GT_NUMA_INIT)
            return GT_NUMA_TOO_MANY;
        uint64_t request = at->gpus | (at->init && !at->sidecar ? GT_NUMA_INIT : 0U);
        requests |= request << 8 * count++;
    }
    return count > 1 ? requests : 0;
}

static void api_pod_gpus_put(struct gt_pod_gpus *to, unsigned at, const char *name, unsigned gpus)
{
    to->names[at] = name;
    to->counts[at] = gpus;
}

int gt_pod_gpus_count(const struct gt_pod_containers *from, struct gt_pod_gpus *ret, struct gt_err **err)
{
    const struct gt_pod_container *end = from->list + from->count, *largest = NULL;
    unsigned kept = 0, most = 0; /* kept: of the sidecars that have started */
    struct gt_pod_gpus gpus;
    gpus.total = gpus.containers = gpus.sidecars = gpus.inits = 0;
    for (const struct gt_pod_container *at = from->list; at < end; at++) {
        if (at->init && !at->sidecar) {
            gpus.inits++;
            if (kept + at->gpus > most) {
                most = kept + at->gpus;
                largest = at;
            }
            continue;
        }
        gpus.containers++;
        gpus.sidecars += at->init;
        gpus.total += at->gpus;
        kept += at->init ? at->gpus : 0;
    }
    unsigned sum = gpus.total;
    if (most > sum) {
        gpus.containers++;
        gpus.total = most;
    }
    GT_TRY(check_limits(gpus.containers, gpus.inits, gpus.total, err));
    ret->total = gpus.total;
    ret->containers = gpus.containers;
    ret->sidecars = gpus.sidecars;
    ret->inits = gpus.inits;
    ret->requests = requests_of(from);
    unsigned sidecar = 0, other = gpus.sidecars, init = gpus.containers;
    for (const struct gt_pod_container *at = from->list; at < end; at++)
        api_pod_gpus_put(ret, !at->init ? other++ : at->sidecar ? sidecar++ : init++, at->name, at->gpus);
    if (most > sum)
        api_pod_gpus_put(ret, other, largest->name, most - sum);
    return 0;
}

/* ---- from JSON ---- */

/* Of an extended resource limits and requests are equal, and one of them may be left out. */
static int api_pod_gpus_read_gpus(const cJSON *container, const char *resource, unsigned *ret,
                                  struct gt_err **err)
{
    const cJSON *resources = gt_get(container, "resources");
    const cJSON *const amounts[] = {gt_get(gt_get(resources, "requests"), resource),
                                    gt_get(gt_get(resources, "limits"), resource)};
    *ret = 0;
    for (size_t i = 0; i < GT_COUNT(amounts); i++)
        GT_TRY(amounts[i] ? gt_quantity_from_json(amounts[i], GT_POD_GPUS_MAX, resource, ret, err) : 0);
    return 0;
}

static const char *api_pod_gpus_text_of(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(gt_get(object, key));
    return text ? text : "";
}

static int api_pod_gpus_read_list(const cJSON *spec, const char *key, bool init, const char *resource,
                                  const struct gt_claim_of_pod *claim, struct gt_pod_containers *to,
                                  struct gt_err **err)
{
    const cJSON *list = gt_get(spec, key);
    if (list && !cJSON_IsArray(list))
        return gt_fail(err, EINVAL, "%s: expected an array, is %s", key, gt_json_type(list));
    unsigned at = 0;
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        struct gt_pod_container container = {
            .name = api_pod_gpus_text_of(item, "name"), .init = init, .at = at};
        gt_auto_err struct gt_err *error = NULL;
        int r = api_pod_gpus_read_gpus(item, resource, &container.gpus, err ? &error : NULL);
        if (r < 0)
            return gt_fail(err, -r, "container %.63s: %s", container.name, gt_err_text(error));
        at++;
        unsigned claimed = gt_claim_gpus_of(claim, item);
        container.gpus += claimed;
        container.claimed = claimed > 0;
        container.sidecar = init && strcmp(api_pod_gpus_text_of(item, "restartPolicy"), "Always") == 0;
        GT_TRY(gt_pod_containers_add(to, &container, err));
    }
    return 0;
}

int gt_pod_gpu_containers_read(const cJSON *spec, const char *resource, struct gt_pod_containers *ret,
                               struct gt_err **err)
{
    struct gt_claim_of_pod claim;
    gt_claim_of_pod_read(spec, &claim);
    ret->count = 0;
    GT_TRY(api_pod_gpus_read_list(spec, "initContainers", true, resource, &claim, ret, err));
    return api_pod_gpus_read_list(spec, "containers", false, resource, &claim, ret, err);
}

int gt_pod_gpus_read(const cJSON *spec, const char *resource, struct gt_pod_gpus *ret, struct gt_err **err)
{
    struct gt_pod_containers containers;
    GT_TRY(gt_pod_gpu_containers_read(spec, resource, &containers, err));
    return gt_pod_gpus_count(&containers, ret, err);
}
