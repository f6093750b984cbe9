/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/demands.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/core/plan_rules.h"

enum {
    REPAIRS_MAX = 8,   /* most plans, until each node has enough for its pods */
    SHORTAGES_MAX = 8, /* resources that are named */
};

/* ---- demands ---- */

static unsigned demand_of(struct gt_demands *demands, const struct gt_cache_request *request, unsigned gpus)
{
    unsigned like = GT_DEMANDS_MAX;
    for (unsigned k = demands->count; k-- > 0;) {
        if (demands->list[k].gpus != gpus)
            continue;
        if (demands->list[k].request == request)
            return k;
        like = k;
    }
    if (demands->count < GT_DEMANDS_MAX) {
        demands->list[demands->count] = (struct gt_cache_demand){request, gpus};
        return demands->count++;
    }
    if (like == GT_DEMANDS_MAX)
        return 0;
    if (request && gt_cache_request_is_above(request, demands->list[like].request))
        demands->list[like].request = request;
    return like;
}

static const struct gt_cache_job *demands_job_of(const struct gt_job_view *view)
{
    for (uint32_t i = 0; i < view->count; i++)
        if (view->members[i].pod)
            return view->members[i].pod->job;
    return NULL;
}

static void demands_collect(const struct gt_job_view *view, struct gt_demands *to)
{
    const struct gt_cache_job *job = demands_job_of(view);
    const struct gt_cache_request *coming = NULL;
    unsigned coming_gpus = 0;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct gt_plan_unit *unit = &view->job->units.units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
            const struct gt_job_view_member *member = &view->members[i];
            if (!gt_member_is_open(member) || !unit->gpus)
                continue;
            if (!member->pod && job && coming_gpus != unit->gpus) {
                coming = gt_cache_coming_request(job, unit->gpus);
                coming_gpus = unit->gpus;
            }
            to->of[i] =
                (uint8_t)demand_of(to, member->pod ? gt_cache_pod_request(member->pod) : coming, unit->gpus);
        }
    }
}

static int demands_begin(struct gt_cache *cache, uint32_t members, struct gt_demands *ret,
                         struct gt_err **err)
{
    ret->of = calloc((size_t)members + 1, sizeof(*ret->of));
    ret->limits = malloc(((size_t)gt_cluster_nodes(gt_cache_cluster(cache)) + 1) * sizeof(*ret->limits));
    return ret->of && ret->limits ? 0 : gt_fail_sys(err, ENOMEM, "plan");
}

int gt_demands_make(const struct gt_job_view *view, enum gt_cache_room room, struct gt_demands *ret,
                    struct gt_err **err)
{
    GT_TRY(demands_begin(view->cache, view->count, ret, err));
    demands_collect(view, ret);
    ret->limit_count = gt_cache_limits(view->cache, ret->list, ret->count, room, false, ret->limits);
    return 0;
}

int gt_demands_make_ahead(struct gt_cache *cache, const struct gt_job *job,
                          const struct gt_cache_request *const *requests, struct gt_demands *ret,
                          struct gt_err **err)
{
    GT_TRY(demands_begin(cache, job->member_count, ret, err));
    for (uint32_t u = 0; u < job->units.count; u++) {
        const struct gt_plan_unit *unit = &job->units.units[u];
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            ret->of[i] = (uint8_t)demand_of(ret, requests[i], unit->gpus);
    }
    ret->limit_count = gt_cache_limits(cache, ret->list, ret->count, GT_CACHE_ROOM_NOW, false, ret->limits);
    return 0;
}

void gt_demands_done(struct gt_demands *demands)
{
    free(demands->of);
    free(demands->limits);
    *demands = (struct gt_demands){0};
}

/* ---- plans ---- */

/* The pods that a plan places on one node, as far as its resources are enough. */
struct tally {
    uint32_t pods[GT_DEMANDS_MAX];
    unsigned gpus;
    bool is_over;
};

