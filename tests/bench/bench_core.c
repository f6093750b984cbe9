/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/err.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/plan_rules.h"
#include "scheduler-ext/core/score.h"
#include "scheduler-ext/core/victims.h"
#include "tests/unit/core/core_checks.h"

/*
 * What the decision core costs, on one thread. Prints measures in the form that loss.sh describes. A time is
 * the shortest of many repetitions, to exclude other work of the machine; the churn takes too long for that,
 * so its time is CPU time. A line "bound" is the shortest possible time for the same work here: only the loop
 * over the same arrays.
 */

enum { REPEATS = 3000 };

static double clock_ns(clockid_t clock)
{
    struct timespec now;

    clock_gettime(clock, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static double now_ns(void)
{
    return clock_ns(CLOCK_MONOTONIC);
}

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15);

    z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
    return z ^ z >> 31;
}

static void measure(const char *name, double value, const char *unit, const char *goal)
{
    printf("%s\t%.*f\t%s\t%s\n", name, value < 100 ? 2 : 0, value, unit, goal);
    fflush(stdout);
}

static void stop(const char *what, struct gt_err *err)
{
    fprintf(stderr, "bench_core: %s: %s\n", what, gt_err_text(err));
    exit(2);
}

static void *array_of(size_t count, size_t size)
{
    void *array = calloc(count, size);

    if (!array)
        stop("memory", NULL);
    return array;
}

/* ---- clusters ---- */

struct shape {
    unsigned nodes, per_super, gpus;
};

static struct gt_class *class_of(unsigned gpus)
{
    struct gt_weights weights = {.n = gpus};
    struct gt_err *err = NULL;
    struct gt_class *class = NULL;

    for (unsigned a = 0; a < gpus; a++)
        for (unsigned b = 0; b < gpus; b++)
            weights.w[a][b] = a == b ? 0 : a / 4 == b / 4 ? 64 : 8;
    if (gt_class_new(&weights, &class, &err) < 0)
        stop("class", err);
    return class;
}

/* `tiers`: 1, or 3 with leaves of 16 supernodes and halls of 8 leaves. */
static struct gt_cluster *cluster_of_tiers(struct shape shape, unsigned tiers)
{
    enum { PER_LEAF = 16, PER_HALL = 8 };
    gt_auto_class struct gt_class *class = class_of(shape.gpus);
    struct gt_cluster *cluster = NULL;
    struct gt_err *err = NULL;
    uint32_t id, class_id, super = GT_NONE, leaf = GT_NONE, hall = GT_NONE;
    char name[64];

    static const struct gt_chain_sizes chain = {5, {8, 16, 32, 64, 128}};
    if (gt_cluster_new(&cluster, &err) < 0 || gt_chain_set(cluster, &chain, &err) < 0 ||
        gt_cluster_add_class(cluster, class, &class_id, &err) < 0)
        stop("cluster", err);
    for (unsigned i = 0; i < shape.nodes; i++) {
        unsigned at = i / shape.per_super;
        bool first = i % shape.per_super == 0;
        snprintf(name, sizeof(name), "hall-%05u", at);
        if (first && tiers == 3 && at % (PER_LEAF * PER_HALL) == 0 &&
            gt_cluster_add_supernode(cluster, name, 3, GT_NONE, &hall, &err) < 0)
            stop("hall", err);
        snprintf(name, sizeof(name), "leaf-%05u", at);
        if (first && tiers == 3 && at % PER_LEAF == 0 &&
            gt_cluster_add_supernode(cluster, name, 2, hall, &leaf, &err) < 0)
            stop("leaf", err);
        snprintf(name, sizeof(name), "supernode-%05u", at);
        if (first && gt_cluster_add_supernode(cluster, name, 1, leaf, &super, &err) < 0)
            stop("supernode", err);
        snprintf(name, sizeof(name), "gpu-worker-%06u", i);
        if (gt_cluster_add_node(cluster, name, class_id, super, &id, &err) < 0)
            stop("node", err);
    }
    return cluster;
}

