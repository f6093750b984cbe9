/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/node_gpu_topology.h"
#include "base/buf.h"
#include "base/text.h"
#include "topology/model/node.h"

/* Who uses the GPUs of one node: a NodeGPUTopology, read from the cluster or made of what the agent of this
 * machine says. */

/* Reads a NodeGPUTopology. Where only its report of use is invalid, use counts as not known and *ret_problem,
 * which the caller frees, says what is wrong. */
int cli_use_read_topology(const cJSON *object, struct gt_node_gpu_topology *ret, struct gt_err **ret_problem,
                          struct gt_err **err);

/* Adds what the agent answers at /usage about `to->node`; texts stay those of `usage`. -EINVAL also where it
 * names GPUs that this node does not have. */
int cli_use_from_agent(const cJSON *usage, const char *source, struct gt_node_gpu_topology *to,
                       struct gt_err **err);

/* "Free GPUs: 2-7" and a line for each container that has some. */
void cli_use_text(const struct gt_node_gpu_topology *topology, struct gt_buf *to);

/* Adds `free` and `owners` to the JSON of a node, as a NodeGPUTopology has them, in the order of the GPUs. */
void cli_use_add_json(const struct gt_node_gpu_topology *topology, struct gt_buf *to);

/* For a message about an unknown name: collects the few existing names that are nearest to it by edit
 * distance. */
enum { CLI_NEAR_KEPT = 3, CLI_NEAR_NAME = GT_TEXT_DISTANCE_MAX + 1 };

struct cli_near {
    char wanted[CLI_NEAR_NAME];
    struct {
        char name[CLI_NEAR_NAME];
        unsigned distance;
    } kept[CLI_NEAR_KEPT]; /* nearest first */
    unsigned kept_count, seen;
};

void cli_near_init(struct cli_near *near, const char *wanted);
void cli_near_add(struct cli_near *near, const char *name);

/* "near are n1 and n2, of 40" or "there are 40, for example n1"; "there is none". */
void cli_near_text(const struct cli_near *near, struct gt_buf *to);
