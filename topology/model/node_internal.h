/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

/* Shared between the files of the model only. */

/* Limits of the numbers in a node and in its JSON form. */
enum {
    GT_SPEED_MAX = 100000,     /* GT/s of a lane */
    GT_WIDTH_MAX = 1024,       /* lanes */
    GT_PORTS_MAX = 1024,       /* ports of one link */
    GT_NUMA_MAX = 1023,        /* the kernel's own limit */
    GT_SMALL_INDEX_MAX = 65535 /* vendor indices, DRM minors */
};
/* Names by value; each list ends with NULL. */
extern const char *const gt_link_state_names[], *const gt_gpu_mode_names[], *const gt_gpu_health_names[];

#define GT_EXACT_MAX ((uint64_t)1 << 53) /* JSON numbers are exact up to here */
