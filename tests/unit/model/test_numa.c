/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/numa.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
/* cmocka needs those above */
#include <cmocka.h>

/*
 * The verdict against a model of the kubelet that is written after its sources (devicemanager's
 * generateDeviceTopologyHints, topologymanager's filterSingleNumaHints, mergePermutation and compareHints),
 * hint by hint, with the GPUs as its one provider.
 */
enum { GPUS = 5, NODES = 3, HINTS = 1 << NODES };

struct hint {
    unsigned affinity;
    bool preferred;
};

struct kubelet {
    int numa_of[GPUS]; /* -1: its device has no topology */
    unsigned gpus, nodes;
    bool single;
};

static unsigned ones(unsigned set)
{
    unsigned count = 0;
    for (; set; set >>= 1)
        count += set & 1;
    return count;
}

static unsigned generate_hints(const struct kubelet *kubelet, unsigned available, unsigned reusable,
                               unsigned request, struct hint ret[HINTS])
{
    unsigned count = 0, least = kubelet->nodes;
    for (unsigned mask = 1; mask < 1U << kubelet->nodes; mask++) {
        unsigned in_mask = 0, matching = 0;
        bool all_reusable = true;
        for (unsigned d = 0; d < kubelet->gpus; d++) {
            bool within = kubelet->numa_of[d] >= 0 && mask >> kubelet->numa_of[d] & 1;
            in_mask += within;
            all_reusable &= !(reusable >> d & 1) || kubelet->numa_of[d] < 0 || within;
            matching += within && (available | reusable) >> d & 1;
        }
        if (in_mask >= request && ones(mask) < least)
            least = ones(mask);
        if (all_reusable && matching >= request)
            ret[count++] = (struct hint){.affinity = mask};
    }
    for (unsigned i = 0; i < count; i++)
        ret[i].preferred = ones(ret[i].affinity) == least;
    return count;
}

static bool is_narrower(unsigned a, unsigned b)
{
    return ones(a) != ones(b) ? ones(a) < ones(b) : a < b;
}

/* The best hint of one provider; its affinity is 0 where there is none. */
static struct hint merge(const struct kubelet *kubelet, const struct hint *hints, unsigned count)
{
    struct hint best = {0};
    for (unsigned i = 0; i < count; i++) {
        struct hint candidate = hints[i];
        if (kubelet->single && (ones(candidate.affinity) != 1 || !candidate.preferred))
            continue;
        if (!best.affinity || (candidate.preferred && !best.preferred) ||
            (candidate.preferred == best.preferred && is_narrower(candidate.affinity, best.affinity)))
            best = candidate;
    }
    return best;
}

static void check(const struct kubelet *kubelet, const struct gt_numa *numa, unsigned free, unsigned must,
                  unsigned k)
{
    struct hint hints[HINTS], best;
    unsigned aligned = 0;
    uint64_t from = UINT64_MAX;
    best = merge(kubelet, hints, generate_hints(kubelet, free & ~must, must, k, hints));
    for (unsigned d = 0; d < kubelet->gpus; d++)
        if (free >> d & 1 && kubelet->numa_of[d] >= 0 && best.affinity >> kubelet->numa_of[d] & 1)
            aligned |= 1U << d;
    assert_int_equal(gt_numa_admits(numa, free, must, k, &from), best.preferred);
    assert_int_equal(from, best.preferred ? aligned : UINT64_MAX);
}

static void check_all(const struct kubelet *kubelet)
{
    struct gt_numa numa = {.single = kubelet->single};
    for (unsigned n = 0; n < kubelet->nodes; n++) {
        uint64_t gpus = 0;
        for (unsigned d = 0; d < kubelet->gpus; d++)
            gpus |= kubelet->numa_of[d] == (int)n ? UINT64_C(1) << d : 0;
        if (gpus)
            numa.gpus[numa.count++] = gpus;
    }
    if (!numa.count)
        return; /* no device has a topology: the kubelet has no hint for them, and refuses nothing */
    for (unsigned free = 1; free < 1U << kubelet->gpus; free++)
        for (unsigned k = 1; k <= kubelet->gpus; k++)
            for (unsigned must = free, end = 0; !end; end = !must, must = (must - 1) & free)
                if (ones(must) <= k)
                    check(kubelet, &numa, free, must, k);
}

static void admits_what_the_kubelet_admits(void **state)
{
    (void)state;
    for (unsigned gpus = 1; gpus <= GPUS; gpus++)
        for (unsigned nodes = 1; nodes <= NODES; nodes++) {
            unsigned wirings = 1;
            for (unsigned d = 0; d < gpus; d++)
                wirings *= nodes + 1;
            for (unsigned wiring = 0; wiring < 2 * wirings; wiring++) {
                struct kubelet kubelet = {.gpus = gpus, .nodes = nodes, .single = wiring & 1};
                for (unsigned d = 0, rest = wiring / 2; d < gpus; d++, rest /= nodes + 1)
                    kubelet.numa_of[d] = (int)(rest % (nodes + 1)) - 1;
                check_all(&kubelet);
            }
        }
}

static void tells_the_most_that_a_request_gets(void **state)
{
    (void)state;
    struct gt_numa numa = {.count = 2, .single = true, .gpus = {0x07, 0xf8}};
    assert_int_equal(gt_numa_most(&numa), 5);
    numa.single = false;
    assert_int_equal(gt_numa_most(&numa), 8);
}

static void refuses_nothing_without_numa_nodes(void **state)
{
    (void)state;
    uint64_t from = 0;
    assert_true(gt_numa_admits(&(struct gt_numa){0}, 0x0f, 0x01, 4, &from));
    assert_int_equal(from, 0x0f);
    assert_false(gt_numa_admits(&(struct gt_numa){0}, 0x0f, 0, 5, &from));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(admits_what_the_kubelet_admits),
        cmocka_unit_test(tells_the_most_that_a_request_gets),
        cmocka_unit_test(refuses_nothing_without_numa_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
