/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "topology/model/health.h"

/* One check of `gpus` GPUs: what is known and what is there of the states; by bits 1 << signal. */
struct check {
    unsigned known, seen;
    uint32_t value[GT_SIGNALS];
};

#define BIT(signal) (1U << (signal))

static const struct check well = {.known = BIT(GT_SIGNAL_UNAVAILABLE) | BIT(GT_SIGNAL_CALL_ERROR)};
static const struct check unavailable = {.known = BIT(GT_SIGNAL_UNAVAILABLE),
                                         .seen = BIT(GT_SIGNAL_UNAVAILABLE)};
static const struct check silent;

static struct gt_node *make_node(unsigned gpus, const struct check *checks)
{
    struct gt_node *node = NULL;
    assert_return_code(gt_node_new(gpus, 0, &node, NULL), 0);
    for (unsigned i = 0; i < gpus; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", i + 1);
        gpu->evidence.known = checks[i].known;
        gpu->evidence.seen = checks[i].seen;
        memcpy(gpu->evidence.value, checks[i].value, sizeof(gpu->evidence.value));
    }
    return node;
}

static enum gt_gpu_health check(struct gt_health *health, const struct gt_fault_table *table,
                                const struct check *what, unsigned flags, uint64_t now_s)
{
    gt_auto_node struct gt_node *node = make_node(1, what);
    gt_health_observe(health, table, node, flags, now_s);
    assert_int_equal(node->gpus[0].health == GT_GPU_UNHEALTHY, node->gpus[0].unhealthy_reason[0] != '\0');
    return node->gpus[0].health;
}

static struct gt_health *new_health(void)
{
    struct gt_health *health = calloc(1, sizeof(*health));
    assert_non_null(health);
    return health;
}

static void judged_alone(void **state)
{
    (void)state;
    struct check checks[] = {
        well,
        unavailable,
        silent,
        {.known = BIT(GT_SIGNAL_ECC_DRAM), .value[GT_SIGNAL_ECC_DRAM] = 3},
        {.known = BIT(GT_SIGNAL_UNAVAILABLE) | BIT(GT_SIGNAL_PCI_ERROR), .value[GT_SIGNAL_PCI_ERROR] = 1000},
        {.known = BIT(GT_SIGNAL_CALL_ERROR), .seen = BIT(GT_SIGNAL_CALL_ERROR)}, /* not at once */
        {.known = BIT(GT_SIGNAL_TEMPERATURE), .value[GT_SIGNAL_TEMPERATURE] = 200},
        {.known = BIT(GT_SIGNAL_LIBRARY) | BIT(GT_SIGNAL_DRM_NODE),
         .seen = BIT(GT_SIGNAL_LIBRARY) | BIT(GT_SIGNAL_DRM_NODE)},
    };
    static const enum gt_gpu_health expected[] = {
        GT_GPU_HEALTHY, GT_GPU_UNHEALTHY,      GT_GPU_HEALTH_UNKNOWN, GT_GPU_UNHEALTHY,
        GT_GPU_HEALTHY, GT_GPU_HEALTH_UNKNOWN, GT_GPU_HEALTH_UNKNOWN, GT_GPU_UNHEALTHY,
    };
    gt_auto_node struct gt_node *node = make_node(GT_COUNT(checks), checks);
    gt_health_evaluate(&gt_fault_table_default, node);
    for (unsigned i = 0; i < GT_COUNT(checks); i++)
        assert_int_equal(node->gpus[i].health, expected[i]);
    assert_string_equal(node->gpus[3].unhealthy_reason, "uncorrectable DRAM ECC errors: 3");
    assert_int_equal(node->gpus[7].cause, GT_SIGNAL_DRM_NODE); /* what prevents an Allocate is the reason */
}

static void at_once_and_after_clean_checks(void **state)
{
    (void)state;
    struct gt_health *health = new_health();
    const struct gt_fault_table *table = &gt_fault_table_default;
    assert_int_equal(check(health, table, &well, 0, 100), GT_GPU_HEALTHY);
    assert_int_equal(check(health, table, &unavailable, 0, 105), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &well, 0, 110), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &well, 0, 115), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &unavailable, 0, 120),
                     GT_GPU_UNHEALTHY); /* the count begins again */
    assert_int_equal(check(health, table, &well, 0, 125), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &well, 0, 130), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &well, 0, 135), GT_GPU_HEALTHY);
    free(health);
}