static struct gt_cluster *cluster_of(struct shape shape)
{
    return cluster_of_tiers(shape, 1);
}

static void occupy(struct gt_cluster *cluster, uint64_t seed)
{
    for (uint32_t node = 0; node < gt_cluster_nodes(cluster); node++)
        gt_cluster_set_free(cluster, node, random_next(&seed));
}

/* A job of `units` units of `pods` pods of `gpus` GPUs. */
struct job {
    struct gt_plan_unit *units;
    struct gt_plan_pod *pods;
    uint32_t unit_count, pod_count;
};

static struct job job_of(unsigned units, unsigned pods, unsigned gpus, unsigned atom)
{
    struct job job = {array_of(units, sizeof(*job.units)), array_of((size_t)units * pods, sizeof(*job.pods)),
                      units, units * pods};

    for (unsigned u = 0; u < units; u++)
        job.units[u] = (struct gt_plan_unit){.first = u * pods, .pods = pods, .gpus = gpus, .atom = atom};
    return job;
}

static void job_done(struct job *job)
{
    free(job->units);
    free(job->pods);
}

/* ---- times ---- */

static void *sink; /* results are stored here, so that the compiler does not remove the computation */

static double all_ns(struct gt_cluster *cluster, unsigned k)
{
    double least = 1e18, *values = array_of(gt_cluster_nodes(cluster), sizeof(*values));

    for (unsigned i = 0; i < REPEATS; i++) {
        double before = now_ns(), took;

        gt_score_all(cluster, k, values);
        took = now_ns() - before;
        least = took < least ? took : least;
    }
    free(values);
    return least;
}

/* Reads as many masks and classes as scoring does, one look-up in 2 KiB for each, and keeps the greatest. */
static double scan_bound_ns(unsigned nodes)
{
    uint64_t *masks = array_of(nodes, sizeof(*masks)), seed = 3;
    uint16_t *classes = array_of(nodes, sizeof(*classes));
    double least = 1e18, table[256];

    for (unsigned i = 0; i < 256; i++)
        table[i] = (double)(i * 37 % 256);
    for (unsigned i = 0; i < nodes; i++)
        masks[i] = random_next(&seed) & 255;
    for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
        double before = now_ns(), took, greatest = 0;

        for (unsigned i = 0; i < nodes; i++) {
            double value = classes[i] ? 0 : table[masks[i]];

            greatest = value > greatest ? value : greatest;
        }
        took = now_ns() - before;
        sink = greatest > 1 ? masks : NULL;
        least = took < least ? took : least;
    }
    free(masks);
    free(classes);
    return least;
}

static double plan_ns(struct gt_cluster *cluster, struct job *job)
{
    const struct gt_plan_request request = {
        .units = job->units, .unit_count = job->unit_count, .pods = job->pods, .pod_count = job->pod_count};
    struct gt_plan_failure failure;
    double least = 1e18;

    for (unsigned i = 0; i < REPEATS; i++) {
        double before = now_ns(), took;
        bool placed = gt_plan_job(cluster, &request, &failure);

        took = now_ns() - before;
        if (!placed)
            stop("the job finds no place", NULL);
        least = took < least ? took : least;
    }
    return least;
}

/* The same without every other node: excluded in the request, or marked in the cluster and unmarked again. */
static double plan_without_ns(struct gt_cluster *cluster, struct job *job, bool mark)
{
    struct gt_plan_failure failure;
    struct gt_node_set half = {0};
    struct gt_err *err = NULL;
    double least = 1e18;

    for (uint32_t node = 0; node < gt_cluster_nodes(cluster); node += 2)
        if (gt_node_set_add(&half, node, &err) < 0)
            stop("nodes", err);
    const struct gt_plan_request request = {.units = job->units,
                                            .unit_count = job->unit_count,
                                            .pods = job->pods,
                                            .pod_count = job->pod_count,
                                            .excluded = mark ? NULL : &half};
    for (unsigned i = 0; i < REPEATS; i++) {
        double before = now_ns(), took;

        for (uint32_t node = 0; mark && node < gt_cluster_nodes(cluster); node += 2)
            gt_cluster_set_eligible(cluster, node, false);
        bool placed = gt_plan_job(cluster, &request, &failure);
        for (uint32_t node = 0; mark && node < gt_cluster_nodes(cluster); node += 2)
            gt_cluster_set_eligible(cluster, node, true);
        took = now_ns() - before;
        if (!placed)
            stop("the job finds no place", NULL);
        least = took < least ? took : least;
    }
    gt_node_set_done(&half);
    return least;
}

