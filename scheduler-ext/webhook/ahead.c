/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/ahead.h"

#include "api/pod.h"
#include "api/resources.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/never.h"

/* What the pod templates of an owner need. */
struct templates {
    struct gt_cache *cache;
    const char *resource;
    struct gt_cache_demand demands[GT_DEMANDS_MAX];
    struct gt_cache_request *requests[GT_DEMANDS_MAX];
    unsigned count;
    struct gt_node_set unfit;
    bool failed; /* without memory, or with a template that cannot be read */
};

static void templates_done(struct templates *templates)
{
    for (unsigned i = 0; i < templates->count; i++)
        gt_cache_request_drop(templates->cache, templates->requests[i]);
    gt_node_set_done(&templates->unfit);
}

static void see_template(void *arg, cJSON *spec)
{
    struct templates *templates = arg;
    struct gt_pod_gpus gpus;
    struct gt_resources asked;
    const struct gt_pod_where where = gt_pod_where_read(spec);
    if (gt_pod_gpus_read(spec, templates->resource, &gpus, NULL) < 0 || templates->count == GT_DEMANDS_MAX) {
        templates->failed = true;
        return;
    }
    if (!gpus.total)
        return;
    if (gt_cache_exclude_unfit(templates->cache, &where, true, &templates->unfit, NULL) < 0)
        templates->failed = true;
    gt_pod_resources_read(spec, &asked);
    struct gt_cache_request *request = gt_cache_request_make(templates->cache, &asked, true);
    templates->requests[templates->count] = request;
    templates->demands[templates->count++] = (struct gt_cache_demand){request, gpus.total};
}

/* The first pods, as many as must start together; the others count as left out. */
static struct gt_plan_pod *first_pods(const struct gt_owner *owner, const struct gt_job *job)
{
    struct gt_plan_pod *pods = calloc((size_t)job->member_count + 1, sizeof(*pods));
    uint32_t least = owner->spec.minimum ? owner->spec.minimum : job->member_count;
    for (uint32_t u = 0; pods && u < job->units.count; u++) {
        const struct gt_plan_unit *unit = &job->units.units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            pods[i].running = unit->first >= least;
    }
    return pods;
}

bool gt_ahead_never_fits(struct gt_cache *cache, const char *resource, const cJSON *object,
                         const struct gt_owner *owner, const struct gt_job *job, struct gt_buf *text)
{
    __attribute__((cleanup(templates_done))) struct templates templates = {.cache = cache,
                                                                           .resource = resource};
    gt_auto_free struct gt_plan_pod *pods = first_pods(owner, job);
    gt_owner_each_template((cJSON *)(uintptr_t)object, see_template, &templates);
    const struct gt_never_spec spec = {.units = &job->units,
                                       .pods = pods,
                                       .excluded = &templates.unfit,
                                       .demands = templates.demands,
                                       .demand_count = templates.count};
    return pods && !templates.failed && gt_never_fits(cache, &spec, text);
}
