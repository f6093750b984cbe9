/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kube/config.h"
#include "tests/fuzz/fuzz.h"

/* A kubeconfig as a file in memory: if it is accepted, the connection to its server is secure, or on this
 * machine and without a credential. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gt_kube_config config = {0};
    struct gt_err *err = NULL;
    char path[64];
    int fd = memfd_create("kubeconfig", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    int r = gt_kube_config_file(path, NULL, &config, &err);
    if ((r < 0) != (err != NULL))
        abort();
    gt_err_free(err);
    close(fd);
    if (r < 0)
        return 0;
    bool plain = config.server && gt_kube_config_is_plain(&config);
    if (!config.server || (!plain && strncmp(config.server, "https://", 8) != 0) ||
        (plain && (config.exec || gt_kube_config_has_credential(&config))) ||
        (config.exec &&
         (gt_kube_exec_check(config.exec, NULL) < 0 || gt_kube_config_has_credential(&config))) ||
        gt_kube_config_check_server(config.server, NULL) < 0 || (config.token && config.token_file))
        abort();
    gt_kube_config_done(&config);
    return 0;
}
