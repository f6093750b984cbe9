/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/pem.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

int gt_pem_open(const char *data, const char *name, struct gt_pem *ret, struct gt_err **err)
{
    if (!data)
        return 0;
    gt_auto_close int fd = memfd_create(name, MFD_CLOEXEC);
    if (fd < 0)
        return gt_fail_sys(err, errno, "%s", name);
    for (size_t left = strlen(data); left;) {
        ssize_t n = write(fd, data, left);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0)
            return gt_fail_sys(err, errno, "%s", name);
        data += n;
        left -= (size_t)n;
    }
    ret->fd = gt_steal_fd(&fd);
    snprintf(ret->path, sizeof(ret->path), "/proc/self/fd/%d", ret->fd);
    return 0;
}

void gt_pem_close(struct gt_pem *pem)
{
    if (pem->fd >= 0)
        close(pem->fd);
    pem->fd = -1;
}
