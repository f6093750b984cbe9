/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "cli/simulate/simulate.h"
#include "scheduler-ext/core/score.h"

enum {
    KEY_CLUSTER = CLI_KEY_OWN,
    KEY_TRACE,
    KEY_POLICY,
    KEY_SEED,
    KEY_SEEDS,
    KEY_LOAD,
    KEY_JOBS,
    KEY_PLOT,
    KEY_QUEUE,
    KEY_GROUP,
    KEY_ATOMIC,
    KEY_STAY,
    KEY_MTBF,
    KEY_REPAIR,
    KEY_WARM_UP,
    KEY_WHOLE,
    KEY_TIES,
    KEY_GPU_ONLY,
    KEY_LOSS_WEIGHT,
};

static const char *const formats[] = {"table", "csv", "json", "svg", NULL}; /* as enum cli_sim_format */
static const char *const queues[] = {"none", "fifo", "backfill", NULL};     /* as enum gt_queue */
static const char *const ties[] = {"name", "random", NULL};

static error_t read_number(const struct cli_simulation *options, const char *option, const char *arg,
                           uint64_t min, uint64_t max, uint64_t *ret)
{
    char what[80];
    snprintf(what, sizeof(what), "a number from %llu to %llu", (unsigned long long)min,
             (unsigned long long)max);
    return cli_parse_number(&options->parse, option, what, min, max, arg, ret);
}

static error_t read_real(const struct cli_simulation *options, const char *option, const char *arg,
                         double min, double max, double *ret)
{
    char *end, what[80];
    double value = strtod(arg, &end);
    if (*arg && !*end && strspn(arg, "0123456789.") == strlen(arg) && value >= min && value <= max) {
        *ret = value;
        return 0;
    }
    snprintf(what, sizeof(what), "a number from %g to %g", min, max);
    return cli_refuse(&options->parse, option, what, arg);
}

static error_t read_count(const struct cli_simulation *options, const char *option, const char *arg,
                          uint32_t max, uint32_t *ret)
{
    uint64_t number = 0;
    error_t r = read_number(options, option, arg, 1, max, &number);
    if (!r)
        *ret = (uint32_t)number;
    return r;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct cli_simulation *options = state->input;
    struct gt_experiment *experiment = &options->experiment;
    const struct cli_parse *parsed = &options->parse;
    unsigned word = 0;
    error_t r = 0;
    switch (key) {
    case KEY_CLUSTER:
        options->cluster = arg;
        break;
    case KEY_TRACE:
        options->trace = arg;
        break;
    case KEY_POLICY:
        options->policy = arg;
        break;
    case KEY_PLOT:
        options->plot = arg;
        break;
    case KEY_STAY:
        experiment->draw.departures = false;
        break;
    case KEY_WHOLE:
        options->whole = true;
        break;
    case KEY_GPU_ONLY:
        experiment->pod.gpu_only = true;
        break;
    case KEY_QUEUE:
        r = cli_parse_word(parsed, "--queue", queues, arg, &word);
        experiment->group.queue = (enum gt_queue)word;
        break;
    case KEY_TIES:
        r = cli_parse_word(parsed, "--ties", ties, arg, &word);
        experiment->pod.random_ties = word == 1;
        break;
    case 'o':
        r = cli_parse_word(parsed, "-o", formats, arg, &options->format);
        break;
    case KEY_SEED:
        r = read_number(options, "--seed", arg, 0, UINT32_MAX, &experiment->seed);
        break;
    case KEY_SEEDS:
        r = read_count(options, "--seeds", arg, GT_EXPERIMENT_SEEDS_MAX, &experiment->seeds);
        break;
    case KEY_JOBS:
        r = read_count(options, "--jobs", arg, GT_EXPERIMENT_JOBS_MAX, &experiment->draw.jobs);
        break;
    case KEY_GROUP:
        r = read_count(options, "--group", arg, GT_TRACE_JOB_GPUS_MAX, &experiment->draw.group);
        break;
    case KEY_ATOMIC:
        r = read_count(options, "--atomic", arg, GT_TRACE_JOB_GPUS_MAX, &experiment->draw.atom);
        break;
    case KEY_LOAD:
        r = read_real(options, "--load", arg, 0.01, 100, &options->load);
        break;
    case KEY_MTBF:
        r = read_real(options, "--mtbf", arg, 0.01, 1e9, &options->mtbf_hours);
        break;
    case KEY_REPAIR:
        r = read_real(options, "--repair", arg, 0.01, 1e9, &options->repair_hours);
        break;
    case KEY_WARM_UP:
        r = read_real(options, "--warm-up", arg, 0, 0.9, &experiment->group.warm_up);
        break;
    case KEY_LOSS_WEIGHT:
        r = read_real(options, "--loss-weight", arg, 0, 1e6, &experiment->loss_weight);
        break;
    default:
        return cli_parse_rest(key, arg, state);
    }
    return r;
}

