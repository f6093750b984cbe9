/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/core/plan_rules.h"
#include "tests/unit/core/core_checks.h"
#include "tests/unit/core/core_world.h"

/* Tiers, NUMA nodes, rules between pods, and both rules of the cluster in one plan: each plan is sound, and a
 * job that is placed without the tiers above the supernode is placed with them. */

enum { SUPERS = 8, DOMAINS = 6, NODES = 64, JOBS = 4, PODS = 96, SIZES = 6, ROUNDS = 2000 };

struct site {
    struct gt_cluster *tree, *flat; /* the same nodes and supernodes, with and without domains */
    enum gt_rule rule;
    unsigned tiers; /* above the supernode */
    uint32_t nodes;
    const struct gt_class *class[NODES];
    uint64_t freed[NODES];
    struct gt_node_set excluded;
    struct gt_plan_limit limits[NODES];
    uint32_t limit_count;
    uint64_t free[NODES];               /* for the kubelet */
    struct gt_numa_pod come[NODES][64]; /* pods that will come to it */
    unsigned coming[NODES];
    uint64_t owner;
};

struct request {
    struct world_job job;
    bool one_kind, any_running, any_atoms, uses_sets, several;
    unsigned rule; /* 0: none; else 1 + enum gt_peer_kind */
    struct gt_plan_rules rules;
};

static unsigned draw(uint64_t *random, unsigned below)
{
    return (unsigned)(random_next(random) % below);
}

/* Kinds 0 to 3 have 8 GPUs on two NUMA nodes, 4 has 4, 5 has 16, 6 has 16 on four; 1 to 3, 5 and 6 are
 * judged. */
static uint32_t add_class(struct gt_cluster *cluster, unsigned kind)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights;
    unsigned gpus = kind == 4 ? 4 : kind > 4 ? 16 : 8, parts = kind == 6 ? 4 : 2, each = gpus / parts;
    uint32_t id;

    wire_meshes(&weights, gpus, each, 64, 8);
    if (kind && kind != 4)
        weights.numa = (struct gt_numa){
            .count = parts, .single = kind != 2 && kind != 6, .by_pod = kind == 3, .gpus = {0}};
    for (unsigned d = 0; d < weights.numa.count; d++)
        weights.numa.gpus[d] = ((1u << each) - 1) << d * each;
    assert_return_code(gt_class_new(&weights, &class, NULL), 0);
    assert_return_code(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    return id;
}

static void add_node(struct site *site, uint32_t tree_super, uint32_t flat_super, unsigned judged,
                     uint64_t *random)
{
    unsigned kind = draw(random, 8) < judged ? 1 + draw(random, 4) : draw(random, 4) ? 0 : 4;
    kind = kind == 4 && judged ? 5 + draw(random, 2) : kind;
    uint32_t node = site->nodes++;
    struct gt_cluster_node info;
    char name[16];

    snprintf(name, sizeof(name), "n%u", node);
    assert_int_equal(world_node(site->tree, name, add_class(site->tree, kind), tree_super), node);
    assert_int_equal(world_node(site->flat, name, add_class(site->flat, kind), flat_super), node);
    uint64_t mask = random_next(random) | random_next(random), healthy = UINT64_MAX;
    unsigned use = draw(random, 8);
    mask = use < 4 ? UINT64_MAX : use == 4 ? 0 : mask;
    if (draw(random, 12) == 0)
        healthy = random_next(random);
    for (unsigned i = 0; i < 2; i++) {
        struct gt_cluster *cluster = i ? site->flat : site->tree;
        gt_cluster_set_free(cluster, node, mask);
        gt_cluster_set_healthy(cluster, node, healthy);
    }
    assert_true(gt_cluster_get_node(site->tree, node, &info));
    site->class[node] = info.class;
    site->free[node] = info.available;
}

