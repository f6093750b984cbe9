/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/jobs/rules.h"
#include "api/names.h"
#include "base/err.h"
#include "base/text.h"

#include <errno.h>

uint32_t gt_job_pod_gpus(const struct gt_job_pod *pod)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < pod->containers; i++)
        sum += pod->gpus[i];
    return sum > UINT32_MAX ? UINT32_MAX : (uint32_t)sum;
}

/* Rules between the sizes and one pod. */
static int rules_check_pod(const struct gt_job_sizes *sizes, uint32_t gpus, struct gt_err **err)
{
    if (sizes->group % gpus)
        return gt_fail(err, EINVAL, "gpu-group-size %u is not a multiple of the pod's %u GPU%s", sizes->group,
                       gpus, gt_plural(gpus));
    if (sizes->atomic && sizes->atomic % gpus)
        return gt_fail(err, EINVAL, "atomic-gpu-group-size %u is not a multiple of the pod's %u GPU%s",
                       sizes->atomic, gpus, gt_plural(gpus));
    return 0;
}

static int check_job(const struct gt_job_sizes *sizes, const struct gt_job_pod *pods, uint32_t count,
                     struct gt_err **err)
{
    uint64_t total = 0;
    if (sizes->atomic && sizes->group % sizes->atomic)
        return gt_fail(err, EINVAL, "atomic-gpu-group-size %u does not divide gpu-group-size %u",
                       sizes->atomic, sizes->group);
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gpus = gt_job_pod_gpus(&pods[i]);
        if (!gpus)
            return gt_fail(err, EINVAL, "pod %u of the job asks for no GPUs", i);
        GT_TRY(rules_check_pod(sizes, gpus, err));
        total += gpus;
    }
    if (total % sizes->group)
        return gt_fail(err, EINVAL, "the %s's %llu GPU%s are not a multiple of gpu-group-size %u",
                       sizes->of_group ? "group" : "job", (unsigned long long)total, gt_plural(total),
                       sizes->group);
    return 0;
}

static int fail_unequal(uint32_t unit, uint32_t pod, uint32_t gpus, uint32_t other, uint32_t others,
                        struct gt_err **err)
{
    return gt_fail(err, EINVAL,
                   "pods of one unit must ask for equally many GPUs: in unit %u, pod %u asks for %u and pod "
                   "%u for %u",
                   unit, pod, gpus, other, others);
}

/* A unit has equal pods: their number is the group size divided by the GPUs of its first pod. */
static int make_unit(const struct gt_job_sizes *sizes, const struct gt_job_pod *pods, uint32_t first,
                     uint32_t number, struct gt_plan_unit *ret, struct gt_err **err)
{
    uint32_t gpus = gt_job_pod_gpus(&pods[first]), size = sizes->group / gpus;
    for (uint32_t i = first; i < first + size; i++) {
        uint32_t other = gt_job_pod_gpus(&pods[i]);
        if (other != gpus)
            return fail_unequal(number, first, gpus, i, other, err);
    }
    *ret = (struct gt_plan_unit){.first = first, .pods = size, .gpus = gpus};
    if (sizes->atomic && sizes->atomic < sizes->group)
        ret->atom = sizes->atomic / gpus;
    ret->within = sizes->unit_within;
    return 0;
}

static int set_whole(struct gt_job_sizes *sizes, const struct gt_job_pod *pods, uint32_t count,
                     struct gt_err **err)
{
    uint64_t total = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t gpus = gt_job_pod_gpus(&pods[i]), first = gt_job_pod_gpus(&pods[0]);
        if (gpus != first)
            return fail_unequal(0, 0, first, i, gpus, err);
        total += gpus;
    }
    if (total > GT_GROUP_MAX)
        return gt_fail(err, EINVAL, "gpu-group-size " GT_GROUP_WHOLE ": the limit is %d GPUs", GT_GROUP_MAX);
    sizes->group = (uint32_t)total;
    return 0;
}

int gt_job_units_make(struct gt_job_sizes *sizes, const struct gt_job_pod *pods, uint32_t count,
                      struct gt_job_units *ret, struct gt_err **err)
{
    struct gt_job_units units = {0};
    if (sizes->whole && set_whole(sizes, pods, count, err) < 0)
        return -EINVAL;
    if (!sizes->group) {
        if (sizes->atomic)
            units.warning =
                "atomic-gpu-group-size does nothing without gpu-group-size: the job is left alone";
        *ret = units;
        return 0;
    }
    if (count > GT_PLAN_PODS_MAX)
        return gt_fail(err, E2BIG, "a job of %u pods, the limit is %d", count, GT_PLAN_PODS_MAX);
    int r = check_job(sizes, pods, count, err);
    if (r < 0)
        return r;
    units.units = calloc((size_t)count + 1, sizeof(*units.units));
    GT_NEED(units.units, err, "units");
    for (uint32_t first = 0; first < count;) {
        struct gt_plan_unit *unit = &units.units[units.count];
        /* Only the last unit could run beyond the end, where sizes differ inside it. */
        uint32_t gpus = gt_job_pod_gpus(&pods[first]), size = sizes->group / gpus;
        if (size > count - first)
            r = gt_fail(err, EINVAL,
                        "pods of one unit must ask for equally many GPUs: unit %u begins with pods of %u and "
                        "ends the job with others",
                        units.count, gpus);
        else
            r = make_unit(sizes, pods, first, units.count, unit, err);
        if (r < 0) {
            free(units.units);
            return r;
        }
        first += unit->pods;
        units.count++;
    }
    if (sizes->unit_within && (!sizes->atomic || sizes->atomic == sizes->group))
        units.warning = "gpu-group-topology does nothing without a smaller atomic-gpu-group-size: each unit "
                        "lies in one supernode anyhow";
    *ret = units;
    return 0;
}

void gt_job_units_done(struct gt_job_units *units)
{
    free(units->units);
    *units = (struct gt_job_units){0};
}