/* The same where each pod has the same host port, which is taken on every fourth node. */
static double plan_ports_ns(struct gt_cluster *cluster, struct job *job)
{
    struct gt_plan_rules rules = {.sort = array_of(job->pod_count, 1), .sorts = 1, .count = 1};
    rules.rules[0] = (struct gt_plan_rule){.kind = GT_PEER_APART, .who = 1, .with = 1};
    struct gt_err *err = NULL;
    for (uint32_t node = 0; node < gt_cluster_nodes(cluster); node += 4)
        if (gt_node_set_add(&rules.barred[0], node, &err) < 0)
            stop("nodes", err);
    const struct gt_plan_request request = {.units = job->units,
                                            .unit_count = job->unit_count,
                                            .pods = job->pods,
                                            .pod_count = job->pod_count,
                                            .rules = &rules};
    struct gt_plan_failure failure;
    double least = 1e18;
    for (unsigned i = 0; i < REPEATS; i++) {
        double before = now_ns(), took;
        bool placed = gt_plan_ruled(cluster, &request, &failure);

        took = now_ns() - before;
        if (!placed)
            stop("the job finds no place", NULL);
        least = took < least ? took : least;
    }
    gt_plan_rules_done(&rules);
    return least;
}

/* What a plan must do: read the count of each supernode once, the nodes of one supernode for each unit, and
 * write the place of each pod. */
static double plan_bound_ns(unsigned supers, unsigned per_super, unsigned units, unsigned pods)
{
    uint32_t *slots = array_of(supers, sizeof(*slots));
    uint8_t *count = array_of((size_t)supers * per_super, 1);
    struct gt_plan_pod *places = array_of((size_t)units * pods, sizeof(*places));
    double least = 1e18;

    for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
        double before = now_ns(), took;
        uint32_t most = 0;

        for (unsigned s = 0; s < supers; s++)
            most = slots[s] > most ? slots[s] : most;
        for (unsigned u = 0; u < units; u++) {
            for (unsigned n = 0; n < per_super; n++)
                most += count[u % supers * per_super + n];
            for (unsigned p = 0; p < pods; p++)
                places[u * pods + p] = (struct gt_plan_pod){.place = {most, 255}};
        }
        took = now_ns() - before;
        sink = places[units - 1].place.node ? slots : NULL;
        least = took < least ? took : least;
    }
    free(slots);
    free(count);
    free(places);
    return least;
}

static double change_ns(struct gt_cluster *cluster, double *ret_bound)
{
    enum { CHANGES = 20000 };
    uint32_t *nodes = array_of(CHANGES, sizeof(*nodes)), count = gt_cluster_nodes(cluster);
    uint64_t *masks = array_of(CHANGES, sizeof(*masks)), seed = 9;
    uint64_t *states = array_of(count, 4 * sizeof(*states));
    double least = 1e18, bound = 1e18;

    for (unsigned i = 0; i < CHANGES; i++) {
        nodes[i] = (uint32_t)(random_next(&seed) % count);
        masks[i] = random_next(&seed);
    }
    for (unsigned repeat = 0; repeat < 200; repeat++) {
        double before = now_ns(), took;

        for (unsigned i = 0; i < CHANGES; i++)
            gt_cluster_set_free(cluster, nodes[i], masks[i]);
        took = (now_ns() - before) / CHANGES;
        least = took < least ? took : least;
        before = now_ns();
        for (unsigned i = 0; i < CHANGES; i++)
            for (unsigned a = 0; a < 4; a++)
                states[a * count + nodes[i]] ^= masks[i];
        took = (now_ns() - before) / CHANGES;
        bound = took < bound ? took : bound;
    }
    sink = states[0] ? states : NULL;
    for (uint32_t node = 0; node < count; node++)
        gt_cluster_set_free(cluster, node, UINT64_MAX);
    free(nodes);
    free(masks);
    free(states);
    *ret_bound = bound;
    return least;
}

