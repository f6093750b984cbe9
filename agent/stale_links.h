/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_STALE_LINKS_H
#define GPUTOPO_AGENT_STALE_LINKS_H

#include "topology/model/node.h"

/*
 * Brings direct links of the node before, and the servers that it reached, into a finished node whose vendor
 * library is silent about both GPUs, marked stale. Both must be the same cards at the same places. The node
 * is finished again; *ret_kept says whether anything was kept.
 */
int gt_stale_links_keep(const struct gt_node *before, struct gt_node *node, bool *ret_kept,
                        struct gt_err **err);

#endif
