/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/simulate/simulate.h"

/* ---- inputs ---- */

static bool is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int read_text(const char *path, char **ret, size_t *ret_len, struct gt_err **err)
{
    return gt_file_read(AT_FDCWD, path, GT_SITE_TEXT_MAX, ret, ret_len, err);
}

/* Reads a shape or a file; false with the exit code, after an error line on stderr. */
static bool read_cluster(const struct cli_simulation *options, struct gt_site **ret, int *ret_exit)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    const char *verb = options->parse.verb;
    if (!is_file(options->cluster)) {
        if (gt_site_from_shape(options->cluster, ret, &err) >= 0)
            return true;
        if (strchr(options->cluster, '/') || strchr(options->cluster, '.')) { /* the user means a file */
            gt_err_free(gt_steal(err));
            read_text(options->cluster, &text, &len, &err);
            *ret_exit = cli_failed(verb, err);
        } else {
            *ret_exit = gt_err_code(err) == EINVAL ? cli_usage(verb, "--cluster: %s", gt_err_text(err))
                                                   : cli_failed(verb, err);
        }
        return false;
    }
    if (read_text(options->cluster, &text, &len, &err) < 0 ||
        gt_site_from_text(options->cluster, text, len, ret, &err) < 0) {
        *ret_exit = cli_failed(verb, err);
        return false;
    }
    return true;
}

static bool read_trace(const struct cli_simulation *options, struct gt_trace **ret, int *ret_exit)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    const char *verb = options->parse.verb;
    int r = gt_trace_from_name(options->trace, ret, &err);
    if (r == -ENOENT &&
        (is_file(options->trace) || strchr(options->trace, '/') || strchr(options->trace, '.'))) {
        gt_err_free(gt_steal(err));
        r = read_text(options->trace, &text, &len, &err);
        if (r >= 0)
            r = gt_trace_from_text(options->trace, text, len, ret, &err);
        if (r >= 0)
            return true;
        *ret_exit = cli_failed(verb, err);
        return false;
    }
    if (r < 0)
        *ret_exit = r == -ENOMEM ? cli_failed(verb, err) : cli_usage(verb, "--trace: %s", gt_err_text(err));
    return r >= 0;
}

/* Splits the names in `list`, which is changed; NULL: all policies. */
static bool choose_policies(struct cli_simulation *options, char *list, enum gt_trace_kind kind)
{
    struct gt_experiment *experiment = &options->experiment;
    for (char *name = list; name;) {
        char *comma = strchr(name, ',');
        if (comma)
            *comma++ = '\0';
        if (experiment->policy_count == GT_EXPERIMENT_POLICIES_MAX) {
            cli_usage(options->parse.verb, "--policy: at most %d policies", GT_EXPERIMENT_POLICIES_MAX);
            return false;
        }
        if (options->policy && !gt_experiment_has(kind, name)) {
            gt_auto_buf struct gt_buf names = GT_BUF(1024);
            gt_experiment_names(kind, &names);
            cli_usage(options->parse.verb, "--policy: expected of %s, is '%.100s'",
                      names.data ? names.data : "", name);
            return false;
        }
        experiment->policies[experiment->policy_count++] = name;
        name = comma;
        while (name && *name == ' ')
            name++;
    }
    return true;
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
    fprintf(stderr, "\r[%s] %3u%%", bar, percent);
}