/* ---- churn ---- */

enum { GROUP = 8 };

struct group {
    uint32_t node[GROUP];
    uint64_t mask[GROUP];
};

static void release(struct gt_cluster *cluster, const struct group *group)
{
    for (unsigned i = 0; i < GROUP; i++) {
        struct gt_cluster_node node;

        gt_cluster_get_node(cluster, group->node[i], &node);
        gt_cluster_set_free(cluster, group->node[i], node.free | group->mask[i]);
    }
}

static bool bind_group(struct gt_cluster *cluster, struct job *job, uint64_t owner, struct group *ret)
{
    struct gt_plan_failure failure;
    struct gt_promise_id assumptions[GROUP];
    struct gt_err *err = NULL;
    const struct gt_plan_request request = {
        .units = job->units, .unit_count = 1, .pods = job->pods, .pod_count = GROUP};

    if (!gt_plan_job(cluster, &request, &failure))
        return false;
    if (gt_plan_assume(cluster, job->pods, GROUP, owner, assumptions, &err) < 0)
        stop("assume", err);
    for (unsigned i = 0; i < GROUP; i++) {
        gt_cluster_confirm(cluster, assumptions[i]);
        ret->node[i] = job->pods[i].place.node;
        ret->mask[i] = job->pods[i].place.mask;
    }
    return true;
}

/* Operations a second: fills the cluster to nine tenths, then at random one group goes or comes. A group that
 * finds no place is an operation too. */
static double churn(struct shape shape, unsigned gpus, unsigned operations, double *ret_full)
{
    struct gt_cluster *cluster = cluster_of(shape);
    unsigned most = shape.nodes * shape.gpus / gpus / GROUP, live = 0;
    struct group *groups = array_of(most, sizeof(*groups));
    struct job job = job_of(1, GROUP, gpus, 0);
    uint64_t seed = 11;
    double before = clock_ns(CLOCK_PROCESS_CPUTIME_ID), took;

    for (unsigned i = 0; i < operations; i++) {
        uint64_t random = random_next(&seed);

        if (live < most * 9 / 10 || (live < most && random >> 63)) {
            live += bind_group(cluster, &job, i, &groups[live]);
        } else {
            unsigned at = (unsigned)(random % live);

            release(cluster, &groups[at]);
            groups[at] = groups[--live];
        }
    }
    took = clock_ns(CLOCK_PROCESS_CPUTIME_ID) - before;
    *ret_full = 100.0 * live / most;
    gt_cluster_free(cluster);
    free(groups);
    job_done(&job);
    return operations / took * 1e9;
}

/* ---- the report ---- */

static double resident_mib(void)
{
    FILE *file = fopen("/proc/self/statm", "r");
    unsigned long all = 0, resident = 0;

    if (!file || fscanf(file, "%lu %lu", &all, &resident) != 2)
        stop("/proc/self/statm", NULL);
    fclose(file);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / 1048576;
}

static double heap_mib(void)
{
    struct mallinfo2 info = mallinfo2();
    return (double)(info.uordblks + info.hblkhd) / 1048576;
}

static void memory(void)
{
    double before = resident_mib();
    struct gt_cluster *cluster = cluster_of((struct shape){10240, 32, 8});

    occupy(cluster, 1);
    for (unsigned k = 1; k <= 8; k++)
        gt_score_best(cluster, NULL, k);
    printf("# memory, 10,240 nodes of 8 GPUs in 320 supernodes, scored for every k\n");
    measure("resident memory that it added", resident_mib() - before, "MiB", "<8");
    gt_cluster_free(cluster);
}

