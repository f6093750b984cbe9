/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/options.h"
#include "tests/bench/sim/pods/engine.h"

/*
 * bench_pods: the pods of the openb trace, one after the other, until the cluster is full. Prints a line of
 * CSV for each policy and seed, with the columns of gputopo simulate.
 */
enum { SEEDS_MAX = 1000, POLICIES_MAX = 32, OUTPUT_MAX = 1 << 20, NAMES_MAX = 256 };

struct pods_options {
    bool help, whole;
    const char *cluster, *pods, *policy;
    uint32_t seeds;
    struct gt_pod_options run; /* its seed is the first one */
};

#define PODS_FIELD(member) GT_OPTION_FIELD(struct pods_options, member)

static const char *const ties[] = {"name", "random", NULL};

static const struct gt_option own_options[] = {
    {"cluster", "FILE", "the openb node list", gt_option_any_text, PODS_FIELD(cluster)},
    {"pods", "FILE", "an openb pod list", gt_option_any_text, PODS_FIELD(pods)},
    {"policy", "NAME[,NAME]", "what places the pods (default: all)", gt_option_any_text, PODS_FIELD(policy)},
    {"seed", "N", "of the random numbers (default 42)", gt_option_number, PODS_FIELD(run.seed),
     .max = UINT32_MAX},
    {"seeds", "N", "so many runs, seed after seed (default 1)", gt_option_number, PODS_FIELD(seeds), .min = 1,
     .max = SEEDS_MAX},
    {"load", "X", "GPUs asked for over GPUs (default 1.3)", gt_option_real, PODS_FIELD(run.load), .min = 0.01,
     .max = 100},
    {"whole-gpus", NULL, "leave out the pods that share a GPU", gt_option_set, PODS_FIELD(whole)},
    {"gpu-only", NULL, "policies see no CPU; it and memory decide only where a pod fits", gt_option_set,
     PODS_FIELD(run.gpu_only)},
    {"ties", "HOW",
     "of equal nodes the first by name (name, default; names are drawn for each seed) or any (random)",
     gt_option_word, PODS_FIELD(run.random_ties), .words = ties},
    {"loss-weight", "X", "loss.weight of gputopo (default 0.5)", gt_option_real, PODS_FIELD(run.loss_weight),
     .max = 1e6},
    {"help", NULL, "print this help", gt_option_last, PODS_FIELD(help)},
};

static const struct gt_command command = {
    .name = "bench_pods",
    .about = "Place the pods of the openb trace until the cluster is full, by each policy.",
    .options = own_options,
    .count = GT_COUNT(own_options),
};

static int read_text(const char *path, char **ret, size_t *ret_len, struct gt_err **err)
{
    return gt_file_read(AT_FDCWD, path, GT_SITE_TEXT_MAX, ret, ret_len, err);
}

static int read_lists(const struct pods_options *options, struct openb_nodes *nodes, struct openb_pods *pods,
                      struct gt_err **err)
{
    gt_auto_free char *node_text = NULL, *pod_text = NULL;
    size_t len;
    if (!options->cluster || !options->pods)
        return gt_fail(err, EINVAL, "expected --cluster and --pods");
    int r = read_text(options->cluster, &node_text, &len, err);
    if (r >= 0)
        r = openb_read_nodes(options->cluster, node_text, len, nodes, err);
    if (r >= 0)
        r = read_text(options->pods, &pod_text, &len, err);
    if (r >= 0)
        r = openb_read_pods(options->pods, pod_text, len, pods, err);
    return r < 0 || !options->whole ? r : openb_drop_shared(pods, err);
}

/* The policies of the list, or all; NULL at the end. */
static int choose_policies(const char *list, const struct gt_pod_policy **ret, struct gt_err **err)
{
    char names[NAMES_MAX];
    uint32_t count = 0;
    for (; !list && gt_pod_policies[count]; count++)
        ret[count] = gt_pod_policies[count];
    snprintf(names, sizeof(names), "%s", list ? list : "");
    for (char *rest = names, *name; list && (name = strsep(&rest, ",")); count++) {
        size_t at = 0;
        while (gt_pod_policies[at] && strcmp(gt_pod_policies[at]->name, name) != 0)
            at++;
        if (!gt_pod_policies[at] || count == POLICIES_MAX)
            return gt_fail(err, EINVAL, "--policy: there is no policy '%s', or there are too many", name);
        ret[count] = gt_pod_policies[at];
    }
    ret[count] = NULL;
    return 0;
}

static int run_policy(const struct pods_options *options, const struct gt_pod_policy *policy,
                      const struct openb_nodes *nodes, const struct openb_pods *pods,
                      struct gt_report *report, struct gt_err **err)
{
    *report = (struct gt_report){.policy = policy->name,
                                 .seed = options->run.seed,
                                 .runs = options->seeds,
                                 .run = calloc(options->seeds, sizeof(*report->run))};
    int r = report->run ? 0 : gt_fail_sys(err, ENOMEM, "%u runs", options->seeds);
    for (uint32_t i = 0; i < options->seeds && r >= 0; i++) {
        struct gt_pod_options run = options->run;
        run.seed += i;
        r = gt_pod_run(nodes, pods, policy, &run, &report->run[i], err);
    }
    return r;
}

static int run_all(const struct pods_options *options, struct gt_buf *to, struct gt_err **err)
{
    auto_openb_nodes struct openb_nodes nodes = {0};
    auto_openb_pods struct openb_pods pods = {0};
    const struct gt_pod_policy *policies[POLICIES_MAX + 1];
    struct gt_report reports[POLICIES_MAX] = {{0}};
    uint32_t count = 0;
    int r = choose_policies(options->policy, policies, err);
    if (r >= 0)
        r = read_lists(options, &nodes, &pods, err);
    while (r >= 0 && policies[count]) {
        r = run_policy(options, policies[count], &nodes, &pods, &reports[count], err);
        count++;
    }
    if (r >= 0) {
        gt_report_csv(reports, count, to);
        r = gt_buf_check(to, "the table", err);
    }
    while (count)
        free(reports[--count].run);
    return r;
}

int main(int argc, char **argv)
{
    struct pods_options options = {.seeds = 1, .run = {.load = 1.3, .seed = 42, .loss_weight = 0.5}};
    gt_auto_buf struct gt_buf text = GT_BUF(OUTPUT_MAX);
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_options_read(&command, argc, argv, &options, NULL, &err);
    if (r < 0)
        return gt_exit_with(command.name, err, GT_EXIT_USAGE);
    if (options.help)
        return gt_exit_with_help(&command);
    r = run_all(&options, &text, &err);
    return r < 0 ? gt_exit_with(command.name, err, GT_EXIT_FAILED) : gt_exit_with_text(command.name, &text);
}
