/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/simulate/simulate.h"
#include "scheduler-ext/core/score.h"

enum { CLI_SIM_CSV = CLI_FORMATS };

struct cli_simulation {
    struct cli_parse parse;
    const char *cluster, *trace;
    const char *policy; /* NULL: all */
    double load;        /* 0: the default */
    double mtbf_hours, repair_hours;
    uint64_t leaf, spine;            /* supernodes of a leaf, leaves of a spine; 0: there is no such tier */
    struct gt_experiment experiment; /* without site, trace, policies and load */
};

static const struct gt_group_policy *const *known_policies; /* what --policy may name; NULL at the end */

static const char *const close_words[] = {"room", "prefer", NULL};
static const char *const formats[] = {CLI_FORMAT_WORDS, "csv", NULL};
static const char *const policy_words[] = {"gputopo", "gputopo-static", "gpu-aware", NULL};
static const char *const queues[] = {"none", "fifo", "backfill", "turns", NULL}; /* as enum gt_queue_policy */

#define SIM_FIELD(member) GT_OPTION_FIELD(struct cli_simulation, member)

static const struct gt_option own_options[] = {
    {"cluster", "FILE|SHAPE", "supernodes x nodes x GPUs such as 320x32x8, or a table node,leaf,spine",
     gt_option_any_text, SIM_FIELD(cluster)},
    {"trace", "FILE|NAME",
     "seren, kalos, philly, helios, or mix:1,4,16 (GPUs), or a file of jobs as of Philly", gt_option_any_text,
     SIM_FIELD(trace)},
    {"policy", "NAME[,NAME]", "what places the jobs (default: all)", gt_option_any_text, SIM_FIELD(policy),
     .words = policy_words},
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
    {"pool", NULL, "all pods have one GPU and need not lie together: what topology costs", gt_option_set,
     SIM_FIELD(experiment.draw.pool)},
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
    {"leaf", "N", "supernodes in a leaf, the tier above them", gt_option_number, SIM_FIELD(leaf), .min = 1,
     .max = GT_SITE_NODES_MAX},
    {"spine", "N", "leaves in a spine", gt_option_number, SIM_FIELD(spine), .min = 1,
     .max = GT_SITE_NODES_MAX},
    {"mtbf", "HOURS", "mean time to the failure of a node; its jobs are submitted again", gt_option_real,
     SIM_FIELD(mtbf_hours), .min = 0.01, .max = 1e9},
    {"repair", "HOURS", "mean time until it is back (default 12)", gt_option_real, SIM_FIELD(repair_hours),
     .min = 0.01, .max = 1e9},
    {"restart-cost", "SECONDS", "without progress for a job of which units move (default 300)",
     gt_option_real, SIM_FIELD(experiment.group.restart), .min = 0, .max = 1e9},
    {"moves-a-day", "N", "units that may move in 24 hours so that waiting jobs fit (default 0)",
     gt_option_number, SIM_FIELD(experiment.group.moves_a_day), .max = GT_EXPERIMENT_JOBS_MAX},
    {"quota", "PART", "part of the GPUs that a namespace may hold (default 1)", gt_option_real,
     SIM_FIELD(experiment.group.quota), .min = 0.001, .max = 1},
    {"loss-weight", "X", "loss.weight of gpu-aware (default 0.5)", gt_option_real,
     SIM_FIELD(experiment.group.loss_weight), .max = 1e6},
    {"close", "HOW", "gputopo's jobs lie close where that costs no room (default: room), or always (prefer)",
     gt_option_word, SIM_FIELD(experiment.group.close), .words = close_words},
    CLI_OWN_FORMAT_OPTION("text (default), json, yaml or csv", formats),
    CLI_HELP_OPTION,
};

/* ---- inputs ---- */

static bool simulate_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static bool simulate_means_file(const char *name)
{
    return simulate_is_file(name) || strchr(name, '/') || strchr(name, '.');
}

/* Reads a shape or a file. */
static int simulate_read_cluster(struct cli_call *call, const char *cluster, struct gt_site **ret)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    int r = simulate_is_file(cluster) ? -EINVAL : gt_site_from_shape(cluster, ret, &err);
    if (r < 0 && simulate_means_file(cluster)) {
        GT_TRY(gt_file_read(AT_FDCWD, cluster, GT_SITE_TEXT_MAX, &text, &len, call->err));
        return gt_site_from_text(cluster, text, len, ret, call->err);
    }
    if (r == -EINVAL)
        return cli_misuse(call, "--cluster: %s", gt_err_text(err));
    return r < 0 ? gt_err_pass(call->err, &err) : r;
}

