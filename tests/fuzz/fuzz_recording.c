/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/fuzz/fuzz.h"
#include "topology/discovery/discovery.h"

/* `--from FILE`: a recording, a node's JSON, or hwloc XML that is not trusted. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int fd = -1;
    static char path[64];
    if (fd < 0) {
        fd = memfd_create("recording", MFD_CLOEXEC);
        if (fd < 0)
            abort();
        snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    }
    if (ftruncate(fd, 0) < 0 || pwrite(fd, data, size, 0) != (ssize_t)size)
        abort();
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_raw raw = {0};
    struct gt_scan_options options = {.from = path};
    if (gt_scan(&options, &node, &raw, &err) < 0) {
        if (!gt_err_text(err)[0])
            abort();
        return 0;
    }
    char *recording = NULL;
    if (gt_recording_make(node, &raw, &recording, NULL) == 0)
        free(recording);
    gt_raw_done(&raw);
    return 0;
}
