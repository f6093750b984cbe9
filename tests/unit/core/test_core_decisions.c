/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/err.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/file/cluster_file.h"
#include "tests/unit/core/core_world.h"
#include "tests/unit/seed.h"

/* Decisions on random clusters with all that a plan looks at, made again from what is kept of them. */

enum { NODES = 14, PODS_MAX = 24 };

struct chance {
    struct gt_cluster *cluster;
    struct gt_plan_unit units[PODS_MAX];
    struct gt_plan_pod pods[PODS_MAX];
    struct gt_node_set excluded, loose;
    struct gt_plan_limit limits[NODES];
    struct gt_plan_rules rules;
    struct gt_plan_request request;
};

static unsigned draw(uint64_t *random, unsigned below)
{
    return (unsigned)(random_next(random) % below);
}

/* Of 8 GPUs; some have kubelets that refuse. */
static uint32_t draw_class(struct gt_cluster *cluster, uint64_t *random)
{
    struct gt_weights weights = {.n = 8};
    gt_auto_class struct gt_class *class = NULL;
    uint32_t id;
    for (unsigned i = 0; i < 8; i++)
        for (unsigned j = 0; j < i; j++)
            weights.w[i][j] = weights.w[j][i] = (uint16_t)(1 + draw(random, 3));
    if (draw(random, 2)) {
        weights.numa = (struct gt_numa){
            .count = 2, .single = draw(random, 2), .by_pod = draw(random, 2), .gpus = {0x0f, 0xf0}};
    }
    assert_return_code(gt_class_new(&weights, &class, NULL), 0);
    assert_return_code(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    return id;
}

static void draw_state(struct gt_cluster *cluster, uint64_t *random)
{
    struct gt_promise_id id;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(cluster, n, &node))
            continue;
        gt_cluster_set_free(cluster, n, draw(random, 3) ? 0xff : draw(random, 256));
        gt_cluster_set_healthy(cluster, n, draw(random, 4) ? 0xff : draw(random, 256));
        gt_cluster_set_slow(cluster, n, draw(random, 4) ? 0 : draw(random, 256));
        gt_cluster_set_eligible(cluster, n, draw(random, 8));
        for (unsigned kind = 0; kind <= GT_PROMISE_SPARE; kind++)
            if (!draw(random, 6))
                gt_cluster_promise(cluster,
                                   &(struct gt_promise){(enum gt_promise_kind)kind,
                                                        {n, 1 + draw(random, 15)},
                                                        1 + draw(random, 3),
                                                        kind ? 0 : draw(random, 2) * 0x0102,
                                                        0,
                                                        0},
                                   &id, NULL);
        if (!draw(random, 12)) {
            struct gt_passed_pod pod = {
                .owner = 1 + n, .until_ms = UINT64_MAX, .pod = world_numa_pod(1 + draw(random, 4), random)};
            assert_return_code(gt_node_set_add(&pod.nodes, n, NULL), 0);
            gt_numa_pass(cluster, &pod);
        }
    }
    for (unsigned i = draw(random, 4); i > 0; i--) {
        uint32_t size = 2u << draw(random, 5);
        gt_chain_came(cluster, size, 8 * size);
        if (draw(random, 2))
            gt_chain_gone(cluster, size, 8 * size);
    }
    if (!draw(random, 4))
        assert_return_code(gt_chain_set(cluster, &(struct gt_chain_sizes){2, {8, 16}}, NULL), 0);
    gt_cluster_set_crowded(cluster, draw(random, 2));
    gt_cluster_set_prefers_close(cluster, draw(random, 2));
    gt_cluster_set_rule(cluster, draw(random, 4) ? GT_RULE_CHURN : GT_RULE_STATIC);
}

/* Ids have gaps, and are not in the order of names. */
static void draw_cluster(struct chance *chance, uint64_t *random)
{
    struct gt_cluster *cluster = chance->cluster = world_new();
    uint32_t classes[2] = {draw_class(cluster, random), draw_class(cluster, random)};
    uint32_t gone = world_super(cluster, "gone", 1, GT_NONE), top = world_super(cluster, "top", 2, GT_NONE);
    uint32_t supers[4] = {GT_NONE, top};
    char name[16];
    for (unsigned n = 0; n < NODES; n++) {
        if (n == 3) {
            assert_return_code(gt_cluster_remove_supernode(cluster, gone, NULL), 0);
            supers[2] = world_super(cluster, "a", 1, draw(random, 2) ? top : GT_NONE);
            supers[3] = world_super(cluster, "b", 1, top);
        }
        snprintf(name, sizeof(name), "n%u", NODES - n);
        world_node(cluster, name, classes[draw(random, 2)], supers[draw(random, n < 3 ? 2 : 4)]);
        if (draw(random, 5) == 0)
            gt_cluster_remove_node(cluster, draw(random, n + 1));
    }
    draw_state(cluster, random);
}

