/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/crossing.h"
#include "scheduler-ext/core/relocate.h"

/* A job that must lie in one supernode of a tier: the cheapest moves of any of them, each as if it were the
 * whole cluster for the job. What moves may go elsewhere. */

enum {
    WITHIN_DOMAINS = 32, /* so many are searched at most, those first that lack the fewest GPUs */
    WITHIN_READING = 4,  /* steps for each node and pod that it takes to begin a search */
};

struct relocate_domain {
    uint32_t super;
    uint64_t free, gain; /* GPUs for the job, and those that movable pods free */
};

static int relocate_by_free(const void *a, const void *b)
{
    const struct relocate_domain *x = a, *y = b;
    GT_BY(y->free, x->free);
    return (x->super > y->super) - (x->super < y->super);
}

/* Counts the GPUs of each supernode of the tier. */
static void relocate_count_domains(const struct gt_cluster *cluster, const struct gt_running_pod *pods,
                                   uint32_t count, const struct gt_relocate_spec *spec,
                                   struct relocate_domain *domains)
{
    struct gt_cluster_node node;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        if (!gt_cluster_get_node(cluster, n, &node) || gt_node_set_has(spec->job_avoids, n))
            continue;
        uint32_t domain = gt_cluster_domain(cluster, node.supernode, spec->tier);
        if (domain != GT_NONE)
            domains[domain].free += gt_bit_count(node.available);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!pods[i].movable || gt_node_set_has(spec->job_avoids, pods[i].place.node) ||
            !gt_cluster_get_node(cluster, pods[i].place.node, &node))
            continue;
        uint32_t domain = gt_cluster_domain(cluster, node.supernode, spec->tier);
        if (domain != GT_NONE)
            domains[domain].gain += gt_bit_count(pods[i].place.mask);
    }
}

static int relocate_in(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t count,
                       const struct gt_relocate_spec *spec, uint32_t domain, struct gt_relocation *ret)
{
    __attribute__((cleanup(gt_node_set_done))) struct gt_node_set avoids = {0};
    struct gt_relocate_spec within = *spec;
    struct gt_cluster_node node;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++)
        if (gt_node_set_has(spec->job_avoids, n) ||
            (gt_cluster_get_node(cluster, n, &node) &&
             gt_cluster_domain(cluster, node.supernode, spec->tier) != domain))
            if (gt_node_set_add(&avoids, n, NULL) < 0)
                return -ENOMEM;
    within.job_avoids = &avoids;
    return gt_relocate(cluster, pods, count, &within, ret, NULL);
}

/* Whether moves that free at least so many GPUs cannot be better: each frees no more than it costs. */
static bool relocate_is_best(const struct gt_relocation *best, uint64_t missing)
{
    uint64_t least = missing ? missing + GT_RELOCATE_MOVE : 0;
    return best->possible && (best->cost < least || (best->cost == least && best->jobs <= 1));
}

int gt_relocate_within(struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                       const struct gt_relocate_spec *spec, struct gt_relocation *ret, struct gt_err **err)
{
    uint32_t supers = gt_cluster_supernodes(cluster), count = 0;
    uint64_t work = spec->work ? spec->work : GT_RELOCATE_WORK, most = WITHIN_DOMAINS;
    gt_auto_free struct relocate_domain *domains = calloc((size_t)supers + 1, sizeof(*domains));
    uint64_t wanted = (uint64_t)spec->job.runs * spec->job.pods * spec->job.gpus;
    struct gt_relocate_spec each = *spec;
    struct gt_relocation best = {.exact = true};
    bool exact = true;
    if (!spec->tier)
        return gt_relocate(cluster, pods, pod_count, spec, ret, err);
    GT_NEED(domains, err, "relocation");
    relocate_count_domains(cluster, pods, pod_count, spec, domains);
    for (uint32_t s = 0; s < supers; s++)
        if (domains[s].free + domains[s].gain >= wanted)
            domains[count++] = (struct relocate_domain){s, domains[s].free, domains[s].gain};
    qsort(domains, count, sizeof(*domains), relocate_by_free);
    uint64_t begin = WITHIN_READING * ((uint64_t)gt_cluster_nodes(cluster) + pod_count + 1);
    most = work / begin < most ? work / begin + 1 : most;
    each.work = work / (!count ? 1 : count < most ? count : most) + 1; /* 0 is no bound */
    for (uint32_t i = 0; i < count; i++) {
        struct gt_relocation found = {0};
        if (relocate_is_best(&best, wanted > domains[i].free ? wanted - domains[i].free : 0))
            break;
        if (i == most) {
            exact = false;
            break;
        }
        if (relocate_in(cluster, pods, pod_count, &each, domains[i].super, &found) < 0) {
            free(best.moves);
            return gt_fail_sys(err, ENOMEM, "relocation");
        }
        exact = exact && found.exact;
        bool better = found.possible && (!best.possible || found.cost < best.cost ||
                                         (found.cost == best.cost && found.jobs < best.jobs));
        free(better ? best.moves : found.moves);
        best = better ? found : best;
    }
    best.exact = exact;
    *ret = best;
    return 0;
}
