/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/core/relocate.h"
#include "scheduler-ext/core/score.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/core/core_checks.h"

/* The bytes are a program of calls on a cluster: with any order and arguments it stays consistent, a plan
 * uses available GPUs only, and planning and advice do not change it. */

enum { ASSUMPTIONS = 256, STEPS_MAX = 512 };

struct input {
    const uint8_t *data;
    size_t size;
};

struct world {
    struct gt_cluster *cluster;
    struct gt_promise_id assumptions[ASSUMPTIONS];
    unsigned assumption_count;
    unsigned names;
};

static uint8_t next(struct input *input)
{
    if (!input->size)
        return 0;
    input->size--;
    return *input->data++;
}

static uint64_t next_mask(struct input *input)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < sizeof(mask); i++)
        mask = mask << 8 | next(input);
    return mask;
}

static void must(bool has_device, const char *what, const struct gt_err *err)
{
    if (has_device)
        return;
    fprintf(stderr, "%s: %s\n", what, err ? gt_err_text(err) : "");
    abort();
}

static void sound(const struct gt_cluster *cluster)
{
    gt_auto_err struct gt_err *err = NULL;
    must(gt_cluster_check(cluster, &err) == 0, "unsound", err);
}

/* A node that there is, GT_NONE: this id is none. */
static uint32_t some_node(const struct world *world, struct input *input)
{
    struct gt_cluster_node node;
    uint32_t id = next(input) % 64;
    return gt_cluster_get_node(world->cluster, id, &node) ? id : GT_NONE;
}

static void set_state(struct world *world, struct input *input, unsigned what)
{
    uint32_t node = some_node(world, input);
    if (node == GT_NONE)
        return;
    if (what == 0)
        gt_cluster_set_free(world->cluster, node, next_mask(input));
    else if (what == 1)
        gt_cluster_set_healthy(world->cluster, node, next_mask(input));
    else
        gt_cluster_set_eligible(world->cluster, node, next(input) % 2);
}

static void add_class(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights = {.n = 1 + next(input) % 9};
    unsigned wide = next(input);
    for (unsigned a = 0; a < weights.n; a++)
        for (unsigned b = 0; b < a; b++)
            weights.w[a][b] = weights.w[b][a] = (uint16_t)((a ^ b) & wide ? 8 : 64);
    uint32_t id;
    if (gt_class_new(&weights, &class, &err) == 0)
        gt_cluster_add_class(world->cluster, class, &id, &err);
}

static void add_supernode(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    char name[32];
    snprintf(name, sizeof(name), "s%u", next(input) % 32);
    unsigned tier = next(input) % 10;
    uint32_t parent = next(input) % 40, id;
    gt_cluster_add_supernode(world->cluster, name, tier, parent == 39 ? GT_NONE : parent, &id, &err);
}

static void add_node(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    char name[32];
    snprintf(name, sizeof(name), "n%u", next(input) % 64);
    uint32_t class = next(input) % 4, super = next(input) % 40, id;
    gt_cluster_add_node(world->cluster, name, class, super == 39 ? GT_NONE : super, &id, &err);
}

static void assume(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    uint32_t node = some_node(world, input);
    uint64_t mask = next(input), owner = next(input) % 4;
    enum gt_promise_kind kind = (enum gt_promise_kind)(next(input) % (GT_PROMISE_NOTED_NODE + 1));
    struct gt_promise_id id;
    if (node != GT_NONE && world->assumption_count < ASSUMPTIONS &&
        gt_cluster_promise(world->cluster, &(struct gt_promise){kind, {node, mask}, owner, 0}, &id, &err) ==
            0)
        world->assumptions[world->assumption_count++] = id;
}

static void end_assumption(struct world *world, struct input *input, bool confirm)
{
    if (!world->assumption_count)
        return;
    unsigned at = next(input) % world->assumption_count;
    struct gt_promise_id id = world->assumptions[at];
    world->assumptions[at] = world->assumptions[--world->assumption_count];
    if (confirm)
        gt_cluster_confirm(world->cluster, id);
    else
        gt_cluster_end_promise(world->cluster, id);
}

static void forget_all(struct world *world)
{
    for (unsigned i = 0; i < world->assumption_count; i++)
        gt_cluster_end_promise(world->cluster, world->assumptions[i]);
    world->assumption_count = 0;
}

/* Its assumptions go with it, and their ids are used again. */
static void remove_node(struct world *world, struct input *input)
{
    uint32_t node = some_node(world, input);
    if (node == GT_NONE)
        return;
    forget_all(world);
    gt_cluster_remove_node(world->cluster, node);
}

static void move_node(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    uint32_t node = some_node(world, input), super = next(input) % 40;
    gt_cluster_move_node(world->cluster, node, super == 39 ? GT_NONE : super, &err);
}

