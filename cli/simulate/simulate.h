/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_SIMULATE_SIMULATE_H
#define GPUTOPO_CLI_SIMULATE_SIMULATE_H

#include "cli/cli.h"
#include "scheduler-ext/sim/experiment.h"

/* gputopo-simulate: main.c reads the options, run.c reads the files and runs. */
enum cli_sim_format { CLI_SIM_TABLE, CLI_SIM_CSV, CLI_SIM_JSON, CLI_SIM_SVG };

struct cli_simulation {
    struct cli_parse parse;
    const char *cluster, *trace, *plot;
    const char *policy; /* NULL: all */
    double load;        /* 0: the default of the kind of trace */
    double mtbf_hours, repair_hours;
    bool whole;
    unsigned format;
    struct gt_experiment experiment; /* without site, trace, policies and load */
};

/* Reads cluster and trace, runs and prints. Returns the exit code. */
int cli_simulate_run(struct cli_simulation *options);

#endif
