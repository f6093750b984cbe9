/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/kueue/admission.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/decide/decide.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/owners/owners.h"

enum { SUPERNODES_NAMED = 8, NODES_NAMED = 8 };

/* ---- where its pods may run ---- */

static int verdict_exclude(const struct gt_fit_spec *spec, const struct gt_workload_pod_set *pod_set,
                           struct gt_node_set *to, struct gt_err **err)
{
    struct gt_pod_where where;
    GT_TRY(gt_workload_where(pod_set, spec->flavors, spec->flavor_count, &where, err));
    int r = gt_cache_exclude_unfit(spec->cache, &where, false, to, err);
    gt_workload_where_done(&where);
    return r;
}

static void say_absent_nodes(const struct gt_fit_spec *spec, struct gt_buf *text)
{
    const char *names[NODES_NAMED];
    uint32_t count = gt_cache_absent_nodes(spec->cache, names, NODES_NAMED);
    for (uint32_t i = 0; i < count && i < NODES_NAMED; i++)
        gt_buf_printf(text, "%s%s", i ? ", " : "; ", names[i]);
    if (count > NODES_NAMED)
        gt_buf_printf(text, " and %u more", count - NODES_NAMED);
    if (count)
        gt_buf_printf(text, " ha%s no NodeGPUTopology", count == 1 ? "s" : "ve");
}

/* ---- the plan ---- */

static void name_supernodes(const struct gt_cluster *cluster, const struct gt_job_units *units,
                            struct gt_buf *text)
{
    uint32_t named[SUPERNODES_NAMED];
    unsigned count = 0;
    for (uint32_t u = 0; u < units->count; u++) {
        struct gt_cluster_supernode supernode;
        unsigned known = 0;
        while (known < count && named[known] != units->units[u].supernode)
            known++;
        if (known < count || !gt_cluster_get_supernode(cluster, units->units[u].supernode, &supernode))
            continue;
        if (count == SUPERNODES_NAMED) {
            gt_buf_puts(text, ", and others");
            return;
        }
        named[count++] = units->units[u].supernode;
        gt_buf_printf(text, "%s%s", count == 1 ? ": " : ", ", supernode.name);
    }
}

static const char *why_closed(const struct gt_cache *cache, uint32_t node)
{
    struct gt_cache_node at;
    if (!gt_cache_get_node(cache, node, &at) || !at.has_node)
        return "has no Node";
    if (at.left_alone)
        return "has shared GPUs";
    if (at.cordoned)
        return "is cordoned";
    return at.ready ? "has an old NodeGPUTopology" : "is not Ready";
}

/* Nodes on which nothing is placed now, or that have unhealthy GPUs. */
static void say_closed_nodes(const struct gt_fit_spec *spec, struct gt_buf *text)
{
    const struct gt_cluster *cluster = gt_cache_cluster(spec->cache);
    uint32_t count = 0;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, n, &node) || (node.eligible && node.healthy == node.all) ||
            count++ >= NODES_NAMED)
            continue;
        unsigned unhealthy = gt_bit_count(node.all & ~node.healthy);
        gt_buf_printf(text, "%s %s ", count == 1 ? ";" : ",", node.name);
        if (node.eligible)
            gt_buf_printf(text, "has %u unhealthy GPU%s", unhealthy, gt_plural(unhealthy));
        else
            gt_buf_puts(text, why_closed(spec->cache, n));
    }
    if (count > NODES_NAMED)
        gt_buf_printf(text, ", and %u more", count - NODES_NAMED);
}

/* How many nodes the pods may not use, and why. */
struct verdict_excluded {
    uint32_t unsuitable, kept, by_people;
};

static void say_what_else(const struct gt_fit_spec *spec, const struct verdict_excluded *excluded,
                          struct gt_buf *text)
{
    if (excluded->unsuitable)
        gt_buf_printf(text, "; its node selector, affinity or tolerations exclude %u node%s",
                      excluded->unsuitable, gt_plural(excluded->unsuitable));
    gt_promise_say_some(GT_PROMISE_NODE, excluded->kept, "node", text);
    gt_promise_say_some(GT_PROMISE_PEOPLE, excluded->by_people, "node", text);
    if (spec->held)
        gt_buf_printf(text, "; %u Workload%s let in before that will take GPUs", spec->held,
                      spec->held == 1 ? " was" : "s were");
    say_absent_nodes(spec, text);
    say_closed_nodes(spec, text);
}

void gt_fit_places_done(struct gt_cache *cache, struct gt_fit_places *places)
{
    for (uint32_t i = 0; i < places->count; i++)
        gt_cache_request_drop(cache, places->requests[i]);
    free(places->requests);
    free(places->promises);
    free(places->pods);
    *places = (struct gt_fit_places){0};
}

/* The request of a pod of a pod set; NULL: nothing. */
static struct gt_cache_request *verdict_request_of(struct gt_cache *cache,
                                                   const struct gt_workload_pod_set *pod_set)
{
    struct gt_resources asked = {.count = pod_set->asked_count};
    memcpy(asked.list, pod_set->asked, asked.count * sizeof(asked.list[0]));
    return gt_cache_request_make(cache, &asked, true);
}

static int begin_places(struct gt_cache *cache, const struct gt_workload *workload, const struct gt_job *job,
                        struct gt_fit_places *to, struct gt_err **err)
{
    const struct gt_job_template *known = NULL;
    struct gt_cache_request *request = NULL;
    to->pods = calloc((size_t)job->member_count + 1, sizeof(*to->pods));
    to->requests = calloc((size_t)job->member_count + 1, sizeof(*to->requests));
    to->promises = calloc((size_t)job->member_count + 1, sizeof(*to->promises));
    GT_NEED(to->pods && to->requests && to->promises, err, "plan");
    to->count = job->member_count;
    for (uint32_t i = 0; i < to->count; i++) {
        const struct gt_job_template *template = job->members[i].template;
        to->pods[i].place.node = GT_NONE;
        to->pods[i].requests = job->members[i].gpus.requests;
        if (template == known) {
            to->requests[i] = gt_cache_request_ref(request);
            continue;
        }
        known = template;
        to->requests[i] = request =
            verdict_request_of(cache, &workload->pod_sets[template - workload->job->spec.templates]);
    }
    return 0;
}

