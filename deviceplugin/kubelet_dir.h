/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "base/loop.h"

/*
 * Watches the kubelet's device-plugins directory with inotify. It may be replaced, and sockets are added and
 * removed. It is also checked every half minute, and every second while it does not exist.
 */
struct gt_kubelet_dir;

/* Identifies a socket file: a new one under the old name has another ID. */
struct gt_socket_id {
    uint64_t device, inode;
    int64_t seconds, nanoseconds; /* of its creation if the file system knows it, else of its last change */
};

/* Called whenever something may have changed; the callee checks what. */
typedef void gt_kubelet_dir_changed(void *arg);

int gt_kubelet_dir_new(struct gt_loop *loop, const char *kubelet_dir, gt_kubelet_dir_changed *changed,
                       void *arg, struct gt_kubelet_dir **ret, struct gt_err **err);
void gt_kubelet_dir_free(struct gt_kubelet_dir *dir);
GT_DEFINE_CLEANUP(struct gt_kubelet_dir *, gt_kubelet_dir_free)

/* ".../device-plugins" and ".../device-plugins/kubelet.sock" */
const char *gt_kubelet_dir_path(const struct gt_kubelet_dir *dir);
const char *gt_kubelet_dir_socket_path(const struct gt_kubelet_dir *dir);

/* The kubelet's socket as it is now; false if there is none. */
bool gt_kubelet_dir_socket(const struct gt_kubelet_dir *dir, struct gt_socket_id *ret);
/* The same for any path. */
bool gt_socket_id_read(const char *path, struct gt_socket_id *ret);
bool gt_socket_id_equal(const struct gt_socket_id *a, const struct gt_socket_id *b);

/* Removes sockets of this program's form (GT_SOCKET_PREFIX...) on which nobody listens any more. */
#define GT_SOCKET_PREFIX "gputopo-"
void gt_kubelet_dir_clean(const struct gt_kubelet_dir *dir);

/* Calls `other` for each socket in the directory on which another program listens, such as another device
 * plugin: `fd` is a connection to it, which belongs to the callee. It ends after GT_KUBELET_DIR_OTHERS
 * sockets, or when the callee returns false. */
enum { GT_KUBELET_DIR_OTHERS = 64 };
typedef bool gt_kubelet_dir_other(void *arg, const char *name, const struct gt_socket_id *id, int fd);
void gt_kubelet_dir_others(const struct gt_kubelet_dir *dir, gt_kubelet_dir_other *other, void *arg);