static void draw_rules(struct chance *chance, uint64_t *random)
{
    struct gt_plan_rules *rules = &chance->rules;
    uint32_t nodes = gt_cluster_nodes(chance->cluster);
    rules->sort = calloc(PODS_MAX, 1);
    rules->sorts = 2;
    for (unsigned i = 0; i < chance->request.pod_count; i++)
        rules->sort[i] = chance->pods[i].running ? GT_PLAN_SORT_NONE : (uint8_t)draw(random, 2);
    for (; rules->count < 2; rules->count++) {
        struct gt_plan_rule *rule = &rules->rules[rules->count];
        *rule = (struct gt_plan_rule){.kind = (enum gt_peer_kind)draw(random, 4),
                                      .domains = 3,
                                      .who = 1 + draw(random, 3),
                                      .with = 1 + draw(random, 3),
                                      .skew = 1 + draw(random, 3)};
        bool takes = rule->kind == GT_PEER_TAKE;
        rule->there = calloc(nodes + 3, sizeof(*rule->there));
        rule->domain = takes ? NULL : calloc(nodes, sizeof(*rule->domain));
        rule->take = takes ? calloc(2, sizeof(*rule->take)) : NULL;
        rule->with = takes ? rule->who : rule->with;
        for (uint32_t n = 0; n < nodes; n++) {
            rule->there[n] = takes ? 2 + draw(random, 6) : 0;
            if (!takes)
                rule->domain[n] = draw(random, 9) ? draw(random, 3) : GT_NONE;
        }
        for (unsigned s = 0; takes && s < 2; s++)
            rule->take[s] = rule->who >> s & 1 ? 1 + draw(random, 3) : 0;
    }
    assert_return_code(gt_node_set_add(&rules->barred[1], draw(random, NODES), NULL), 0);
    rules->excluded = draw(random, 2) ? &chance->loose : NULL;
    chance->request.rules = rules;
}

static void draw_request(struct chance *chance, uint64_t *random)
{
    struct gt_plan_request *request = &chance->request;
    uint32_t nodes = gt_cluster_nodes(chance->cluster);
    unsigned gpus = 1u << draw(random, 4), pods = 1 + draw(random, 4);
    *request = (struct gt_plan_request){.units = chance->units,
                                        .pods = chance->pods,
                                        .excluded = &chance->excluded,
                                        .limits = chance->limits,
                                        .flat = draw(random, 2),
                                        .slow = (enum gt_slow_use)draw(random, 3),
                                        .within = draw(random, 4) ? 0 : 2};
    for (unsigned u = 1 + draw(random, 4); u > 0; u--) {
        chance->units[request->unit_count++] =
            (struct gt_plan_unit){.first = request->pod_count,
                                  .pods = pods,
                                  .gpus = gpus,
                                  .atom = pods % 2 == 0 && draw(random, 2) ? pods / 2 : 0};
        request->pod_count += pods;
        if (!draw(random, 4))
            pods = 1 + draw(random, 4);
    }
    for (uint32_t i = 0; i < request->pod_count; i++) {
        struct gt_cluster_node info;
        uint32_t node = draw(random, nodes);
        bool there = !draw(random, 8) && gt_cluster_get_node(chance->cluster, node, &info);
        chance->pods[i] = (struct gt_plan_pod){.running = there, .place.node = there ? node : GT_NONE};
        if (draw(random, 3) == 0)
            chance->pods[i].requests = world_numa_pod(gpus, random).requests;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        struct gt_cluster_node info;
        if (!draw(random, 8))
            assert_return_code(gt_node_set_add(&chance->excluded, n, NULL), 0);
        if (gt_cluster_get_node(chance->cluster, n, &info) && !draw(random, 8))
            chance->limits[request->limit_count++] = (struct gt_plan_limit){n, draw(random, 8)};
    }
    if (!draw(random, 3))
        draw_rules(chance, random);
}

static void chance_done(struct chance *chance)
{
    gt_plan_rules_done(&chance->rules);
    gt_node_set_done(&chance->excluded);
    gt_node_set_done(&chance->loose);
    gt_cluster_free(chance->cluster);
}