static int exclude_unsuitable(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                              struct gt_node_set *to, struct gt_err **err)
{
    /* Pods without GPUs, such as a launcher, may run on nodes without GPUs. Each pod set has its own
     * template. */
    for (unsigned i = 0; i < workload->job->spec.count; i++) {
        const struct gt_job_template *of = &workload->job->spec.templates[i];
        if (gt_job_pod_gpus(&(struct gt_job_pod){of->gpus, of->containers, 0}))
            GT_TRY(verdict_exclude(spec, &workload->pod_sets[i], to, err));
    }
    return 0;
}

static int exclude_reserved(const struct gt_fit_spec *spec, struct gt_node_set *to,
                            struct verdict_excluded *ret, struct gt_err **err)
{
    ret->unsuitable = gt_node_set_count(to);
    const struct gt_cluster *cluster = gt_cache_cluster(spec->cache);
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        bool kept = gt_cluster_kept_from(cluster, n, 0), is_new = !gt_node_set_has(to, n);
        if (!kept && gt_cache_job_may_use(spec->cache, spec->job, n))
            continue;
        ret->kept += is_new && kept;
        ret->by_people += is_new && !kept;
        GT_TRY(gt_node_set_add(to, n, err));
    }
    return 0;
}

static enum gt_fit try(const struct gt_fit_spec *spec, const struct gt_workload *workload, struct gt_job *job,
                       struct gt_fit_places *places, struct gt_buf *text, struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster(spec->cache);
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set excluded = {0};
    __attribute__((cleanup(gt_demands_done))) struct gt_demands demands = {0};
    struct verdict_excluded why = {0};
    int r = begin_places(spec->cache, workload, job, places, err);
    if (r >= 0)
        r = exclude_unsuitable(spec, workload, &excluded, err);
    if (r >= 0)
        r = gt_demands_make_ahead(spec->cache, job, (const struct gt_cache_request *const *)places->requests,
                                  &demands, err);
    if (r < 0)
        return r == -EINVAL ? GT_FIT_NEVER : GT_FIT_FAILED;
    if (exclude_reserved(spec, &excluded, &why, err) < 0)
        return GT_FIT_FAILED;
    const struct gt_plan_request request = {.units = job->units.units,
                                            .unit_count = job->units.count,
                                            .pods = places->pods,
                                            .pod_count = places->count,
                                            .excluded = &excluded,
                                            .flat = job->sizes.flat,
                                            .slow = job->sizes.slow,
                                            .within = job->sizes.within};
    struct gt_plan_failure failure, without;
    if (!gt_demands_plan(spec->cache, &demands, &request, &failure)) {
        __attribute__((cleanup(gt_node_set_done))) struct gt_node_set unsuitable = {0};
        const struct gt_never_spec never = {&job->units, places->pods, &unsuitable, demands.list,
                                            demands.count};
        if (exclude_unsuitable(spec, workload, &unsuitable, err) < 0)
            return GT_FIT_FAILED;
        if (gt_never_fits(spec->cache, &never, text)) {
            gt_demands_text(spec->cache, &demands, &unsuitable, text);
            say_absent_nodes(spec, text); /* with those it may fit: it asks again */
            return GT_FIT_NO;
        }
        if (demands.limit_count && gt_plan_job(cluster, &request, &without))
            failure.reason = GT_PLAN_TOO_FEW_RESOURCES;
        gt_plan_failure_text(cluster, &failure, text);
        gt_demands_text(spec->cache, &demands, &excluded, text);
        say_what_else(spec, &why, text);
        return GT_FIT_NO;
    }
    gt_buf_printf(text, "%u unit%s of %s%u GPU%s fit%s", job->units.count, gt_plural(job->units.count),
                  workload->job->spec.sizes_of_roles ? "at most " : "", job->sizes.group,
                  gt_plural(job->sizes.group), job->units.count == 1 ? "s" : "");
    name_supernodes(cluster, &job->units, text);
    return GT_FIT_YES;
}

enum gt_fit gt_fit_workload(const struct gt_fit_spec *spec, const struct gt_workload *workload,
                            struct gt_fit_places *ret, struct gt_buf *text)
{
    gt_auto_job struct gt_job *job = NULL;
    gt_auto_err struct gt_err *error = NULL;
    struct gt_fit_places places = {0};
    enum gt_fit fit;
    int r = workload->job ? gt_owner_check(workload->job, &job, &error) : 0;
    if (workload->refusal || r < 0) {
        gt_buf_puts(text, workload->refusal ? workload->refusal : gt_err_text(error));
        return workload->refusal || r == -EINVAL || r == -E2BIG ? GT_FIT_NEVER : GT_FIT_FAILED;
    }
    if (!job || !job->units.count) {
        gt_buf_puts(text, job && job->units.warning ? job->units.warning
                                                    : "no gpu-group-size: there is nothing to check");
        return GT_FIT_NOTHING;
    }
    fit = try(spec, workload, job, &places, text, &error);
    if (error)
        gt_buf_puts(text, gt_err_text(error));
    if (fit == GT_FIT_YES)
        *ret = places;
    else
        gt_fit_places_done(spec->cache, &places);
    return fit;
}
