/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "scheduler-ext/sim/group/engine.h"

/* The whole program, with these policies (NULL at the end). Returns the exit code. */
int cli_simulate_main(int argc, char **argv, const struct gt_group_policy *const *known);
