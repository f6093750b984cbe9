/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/clock.h"
#include "base/file.h"
#include "cli/simulate/simulate.h"

/* ---- inputs ---- */

static bool simulate_is_file(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && !S_ISDIR(st.st_mode);
}

static int simulate_read_text(const char *path, char **ret, size_t *ret_len, struct gt_err **err)
{
    return gt_file_read(AT_FDCWD, path, GT_SITE_TEXT_MAX, ret, ret_len, err);
}

/* Reads a shape or a file; false with the exit code, after an error line on stderr. */
static bool simulate_read_cluster(const struct cli_simulation *options, struct gt_site **ret, int *ret_exit)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_free char *text = NULL;
    size_t len;
    const char *verb = options->parse.verb;
    if (!simulate_is_file(options->cluster)) {
        if (gt_site_from_shape(options->cluster, ret, &err) >= 0)
            return true;
        if (strchr(options->cluster, '/') || strchr(options->cluster, '.')) { /* the user means a file */
            gt_err_free(gt_steal(err));
            simulate_read_text(options->cluster, &text, &len, &err);
            *ret_exit = cli_failed(verb, err);
        } else {
            *ret_exit = gt_err_code(err) == EINVAL ? cli_usage(verb, "--cluster: %s", gt_err_text(err))
                                                   : cli_failed(verb, err);
        }
        return false;
    }
    if (simulate_read_text(options->cluster, &text, &len, &err) < 0 ||
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
        (simulate_is_file(options->trace) || strchr(options->trace, '/') || strchr(options->trace, '.'))) {
        gt_err_free(gt_steal(err));
        r = simulate_read_text(options->trace, &text, &len, &err);
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

static const struct gt_group_policy *find_policy(const struct gt_group_policy *const *known, const char *name,
                                                 size_t len)
{
    while (*known && (strlen((*known)->name) != len || strncmp((*known)->name, name, len) != 0))
        known++;
    return *known;
}

static bool is_unknown(const struct cli_simulation *options, const char *name, size_t len)
{
    gt_auto_buf struct gt_buf names = GT_BUF(1024);
    for (size_t i = 0; options->known[i]; i++)
        gt_buf_printf(&names, "%s%s", i ? ", " : "", options->known[i]->name);
    cli_usage(options->parse.verb, "--policy: expected of %s, is '%.*s'", names.data ? names.data : "",
              (int)(len < 100 ? len : 100), name);
    return false;
}

/* Finds the policies of the option, or all; false after an error line on stderr. */
static bool choose_policies(struct cli_simulation *options)
{
    struct gt_experiment *experiment = &options->experiment;
    uint32_t *count = &experiment->policy_count;
    for (; !options->policy && options->known[*count]; ++*count)
        experiment->policies[*count] = options->known[*count];
    for (const char *name = options->policy; name;) {
        size_t len = strcspn(name, ",");
        if (*count == GT_EXPERIMENT_POLICIES_MAX) {
            cli_usage(options->parse.verb, "--policy: at most %d policies", GT_EXPERIMENT_POLICIES_MAX);
            return false;
        }
        experiment->policies[*count] = find_policy(options->known, name, len);
        if (!experiment->policies[(*count)++])
            return is_unknown(options, name, len);
        name = name[len] ? name + len + 1 : NULL;
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

/* The base name of a file, without its extension. */
static void write_name(const char *path, struct gt_buf *to)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    gt_buf_add(to, name, dot && strcmp(dot, ".csv") == 0 ? (size_t)(dot - name) : strlen(name));
}

static void write_title(const struct cli_simulation *options, struct gt_buf *to)
{
    const struct gt_experiment *experiment = &options->experiment;
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
    gt_auto_buf struct gt_buf title = GT_BUF(4096);
    write_title(options, &title);
    r = gt_buf_check(&title, "the title", err);
    if (r >= 0) {
        if (options->format == CLI_SIM_TABLE)
            gt_report_table(reports, count, title.data, to);
        else if (options->format == CLI_SIM_CSV)
            gt_report_csv(reports, count, to);
        else
            gt_report_json(reports, count, to);
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
    if (!read_trace(options, &trace, &exit_code) || !simulate_read_cluster(options, &site, &exit_code))
        return exit_code;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    if (!choose_policies(options))
        return CLI_USAGE;

    bool stay = !experiment->draw.departures;
    double load = options->load > 0 ? options->load : stay ? 1.3 : 1;
    if (experiment->draw.replay && stay)
        return cli_usage(verb, "--replay: not where jobs never leave");
    experiment->site = site;
    experiment->trace = trace;
    experiment->draw.load = load;
    experiment->group.mtbf = options->mtbf_hours * 3600;
    experiment->group.repair = options->repair_hours * 3600;
    bool waits = experiment->group.queue != GT_QUEUE_NONE && !stay;
    if (gt_group_needs_parts(&experiment->group) && !waits)
        return cli_usage(verb, "--on-node-loss, --spare-nodes, --minimum: only where jobs wait and leave");
    for (uint32_t p = 0; p < experiment->policy_count && gt_group_needs_parts(&experiment->group); p++)
        if (!experiment->policies[p]->plan)
            return cli_usage(verb,
                             "--policy: %s places whole jobs only, not with --on-node-loss, "
                             "--spare-nodes or --minimum",
                             experiment->policies[p]->name);
    if (!experiment->draw.departures)
        experiment->draw.jobs = GT_EXPERIMENT_JOBS_MAX;
    if (simulate(options, &err, &text) < 0)
        return cli_failed(verb, err);
    return cli_print(verb, &text);
}
