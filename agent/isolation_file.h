/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/isolation.h"

/*
 * The isolations of this node as its object last said, kept beside the health file: they hold over restarts,
 * reboots, and while the API server is away.
 */

/* 1: read; 0: there is no such file, `*ret` is untouched. */
int gt_isolation_file_read(const char *kubelet_dir, struct gt_isolations *ret, struct gt_err **err);

/* Without isolations the file is removed. It waits for the disk: not for the thread of an event loop. */
int gt_isolation_file_write(const char *kubelet_dir, const struct gt_isolations *isolations,
                            struct gt_err **err);
