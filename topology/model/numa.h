/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/*
 * The verdict of the kubelet's topology manager on the GPUs of one request: whether it admits the pod, and
 * the GPUs from which it then takes. Only its policies single-numa-node and restricted refuse pods.
 *
 * The kubelet makes a hint of each set of NUMA nodes on which enough GPUs are free. A hint is preferred if no
 * smaller set would have enough GPUs on an idle node; a pod without a preferred hint is refused, with
 * TopologyAffinityError. Of these it takes the one with the fewest NUMA nodes, then the lowest numbers.
 * Hints of CPUs and memory, which may restrict this further, are not known here.
 */
enum { GT_NUMA_DOMAINS_MAX = 16 };

struct gt_numa {
    unsigned count;                     /* NUMA nodes with GPUs; 0: the kubelet refuses nothing */
    bool single;                        /* single-numa-node; else restricted */
    bool by_pod;                        /* a request is a whole pod (scope pod); else each container is one */
    uint64_t gpus[GT_NUMA_DOMAINS_MAX]; /* of each, by ascending number; a GPU without one is in none */
};

/*
 * A pod as the topology manager sees it. With the scope `container` the GPUs of each container are a request.
 * The requests follow each other: init containers, then the others, as in the spec. What ordinary init
 * containers got is left to the containers after them, of which each takes from it first. So its NUMA nodes
 * bind the next request, too.
 */
struct gt_numa_pod {
    unsigned gpus; /* of all its containers together */
    /* One byte for each request, the first one lowest: its GPUs, and GT_NUMA_INIT for an ordinary init
     * container. 0: only one container has GPUs. */
    uint64_t requests;
};
enum { GT_NUMA_INIT = 0x80, GT_NUMA_REQUESTS_MAX = 8 };
#define GT_NUMA_TOO_MANY UINT64_MAX /* in `requests`: there are more; nothing is predicted */

/* Whether each of the requests gets a verdict of its own. */
bool gt_numa_by_request(const struct gt_numa *numa, uint64_t requests);

/* The verdict on `k` of the `free` GPUs, 1 or more, that must contain all of `must`. True: it is admitted,
 * and *ret_from are the free GPUs from which it is served. */
bool gt_numa_admits(const struct gt_numa *numa, uint64_t free, uint64_t must, unsigned k, uint64_t *ret_from);

/* The GPUs of the NUMA node that has most. */
unsigned gt_numa_largest(const struct gt_numa *numa);
/* The most GPUs that a request can ever get. */
unsigned gt_numa_most(const struct gt_numa *numa);
