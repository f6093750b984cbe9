/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "deviceplugin/answers_pack.h"
#include "deviceplugin/listener.h"
#include "deviceplugin/podresources_call.h"
#include "proto/podresources.pb-c.h"

#define PATH_LIST        "/v1.PodResourcesLister/List"
#define PATH_ALLOCATABLE "/v1.PodResourcesLister/GetAllocatableResources"

void gt_pod_socket(const char *kubelet_dir, char to[static PATH_MAX])
{
    snprintf(to, PATH_MAX, "%s/pod-resources/kubelet.sock", kubelet_dir);
}

/* Either request is an empty message. */
int gt_pod_call_new(struct gt_rpc *rpc, const char *kubelet_dir, enum gt_pod_method method,
                    const struct gt_pod_ask *ask, struct gt_rpc_call **ret, struct gt_err **err)
{
    const struct gt_rpc_ask call = {.path = method == GT_POD_ALLOCATABLE ? PATH_ALLOCATABLE : PATH_LIST,
                                    .request = "",
                                    .timeout_ms = ask->timeout_ms,
                                    .done = ask->done,
                                    .arg = ask->arg};
    char socket[PATH_MAX];
    gt_pod_socket(kubelet_dir, socket);
    int fd = gt_unix_connect(socket, err);
    return fd < 0 ? fd : gt_rpc_call_new(rpc, fd, &call, ret, err);
}

enum { UNPACKED_MAX = 64 << 20 };

static const ProtobufCMessageDescriptor *descriptor_of(enum gt_pod_method method)
{
    return method == GT_POD_ALLOCATABLE ? &pr__allocatable_response__descriptor
                                        : &pr__list_response__descriptor;
}

static int unpack(enum gt_pod_method method, const uint8_t *bytes, size_t len, void **ret,
                  struct gt_err **err)
{
    void *message = gt_unpack(descriptor_of(method), bytes, len, UNPACKED_MAX);
    if (!message)
        return gt_fail(err, EBADMSG, "pod-resources: the answer of %zu bytes cannot be read", len);
    *ret = message;
    return 0;
}

static int podresources_read_add(struct gt_pod_answer *answer, const struct gt_device_user *user,
                                 struct gt_err **err)
{
    if (answer->uses.count == GT_DEVICE_USERS_MAX)
        return gt_fail(err, E2BIG, "pod-resources: more than %d devices are in use", GT_DEVICE_USERS_MAX);
    const char *texts[] = {user->namespace,
                           user->pod,
                           user->container,
                           user->id,
                           user->claim ? user->claim : "",
                           user->claim_namespace ? user->claim_namespace : ""};
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        if (!gt_text_is_utf8(texts[i]))
            return gt_fail(err, EINVAL, "pod-resources: a name in it is not UTF-8");
    unsigned count = answer->uses.count;
    if (!(count & (count - 1))) { /* 0 and the powers of two: full */
        struct gt_device_user *more = reallocarray(answer->users, count ? 2UL * count : 1, sizeof(*more));
        GT_NEED(more, err, "pod-resources");
        answer->users = more;
    }
    answer->users[answer->uses.count++] = *user;
    return 0;
}

static int add_devices(struct gt_pod_answer *answer, Pr__Devices *const *devices, size_t count,
                       const struct gt_pod_wanted *wanted, struct gt_device_user user, struct gt_err **err)
{
    for (size_t i = 0; i < count; i++) {
        if (wanted->other && strcmp(devices[i]->resource, wanted->other) == 0)
            answer->uses.others += (unsigned)devices[i]->n_ids;
        if (strcmp(devices[i]->resource, wanted->resource) != 0)
            continue;
        for (size_t k = 0; k < devices[i]->n_ids; k++) {
            user.id = devices[i]->ids[k];
            GT_TRY(podresources_read_add(answer, &user, err));
        }
    }
    return 0;
}

static int add_claimed(struct gt_pod_answer *answer, const Pr__DynamicResource *claim, const char *driver,
                       struct gt_device_user user, struct gt_err **err)
{
    user.claim = claim->claim;
    user.claim_namespace = claim->claim_namespace;
    for (size_t i = 0; i < claim->n_resources; i++) {
        user.id = claim->resources[i]->device; /* CDI names may be those of other devices */
        if (strcmp(claim->resources[i]->driver, driver) == 0)
            GT_TRY(podresources_read_add(answer, &user, err));
    }
    return 0;
}