static void make_site(struct site *site, uint64_t *random)
{
    unsigned domains, tier[DOMAINS], supers = 1 + draw(random, SUPERS), judged = draw(random, 3) * 3;
    bool alike = draw(random, 2);
    uint32_t id[DOMAINS];
    char name[16];

    memset(site, 0, sizeof(*site));
    site->tiers = draw(random, 5);
    domains = site->tiers ? site->tiers + draw(random, DOMAINS - site->tiers + 1) : 0;
    site->tree = world_new();
    site->flat = world_new();
    site->rule = draw(random, 2) ? GT_RULE_CHURN : GT_RULE_STATIC;
    gt_cluster_set_rule(site->tree, site->rule);
    gt_cluster_set_rule(site->flat, site->rule);
    for (unsigned d = 0; d < domains; d++) { /* parents first */
        unsigned above = draw(random, d + 1);

        tier[d] = 1 + site->tiers - d * site->tiers / domains;
        snprintf(name, sizeof(name), "d%u", d);
        id[d] =
            world_super(site->tree, name, tier[d], above < d && tier[above] > tier[d] ? id[above] : GT_NONE);
    }
    for (unsigned s = 0; s < supers; s++) {
        unsigned above = draw(random, domains + 1);
        uint32_t parent = above < domains ? id[above] : GT_NONE, tree = parent, flat = GT_NONE;
        unsigned nodes = alike ? 2 : 1 + draw(random, 4);

        if (draw(random, 6)) {
            snprintf(name, sizeof(name), "s%u", s);
            tree = world_super(site->tree, name, 1, parent);
            flat = world_super(site->flat, name, 1, GT_NONE);
        }
        for (unsigned n = 0; n < nodes; n++)
            add_node(site, tree, flat, judged, random);
    }
    if (draw(random, 2)) { /* sizes in play: given, or learned from jobs that have come and gone */
        struct gt_chain_sizes sizes = {.count = 3, .size = {4, 8u << draw(random, 2), 32}};
        bool learned = draw(random, 2);
        for (unsigned i = 0; i < 2; i++) {
            struct gt_cluster *cluster = i ? site->flat : site->tree;
            if (!learned)
                assert_return_code(gt_chain_set(cluster, &sizes, NULL), 0);
            for (unsigned at = 0; at < 3 && learned; at++) {
                gt_chain_came(cluster, sizes.size[at], 100);
                gt_chain_came(cluster, sizes.size[at], 100);
                gt_chain_gone(cluster, sizes.size[at], 100);
            }
            gt_cluster_set_crowded(cluster, sizes.size[1] == 16);
        }
    }
}

static void free_site(struct site *site)
{
    gt_node_set_done(&site->excluded);
    gt_cluster_free(site->tree);
    gt_cluster_free(site->flat);
}

/* What a caller adds: nodes that are not used, nodes with few other resources, GPUs that count as free. */
static void draw_sets(struct site *site, bool any, uint64_t *random)
{
    gt_node_set_clear(&site->excluded);
    site->limit_count = 0;
    memset(site->freed, 0, sizeof(site->freed));
    for (uint32_t n = 0; n < site->nodes && any; n++) {
        unsigned what = draw(random, 10);
        if (what == 0)
            assert_return_code(gt_node_set_add(&site->excluded, n, NULL), 0);
        else if (what == 1)
            site->limits[site->limit_count++] = (struct gt_plan_limit){n, draw(random, 9)};
        else if (what == 2)
            site->freed[n] = random_next(random) & 0xffff;
    }
}

/* ---- jobs ---- */

/* Pods that run already, some of them on nodes that are gone. */
static void draw_running(struct site *site, struct world_job *job, uint64_t *random)
{
    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        unsigned part = draw(random, 3);
        uint32_t size = unit->atom ? unit->atom : unit->pods, node = GT_NONE, super = GT_NONE;
        for (uint32_t i = 0; i < unit->pods && part; i++) {
            struct gt_plan_pod *pod = &job->pods[unit->first + i];
            struct gt_cluster_node info;
            if (i % size == 0)
                super = GT_NONE;
            if (draw(random, 2))
                continue;
            pod->running = true;
            pod->place.node = GT_NONE;
            if (part == 1)
                continue; /* only unknown ones */
            node = draw(random, site->nodes);
            assert_true(gt_cluster_get_node(site->flat, node, &info));
            if (super != GT_NONE && super != info.supernode)
                continue;
            super = info.supernode;
            pod->place.node = node;
        }
    }
}