static void scoring(void)
{
    struct gt_cluster *cluster = cluster_of((struct shape){10240, 32, 8});

    printf("# score 10,240 nodes of 8 GPUs, pods of 2\n");
    measure("all nodes empty", all_ns(cluster, 2) / 1e3, "us", "<20");
    occupy(cluster, 1);
    measure("any masks", all_ns(cluster, 2) / 1e3, "us", "<20");
    measure("bound: masks, classes, one look-up, the greatest", scan_bound_ns(10240) / 1e3, "us", "-");
    gt_cluster_free(cluster);
}

static void planning(void)
{
    struct gt_cluster *cluster = cluster_of((struct shape){10240, 32, 8});
    struct job job = job_of(32, 4, 8, 0), one = job_of(1, 8, 8, 0), soft = job_of(8, 64, 8, 4);
    double bound;

    printf("# plan, 10,240 nodes of 8 GPUs in 320 supernodes\n");
    measure("1,024 GPUs: 32 units of 4 pods of 8", plan_ns(cluster, &job) / 1e3, "us", "<50");
    measure("bound: each count, 32 supernodes' nodes, 128 places", plan_bound_ns(320, 32, 32, 4) / 1e3, "us",
            "-");
    measure("one unit of 8 pods of 8", plan_ns(cluster, &one) / 1e3, "us", "-");
    measure("the same without every other node", plan_without_ns(cluster, &one, false) / 1e3, "us", "-");
    measure("peer: those nodes marked and unmarked", plan_without_ns(cluster, &one, true) / 1e3, "us", "-");
    measure("4,096 GPUs: 8 units of 64 pods of 8 in atoms of 4, each split", plan_ns(cluster, &soft) / 1e3,
            "us", "-");
    measure("state change", change_ns(cluster, &bound), "ns", "<200");
    measure("bound: change four words of a node", bound, "ns", "-");
    gt_cluster_free(cluster);
    job_done(&job);
    job_done(&one);
    job_done(&soft);

    printf("# plan, 5,000 nodes of 8 GPUs in 313 supernodes\n");
    cluster = cluster_of((struct shape){5000, 16, 8});
    job = job_of(16, 4, 4, 0);
    measure("16 units of 4 pods of 4", plan_ns(cluster, &job) / 1e3, "us", "-");
    measure("the same with a host port, taken on every fourth node", plan_ports_ns(cluster, &job) / 1e3, "us",
            "<1000");
    gt_cluster_free(cluster);
    job_done(&job);

    printf("# plan, 4,096 nodes of 8 GPUs in 256 supernodes\n");
    cluster = cluster_of((struct shape){4096, 16, 8});
    job = job_of(64, 4, 8, 0);
    measure("64 units of 4 pods of 8", plan_ns(cluster, &job) / 1e3, "us", "<100");
    measure("bound: each count, 64 supernodes' nodes, 256 places", plan_bound_ns(256, 16, 64, 4) / 1e3, "us",
            "-");
    occupy(cluster, 21);
    job_done(&job);
    job = job_of(64, 4, 1, 0);
    measure("64 units of 4 pods of 1, any masks", plan_ns(cluster, &job) / 1e3, "us", "-");
    job_done(&job);
    gt_cluster_free(cluster);
}

static void churning(void)
{
    struct shape shape = {10240, 32, 8};
    struct gt_cluster *cluster = cluster_of(shape);
    double full, bound;

    change_ns(cluster, &bound);

    printf("# churn, 10,240 nodes in 320 supernodes, 1,000,000 operations, each binds or releases 8 pods\n");
    measure("groups of 8 pods of 8, operations a second", churn(shape, 8, 1000000, &full), "", ">500000");
    measure("groups of 8 pods of 8, filled at the end", full, "%", "-");
    gt_cluster_free(cluster);
    measure("bound: change four words of 8 nodes an operation", 1e9 / (8 * bound), "", "-");
    measure("groups of 8 pods of 2, operations a second", churn(shape, 2, 1000000, &full), "", "-");
    measure("groups of 8 pods of 2, filled at the end", full, "%", "-");
}