static const struct argp_option own_options[] = {
    {.name = "cluster",
     .key = KEY_CLUSTER,
     .arg = "FILE|SHAPE",
     .doc = "an openb node list or a Lingjun topology, or supernodes x nodes x GPUs such as 320x32x8"},
    {.name = "trace",
     .key = KEY_TRACE,
     .arg = "FILE|NAME",
     .doc = "an openb pod list or Philly jobs, or seren, kalos, philly, helios, or mix:1,4,16 (GPUs)"},
    {.name = "policy", .key = KEY_POLICY, .arg = "NAME[,NAME]", .doc = "what places the jobs (default: all)"},
    {.name = "seed", .key = KEY_SEED, .arg = "N", .doc = "of the random numbers (default 42)"},
    {.name = "seeds", .key = KEY_SEEDS, .arg = "N", .doc = "so many runs, seed after seed (default 1)"},
    {.name = "load",
     .key = KEY_LOAD,
     .arg = "X",
     .doc = "GPU time asked for over GPU time there is (default 1; 1.3 where nothing leaves)"},
    {.name = "jobs", .key = KEY_JOBS, .arg = "N", .doc = "how many jobs come (default 20000)"},
    {.name = "no-departures", .key = KEY_STAY, .doc = "jobs never leave"},
    {.name = "queue",
     .key = KEY_QUEUE,
     .arg = "HOW",
     .doc = "what does not fit: none (default: is rejected), fifo or backfill (waits)"},
    {.name = "group", .key = KEY_GROUP, .arg = "N", .doc = "GPUs that must lie in one supernode"},
    {.name = "atomic",
     .key = KEY_ATOMIC,
     .arg = "N",
     .doc = "GPUs of an atom: only atoms must lie in one supernode, groups should"},
    {.name = "mtbf", .key = KEY_MTBF, .arg = "HOURS", .doc = "mean time to the failure of a node"},
    {.name = "repair", .key = KEY_REPAIR, .arg = "HOURS", .doc = "mean time until it is back (default 12)"},
    {.name = "warm-up",
     .key = KEY_WARM_UP,
     .arg = "PART",
     .doc = "part of the jobs before anything is measured (default 0.3)"},
    {.name = "whole-gpus", .key = KEY_WHOLE, .doc = "openb: leave out the pods that share a GPU"},
    {.name = "gpu-only",
     .key = KEY_GPU_ONLY,
     .doc = "openb: policies see no CPU; it and memory decide only where a pod fits"},
    {.name = "ties",
     .key = KEY_TIES,
     .arg = "HOW",
     .doc = "openb: of equal nodes the first by name (name, default) or any (random)"},
    {.name = "loss-weight",
     .key = KEY_LOSS_WEIGHT,
     .arg = "X",
     .doc = "loss.weight of gpu-aware (default 0.5)"},
    {.name = "output", .key = 'o', .arg = "FORMAT", .doc = "table (default), csv, json or svg"},
    {.name = "plot", .key = KEY_PLOT, .arg = "DIR", .doc = "write a picture of each measure into DIR too"},
    CLI_LAST_OPTIONS,
};
static const struct argp argp = {
    .options = own_options,
    .parser = parse,
    .doc = "Play jobs through a cluster and compare policies of placement: gputopo's own, and others rebuilt "
           "from their descriptions.",
};

const char *cli_program = "gputopo";

/* The program of the verb: gputopo runs it, and it speaks as that. */
int main(int argc, char **argv)
{
    static char name[] = "gputopo: simulate"; /* getopt begins its messages with it */
    struct cli_simulation options = {
        .parse = {.verb = "simulate"},
        .repair_hours = 12,
        .experiment = {.seed = 42,
                       .seeds = 1,
                       .draw = {.jobs = 20000, .departures = true},
                       .group = {.warm_up = 0.3},
                       .loss_weight = GT_AWARE_DEFAULT.loss_weight},
    };
    const char *verb = options.parse.verb;
    int exit_code;
    cli_keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a reader that has gone is an error of write() */
    if (argc < 1)
        return cli_usage(verb, "expected options, see gputopo-simulate --help");
    argv[0] = name;
    if (!cli_parse_options(&argp, argc, argv, &options.parse, &exit_code))
        return exit_code;
    if (!options.cluster || !options.trace)
        return cli_usage(verb, "%s: expected one", options.cluster ? "--trace" : "--cluster");
    return cli_simulate_run(&options);
}
