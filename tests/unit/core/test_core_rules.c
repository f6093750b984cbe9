/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "scheduler-ext/core/plan_rules.h"
#include "tests/unit/core/core_world.h"

/* Plans under rules between pods, against every way to place them, each bound pod by pod as a scheduler does
 * it: a plan is good if all its pods get bound in the end. In any order, and a job that waits has no good
 * plan, unless rules wait for each other: then in the order of ranks, where a refused pod is tried again
 * after the others. With `in_order` none is tried again. */

enum { NODES = 5, PODS = 5, SORTS = 2, RULES = 2, ZONES = 3 };

struct ruled {
    struct gt_cluster *cluster;
    unsigned nodes, free[NODES], super[NODES], supers;
    struct gt_plan_unit units[PODS];
    struct gt_plan_pod pods[PODS];
    uint8_t sort[PODS];
    unsigned unit_count, pod_count, gpus[PODS], run[PODS]; /* of each pod */
    struct gt_plan_rules rules;
    bool tangled; /* several rules by which pods wait for others, or for others than their own sort */
    uint32_t domain[RULES][NODES], there[RULES][NODES];
};

static unsigned draw(uint64_t *random, unsigned below)
{
    return (unsigned)(random_next(random) % below);
}

static void make_rule(struct ruled *ruled, unsigned at, uint64_t *random)
{
    struct gt_plan_rule *rule = &ruled->rules.rules[at];
    *rule = (struct gt_plan_rule){.kind = (enum gt_peer_kind)draw(random, 4),
                                  .domains = ZONES,
                                  .who = 1 + draw(random, 3),
                                  .with = 1 + draw(random, 3),
                                  .skew = 1 + draw(random, 2),
                                  .fewest = draw(random, 4)};
    bool takes = rule->kind == GT_PEER_TAKE;
    bool by_node = takes || draw(random, 3) == 0;
    unsigned domains = by_node ? ruled->nodes : ZONES;
    for (unsigned n = 0; n < ruled->nodes; n++)
        ruled->domain[at][n] = by_node ? n : draw(random, 9) ? draw(random, ZONES) : GT_NONE;
    for (unsigned d = 0; d < domains; d++) {
        unsigned there = draw(random, 3);
        ruled->there[at][d] = rule->kind == GT_PEER_SPREAD ? (draw(random, 8) ? there : GT_NONE)
                              : takes                      ? draw(random, 6)
                              : rule->kind == GT_PEER_TOGETHER && draw(random, 2) ? there / 2
                                                                                  : 0;
    }
    if (rule->kind == GT_PEER_TOGETHER && draw(random, 2))
        memset(ruled->there[at], 0, sizeof(ruled->there[at]));
    if (!by_node) {
        rule->domain = calloc(NODES, sizeof(*rule->domain));
        memcpy(rule->domain, ruled->domain[at], sizeof(ruled->domain[at]));
    }
    if (takes) {
        rule->with = rule->who;
        rule->take = calloc(SORTS, sizeof(*rule->take));
        for (unsigned s = 0; s < SORTS; s++)
            rule->take[s] = rule->who >> s & 1 ? 1 + draw(random, 3) : 0;
    }
    rule->there = calloc(NODES, sizeof(*rule->there));
    memcpy(rule->there, ruled->there[at], sizeof(ruled->there[at]));
}

