/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WIRE_POD_H
#define GPUTOPO_WIRE_POD_H

#include "api/names.h"
#include "scheduler-ext/wire/scan.h"

/* The part of a Pod that the endpoints need, read out of a request. */

enum {
    GT_WIRE_CONTAINERS_MAX = 2 * GT_POD_CONTAINERS_MAX, /* that ask for GPUs, init containers too */
    GT_WIRE_NAME_MAX = 253,                             /* bytes of a name, namespace, UID */
    GT_WIRE_WANTED_MAX = 32, /* keys of annotations and of labels that a caller may ask for, each */
    GT_WIRE_WANTED_VALUE_MAX = 64 << 10, /* bytes of such a value */
    GT_WIRE_GATES_MAX = 16,              /* gates that are kept; further ones are counted */
    GT_WIRE_POD_TEXT_MAX = 1 << 20       /* bytes of all texts of one pod */
};

struct gt_wire_container {
    const char *name;
    uint32_t index; /* among spec.containers, or among spec.initContainers */
    uint32_t gpus;  /* 1 or more: containers without GPUs are left out */
    bool init;
    bool sidecar; /* an init container that keeps running (restartPolicy: Always) */
};

struct gt_wire_pod {
    const char *namespace_, *name, *uid;             /* "" where it has none */
    const char *node_name;                           /* spec.nodeName, "" where there is none */
    const char *owner_kind, *owner_name, *owner_uid; /* the controller, else the first owner; "" */
    const char *const *annotations; /* values, in the order of the keys asked for; NULL: it lacks this one */
    const char *const *labels;      /* likewise */
    const struct gt_wire_container *containers; /* init containers and others as the text has them */
    uint32_t container_count;
    uint32_t gpus; /* what the scheduler counts for the pod: containers run together, init containers one by
                      one, sidecars beside all that start after them */
    uint32_t gate_count;
    const char *const *gates; /* names, GT_WIRE_GATES_MAX at most */
};

/* What a reader looks for. Texts must outlive the reader. */
struct gt_wire_wanted {
    const char *resource;           /* NULL: "metax-tech.com/gpu" */
    const char *const *annotations; /* ended by NULL; NULL: none */
    const char *const *labels;
};

#endif