static void expect_same(void *arg, const struct gt_decision_again *again)
{
    unsigned *count = arg;
    assert_string_equal(again->recorded, again->made);
    ++*count;
}

static void count_decision(void *arg, const struct gt_decision_again *again)
{
    unsigned *count = arg;
    *count += again->made != NULL;
}

static void ignore(void *arg, const struct gt_decision_again *again)
{
    (void)arg;
    (void)again;
}

/* A decision on a random cluster, as it is kept; false: the job waits. */
static bool keep_one(uint64_t *random, const char *job, struct gt_decision_log *log)
{
    struct chance chance = {0};
    struct gt_plan_failure failure;
    draw_cluster(&chance, random);
    draw_request(&chance, random);
    bool placed = gt_plan_ruled(chance.cluster, &chance.request, &failure);
    gt_decision_log_add(log, chance.cluster, &(struct gt_decided){job, &chance.request, placed, &failure});
    chance_done(&chance);
    return placed;
}

static void decides_again(void **state)
{
    uint64_t random = test_seed();
    unsigned again = 0, placed = 0, rounds = test_rounds(4000);
    (void)state;
    for (unsigned round = 0; round < rounds; round++) {
        struct gt_decision_log *log = NULL;
        gt_auto_buf struct gt_buf kept = GT_BUF(1 << 20);
        gt_auto_err struct gt_err *err = NULL;
        assert_return_code(gt_decision_log_new(&log, NULL), 0);
        placed += keep_one(&random, "ns/Job/j", log);
        gt_decision_log_write(log, 0, 0, &kept);
        const struct gt_decision_file file = {expect_same, &again};
        if (gt_decision_file_run(kept.data, kept.len, "kept", &file, &err) < 0)
            fail_msg("%s\n%s", gt_err_text(err), kept.data);
        gt_decision_log_free(log);
    }
    assert_int_equal(again, rounds);
    assert_in_range(placed, rounds / 10, rounds - rounds / 10);
}

/* 0.2.0 told only that some pods have several containers, and predicted no kubelet for these that judges each
 * of them by itself. */
static void reads_what_0_2_wrote(void **state)
{
    const struct gt_weights weights = {.n = 8, .numa = {.count = 2, .single = true, .gpus = {0x0f, 0xf0}}};
    struct gt_plan_unit unit = {.pods = 1, .gpus = 8};
    struct gt_plan_pod pod = {.requests = GT_NUMA_TOO_MANY};
    const struct gt_plan_request request = {.units = &unit, .pods = &pod, .unit_count = 1, .pod_count = 1};
    struct gt_cluster *cluster = world_new();
    struct gt_decision_log *log = NULL;
    struct gt_plan_failure failure;
    gt_auto_class struct gt_class *class = NULL;
    gt_auto_buf struct gt_buf kept = GT_BUF(1 << 20);
    unsigned again = 0;
    uint32_t id;
    (void)state;
    assert_return_code(gt_class_new(&weights, &class, NULL), 0);
    assert_return_code(gt_cluster_add_class(cluster, class, &id, NULL), 0);
    gt_cluster_set_free(cluster, world_node(cluster, "n", id, GT_NONE), 0xff);
    assert_true(gt_plan_ruled(cluster, &request, &failure));
    assert_return_code(gt_decision_log_new(&log, NULL), 0);
    gt_decision_log_add(log, cluster, &(struct gt_decided){"ns/Job/j", &request, true, &failure});
    gt_decision_log_write(log, 0, 0, &kept);
    char *requests = strstr(kept.data, "\"requests\":[["), *end = requests ? strstr(requests, "]]") : NULL;
    assert_non_null(end);
    memset(requests, ' ', (size_t)(end + 2 - requests));
    memcpy(requests, "\"several\":true", strlen("\"several\":true"));
    const struct gt_decision_file file = {expect_same, &again};
    assert_return_code(gt_decision_file_run(kept.data, kept.len, "kept", &file, NULL), 0);
    assert_int_equal(again, 1);
    gt_decision_log_free(log);
    gt_cluster_free(cluster);
}

