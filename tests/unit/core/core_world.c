/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/core/core_world.h"

#include <limits.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/bits.h"
#include "base/err.h"
#include "tests/unit/core/core_checks.h"

static void must(int r, struct gt_err *err)
{
    if (r < 0)
        fail_msg("%s", gt_err_text(err));
}

struct gt_cluster *world_new(void)
{
    struct gt_cluster *cluster = NULL;
    struct gt_err *err = NULL;

    must(gt_cluster_new(&cluster, &err), err);
    return cluster;
}

uint32_t world_class(struct gt_cluster *cluster, unsigned gpus, unsigned mesh)
{
    gt_auto_class struct gt_class *class = NULL;
    struct gt_weights weights;
    struct gt_err *err = NULL;
    uint32_t id;

    wire_meshes(&weights, gpus, mesh, 64, 8);
    must(gt_class_new(&weights, &class, &err), err);
    must(gt_cluster_add_class(cluster, class, &id, &err), err);
    return id;
}

uint32_t world_super(struct gt_cluster *cluster, const char *name, unsigned tier, uint32_t parent)
{
    struct gt_err *err = NULL;
    uint32_t id;

    must(gt_cluster_add_supernode(cluster, name, tier, parent, &id, &err), err);
    return id;
}

uint32_t world_node(struct gt_cluster *cluster, const char *name, uint32_t class, uint32_t super)
{
    struct gt_err *err = NULL;
    uint32_t id;

    must(gt_cluster_add_node(cluster, name, class, super, &id, &err), err);
    return id;
}

void world_nodes(struct gt_cluster *cluster, const char *name, unsigned count, uint32_t class, uint32_t super)
{
    char text[64];

    for (unsigned i = 0; i < count; i++) {
        snprintf(text, sizeof(text), "%s-%u", name, i);
        world_node(cluster, text, class, super);
    }
}

uint32_t world_leaf(struct gt_cluster *cluster, const char *name, unsigned free, unsigned full,
                    uint32_t class)
{
    uint32_t id = world_super(cluster, name, 2, GT_NONE);
    char text[32];

    for (unsigned s = 0; s < free + full; s++) {
        snprintf(text, sizeof(text), "%s-%u", name, s);
        uint32_t node = world_node(cluster, text, class, world_super(cluster, text, 1, id));
        if (s >= free)
            gt_cluster_set_free(cluster, node, 0);
    }
    return id;
}

void world_check(const struct gt_cluster *cluster)
{
    struct gt_err *err = NULL;

    must(gt_cluster_check(cluster, &err), err);
}

uint64_t world_mask(unsigned bits, unsigned n, uint64_t *random)
{
    uint64_t mask = 0;

    while (bits) {
        uint64_t bit = UINT64_C(1) << random_next(random) % n;

        bits -= !(mask & bit);
        mask |= bit;
    }
    return mask;
}

void world_dump(const struct gt_cluster *cluster, struct gt_buf *to)
{
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;

    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node))
            gt_buf_printf(to, "%u %s %p %u %llx %llx %llx %llx %llx %d\n", id, node.name,
                          (const void *)node.class, node.supernode, (unsigned long long)node.all,
                          (unsigned long long)node.free, (unsigned long long)node.healthy,
                          (unsigned long long)node.assumed, (unsigned long long)node.available,
                          node.eligible);
    for (uint32_t id = 0; id < gt_cluster_supernodes(cluster); id++)
        if (gt_cluster_get_supernode(cluster, id, &super))
            gt_buf_printf(to, "%u %s %u %u %d %u %u\n", id, super.name, super.tier, super.parent,
                          super.is_node, super.nodes, super.available);
    gt_buf_printf(to, "%u assumptions\n", gt_cluster_assumptions(cluster));
}

void world_job(struct world_job *job, unsigned units, unsigned pods, unsigned gpus, unsigned atom)
{
    memset(job, 0, sizeof(*job));
    assert_true(units <= 64 && units * pods <= 512);
    job->unit_count = units;
    job->pod_count = units * pods;
    for (unsigned u = 0; u < units; u++)
        job->units[u] = (struct gt_plan_unit){.first = u * pods, .pods = pods, .gpus = gpus, .atom = atom};
}

