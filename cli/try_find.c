/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "cli/try.h"
#include "scheduler-ext/core/capacity.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/jobs/rules.h"

/* ---- what fits ---- */

/* The GPUs of the pods of a unit: those of most nodes. */
static unsigned try_unit_gpus(const struct gt_picture *picture)
{
    uint32_t nodes[GT_GPUS_MAX + 1] = {0};
    unsigned most = 1;
    for (uint32_t i = 0; i < picture->node_count; i++)
        nodes[picture->nodes[i].gpus]++;
    for (unsigned g = 1; g <= GT_GPUS_MAX; g++)
        most = nodes[g] > nodes[most] ? g : most;
    return most;
}

static int try_find_fits(struct try_result *result, struct gt_err **err)
{
    const struct gt_cluster *cluster = result->file->cluster;
    gt_auto_free uint32_t *room = NULL;
    result->unit_gpus = try_unit_gpus(&result->view.picture);
    GT_TRY(gt_capacity_of(cluster, result->unit_gpus, &room, err));
    for (uint32_t pods = 1; result->fit_count < TRY_FITS; pods *= 2) {
        if (pods > 1 && pods * result->unit_gpus > result->view.picture.counts.gpus)
            break;
        struct gt_bounds bounds = gt_bounds_of(room, gt_cluster_supernodes(cluster), pods);
        result->fits[result->fit_count].gpus = pods * result->unit_gpus;
        result->fits[result->fit_count++].units = (uint32_t)bounds.whole;
    }
    return 0;
}

/* ---- jobs ---- */

static int try_by_job(const void *a, const void *b)
{
    const struct try_pod *x = a, *y = b;
    int order = strcmp(x->job, y->job);
    GT_BY(order, 0);
    GT_BY(x->place.node, y->place.node); /* those that wait are last */
    return strcmp(x->name, y->name);
}

static int try_by_size(const void *a, const void *b)
{
    const struct try_job *x = a, *y = b;
    GT_BY(y->is_apart, x->is_apart);
    GT_BY((uint64_t)y->count * y->gpus, (uint64_t)x->count * x->gpus);
    return strcmp(x->name, y->name);
}

static void try_free_or_take(struct gt_cluster *cluster, const struct try_job *job, bool frees)
{
    struct gt_cluster_node node;
    for (uint32_t i = 0; i < job->count - job->waiting; i++)
        if (gt_cluster_get_node(cluster, job->pods[i].place.node, &node))
            gt_cluster_set_free(cluster, job->pods[i].place.node,
                                frees ? node.free | job->pods[i].place.mask
                                      : node.free & ~job->pods[i].place.mask);
}

static int descending(const void *a, const void *b)
{
    GT_BY(*(const uint32_t *)b, *(const uint32_t *)a);
    return 0;
}

/* How few supernodes would hold its pods in the empty cluster. */
static int try_find_needed(struct try_result *result, struct try_job *job, struct gt_err **err)
{
    const struct gt_cluster *cluster = result->file->cluster;
    uint32_t **most = &result->empty[job->gpus], supernodes = 0;
    uint64_t fitting = 0;
    if (!*most) {
        GT_TRY(gt_capacity_empty(cluster, &(struct gt_empty_spec){.pod = {job->gpus, 0}}, most, err));
        qsort(*most, gt_cluster_supernodes(cluster), sizeof(**most), descending);
    }
    while (fitting < job->count && supernodes < gt_cluster_supernodes(cluster))
        fitting += (*most)[supernodes++];
    job->needed = fitting < job->count ? 0 : supernodes;
    return 0;
}

