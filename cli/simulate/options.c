/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>

#include "cli/simulate/simulate.h"
#include "scheduler-ext/core/score.h"

static const char *const formats[] = {"table", "csv", "json", NULL};             /* as enum cli_sim_format */
static const char *const queues[] = {"none", "fifo", "backfill", "turns", NULL}; /* as enum gt_queue_policy */
static const char *const losses[] = {"restart", "wait", "unit", NULL}; /* as enum gt_sim_node_loss */

#define SIM_FIELD(member) GT_OPTION_FIELD(struct cli_simulation, member)

static const struct gt_option own_options[] = {
    {"cluster", "FILE|SHAPE", "supernodes x nodes x GPUs such as 320x32x8, or a Lingjun topology",
     gt_option_any_text, SIM_FIELD(cluster)},
    {"trace", "FILE|NAME",
     "seren, kalos, philly, helios, or mix:1,4,16 (GPUs), or a file of jobs as of Philly", gt_option_any_text,
     SIM_FIELD(trace)},
    {"policy", "NAME[,NAME]", "what places the jobs (default: all)", gt_option_any_text, SIM_FIELD(policy)},
    {"seed", "N", "of the random numbers (default 42)", gt_option_number, SIM_FIELD(experiment.seed),
     .max = UINT32_MAX},
    {"seeds", "N", "so many runs, seed after seed (default 1)", gt_option_number, SIM_FIELD(experiment.seeds),
     .min = 1, .max = GT_EXPERIMENT_SEEDS_MAX},
    {"load", "X", "GPU time asked for over GPU time there is (default 1; 1.3 where no job leaves)",
     gt_option_real, SIM_FIELD(load), .min = 0.01, .max = 100},
    {"jobs", "N", "how many jobs come (default 20000)", gt_option_number, SIM_FIELD(experiment.draw.jobs),
     .min = 1, .max = GT_EXPERIMENT_JOBS_MAX},
    {"no-departures", NULL, "jobs never leave", gt_option_clear, SIM_FIELD(experiment.draw.departures)},
    {"replay", NULL, "the jobs of a file in their order and at their times, stretched to the load",
     gt_option_set, SIM_FIELD(experiment.draw.replay)},
    {"queue", "HOW",
     "what does not fit: backfill (default), fifo or turns of namespaces (waits), none (is rejected)",
     gt_option_word, SIM_FIELD(experiment.group.queue), .words = queues},
    {"patience", "SECONDS", "a job that waits for so long has nodes reserved for it (default 60)",
     gt_option_real, SIM_FIELD(experiment.group.patience), .min = 1, .max = 1e9},
    {"reserve-waiting", "SECONDS", "so long at a time (default 600)", gt_option_real,
     SIM_FIELD(experiment.group.reservation), .min = 1, .max = 1e9},
    {"reserve-waiting-percent", "PERCENT", "of all GPUs at most (default 50)", gt_option_number,
     SIM_FIELD(experiment.group.reserved_percent), .min = 1, .max = 100},
    {"group", "N", "GPUs that must lie in one supernode", gt_option_number, SIM_FIELD(experiment.draw.group),
     .min = 1, .max = GT_TRACE_JOB_GPUS_MAX},
    {"atomic", "N", "GPUs of an atom: only atoms must lie in one supernode, groups should", gt_option_number,
     SIM_FIELD(experiment.draw.atom), .min = 1, .max = GT_TRACE_JOB_GPUS_MAX},
    {"mtbf", "HOURS", "mean time to the failure of a node", gt_option_real, SIM_FIELD(mtbf_hours),
     .min = 0.01, .max = 1e9},
    {"repair", "HOURS", "mean time until it is back (default 12)", gt_option_real, SIM_FIELD(repair_hours),
     .min = 0.01, .max = 1e9},
    {"on-node-loss", "HOW",
     "jobs on a node that fails: start again (restart, default), wait for room in the unit's supernode "
     "(wait), "
     "or move the unit where that has none (unit)",
     gt_option_word, SIM_FIELD(experiment.group.node_loss), .words = losses},
    {"node-loss-after", "SECONDS", "that a node has failed for when its pods come again (default 300)",
     gt_option_real, SIM_FIELD(experiment.group.lost_after), .min = 0, .max = 1e9},
    {"restart-cost", "SECONDS", "without progress where pods come again or units are added (default 300)",
     gt_option_real, SIM_FIELD(experiment.group.restart), .min = 0, .max = 1e9},
    {"spare-nodes", "N", "free nodes of a supernode that are left to pods that come again (default 0)",
     gt_option_number, SIM_FIELD(experiment.group.spares), .max = GT_SITE_NODES_MAX},
    {"minimum", "PART", "part of its units with which a job starts; it grows later (default 1)",
     gt_option_real, SIM_FIELD(experiment.group.minimum), .min = 0.001, .max = 1},
    {"quota", "PART", "part of the GPUs that a namespace may hold (default 1)", gt_option_real,
     SIM_FIELD(experiment.group.quota), .min = 0.001, .max = 1},
    {"warm-up", "PART", "part of the jobs before anything is measured (default 0.3)", gt_option_real,
     SIM_FIELD(experiment.group.warm_up), .max = 0.9},
    {"loss-weight", "X", "loss.weight of gpu-aware (default 0.5)", gt_option_real,
     SIM_FIELD(experiment.group.loss_weight), .max = 1e6},
    {"chain", "LIST", "unit sizes that gputopo leaves room for (default: it learns them)", gt_chain_option,
     SIM_FIELD(experiment.group.chain)},
    {"output", "FORMAT", "table (default), csv or json", gt_option_word, SIM_FIELD(format), .words = formats,
     .letter = 'o'},
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .about =
        "Play jobs through a cluster in simulated time, to see what a mix of jobs, the sizes of a cluster "
        "and the placement controller's options do to occupancy, fragmentation and waiting.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

int cli_simulate_main(int argc, char **argv, const struct gt_group_policy *const *known)
{
    struct cli_simulation options = {
        .parse = {.verb = "simulate"},
        .known = known,
        .repair_hours = 12,
        .experiment = {.seed = 42,
                       .seeds = 1,
                       .draw = {.jobs = 20000, .departures = true},
                       .group = {.queue = GT_QUEUE_BACKFILL,
                                 .patience = 60,
                                 .reservation = 600,
                                 .reserved_percent = 50,
                                 .warm_up = 0.3,
                                 .lost_after = 300,
                                 .restart = 300,
                                 .loss_weight = GT_AWARE_DEFAULT.loss_weight}},
    };
    const char *verb = options.parse.verb;
    int exit_code;
    cli_keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error of write() */
    if (argc < 1)
        return cli_usage(verb, "expected options, see gputopo-simulate --help");
    if (!cli_parse_options(&command, argc, argv, &options.parse, NULL, &exit_code))
        return exit_code;
    if (!options.cluster || !options.trace)
        return cli_usage(verb, "%s: expected one", options.cluster ? "--trace" : "--cluster");
    return cli_simulate_run(&options);
}
