/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "machine.h"
#include "tests/unit/seed.h"

/* The oracle: all subsets, with the order of DESIGN written out once more. */
static uint32_t sum(const struct gt_node *node, uint64_t mask)
{
    uint32_t s = 0;
    for (unsigned i = 0; i < node->link_count; i++)
        if ((mask >> node->links[i].a & 1) && (mask >> node->links[i].b & 1))
            s += node->links[i].weight;
    return s;
}

static uint64_t best_mask(const struct gt_node *node, uint64_t free, uint64_t must, unsigned k)
{
    uint64_t best = 0;
    int64_t best_score = -1, best_loss = 0;
    for (uint64_t mask = 1; mask < 1ULL << node->gpu_count; mask++) {
        if ((mask & ~free) || (must & ~mask) || (unsigned)__builtin_popcountll(mask) != k)
            continue;
        int64_t score = sum(node, mask), loss = (int64_t)sum(node, free) - score - sum(node, free & ~mask);
        if (score > best_score || (score == best_score && loss < best_loss)) {
            best = mask;
            best_score = score;
            best_loss = loss;
        }
    }
    return best;
}

static void shuffle(const char **ids, unsigned n, uint64_t *random)
{
    for (unsigned i = n; i > 1; i--) {
        unsigned k = machine_random(random, i);
        const char *other = ids[i - 1];
        ids[i - 1] = ids[k];
        ids[k] = other;
    }
}

static bool contains(const char *const *ids, unsigned n, const char *id)
{
    for (unsigned i = 0; i < n; i++)
        if (strcmp(ids[i], id) == 0)
            return true;
    return false;
}

/* One random request on one random machine, against the oracle. */
static void one_round(uint64_t *random)
{
    unsigned n = 1 + machine_random(random, 9);
    struct gt_node *node = machine_new(n, 1 + machine_random(random, 1000));
    for (unsigned i = 0; i < n; i++)
        node->gpus[i].health = machine_random(random, 5) ? GT_GPU_HEALTHY : GT_GPU_UNHEALTHY;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);

    const char *available[64], *must[16], *answer[64];
    unsigned available_count = 0, must_count = 0, distinct = 0, unknown = 0;
    uint64_t free = 0, must_mask = 0;
    for (unsigned i = 0; i < n; i++) {
        if (machine_random(random, 4) == 0)
            continue;
        available[available_count++] = inventory->devices[i].id;
        distinct++;
        if (machine_random(random, 6) == 0) /* listed twice */
            available[available_count++] = inventory->devices[i].id;
        if (inventory->devices[i].healthy)
            free |= 1ULL << i;
        if (machine_random(random, 5) == 0) {
            must[must_count++] = inventory->devices[i].id;
            must_mask |= 1ULL << i;
        }
    }
    if (machine_random(random, 4) == 0) {
        available[available_count++] = "nobody";
        distinct++;
        unknown++;
    }
    shuffle(available, available_count, random);
    unsigned size = machine_random(random, n + 3);

    struct gt_choice choice;
    unsigned got =
        gt_inventory_prefer(inventory, available, available_count, must, must_count, size, answer, &choice);
    assert_int_equal(got, size < distinct ? size : distinct);
    uint64_t mask = 0;
    for (unsigned i = 0; i < got; i++) {
        assert_false(contains(answer, i, answer[i]));
        assert_true(contains(available, available_count, answer[i]));
        const struct gt_device *device = gt_inventory_find(inventory, answer[i]);
        if (device)
            mask |= 1ULL << device->gpu;
    }
    for (unsigned i = 0; i < must_count && i < got; i++)
        assert_string_equal(answer[i], must[i]);
    free |= must_mask;
    unsigned k = (unsigned)__builtin_popcountll(free);
    if (size <= k && size >= must_count && size) { /* the table fills it alone */
        if (size > must_count)
            assert_int_equal(choice.mask, mask);
        assert_int_equal(mask, best_mask(inventory->node, free, must_mask, size));
    } else if (size > k)
        assert_int_equal(mask & free, free); /* every healthy one before any other */
}

static void agrees_with_brute_force(void **state)
{
    (void)state;
    uint64_t seed = test_seed();
    for (unsigned i = 0; i < 3000; i++)
        one_round(&seed);
}

