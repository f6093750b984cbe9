/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/cache/audit.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/cache/cache_internal.h"
#include "scheduler-ext/jobs/rules.h"

enum { AUDIT_NOTE_MAX = 1000 }; /* an Event's */

struct audit_finding {
    struct gt_finding pub; /* first; its texts point into `texts` */
    uint64_t key;
    uint64_t since_ms;
    uint64_t round;  /* the last one that saw it */
    unsigned missed; /* rounds since then, which have not seen it */
    bool stands;     /* it has lasted for GT_AUDIT_SETTLE_MS: it is reported */
    char *texts;
};

struct audit_location { /* where a pod of a unit is */
    uint32_t unit, rank, supernode;
    const struct cache_pod *pod;
};

struct gt_audit {
    struct gt_audit_spec spec;
    struct gt_cache *cache;
    uint32_t slot; /* the next slot of the table of nodes */
    uint32_t left; /* pods that this step may still check */
    uint64_t round, now_ms;
    bool in_round;
    struct audit_location *locations; /* of one job */
    uint32_t location_capacity;
    struct audit_finding *findings[GT_AUDIT_FINDINGS_MAX * GT_FINDING_KINDS];
    uint32_t count;
    uint32_t of_kind[GT_FINDING_KINDS], standing[GT_FINDING_KINDS]; /* all, and those that are reported */
};

/* The findings of the audit: since when they exist, and whether they still do. */

const char *gt_finding_kind_name(enum gt_finding_kind kind)
{
    static const char *const names[] = {[GT_FINDING_UNIT_TORN] = "UnitTorn",
                                        [GT_FINDING_DOUBLE_PLANNED] = "DoublePlanned",
                                        [GT_FINDING_MISPLACED] = "Misplaced",
                                        [GT_FINDING_DOUBLE_CLAIMED] = "DoubleClaimed",
                                        [GT_FINDING_UNPLACED] = "Unplaced"};
    return names[kind];
}

static void audit_free_finding(struct audit_finding *finding)
{
    free(finding->texts);
    free(finding);
}

static void copy_texts(struct audit_finding *finding, const struct gt_finding *about, const char *note)
{
    struct gt_finding *pub = &finding->pub;
    const struct {
        const char *from, **to;
    } texts[] = {
        {about->namespace_, &pub->namespace_},
        {about->name, &pub->name},
        {about->uid, &pub->uid},
        {about->owner_api_version, &pub->owner_api_version},
        {about->owner_kind, &pub->owner_kind},
        {about->owner_name, &pub->owner_name},
        {about->owner_uid, &pub->owner_uid},
        {note, &pub->note},
    };
    size_t size = 0;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        size += texts[i].from ? strlen(texts[i].from) + 1 : 0;
    char *at = finding->texts = malloc(size);
    for (size_t i = 0; at && i < GT_COUNT(texts); i++)
        if (texts[i].from) {
            *texts[i].to = at;
            at = stpcpy(at, texts[i].from) + 1;
        }
}

static struct audit_finding *audit_findings_find(const struct gt_audit *audit, enum gt_finding_kind kind,
                                                 uint64_t key)
{
    for (uint32_t i = 0; i < audit->count; i++)
        if (audit->findings[i]->key == key && audit->findings[i]->pub.kind == kind)
            return audit->findings[i];
    return NULL;
}

/* Without memory it is left for the next round. */
static struct audit_finding *audit_findings_add(struct gt_audit *audit, enum gt_finding_kind kind,
                                                uint64_t key, const struct gt_finding *about,
                                                const char *note)
{
    struct audit_finding *finding = calloc(1, sizeof(*finding));
    if (!finding)
        return NULL;
    finding->pub.kind = kind;
    finding->pub.api_version = about->api_version;
    finding->pub.object = about->object;
    finding->key = key;
    finding->since_ms = audit->now_ms;
    copy_texts(finding, about, note);
    if (!finding->texts) {
        audit_free_finding(finding);
        return NULL;
    }
    audit->findings[audit->count++] = finding;
    audit->of_kind[kind]++;
    return finding;
}

static struct gt_finding of_pod(const struct cache_pod *pod)
{
    const struct gt_cache_pod *pub = &pod->pub;
    return (struct gt_finding){.api_version = "v1",
                               .object = "Pod",
                               .namespace_ = pub->meta.namespace_,
                               .name = pub->meta.name,
                               .uid = pub->uid,
                               .owner_api_version = pub->owner_api_version,
                               .owner_kind = pub->meta.owner_kind,
                               .owner_name = pub->meta.owner_name,
                               .owner_uid = pub->owner_uid};
}