/* The kinds of cost whose growth is measured, with their units. */
enum { SCORE, BOUND, PLAN, CHANGE, MEMORY, KINDS };
static const struct {
    const char *what, *unit;
} kinds[KINDS] = {{"score all", "us"},
                  {"bound of the scores, the loop alone", "us"},
                  {"plan 16 units of 4 pods of 8", "us"},
                  {"state change", "ns"},
                  {"memory", "MiB"}};

enum { WALKED = 50000 };

/* Scoring a cluster of so many nodes, as one of those that make up 50,000 together, one after the other: with
 * a single small cluster the processor's branch prediction would make small sizes look too fast. */
static double walk_ns(unsigned nodes)
{
    unsigned count = WALKED / nodes;
    struct gt_cluster **clusters = array_of(count, sizeof(struct gt_cluster *));
    double least = 1e18, *values = array_of(nodes, sizeof(*values));

    for (unsigned i = 0; i < count; i++) {
        clusters[i] = cluster_of((struct shape){nodes, 32, 8});
        occupy(clusters[i], i + 1);
    }
    for (unsigned repeat = 0; repeat < REPEATS; repeat++) {
        double before = now_ns(), took;

        for (unsigned i = 0; i < count; i++)
            if (!gt_score_all(clusters[i], 2, values))
                stop("no node fits", NULL);
        took = (now_ns() - before) / count;
        least = took < least ? took : least;
    }
    for (unsigned i = 0; i < count; i++)
        gt_cluster_free(clusters[i]);
    free(clusters);
    free(values);
    return least;
}

static void costs_at(unsigned nodes, double costs[KINDS])
{
    double bound, before = heap_mib();
    struct gt_cluster *cluster = cluster_of((struct shape){nodes, 32, 8});
    struct job job = job_of(16, 4, 8, 0);

    costs[PLAN] = plan_ns(cluster, &job) / 1e3;
    costs[CHANGE] = change_ns(cluster, &bound);
    costs[SCORE] = walk_ns(nodes) / 1e3;
    costs[BOUND] = scan_bound_ns(nodes) / 1e3;
    costs[MEMORY] = heap_mib() - before;
    gt_cluster_free(cluster);
    job_done(&job);
}

static void growth(unsigned kind, const char *goal, double small, double large, const char *times)
{
    char name[96];

    snprintf(name, sizeof(name), "%s: %s times the nodes cost", kinds[kind].what, times);
    measure(name, large / small, "x", goal);
}

/* All but some whole nodes are in use. */
static void leave_nodes(struct gt_cluster *cluster, unsigned percent, uint64_t seed)
{
    for (uint32_t node = 0; node < gt_cluster_nodes(cluster); node++)
        gt_cluster_set_free(cluster, node, random_next(&seed) % 100 < percent ? 0xff : 0);
}

/* The same job in one tier and in three, in turn; the means of so many clusters. */
static void costs_of_tiers(unsigned free, unsigned clusters, const char *where, const char *goal)
{
    struct gt_cluster *one = cluster_of((struct shape){WALKED, 32, 8});
    struct gt_cluster *three = cluster_of_tiers((struct shape){WALKED, 32, 8}, 3);
    struct job job = job_of(16, 4, 8, 0);
    double flat = 0, tiers = 0, least[2], took;
    char name[96];

    for (unsigned seed = 7; seed < 7 + clusters; seed++) {
        leave_nodes(one, free, seed);
        leave_nodes(three, free, seed);
        least[0] = least[1] = 1e18;
        for (unsigned i = 0; i < 6; i++) {
            took = plan_ns(i % 2 ? three : one, &job);
            least[i % 2] = took < least[i % 2] ? took : least[i % 2];
        }
        flat += least[0] / clusters;
        tiers += least[1] / clusters;
    }
    snprintf(name, sizeof(name), "plan 16 units of 4 pods of 8 in three tiers%s", where);
    measure(name, tiers / 1e3, "us", "-");
    snprintf(name, sizeof(name), "plan 16 units of 4 pods of 8%s: three tiers cost", where);
    measure(name, tiers / flat, "x", goal);
    gt_cluster_free(one);
    gt_cluster_free(three);
    job_done(&job);
}

