/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/experiment.h"

#include <errno.h>

#include "base/err.h"

/* Progress over all runs. */
struct progress {
    const struct gt_experiment *experiment;
    uint32_t done; /* runs */
};

enum { PROGRESS_PER_RUN = 1000 };

static void progress(void *arg, uint32_t done, uint32_t total)
{
    struct progress *p = arg;
    const struct gt_sim_watch *watch = &p->experiment->watch;
    uint32_t part = total ? (uint32_t)((uint64_t)done * PROGRESS_PER_RUN / total) : 0;
    watch->progress(watch->arg, p->done * PROGRESS_PER_RUN + part,
                    p->experiment->seeds * p->experiment->policy_count * PROGRESS_PER_RUN);
}

/* Runs all policies with the jobs of one seed. */
static int run_seed(const struct gt_experiment *experiment, uint32_t number, struct progress *state,
                    struct gt_report *reports, struct gt_err **err)
{
    uint64_t seed = experiment->seed + number;
    struct gt_sim_watch watch = {.nanoseconds = experiment->watch.nanoseconds,
                                 .progress = experiment->watch.progress ? progress : NULL,
                                 .arg = state};
    gt_auto_jobs struct gt_jobs jobs = {0};
    struct gt_draw draw = experiment->draw;
    draw.seed = seed;
    int r = gt_trace_draw(experiment->trace, experiment->site, &draw, &jobs, err);
    for (uint32_t p = 0; p < experiment->policy_count && r >= 0; p++, state->done++) {
        struct gt_group_options options = experiment->group;
        options.seed = seed;
        options.watch = watch;
        r = gt_group_run(experiment->site, &jobs, experiment->policies[p], &options, &reports[p].run[number],
                         err);
    }
    return r;
}

int gt_experiment_run(const struct gt_experiment *experiment, struct gt_report **ret, struct gt_err **err)
{
    uint32_t count = experiment->policy_count;
    struct gt_report *reports = calloc(count, sizeof(*reports));
    GT_NEED(reports, err, "experiment");
    int r = 0;
    for (uint32_t p = 0; p < count && r >= 0; p++) {
        reports[p] = (struct gt_report){.policy = experiment->policies[p]->name,
                                        .seed = experiment->seed,
                                        .runs = experiment->seeds,
                                        .run = calloc(experiment->seeds, sizeof(struct gt_result))};
        if (!reports[p].run)
            r = gt_fail_sys(err, ENOMEM, "experiment");
    }
    struct progress state = {.experiment = experiment};
    for (uint32_t number = 0; number < experiment->seeds && r >= 0; number++)
        r = run_seed(experiment, number, &state, reports, err);
    if (r < 0) {
        gt_experiment_done(reports, count);
        return r;
    }
    *ret = reports;
    return 0;
}

void gt_experiment_done(struct gt_report *reports, uint32_t count)
{
    for (uint32_t p = 0; p < count && reports; p++)
        free(reports[p].run);
    free(reports);
}