/* The whole job as one unit that may be split, on what is free and what it has. */
static int try_place_again(struct gt_cluster *cluster, struct try_job *job, struct gt_err **err)
{
    struct gt_job_sizes sizes = {.group = job->count * job->gpus, .atomic = job->gpus};
    gt_auto_free struct gt_job_pod *pods = calloc(job->count, sizeof(*pods));
    gt_auto_free struct gt_plan_pod *places = calloc(job->count, sizeof(*places));
    struct gt_job_units units;
    struct gt_plan_failure failure;
    GT_NEED(pods && places, err, "cluster");
    for (uint32_t i = 0; i < job->count; i++)
        pods[i] = (struct gt_job_pod){&job->gpus, 1, 0};
    GT_TRY(gt_job_units_make(&sizes, pods, job->count, &units, err));
    const struct gt_plan_request request = {
        .units = units.units, .unit_count = units.count, .pods = places, .pod_count = job->count};
    try_free_or_take(cluster, job, true);
    if (gt_plan_job(cluster, &request, &failure))
        job->again = units.units[0].supernodes;
    try_free_or_take(cluster, job, false);
    gt_job_units_done(&units);
    return 0;
}

static int try_look_at(struct try_result *result, struct try_job *job, struct gt_err **err)
{
    struct gt_cluster *cluster = result->file->cluster;
    gt_auto_free bool *seen = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*seen));
    struct gt_cluster_node node;
    GT_NEED(seen, err, "cluster");
    job->gpus = job->pods[0].gpus;
    for (uint32_t i = 0; i < job->count; i++) {
        const struct try_pod *pod = &job->pods[i];
        if (pod->gpus != job->pods[0].gpus)
            job->gpus = 0;
        if (!gt_cluster_get_node(cluster, pod->place.node, &node))
            job->waiting++;
        else if (!seen[node.supernode]) {
            seen[node.supernode] = true;
            job->supernodes++;
        }
    }
    if (!job->gpus || job->gpus > GT_GPUS_MAX)
        return 0;
    GT_TRY(try_find_needed(result, job, err));
    job->is_apart = job->needed && !job->waiting && job->supernodes > job->needed;
    return job->waiting || job->is_apart ? try_place_again(cluster, job, err) : 0;
}

static int try_find_jobs(struct try_result *result, struct gt_err **err)
{
    result->jobs = calloc((size_t)result->pod_count + 1, sizeof(*result->jobs));
    GT_NEED(result->jobs, err, "cluster");
    if (result->pod_count)
        qsort(result->pods, result->pod_count, sizeof(*result->pods), try_by_job);
    for (uint32_t i = 0, end; i < result->pod_count; i = end) {
        struct try_job job = {.name = result->pods[i].job, .pods = &result->pods[i]};
        for (end = i; end < result->pod_count && strcmp(result->pods[end].job, job.name) == 0; end++)
            job.count++;
        if (job.count == 1 && job.pods->place.node != GT_NONE)
            continue;
        GT_TRY(try_look_at(result, &job, err));
        result->mixed += !job.gpus;
        result->waiting += job.waiting > 0;
        result->apart += job.is_apart;
        result->closer += job.is_apart && job.again && job.again < job.supernodes;
        result->jobs[result->job_count++] = job;
    }
    if (result->job_count)
        qsort(result->jobs, result->job_count, sizeof(*result->jobs), try_by_size);
    return 0;
}

int try_find(struct try_result *result, struct gt_err **err)
{
    struct gt_picture *picture = &result->view.picture;
    gt_auto_free uint32_t *place = calloc((size_t)picture->node_count + 1, sizeof(*place));
    gt_auto_buf struct gt_buf text = GT_BUF(GT_CLUSTER_FILE_MAX);
    GT_NEED(place, err, "cluster");
    cli_view_json(&result->view, &text);
    if (text.failed)
        return gt_fail(err, ENOBUFS, "the cluster is larger than a cluster file may be");
    GT_TRY(gt_cluster_file_parse(text.data, text.len, "cluster", &result->file, err));
    for (uint32_t i = 0; i < picture->node_count; i++)
        place[picture->nodes[i].source] = i;
    for (uint32_t i = 0; i < result->pod_count; i++)
        if (result->pods[i].place.node != GT_NONE)
            result->pods[i].place.node = place[result->pods[i].place.node];
    GT_TRY(try_find_fits(result, err));
    return try_find_jobs(result, err);
}
