/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_SHOW_USE_H
#define GPUTOPO_CLI_SHOW_USE_H

#include "cli/api.h"
#include "cli/use.h"

/* The sources from which `gputopo show` reads who uses a node's GPUs. */

/* A node of the cluster, from its NodeGPUTopology. */
struct cli_shown {
    struct gt_node *node;
    struct cli_use use;
    char *notes;   /* lines: when it was observed, and conditions that report a problem */
    char *problem; /* what is invalid in its report of use; NULL: nothing */
};
void cli_shown_done(struct cli_shown *shown);

/* -ENOENT where there is no such node, with the nearest names. */
int cli_show_cluster_node(const struct cli_api_options *options, const char *name, struct cli_shown *ret,
                          struct gt_err **err);

/*
 * Asks the agent of this machine. `address` NULL: its default address, and no error where nobody answers
 * there or the answer is about another node; "none": asks nobody. Otherwise use is not known.
 */
int cli_show_query_agent(const char *address, const struct gt_node *node, struct cli_use *ret,
                         struct gt_err **err);

#endif
