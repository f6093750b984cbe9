/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

enum { CLI_VERBS_MAX = 32 };

const char *cli_program = "gputopo";

struct verb_options {
    struct cli_parse parse;
    bool version;
};

static const struct gt_option own_options[] = {
    {"version", NULL, "print the version", gt_option_last, GT_OPTION_FIELD(struct verb_options, version),
     .letter = 'V'},
    CLI_HELP_OPTION,
};

/* How the GPUs are wired, then a line for each verb. */
static void write_about(struct gt_buf *to)
{
    gt_buf_puts(to, "How the GPUs of a node and of a cluster are wired, and which of them to give.\n");
    for (unsigned i = 0; cli_verbs[i]; i++)
        gt_buf_printf(to, "\n  %-12s%s", cli_verbs[i]->name, cli_verbs[i]->about);
}

static const struct cli_verb *find_verb(const char *name)
{
    for (unsigned i = 0; cli_verbs[i]; i++)
        if (strcmp(name, cli_verbs[i]->name) == 0)
            return cli_verbs[i];
    return NULL;
}

static int unknown_verb(const char *name, const struct gt_buf *list)
{
    const char *names[CLI_VERBS_MAX];
    unsigned count = 0;
    while (count < CLI_VERBS_MAX && cli_verbs[count]) {
        names[count] = cli_verbs[count]->name;
        count++;
    }
    const char *meant = strlen(name) > 2 ? gt_text_meant(name, names, count) : NULL;
    if (meant)
        return cli_usage(NULL, "there is no verb '%.100s', did you mean %s? See --help", name, meant);
    return cli_usage(NULL, "expected %s, is '%.100s'", list->data ? list->data : "", name);
}

/* `help VERB` is `VERB --help`. */
static int help_of(char *name, const struct gt_buf *list)
{
    char help[] = "--help";
    const struct cli_verb *verb = find_verb(name);
    return verb ? cli_run(verb, 2, (char *[]){name, help, NULL}) : unknown_verb(name, list);
}

/* "show, record, ... or supernodes" */
static void list_verbs(struct gt_buf *to)
{
    for (unsigned i = 0; cli_verbs[i]; i++)
        gt_buf_printf(to, "%s%s", i == 0 ? "" : cli_verbs[i + 1] ? ", " : " or ", cli_verbs[i]->name);
}

int main(int argc, char **argv)
{
    cli_keep_standard_streams();
    if (argc < 1)
        return cli_usage(NULL, "expected a verb, see gputopo --help");
    const char *slash = strrchr(argv[0], '/');
    if (strcmp(slash ? slash + 1 : argv[0], "kubectl-gputopo") == 0)
        cli_program = "kubectl gputopo";

    gt_auto_buf struct gt_buf about = GT_BUF(4096);
    write_about(&about);
    const struct gt_command command = {
        .arguments = "VERB [OPTION]...",
        .about = about.data,
        .more =
            "VERB --help (or help VERB) lists the options of a verb; the manual page gputopo(1) describes "
            "all. -h is --help, and version is --version.\nExample: gputopo show -o svg > node.svg",
        .options = own_options,
        .count = GT_COUNT(own_options),
        .has_verbs = true,
    };
    struct verb_options options = {0};
    int first, exit_code;
    if (!cli_parse_options(&command, argc, argv, &options.parse, &first, &exit_code))
        return exit_code;
    if (options.version)
        return gt_exit_with_version("gputopo");
    gt_auto_buf struct gt_buf list = GT_BUF(256);
    list_verbs(&list);
    if (first == argc)
        return cli_usage(NULL, "expected a verb: %s; see --help", list.data ? list.data : "");
    if (strcmp(argv[first], "help") == 0 && first + 1 < argc)
        return help_of(argv[first + 1], &list);
    const struct cli_verb *verb = find_verb(argv[first]);
    if (!verb)
        return unknown_verb(argv[first], &list);
    return cli_run(verb, argc - first, argv + first);
}