static int read_trace(struct cli_call *call, const char *trace, struct gt_trace **ret)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    int r = gt_trace_from_name(trace, ret, &err);
    if (r == -ENOENT && simulate_means_file(trace)) {
        GT_TRY(gt_file_read(AT_FDCWD, trace, GT_SITE_TEXT_MAX, &text, &len, call->err));
        return gt_trace_from_text(trace, text, len, ret, call->err);
    }
    if (r < 0 && r != -ENOMEM)
        return cli_misuse(call, "--trace: %s", gt_err_text(err));
    return r < 0 ? gt_err_pass(call->err, &err) : r;
}

static const struct gt_group_policy *find_policy(const char *name, size_t len)
{
    const struct gt_group_policy *const *known = known_policies;
    while (*known && (strlen((*known)->name) != len || strncmp((*known)->name, name, len) != 0))
        known++;
    return *known;
}

static int fail_unknown_policy(struct cli_call *call, const char *name, size_t len)
{
    gt_auto_buf struct gt_buf names = GT_BUF(1024);
    for (size_t i = 0; known_policies[i]; i++)
        gt_buf_printf(&names, "%s%s", i ? ", " : "", known_policies[i]->name);
    return cli_misuse(call, "--policy: expected of %s, is '%.*s'", names.data ? names.data : "",
                      (int)(len < 100 ? len : 100), name);
}

/* Finds the policies of the option, or all. */
static int choose_policies(struct cli_call *call, const char *names, struct gt_experiment *experiment)
{
    uint32_t *count = &experiment->policy_count;
    for (; !names && known_policies[*count]; ++*count)
        experiment->policies[*count] = known_policies[*count];
    for (const char *name = names; name;) {
        size_t len = strcspn(name, ",");
        if (*count == GT_EXPERIMENT_POLICIES_MAX)
            return cli_misuse(call, "--policy: at most %d policies", GT_EXPERIMENT_POLICIES_MAX);
        experiment->policies[*count] = find_policy(name, len);
        if (!experiment->policies[(*count)++])
            return fail_unknown_policy(call, name, len);
        name = name[len] ? name + len + 1 : NULL;
        while (name && *name == ' ')
            name++;
    }
    return 0;
}

/* ---- running and printing ---- */

static void show_progress(void *arg, uint32_t done, uint32_t total)
{
    enum { BAR = 40 };
    uint32_t *shown = arg, percent = total ? (uint32_t)((uint64_t)done * 100 / total) : 0;
    if (percent == *shown)
        return;
    *shown = percent;
    char bar[BAR + 1];
    for (uint32_t i = 0; i < BAR; i++)
        bar[i] = i < percent * BAR / 100 ? '#' : '.';
    bar[BAR] = '\0';
    cli_progress("[%s] %3u%%", bar, percent);
}

/* The base name of a file, without its extension. */
static void write_name(const char *path, struct gt_buf *to)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    gt_buf_add(to, name, dot && strcmp(dot, ".csv") == 0 ? (size_t)(dot - name) : strlen(name));
}

static void write_title(const struct cli_simulation *options, const struct gt_experiment *experiment,
                        struct gt_buf *to)
{
    const struct gt_site *site = experiment->site;
    write_name(options->cluster, to);
    gt_buf_printf(to, " (%u supernodes, %u nodes, %u GPUs), ", site->super_count, site->node_count,
                  site->gpus);
    write_name(options->trace, to);
    gt_buf_printf(to, ", load %g", experiment->draw.load);
    if (experiment->draw.departures)
        gt_buf_printf(to, ", %u jobs%s", experiment->draw.jobs, experiment->draw.replay ? " replayed" : "");
    else
        gt_buf_puts(to, ", no departures");
    if (options->mtbf_hours > 0)
        gt_buf_printf(to, ", a node fails every %g h", options->mtbf_hours);
    gt_buf_printf(to, ", seed %llu", (unsigned long long)experiment->seed);
    if (experiment->seeds > 1)
        gt_buf_printf(to, " to %llu", (unsigned long long)(experiment->seed + experiment->seeds - 1));
}