static void make_request(struct site *site, struct request *ret, uint64_t *random)
{
    static const unsigned some[SIZES] = {1, 2, 4, 8, 3, 6};
    struct world_job *job = &ret->job;
    unsigned units = 1 + draw(random, 6), gpus = 0, pods = 0, atom = 0, scalar = draw(random, 3);
    bool whole = draw(random, 2);

    memset(ret, 0, sizeof(*ret));
    ret->one_kind = true;
    for (unsigned u = 0; u < units; u++) {
        if (u == 0 || draw(random, 2 + 2 * scalar) == 0) {
            unsigned before = gpus * 100 + pods, atom_before = atom;
            gpus = some[draw(random, draw(random, 3) ? 4 : SIZES)];
            if (u && scalar)
                gpus = before / 100;
            pods = whole && 8 % gpus == 0 ? (1 + draw(random, 2)) * (8 / gpus) : 1 + draw(random, 6);
            atom = draw(random, 4) ? 0 : 1 + draw(random, pods);
            while (atom && pods % atom)
                atom--;
            ret->one_kind &= u == 0 || (before == gpus * 100 + pods && atom % pods == atom_before % pods);
        }
        if (atom == 0 || atom == pods) /* the same */
            atom = draw(random, 2) ? 0 : pods;
        if (job->pod_count + pods > PODS)
            break;
        job->units[job->unit_count++] =
            (struct gt_plan_unit){.first = job->pod_count, .pods = pods, .gpus = gpus, .atom = atom};
        job->pod_count += pods;
        ret->any_atoms |= atom && atom < pods;
    }
    ret->several = draw(random, 4) == 0;
    for (uint32_t u = 0; u < job->unit_count && ret->several; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        struct gt_numa_pod all = world_numa_pod(unit->gpus, random);
        bool equal = draw(random, 2);
        for (uint32_t i = unit->first; i < unit->first + unit->pods; i++)
            job->pods[i].requests = (equal ? all : world_numa_pod(unit->gpus, random)).requests;
    }
    if (draw(random, 4) == 0)
        draw_running(site, job, random);
    for (uint32_t i = 0; i < job->pod_count; i++)
        ret->any_running |= job->pods[i].running;
    ret->uses_sets = draw(random, 4) == 0;
    if (!ret->any_running && draw(random, 4) == 0)
        ret->rule = 1 + draw(random, 3);
}

/* One rule for all pods of the job: zones of a third of the nodes, or single nodes. */
static void make_rules(const struct site *site, struct request *request, uint64_t *random)
{
    bool by_node = request->rule != 1 + GT_PEER_TOGETHER && draw(random, 2);
    struct gt_plan_rule *rule = &request->rules.rules[0];

    request->rules = (struct gt_plan_rules){.sorts = 1, .count = 1};
    request->rules.sort = calloc(PODS, 1);
    *rule = (struct gt_plan_rule){.kind = (enum gt_peer_kind)(request->rule - 1),
                                  .domains = by_node ? site->nodes : 3,
                                  .who = 1,
                                  .with = 1,
                                  .skew = 1 + draw(random, 3)};
    if (by_node)
        return;
    rule->domain = calloc(NODES, sizeof(*rule->domain));
    for (uint32_t n = 0; n < site->nodes; n++)
        rule->domain[n] = n * 3 / site->nodes;
}

static bool plan(struct gt_cluster *cluster, const struct site *site, struct request *request)
{
    struct world_job *job = &request->job;
    struct gt_plan_request asked = world_request(job);

    if (request->uses_sets) {
        asked.excluded = &site->excluded;
        asked.freed = site->freed;
        asked.limits = site->limits;
        asked.limit_count = site->limit_count;
    }
    if (request->rule)
        asked.rules = &request->rules;
    job->placed = gt_plan_ruled(cluster, &asked, &job->failure);
    return job->placed;
}

/* ---- checks ---- */

static uint32_t super_of(const struct gt_cluster *cluster, uint32_t node)
{
    struct gt_cluster_node info;

    assert_true(gt_cluster_get_node(cluster, node, &info));
    return info.supernode;
}

/* The domain of tier `tier` that a supernode is in; where there is none, the highest one below. */
static uint32_t group_of(const struct gt_cluster *cluster, uint32_t super, unsigned tier)
{
    struct gt_cluster_supernode at, above;

    for (;; super = at.parent) {
        assert_true(gt_cluster_get_supernode(cluster, super, &at));
        if (at.parent == GT_NONE || !gt_cluster_get_supernode(cluster, at.parent, &above) ||
            above.tier > tier)
            return super;
    }
}