static void make(struct ruled *ruled, uint64_t *random)
{
    *ruled = (struct ruled){.cluster = world_new(), .nodes = 2 + draw(random, NODES - 1)};
    uint32_t class = world_class(ruled->cluster, 8, 4), supers[ZONES];
    char name[16];
    ruled->supers = 1 + draw(random, 2);
    for (unsigned s = 0; s < ruled->supers; s++) {
        snprintf(name, sizeof(name), "s%u", s);
        supers[s] = world_super(ruled->cluster, name, 1, GT_NONE);
    }
    for (unsigned n = 0; n < ruled->nodes; n++) {
        snprintf(name, sizeof(name), "n%u", n);
        ruled->super[n] = draw(random, ruled->supers);
        uint32_t node = world_node(ruled->cluster, name, class, supers[ruled->super[n]]);
        ruled->free[n] = draw(random, 3) ? 8 : draw(random, 9);
        gt_cluster_set_free(ruled->cluster, node, world_mask(ruled->free[n], 8, random));
    }
    unsigned gpus = 2 + draw(random, 3), sorts = 1 + draw(random, SORTS);
    while (ruled->pod_count < PODS && (!ruled->unit_count || draw(random, 3))) {
        unsigned most = PODS - ruled->pod_count, pods = 1 + draw(random, most < 4 ? most : 4);
        unsigned atom = pods % 2 == 0 && draw(random, 3) == 0 ? pods / 2 : 0;
        if (!draw(random, 6))
            gpus = 1 + draw(random, 6);
        ruled->units[ruled->unit_count] =
            (struct gt_plan_unit){.first = ruled->pod_count, .pods = pods, .gpus = gpus, .atom = atom};
        for (unsigned p = 0; p < pods; p++) {
            ruled->gpus[ruled->pod_count] = gpus;
            ruled->run[ruled->pod_count] = ruled->unit_count * 8 + (atom ? p / atom : 0);
            ruled->sort[ruled->pod_count] = (uint8_t)draw(random, sorts);
            ruled->pods[ruled->pod_count++] = (struct gt_plan_pod){.place.node = draw(random, NODES)};
        }
        ruled->unit_count++;
    }
    ruled->rules = (struct gt_plan_rules){
        .sorts = SORTS, .count = 1 + draw(random, RULES), .in_order = draw(random, 3) == 0};
    ruled->rules.sort = calloc(PODS, 1);
    memcpy(ruled->rules.sort, ruled->sort, PODS);
    for (unsigned s = 0; s < SORTS; s++)
        for (unsigned n = 0; n < ruled->nodes; n++)
            if (!draw(random, 8))
                gt_node_set_add(&ruled->rules.barred[s], n, NULL);
    for (unsigned i = 0, waits = 0; i < ruled->rules.count; i++) {
        make_rule(ruled, i, random);
        const struct gt_plan_rule *rule = &ruled->rules.rules[i];
        if (rule->kind == GT_PEER_APART || rule->kind == GT_PEER_TAKE)
            continue;
        bool seeds = rule->kind == GT_PEER_TOGETHER && !(rule->who & rule->with);
        ruled->tangled |= waits++ || (rule->who != rule->with && !seeds);
    }
}

/* ---- the scheduler, as it is documented ---- */

struct bound {
    const struct ruled *ruled;
    const unsigned *node; /* of each pod */
    bool is[PODS];
};

static unsigned pods_in(const struct bound *bound, unsigned at, uint64_t sorts, uint32_t domain)
{
    unsigned count = 0;
    for (unsigned i = 0; i < bound->ruled->pod_count; i++)
        count += bound->is[i] && sorts >> bound->ruled->sort[i] & 1 &&
                 bound->ruled->domain[at][bound->node[i]] == domain;
    return count;
}

static unsigned taken_on(const struct bound *bound, unsigned at, uint32_t node)
{
    unsigned taken = 0;
    for (unsigned i = 0; i < bound->ruled->pod_count; i++)
        taken += bound->is[i] && bound->node[i] == node
                     ? bound->ruled->rules.rules[at].take[bound->ruled->sort[i]]
                     : 0;
    return taken;
}

static bool passes(const struct bound *bound, unsigned pod, unsigned at)
{
    const struct ruled *ruled = bound->ruled;
    const struct gt_plan_rule *rule = &ruled->rules.rules[at];
    bool who = rule->who >> ruled->sort[pod] & 1, with = rule->with >> ruled->sort[pod] & 1;
    uint32_t domain = ruled->domain[at][bound->node[pod]], domains = rule->domain ? ZONES : ruled->nodes;
    const uint32_t *there = ruled->there[at];
    if (rule->kind == GT_PEER_APART)
        return domain == GT_NONE || ((!who || !pods_in(bound, at, rule->with, domain)) &&
                                     (!with || !pods_in(bound, at, rule->who, domain)));
    if (!who)
        return true;
    if (rule->kind == GT_PEER_TAKE)
        return taken_on(bound, at, domain) + rule->take[ruled->sort[pod]] <= there[domain];
    if (domain == GT_NONE)
        return false;
    if (rule->kind == GT_PEER_TOGETHER) {
        bool any = false;
        for (uint32_t d = 0; d < domains; d++)
            any |= there[d] || pods_in(bound, at, rule->with, d);
        return there[domain] || pods_in(bound, at, rule->with, domain) || (!any && with);
    }
    uint32_t least = UINT32_MAX, counted = 0;
    for (uint32_t d = 0; d < domains; d++)
        if (there[d] != GT_NONE) {
            uint32_t pods = there[d] + pods_in(bound, at, rule->with, d);
            least = pods < least ? pods : least;
            counted++;
        }
    if (there[domain] == GT_NONE)
        return false;
    if (counted < rule->fewest)
        least = 0;
    return there[domain] + pods_in(bound, at, rule->with, domain) + with - least <= rule->skew;
}

