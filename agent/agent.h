/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/options.h"

/* Runs the daemon until a signal ends it. An error means that it could not start. */
int gt_agent_run(const struct gt_agent_options *options, struct gt_err **err);

/* --oneshot: one scan, the node as JSON on stdout. */
int gt_agent_oneshot(const struct gt_agent_options *options, struct gt_err **err);

/* --print-fault-table: the fault table that the options select, as YAML on stdout. */
int gt_agent_print_fault_table(const struct gt_agent_options *options, struct gt_err **err);