static struct gt_finding of_claim(const struct gt_cache_claim *claim)
{
    return (struct gt_finding){.api_version = "resource.k8s.io/v1",
                               .object = "ResourceClaim",
                               .namespace_ = claim->namespace_,
                               .name = claim->name,
                               .uid = claim->uid};
}

__attribute__((format(printf, 5, 6))) static void audit_see(struct gt_audit *audit, enum gt_finding_kind kind,
                                                            uint64_t key, struct gt_finding about,
                                                            const char *format, ...)
{
    struct audit_finding *finding = audit_findings_find(audit, kind, key);
    if (!finding && audit->of_kind[kind] < GT_AUDIT_FINDINGS_MAX) {
        char note[AUDIT_NOTE_MAX];
        va_list args;
        va_start(args, format);
        vsnprintf(note, sizeof(note), format, args);
        va_end(args);
        finding = audit_findings_add(audit, kind, key, &about, note);
    }
    if (finding)
        finding->round = audit->round;
}

static void audit_end_round(struct gt_audit *audit)
{
    uint32_t kept = 0;
    memset(audit->standing, 0, sizeof(audit->standing));
    for (uint32_t i = 0; i < audit->count; i++) {
        struct audit_finding *finding = audit->findings[i];
        finding->missed = finding->round == audit->round ? 0 : finding->missed + 1;
        if (finding->missed > 1) {
            audit->of_kind[finding->pub.kind]--;
            audit_free_finding(finding);
            continue;
        }
        finding->stands =
            finding->stands || (!finding->missed && audit->now_ms - finding->since_ms >= GT_AUDIT_SETTLE_MS);
        audit->standing[finding->pub.kind] += finding->stands;
        audit->findings[kept++] = finding;
    }
    audit->count = kept;
}

struct gt_finding *gt_audit_next(struct gt_audit *audit, const struct gt_finding *finding)
{
    uint32_t i = 0;
    while (finding && i < audit->count && &audit->findings[i++]->pub != finding)
        ;
    while (i < audit->count && !audit->findings[i]->stands)
        i++;
    return i < audit->count ? &audit->findings[i]->pub : NULL;
}

uint32_t gt_audit_count(const struct gt_audit *audit, enum gt_finding_kind kind)
{
    return audit->standing[kind];
}

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

static bool sit(const struct gt_audit *audit, const struct cache_pod *pod, struct audit_location *ret)
{
    struct gt_cluster_node node;
    ret->unit = gt_cache_pod_number(&pod->pub, GT_KEY_PLAN_UNIT);
    ret->rank = gt_cache_pod_number(&pod->pub, GT_KEY_PLAN_RANK);
    if (!pod->at || pod->pub.deleting || !gt_cluster_get_node(audit->cache->cluster, pod->at->id, &node) ||
        ret->unit >= GT_PLAN_PODS_MAX || ret->rank >= GT_PLAN_PODS_MAX)
        return false;
    ret->supernode = node.supernode;
    ret->pod = pod;
    return true;
}

