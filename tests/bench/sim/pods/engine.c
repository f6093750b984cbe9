/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/bench/sim/pods/engine.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/sim/group/run.h"

enum { MEMO_MAX = 32 << 20 };

/* A score, and the version of the node for which it was computed. */
struct memo {
    float score; /* scores are whole numbers, or differ by much more than its precision */
    uint32_t version;
};

/* CPU and memory that are left on a node, independently of what policies see. */
struct rest {
    uint32_t cpu, memory;
};

struct pod_run {
    const struct openb_pods *pods;
    const struct gt_pod_policy *policy;
    const struct gt_pod_options *options;
    struct openb_nodes all; /* the nodes in a random order */
    bool gpu_only;          /* the policy sees no CPU */
    struct gt_pod_world world;
    struct gt_pod_kind *kinds;
    uint32_t *shape_of; /* [row] */
    uint32_t *order;    /* rows, shuffled */
    struct memo *memo;  /* [shape][node]; NULL: too many */
    struct rest *rest;  /* [node] */
    bool *fits;         /* [node] */
    double *scores;     /* [node] */
    void *state;
    struct gt_links links;
    struct gt_rng rng, ties;
    uint64_t capacity, asked, used; /* thousandths of a GPU */
    struct gt_result result;
};

static void run_done(struct pod_run *run)
{
    if (run->policy->close && run->state)
        run->policy->close(run->state);
    free(run->world.nodes);
    free(run->kinds);
    free(run->shape_of);
    free(run->order);
    free(run->memo);
    free(run->rest);
    free(run->fits);
    free(run->scores);
    gt_links_done(&run->links);
    openb_nodes_done(&run->all);
}

/* ---- shapes: pods that are equal for a policy ---- */

static _Thread_local const struct openb_pod *sort_rows;
static _Thread_local bool sort_cpu;

static int by_shape(const void *a, const void *b)
{
    const struct openb_pod *x = &sort_rows[*(const uint32_t *)a], *y = &sort_rows[*(const uint32_t *)b];
    if (sort_cpu && x->cpu_milli != y->cpu_milli)
        return x->cpu_milli < y->cpu_milli ? -1 : 1;
    if (x->gpus != y->gpus)
        return x->gpus < y->gpus ? -1 : 1;
    if (x->spec != y->spec)
        return x->spec < y->spec ? -1 : 1;
    return (x->milli > y->milli) - (x->milli < y->milli);
}

/* The mask of a spec such as "A10|T4": one bit for each model of the cluster; an unknown model is the last
 * bit, which no node has. */
static uint64_t models_of(const struct openb_nodes *nodes, const char *spec)
{
    char name[OPENB_SPEC_LEN];
    uint64_t models = 0;
    for (const char *end; *spec; spec = end + (*end == '|')) {
        end = strchrnul(spec, '|');
        snprintf(name, sizeof(name), "%.*s", (int)(end - spec), spec);
        uint32_t number = openb_model_number(nodes, name);
        models |= UINT64_C(1) << (number ? number : OPENB_MODELS_MAX + 1);
    }
    return models;
}

static void make_shapes(struct pod_run *run)
{
    const struct openb_pods *pods = run->pods;
    uint32_t count = 0;
    for (uint32_t i = 0; i < pods->count; i++)
        run->order[i] = i;
    sort_rows = pods->pod;
    sort_cpu = !run->gpu_only;
    qsort(run->order, pods->count, sizeof(*run->order), by_shape);
    for (uint32_t i = 0; i < pods->count; i++) {
        const struct openb_pod *row = &pods->pod[run->order[i]];
        if (i == 0 || by_shape(&run->order[i - 1], &run->order[i]) != 0)
            run->kinds[count++] = (struct gt_pod_kind){
                .cpu = sort_cpu ? row->cpu_milli : 0,
                .gpus = row->gpus,
                .milli = row->milli,
                .models = row->spec ? models_of(&run->all, pods->specs[row->spec]) : 0,
                .type = row->gpus == 0              ? 0
                        : row->milli < GT_GPU_MILLI ? 1
                                                    : 1 + row->gpus,
            };
        run->kinds[count - 1].count++;
        run->shape_of[run->order[i]] = count - 1;
    }
    run->world.kinds = run->kinds;
    run->world.kind_count = count;
    run->world.pod_rows = pods->count;
}