static bool passes_all(const struct bound *bound, unsigned pod)
{
    bool may = !bound->is[pod];
    for (unsigned r = 0; r < bound->ruled->rules.count && may; r++)
        may = passes(bound, pod, r);
    return may;
}

static bool gets_bound_in_order(struct bound *bound)
{
    for (unsigned pod = 0; pod < bound->ruled->pod_count; pod++)
        if (!(bound->is[pod] = passes_all(bound, pod)))
            return false;
    return true;
}

static bool gets_bound_by_rank(struct bound *bound)
{
    unsigned left = bound->ruled->pod_count;
    for (bool more = true; more;) {
        more = false;
        for (unsigned pod = 0; pod < bound->ruled->pod_count; pod++)
            if (passes_all(bound, pod)) {
                bound->is[pod] = more = true;
                left--;
            }
    }
    return !left;
}

/* Whether the others get bound whatever the order; `seen` has a bit for each set of bound pods. */
static bool gets_bound(struct bound *bound, unsigned pods, uint32_t *seen)
{
    const struct ruled *ruled = bound->ruled;
    if (*seen >> pods & 1)
        return true;
    *seen |= UINT32_C(1) << pods;
    bool any = pods == (1u << ruled->pod_count) - 1;
    for (unsigned pod = 0; pod < ruled->pod_count; pod++) {
        if (!passes_all(bound, pod))
            continue;
        any = true;
        bound->is[pod] = true;
        bool all = gets_bound(bound, pods | 1u << pod, seen);
        bound->is[pod] = false;
        if (!all)
            return false;
    }
    return any;
}

static bool is_good(const struct ruled *ruled, const unsigned *node)
{
    unsigned taken[NODES] = {0};
    for (unsigned i = 0; i < ruled->pod_count; i++) {
        taken[node[i]] += ruled->gpus[i];
        if (taken[node[i]] > ruled->free[node[i]] ||
            gt_node_set_has(&ruled->rules.barred[ruled->sort[i]], node[i]) ||
            (i && ruled->run[i] == ruled->run[i - 1] && ruled->super[node[i]] != ruled->super[node[i - 1]]))
            return false;
    }
    struct bound bound = {.ruled = ruled, .node = node};
    uint32_t seen = 0;
    if (ruled->rules.in_order)
        return gets_bound_in_order(&bound);
    return ruled->tangled ? gets_bound_by_rank(&bound) : gets_bound(&bound, 0, &seen);
}

static bool any_is_good(const struct ruled *ruled, unsigned *node, unsigned pod)
{
    if (pod == ruled->pod_count || pod == PODS)
        return is_good(ruled, node);
    for (node[pod] = 0; node[pod] < ruled->nodes; node[pod]++)
        if (ruled->gpus[pod] <= ruled->free[node[pod]] && any_is_good(ruled, node, pod + 1))
            return true;
    return false;
}

/* `wider`: first without the nodes that are barred to any pod. */
static bool plan(struct ruled *ruled, bool wider, struct gt_plan_failure *ret_failure)
{
    struct gt_node_set none = {0}, any = {0};
    const struct gt_plan_request request = {.units = ruled->units,
                                            .unit_count = ruled->unit_count,
                                            .pods = ruled->pods,
                                            .pod_count = ruled->pod_count,
                                            .excluded = &any,
                                            .rules = &ruled->rules};
    for (unsigned n = 0; n < ruled->nodes && wider; n++)
        if (gt_node_set_has(&ruled->rules.barred[0], n) || gt_node_set_has(&ruled->rules.barred[1], n))
            assert_int_equal(gt_node_set_add(&any, n, NULL), 0);
    ruled->rules.excluded = wider ? &none : NULL;
    bool placed = gt_plan_ruled(ruled->cluster, &request, ret_failure);
    gt_node_set_done(&any);
    return placed;
}

