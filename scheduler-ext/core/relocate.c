/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/relocate.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "base/compare.h"
#include "base/err.h"

/*
 * First the best set of pods of gt_advise() is tried; it is the result if all its pods have new places and no
 * set can be better. Otherwise sets of jobs are searched, smaller sets first, and for each set, few pods
 * before many. A set is skipped where the job would not fit even without all its pods. Moved pods are tried
 * on one node after the other as long as the job still fits; nodes of a supernode with equally many available
 * GPUs are equivalent.
 */
enum {
    RELOCATE_WORK = 30000000,
    MOVES_MAX = 1024, /* depth of the recursion, one call for each pod; more pods are not searched */
};

struct move_candidate { /* a movable pod that would free something */
    uint32_t pod, node, job;
    unsigned gain, need; /* GPUs that become available; GPUs that it needs elsewhere */
    bool tied;
};

struct relocator {
    const struct gt_advise_job *job;
    struct gt_err **err;
    uint64_t work;
    bool exhausted;

    uint32_t node_count;
    unsigned *available; /* [node], as it would be; 0 where no pod may go */
    uint32_t *super;     /* [node] */
    uint32_t *order;     /* nodes, by supernode */
    uint32_t *slots;     /* [supernode] */
    uint64_t runs, free; /* that fit; GPUs available */

    struct move_candidate *candidates; /* by job */
    uint32_t candidate_count;
    uint32_t *jobs; /* [i]: its first mover; one more at the end */
    uint32_t job_count;
    uint32_t *set; /* jobs of the current set */

    const struct move_candidate **chosen; /* that are to move */
    uint32_t *places;                     /* where they go */
    uint32_t chosen_count;
    unsigned chosen_gpus;

    struct gt_relocate_move *best;
    uint32_t best_count, best_jobs;
    unsigned best_gpus;
};

static void spend(struct relocator *r)
{
    r->exhausted = r->exhausted || !r->work;
    r->work -= r->work > 0;
}

/* ---- the cluster as it would be ---- */

static void relocate_change(struct relocator *r, uint32_t node, int gpus)
{
    uint32_t *slots = &r->slots[r->super[node]];
    r->runs -= *slots / r->job->pods;
    *slots -= r->available[node] / r->job->gpus;
    r->available[node] = (unsigned)((int)r->available[node] + gpus);
    *slots += r->available[node] / r->job->gpus;
    r->runs += *slots / r->job->pods;
    spend(r);
}

static bool relocate_fits(const struct relocator *r)
{
    return r->runs >= r->job->runs;
}

static int relocate_by_super(const void *a, const void *b, void *supers)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const uint32_t *super = supers;
    if (super[x] != super[y])
        return super[x] < super[y] ? -1 : 1;
    return (x > y) - (x < y);
}

static int relocate_read_cluster(struct relocator *r, const struct gt_cluster *cluster)
{
    r->node_count = gt_cluster_nodes(cluster);
    r->available = calloc((size_t)r->node_count + 1, sizeof(*r->available));
    r->super = calloc((size_t)r->node_count + 1, sizeof(*r->super));
    r->order = calloc((size_t)r->node_count + 1, sizeof(*r->order));
    r->slots = calloc((size_t)gt_cluster_supernodes(cluster) + 1, sizeof(*r->slots));
    if (!r->available || !r->super || !r->order || !r->slots)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    for (uint32_t id = 0; id < r->node_count; id++) {
        struct gt_cluster_node node;
        r->order[id] = id;
        if (!gt_cluster_get_node(cluster, id, &node))
            continue;
        r->super[id] = node.supernode;
        relocate_change(r, id, (int)gt_bit_count(node.available));
        r->free += r->available[id];
    }
    qsort_r(r->order, r->node_count, sizeof(*r->order), relocate_by_super, r->super);
    return 0;
}

static int relocate_by_job(const void *a, const void *b)
{
    const struct move_candidate *x = a, *y = b;
    if (x->job != y->job)
        return x->job < y->job ? -1 : 1;
    if (x->need != y->need) /* large ones are placed first */
        return x->need > y->need ? -1 : 1;
    if (x->node != y->node)
        return x->node < y->node ? -1 : 1;
    return (x->pod > y->pod) - (x->pod < y->pod);
}

