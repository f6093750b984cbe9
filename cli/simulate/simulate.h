/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "cli/cli.h"
#include "scheduler-ext/sim/experiment.h"

/* gputopo-simulate: options.c reads the options, run.c reads the files and runs. */
enum cli_sim_format { CLI_SIM_TABLE, CLI_SIM_CSV, CLI_SIM_JSON };

struct cli_simulation {
    struct cli_parse parse;
    const char *cluster, *trace;
    const char *policy; /* NULL: all */
    double load;        /* 0: the default */
    double mtbf_hours, repair_hours;
    unsigned format;
    const struct gt_group_policy *const *known; /* what --policy may name; NULL at the end */
    struct gt_experiment experiment;            /* without site, trace, policies and load */
};

/* The whole program, with these policies (NULL at the end). Returns the exit code. */
int cli_simulate_main(int argc, char **argv, const struct gt_group_policy *const *known);

/* Reads cluster and trace, runs and prints. Returns the exit code. */
int cli_simulate_run(struct cli_simulation *options);