static void not_hearing_is_no_recovery(void **state)
{
    (void)state;
    static const struct check half = {.known = BIT(GT_SIGNAL_CALL_ERROR)}; /* it answers other questions */
    struct gt_health *health = new_health();
    const struct gt_fault_table *table = &gt_fault_table_default;
    assert_int_equal(check(health, table, &unavailable, 0, 0), GT_GPU_UNHEALTHY);
    for (unsigned i = 1; i < 100; i++)
        assert_int_equal(check(health, table, i % 2 ? &silent : &half, 0, i * 100), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &silent, GT_HEALTH_AT_ONCE, 20000), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &well, GT_HEALTH_AT_ONCE, 20001), GT_GPU_HEALTHY);
    /* A recording is all there is. */
    assert_int_equal(check(health, table, &unavailable, 0, 20002), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, table, &silent, GT_HEALTH_AT_ONCE | GT_HEALTH_ALL, 20003),
                     GT_GPU_HEALTH_UNKNOWN);
    free(health);
}

static void so_often_within_a_time(void **state)
{
    (void)state;
    static const struct check failing = {.known = BIT(GT_SIGNAL_UNAVAILABLE) | BIT(GT_SIGNAL_CALL_ERROR),
                                         .seen = BIT(GT_SIGNAL_CALL_ERROR)};
    struct gt_health *health = new_health();
    struct gt_fault_table table = gt_fault_table_default;
    table.rules[GT_SIGNAL_CALL_ERROR] = (struct gt_fault_rule){
        .when = GT_FAULT_AFTER, .times = 3, .within_s = 60, .recover_checks = 2, .recover_s = 30};
    assert_int_equal(check(health, &table, &failing, 0, 1000), GT_GPU_HEALTHY);
    assert_int_equal(check(health, &table, &failing, 0, 1030), GT_GPU_HEALTHY);
    assert_int_equal(check(health, &table, &failing, 0, 1061),
                     GT_GPU_HEALTHY); /* the first is too long ago */
    assert_int_equal(check(health, &table, &well, 0, 1070), GT_GPU_HEALTHY);
    assert_int_equal(check(health, &table, &failing, 0, 1080), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, &table, &well, 0, 1090), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, &table, &well, 0, 1100), GT_GPU_UNHEALTHY); /* not long enough */
    assert_int_equal(check(health, &table, &well, 0, 1110), GT_GPU_HEALTHY);
    assert_int_equal(check(health, &table, &failing, 0, 1111), GT_GPU_HEALTHY); /* from zero again */
    assert_int_equal(health->counts.seen[GT_SIGNAL_CALL_ERROR], 5);
    free(health);
}

static struct check counter(uint32_t value)
{
    return (struct check){.known = BIT(GT_SIGNAL_PCI_ERROR), .value[GT_SIGNAL_PCI_ERROR] = value};
}

/* What was counted before the first check is old; a counter that goes back was reset. */
static void counters_count_steps(void **state)
{
    (void)state;
    static const struct {
        uint32_t value;
        bool unhealthy;
    } steps[] = {{1000, false}, {1001, false}, {2, false}, {3, false}, {3, false}, {4, true}, {4, true}};
    struct gt_health *health = new_health();
    for (unsigned i = 0; i < GT_COUNT(steps); i++) {
        struct check what = counter(steps[i].value);
        assert_int_equal(check(health, &gt_fault_table_default, &what, 0, 1000 + i) == GT_GPU_UNHEALTHY,
                         steps[i].unhealthy);
    }
    struct check still = counter(4), more = counter(40);
    assert_int_equal(check(health, &gt_fault_table_default, &still, 0, 1005 + 3599), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, &gt_fault_table_default, &still, 0, 1005 + 3600), GT_GPU_HEALTH_UNKNOWN);
    assert_int_equal(check(health, &gt_fault_table_default, &more, 0, 5000), GT_GPU_UNHEALTHY);
    free(health);
}