static int find_candidates(struct relocator *r, const struct gt_cluster *cluster,
                           const struct gt_running_pod *pods, uint32_t count)
{
    uint32_t alone = GT_NONE;
    r->candidates = calloc((size_t)count + 1, sizeof(*r->candidates));
    r->jobs = calloc((size_t)count + 2, sizeof(*r->jobs));
    r->set = calloc((size_t)count + 1, sizeof(*r->set));
    r->chosen = calloc((size_t)count + 1, sizeof(const struct move_candidate *));
    r->places = calloc((size_t)count + 1, sizeof(*r->places));
    r->best = calloc((size_t)count + 1, sizeof(*r->best));
    if (!r->candidates || !r->jobs || !r->set || !r->chosen || !r->places || !r->best)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    for (uint32_t i = 0; i < count; i++) {
        struct gt_cluster_node node;
        const struct gt_running_pod *pod = &pods[i];
        if (!pod->movable || !gt_cluster_get_node(cluster, pod->node, &node) || !node.eligible)
            continue;
        unsigned gain = gt_bit_count(pod->mask & node.all & node.healthy & ~node.assumed & ~node.free);
        if (gain)
            r->candidates[r->candidate_count++] =
                (struct move_candidate){.pod = i,
                                        .node = pod->node,
                                        .job = pod->job == GT_NONE ? alone-- : pod->job,
                                        .gain = gain,
                                        .need = gt_bit_count(pod->mask & node.all),
                                        .tied = pod->tied};
    }
    qsort(r->candidates, r->candidate_count, sizeof(*r->candidates), relocate_by_job);
    for (uint32_t i = 0; i < r->candidate_count; i++)
        if (!i || r->candidates[i].job != r->candidates[i - 1].job)
            r->jobs[r->job_count++] = i;
    r->jobs[r->job_count] = r->candidate_count;
    return 0;
}

static void relocate_take_out(struct relocator *r, const struct move_candidate *candidate, bool out)
{
    relocate_change(r, candidate->node, out ? (int)candidate->gain : -(int)candidate->gain);
}

/* ---- places for the current pods ---- */

static uint32_t count_jobs(const struct relocator *r)
{
    uint32_t jobs = 0;
    for (uint32_t i = 0; i < r->chosen_count; i++) /* in the order of jobs */
        jobs += !i || r->chosen[i]->job != r->chosen[i - 1]->job;
    return jobs;
}

static void relocate_keep(struct relocator *r)
{
    r->best_count = r->chosen_count;
    r->best_gpus = r->chosen_gpus;
    r->best_jobs = count_jobs(r);
    for (uint32_t i = 0; i < r->chosen_count; i++)
        r->best[i] = (struct gt_relocate_move){r->chosen[i]->pod, r->places[i]};
}

/* Whether an earlier node of its supernode is equivalent. */
static bool relocate_is_repeated(struct relocator *r, uint32_t at, uint32_t own)
{
    uint32_t node = r->order[at];
    while (at-- && r->super[r->order[at]] == r->super[node]) {
        spend(r);
        if (r->available[r->order[at]] == r->available[node] && r->order[at] != own)
            return true;
    }
    return false;
}

static bool relocate_find_places(struct relocator *r, uint32_t at);

static bool try_place(struct relocator *r, uint32_t at, uint32_t node)
{
    int need = (int)r->chosen[at]->need;
    r->places[at] = node;
    relocate_change(r, node, -need);
    bool found = relocate_fits(r) && relocate_find_places(r, at + 1);
    relocate_change(r, node, need);
    return found;
}

/* Places pods from `at` on, first on nodes where they fit exactly. */
static bool relocate_find_places(struct relocator *r, uint32_t at)
{
    if (at == r->chosen_count) {
        relocate_keep(r);
        return true;
    }
    const struct move_candidate *candidate = r->chosen[at];
    for (unsigned exactly = 2; exactly--;)
        for (uint32_t i = 0; i < r->node_count && !r->exhausted; i++) {
            uint32_t node = r->order[i];
            spend(r);
            if (node == candidate->node || r->available[node] < candidate->need ||
                (r->available[node] == candidate->need) != exactly ||
                (candidate->tied && r->super[node] != r->super[candidate->node]) ||
                relocate_is_repeated(r, i, candidate->node))
                continue;
            if (try_place(r, at, node))
                return true;
        }
    return false;
}