static void expect_contiguous(const struct gt_cluster *cluster, const struct world_job *job)
{
    for (unsigned tier = 1; tier <= 5; tier++) {
        uint32_t seen[PODS], count = 0;

        for (uint32_t p = 0; p < job->pod_count; p++) {
            uint32_t group = group_of(cluster, super_of(cluster, job->pods[p].place.node), tier);

            if (count && seen[count - 1] == group)
                continue;
            for (uint32_t i = 0; i < count; i++)
                assert_int_not_equal(seen[i], group);
            seen[count++] = group;
        }
    }
}

/* The kubelet admits the pods that come to its node in an order by chance. */
static bool kubelet_admits(const struct gt_class *class, uint64_t free, const struct gt_numa_pod *pods,
                           unsigned count, uint64_t *random)
{
    struct gt_numa_pod left[128];

    memcpy(left, pods, count * sizeof(*left));
    for (; count; count--) {
        unsigned next = draw(random, count);
        if (!world_kubelet_admits(class, &free, left[next], random))
            return false;
        left[next] = left[count - 1];
    }
    return true;
}

static void check_sound(const struct site *site, const struct gt_cluster *cluster,
                        const struct request *request, uint64_t *random)
{
    const struct world_job *job = &request->job;
    uint64_t taken[NODES] = {0};
    struct gt_numa_pod come[NODES][128];
    unsigned counts[NODES] = {0};

    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t run = unit->atom ? unit->atom : unit->pods, super = GT_NONE;

        for (uint32_t i = 0; i < unit->pods; i++) {
            const struct gt_plan_pod *pod = &job->pods[unit->first + i];
            if (i % run == 0)
                super = GT_NONE;
            if (pod->running && pod->place.node == GT_NONE)
                continue;
            uint32_t node = pod->place.node, own = super_of(cluster, node);
            assert_true(super == GT_NONE || super == own);
            super = own;
            if (pod->running)
                continue;
            struct gt_cluster_node info;
            assert_true(gt_cluster_get_node(cluster, node, &info));
            uint64_t can = info.available;
            if (request->uses_sets) {
                can = (info.free | site->freed[node]) & info.healthy & ~info.assumed;
                assert_false(gt_node_set_has(&site->excluded, node));
            }
            assert_int_equal(gt_bit_count(pod->place.mask), unit->gpus);
            assert_int_equal(pod->place.mask & ~(can & ~taken[node]), 0);
            const struct gt_numa *numa = gt_class_numa(info.class);
            unsigned parts = 0;
            for (unsigned d = 0; d < numa->count; d++)
                parts += (pod->place.mask & numa->gpus[d]) != 0;
            if (!gt_numa_by_request(numa, pod->requests) && unit->gpus <= gt_numa_largest(numa))
                assert_int_equal(parts, 1);
            taken[node] |= pod->place.mask;
            come[node][counts[node]++] = (struct gt_numa_pod){unit->gpus, pod->requests};
        }
        if (unit->supernode != GT_NONE)
            for (uint32_t i = 0; i < unit->pods; i++) {
                uint32_t node = job->pods[unit->first + i].place.node, common = unit->supernode;
                assert_true(node == GT_NONE ||
                            (gt_cluster_widen(cluster, node, &common) && common == unit->supernode));
            }
    }
    for (uint32_t n = 0; n < site->nodes; n++) { /* with the pods that are to come */
        uint64_t free = site->free[n] | (request->uses_sets ? site->freed[n] : 0);
        struct gt_cluster_node info;
        assert_true(gt_cluster_get_node(cluster, n, &info));
        if (!counts[n])
            continue;
        memcpy(come[n] + counts[n], site->come[n], site->coming[n] * sizeof(**site->come));
        assert_true(kubelet_admits(site->class[n], free & info.healthy & info.all, come[n],
                                   counts[n] + site->coming[n], random));
    }
    for (uint32_t i = 0; request->uses_sets && i < site->limit_count; i++)
        assert_true(gt_bit_count(taken[site->limits[i].node]) <= site->limits[i].gpus);
}

