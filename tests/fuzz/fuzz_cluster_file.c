/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/file/cluster_file.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/core/core_checks.h"

/* A cluster file is refused with one line that names it, or gives a consistent cluster, whose pods use GPUs
 * that are not free, and which does not change when a small job is planned. */
static void fail_with(const char *what, const struct gt_err *err)
{
    fprintf(stderr, "%s: %s\n", what, gt_err_text(err));
    abort();
}

static void plan_on(struct gt_cluster *cluster)
{
    struct gt_plan_unit units[2] = {{.first = 0, .pods = 2, .gpus = 2},
                                    {.first = 2, .pods = 2, .gpus = 2, .atom = 1}};
    struct gt_plan_pod pods[4] = {{0}};
    struct gt_plan_failure failure;
    if (!gt_plan_job(cluster,
                     &(struct gt_plan_request){.units = units, .unit_count = 2, .pods = pods, .pod_count = 4},
                     &failure))
        return;
    struct gt_cluster_node node;
    for (unsigned i = 0; i < 4; i++)
        if (!gt_cluster_get_node(cluster, pods[i].place.node, &node) ||
            pods[i].place.mask & ~node.available || __builtin_popcountll(pods[i].place.mask) != 2)
            abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1];
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_cluster_file struct gt_cluster_file *file = NULL;
    int r = gt_cluster_file_parse(size ? (const char *)data : nothing, size, "input", &file, &err);
    if (r < 0) {
        if (strncmp(gt_err_text(err), "input: ", 7) != 0 || strchr(gt_err_text(err), '@') == gt_err_text(err))
            fail_with("an error without a place", err);
        return 0;
    }
    if (gt_cluster_check(file->cluster, &err) < 0)
        fail_with("unsound", err);
    struct gt_cluster_node node;
    for (uint32_t i = 0; i < file->pod_count; i++)
        if (!gt_cluster_get_node(file->cluster, file->running[i].place.node, &node) ||
            !file->running[i].place.mask || file->running[i].place.mask & (node.free | ~node.all))
            abort();
    plan_on(file->cluster);
    if (gt_cluster_check(file->cluster, &err) < 0)
        fail_with("a trace of the plan", err);
    return 0;
}
