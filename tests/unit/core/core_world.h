/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TESTS_UNIT_CORE_WORLD_H
#define TESTS_UNIT_CORE_WORLD_H

#include <stdlib.h>

#include "base/buf.h"
#include "scheduler-ext/core/plan.h"
#include "tests/unit/model/loss_wirings.h"

/* Clusters for the tests, and what must hold of every plan. */

#if defined(__SANITIZE_ADDRESS__)
enum { TEST_SANITIZED = 1 };
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
enum { TEST_SANITIZED = 1 };
#else
enum { TEST_SANITIZED = 0 };
#endif
#else
enum { TEST_SANITIZED = 0 };
#endif

/* The number of rounds: a tenth of them under a sanitizer, a twentieth under valgrind. */
static inline unsigned test_rounds(unsigned rounds)
{
    if (getenv("GPUTOPO_UNDER_VALGRIND"))
        return rounds / 20 ? rounds / 20 : 1;
    return TEST_SANITIZED ? rounds / 10 : rounds;
}

/* Each of these fails the test if the call fails. */
struct gt_cluster *world_new(void);
uint32_t world_class(struct gt_cluster *cluster, unsigned gpus, unsigned mesh);
uint32_t world_super(struct gt_cluster *cluster, const char *name, unsigned tier, uint32_t parent);
uint32_t world_node(struct gt_cluster *cluster, const char *name, uint32_t class, uint32_t super);
/* `count` nodes NAME-0, NAME-1, ... */
void world_nodes(struct gt_cluster *cluster, const char *name, unsigned count, uint32_t class,
                 uint32_t super);
/* A supernode of tier 2 with so many free and so many full ones of one node each below it; returns its id. */
uint32_t world_leaf(struct gt_cluster *cluster, const char *name, unsigned free, unsigned full,
                    uint32_t class);
void world_check(const struct gt_cluster *cluster);

/* A random mask with `bits` of the lowest n bits set. */
uint64_t world_mask(unsigned bits, unsigned n, uint64_t *random);

/* The kubelet's topology manager and device manager (scope container), written after theirs: gives a pod GPUs
 * of *free. False: it refuses the pod. Where it takes any GPUs, they are drawn. */
bool world_kubelet_admits(const struct gt_class *class, uint64_t *free, struct gt_numa_pod pod,
                          uint64_t *random);
/* A pod of so many GPUs in several containers, or in one; some have init containers with GPUs. */
struct gt_numa_pod world_numa_pod(unsigned gpus, uint64_t *random);

/* Everything that a user of the cluster can read, as text. */
void world_dump(const struct gt_cluster *cluster, struct gt_buf *to);

/* A job of equal units. */
struct world_job {
    struct gt_plan_unit units[64];
    struct gt_plan_pod pods[512];
    uint32_t unit_count, pod_count;
    unsigned within; /* of the request */
    struct gt_plan_failure failure;
    bool placed;
};
void world_job(struct world_job *job, unsigned units, unsigned pods, unsigned gpus, unsigned atom);
/* A request to plan the whole job. */
struct gt_plan_request world_request(struct world_job *job);
/* Plans; fails the test if the cluster has changed afterwards or the plan is not valid. */
bool world_plan(struct gt_cluster *cluster, struct world_job *job);
/* Assumes the plan and confirms it. */
void world_bind(struct gt_cluster *cluster, struct world_job *job, uint64_t owner);

/* How many domains of a tier the job is in. Adds to `returns` (NULL: not counted) how often it comes back to
 * one. All its nodes must lie in one of the tier, or of a higher one. */
unsigned world_domains(const struct gt_cluster *cluster, const struct world_job *job, unsigned tier,
                       unsigned *returns);
/* The least number of these, at most 64, that hold so many units; UINT_MAX: all of them do not. */
unsigned world_fewest(const unsigned *holds, unsigned count, unsigned units);

#endif