static void lower(struct gt_demands *demands, uint32_t node, unsigned gpus)
{
    uint32_t i = 0;
    while (i < demands->limit_count && demands->limits[i].node != node)
        i++;
    demands->limits[i] = (struct gt_plan_limit){node, gpus};
    demands->limit_count += i == demands->limit_count;
}

/* Lowers the limits of nodes that lack resources for the plan's pods; false: none does. */
static bool lower_limits(const struct gt_cache *cache, struct gt_demands *demands,
                         const struct gt_plan_request *request, struct tally *tallies, uint32_t *tally_of)
{
    const struct gt_cache_request *requests[GT_DEMANDS_MAX];
    const struct gt_plan_pod *pods = request->pods;
    uint32_t count = 0;
    bool any = false;
    for (unsigned k = 0; k < demands->count; k++)
        requests[k] = demands->list[k].request;
    for (uint32_t i = 0; i < request->pod_count; i++)
        if (!pods[i].running)
            tally_of[pods[i].place.node] = 0;
    for (uint32_t i = 0; i < request->pod_count; i++) {
        if (pods[i].running) /* it has a place, or a part is planned without it */
            continue;
        uint32_t node = pods[i].place.node, *at = &tally_of[node];
        if (!*at) {
            tallies[count] = (struct tally){.gpus = 0};
            *at = ++count;
        }
        struct tally *tally = &tallies[*at - 1];
        unsigned k = demands->of[i];
        if (tally->is_over)
            continue;
        tally->pods[k]++;
        if (gt_cache_has_room(cache, node, requests, tally->pods, demands->count)) {
            tally->gpus += demands->list[k].gpus;
            continue;
        }
        tally->is_over = any = true;
        lower(demands, node, tally->gpus);
    }
    return any;
}

static bool demands_plan(struct gt_cache *cache, const struct gt_demands *demands,
                         const struct gt_plan_request *request, struct gt_plan_failure *ret_failure)
{
    struct gt_plan_request limited = *request;
    limited.limits = demands->limits;
    limited.limit_count = demands->limit_count;
    return gt_plan_ruled(gt_cache_cluster(cache), &limited, ret_failure);
}

bool gt_demands_plan(struct gt_cache *cache, struct gt_demands *demands,
                     const struct gt_plan_request *request, struct gt_plan_failure *ret_failure)
{
    if (demands->count > 1) /* an earlier plan may have lowered them */
        demands->limit_count =
            gt_cache_limits(cache, demands->list, demands->count, GT_CACHE_ROOM_NOW, false, demands->limits);
    bool placed = demands_plan(cache, demands, request, ret_failure);
    if (!placed || demands->count < 2) /* for one demand the limits are exact */
        return placed;
    gt_auto_free struct tally *tallies = calloc((size_t)request->pod_count + 1, sizeof(*tallies));
    gt_auto_free uint32_t *tally_of =
        calloc((size_t)gt_cluster_nodes(gt_cache_cluster(cache)) + 1, sizeof(*tally_of));
    for (unsigned i = 0; placed && tallies && tally_of && i < REPAIRS_MAX; i++) {
        if (!lower_limits(cache, demands, request, tallies, tally_of))
            return true;
        placed = demands_plan(cache, demands, request, ret_failure);
    }
    demands->limit_count =
        gt_cache_limits(cache, demands->list, demands->count, GT_CACHE_ROOM_NOW, true, demands->limits);
    return demands_plan(cache, demands, request, ret_failure);
}

/* ---- text ---- */

struct shortage {
    const char *name;
    uint32_t nodes, first; /* first: one of them */
    uint64_t asked, left;  /* most that a pod needs, most that a node has */
};

