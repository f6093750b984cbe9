/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/text.h"
#include "scheduler-ext/cache/audit_internal.h"
#include "scheduler-ext/jobs/rules.h"

/*
 * Whether the pods of a job that are on nodes lie together. Unit and rank of a pod are those of its plan.
 * Ranks of a unit are consecutive. Its first rank is only known as far as the known ranks show it, so an atom
 * counts as torn where it is torn for every possible first rank.
 */
enum { FIRSTS_MAX = 256 }; /* first ranks to try; a unit with more missing pods is not checked */

struct unit {
    const struct audit_location *locations; /* by rank */
    uint32_t count;
    uint32_t pods, atom; /* of the whole unit; atom 0: it is hard */
};

static bool audit_units_read_number(const struct gt_pod_meta *meta, enum gt_pod_key key, uint32_t *ret)
{
    uint64_t number;
    const char *text = gt_pod_annotation(meta, key);
    if (!text || !gt_text_to_unsigned(text, GT_PLAN_PODS_MAX - 1, &number))
        return false;
    *ret = (uint32_t)number;
    return true;
}

static bool sit(const struct gt_audit *audit, const struct cache_pod *pod, struct audit_location *ret)
{
    struct gt_cluster_node node;
    if (!pod->at || pod->pub.deleting || !gt_cluster_get_node(audit->cache->cluster, pod->at->id, &node) ||
        !audit_units_read_number(&pod->pub.meta, GT_KEY_PLAN_UNIT, &ret->unit) ||
        !audit_units_read_number(&pod->pub.meta, GT_KEY_PLAN_RANK, &ret->rank))
        return false;
    ret->supernode = node.supernode;
    ret->pod = pod;
    return true;
}

static bool audit_units_reserve(struct gt_audit *audit, uint32_t count)
{
    if (count <= audit->location_capacity)
        return true;
    struct audit_location *locations = calloc(count, sizeof(*locations));
    if (!locations)
        return false;
    free(audit->locations);
    audit->locations = locations;
    audit->location_capacity = count;
    return true;
}

/* Collects the job's pods that are on nodes; returns 0 also where all are in one supernode. */
static uint32_t find_locations(struct gt_audit *audit, const struct gt_cache_job *job)
{
    uint32_t count = 0;
    bool apart = false;
    if (job->pod_count < 2 || !audit_units_reserve(audit, job->pod_count))
        return 0;
    for (const struct gt_cache_pod *pod = job->pods; pod && count < job->pod_count; pod = pod->next) {
        count += sit(audit, (const struct cache_pod *)pod, &audit->locations[count]);
        apart = apart || (count && audit->locations[count - 1].supernode != audit->locations[0].supernode);
    }
    return apart ? count : 0;
}

static int audit_units_by_rank(const void *a, const void *b)
{
    const struct audit_location *x = a, *y = b;
    GT_BY(x->unit, y->unit);
    return (x->rank > y->rank) - (x->rank < y->rank);
}

struct gt_job_texts gt_audit_texts(const struct gt_audit *audit, const struct gt_cache_job *job)
{
    struct gt_job_texts texts = gt_cache_job_texts(job);
    if (job->pods && audit->spec.add_owner_texts)
        audit->spec.add_owner_texts(audit->spec.arg, job->pods, &texts);
    return texts;
}

static bool audit_units_read_sizes(const struct gt_audit *audit, const struct gt_cache_job *job,
                                   struct gt_job_sizes *ret)
{
    struct gt_job_texts texts = gt_audit_texts(audit, job);
    memset(&texts.of[GT_KEY_LOSS], 0, (GT_KEY_SIZES - GT_KEY_LOSS) * sizeof(*texts.of));
    if (gt_job_sizes_read(&texts, 1, ret, NULL) < 0)
        return false;
    if (ret->whole)
        ret->group = gt_cache_job_gpus(job);
    return ret->group;
}

/* The first two neighbours in an atom that are in different supernodes, if its unit's first rank is `first`;
 * NULL: none. */
static const struct audit_location *tear(const struct unit *unit, uint32_t first)
{
    for (uint32_t i = 0; i + 1 < unit->count; i++) {
        const struct audit_location *at = &unit->locations[i];
        if (at[0].supernode != at[1].supernode &&
            (!unit->atom || (at[0].rank - first) / unit->atom == (at[1].rank - first) / unit->atom))
            return at;
    }
    return NULL;
}

static const struct audit_location *tear_for_certain(const struct unit *unit)
{
    uint32_t lowest = unit->locations[0].rank, highest = unit->locations[unit->count - 1].rank;
    if (!unit->atom)
        return tear(unit, lowest);
    if (highest - lowest >= unit->pods)
        return NULL; /* its ranks are not consecutive */
    uint32_t first = highest + 1 > unit->pods ? highest + 1 - unit->pods : 0;
    const struct audit_location *torn = NULL;
    if (lowest - first >= FIRSTS_MAX)
        return NULL;
    for (; first <= lowest; first++) {
        torn = tear(unit, first);
        if (!torn)
            return NULL;
    }
    return torn;
}

static const char *audit_units_supernode_name(const struct gt_audit *audit, uint32_t id)
{
    struct gt_cluster_supernode supernode;
    return gt_cluster_get_supernode(audit->cache->cluster, id, &supernode) ? supernode.name : "?";
}

static void check_unit(struct gt_audit *audit, const struct gt_job_sizes *sizes,
                       const struct gt_cache_job *job, struct unit *unit)
{
    uint32_t gpus = unit->locations->pod->pub.gpus;
    bool soft = sizes->atomic && sizes->atomic < sizes->group;
    if (soft && (!gpus || sizes->atomic % gpus || sizes->group % sizes->atomic))
        return; /* no atoms: the rules forbid it */
    unit->pods = soft ? sizes->group / gpus : unit->count;
    unit->atom = soft ? sizes->atomic / gpus : 0;
    const struct audit_location *torn = tear_for_certain(unit);
    if (!torn)
        return;
    uint64_t key = gt_digest_mix(gt_digest_mix_text(audit->cache->seed, job->key), torn->unit);
    gt_audit_see(audit, GT_FINDING_UNIT_TORN, key, torn->pod,
                 "%sunit %u of job %s is in two supernodes: rank %u, pod %s, on node %s in %s; rank %u, pod "
                 "%s, on node %s in %s",
                 soft ? "an atom of " : "", torn->unit, job->key, torn[0].rank, torn[0].pod->pub.meta.name,
                 torn[0].pod->at->name, audit_units_supernode_name(audit, torn[0].supernode), torn[1].rank,
                 torn[1].pod->pub.meta.name, torn[1].pod->at->name,
                 audit_units_supernode_name(audit, torn[1].supernode));
}

void gt_audit_units(struct gt_audit *audit, const struct gt_cache_job *job)
{
    struct gt_job_sizes sizes;
    uint32_t count = find_locations(audit, job);
    if (!count || !audit_units_read_sizes(audit, job, &sizes))
        return;
    qsort(audit->locations, count, sizeof(*audit->locations), audit_units_by_rank);
    for (uint32_t first = 0, end; first < count; first = end) {
        for (end = first + 1; end < count && audit->locations[end].unit == audit->locations[first].unit;)
            end++;
        check_unit(audit, &sizes, job,
                   &(struct unit){.locations = &audit->locations[first], .count = end - first});
    }
}