static void check_rules(const struct site *site, const struct request *request)
{
    const struct gt_plan_rule *rule = &request->rules.rules[0];
    unsigned pods[NODES] = {0}, most = 0, least = UINT32_MAX, used = 0;

    for (uint32_t i = 0; i < request->job.pod_count; i++) {
        uint32_t node = request->job.pods[i].place.node;
        pods[rule->domain ? rule->domain[node] : node]++;
    }
    for (uint32_t d = 0; d < rule->domains; d++) {
        most = pods[d] > most ? pods[d] : most;
        least = pods[d] < least ? pods[d] : least;
        used += pods[d] > 0;
    }
    (void)site;
    assert_true(rule->kind != GT_PEER_APART || most <= 1);
    assert_true(rule->kind != GT_PEER_TOGETHER || used == 1);
    assert_true(rule->kind != GT_PEER_SPREAD || most - least <= rule->skew);
}

/* Slots of each supernode with units, in how many units: sorted, the same with and without tiers. */
static void kinds_of(const struct site *site, const struct gt_cluster *cluster, const struct world_job *job,
                     uint64_t *ret)
{
    unsigned gpus = job->units[0].gpus;

    memset(ret, 0, NODES * sizeof(*ret));
    for (uint32_t n = 0; n < site->nodes; n++) {
        uint32_t super = super_of(cluster, n), first = n;
        struct gt_cluster_node info;
        assert_true(gt_cluster_get_node(cluster, n, &info));
        for (uint32_t other = 0; other < n && first == n; other++)
            first = super_of(cluster, other) == super ? other : first;
        ret[first] += gt_numa_pods(cluster, n, info.available, (struct gt_numa_pod){gpus, 0});
        ret[first] += (uint64_t)(gt_bit_count(info.healthy & info.all) / gpus) << 16;
        for (uint32_t i = 0; i < job->pod_count; i++)
            ret[first] += (uint64_t)(job->pods[i].place.node == n) << 32;
    }
    for (uint32_t n = 0; n < NODES; n++) {
        ret[n] = ret[n] >> 32 ? ret[n] : 0;
        for (uint32_t at = n; at && ret[at - 1] > ret[at]; at--) {
            uint64_t moving = ret[at];
            ret[at] = ret[at - 1];
            ret[at - 1] = moving;
        }
    }
}

static bool is_equal_plan(const struct world_job *a, const struct world_job *b)
{
    bool equal = a->placed == b->placed;

    for (uint32_t i = 0; i < a->pod_count && equal && a->placed; i++)
        equal =
            a->pods[i].place.node == b->pods[i].place.node && a->pods[i].place.mask == b->pods[i].place.mask;
    for (uint32_t u = 0; u < a->unit_count && equal && a->placed; u++)
        equal = a->units[u].supernode == b->units[u].supernode && a->units[u].with == b->units[u].with &&
                a->units[u].atom == b->units[u].atom;
    return equal;
}

/* Promises the plan in both clusters; ids[0] are those of the tree. */
static void promise(struct site *site, const struct world_job *job, struct gt_promise_id ids[2][PODS])
{
    site->owner++;
    for (uint32_t i = 0; i < job->pod_count; i++) {
        const struct gt_plan_pod *pod = &job->pods[i];
        if (pod->running)
            continue;
        for (unsigned c = 0; c < 2; c++)
            assert_return_code(gt_cluster_promise(c ? site->flat : site->tree,
                                                  &(struct gt_promise){GT_PROMISE_PLANNED, pod->place,
                                                                       site->owner, pod->requests, 0, 0},
                                                  &ids[c][i], NULL),
                               0);
    }
}

static struct {
    unsigned placed, refused, exchanged, judged, by_rules, running, only_tree;
} counts;