static void reports_only(void **state)
{
    (void)state;
    struct gt_health *health = new_health();
    struct gt_fault_table table = gt_fault_table_default;
    assert_int_equal(check(health, &table, &unavailable, 0, 1), GT_GPU_UNHEALTHY);
    table.rules[GT_SIGNAL_UNAVAILABLE].when = GT_FAULT_REPORT; /* the operator has changed the table */
    assert_int_equal(check(health, &table, &unavailable, 0, 2), GT_GPU_HEALTH_UNKNOWN);
    assert_int_equal(check(health, &table, &unavailable, GT_HEALTH_AT_ONCE, 3), GT_GPU_HEALTH_UNKNOWN);
    assert_int_equal(health->counts.seen[GT_SIGNAL_UNAVAILABLE], 3);
    free(health);
}

/* Falls at 0, 100, 200 of a GPU that is well again a moment later: the third one is held back. */
static void who_flaps_is_held_back(void **state)
{
    (void)state;
    struct gt_health *health = new_health();
    struct gt_fault_table table = gt_fault_table_default;
    table.rules[GT_SIGNAL_UNAVAILABLE].recover_checks = 1;
    table.flapping =
        (struct gt_flapping_rule){.falls = 3, .within_s = 600, .hold_s = 300, .hold_max_s = 1000};
    uint64_t now = 1000;
    for (unsigned i = 0; i < 2; i++, now += 100) {
        assert_int_equal(check(health, &table, &unavailable, 0, now), GT_GPU_UNHEALTHY);
        assert_int_equal(check(health, &table, &well, 0, now + 5), GT_GPU_HEALTHY);
    }
    static const unsigned holds[] = {300, 600, 1000, 1000};
    for (unsigned i = 0; i < GT_COUNT(holds); i++) {
        assert_int_equal(check(health, &table, &unavailable, 0, now), GT_GPU_UNHEALTHY);
        gt_auto_node struct gt_node *held = make_node(1, &well);
        gt_health_observe(health, &table, held, 0, now + 10);
        assert_int_equal(held->gpus[0].health, GT_GPU_UNHEALTHY);
        assert_int_equal(held->gpus[0].cause, GT_SIGNALS);
        assert_non_null(strstr(held->gpus[0].unhealthy_reason, "again and again"));
        assert_int_equal(check(health, &table, &well, 0, now + 10 + holds[i] - 1), GT_GPU_UNHEALTHY);
        assert_int_equal(check(health, &table, &well, 0, now + 10 + holds[i]), GT_GPU_HEALTHY);
        assert_int_equal(health->counts.held_back, i + 1);
        now += 10 + holds[i] + 50;
    }
    now += 2001; /* a long good time: all is forgotten */
    assert_int_equal(check(health, &table, &unavailable, 0, now), GT_GPU_UNHEALTHY);
    assert_int_equal(check(health, &table, &well, 0, now + 5), GT_GPU_HEALTHY);
    /* Who asks for a check does not wait. */
    for (unsigned i = 0; i < 5; i++)
        assert_int_equal(check(health, &table, &unavailable, 0, now + 10 + i), GT_GPU_UNHEALTHY),
            assert_int_equal(check(health, &table, &well, GT_HEALTH_AT_ONCE, now + 10 + i), GT_GPU_HEALTHY);
    free(health);
}

/* Another card at the same place begins again, in both directions; a card without a known UUID may be the old
 * one. */
static void a_card_is_swapped(void **state)
{
    (void)state;
    static const struct {
        const char *uuid;
        bool unhealthy, expected;
    } checks[] = {{"", true, true},        {"GPU-a", false, true}, {"", false, true},
                  {"GPU-b", false, false}, {"GPU-c", true, true},  {"GPU-c", false, true}};
    struct gt_health *health = new_health();
    for (unsigned i = 0; i < GT_COUNT(checks); i++) {
        gt_auto_node struct gt_node *node = make_node(1, checks[i].unhealthy ? &unavailable : &well);
        snprintf(node->gpus[0].uuid, sizeof(node->gpus[0].uuid), "%s", checks[i].uuid);
        gt_health_observe(health, &gt_fault_table_default, node, 0, i);
        assert_int_equal(node->gpus[0].health == GT_GPU_UNHEALTHY, checks[i].expected);
    }
    assert_int_equal(health->count, 1);
    free(health);
}

