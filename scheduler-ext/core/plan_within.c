/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

#include <stdlib.h>

#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/plan_rules.h"

enum { WITHIN_TRIES = 64 }; /* domains: only units of several sizes may need more than one */

/* A supernode of the tier. */
struct within_domain {
    uint32_t super, available, lacks;
    bool full; /* by the runs of some kind it has no room */
};

struct within_search {
    struct gt_cluster *cluster;
    const struct gt_plan_request *request;
    gt_plan_fn *plan;
    unsigned tier;
    struct within_domain *domains;
    uint32_t count;
    uint32_t *index;                 /* [supernode of the tier] its domain */
    const struct gt_plan_unit *kind; /* what the domains lack is of this kind, and so many runs are needed */
    uint32_t wanted;
};

/* The domain of all pods that run, or (`all`) of all pods; GT_NONE: of none. False: they lie in several, or
 * outside. */
static bool within_common(const struct within_search *search, bool all, uint32_t *ret)
{
    *ret = GT_NONE;
    for (uint32_t i = 0; i < search->request->pod_count; i++) {
        const struct gt_plan_pod *pod = &search->request->pods[i];
        if ((!all && !pod->running) || !gt_core_has_node(search->cluster, pod->place.node))
            continue;
        uint32_t domain =
            gt_cluster_domain(search->cluster, search->cluster->super[pod->place.node], search->tier);
        if (domain == GT_NONE || (*ret != GT_NONE && *ret != domain))
            return false;
        *ret = domain;
    }
    return true;
}

/* Nodes that no pod may use, where pods may use different ones. */
static const struct gt_node_set *within_excluded(const struct gt_plan_request *request)
{
    return request->rules && request->rules->excluded ? request->rules->excluded : request->excluded;
}

/* The nodes outside of a domain, and those that are excluded. */
static bool within_outside(const struct gt_cluster *cluster, uint32_t domain,
                           const struct gt_node_set *excluded, struct gt_node_set *to)
{
    for (uint32_t n = cluster->node_count; n-- > 0;)
        if (gt_core_has_node(cluster, n) &&
            (gt_node_set_has(excluded, n) || !gt_core_is_below(cluster, cluster->super[n], domain)) &&
            gt_node_set_add(to, n, NULL) < 0)
            return false;
    return true;
}

/* Plans on the nodes of a domain alone. */
static bool within_plan(const struct within_search *search, uint32_t domain, struct gt_plan_failure *failure)
{
    const struct gt_cluster *cluster = search->cluster;
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set outside = {0}, wider = {0};
    struct gt_plan_request request = *search->request;
    struct gt_plan_rules rules;
    if (!within_outside(cluster, domain, request.excluded, &outside) ||
        !within_outside(cluster, domain, within_excluded(&request), &wider))
        return false;
    if (request.rules && request.rules->excluded) {
        rules = *request.rules;
        rules.excluded = &wider;
        request.rules = &rules;
    }
    request.excluded = &outside;
    request.within = 0;
    request.chosen = true;
    return search->plan(search->cluster, &request, failure);
}

static bool within_is_first(const struct gt_plan_request *request, uint32_t u)
{
    uint32_t first = 0;
    while (!gt_unit_is_kind(&request->units[first], &request->units[u]))
        first++;
    return first == u;
}

/* Whether all of a run is to be placed. */
static bool within_is_open(const struct job *job, uint32_t first, uint32_t count)
{
    for (uint32_t i = first; i < first + count; i++)
        if (job->pods[i].running)
            return false;
    return true;
}

/* Compares each domain's room for the runs of a kind with what the job needs. */
static void within_count(struct within_search *search, struct job *job, const struct gt_plan_unit *kind)
{
    const struct gt_cluster *cluster = search->cluster;
    const struct room *room = gt_draft_room(job, ROOM_OF_PODS, kind->gpus);
    uint32_t size = gt_unit_run(kind);
    search->kind = kind;
    search->wanted = 0;
    for (uint32_t u = 0; u < job->unit_count; u++)
        for (uint32_t run = 0; gt_unit_is_kind(&job->units[u], kind) && run < kind->pods; run += size)
            search->wanted += within_is_open(job, job->units[u].first + run, size);
    for (uint32_t d = 0; d < search->count; d++)
        search->domains[d].lacks = search->wanted;
    for (uint32_t s = 0; room && s < room->count; s++) {
        uint32_t domain = room->slots[s] >= size ? gt_cluster_domain(cluster, s, search->tier) : GT_NONE;
        if (domain == GT_NONE)
            continue;
        uint32_t *lacks = &search->domains[search->index[domain]].lacks, fitting = room->slots[s] / size;
        *lacks -= fitting < *lacks ? fitting : *lacks;
    }
    for (uint32_t d = 0; d < search->count; d++)
        search->domains[d].full |= search->domains[d].lacks > 0;
}

static int within_compare(const void *left, const void *right)
{
    const struct within_domain *a = left, *b = right;
    if (a->full != b->full)
        return a->full ? 1 : -1;
    if (a->full && a->lacks != b->lacks)
        return a->lacks < b->lacks ? -1 : 1;
    if (a->available != b->available)
        return a->available < b->available ? -1 : 1;
    return a->super < b->super ? -1 : a->super > b->super;
}