static void never_fails(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(4, 3), NULL);
    const char *available[] = {"x", "GPU-1", "y", "x"}, *must[] = {"z", "GPU-3"}, *answer[8];
    struct gt_choice choice;
    assert_int_equal(gt_inventory_prefer(inventory, NULL, 0, NULL, 0, 0, answer, &choice), 0);
    assert_int_equal(gt_inventory_prefer(inventory, NULL, 0, NULL, 0, 4, answer, &choice), 0);
    assert_int_equal(choice.mask, 0);
    assert_int_equal(gt_inventory_prefer(inventory, available, 4, must, 2, 5, answer, &choice), 5);
    assert_string_equal(answer[0], "z");
    assert_string_equal(answer[1], "GPU-3");
    assert_string_equal(answer[2], "GPU-1");
    assert_string_equal(answer[3], "x");
    assert_string_equal(answer[4], "y");
    assert_int_equal(gt_inventory_prefer(inventory, available, 4, must, 2, 1, answer, NULL), 1);
    assert_string_equal(answer[0], "z");
    /* a node whose GPUs are all lost */
    gt_auto_inventory struct gt_inventory *lost = machine_inventory(machine_new(0, 0), inventory);
    const char *all[] = {"GPU-0", "GPU-1"};
    assert_int_equal(gt_inventory_prefer(lost, all, 2, NULL, 0, 1, answer, &choice), 1);
    assert_string_equal(answer[0], "GPU-0");
    assert_int_equal(choice.mask, 0);
}

/* A request for more devices than the node has gets at most all of them, each once. */
static void has_a_limit(void **state)
{
    enum { MANY = 3 * GT_DEVICES_MAX };
    static char names[MANY][16];
    const char *available[2 * MANY], *answer[GT_DEVICES_MAX];
    (void)state;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(4, 3), NULL);
    for (unsigned i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), i < 4 ? "GPU-%u" : "x%u", i);
        available[i] = available[2 * MANY - 1 - i] = names[i];
    }
    assert_int_equal(gt_inventory_prefer(inventory, available, 2 * MANY, NULL, 0, 2 * MANY, answer, NULL),
                     GT_DEVICES_MAX);
    for (unsigned i = 0; i < GT_DEVICES_MAX; i++)
        assert_false(contains(answer, i, answer[i]));
    for (unsigned i = 0; i < 4; i++)
        assert_true(contains(answer, 4, names[i]));
    for (unsigned i = 0; i < MANY; i++) /* one that is unknown, again and again */
        available[i] = "x";
    assert_int_equal(gt_inventory_prefer(inventory, available, MANY, NULL, 0, MANY, answer, NULL), 1);
}

/* GPUs 2 to 5, on both NUMA nodes, have the best links. */
static void follows_the_kubelets_policy(void **state)
{
    static const struct {
        const char *policy;
        uint64_t available;
        unsigned size;
        uint64_t expected;
    } cases[] = {
        {"none", 0xff, 4, 0x3c},
        {"best-effort", 0xff, 4, 0x3c},
        {"single-numa-node", 0xff, 4, 0x0f},
        {"restricted", 0xff, 4, 0x0f},
        {"none", 0x78, 2, 0x18},
        {"single-numa-node", 0x78, 2, 0x30}, /* of node 0 there is one */
        {"restricted", 0x78, 2, 0x30},
        {"restricted", 0xff, 6, 0x3f}, /* more than one node has */
    };
    (void)state;
    for (unsigned at = 0; at < sizeof(cases) / sizeof(cases[0]); at++) {
        struct gt_node *node = machine_new(8, 0);
        for (unsigned i = 0; i < node->link_count; i++)
            if (node->links[i].a >= 2 && node->links[i].b <= 5)
                node->links[i].kind = GT_LINK_MX;
        snprintf(node->kubelet.policy, sizeof(node->kubelet.policy), "%s", cases[at].policy);
        gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);
        const char *available[8], *answer[8];
        unsigned count = 0;
        struct gt_choice choice;
        uint64_t mask = 0;
        for (unsigned i = 0; i < 8; i++)
            if (cases[at].available >> i & 1)
                available[count++] = inventory->devices[i].id;
        assert_int_equal(
            gt_inventory_prefer(inventory, available, count, NULL, 0, cases[at].size, answer, &choice),
            cases[at].size);
        for (unsigned i = 0; i < cases[at].size; i++)
            mask |= 1ULL << gt_inventory_find(inventory, answer[i])->gpu;
        if (mask != cases[at].expected)
            fail_msg("case %u: GPUs %#llx", at, (unsigned long long)mask);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(has_a_limit),
        cmocka_unit_test(follows_the_kubelets_policy),
        cmocka_unit_test(agrees_with_brute_force),
        cmocka_unit_test(never_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