static void plan_one(struct site *site, uint64_t *random)
{
    struct gt_promise_id ids[2][PODS] = {{{0, 0}}};
    struct request tree, flat, again;
    uint64_t mine[NODES], named[NODES];
    gt_auto_buf struct gt_buf before = GT_BUF(1 << 20), after = GT_BUF(1 << 20);

    make_request(site, &tree, random);
    draw_sets(site, tree.uses_sets, random);
    if (tree.rule)
        make_rules(site, &tree, random);
    flat = again = tree;
    world_dump(site->tree, &before);
    bool placed = plan(site->tree, site, &tree), without = plan(site->flat, site, &flat);
    if (without && !placed)
        fail_msg("closeness refuses a job of %u units, rule %u, running %d, one kind %d: inexact %d",
                 tree.job.unit_count, tree.rule, tree.any_running, tree.one_kind, tree.job.failure.inexact);
    if (placed && !without)
        assert_true(flat.job.failure.inexact || !tree.one_kind || tree.any_running); /* by chance */
    counts.only_tree += placed && !without;
    counts.placed += placed;
    counts.refused += !placed;
    counts.by_rules += placed && tree.rule;
    counts.running += placed && tree.any_running;
    if (placed) {
        check_sound(site, site->tree, &tree, random);
        if (tree.rule)
            check_rules(site, &tree);
    }
    if (without)
        check_sound(site, site->flat, &flat, random);
    for (uint32_t u = 0; u < tree.job.unit_count; u++)
        assert_int_equal(tree.job.units[u].atom, again.job.units[u].atom); /* as it was asked */
    if (placed && without && tree.one_kind && !tree.any_atoms && !tree.any_running && !tree.rule) {
        if (!tree.uses_sets && !tree.several) {
            kinds_of(site, site->tree, &tree.job, mine);
            kinds_of(site, site->flat, &flat.job, named);
            assert_memory_equal(mine, named, sizeof(mine));
        }
        if (site->rule == GT_RULE_STATIC || tree.job.units[0].gpus * tree.job.units[0].pods >= 16)
            if (site->tiers)
                expect_contiguous(site->tree, &tree.job);
        for (uint32_t i = 0; i < tree.job.pod_count; i++)
            if (tree.job.pods[i].place.node != flat.job.pods[i].place.node) {
                counts.exchanged++;
                break;
            }
    }
    for (uint32_t i = 0; i < tree.job.pod_count && placed; i++)
        if (!tree.job.pods[i].running && gt_class_numa(site->class[tree.job.pods[i].place.node])->count) {
            counts.judged++;
            break;
        }
    if (draw(random, 2)) { /* another plan between */
        struct request other;
        make_request(site, &other, random);
        other.rule = 0;
        other.uses_sets = false;
        plan(site->tree, site, &other);
    }
    if (placed && !tree.uses_sets && draw(random, 2)) {
        promise(site, &tree.job, ids);
        for (uint32_t i = 0; i < tree.job.pod_count; i++)
            for (unsigned c = 0; c < 2; c++)
                gt_cluster_end_promise(c ? site->flat : site->tree, ids[c][i]);
    }
    plan(site->tree, site, &again);
    assert_true(is_equal_plan(&tree.job, &again.job));
    world_dump(site->tree, &after);
    assert_string_equal(before.data, after.data);
    world_check(site->tree);
    gt_plan_rules_done(&tree.rules);
    if (!placed || tree.uses_sets || draw(random, 2))
        return;
    promise(site, &tree.job, ids);
    for (uint32_t i = 0; i < tree.job.pod_count; i++)
        if (!tree.job.pods[i].running) {
            uint32_t node = tree.job.pods[i].place.node;
            site->come[node][site->coming[node]++] =
                (struct gt_numa_pod){gt_bit_count(tree.job.pods[i].place.mask), tree.job.pods[i].requests};
        }
}

static void plans_are_sound_and_closeness_refuses_nothing(void **state)
{
    uint64_t random = test_seed();
    (void)state;

    for (unsigned round = 0; round < test_rounds(ROUNDS); round++) {
        struct site site;

        make_site(&site, &random);
        for (unsigned job = 0; job < JOBS; job++)
            plan_one(&site, &random);
        free_site(&site);
    }
    printf("%u placed, %u refused; %u exchanged, %u on judged nodes, %u by rules, %u with running pods, %u "
           "only with tiers\n",
           counts.placed, counts.refused, counts.exchanged, counts.judged, counts.by_rules, counts.running,
           counts.only_tree);
    unsigned few = test_rounds(ROUNDS) / 100;
    assert_true(counts.exchanged > few && counts.judged > few && counts.by_rules > few &&
                counts.running > few);
}

/* ---- cases that were found ---- */

static void super_of_free(struct gt_cluster *cluster, const char *name, uint32_t leaf, unsigned nodes,
                          uint64_t free)
{
    uint32_t super = world_super(cluster, name, 1, leaf), first = gt_cluster_nodes(cluster);
    world_nodes(cluster, name, nodes, add_class(cluster, 0), super);
    for (uint32_t n = first; n < first + nodes; n++)
        gt_cluster_set_free(cluster, n, free);
}

