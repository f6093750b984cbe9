/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <string.h>

#include "cli/cli.h"

static const struct cli_verb *const verbs[] = {
    &cli_show,    &cli_record,  &cli_loss,    &cli_plan,     &cli_simulate,   &cli_cluster,  &cli_supernodes,
    &cli_explain, &cli_isolate, &cli_release, &cli_isolated, &cli_check_node, &cli_withdraw, &cli_apply_crds};

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

static const struct gt_command command = {
    .arguments = "VERB [OPTION]...",
    .about = "How the GPUs of a node and of a cluster are wired, and which of them to give.\n\n"
             "  show        print the GPUs and NICs of a node and how they are wired\n"
             "  record      save a node in a file that --from replays\n"
             "  loss        choose the best connected GPUs of those that are free\n"
             "  plan        place a job on a cluster that a file describes\n"
             "  simulate    play jobs through a cluster in simulated time\n"
             "  cluster     show the GPUs of a Kubernetes cluster and who uses them\n"
             "  supernodes  list the supernodes of a Kubernetes cluster\n"
             "  explain     say why a pod or a job is where it is, or waits\n"
             "  isolate     take a GPU, a link or a node out of use by hand\n"
             "  release     give back what isolate took\n"
             "  isolated    list what is out of use by hand\n"
             "  check-node  check what is taken for granted about GPUs, driver and library\n"
             "  withdraw    take back what a removed gputopo has written into a cluster\n"
             "  apply-crds  apply definitions of custom resources, for the Helm chart",
    .more = "VERB --help lists the options of a verb; the manual page gputopo(1) describes all.",
    .options = own_options,
    .count = GT_COUNT(own_options),
    .has_verbs = true,
};

static const struct cli_verb *find_verb(const char *name)
{
    for (size_t i = 0; i < GT_COUNT(verbs); i++)
        if (strcmp(name, verbs[i]->name) == 0)
            return verbs[i];
    return NULL;
}

/* "show, record, ... or supernodes" */
static void list_verbs(struct gt_buf *to)
{
    for (size_t i = 0; i < GT_COUNT(verbs); i++)
        gt_buf_printf(to, "%s%s", i == 0 ? "" : i + 1 == GT_COUNT(verbs) ? " or " : ", ", verbs[i]->name);
}

int main(int argc, char **argv)
{
    cli_keep_standard_streams();
    signal(SIGPIPE, SIG_IGN); /* a closed pipe is then an error of write() */
    if (argc < 1)
        return cli_usage(NULL, "expected a verb, see gputopo --help");
    const char *slash = strrchr(argv[0], '/');
    if (strcmp(slash ? slash + 1 : argv[0], "kubectl-gputopo") == 0)
        cli_program = "kubectl gputopo";

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
    const struct cli_verb *verb = find_verb(argv[first]);
    if (!verb)
        return cli_usage(NULL, "expected %s, is '%.100s'", list.data ? list.data : "", argv[first]);
    return verb->run(verb, argc - first, argv + first);
}