static int podresources_read_add_pod(struct gt_pod_answer *answer, const Pr__Pod *pod,
                                     const struct gt_pod_wanted *wanted, struct gt_err **err)
{
    for (size_t i = 0; i < pod->n_containers; i++) {
        const Pr__Container *container = pod->containers[i];
        const struct gt_device_user user = {
            .namespace = pod->namespace_, .pod = pod->name, .container = container->name};
        GT_TRY(add_devices(answer, container->devices, container->n_devices, wanted, user, err));
        for (size_t k = 0; wanted->driver && k < container->n_dynamic_resources; k++)
            GT_TRY(add_claimed(answer, container->dynamic_resources[k], wanted->driver, user, err));
    }
    return 0;
}

static int podresources_read_add_all(struct gt_pod_answer *answer, enum gt_pod_method method,
                                     const struct gt_pod_wanted *wanted, struct gt_err **err)
{
    const Pr__ListResponse *list = answer->message;
    const Pr__AllocatableResponse *allocatable = answer->message;
    if (method == GT_POD_ALLOCATABLE)
        return add_devices(answer, allocatable->devices, allocatable->n_devices, wanted,
                           (struct gt_device_user){.namespace = "", .pod = "", .container = ""}, err);
    for (size_t i = 0; i < list->n_pods; i++)
        GT_TRY(podresources_read_add_pod(answer, list->pods[i], wanted, err));
    return 0;
}

int gt_pod_answer_read(enum gt_pod_method method, const uint8_t *bytes, size_t len,
                       const struct gt_pod_wanted *wanted, struct gt_pod_answer *ret, struct gt_err **err)
{
    struct gt_pod_answer answer = {0};
    GT_TRY(unpack(method, bytes, len, &answer.message, err));
    int r = podresources_read_add_all(&answer, method, wanted, err);
    if (r < 0) {
        gt_pod_answer_done(&answer);
        return r;
    }
    answer.uses.users = answer.users;
    *ret = answer;
    return 0;
}

void gt_pod_answer_done(struct gt_pod_answer *answer)
{
    if (answer->message)
        gt_unpacked_free(answer->message);
    free(answer->users);
    *answer = (struct gt_pod_answer){0};
}

static bool podresources_read_has_device(const Pr__Container *container, const char *resource)
{
    for (size_t i = 0; i < container->n_devices; i++)
        if (container->devices[i]->n_ids && strcmp(container->devices[i]->resource, resource) == 0)
            return true;
    return false;
}

int gt_pod_containers_read(const uint8_t *bytes, size_t len, const char *resource,
                           struct gt_listed_containers *ret, struct gt_err **err)
{
    struct gt_listed_containers all = {0};
    GT_TRY(unpack(GT_POD_LIST, bytes, len, &all.message, err));
    const Pr__ListResponse *list = all.message;
    size_t count = 0;
    int r = 0;
    for (size_t i = 0; i < list->n_pods; i++)
        count += list->pods[i]->n_containers;
    if (count > GT_LISTED_CONTAINERS_MAX)
        r = gt_fail(err, E2BIG, "pod-resources: more than %d containers", GT_LISTED_CONTAINERS_MAX);
    else if (!(all.containers = calloc(count + 1, sizeof(*all.containers))))
        r = gt_fail_sys(err, ENOMEM, "pod-resources");
    for (size_t i = 0; r == 0 && i < list->n_pods; i++) {
        const Pr__Pod *pod = list->pods[i];
        for (size_t k = 0; k < pod->n_containers; k++)
            all.containers[all.count++] =
                (struct gt_listed_container){pod->namespace_, pod->name, pod->containers[k]->name,
                                             podresources_read_has_device(pod->containers[k], resource)};
    }
    if (r < 0) {
        gt_pod_containers_done(&all);
        return r;
    }
    *ret = all;
    return 0;
}

void gt_pod_containers_done(struct gt_listed_containers *containers)
{
    if (containers->message)
        gt_unpacked_free(containers->message);
    free(containers->containers);
    *containers = (struct gt_listed_containers){0};
}