void gt_demands_amount_text(const char *name, uint64_t amount, struct gt_buf *to)
{
    static const char units[] = "KMGTPE";
    bool is_cpu = strcmp(name, GT_RESOURCE_CPU) == 0;
    if (is_cpu) {
        gt_buf_printf(to, amount % 1000 ? "%.10g" : "%.0f", (double)amount / 1000);
        return;
    }
    unsigned unit = 0;
    double value = (double)amount;
    bool in_bytes = strcmp(name, GT_RESOURCE_MEMORY) == 0 || strcmp(name, "ephemeral-storage") == 0 ||
                    strncmp(name, "hugepages-", 10) == 0;
    for (; in_bytes && value >= 1024 && unit < sizeof(units) - 1; unit++)
        value /= 1024;
    gt_buf_printf(to, "%.6g", value);
    if (unit)
        gt_buf_printf(to, "%ci", units[unit - 1]);
}

const char *gt_demands_resource_name(const char *name)
{
    return strcmp(name, GT_RESOURCE_CPU) == 0 ? "CPU" : name;
}

static void count_shortage(struct shortage *list, unsigned *count, const char *name, uint32_t node,
                           uint64_t asked, uint64_t left)
{
    unsigned i = 0;
    while (i < *count && strcmp(list[i].name, name) != 0)
        i++;
    if (i == SHORTAGES_MAX)
        return;
    if (i == *count) {
        list[i].first = node;
        *count += 1;
    }
    list[i].name = name;
    list[i].nodes++;
    list[i].asked = asked > list[i].asked ? asked : list[i].asked;
    list[i].left = left > list[i].left ? left : list[i].left;
}

/* The resource that the node lacks, for the first demand that it cannot hold. */
static void find_shortage(struct gt_cache *cache, const struct gt_demands *demands, uint32_t node,
                          struct shortage *list, unsigned *count)
{
    unsigned gpus = gt_cluster_available(gt_cache_cluster(cache))[node];
    for (unsigned k = 0; k < demands->count; k++) {
        const struct gt_cache_demand *demand = &demands->list[k];
        uint64_t asked, left;
        if (gt_cache_room_for(cache, node, demand->request, GT_CACHE_ROOM_NOW) >= gpus / demand->gpus)
            continue;
        const char *name = gt_cache_scarcest(cache, node, demand->request, &asked, &left);
        if (name)
            count_shortage(list, count, name, node, asked, left);
        return;
    }
}

/* Of GPUs there may be enough that are free: what the Node offers is too little. */
static void add_offer(struct gt_cache *cache, const struct shortage *of, struct gt_buf *to)
{
    struct gt_cluster_node node = {.name = ""};
    struct gt_cache_node cached = {0};
    gt_cluster_get_node(gt_cache_cluster(cache), of->first, &node);
    gt_cache_get_node(cache, of->first, &cached);
    gt_buf_printf(to,
                  "%u node%s offer%s too few GPUs (of %s's %u GPUs %lld are allocatable, %u of them free)",
                  of->nodes, gt_plural(of->nodes), of->nodes == 1 ? "s" : "", node.name,
                  gt_bit_count(node.all), (long long)cached.offered, gt_cache_gpus_left(cache, of->first));
}

void gt_demands_text(struct gt_cache *cache, const struct gt_demands *demands,
                     const struct gt_node_set *excluded, struct gt_buf *to)
{
    struct shortage list[SHORTAGES_MAX] = {0};
    unsigned count = 0;
    for (uint32_t i = 0; i < demands->limit_count; i++)
        if (!gt_node_set_has(excluded, demands->limits[i].node))
            find_shortage(cache, demands, demands->limits[i].node, list, &count);
    for (unsigned i = 0; i < count; i++) {
        const struct shortage *of = &list[i];
        gt_buf_puts(to, i ? ", " : "; ");
        if (strcmp(of->name, GT_RESOURCE_GPU) == 0) {
            add_offer(cache, of, to);
            continue;
        }
        gt_buf_printf(to, "%u node%s lack%s %s (a pod needs ", of->nodes, gt_plural(of->nodes),
                      of->nodes == 1 ? "s" : "", gt_demands_resource_name(of->name));
        gt_demands_amount_text(of->name, of->asked, to);
        gt_buf_puts(to, ", at most ");
        gt_demands_amount_text(of->name, of->left, to);
        gt_buf_puts(to, " is free)");
    }
}