struct gt_plan_request world_request(struct world_job *job)
{
    return (struct gt_plan_request){.units = job->units,
                                    .unit_count = job->unit_count,
                                    .pods = job->pods,
                                    .pod_count = job->pod_count,
                                    .within = job->within};
}

static bool is_below(const struct gt_cluster *cluster, uint32_t super, uint32_t above)
{
    struct gt_cluster_supernode at;

    while (super != above && gt_cluster_get_supernode(cluster, super, &at))
        super = at.parent;
    return super == above;
}

/* Checks every plan: its GPUs exist and are given once, runs are in one supernode, and its outputs are
 * correct. */
static void check_plan(const struct gt_cluster *cluster, const struct world_job *job)
{
    struct gt_cluster_node node;

    for (uint32_t u = 0; u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        uint32_t run = unit->atom ? unit->atom : unit->pods, seen[512], count = 0;

        for (uint32_t p = unit->first; p < unit->first + unit->pods; p++) {
            const struct gt_plan_pod *pod = &job->pods[p];
            uint32_t super, i = 0;

            assert_true(gt_cluster_get_node(cluster, pod->place.node, &node));
            super = node.supernode;
            if (!pod->running) {
                assert_int_equal(pod->place.mask & ~node.available, 0);
                assert_int_equal(__builtin_popcountll(pod->place.mask), unit->gpus);
                for (uint32_t other = 0; other < p; other++)
                    if (!job->pods[other].running && job->pods[other].place.node == pod->place.node)
                        assert_int_equal(job->pods[other].place.mask & pod->place.mask, 0);
            }
            if ((p - unit->first) % run) {
                gt_cluster_get_node(cluster, job->pods[p - 1].place.node, &node);
                assert_int_equal(node.supernode, super);
            }
            if (unit->supernode != GT_NONE)
                assert_true(is_below(cluster, super, unit->supernode));
            while (i < count && seen[i] != super)
                i++;
            if (i == count)
                seen[count++] = super;
        }
        assert_int_equal(unit->supernodes, count);
        assert_true(unit->fewest <= count);
    }
}

/* Everything that a plan could change, in one number. */
static uint64_t sum_of(const struct gt_cluster *cluster)
{
    uint64_t sum = gt_cluster_assumptions(cluster);
    struct gt_cluster_node node;
    struct gt_cluster_supernode super;

    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_get_node(cluster, id, &node))
            sum = (sum ^ node.free ^ node.assumed << 8 ^ node.available << 16) * UINT64_C(0x9e3779b97f4a7c15);
    for (uint32_t id = 0; id < gt_cluster_supernodes(cluster); id++)
        if (gt_cluster_get_supernode(cluster, id, &super))
            sum = (sum ^ super.available) * UINT64_C(0xff51afd7ed558ccd);
    return sum;
}

bool world_plan(struct gt_cluster *cluster, struct world_job *job)
{
    const struct gt_plan_request request = world_request(job);
    uint64_t before = sum_of(cluster);

    job->placed = gt_plan_job(cluster, &request, &job->failure);
    assert_int_equal(sum_of(cluster), before);
    if (job->placed)
        check_plan(cluster, job);
    return job->placed;
}

void world_bind(struct gt_cluster *cluster, struct world_job *job, uint64_t owner)
{
    struct gt_promise_id assumptions[512];
    struct gt_err *err = NULL;

    assert_true(job->placed);
    must(gt_plan_assume(cluster, job->pods, job->pod_count, owner, assumptions, &err), err);
    for (uint32_t p = 0; p < job->pod_count; p++) {
        gt_cluster_confirm(cluster, assumptions[p]);
        job->pods[p].running = true;
    }
}

/* ---- a kubelet ---- */

/* The hint: preferred ones have as few NUMA nodes as the request needs on an idle node, and all of those GPUs
 * that are left of init containers. 0: there is none. */
static uint64_t kubelet_hint(const struct gt_numa *numa, uint64_t free, uint64_t left, unsigned gpus)
{
    unsigned fewest = numa->count;
    uint64_t best = 0;
    for (unsigned pass = 0; pass < 2; pass++)
        for (unsigned set = 1u << numa->count; set-- > 1;) {
            uint64_t of_set = 0;
            for (unsigned d = 0; d < numa->count; d++)
                of_set |= set >> d & 1 ? numa->gpus[d] : 0;
            if (!pass && gt_bit_count(of_set) >= gpus && gt_bit_count(set) < fewest)
                fewest = gt_bit_count(set);
            if (pass && gt_bit_count(set) == fewest && (!numa->single || fewest == 1) && !(left & ~of_set) &&
                gt_bit_count(left) + gt_bit_count(free & of_set) >= gpus)
                best = of_set;
        }
    return best;
}