/* ---- which pods of a set of jobs ---- */

static bool is_like(const struct move_candidate *a, const struct move_candidate *b)
{
    return a->job == b->job && a->node == b->node && a->gain == b->gain && a->need == b->need &&
           a->tied == b->tied;
}

/* Chooses `more` further pods from the set's jobs, beginning with pod `from` of job `at`. */
static void choose_pods(struct relocator *r, uint32_t set_size, uint32_t at, uint32_t from, uint32_t more)
{
    if (!more) {
        if (relocate_fits(r))
            relocate_find_places(r, 0);
        return;
    }
    for (; at < set_size; at++, from = 0) {
        uint32_t first = r->jobs[r->set[at]], end = r->jobs[r->set[at] + 1];
        for (uint32_t i = first + from; i < end && !r->exhausted; i++) {
            const struct move_candidate *candidate = &r->candidates[i];
            if ((i > first + from && is_like(candidate, candidate - 1)) ||
                (r->best_count && r->chosen_gpus + candidate->need >= r->best_gpus))
                continue;
            r->chosen[r->chosen_count++] = candidate;
            r->chosen_gpus += candidate->need;
            relocate_take_out(r, candidate, true);
            choose_pods(r, set_size, at, i - first + 1, more - 1);
            relocate_take_out(r, candidate, false);
            r->chosen_gpus -= candidate->need;
            r->chosen_count--;
        }
    }
}

/* ---- which jobs ---- */

static void take_job_out(struct relocator *r, uint32_t job, bool out)
{
    for (uint32_t i = r->jobs[job]; i < r->jobs[job + 1]; i++)
        relocate_take_out(r, &r->candidates[i], out);
}

/* Sets of `size` jobs, with `pods` pods moving; the first `at` are chosen, with so many pods in all. */
static void choose_jobs(struct relocator *r, uint32_t size, uint32_t at, uint32_t from, uint32_t in_all,
                        uint32_t pods)
{
    if (at == size) {
        bool helps = in_all >= pods && relocate_fits(r);
        for (uint32_t i = 0; i < size && helps; i++)
            take_job_out(r, r->set[i], false);
        if (!helps)
            return;
        choose_pods(r, size, 0, 0, pods);
        for (uint32_t i = 0; i < size; i++)
            take_job_out(r, r->set[i], true);
        return;
    }
    for (uint32_t job = from; job + (size - at) <= r->job_count && !r->exhausted; job++) {
        r->set[at] = job;
        take_job_out(r, job, true);
        choose_jobs(r, size, at + 1, job + 1, in_all + r->jobs[job + 1] - r->jobs[job], pods);
        take_job_out(r, job, false);
    }
}

/* [n]: the most pods that n jobs have. */
static int count_most(const struct relocator *r, uint32_t **ret_most)
{
    uint32_t *most = calloc((size_t)r->job_count + 1, sizeof(*most));
    if (!most)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    for (uint32_t i = 0; i < r->job_count; i++)
        most[i + 1] = r->jobs[i + 1] - r->jobs[i];
    qsort(most + 1, r->job_count, sizeof(*most), gt_compare_uint32_down);
    for (uint32_t i = 1; i <= r->job_count; i++)
        most[i] += most[i - 1];
    *ret_most = most;
    return 0;
}

static void relocate_search(struct relocator *r, const uint32_t *most, uint32_t least_pods)
{
    for (uint32_t size = 1; size <= r->job_count && !r->best_count && !r->exhausted; size++)
        for (uint32_t pods = least_pods > size ? least_pods : size;
             pods <= most[size] && !r->best_count && !r->exhausted; pods++) {
            r->exhausted = pods > MOVES_MAX;
            choose_jobs(r, size, 0, 0, 0, pods);
        }
}

/* ---- the set of gt_advise() ---- */