static int simulate(const struct cli_simulation *options, struct gt_experiment *experiment,
                    struct gt_err **err, struct gt_buf *to)
{
    uint32_t shown = UINT32_MAX;
    experiment->watch.nanoseconds = gt_clock_ns;
    experiment->watch.progress = show_progress;
    experiment->watch.arg = &shown;
    struct gt_report *reports;
    int r = gt_experiment_run(experiment, &reports, err);
    if (r < 0)
        return r;
    uint32_t count = experiment->policy_count;
    gt_auto_buf struct gt_buf title = GT_BUF(4096);
    write_title(options, experiment, &title);
    r = gt_buf_check(&title, "the title", err);
    if (r >= 0) {
        if (options->parse.format == CLI_SIM_CSV)
            gt_report_csv(reports, count, to);
        else if (options->parse.format == CLI_JSON || options->parse.format == CLI_YAML)
            gt_report_json(reports, count, to);
        else
            gt_report_table(reports, count, title.data, to);
    }
    gt_experiment_done(reports, count);
    return r;
}

static int simulation_run(struct cli_call *call)
{
    const struct cli_simulation *options = call->options;
    struct gt_experiment own = options->experiment, *experiment = &own;
    gt_auto_site struct gt_site *site = NULL;
    gt_auto_trace struct gt_trace *trace = NULL;
    if (!options->cluster || !options->trace)
        return cli_misuse(call, "%s: expected one", options->cluster ? "--trace" : "--cluster");
    GT_TRY(read_trace(call, options->trace, &trace));
    GT_TRY(simulate_read_cluster(call, options->cluster, &site));
    GT_TRY(choose_policies(call, options->policy, experiment));
    bool stay = !experiment->draw.departures;
    double load = options->load > 0 ? options->load : stay ? 1.3 : 1;
    if (experiment->draw.replay && stay)
        return cli_misuse(call, "--replay: not where jobs never leave");
    if (options->spine && !options->leaf)
        return cli_misuse(call, "--spine: only with --leaf");
    if (options->leaf && site->upper[0])
        return cli_misuse(call, "--leaf: %s has leaves already", options->cluster);
    const uint64_t supers[] = {options->leaf, options->leaf * options->spine};
    for (unsigned t = 0; t < GT_COUNT(supers); t++)
        if (supers[t])
            GT_TRY(gt_site_group(
                site, t, supers[t] < GT_SITE_NODES_MAX ? (uint32_t)supers[t] : GT_SITE_NODES_MAX, call->err));
    experiment->site = site;
    experiment->trace = trace;
    experiment->draw.load = load;
    experiment->group.mtbf = options->mtbf_hours * 3600;
    experiment->group.repair = options->repair_hours * 3600;
    if (experiment->group.moves_a_day && (experiment->group.queue == GT_QUEUE_NONE || stay))
        return cli_misuse(call, "--moves-a-day: only where jobs wait and leave");
    for (uint32_t p = 0; p < experiment->policy_count && experiment->group.moves_a_day; p++)
        if (!experiment->policies[p]->model)
            return cli_misuse(call, "--policy: %s moves no pods, not with --moves-a-day",
                              experiment->policies[p]->name);
    if (!experiment->draw.departures)
        experiment->draw.jobs = GT_EXPERIMENT_JOBS_MAX;
    return simulate(options, experiment, call->err, call->text);
}

static struct cli_simulation simulation_defaults = {
    .repair_hours = 12,
    .experiment = {.seed = 42,
                   .seeds = 1,
                   .draw = {.jobs = 20000, .departures = true},
                   .group = {.queue = GT_QUEUE_BACKFILL,
                             .patience = 60,
                             .reservation = 600,
                             .reserved_percent = 50,
                             .warm_up = 0.3,
                             .restart = 300}},
};

static const struct cli_verb simulation = {
    .name = "simulate",
    .command =
        {.about =
             "Play jobs through a cluster in simulated time, to see what a mix of jobs, the sizes of a "
             "cluster and the placement controller's options do to occupancy, fragmentation and waiting.",
         .more = "Example: gputopo simulate --cluster 57x18x4 --trace philly --policy gputopo",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct cli_simulation),
    .defaults = &simulation_defaults,
    .run = simulation_run};

int cli_simulate_main(int argc, char **argv, const struct gt_group_policy *const *known)
{
    cli_keep_standard_streams();
    known_policies = known;
    simulation_defaults.experiment.group.loss_weight = GT_AWARE_DEFAULT.loss_weight;
    if (argc < 1)
        return cli_usage(simulation.name, "expected options, see gputopo-simulate --help");
    return cli_run(&simulation, argc, argv);
}