static int write_plots(const char *dir, const struct gt_report *reports, uint32_t count, const char *title,
                       enum gt_chart_axis axis, struct gt_err **err)
{
    if (mkdir(dir, 0777) < 0 && errno != EEXIST)
        return gt_fail_sys(err, errno, "--plot: %s", dir);
    for (unsigned chart = 0; gt_chart_names[chart]; chart++) {
        gt_auto_buf struct gt_buf picture = GT_BUF(CLI_OUTPUT_MAX);
        gt_auto_buf struct gt_buf path = GT_BUF(4096);
        gt_report_chart(reports, count, title, (enum gt_chart)chart, axis, &picture);
        gt_buf_printf(&path, "%s/%s.svg", dir, gt_chart_names[chart]);
        int r = gt_buf_check(&picture, "the picture", err);
        if (r >= 0)
            r = gt_buf_check(&path, "--plot", err);
        if (r >= 0)
            r = gt_file_write_durable(path.data, picture.data, picture.len, 0644, err);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The base name of a file, without its extension. */
static void write_name(const char *path, struct gt_buf *to)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    gt_buf_add(to, name, dot && strcmp(dot, ".csv") == 0 ? (size_t)(dot - name) : strlen(name));
}

static void write_title(const struct cli_simulation *options, struct gt_buf *to)
{
    const struct gt_experiment *experiment = &options->experiment;
    bool pods = experiment->trace->kind == GT_TRACE_PODS;
    const struct gt_site *site = experiment->site;
    write_name(options->cluster, to);
    if (site->single_nodes)
        gt_buf_printf(to, " (%u nodes, %u GPUs), ", site->node_count, site->gpus);
    else
        gt_buf_printf(to, " (%u supernodes, %u nodes, %u GPUs), ", site->super_count, site->node_count,
                      site->gpus);
    write_name(options->trace, to);
    gt_buf_printf(to, ", load %g", pods ? experiment->pod.load : experiment->draw.load);
    if (!pods && experiment->draw.departures)
        gt_buf_printf(to, ", %u jobs%s", experiment->draw.jobs, experiment->draw.replay ? " replayed" : "");
    else
        gt_buf_puts(to, ", no departures");
    if (options->mtbf_hours > 0)
        gt_buf_printf(to, ", a node fails every %g h", options->mtbf_hours);
    if (pods)
        gt_buf_printf(to, "%s%s, ties by %s", options->whole ? ", whole GPUs only" : "",
                      experiment->pod.gpu_only ? ", scores without CPU" : "",
                      experiment->pod.random_ties ? "chance" : "name");
    gt_buf_printf(to, ", seed %llu", (unsigned long long)experiment->seed);
    if (experiment->seeds > 1)
        gt_buf_printf(to, " to %llu", (unsigned long long)(experiment->seed + experiment->seeds - 1));
}

static int simulate(struct cli_simulation *options, struct gt_err **err, struct gt_buf *to)
{
    struct gt_experiment *experiment = &options->experiment;
    uint32_t shown = UINT32_MAX;
    experiment->watch.nanoseconds = gt_clock_ns;
    if (isatty(STDERR_FILENO)) {
        experiment->watch.progress = show_progress;
        experiment->watch.arg = &shown;
    }
    struct gt_report *reports;
    int r = gt_experiment_run(experiment, &reports, err);
    if (shown != UINT32_MAX)
        fprintf(stderr, "\r\033[K");
    if (r < 0)
        return r;
    uint32_t count = experiment->policy_count;
    bool stay = experiment->trace->kind == GT_TRACE_PODS || !experiment->draw.departures;
    enum gt_chart_axis axis = stay ? GT_AXIS_ARRIVED : GT_AXIS_HOURS;
    gt_auto_buf struct gt_buf title = GT_BUF(4096);
    write_title(options, &title);
    r = gt_buf_check(&title, "the title", err);
    if (r >= 0 && options->plot)
        r = write_plots(options->plot, reports, count, title.data, axis, err);
    if (r >= 0) {
        if (options->format == CLI_SIM_TABLE)
            gt_report_table(reports, count, title.data, to);
        else if (options->format == CLI_SIM_CSV)
            gt_report_csv(reports, count, to);
        else if (options->format == CLI_SIM_JSON)
            gt_report_json(reports, count, to);
        else
            gt_report_charts(reports, count, title.data, axis, to);
    }
    gt_experiment_done(reports, count);
    return r;
}

int cli_simulate_run(struct cli_simulation *options)
{
    struct gt_experiment *experiment = &options->experiment;
    const char *verb = options->parse.verb;
    int exit_code;
    gt_auto_site struct gt_site *site = NULL;
    gt_auto_trace struct gt_trace *trace = NULL;
    if (!read_trace(options, &trace, &exit_code) || !read_cluster(options, &site, &exit_code))
        return exit_code;
    gt_auto_err struct gt_err *err = NULL;
    if (options->whole && gt_trace_drop_shared(trace, &err) < 0)
        return cli_failed(verb, err);
    gt_auto_buf struct gt_buf all = GT_BUF(4096), text = GT_BUF(CLI_OUTPUT_MAX);
    if (options->policy)
        gt_buf_puts(&all, options->policy);
    else
        gt_experiment_names(trace->kind, &all);
    if (gt_buf_check(&all, "--policy", &err) < 0)
        return cli_failed(verb, err);
    if (!choose_policies(options, all.data, trace->kind))
        return CLI_USAGE;

    bool stay = trace->kind == GT_TRACE_PODS || !experiment->draw.departures;
    double load = options->load > 0 ? options->load : stay ? 1.3 : 1;
    if (experiment->draw.replay && stay)
        return cli_usage(verb, "--replay: not where pods never leave");
    experiment->site = site;
    experiment->trace = trace;
    experiment->draw.load = experiment->pod.load = load;
    experiment->group.mtbf = options->mtbf_hours * 3600;
    experiment->group.repair = options->repair_hours * 3600;
    bool waits = experiment->group.queue != GT_QUEUE_NONE && !stay;
    if (gt_group_needs_parts(&experiment->group) && !waits)
        return cli_usage(verb, "--on-node-loss, --spare-nodes, --minimum: only where jobs wait and leave");
    for (uint32_t p = 0; p < experiment->policy_count && gt_group_needs_parts(&experiment->group); p++)
        if (!gt_experiment_places_parts(experiment->policies[p]))
            return cli_usage(verb,
                             "--policy: %s places whole jobs only, not with --on-node-loss, "
                             "--spare-nodes or --minimum",
                             experiment->policies[p]);
    if (!experiment->draw.departures)
        experiment->draw.jobs = GT_EXPERIMENT_JOBS_MAX;
    if (simulate(options, &err, &text) < 0)
        return cli_failed(verb, err);
    return cli_print(verb, &text);
}