/* Whatever stands in the file: an answer or one line that says what is wrong. */
static void survives_any_text(void **state)
{
    uint64_t random = test_seed();
    unsigned wrong = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(4000); round++) {
        struct gt_decision_log *log = NULL;
        gt_auto_buf struct gt_buf kept = GT_BUF(1 << 20);
        gt_auto_err struct gt_err *err = NULL;
        assert_return_code(gt_decision_log_new(&log, NULL), 0);
        keep_one(&random, "ns/Job/j", log);
        gt_decision_log_write(log, 0, 0, &kept);
        for (unsigned i = 1 + draw(&random, 3); i > 0; i--)
            kept.data[draw(&random, (unsigned)kept.len)] = "0123456789-[]{},\"x\nf"[draw(&random, 20)];
        const struct gt_decision_file file = {ignore, NULL};
        int r = gt_decision_file_run(kept.data, kept.len, "kept", &file, &err);
        wrong += r < 0;
        assert_true(r >= 0 || strncmp(gt_err_text(err), "kept: line ", 11) == 0);
        gt_decision_log_free(log);
    }
    assert_true(wrong > 0);
}

/* Only the last decision of a job that waits, and no more than there is room for. */
static void is_bounded(void **state)
{
    uint64_t random = test_seed();
    struct gt_decision_log *log = NULL;
    unsigned placed = 0;
    char job[32];
    (void)state;
    assert_return_code(gt_decision_log_new(&log, NULL), 0);
    for (unsigned i = 0; i < 40; i++)
        placed += keep_one(&random, "ns/Job/j", log);
    assert_in_range(gt_decision_log_size(log).kept, placed, placed + 1);
    for (unsigned i = 0; i < 2 * GT_DECISIONS_MAX; i++) {
        snprintf(job, sizeof(job), "ns/Job/%u", i);
        keep_one(&random, job, log);
    }
    struct gt_decision_log_size size = gt_decision_log_size(log);
    assert_int_equal(size.kept, GT_DECISIONS_MAX);
    assert_int_equal(size.left_out, 0);
    assert_in_range(size.bytes, 1, GT_DECISIONS_BYTES);
    gt_auto_buf struct gt_buf none = GT_BUF(1 << 20), all = GT_BUF(64 << 20);
    gt_decision_log_write(log, UINT64_MAX, 1 << 20, &none);
    assert_int_equal(none.len, 0);
    gt_decision_log_write(log, 0, GT_DECISIONS_BYTES, &all);
    assert_true(all.len > 0 && !all.failed);
    gt_decision_log_free(log);
}

/* ---- without memory ---- */

static unsigned left; /* allocations until one fails; 0: none does */

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__real_realloc(void *old, size_t size);
void *__wrap_realloc(void *old, size_t size);
char *__real_strdup(const char *text);
char *__wrap_strdup(const char *text);

static bool fails(void)
{
    return left && --left == 0;
}

void *__wrap_malloc(size_t size)
{
    return fails() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *old, size_t size)
{
    return fails() ? NULL : __real_realloc(old, size);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* A decision is kept whole or not at all, and made again or refused, whichever memory is lacking. */
static void ends_without_memory(void **state)
{
    uint64_t random = test_seed();
    unsigned left_out = 0, refused = 0;
    (void)state;
    for (unsigned round = 0; round < test_rounds(60); round++) {
        struct chance chance = {0};
        struct gt_plan_failure failure;
        struct gt_decision_log *log = NULL;
        gt_auto_buf struct gt_buf kept = GT_BUF(1 << 20);
        unsigned again = 0;
        bool failed = true;
        draw_cluster(&chance, &random);
        draw_request(&chance, &random);
        const struct gt_decided decided = {
            "ns/Job/j", &chance.request, gt_plan_ruled(chance.cluster, &chance.request, &failure), &failure};
        assert_return_code(gt_decision_log_new(&log, NULL), 0);
        for (unsigned at = 1; !gt_decision_log_size(log).kept; at++, left = 0) {
            left = at;
            gt_decision_log_add(log, chance.cluster, &decided);
        }
        left_out += (unsigned)gt_decision_log_size(log).left_out;
        gt_decision_log_write(log, 0, 0, &kept);
        for (unsigned at = 1; failed; at++) {
            gt_auto_err struct gt_err *err = NULL;
            const struct gt_decision_file file = {count_decision, &again};
            left = at;
            int r = gt_decision_file_run(kept.data, kept.len, "kept", &file, &err);
            failed = left == 0;
            left = 0;
            refused += r < 0;
        }
        assert_true(again > 0);
        gt_decision_log_free(log);
        chance_done(&chance);
    }
    assert_true(left_out > 0 && refused > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(decides_again),
                                       cmocka_unit_test(reads_what_0_2_wrote),
                                       cmocka_unit_test(survives_any_text), cmocka_unit_test(is_bounded),
                                       cmocka_unit_test(ends_without_memory)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
