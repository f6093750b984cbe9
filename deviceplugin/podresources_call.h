/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <limits.h>

#include "deviceplugin/podresources.h"
#include "deviceplugin/rpc.h"

/* Single calls of the pod-resources API v1, and what their answers mean. podresources.c decides when. */

enum gt_pod_method { GT_POD_LIST, GT_POD_ALLOCATABLE };

struct gt_pod_ask {
    unsigned timeout_ms;
    gt_rpc_done *done;
    void *arg;
};

/* "<kubelet_dir>/pod-resources/kubelet.sock" */
void gt_pod_socket(const char *kubelet_dir, char to[static PATH_MAX]);

/*
 * Starts a call; `done` is called as gt_rpc_call_new() says, on gRPC's thread. podresources.h says when it
 * may be started. On a negative error `done` is not called: the socket is missing, the kubelet does not
 * listen...
 */
int gt_pod_call_new(struct gt_rpc *rpc, const char *kubelet_dir, enum gt_pod_method method,
                    const struct gt_pod_ask *ask, struct gt_rpc_call **ret, struct gt_err **err);

/*
 * An answer's bytes as holdings of one resource. Invalid protobuf, a message that would unpack to more than
 * 64 MiB, more than GT_DEVICE_USERS_MAX devices, and texts that are not UTF-8 are errors: an incomplete list
 * would be wrong. For GetAllocatableResources the holders have no pod (all three texts ""). The texts live as
 * long as the answer.
 */
struct gt_pod_answer {
    struct gt_device_uses uses;
    struct gt_device_user *users; /* owned, as the message */
    void *message;
};
struct gt_pod_wanted {
    const char *resource; /* whose devices are listed */
    const char *other;    /* whose devices are only counted; NULL: none */
    const char *driver;   /* whose claimed devices are listed, too; NULL: none */
};
int gt_pod_answer_read(enum gt_pod_method method, const uint8_t *bytes, size_t len,
                       const struct gt_pod_wanted *wanted, struct gt_pod_answer *ret, struct gt_err **err);
void gt_pod_answer_done(struct gt_pod_answer *answer);

/* The same for List: all its containers, and whether each holds a device of the resource. The texts live as
 * long as the answer. */
struct gt_listed_container {
    const char *namespace, *pod, *container;
    bool has_device;
};
struct gt_listed_containers {
    struct gt_listed_container *containers; /* owned, as the message */
    unsigned count;
    void *message;
};
enum { GT_LISTED_CONTAINERS_MAX = 16384 };
int gt_pod_containers_read(const uint8_t *bytes, size_t len, const char *resource,
                           struct gt_listed_containers *ret, struct gt_err **err);
void gt_pod_containers_done(struct gt_listed_containers *containers);