static void gone_and_back(void **state)
{
    (void)state;
    struct check three[] = {well, well, unavailable};
    struct gt_health *health = new_health();
    gt_auto_node struct gt_node *all = make_node(3, three);
    gt_health_observe(health, &gt_fault_table_default, all, 0, 1);
    three[2] = well;
    for (unsigned i = 0; i < 2; i++) {
        gt_auto_node struct gt_node *two = make_node(2, three), *back = make_node(3, three);
        gt_health_observe(health, &gt_fault_table_default, two, 0, 2);
        gt_health_observe(health, &gt_fault_table_default, back, 0, 3);
        assert_int_equal(back->gpus[2].health, GT_GPU_UNHEALTHY); /* it was unhealthy when it went */
    }
    for (unsigned i = 0; i < 300; i++)
        check(health, &gt_fault_table_default, &well, 0, 4);
    assert_int_equal(health->count, 1); /* forgotten */
    free(health);
}

/* ---- a plain second opinion: the whole past is kept, and read again for each answer ---- */

enum { PAST = 400 };

struct past {
    unsigned count;
    uint64_t at[PAST];
    bool known[PAST], seen[PAST]; /* of the one signal */
};

/* Whether the rule called the signal a fault after check `n`. */
static bool oracle_faulty(const struct past *past, const struct gt_fault_rule *rule, unsigned n)
{
    bool faulty = false;
    unsigned forgotten = 0; /* checks before this one do not count any more */
    for (unsigned i = 0; i <= n; i++) {
        if (!past->known[i])
            continue;
        unsigned times = 0, clean = 0;
        uint64_t last = 0;
        for (unsigned k = 0; k <= i; k++) {
            if (!past->known[k])
                continue;
            if (past->seen[k]) {
                times += k >= forgotten && past->at[i] - past->at[k] <= rule->within_s;
                last = past->at[k];
            }
            clean = past->seen[k] ? 0 : clean + 1;
        }
        if (past->seen[i])
            faulty = faulty || rule->when == GT_FAULT_AT_ONCE ||
                     (rule->when == GT_FAULT_AFTER && times >= rule->times);
        else if (faulty && clean >= rule->recover_checks && past->at[i] - last >= rule->recover_s) {
            faulty = false;
            forgotten = i;
        }
    }
    return faulty;
}

/* Whether it is called unhealthy after the last check. */
static bool oracle_unhealthy(const struct past *past, const struct gt_fault_table *table,
                             const struct gt_fault_rule *rule, unsigned *ret_flaps)
{
    uint64_t falls[PAST], hold = 0, well_since = 0, recovered = 0;
    unsigned fall_count = 0, level = 0;
    bool unhealthy = false, waits = false;
    *ret_flaps = 0;
    for (unsigned i = 0; i < past->count; i++) {
        uint64_t now = past->at[i];
        if (oracle_faulty(past, rule, i)) {
            if (!unhealthy) {
                uint64_t quiet = 2 * hold > table->flapping.within_s ? 2 * hold : table->flapping.within_s;
                unsigned recent = 0;
                if (now - recovered > quiet)
                    level = 0;
                falls[fall_count++] = now;
                for (unsigned k = 0; k < fall_count; k++)
                    recent += now - falls[k] <= table->flapping.within_s;
                hold = 0;
                if (level || recent >= table->flapping.falls) {
                    hold = (uint64_t)table->flapping.hold_s << level++;
                    hold = hold < table->flapping.hold_max_s ? hold : table->flapping.hold_max_s;
                    ++*ret_flaps;
                }
            }
            unhealthy = true;
            waits = false;
        } else if (unhealthy) {
            well_since = waits ? well_since : now;
            waits = true;
            if (now - well_since >= hold) {
                unhealthy = false;
                recovered = now;
            }
        }
    }
    return unhealthy;
}