/* Lists the domains: first those that have room by numbers, the fullest in front. What the others lack is of
 * the first kind that none has room for. */
static bool within_list(struct within_search *search)
{
    struct gt_cluster *cluster = search->cluster;
    struct gt_plan_request request = *search->request;
    request.excluded = within_excluded(search->request);
    struct job job = gt_plan_begin(cluster, &request);
    search->domains = calloc((size_t)cluster->super_count + 1, sizeof(*search->domains));
    search->index = calloc((size_t)cluster->super_count + 1, sizeof(*search->index));
    if (!search->domains || !search->index)
        return false;
    gt_plan_clear(&job);
    for (uint32_t s = 0; s < cluster->super_count; s++)
        if (cluster->supers[s].tier == search->tier) {
            search->index[s] = search->count;
            search->domains[search->count++].super = s;
        }
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        uint32_t domain = gt_core_has_node(cluster, n) && gt_draft_count(&job, n)
                              ? gt_cluster_domain(cluster, cluster->super[n], search->tier)
                              : GT_NONE;
        if (domain != GT_NONE)
            search->domains[search->index[domain]].available += gt_draft_count(&job, n);
    }
    bool any = true;
    for (uint32_t u = 0; u < job.unit_count && any; u++) {
        if (!within_is_first(search->request, u))
            continue;
        within_count(search, &job, &job.units[u]);
        any = false;
        for (uint32_t d = 0; d < search->count && !any; d++)
            any = !search->domains[d].full;
    }
    qsort(search->domains, search->count, sizeof(*search->domains), within_compare);
    return true;
}

/* Says what the domains lack. `failure`: of the last one that was tried. */
static void within_say(const struct within_search *search, bool tried, struct gt_plan_failure *failure)
{
    uint32_t count = search->count < GT_PLAN_LACKS_MAX ? search->count : GT_PLAN_LACKS_MAX;
    if (!tried && search->kind)
        *failure = (struct gt_plan_failure){
            .size = gt_unit_run(search->kind) * search->kind->gpus,
            .wanted = search->wanted,
            .supernode = GT_NONE,
            .unit = (uint32_t)(search->kind - search->request->units),
            .atoms = gt_unit_run(search->kind) < search->kind->pods,
            .gpus = search->kind->gpus,
        };
    failure->reason = GT_PLAN_NO_DOMAIN;
    failure->domains.tier = search->tier;
    failure->domains.count = search->count;
    failure->could_fit = false;
    for (failure->domains.listed = 0; failure->domains.listed < count; failure->domains.listed++) {
        const struct within_domain *domain = &search->domains[failure->domains.listed];
        failure->domains.lacks[failure->domains.listed] =
            (struct gt_plan_lack){domain->super, domain->full ? domain->lacks : 0};
    }
}

/* Where pods of the job have places, the others go to their domain. */
static bool within_own(const struct within_search *search, uint32_t own, struct gt_plan_failure *failure)
{
    if (within_plan(search, own, failure))
        return true;
    failure->domains.tier = search->tier;
    failure->domains.bound = true;
    failure->domains.listed = failure->domains.count = 1;
    failure->domains.lacks[0] = (struct gt_plan_lack){own, 0};
    return false;
}

/* Tries the domains of the search's tier. */
static bool within_tier(struct within_search *search, struct gt_plan_failure *failure)
{
    uint32_t own, tried = 0;
    *failure = (struct gt_plan_failure){.supernode = GT_NONE};
    if (!within_common(search, false, &own)) {
        within_say(search, false, failure);
        failure->domains.bound = true;
        return false;
    }
    if (own != GT_NONE)
        return within_own(search, own, failure);
    bool placed = false, inexact = false, listed = within_list(search);
    while (listed && !placed && tried < search->count && tried < WITHIN_TRIES &&
           !search->domains[tried].full) {
        placed = within_plan(search, search->domains[tried++].super, failure);
        inexact |= failure->inexact;
    }
    if (!placed) {
        within_say(search, tried, failure);
        failure->inexact |= inexact;
        failure->inexact |= tried == WITHIN_TRIES && tried < search->count && !search->domains[tried].full;
    }
    free(search->domains);
    free(search->index);
    search->domains = NULL;
    search->index = NULL;
    search->kind = NULL;
    search->count = 0;
    return placed;
}

bool gt_plan_within(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                    struct gt_plan_failure *ret_failure)
{
    struct gt_plan_request anywhere = *request;
    struct within_search search = {
        .cluster = cluster, .request = request, .plan = plan, .tier = request->within};
    anywhere.within = 0;
    anywhere.chosen = true;
    if (!request->within) {
        for (search.tier = 1; search.tier <= GT_TIERS_MAX; search.tier++)
            if (cluster->tiers[search.tier] && within_tier(&search, ret_failure))
                return true;
        return plan(cluster, &anywhere, ret_failure);
    }
    uint32_t domain;
    if (plan(cluster, &anywhere, ret_failure) && within_common(&search, true, &domain))
        return true;
    return within_tier(&search, ret_failure);
}