static void keeps_the_rules(void **state)
{
    uint64_t random = test_seed();
    unsigned placed = 0, waits = 0, ruled_out = 0, searched = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(20000); round++) {
        struct ruled ruled;
        struct gt_plan_failure failure;
        unsigned node[PODS];
        make(&ruled, &random);
        bool found = plan(&ruled, draw(&random, 2), &failure);
        if (found) {
            uint64_t masks[NODES] = {0};
            for (unsigned i = 0; i < ruled.pod_count; i++) {
                struct gt_cluster_node info;
                node[i] = ruled.pods[i].place.node;
                assert_true(gt_cluster_get_node(ruled.cluster, node[i], &info));
                assert_int_equal(__builtin_popcountll(ruled.pods[i].place.mask), ruled.gpus[i]);
                assert_int_equal(ruled.pods[i].place.mask & ~(info.available & ~masks[node[i]]), 0);
                masks[node[i]] |= ruled.pods[i].place.mask;
            }
            assert_true(is_good(&ruled, node));
            placed++;
            searched += ruled.units[0].searched;
        } else {
            assert_false(failure.inexact); /* so small a job is searched for to the end */
            assert_true(ruled.tangled || !any_is_good(&ruled, node, 0));
            waits += !ruled.tangled;
            ruled_out += failure.reason == GT_PLAN_RULED;
        }
        gt_plan_rules_done(&ruled.rules);
        gt_cluster_free(ruled.cluster);
    }
    printf("%u placed, %u of them by search; %u wait for good, %u wait for rules\n", placed, searched, waits,
           ruled_out);
    assert_true(placed > test_rounds(20000) / 10 && ruled_out > test_rounds(20000) / 20);
    assert_true(searched > test_rounds(20000) / 20);
}

static unsigned left; /* so many of calloc() succeed, then one fails; 0: all succeed */

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size)
{
    return left && --left == 0 ? NULL : __real_calloc(count, size);
}

/* Whichever memory is lacking: nothing is freed twice, or used after that. */
static void ends_without_memory(void **state)
{
    uint64_t random = test_seed();
    unsigned lacked = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(1000); round++) {
        struct ruled ruled;
        struct gt_plan_failure failure = {0};
        make(&ruled, &random);
        for (unsigned at = 1; at < 8; at++) {
            left = at;
            plan(&ruled, at % 2, &failure);
            lacked += !left;
            left = 0;
        }
        gt_plan_rules_done(&ruled.rules);
        gt_cluster_free(ruled.cluster);
    }
    assert_true(lacked > test_rounds(1000));
}

/* A member that has a place, and no pod yet, takes of what is left there, too. */
static void running_pods_take(void **state)
{
    uint32_t there[] = {3}, take[] = {1};
    uint8_t sort[4] = {0};
    (void)state;
    for (there[0] = 3; there[0] < 5; there[0]++) {
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        uint32_t class = world_class(cluster, 8, 4);
        uint32_t node = world_node(cluster, "n", class, world_super(cluster, "s", 1, GT_NONE));
        struct gt_plan_unit unit = {.pods = 4, .gpus = 1};
        struct gt_plan_pod pods[] = {{.running = true, .place.node = node}, {0}, {0}, {0}};
        struct gt_plan_rules rules = {
            .sort = sort,
            .sorts = 1,
            .rules = {{.kind = GT_PEER_TAKE, .who = 1, .with = 1, .there = there, .take = take}},
            .count = 1};
        const struct gt_plan_request request = {
            .units = &unit, .unit_count = 1, .pods = pods, .pod_count = 4, .rules = &rules};
        struct gt_plan_failure failure;
        assert_int_equal(gt_plan_ruled(cluster, &request, &failure), there[0] == 4);
    }
}

/* Pods that may run on different nodes lie in one domain all the same, where the job asks for it. */
static void kinds_stay_in_the_domain(void **state)
{
    uint8_t sort[] = {0, 1};
    (void)state;
    for (unsigned fits = 0; fits < 3; fits++) {
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        uint32_t class = world_class(cluster, 8, 4), node[4];
        static const char *const names[] = {"a0", "a1", "b0", "b1"};
        for (unsigned n = 0, super = 0; n < 4; n++) {
            super = n % 2 ? super : world_super(cluster, n ? "b" : "a", 1, GT_NONE);
            node[n] = world_node(cluster, names[n], class, super);
        }
        struct gt_plan_unit units[] = {{.pods = 1, .gpus = 8}, {.first = 1, .pods = 1, .gpus = 8}};
        struct gt_plan_pod pods[2] = {{0}};
        struct gt_plan_rules rules = {.sort = sort, .sorts = 2};
        struct gt_node_set all = {0}, none = {0};
        for (unsigned n = 0; n < 4; n++) {
            bool of_first = n == 0 || (fits == 1 && n == 2), of_second = n > 2;
            if (fits < 2) /* then rules alone bar the nodes */
                assert_int_equal(gt_node_set_add(&all, node[n], NULL), 0);
            if (!of_first)
                assert_int_equal(gt_node_set_add(&rules.barred[0], node[n], NULL), 0);
            if (!of_second)
                assert_int_equal(gt_node_set_add(&rules.barred[1], node[n], NULL), 0);
        }
        rules.excluded = &none;
        const struct gt_plan_request request = {.units = units,
                                                .unit_count = 2,
                                                .pods = pods,
                                                .pod_count = 2,
                                                .excluded = &all,
                                                .rules = &rules,
                                                .within = 1};
        struct gt_plan_failure failure;
        assert_int_equal(gt_plan_ruled(cluster, &request, &failure), fits == 1);
        if (fits == 1)
            assert_true(pods[0].place.node == node[2] && pods[1].place.node == node[3]);
        gt_node_set_done(&all);
        gt_node_set_done(&rules.barred[0]);
        gt_node_set_done(&rules.barred[1]);
    }
}