static bool audit_units_reserve(struct gt_audit *audit, uint32_t count)
{
    void *new_;
    if (count <= audit->location_capacity)
        return true;
    if (!CACHE_GROW(audit->locations, audit->location_capacity, count))
        return false;
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

static struct gt_job_texts audit_texts(const struct gt_audit *audit, const struct gt_cache_job *job)
{
    struct gt_job_texts texts = gt_cache_job_texts(job);
    if (job->pods && audit->spec.add_owner_texts)
        audit->spec.add_owner_texts(audit->spec.arg, job->pods, &texts);
    return texts;
}

static bool audit_units_read_sizes(const struct gt_audit *audit, const struct gt_cache_job *job,
                                   struct gt_job_sizes *ret)
{
    struct gt_job_texts texts = audit_texts(audit, job);
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
    audit_see(audit, GT_FINDING_UNIT_TORN, key, of_pod(torn->pod),
              "%sunit %u of job %s is in two supernodes: rank %u, pod %s, on node %s in %s; rank %u, pod "
              "%s, on node %s in %s",
              soft ? "an atom of " : "", torn->unit, job->key, torn[0].rank, torn[0].pod->pub.meta.name,
              torn[0].pod->at->name, audit_units_supernode_name(audit, torn[0].supernode), torn[1].rank,
              torn[1].pod->pub.meta.name, torn[1].pod->at->name,
              audit_units_supernode_name(audit, torn[1].supernode));
}

static void audit_units(struct gt_audit *audit, const struct gt_cache_job *job)
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

enum { MASK_TEXT = 256 };

/* ---- pods of a node ---- */

static const char *mask_text(char text[static MASK_TEXT], uint64_t mask)
{
    gt_auto_buf struct gt_buf list = GT_BUF(MASK_TEXT - 1);
    gt_text_add_mask(&list, mask);
    gt_text_copy(text, MASK_TEXT, list.data && !list.failed ? list.data : "?");
    return text;
}

static uint64_t key_of(const struct gt_audit *audit, const struct cache_pod *pod)
{
    return gt_digest_mix_text(audit->cache->seed, pod->pub.uid);
}

/* GPUs that it uses on the node of its plan and that are not in the plan. */
static uint64_t gpus_beside_plan(const struct cache_pod *pod)
{
    return pod->at ? pod->owned & ~pod->resolved : 0;
}

/* Whether the pod's object has a plan. A plan of the planner that was not written does not count. */
static bool audit_is_planned(const struct cache_pod *pod)
{
    return pod->plan && !pod->overrides;
}

static void audit_check_place(struct gt_audit *audit, const struct cache_pod *pod)
{
    char used[MASK_TEXT], planned[MASK_TEXT];
    const struct gt_pod_meta *meta = &pod->pub.meta;
    if (!pod->at || !audit_is_planned(pod))
        return;
    if (pod->plan->node != pod->at)
        audit_see(audit, GT_FINDING_MISPLACED, key_of(audit, pod), of_pod(pod),
                  "pod %s/%s is on node %s, its plan is for node %s", meta->namespace_, meta->name,
                  pod->at->name, pod->plan->node->name);
    else if (gpus_beside_plan(pod))
        audit_see(audit, GT_FINDING_MISPLACED, key_of(audit, pod), of_pod(pod),
                  "pod %s/%s uses GPUs %s of node %s, its plan is for %s", meta->namespace_, meta->name,
                  mask_text(used, pod->owned), pod->at->name, mask_text(planned, pod->resolved));
}

/* Other pods may be planned for the GPUs of a plan that was given up, of a plan whose pod has other GPUs, and
 * of a pod that will never start. */
static bool has_claim(const struct cache_pod *pod, const struct cache_node *node)
{
    return audit_is_planned(pod) && pod->plan->node == node && !pod->pub.refused && !gpus_beside_plan(pod) &&
           (pod->at || !pod->pub.deleting);
}

/* An older pod of the node that is planned for one of those GPUs. */
static const struct cache_pod *conflict_with(const struct cache_pod *pod, const struct cache_node *node)
{
    for (const struct cache_pod *other = node->pods; other != pod; other = other->node_next)
        if (has_claim(other, node) && other->resolved & pod->resolved)
            return other;
    return NULL;
}

static void check_claims(struct gt_audit *audit, const struct cache_node *node)
{
    uint64_t claimed = 0;
    char shared[MASK_TEXT];
    for (const struct cache_pod *pod = node->pods; pod; pod = pod->node_next) {
        if (!has_claim(pod, node))
            continue;
        const struct cache_pod *other = pod->resolved & claimed ? conflict_with(pod, node) : NULL;
        if (other)
            audit_see(audit, GT_FINDING_DOUBLE_PLANNED, key_of(audit, pod), of_pod(pod),
                      "GPUs %s of node %s are in the plans of two pods, %s/%s and %s/%s",
                      mask_text(shared, pod->resolved & other->resolved), node->name,
                      pod->pub.meta.namespace_, pod->pub.meta.name, other->pub.meta.namespace_,
                      other->pub.meta.name);
        claimed |= pod->resolved;
    }
}

/* ---- ResourceClaims of a node ---- */

/* Whether the node's agent reports that its pod has some of the GPUs. */
static bool audit_is_served(const struct cache_node *node, const struct cache_claim *claim, uint64_t gpus)
{
    for (uint32_t i = 0; i < node->cr.owner_count; i++)
        if (node->cr.owners[i].mask & gpus && strcmp(node->cr.owners[i].pod, claim->pub.pod) == 0 &&
            strcmp(node->cr.owners[i].namespace_, claim->pub.namespace_) == 0)
            return true;
    return false;
}

static void see_both(struct gt_audit *audit, const struct cache_node *node, const struct cache_claim *claim,
                     const struct cache_claim *other, uint64_t gpus)
{
    char shared[MASK_TEXT];
    bool served = audit_is_served(node, claim, gpus);
    bool later =
        served == audit_is_served(node, other, gpus) ? strcmp(claim->pub.uid, other->pub.uid) > 0 : !served;
    const struct gt_cache_claim *first = later ? &other->pub : &claim->pub;
    const struct gt_cache_claim *second = later ? &claim->pub : &other->pub;
    audit_see(audit, GT_FINDING_DOUBLE_CLAIMED, gt_digest_mix_text(audit->cache->seed, second->uid),
              of_claim(second),
              "GPUs %s of node %s are in two ResourceClaims, %s/%s and %s/%s; the pod of the second one "
              "waits for the other's end",
              mask_text(shared, gpus), node->name, first->namespace_, first->name, second->namespace_,
              second->name);
}

static void check_resource_claims(struct gt_audit *audit, const struct cache_node *node)
{
    uint64_t claimed = 0;
    for (const struct cache_claim *claim = node->allocated; claim; claim = claim->node_next) {
        uint64_t gpus = gt_cache_claimed_gpus(claim);
        for (const struct cache_claim *other = node->allocated; gpus & claimed && other != claim;
             other = other->node_next) {
            uint64_t shared = gpus & gt_cache_claimed_gpus(other);
            if (shared)
                see_both(audit, node, claim, other, shared);
        }
        claimed |= gpus;
    }
}

/* ---- rounds ---- */

enum { UNPLACED_COST = 10 }; /* such a pod is searched among many findings */

static void count_checked(struct gt_audit *audit, uint32_t pods)
{
    audit->left -= pods < audit->left ? pods : audit->left;
}

/* All pods of a job are checked where its first one is found. A plan is there as well where its node is not
 * known. */
static void check_unplaced(struct gt_audit *audit, const struct gt_cache_job *job)
{
    const char *group = NULL;
    for (const struct gt_cache_pod *at = job->pods; at; at = at->next) {
        const struct cache_pod *pod = (const struct cache_pod *)at;
        if (!pod->at || at->deleting || at->identity.ignored || audit_is_planned(pod) ||
            gt_pod_annotation(&at->meta, GT_KEY_PLAN_RANK))
            continue;
        group = group ? group : audit_texts(audit, job).of[GT_KEY_GROUP];
        if (!group)
            return;
        audit_see(audit, GT_FINDING_UNPLACED, key_of(audit, pod), of_pod(pod),
                  "pod %s/%s runs on node %s without a plan, though its job %s has gpu-group-size %.60s: "
                  "its units may "
                  "lie apart. The webhook did not see the pod, or the size was set later",
                  at->meta.namespace_, at->meta.name, pod->at->name, job->key, group);
        count_checked(audit, UNPLACED_COST);
    }
}

static void audit_check_node(struct gt_audit *audit, const struct cache_node *node)
{
    check_claims(audit, node);
    check_resource_claims(audit, node);
    for (const struct cache_pod *pod = node->pods; pod; pod = pod->node_next) {
        struct cache_job *job = (struct cache_job *)pod->pub.job;
        audit_check_place(audit, pod);
        count_checked(audit, 1);
        if (!pod->at || job->audited == audit->round)
            continue;
        job->audited = audit->round;
        audit_units(audit, &job->pub);
        check_unplaced(audit, &job->pub);
        count_checked(audit, job->pub.pod_count);
    }
}

bool gt_audit_step(struct gt_audit *audit, uint32_t pods, uint64_t now_ms)
{
    const struct gt_table *nodes = &audit->cache->nodes;
    audit->now_ms = now_ms;
    audit->left = pods;
    if (!audit->in_round) {
        audit->in_round = true;
        audit->slot = 0;
        audit->round++;
    }
    for (; audit->slot < nodes->size && audit->left; audit->slot++) {
        count_checked(audit, 1);
        if (nodes->items[audit->slot])
            audit_check_node(audit, nodes->items[audit->slot]);
    }
    if (audit->slot < nodes->size)
        return false;
    audit->in_round = false;
    audit_end_round(audit);
    return true;
}

int gt_audit_new(const struct gt_audit_spec *spec, struct gt_audit **ret, struct gt_err **err)
{
    struct gt_audit *audit = calloc(1, sizeof(*audit));
    GT_NEED(audit, err, "audit");
    audit->spec = *spec;
    audit->cache = spec->cache;
    *ret = audit;
    return 0;
}

void gt_audit_free(struct gt_audit *audit)
{
    if (!audit)
        return;
    for (uint32_t i = 0; i < audit->count; i++)
        audit_free_finding(audit->findings[i]);
    free(audit->locations);
    free(audit);
}
