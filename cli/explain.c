/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "cli/cli.h"
#include "cli/http_get.h"

/* Asks the companion why a pod or a job has its place, or waits. */

enum { TIMEOUT_MS = 10000 };

struct explain_options {
    struct cli_parse parse;
    const char *companion, *namespace_, *name;
    unsigned format;
};

static const struct gt_option own_options[] = {
    {"namespace", "NAME", "where the pod or job is (default: anywhere)", gt_option_any_text,
     GT_OPTION_FIELD(struct explain_options, namespace_), .letter = 'n'},
    {"companion", "ADDRESS:PORT", "where gputopo-scheduler answers (127.0.0.1:9401)", gt_option_any_text,
     GT_OPTION_FIELD(struct explain_options, companion)},
    CLI_FORMAT_OPTION(struct explain_options),
    CLI_HELP_OPTION,
};

static const struct gt_command command = {
    .arguments = "POD|JOB",
    .about = "Explain why a pod or a job is where it is: its plan, what nodes are worth to it, or the reason "
             "why it "
             "waits. POD and JOB are NAME or NAMESPACE/NAME; a job may be NAMESPACE/KIND/NAME as well.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

/* Everything that has a meaning in a URL is escaped. */
static void add_escaped(struct gt_buf *to, const char *text)
{
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._~/";
    for (; *text; text++)
        if (strchr(plain, *text))
            gt_buf_add(to, text, 1);
        else
            gt_buf_printf(to, "%%%02X", (unsigned char)*text);
}

static int query(const struct explain_options *options, struct gt_buf *answer, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(4096);
    gt_buf_puts(&path, "/explain?name=");
    if (options->namespace_) {
        add_escaped(&path, options->namespace_);
        gt_buf_puts(&path, "/");
    }
    add_escaped(&path, options->name);
    if (options->format == CLI_JSON)
        gt_buf_puts(&path, "&format=json");
    int r = gt_buf_check(&path, "the name", err);
    if (r < 0)
        return r;
    gt_auto_err struct gt_err *why = NULL;
    r = cli_http_get(options->companion, path.data, TIMEOUT_MS, answer, &why);
    if (r == -ECONNREFUSED || r == -EHOSTUNREACH || r == -ETIMEDOUT || r == -ENETUNREACH)
        return gt_fail(
            err, -r,
            "gputopo-scheduler cannot be reached: %s; where it runs in a cluster, first run: kubectl -n "
            "gputopo-system port-forward deploy/gputopo-scheduler 9401",
            gt_err_text(why));
    return r < 0 ? gt_fail(err, -r, "%s", gt_err_text(why)) : 0;
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    struct explain_options options = {.parse = {.verb = verb->name}, .companion = "127.0.0.1:9401"};
    int first, exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, &first, &exit_code))
        return exit_code;
    if (first + 1 < argc)
        return cli_usage(verb->name, "unexpected argument '%.100s'", argv[first + 1]);
    options.name = argv[first]; /* NULL after the last */
    if (!options.name || !*options.name)
        return cli_usage(verb->name, "expected the name of a pod or of a job");
    if (options.namespace_ && strchr(options.name, '/'))
        return cli_usage(verb->name, "-n: '%.100s' names the namespace already", options.name);

    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf answer = GT_BUF(CLI_OUTPUT_MAX);
    int r = query(&options, &answer, &err);
    if (r == -EINVAL)
        return cli_usage(verb->name, "--companion: %s", gt_err_text(err));
    if (r < 0)
        return cli_failed(verb->name, err);
    return cli_print(verb->name, &answer);
}

const struct cli_verb cli_explain = {"explain", run};