static void random_pasts(void **state)
{
    (void)state;
    unsigned changes = 0, held = 0;
    for (unsigned seed = 1; seed <= 150; seed++) {
        static struct past past;
        struct gt_health *health = new_health();
        struct gt_fault_table table = gt_fault_table_default;
        srand(seed);
        table.rules[GT_SIGNAL_LIBRARY] = (struct gt_fault_rule){
            .when = (enum gt_fault_when)(rand() % 3),
            .times = 1 + (unsigned)rand() % 5,
            .within_s = 1 + (unsigned)rand() % 60,
            .recover_checks = 1 + (unsigned)rand() % 4,
            .recover_s = (unsigned)rand() % 40,
        };
        table.flapping = (struct gt_flapping_rule){1 + (unsigned)rand() % 4, 50 + (unsigned)rand() % 400,
                                                   5 + (unsigned)rand() % 60, 100};
        past.count = 0;
        uint64_t now = 1000;
        bool was = false;
        int often = 2 + rand() % 8;
        for (unsigned i = 0; i < 120; i++) {
            struct check what = {.known = rand() % 5 ? BIT(GT_SIGNAL_LIBRARY) : 0};
            if (what.known && rand() % often == 0)
                what.seen = BIT(GT_SIGNAL_LIBRARY);
            now += (unsigned)rand() % 15;
            past.at[past.count] = now;
            past.known[past.count] = what.known != 0;
            past.seen[past.count++] = what.seen != 0;
            unsigned flaps;
            bool unhealthy = check(health, &table, &what, 0, now) == GT_GPU_UNHEALTHY;
            if (unhealthy != oracle_unhealthy(&past, &table, &table.rules[GT_SIGNAL_LIBRARY], &flaps) ||
                flaps != health->counts.held_back)
                fail_msg("seed %u, look %u", seed, i);
            changes += unhealthy != was;
            was = unhealthy;
        }
        held += health->counts.held_back != 0;
        free(health);
    }
    print_message("%u changes of health, %u pasts with damping\n", changes, held);
    assert_true(changes > 500 && held > 30); /* or the pasts are too dull to show anything */
}

static void many_gpus(void **state)
{
    (void)state;
    static struct check checks[GT_GPUS_MAX];
    struct gt_health *health = new_health();
    for (unsigned i = 0; i < GT_GPUS_MAX; i++)
        checks[i] = i % 2 ? unavailable : well;
    gt_auto_node struct gt_node *node = make_node(GT_GPUS_MAX, checks);
    gt_health_observe(health, &gt_fault_table_default, node, 0, 1);
    assert_true(gt_node_usable(node) == UINT64_C(0x5555555555555555));
    free(health);
}

/* ---- left-over work ---- */

/* One check of two GPUs: their memory in use, and the pod that holds the first one ("": none does). */
static const struct gt_gpu *memory(struct gt_health *health, const struct gt_fault_table *table,
                                   uint32_t first, uint32_t second, const char *pod, uint64_t now_s)
{
    static struct gt_gpu gpu;
    const struct check checks[2] = {well, well};
    gt_auto_node struct gt_node *node = make_node(2, checks);
    health->gpus_in_use = (struct gt_gpus_in_use){.known = true, .count = pod[0] ? 1 : 0};
    snprintf(health->gpus_in_use.of[0].bdf, sizeof(health->gpus_in_use.of[0].bdf), "%s", node->gpus[0].bdf);
    snprintf(health->gpus_in_use.of[0].pod, sizeof(health->gpus_in_use.of[0].pod), "%s", pod);
    for (unsigned i = 0; i < 2; i++) {
        node->gpus[i].evidence.knows_memory = true;
        node->gpus[i].evidence.memory_mib = i ? second : first;
    }
    gt_health_observe(health, table, node, 0, now_s);
    assert_int_equal(node->gpus[1].health, GT_GPU_HEALTHY);
    gpu = node->gpus[0];
    return &gpu;
}