static void plan(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_plan_unit units[4] = {{0}};
    struct gt_plan_pod pods[32] = {{0}};
    struct gt_promise_id assumed[32];
    uint32_t first = 0;
    unsigned count = 1 + next(input) % 4;
    uint8_t running = next(input);
    for (unsigned i = 0; i < count; i++) {
        units[i] =
            (struct gt_plan_unit){.first = first, .pods = 1u << next(input) % 4, .gpus = 1 + next(input) % 9};
        units[i].atom = next(input) % 2 ? (units[i].pods + 1) / 2 : 0;
        first += units[i].pods;
    }
    if (running < first) {
        pods[running].running = true;
        pods[running].place.node = some_node(world, input);
    }
    struct gt_plan_failure failure;
    uint64_t bits = 0;
    const struct gt_node_set excluded = {&bits, 64};
    for (unsigned left = next(input) % 4; left; left--)
        bits |= UINT64_C(1) << next(input) % 64;
    const struct gt_plan_request request = {
        .units = units, .unit_count = count, .pods = pods, .pod_count = first, .excluded = &excluded};
    bool placed = gt_plan_job(world->cluster, &request, &failure);
    sound(world->cluster);
    if (!placed) {
        struct gt_buf text = GT_BUF(4096);
        gt_plan_failure_text(world->cluster, &failure, &text);
        must(text.len > 0, "a failure without a word", NULL);
        gt_buf_done(&text);
        return;
    }
    uint64_t owner = 100;
    must(gt_plan_assume(world->cluster, pods, first, owner, assumed, &err) == 0,
         "a plan that cannot be assumed", err);
    sound(world->cluster);
    gt_cluster_end_promises(world->cluster, GT_PROMISE_PLANNED, owner);
}

static void advise(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_running_pod pods[8];
    struct gt_cluster_node node;
    uint32_t count = next(input) % 9, kept = 0;
    for (uint32_t i = 0; i < count; i++) {
        struct gt_running_pod pod = {.place = {next(input) % 64, next(input)},
                                     .movable = next(input) % 4 != 0};
        if (gt_cluster_get_node(world->cluster, pod.place.node, &node) &&
            (pod.place.mask &= node.all & ~node.free))
            pods[kept++] = pod;
    }
    struct gt_advise_job job = {.runs = 1 + next(input) % 4,
                                .pods = 1 + next(input) % 4,
                                .gpus = 1 + next(input) % 8,
                                .work = 100000};
    struct gt_advice advice = {0};
    if (gt_advise(world->cluster, pods, kept, &job, &advice, &err) < 0)
        return;
    for (uint32_t i = 0; i < advice.count; i++)
        must(advice.moved[i] < kept && pods[advice.moved[i]].movable, "moves what it may not", NULL);
    free(advice.moved);
    struct gt_running_pod candidates[8];
    struct gt_relocation relocation = {0};
    for (uint32_t i = 0; i < kept; i++)
        candidates[i] = (struct gt_running_pod){.place = pods[i].place,
                                                .job = i % 3 ? i / 3 : GT_NONE,
                                                .unit = i % 3 ? i / 3 : GT_NONE,
                                                .cost = i % 2,
                                                .movable = pods[i].movable};
    if (count % 2 && job.runs % 2 == 0) { /* two runs of a unit lie in one supernode of a tier */
        job.unit = 2;
        job.within = 1 + kept % 3;
    }
    const struct gt_relocate_spec spec = {.job = job, .work = 20000, .tier = kept % 3};
    if (gt_relocate_within(world->cluster, candidates, kept, &spec, &relocation, &err) < 0)
        return;
    for (uint32_t i = 0; i < relocation.count; i++)
        must(relocation.moves[i].pod < kept && candidates[relocation.moves[i].pod].movable &&
                 gt_cluster_get_node(world->cluster, relocation.moves[i].node, &node) &&
                 !(relocation.moves[i].mask & ~node.available),
             "moves what it may not, or to nowhere", NULL);
    free(relocation.moves);
}

static void score(struct world *world, struct input *input)
{
    unsigned k = next(input) % 66;
    uint32_t best = gt_score_best(world->cluster, NULL, k);
    struct gt_cluster_node node;
    if (best != GT_NONE)
        must(gt_cluster_get_node(world->cluster, best, &node) &&
                 (unsigned)__builtin_popcountll(node.available) >= k,
             "the best node has no room", NULL);
}

static void step(struct world *world, struct input *input)
{
    gt_auto_err struct gt_err *err = NULL;
    unsigned op = next(input) % 16;
    switch (op) {
    case 0:
        add_class(world, input);
        break;
    case 1:
        add_supernode(world, input);
        break;
    case 2:
        add_node(world, input);
        break;
    case 3:
        move_node(world, input);
        break;
    case 4:
    case 5:
    case 6:
        set_state(world, input, op - 4);
        break;
    case 7:
        assume(world, input);
        break;
    case 8:
        end_assumption(world, input, true);
        break;
    case 9:
        end_assumption(world, input, false);
        break;
    case 10:
        remove_node(world, input);
        break;
    case 11:
        gt_cluster_remove_supernode(world->cluster, next(input) % 40, &err);
        break;
    case 12:
        plan(world, input);
        break;
    case 13:
        advise(world, input);
        break;
    case 14:
        score(world, input);
        break;
    default:
        gt_cluster_set_rule(world->cluster, next(input) % 2 ? GT_RULE_STATIC : GT_RULE_CHURN);
        break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_cluster struct gt_cluster *cluster = NULL;
    struct input input = {data, size};
    must(gt_cluster_new(&cluster, &err) == 0, "no cluster", err);
    struct world world = {.cluster = cluster};
    for (unsigned i = 0; input.size && i < STEPS_MAX; i++) {
        step(&world, &input);
        sound(cluster);
    }
    return 0;
}
