/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/node_values.h"
#include "tests/bench/sim/pods/policy.h"
#include "tests/unit/cache/cache_world.h"
#include "tests/unit/sim/sim_test.h"

/* Single pods: by the policy gputopo, and by what the extender says of all nodes. */

static uint32_t extender_chooses(struct gt_cache *cache, const struct openb_nodes *all, const char *pod,
                                 const struct gt_mix_amounts *asked, const bool *fits)
{
    gt_auto_free double *values = calloc(all->count, sizeof(*values));
    gt_auto_free uint32_t *ids = calloc(all->count, sizeof(*ids));
    gt_auto_free char(*texts)[16] = calloc(all->count, sizeof(*texts));
    gt_auto_free const char **names = calloc(all->count, sizeof(*names));
    gt_auto_free uint32_t *nodes = calloc(all->count, sizeof(*nodes));
    uint32_t count = 0;
    struct gt_mix_amounts known = *asked;
    if (asked->gpus)
        gt_cache_asked(cache, pod_of(cache, pod), &known);
    assert_true(known.gpus == asked->gpus && memcmp(known.of, asked->of, sizeof(known.of)) == 0);
    for (uint32_t n = 0; n < all->count; n++)
        if (fits[n]) {
            snprintf(texts[count], sizeof(*texts), "n%06u", n);
            nodes[count] = n;
            names[count] = texts[count];
            count++;
        }
    gt_node_values(cache, asked, GT_NONE, names, NULL, count, values, ids);
    uint32_t first = gt_score_first(gt_cache_cluster(cache), values, ids, count);
    return first == GT_NONE ? GT_NONE : nodes[first];
}

static void test_same_pods(void **state)
{
    (void)state;
    gt_auto_free char *nodes = copy_text(
        "sn,cpu_milli,memory_mib,gpu,model\na,96000,65536,4,\nb,32000,90000,2,\nc,64000,99999,0,\n"
        "d,16000,80000,4,\ne,48000,20000,3,\nf,96000,65536,4,\ng,96000,65536,4,\nh,40000,40000,4,\n");
    auto_openb_nodes struct openb_nodes all;
    assert_int_equal(openb_read_nodes("n", nodes, strlen(nodes), &all, NULL), 0);
    gt_auto_cache struct gt_cache *cache = new_cache(NULL);
    struct gt_pod_node of[8] = {0};
    for (uint32_t n = 0; n < all.count; n++) {
        const struct openb_node *from = &all.node[n];
        char name[16], allocatable[96];
        snprintf(name, sizeof(name), "n%06u", n);
        snprintf(allocatable, sizeof(allocatable), "{\"cpu\":\"%um\",\"memory\":\"%uMi\"}", from->cpu_milli,
                 from->memory_mib);
        give_node(cache, NODE(.name = name, .allocatable = allocatable));
        if (from->gpus)
            give_topology(cache, TOPOLOGY(.name = name, .gpus = from->gpus), 0);
        of[n] = (struct gt_pod_node){.cpu = from->cpu_milli,
                                     .memory = from->memory_mib,
                                     .gpus = from->gpus,
                                     .gpu_free = from->gpus * GT_GPU_MILLI};
        for (uint32_t g = 0; g < from->gpus; g++)
            of[n].gpu[g] = GT_GPU_MILLI;
    }
    struct gt_pod_world world = {.all = &all, .nodes = of};
    const struct gt_pod_setup setup = {.loss_weight = 0.5};
    void *ours = NULL;
    assert_int_equal(gt_pod_gputopo.open(&world, &setup, &ours, NULL), 0);
    struct gt_rng random;
    gt_rng_seed(&random, 3);
    unsigned placed = 0;
    for (unsigned i = 0; i < 60; i++) {
        struct gt_pod_kind kind = {.gpus = (1U << gt_rng_below(&random, 3)) * (gt_rng_below(&random, 5) > 0),
                                   .cpu = 500 + 500 * gt_rng_below(&random, 40)};
        kind.milli = kind.gpus ? GT_GPU_MILLI : 0;
        world.memory = 1024 * gt_rng_below(&random, 20);
        bool fits[8], any = false;
        for (uint32_t n = 0; n < 8; n++)
            any |= fits[n] =
                gt_pod_fits(&of[n], &kind) && kind.cpu <= of[n].cpu && world.memory <= of[n].memory;
        if (!any)
            continue;
        char name[16], spec[160], node[16];
        snprintf(name, sizeof(name), "p%u", i);
        snprintf(spec, sizeof(spec), "\"resources\":{\"requests\":{\"cpu\":\"%um\",\"memory\":\"%uMi\"}},",
                 kind.cpu, world.memory);
        if (kind.gpus)
            give_pod(cache, POD(.name = name, .gpus = kind.gpus, .spec = spec));
        const struct gt_mix_amounts asked = {.gpus = kind.gpus,
                                             .of = {kind.cpu, (int64_t)world.memory << 20}};
        uint32_t at = gt_pod_gputopo.choose(ours, &world, &kind, fits);
        assert_int_equal(extender_chooses(cache, &all, name, &asked, fits), at);
        snprintf(node, sizeof(node), "n%06u", at);
        give_pod(cache, POD(.name = name, .gpus = kind.gpus, .spec = spec, .node = node));
        of[at].cpu -= kind.cpu;
        of[at].memory -= world.memory;
        of[at].gpu_free -= kind.gpus * GT_GPU_MILLI;
        for (uint32_t g = 0, need = kind.gpus; need; g++)
            if (of[at].gpu[g]) {
                of[at].gpu[g] = 0;
                need--;
            }
        gt_pod_gputopo.changed(ours, &world, at);
        placed++;
    }
    assert_true(placed > 15);
    gt_pod_gputopo.close(ours);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_same_pods)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
