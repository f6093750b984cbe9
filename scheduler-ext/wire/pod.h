/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_POD_H
#define GPUTOPO_WIRE_POD_H

#include "api/pod.h"

/* The part of a Pod that the endpoints need, read from a request. */

enum { GT_WIRE_NAME_MAX = 253 }; /* bytes of a name, namespace, UID */

struct gt_wire_pod {
    const char *namespace_, *name, *uid; /* "" where it has none */
    struct gt_pod_gpus gpus;             /* without names of containers */
    int64_t cpu_milli, memory;           /* requests of all containers, without overhead; memory in bytes */
};

#endif