static void sizes(void)
{
    enum { SMALL = 0, LARGE = 5 };
    static const unsigned nodes[] = {1000, 2000, 5000, 10000, 25000, WALKED};
    double costs[GT_COUNT(nodes)][KINDS];
    char name[80];

    printf("# against size: nodes of 8 GPUs, supernodes of 32\n");
    for (unsigned i = 0; i < GT_COUNT(nodes); i++) {
        costs_at(nodes[i], costs[i]);
        for (unsigned kind = 0; kind < KINDS; kind++) {
            snprintf(name, sizeof(name), "%u nodes: %s", nodes[i], kinds[kind].what);
            measure(name, costs[i][kind], kinds[kind].unit, "-");
        }
    }
    /* A tenth for the noise of two measurements. */
    growth(SCORE, "<55", costs[SMALL][SCORE], costs[LARGE][SCORE], "50");
    growth(BOUND, "-", costs[SMALL][BOUND], costs[LARGE][BOUND], "50");
    growth(PLAN, "<50", costs[SMALL][PLAN], costs[LARGE][PLAN], "50");
    growth(CHANGE, "<50", costs[SMALL][CHANGE], costs[LARGE][CHANGE], "50");
    costs_of_tiers(100, 1, "", "<1.3");
    costs_of_tiers(15, 1, ", 85 % in use", "<1.3");
    costs_of_tiers(15, 10, ", 85 % in use, 10 clusters", "<1.5");
    growth(MEMORY, "<50", costs[SMALL][MEMORY], costs[LARGE][MEMORY], "50");
}

/* 16,384 units of 1 GPU. */
static void small_pods(void)
{
    enum { PODS = 16384, SMALL_NODES = 100000 };
    struct gt_cluster *cluster = cluster_of((struct shape){SMALL_NODES, 32, 8});
    double before;

    occupy(cluster, 1);
    printf("# 16,384 pods of 1 GPU, 100,000 nodes of 8 GPUs\n");
    struct job job = job_of(PODS, 1, 1, 0);
    const struct gt_plan_request request = {
        .units = job.units, .unit_count = job.unit_count, .pods = job.pods, .pod_count = job.pod_count};
    struct gt_plan_failure failure;
    before = now_ns();
    if (!gt_plan_job(cluster, &request, &failure))
        stop("the job finds no place", NULL);
    measure("a job of units of one, ms", (now_ns() - before) / 1e6, "ms", "<300");
    job_done(&job);
    gt_cluster_free(cluster);
}

/* Each GPU of the cluster is in use by a pod that may be evicted, each a job by itself. */
static void preempting(void)
{
    enum { FULL_NODES = 10000, GPUS = 8 };
    struct gt_cluster *cluster = cluster_of((struct shape){FULL_NODES, 32, GPUS});
    struct gt_running_pod *pods = array_of((size_t)FULL_NODES * GPUS, sizeof(*pods));
    struct job job = job_of(2, 4, GPUS, 0);
    const struct gt_plan_request request = {
        .units = job.units, .unit_count = job.unit_count, .pods = job.pods, .pod_count = job.pod_count};

    leave_nodes(cluster, 0, 1);
    for (uint32_t i = 0; i < FULL_NODES * GPUS; i++)
        pods[i] = (struct gt_running_pod){.place.node = i / GPUS,
                                          .job = i,
                                          .place.mask = UINT64_C(1) << i % GPUS,
                                          .unit = GT_NONE,
                                          .movable = true};
    printf("# 80,000 pods of 1 GPU on 10,000 nodes, a job of 2 units of 4 pods of 8\n");
    double before = now_ns();
    if (!gt_victims_choose(cluster, &request, pods, FULL_NODES * GPUS, 0))
        stop("the job finds no victims", NULL);
    measure("choose its victims, ms", (now_ns() - before) / 1e6, "ms", "<500");
    free(pods);
    job_done(&job);
    gt_cluster_free(cluster);
}

int main(void)
{
    memory();
    small_pods();
    preempting();
    scoring();
    planning();
    churning();
    sizes();
    return sink == NULL && now_ns() < 0;
}
