/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PROBE_START_H
#define GPUTOPO_AGENT_PROBE_START_H

#include "agent/options.h"
#include "topology/probe/client.h"

/*
 * Starts gputopo-probe, or connects to it, as --probe says. *ret is NULL if there is none; *ret_why then says
 * why. A program that was named and cannot be run is an error; the default one may be missing.
 */
int gt_probe_start(const struct gt_agent_options *options, struct gt_probe_client **ret, const char **ret_why,
                   struct gt_err **err);

#endif
