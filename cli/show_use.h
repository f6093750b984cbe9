/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_SHOW_USE_H
#define GPUTOPO_CLI_SHOW_USE_H

#include "cli/api.h"
#include "cli/use.h"

/* Where `gputopo show` learns who uses a node's GPUs. */

/* A node of the cluster, from its NodeGPUTopology. */
struct cli_shown {
    struct gt_node *node;
    struct cli_use use;
    char *notes;   /* when it was observed, and conditions that are not as they should be; lines */
    char *problem; /* what of its use is invalid; NULL: nothing */
};
void cli_shown_done(struct cli_shown *shown);

/* -ENOENT where there is no such node, with the names that are near. */
int cli_show_cluster_node(const struct cli_api_options *options, const char *name, struct cli_shown *ret,
                          struct gt_err **err);

/*
 * Asks the agent of this machine. `address` NULL: where it listens by default, and silence where nobody
 * answers there, or somebody who does not speak of `node`; "none": nobody is asked.
 */
int cli_show_query_agent(const char *address, const struct gt_node *node, struct cli_use *ret,
                         struct gt_err **err);

#endif