enum { AREA_NODES = 24, AREA_ZONES = 5, AREA_UNIT = 20, AREA_UNITS = 4 };

/* Three supernodes below one; nodes are added to `to` and lie in zones as `domain` says. */
static void make_area(struct gt_cluster *cluster, const char *name, uint64_t free, uint32_t *domain,
                      struct gt_node_set *to)
{
    uint32_t class = world_class(cluster, 8, 4), area = world_super(cluster, name, 2, GT_NONE), rack = 0;
    char text[16];
    for (unsigned n = 0; n < AREA_NODES; n++) {
        snprintf(text, sizeof(text), "%s-%u", name, n);
        rack = n % 8 ? rack : world_super(cluster, text, 1, area);
        uint32_t node = world_node(cluster, text, class, rack);
        gt_cluster_set_free(cluster, node, free);
        domain[node] = (n % 8 * 7 + n / 8) % AREA_ZONES;
        assert_int_equal(to ? gt_node_set_add(to, node, NULL) : 0, 0);
    }
}

/* Pods spread over zones: too many ways to try them all. A job that does not fit without the rules either is
 * told so for good; one that does is not, in whichever domain it was tried. */
static void says_where_the_search_was_cut_short(void **state)
{
    static uint8_t sort[AREA_UNITS * AREA_UNIT];
    (void)state;
    for (unsigned way = 0; way < 8; way++) {
        bool fits = way & 1, within = way & 2, wider = way & 4;
        gt_auto_cluster struct gt_cluster *cluster = world_new();
        uint32_t domain[2 * AREA_NODES], there[AREA_ZONES] = {0};
        struct gt_node_set none = {0}, barred = {0};
        struct gt_plan_unit units[AREA_UNITS];
        struct gt_plan_pod pods[AREA_UNITS * AREA_UNIT] = {{0}};
        struct gt_plan_rule spread = {.kind = GT_PEER_SPREAD, .domain = domain, .domains = AREA_ZONES};
        struct gt_plan_rules rules = {.sort = sort, .sorts = 1, .count = 1, .excluded = wider ? &none : NULL};
        struct gt_plan_failure failure = {0};
        make_area(cluster, "open", 7, domain, NULL);
        make_area(cluster, "barred", fits ? 15 : 1, domain, &barred); /* tried last: it has more room */
        spread.who = spread.with = spread.skew = 1;
        spread.there = there;
        rules.rules[0] = spread;
        rules.barred[0] = barred;
        for (unsigned u = 0; u < AREA_UNITS; u++)
            units[u] = (struct gt_plan_unit){.first = AREA_UNIT * u, .pods = AREA_UNIT, .gpus = 1};
        const struct gt_plan_request request = {.units = units,
                                                .unit_count = fits ? 3 : 4,
                                                .pods = pods,
                                                .pod_count = AREA_UNIT * (fits ? 3 : 4),
                                                .excluded = &barred,
                                                .rules = &rules,
                                                .within = within ? 2 : 0};
        assert_false(gt_plan_ruled(cluster, &request, &failure));
        assert_int_equal(failure.reason, within  ? GT_PLAN_NO_DOMAIN
                                         : fits  ? GT_PLAN_RULED
                                         : wider ? GT_PLAN_NO_SUPERNODE
                                                 : GT_PLAN_TOO_FEW_GPUS);
        assert_int_equal(failure.inexact, fits);
        gt_node_set_done(&barred);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_rules), cmocka_unit_test(ends_without_memory),
        cmocka_unit_test(running_pods_take), cmocka_unit_test(kinds_stay_in_the_domain),
        cmocka_unit_test(says_where_the_search_was_cut_short)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