static void left_over_work(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    const struct gt_fault_table *table = &gt_fault_table_default;
    uint64_t now_s = 100;
    (void)state;
    assert_int_equal(memory(health, table, 826, 826, "", now_s += 5)->health, GT_GPU_HEALTHY);
    for (unsigned i = 0; i < 5; i++) /* a container uses it */
        assert_int_equal(memory(health, table, 60000, 826, "ml/job-0", now_s += 5)->health, GT_GPU_HEALTHY);
    for (unsigned i = 0; i < 2; i++) /* it takes a moment until a process is gone */
        assert_int_equal(memory(health, table, 60000, 826, "", now_s += 5)->health, GT_GPU_HEALTHY);
    const struct gt_gpu *gpu = memory(health, table, 60000, 826, "", now_s += 5);
    assert_int_equal(gpu->health, GT_GPU_UNHEALTHY);
    assert_string_equal(gpu->unhealthy_reason,
                        "memory is in use, and no container holds it; last held by ml/job-0");
    assert_int_equal(gpu->cause, GT_SIGNAL_LEFT_OVER);
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(memory(health, table, 1535, 826, "", now_s += 5)->health, GT_GPU_UNHEALTHY);
    assert_int_equal(memory(health, table, 826, 826, "", now_s += 5)->health, GT_GPU_HEALTHY);
}

static void little_memory_is_none(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    (void)state;
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(memory(health, &gt_fault_table_default, 1535, 826, "", 100 + i)->health,
                         GT_GPU_HEALTHY);
}

static void an_idle_value_is_learned(void **state)
{
    gt_auto_free struct gt_health *driver = new_health(), *job = new_health();
    (void)state;
    /* A driver that keeps 2 GiB of each GPU. */
    for (unsigned i = 0; i < 10; i++)
        assert_int_equal(memory(driver, &gt_fault_table_default, 2048, 2048, "", 100 + i)->health,
                         GT_GPU_HEALTHY);
    for (unsigned i = 0; i < 3; i++)
        memory(driver, &gt_fault_table_default, 2560, 2048, "", 200 + i);
    assert_int_equal(memory(driver, &gt_fault_table_default, 2560, 2048, "", 204)->health, GT_GPU_UNHEALTHY);
    /* A job that was left over before the first check: the other GPU tells what idle is. */
    for (unsigned i = 0; i < 3; i++)
        memory(job, &gt_fault_table_default, 3072, 826, "", 100 + i);
    assert_int_equal(memory(job, &gt_fault_table_default, 3072, 826, "", 104)->health, GT_GPU_UNHEALTHY);
}

static void without_knowing_who_holds_nothing_is_left(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    (void)state;
    for (unsigned i = 0; i < 10; i++) {
        gt_auto_node struct gt_node *node = make_node(1, &well);
        node->gpus[0].evidence.knows_memory = true;
        node->gpus[0].evidence.memory_mib = 60000;
        gt_health_observe(health, &gt_fault_table_default, node, 0, 100 + i);
        assert_int_equal(node->gpus[0].health, GT_GPU_HEALTHY);
    }
}

static void held_back_up_to_a_limit(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    struct gt_fault_table table = gt_fault_table_default;
    (void)state;
    table.rules[GT_SIGNAL_LEFT_OVER].limit_s = 100;
    for (unsigned i = 0; i < 3; i++)
        memory(health, &table, 60000, 826, "", 100 + i);
    assert_int_equal(memory(health, &table, 60000, 826, "", 201)->health, GT_GPU_UNHEALTHY);
    for (unsigned i = 0; i < 9; i++) {
        const struct gt_gpu *gpu = memory(health, &table, 60000, 826, "", 202 + i);
        assert_int_equal(gpu->health, GT_GPU_HEALTHY);
        assert_int_equal(gpu->grade, GT_GRADE_SUSPECT);
        assert_string_equal(gpu->grade_reason, "memory is in use for long, and no container holds it");
    }
    for (unsigned i = 0; i < 3; i++)
        memory(health, &table, 826, 826, "", 300 + i);
    assert_int_equal(memory(health, &table, 826, 826, "", 303)->grade, GT_GRADE_NONE);
    for (unsigned i = 0; i < 3; i++) /* the next time it counts again */
        memory(health, &table, 60000, 826, "", 1100 + i);
    assert_int_equal(memory(health, &table, 60000, 826, "", 1103)->health, GT_GPU_UNHEALTHY);
}