static int run_open(struct pod_run *run, const struct openb_nodes *from, struct gt_err **err)
{
    uint32_t rows = run->pods->count, nodes = from->count;
    gt_rng_seed(&run->ties, run->options->seed ^ UINT64_C(0x7135));
    if (run->pods->spec_count && !from->model_count)
        return gt_fail(err, EINVAL, "the pods ask for models of GPUs (gpu_spec), and the cluster names none");
    int r = openb_shuffle(from, &run->ties, &run->all, err);
    if (r < 0)
        return r;
    run->world.all = &run->all;
    run->gpu_only = run->options->gpu_only && !run->policy->sees_cpu;
    run->world.nodes = calloc(nodes, sizeof(*run->world.nodes));
    run->kinds = calloc(rows, sizeof(*run->kinds));
    run->shape_of = calloc(rows, sizeof(*run->shape_of));
    run->order = calloc(rows, sizeof(*run->order));
    run->rest = calloc(nodes, sizeof(*run->rest));
    run->fits = calloc(nodes, sizeof(*run->fits));
    run->scores = calloc(nodes, sizeof(*run->scores));
    if (!run->world.nodes || !run->kinds || !run->shape_of || !run->order || !run->rest || !run->fits ||
        !run->scores)
        return gt_fail_sys(err, ENOMEM, "simulation");
    make_shapes(run);
    if ((uint64_t)run->world.kind_count * nodes <= MEMO_MAX)
        run->memo = calloc((size_t)run->world.kind_count * nodes + 1, sizeof(*run->memo));
    for (uint32_t i = 0; i < nodes; i++) {
        struct gt_pod_node *node = &run->world.nodes[i];
        const struct openb_node *empty = &run->all.node[i];
        run->rest[i] = (struct rest){empty->cpu_milli, empty->memory_mib};
        *node = (struct gt_pod_node){.cpu = run->gpu_only ? 0 : empty->cpu_milli,
                                     .memory = run->gpu_only ? 0 : empty->memory_mib,
                                     .gpus = empty->gpus,
                                     .gpu_free = empty->gpus * GT_GPU_MILLI,
                                     .model = empty->model,
                                     .version = 1};
        for (uint32_t g = 0; g < empty->gpus; g++)
            node->gpu[g] = GT_GPU_MILLI;
    }
    run->capacity = (uint64_t)run->all.gpus * GT_GPU_MILLI;
    gt_rng_seed(&run->rng, run->options->seed);
    for (uint32_t i = 0; i < rows; i++)
        run->order[i] = i;
    for (uint32_t i = rows; i > 1; i--) {
        uint32_t j = gt_rng_below(&run->rng, i), row = run->order[i - 1];
        run->order[i - 1] = run->order[j];
        run->order[j] = row;
    }
    struct gt_pod_setup setup = {.seed = run->options->seed, .loss_weight = run->options->loss_weight};
    gt_auto_site struct gt_site *site = NULL;
    r = openb_site(&run->all, &site, err);
    if (r >= 0)
        r = gt_links_open(&run->links, site, err);
    return r >= 0 && run->policy->open ? run->policy->open(&run->world, &setup, &run->state, err) : r;
}

/* ---- one pod ---- */

static double score_of(struct pod_run *run, uint32_t kind, uint32_t node)
{
    const struct gt_pod_node *from = &run->world.nodes[node];
    if (!run->memo)
        return run->policy->score(run->state, from, &run->kinds[kind]);
    struct memo *memo = &run->memo[(size_t)kind * run->all.count + node];
    if (memo->version != from->version)
        *memo = (struct memo){(float)run->policy->score(run->state, from, &run->kinds[kind]), from->version};
    return (double)memo->score;
}

static uint32_t choose_by_score(struct pod_run *run, uint32_t kind)
{
    uint32_t nodes = run->all.count, best = GT_NONE, equal = 0;
    double low = (double)INFINITY, high = -(double)INFINITY, best_score = 0;
    for (uint32_t n = 0; n < nodes; n++) {
        if (!run->fits[n])
            continue;
        double score = score_of(run, kind, n);
        run->scores[n] = score;
        low = score < low ? score : low;
        high = score > high ? score : high;
    }
    for (uint32_t n = 0; n < nodes; n++) {
        if (!run->fits[n])
            continue;
        double score = run->scores[n];
        if (run->policy->stretched)
            score = high > low ? trunc(100 * (score - low) / (high - low)) : 100;
        if (best != GT_NONE && score < best_score)
            continue;
        if (best == GT_NONE || score > best_score)
            equal = 0;
        else if (!run->options->random_ties)
            continue;
        best_score = score;
        if (!run->options->random_ties || gt_rng_below(&run->ties, ++equal) == 0)
            best = n;
    }
    return best;
}

static void take(struct pod_run *run, uint32_t number, uint32_t shape_number, const struct openb_pod *row)
{
    struct gt_pod_node *node = &run->world.nodes[number];
    const struct gt_pod_kind *kind = &run->kinds[shape_number];
    const struct gt_pod_policy *policy = run->policy;
    uint64_t mask = 0;
    if (kind->gpus == 1 && kind->milli < GT_GPU_MILLI)
        mask = UINT64_C(1) << (policy->choose_gpu ? policy->choose_gpu(run->state, node, kind)
                                                  : gt_pod_tightest_gpu(node, kind->milli));
    else if (kind->gpus && policy->choose_gpus)
        mask = policy->choose_gpus(run->state, number, kind);
    else
        for (uint32_t i = 0, need = kind->gpus; need; i++)
            if (node->gpu[i] == GT_GPU_MILLI) {
                mask |= UINT64_C(1) << i;
                need--;
            }
    for (uint32_t i = 0; i < node->gpus; i++)
        if (mask & UINT64_C(1) << i)
            node->gpu[i] = (uint16_t)(node->gpu[i] - kind->milli);
    if (kind->milli == GT_GPU_MILLI)
        gt_links_add(&run->links, number, mask);
    node->gpu_free -= kind->gpus * kind->milli;
    node->cpu -= kind->cpu;
    node->memory -= run->world.memory;
    run->rest[number].cpu -= row->cpu_milli;
    run->rest[number].memory -= row->memory_mib;
    node->pods[kind->type]++;
    node->version++;
    if (policy->changed)
        policy->changed(run->state, &run->world, number);
}