/* 4 and 6 free GPUs are equal for a pod of 4. Where it is taken to the 6, beside another pod of the job, the
 * second one of 3 has no room. */
static void later_units_are_not_refused(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t other = world_super(cluster, "other", 2, GT_NONE), own = world_super(cluster, "own", 2, GT_NONE);
    struct world_job job;
    (void)state;

    gt_cluster_set_rule(cluster, GT_RULE_STATIC);
    super_of_free(cluster, "four", other, 1, 0x0f);
    super_of_free(cluster, "six", own, 1, 0x3f);
    super_of_free(cluster, "full", own, 1, 0);
    world_job(&job, 4, 1, 4, 0);
    job.units[2].gpus = job.units[3].gpus = 3;
    job.pods[0] = (struct gt_plan_pod){.running = true, .place.node = 2};
    assert_true(world_plan(cluster, &job));
    gt_cluster_free(cluster);
}

/* Units of which a pod runs on a node that is gone need less room than others: each stays where it fits. */
static void units_with_pods_elsewhere_fit(void **state)
{
    struct gt_cluster *cluster = world_new();
    uint32_t far = world_super(cluster, "far", 2, GT_NONE), own = world_super(cluster, "own", 2, GT_NONE);
    struct world_job job;
    (void)state;

    gt_cluster_set_rule(cluster, GT_RULE_STATIC);
    super_of_free(cluster, "four-0", far, 4, 0xff);
    super_of_free(cluster, "four-1", own, 4, 0xff);
    super_of_free(cluster, "three", own, 3, 0xff);
    world_job(&job, 4, 2, 8, 0);
    job.pods[0] = (struct gt_plan_pod){.running = true, .place.node = GT_NONE};
    const struct gt_plan_request request = world_request(&job);
    assert_true(gt_plan_job(cluster, &request, &job.failure));
    for (unsigned i = 1; i < 8; i++)
        assert_true(group_of(cluster, super_of(cluster, job.pods[i].place.node), 2) == own);
    gt_cluster_free(cluster);
}

/* The leaf that holds the job lies in two zones; its pods belong into one, and are too many for a search. */
static void closeness_breaks_no_rule(void **state)
{
    enum { IN_EACH = 66, ALL = 2 * IN_EACH * 64 };
    struct gt_cluster *cluster = world_new();
    uint32_t class = world_class(cluster, 64, 8), near = world_super(cluster, "near", 2, GT_NONE),
             far = world_super(cluster, "far", 2, GT_NONE);
    struct gt_plan_unit units[2] = {{.pods = ALL / 2, .gpus = 1},
                                    {.first = ALL / 2, .pods = ALL / 2, .gpus = 1}};
    struct gt_plan_pod *pods = calloc(ALL, sizeof(*pods));
    struct gt_plan_rules rules = {.sorts = 1, .count = 1, .sort = calloc(ALL, 1)};
    struct gt_plan_failure failure;
    struct gt_cluster_node info;
    char name[16];
    (void)state;

    for (unsigned s = 0; s < 3; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        world_nodes(cluster, name, IN_EACH, class, world_super(cluster, name, 1, s == 1 ? far : near));
    }
    rules.rules[0] = (struct gt_plan_rule){.kind = GT_PEER_TOGETHER,
                                           .who = 1,
                                           .with = 1,
                                           .domains = 2,
                                           .domain = calloc(3 * IN_EACH, sizeof(uint32_t))};
    for (unsigned n = 2 * IN_EACH; n < 3 * IN_EACH; n++)
        rules.rules[0].domain[n] = 1;
    assert_true(
        gt_plan_ruled(cluster,
                      &(struct gt_plan_request){
                          .units = units, .unit_count = 2, .pods = pods, .pod_count = ALL, .rules = &rules},
                      &failure));
    for (unsigned i = 0; i < ALL; i++) {
        assert_true(gt_cluster_get_node(cluster, pods[i].place.node, &info));
        assert_true(pods[i].place.node < 2 * IN_EACH);
    }
    gt_plan_rules_done(&rules);
    free(pods);
    gt_cluster_free(cluster);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(later_units_are_not_refused),
        cmocka_unit_test(units_with_pods_elsewhere_fit),
        cmocka_unit_test(closeness_breaks_no_rule),
        cmocka_unit_test(plans_are_sound_and_closeness_refuses_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
