/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/text.h"
#include "cli/simulate.h"

enum {
    KEY_CLUSTER = 0x200,
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

/* Each of these says what is wrong itself. */
static bool read_number(const struct cli_simulation *options, const char *name, const char *arg, uint64_t min,
                        uint64_t max, uint64_t *ret)
{
    uint64_t value;
    if (gt_text_to_unsigned(arg, max, &value) && value >= min) {
        *ret = value;
        return true;
    }
    cli_usage(options->parse.verb, "--%s: expected a number from %llu to %llu, is '%.100s'", name,
              (unsigned long long)min, (unsigned long long)max, arg);
    return false;
}

static bool read_real(const struct cli_simulation *options, const char *name, const char *arg, double min,
                      double max, double *ret)
{
    char *end;
    double value = strtod(arg, &end);
    if (*arg && !*end && strspn(arg, "0123456789.") == strlen(arg) && value >= min && value <= max) {
        *ret = value;
        return true;
    }
    cli_usage(options->parse.verb, "--%s: expected a number from %g to %g, is '%.100s'", name, min, max, arg);
    return false;
}

static bool read_word(const struct cli_simulation *options, const char *name, const char *arg,
                      const char *const *words, unsigned *ret)
{
    for (unsigned i = 0; words[i]; i++)
        if (strcmp(arg, words[i]) == 0) {
            *ret = i;
            return true;
        }
    gt_auto_buf struct gt_buf list = GT_BUF(256);
    for (unsigned i = 0; words[i]; i++)
        gt_buf_printf(&list, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    cli_usage(options->parse.verb, "%s: expected %s, is '%.100s'", name, list.data ? list.data : "", arg);
    return false;
}

static bool read_numbers(int key, const char *arg, struct cli_simulation *options)
{
    struct gt_experiment *experiment = &options->experiment;
    uint64_t number = 0;
    switch (key) {
    case KEY_SEED:
        return read_number(options, "seed", arg, 0, UINT32_MAX, &experiment->seed);
    case KEY_SEEDS:
        if (!read_number(options, "seeds", arg, 1, GT_EXPERIMENT_SEEDS_MAX, &number))
            return false;
        experiment->seeds = (uint32_t)number;
        return true;
    case KEY_JOBS:
        if (!read_number(options, "jobs", arg, 1, GT_EXPERIMENT_JOBS_MAX, &number))
            return false;
        experiment->draw.jobs = (uint32_t)number;
        return true;
    case KEY_GROUP:
        if (!read_number(options, "group", arg, 1, GT_TRACE_JOB_GPUS_MAX, &number))
            return false;
        experiment->draw.group = (uint32_t)number;
        return true;
    case KEY_ATOMIC:
        if (!read_number(options, "atomic", arg, 1, GT_TRACE_JOB_GPUS_MAX, &number))
            return false;
        experiment->draw.atom = (uint32_t)number;
        return true;
    case KEY_LOAD:
        return read_real(options, "load", arg, 0.01, 100, &options->load);
    case KEY_MTBF:
        return read_real(options, "mtbf", arg, 0.01, 1e9, &options->mtbf_hours);
    case KEY_REPAIR:
        return read_real(options, "repair", arg, 0.01, 1e9, &options->repair_hours);
    case KEY_WARM_UP:
        return read_real(options, "warm-up", arg, 0, 0.9, &experiment->group.warm_up);
    default:
        return read_real(options, "loss-weight", arg, 0, 1e6, &experiment->pod.loss_weight);
    }
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct cli_simulation *options = state->input;
    unsigned word = 0;
    bool good = true;
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
        options->experiment.draw.departures = false;
        break;
    case KEY_WHOLE:
        options->whole = true;
        break;
    case KEY_GPU_ONLY:
        options->experiment.pod.gpu_only = true;
        break;
    case KEY_QUEUE:
        good = read_word(options, "--queue", arg, queues, &word);
        options->experiment.group.queue = (enum gt_queue)word;
        break;
    case KEY_TIES:
        good = read_word(options, "--ties", arg, ties, &word);
        options->experiment.pod.random_ties = word == 1;
        break;
    case 'o':
        good = read_word(options, "-o", arg, formats, &options->format);
        break;
    case KEY_SEED:
    case KEY_SEEDS:
    case KEY_JOBS:
    case KEY_GROUP:
    case KEY_ATOMIC:
    case KEY_LOAD:
    case KEY_MTBF:
    case KEY_REPAIR:
    case KEY_WARM_UP:
    case KEY_LOSS_WEIGHT:
        good = read_numbers(key, arg, options);
        break;
    default:
        return cli_parse_rest(key, arg, state);
    }
    return good ? 0 : EINVAL;
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
    {.name = "loss-weight", .key = KEY_LOSS_WEIGHT, .arg = "X", .doc = "openb: loss.weight of gputopo"},
    {.name = "output", .key = 'o', .arg = "FORMAT", .doc = "table (default), csv, json or svg"},
    {.name = "plot", .key = KEY_PLOT, .arg = "DIR", .doc = "write a picture of each measure into DIR too"},
    {.name = "help", .key = CLI_KEY_HELP, .doc = "print this help", .group = -1},
    {0},
};
static const struct argp argp = {
    .options = own_options,
    .parser = parse,
    .doc = "Play jobs through a cluster and compare policies of placement: gputopo's own, and others rebuilt "
           "from their descriptions.",
};

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct cli_simulation options = {
        .parse = {.verb = verb->name},
        .repair_hours = 12,
        .experiment = {.seed = 42,
                       .seeds = 1,
                       .draw = {.jobs = 20000, .departures = true},
                       .group = {.warm_up = 0.3},
                       .pod = {.loss_weight = (double)NAN}},
    };
    int exit_code;
    if (!cli_parse_options(&argp, argc, argv, &options.parse, &exit_code))
        return exit_code;
    if (!options.cluster || !options.trace)
        return cli_usage(verb->name, "%s: expected one", options.cluster ? "--trace" : "--cluster");

    return cli_simulate_run(&options);
}

const struct cli_verb cli_simulate = {"simulate", run};
