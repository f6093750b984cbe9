/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/crossing.h"

#include <stdlib.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"

enum {
    CLOSER_DOMAINS_MAX = 256,
    CLOSER_WORK_LEAST = 50000 /* of one search: few that find something, and each reads the whole cluster */
};

/* A domain of the highest tier where the job has several. */
struct closer_domain {
    uint32_t id, own; /* own: the job's pods in it */
    uint64_t gpus;    /* available, or of pods that may move */
    bool tried;       /* whether it can be left */
};

struct closer {
    struct gt_cluster *cluster;
    const struct gt_closer_spec *spec;
    struct closer_domain domains[CLOSER_DOMAINS_MAX];
    uint32_t count;
    uint32_t *place; /* [supernode] of a domain: its place in `domains`, counted from 1 */
};

static int closer_by_gpus(const void *left, const void *right)
{
    const struct closer_domain *a = left, *b = right;
    GT_BY(b->gpus, a->gpus);
    return (a->id > b->id) - (a->id < b->id);
}

static struct closer_domain *closer_domain_of(struct closer *closer, uint32_t node)
{
    struct gt_cluster_node info;
    if (!gt_cluster_get_node(closer->cluster, node, &info))
        return NULL;
    uint32_t id = gt_cluster_domain(closer->cluster, info.supernode, closer->spec->crossing->highest);
    return id != GT_NONE && closer->place[id] ? &closer->domains[closer->place[id] - 1] : NULL;
}

/* Those of the tier, most GPUs first. */
static void closer_list(struct closer *closer)
{
    const struct gt_closer_spec *spec = closer->spec;
    struct gt_cluster_supernode info;
    struct closer_domain *domain;
    for (uint32_t s = 0; s < gt_cluster_supernodes(closer->cluster) && closer->count < CLOSER_DOMAINS_MAX;
         s++)
        if (gt_cluster_get_supernode(closer->cluster, s, &info) && info.tier == spec->crossing->highest) {
            closer->domains[closer->count] = (struct closer_domain){.id = s, .gpus = info.available};
            closer->place[s] = ++closer->count;
        }
    for (uint32_t i = 0; i < spec->count; i++)
        if ((domain = closer_domain_of(closer, spec->nodes[i])))
            domain->own++;
    for (uint32_t i = 0; i < spec->pod_count; i++)
        if (spec->pods[i].movable && (domain = closer_domain_of(closer, spec->pods[i].place.node)))
            domain->gpus += gt_bit_count(spec->pods[i].place.mask);
    qsort(closer->domains, closer->count, sizeof(*closer->domains), closer_by_gpus);
    for (uint32_t d = 0; d < closer->count; d++)
        closer->place[closer->domains[d].id] = d + 1;
}

/* The job's domain that was not tried where it has the fewest pods, whole runs; NULL: all were. */
static struct closer_domain *closer_next(struct closer *closer)
{
    struct closer_domain *next = NULL;
    for (struct closer_domain *domain = closer->domains; domain < closer->domains + closer->count; domain++)
        if (domain->own && !domain->tried && !(closer->spec->placed && domain->own % closer->spec->run) &&
            (!next || domain->own < next->own))
            next = domain;
    if (next)
        next->tried = true;
    return next;
}

static uint64_t closer_cost(const struct gt_closer_spec *spec, const struct gt_closer *closer)
{
    return closer->others.cost + (uint64_t)closer->own * spec->gpus;
}

/* Whether the job fits into its domains without this one (NULL: into the largest) if others move; kept if
 * that is cheaper than what is known. */
static int closer_try(struct closer *closer, const struct closer_domain *without, uint64_t work,
                      struct gt_closer *best, struct gt_err **err)
{
    const struct gt_closer_spec *spec = closer->spec;
    uint32_t few = spec->crossing->tiers[spec->crossing->highest].used - 1;
    struct gt_closer found = {.domains = few,
                              .leaves = spec->placed && without ? without->id : GT_NONE,
                              .own = spec->placed && without ? without->own : 0};
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set avoided = {0};
    const struct gt_relocate_spec relocate = {
        .job = {.runs = (spec->placed ? found.own : spec->count) / spec->run,
                .pods = spec->run,
                .gpus = spec->gpus,
                .requests = spec->requests},
        .job_avoids = &avoided,
        .may_go = spec->may_go,
        .arg = spec->arg,
        .work = work};
    for (uint32_t id = 0; id < gt_cluster_nodes(closer->cluster); id++) {
        const struct closer_domain *domain = closer_domain_of(closer, id);
        if (gt_node_set_has(spec->avoids, id) ||
            !(domain && (without ? domain->own && domain != without : domain < closer->domains + few)))
            GT_TRY(gt_node_set_add(&avoided, id, err));
    }
    GT_TRY(gt_relocate(closer->cluster, spec->pods, spec->pod_count, &relocate, &found.others, err));
    if (found.others.possible && (found.others.count || spec->placed) &&
        (!best->domains || closer_cost(spec, &found) < closer_cost(spec, best))) {
        free(best->others.moves);
        *best = found;
    } else
        free(found.others.moves);
    return 0;
}

int gt_closer_find(struct gt_cluster *cluster, const struct gt_closer_spec *spec, struct gt_closer *ret,
                   struct gt_err **err)
{
    const struct gt_crossing *crossing = spec->crossing;
    struct gt_closer best = {.leaves = GT_NONE};
    struct closer_domain *domain;
    int r = 0;
    if (!crossing->highest || crossing->tiers[crossing->highest].all > CLOSER_DOMAINS_MAX) {
        *ret = best;
        return 0;
    }
    gt_auto_free struct closer *closer = calloc(1, sizeof(*closer));
    gt_auto_free uint32_t *place = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*place));
    GT_NEED(closer && place, err, "plan");
    closer->cluster = cluster;
    closer->spec = spec;
    closer->place = place;
    closer_list(closer);
    uint64_t most = spec->work / CLOSER_WORK_LEAST, searches = crossing->tiers[crossing->highest].used + 1;
    searches = searches < most ? searches : most;
    uint64_t work = spec->work / (searches ? searches : 1);
    if (!spec->placed)
        r = closer_try(closer, NULL, work, &best, err);
    for (uint64_t i = !spec->placed; r >= 0 && i < searches && (domain = closer_next(closer)); i++)
        r = closer_try(closer, domain, work, &best, err);
    if (r < 0) {
        free(best.others.moves);
        return r;
    }
    *ret = best;
    return 0;
}

void gt_closer_text(const struct gt_cluster *cluster, const struct gt_crossing *crossing,
                    const struct gt_closer *closer, const char *job, struct gt_buf *to)
{
    const struct gt_relocation *others = &closer->others;
    struct gt_cluster_supernode left;
    char name[32];
    if (!closer->domains)
        return;
    gt_tier_text(crossing->highest, closer->domains > 1, name, sizeof(name));
    gt_buf_printf(to, "; %u %s would do if ", closer->domains, name);
    if (others->count)
        gt_buf_printf(to, "%u pod%s", others->count, gt_plural(others->count));
    if (others->jobs > 1)
        gt_buf_printf(to, " of %u jobs", others->jobs);
    else if (others->count && *job)
        gt_buf_printf(to, " of %s", job);
    if (closer->own && gt_cluster_get_supernode(cluster, closer->leaves, &left))
        gt_buf_printf(to, "%sits %u in %s", others->count ? " and " : "", closer->own, left.name);
    gt_buf_puts(to, " moved");
}