static void relocate_try_advice(struct relocator *r, const struct gt_advice *advice)
{
    if (advice->count > MOVES_MAX)
        return;
    for (uint32_t i = 0; i < r->candidate_count; i++) {
        const struct move_candidate *candidate = &r->candidates[i];
        if (!bsearch(&candidate->pod, advice->moved, advice->count, sizeof(*advice->moved),
                     gt_compare_uint32))
            continue;
        r->chosen[r->chosen_count++] = candidate;
        r->chosen_gpus += candidate->need;
        relocate_take_out(r, candidate, true);
    }
    if (relocate_fits(r))
        relocate_find_places(r, 0);
    while (r->chosen_count)
        relocate_take_out(r, r->chosen[--r->chosen_count], false);
    r->chosen_gpus = 0;
}

/* The fewest jobs that have so many pods. */
static uint32_t least_jobs(const struct relocator *r, const uint32_t *most, uint32_t pods)
{
    uint32_t jobs = 0;
    while (jobs < r->job_count && most[jobs] < pods)
        jobs++;
    return jobs;
}

/* The best of all sets; the greedy result stays where the search is cut short. */
static int search_all(struct relocator *r, const uint32_t *most, const struct gt_advice *advice,
                      uint64_t work, bool *ret_exact)
{
    uint32_t count = r->best_count, jobs = r->best_jobs;
    unsigned gpus = r->best_gpus;
    gt_auto_free struct gt_relocate_move *moves = calloc((size_t)count + 1, sizeof(*moves));
    if (!moves)
        return gt_fail_sys(r->err, ENOMEM, "relocation");
    memcpy(moves, r->best, count * sizeof(*moves));
    r->best_count = 0;
    r->exhausted = false;
    r->work = work;
    relocate_search(r, most, advice->exact ? advice->count : 1);
    *ret_exact = !r->exhausted;
    if (r->best_count || !r->exhausted)
        return 0;
    memcpy(r->best, moves, count * sizeof(*moves));
    r->best_count = count;
    r->best_jobs = jobs;
    r->best_gpus = gpus;
    return 0;
}

static int relocate_find(struct relocator *r, const struct gt_advice *advice, uint64_t work, bool *ret_exact)
{
    gt_auto_free uint32_t *most = NULL;
    int result = count_most(r, &most);
    if (result < 0)
        return result;
    r->exhausted = false;
    r->work = work / 8;
    relocate_try_advice(r, advice);
    *ret_exact = advice->exact && r->best_count && r->best_gpus == advice->gpus &&
                 r->best_jobs == least_jobs(r, most, advice->count);
    return *ret_exact ? 0 : search_all(r, most, advice, work, ret_exact);
}

static int by_pod(const void *a, const void *b)
{
    const struct gt_relocate_move *x = a, *y = b;
    return (x->pod > y->pod) - (x->pod < y->pod);
}

static void relocator_done(struct relocator *r)
{
    free(r->available);
    free(r->super);
    free(r->order);
    free(r->slots);
    free(r->candidates);
    free(r->jobs);
    free(r->set);
    free(r->chosen);
    free(r->places);
    free(r->best);
}

int gt_relocate(const struct gt_cluster *cluster, const struct gt_running_pod *pods, uint32_t pod_count,
                const struct gt_advise_job *job, uint64_t work, struct gt_relocation *ret,
                struct gt_err **err)
{
    __attribute__((cleanup(relocator_done))) struct relocator r = {.job = job, .err = err};
    struct gt_relocation relocation = {.exact = true};
    struct gt_advice advice = {0};
    int result = gt_advise(cluster, pods, pod_count, job, 0, &advice, err);
    r.work = UINT64_MAX;
    if (result >= 0)
        result = relocate_read_cluster(&r, cluster);
    if (result >= 0)
        result = find_candidates(&r, cluster, pods, pod_count);
    bool fits_now = result >= 0 && relocate_fits(&r);
    uint64_t wanted = (uint64_t)job->runs * job->pods * job->gpus; /* moving frees no GPU */
    if (result >= 0 && !fits_now && advice.possible && r.free >= wanted)
        result = relocate_find(&r, &advice, work ? work : RELOCATE_WORK, &relocation.exact);
    free(advice.moved);
    if (result < 0)
        return result;
    relocation.possible = fits_now || r.best_count;
    if (r.best_count) {
        qsort(r.best, r.best_count, sizeof(*r.best), by_pod);
        relocation.moves = r.best;
        r.best = NULL;
        relocation.count = r.best_count;
        relocation.jobs = r.best_jobs;
        relocation.gpus = r.best_gpus;
    }
    *ret = relocation;
    return 0;
}