/* Checks that the sums of all GPUs are right, so that the policy has not used more than there was. */
static bool is_sound(const struct pod_run *run)
{
    uint64_t free = 0;
    for (uint32_t n = 0; n < run->all.count; n++) {
        const struct gt_pod_node *node = &run->world.nodes[n];
        uint32_t sum = 0;
        for (uint32_t i = 0; i < node->gpus; i++) {
            if (node->gpu[i] > GT_GPU_MILLI)
                return false;
            sum += node->gpu[i];
        }
        if (sum != node->gpu_free || run->rest[n].cpu > run->all.node[n].cpu_milli)
            return false;
        free += sum;
    }
    return free == run->capacity - run->used;
}

static int place(struct pod_run *run, uint32_t row_number, struct gt_err **err)
{
    const struct openb_pod *row = &run->pods->pod[row_number];
    uint32_t kind = run->shape_of[row_number], feasible = 0, node = GT_NONE;
    uint64_t milli = (uint64_t)row->gpus * row->milli;
    for (uint32_t n = 0; n < run->all.count; n++) {
        run->fits[n] = row->cpu_milli <= run->rest[n].cpu && row->memory_mib <= run->rest[n].memory &&
                       gt_pod_fits(&run->world.nodes[n], &run->kinds[kind]);
        feasible += run->fits[n];
    }
    run->world.memory = run->gpu_only ? 0 : row->memory_mib;
    if (feasible)
        node = run->policy->choose
                   ? run->policy->choose(run->state, &run->world, &run->kinds[kind], run->fits)
                   : choose_by_score(run, kind);
    run->asked += milli;
    run->result.jobs++;
    if (node == GT_NONE && !feasible) {
        run->result.rejected++;
        return 0;
    }
    if (node == GT_NONE || !run->fits[node])
        return gt_fail(err, EUCLEAN, "policy %s chose a node on which the pod does not fit",
                       run->policy->name);
    take(run, node, kind, row);
    run->used += milli;
    run->result.placed++;
    return 0;
}

/* ---- the protocol ---- */

/* Free fractions of partly used GPUs, which a pod with whole GPUs cannot use. */
static double broken_share(const struct pod_run *run)
{
    uint64_t free = run->capacity - run->used, broken = 0;
    for (uint32_t n = 0; n < run->all.count; n++)
        for (uint32_t i = 0; i < run->world.nodes[n].gpus; i++)
            broken += run->world.nodes[n].gpu[i] < GT_GPU_MILLI ? run->world.nodes[n].gpu[i] : 0;
    return free ? (double)broken / (double)free : 0;
}

static uint64_t idle_gpus(const void *arg, uint32_t number)
{
    const struct gt_pod_node *node = &((const struct pod_run *)arg)->world.nodes[number];
    uint64_t mask = 0;
    for (uint32_t i = 0; i < node->gpus; i++)
        if (node->gpu[i] == GT_GPU_MILLI)
            mask |= UINT64_C(1) << i;
    return mask;
}

static int go(struct pod_run *run, struct gt_err **err)
{
    uint32_t rows = run->pods->count;
    double wanted = run->options->load * (double)run->capacity;
    for (uint32_t i = 0; i < OPENB_PODS_MAX; i++) {
        uint32_t row = i < rows ? run->order[i] : gt_rng_below(&run->rng, rows);
        if ((double)run->asked >= wanted)
            break;
        int r = place(run, row, err);
        if (r < 0)
            return r;
    }
    return is_sound(run) ? 0 : gt_fail(err, EUCLEAN, "policy %s used a GPU twice", run->policy->name);
}

int gt_pod_run(const struct openb_nodes *nodes, const struct openb_pods *pods,
               const struct gt_pod_policy *policy, const struct gt_pod_options *options,
               struct gt_result *ret, struct gt_err **err)
{
    if (!nodes->gpus)
        return gt_fail(err, EINVAL, "the cluster has no GPUs");
    struct pod_run run = {.pods = pods, .policy = policy, .options = options};
    int r = run_open(&run, nodes, err);
    if (r >= 0)
        r = go(&run, err);
    if (r >= 0) {
        run.result.acceptance = run.asked ? (double)run.used / (double)run.asked : 1;
        run.result.occupancy = (double)run.used / (double)run.capacity;
        run.result.fragmentation = broken_share(&run);
        run.result.fragmentation_size = 1;
        run.result.spread_mean = 1;
        run.result.link_share = gt_links_share(&run.links);
        run.result.link_fragmentation = gt_links_fragmentation(&run.links, idle_gpus, &run);
        *ret = run.result;
    }
    run_done(&run);
    return r;
}