/* Of what is left it takes any; to that the plugin adds its choice. */
static uint64_t kubelet_allocates(const struct gt_class *class, uint64_t aligned, uint64_t left,
                                  unsigned gpus, uint64_t *random)
{
    struct gt_choice choice;
    if (gt_bit_count(left) < gpus)
        return gt_choose(class, aligned | left, left, gpus, 0, &choice) ? choice.mask : 0;
    while (gt_bit_count(left) > gpus) {
        uint64_t gpu = UINT64_C(1) << random_next(random) % 64;
        left &= ~gpu;
    }
    return left;
}

bool world_kubelet_admits(const struct gt_class *class, uint64_t *free, struct gt_numa_pod pod,
                          uint64_t *random)
{
    uint64_t requests = pod.requests ? pod.requests : pod.gpus, left = 0;
    if (gt_class_numa(class)->by_pod)
        requests = pod.gpus;
    for (; requests; requests >>= 8) {
        unsigned gpus = requests & 0x7f;
        uint64_t hint =
            gt_class_numa(class)->count ? kubelet_hint(gt_class_numa(class), *free, left, gpus) : UINT64_MAX;
        uint64_t mask = hint ? kubelet_allocates(class, *free & hint, left, gpus, random) : 0;
        if (!mask)
            return false;
        *free &= ~mask;
        left = requests & 0x80 ? left | mask : left & ~mask;
    }
    return true;
}

struct gt_numa_pod world_numa_pod(unsigned gpus, uint64_t *random)
{
    struct gt_numa_pod pod = {gpus, 0};
    unsigned count = 0, kind = (unsigned)(random_next(random) % 4), each = gpus;
    if (kind == 0)
        return pod;
    if (kind == 1) { /* an init container, often as large as the next one */
        unsigned init = random_next(random) % 2 ? gpus : 1 + (unsigned)(random_next(random) % gpus);
        pod.requests = init | 0x80;
        count = 1;
    } else {
        each = 1 + (unsigned)(random_next(random) % gpus);
    }
    for (unsigned left = gpus; left; count++) {
        unsigned next = count == 7 || each > left ? left : each;
        pod.requests |= (uint64_t)next << 8 * count;
        left -= next;
        if (kind == 3)
            each = 1 + (unsigned)(random_next(random) % gpus);
    }
    if (count == 1)
        pod.requests = 0;
    return pod;
}

unsigned world_domains(const struct gt_cluster *cluster, const struct world_job *job, unsigned tier,
                       unsigned *returns)
{
    uint32_t seen[512];
    unsigned count = 0;

    for (uint32_t p = 0, last = GT_NONE; p < job->pod_count; p++) {
        struct gt_cluster_node node;
        struct gt_cluster_supernode at;
        unsigned i = 0;

        assert_true(gt_cluster_get_node(cluster, job->pods[p].place.node, &node));
        for (assert_true(gt_cluster_get_supernode(cluster, node.supernode, &at)); at.tier < tier;)
            assert_true(gt_cluster_get_supernode(cluster, node.supernode = at.parent, &at));
        if (node.supernode == last)
            continue;
        while (i < count && seen[i] != node.supernode)
            i++;
        if (returns)
            *returns += i < count;
        if (i == count)
            seen[count++] = node.supernode;
        last = node.supernode;
    }
    return count;
}

unsigned world_fewest(const unsigned *holds, unsigned count, unsigned units)
{
    bool taken[64] = {false};

    for (unsigned needed = 0;; needed++) {
        unsigned best = 0;
        if (!units)
            return needed;
        for (unsigned i = 0; i < count; i++)
            best = !taken[i] && (taken[best] || holds[i] > holds[best]) ? i : best;
        if (taken[best] || !holds[best])
            return UINT_MAX;
        taken[best] = true;
        units -= holds[best] < units ? holds[best] : units;
    }
}