static void who_left_it_is_known_after_a_restart(void **state)
{
    gt_auto_free struct gt_health *health = new_health(), *next = new_health();
    struct gt_health_history past;
    (void)state;
    memory(health, &gt_fault_table_default, 826, 826, "ml/job-0", 100);
    for (unsigned i = 0; i < 3; i++)
        memory(health, &gt_fault_table_default, 60000, 826, "", 101 + i);
    gt_health_history(&health->gpus[0], &past);
    gt_health_restore(next, &past, 110);
    assert_string_equal(memory(next, &gt_fault_table_default, 60000, 826, "", 111)->unhealthy_reason,
                        "memory is in use, and no container holds it; last held by ml/job-0");
}

static void the_limit_begins_again_after_a_restart(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    struct gt_health_history past = {.signals = BIT(GT_SIGNAL_LEFT_OVER), .reason = "memory is in use"};
    const uint64_t now_s = 20 * 86400; /* of a node that was started long ago */
    (void)state;
    snprintf(past.bdf, sizeof(past.bdf), "%s", memory(health, &gt_fault_table_default, 826, 826, "", 1)->bdf);
    *health = (struct gt_health){0};
    gt_health_restore(health, &past, now_s);
    assert_int_equal(memory(health, &gt_fault_table_default, 60000, 826, "", now_s + 1)->health,
                     GT_GPU_UNHEALTHY);
    assert_int_equal(memory(health, &gt_fault_table_default, 60000, 826, "", now_s + 86400)->grade,
                     GT_GRADE_SUSPECT);
}

/* A pod may have started since the list. */
static void one_check_says_nothing_of_left_over_work(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    gt_auto_node struct gt_node *node = make_node(1, &well);
    (void)state;
    node->gpus[0].evidence.knows_memory = true;
    node->gpus[0].evidence.memory_mib = 60000;
    health->gpus_in_use.known = true;
    gt_health_observe(health, &gt_fault_table_default, node, GT_HEALTH_AT_ONCE, 100);
    assert_int_equal(node->gpus[0].health, GT_GPU_HEALTHY);
}

static void one_list_of_holders_is_for_one_check(void **state)
{
    gt_auto_free struct gt_health *health = new_health();
    (void)state;
    memory(health, &gt_fault_table_default, 60000, 826, "", 100);
    for (unsigned i = 0; i < 10; i++) {
        gt_auto_node struct gt_node *node = make_node(1, &well);
        node->gpus[0].evidence.knows_memory = true;
        node->gpus[0].evidence.memory_mib = 60000;
        gt_health_observe(health, &gt_fault_table_default, node, 0, 101 + i);
        assert_int_equal(node->gpus[0].health, GT_GPU_HEALTHY);
    }
    memory(health, &gt_fault_table_default, 60000, 826, "", 112);
    assert_int_equal(memory(health, &gt_fault_table_default, 60000, 826, "", 113)->health, GT_GPU_UNHEALTHY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(judged_alone),
        cmocka_unit_test(at_once_and_after_clean_checks),
        cmocka_unit_test(not_hearing_is_no_recovery),
        cmocka_unit_test(so_often_within_a_time),
        cmocka_unit_test(counters_count_steps),
        cmocka_unit_test(reports_only),
        cmocka_unit_test(who_flaps_is_held_back),
        cmocka_unit_test(a_card_is_swapped),
        cmocka_unit_test(gone_and_back),
        cmocka_unit_test(random_pasts),
        cmocka_unit_test(many_gpus),
        cmocka_unit_test(left_over_work),
        cmocka_unit_test(little_memory_is_none),
        cmocka_unit_test(an_idle_value_is_learned),
        cmocka_unit_test(without_knowing_who_holds_nothing_is_left),
        cmocka_unit_test(held_back_up_to_a_limit),
        cmocka_unit_test(who_left_it_is_known_after_a_restart),
        cmocka_unit_test(the_limit_begins_again_after_a_restart),
        cmocka_unit_test(one_check_says_nothing_of_left_over_work),
        cmocka_unit_test(one_list_of_holders_is_for_one_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
