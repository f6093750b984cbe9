/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <string.h>

#include "scheduler-ext/core/internal.h"
#include "scheduler-ext/core/plan.h"
#include "scheduler-ext/core/plan_rules.h"

/* The slots for one pod size in all supernodes, as left by the plan in progress. */
struct room {
    unsigned gpus;         /* 0: not counted */
    uint32_t *slots;       /* [supernode] on its own nodes */
    const uint32_t *whole; /* the same if all usable GPUs were available */
    uint32_t count;
};
enum {
    ROOM_OF_PODS,
    ROOM_OF_NODES,
    ROOMS
}; /* rooms for pods of a unit, and for whole nodes where the unit is smaller */

/*
 * A plan in progress. It does not change the cluster's state: excluded nodes, GPUs that count as free and
 * placed pods are kept in a draft beside it (plan_draft.c), from which the next unit sees what is left.
 * Nothing has to be undone, since the next plan begins a new draft, and nothing is allocated: the draft uses
 * scratch memory of the cluster.
 */
struct job {
    struct gt_cluster *cluster; /* changed: the scratch, and which pod sizes are counted */
    struct gt_plan_unit *units;
    uint32_t unit_count;
    struct gt_plan_pod *pods;
    uint32_t pod_count;
    const struct gt_node_set *excluded;
    const uint64_t *freed;
    const struct gt_plan_limit *limits;
    uint32_t limit_count;
    enum gt_slow_use slow; /* ANY where nothing is slow */
    bool close;            /* brought together above the supernode (plan_close.h) */
    bool any_running;
    /* Supernodes have pods of the job, or of the unit that is split: those whose mark is this. */
    bool any_touched, any_touched_unit;
    uint32_t touch, touch_unit;
    bool any_open; /* some pod does not take all GPUs of its node */

    struct room rooms[ROOMS];
    /* As in the cluster. */
    uint32_t nodes_with[GT_GPUS_MAX + 1], idle_with[GT_GPUS_MAX + 1];
};

/* ---- the draft ---- */

/* Begins a new draft, in which nothing is placed. */
void gt_draft_begin(struct job *job);
/* Counts the slots for pods of `gpus` GPUs; the result is valid until the next call with the same `place`
 * (ROOM_OF_...). NULL: no such pod fits anywhere, or no memory. */
const struct room *gt_draft_room(struct job *job, unsigned place, unsigned gpus);
/* Takes a number of GPUs of a node; which ones is decided when all pods have a node. */
void gt_draft_take(struct job *job, uint32_t node, unsigned gpus);
void gt_draft_give(struct job *job, uint32_t node, unsigned gpus);

/* The GPUs that were available when the draft began. */
static inline uint64_t gt_draft_available(const struct job *job, uint32_t node)
{
    const struct gt_cluster *cluster = job->cluster;
    return cluster->draft_changed[node / 64] >> node % 64 & 1 ? cluster->draft_available[node]
                                                              : cluster->available[node];
}

/* How many of these are left and may be taken. */
static inline unsigned gt_draft_count(const struct job *job, uint32_t node)
{
    return job->cluster->draft_count[node];
}

/* ---- its units and runs, and the steps that place them ---- */

/* The number of pods of a run, which must lie in one supernode. */
static inline uint32_t gt_unit_run(const struct gt_plan_unit *unit)
{
    return unit->atom ? unit->atom : unit->pods;
}

/* Units of one kind have the same GPUs of a pod, pods, and pods of a run; they are placed together. */
static inline bool gt_unit_is_kind(const struct gt_plan_unit *a, const struct gt_plan_unit *b)
{
    return a->pods == b->pods && a->gpus == b->gpus && gt_unit_run(a) == gt_unit_run(b);
}

/* Whether every pod of the run has a node; whether one of its pods runs. */
bool gt_run_is_placed(const struct job *job, uint32_t first, uint32_t count);
bool gt_run_has_started(const struct job *job, uint32_t first, uint32_t count);

/* The supernode of a pod that has a node; GT_NONE where that node is gone. */
uint32_t gt_pod_super(const struct job *job, uint32_t pod);

/* Marks a supernode, and what lies above it, as one where the job has pods (plan_close.h). */
void gt_run_touch(struct job *job, uint32_t super);

/* Marks the tier-1 supernodes that have pods of the unit with the current stamp, and returns their number.
 * *ret_shared is the lowest supernode that contains all of them; GT_NONE: none. */
uint32_t gt_unit_mark_supernodes(const struct job *job, const struct gt_plan_unit *unit,
                                 uint32_t *ret_shared);

/* Whether a unit is of this kind and none of its pods is placed or runs. */
bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit,
                      const struct gt_plan_unit *kind);

/* Moves the entry at `at` down in a min-heap. */
static inline void gt_sift_down(uint64_t *heap, uint32_t size, uint32_t at)
{
    uint64_t moving = heap[at];
    for (uint32_t child; (child = 2 * at + 1) < size; at = child) {
        child += child + 1 < size && heap[child + 1] < heap[child];
        if (moving <= heap[child])
            break;
        heap[at] = heap[child];
    }
    heap[at] = moving;
}

/* Places the fresh units of a kind by the cluster's rule, each whole in one supernode, as many as have room.
 */
void gt_place_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* The same by GT_RULE_CHURN; there are `fresh` of them, 1 or more. */
void gt_place_churn(struct job *job, const struct gt_plan_unit *kind, const struct room *room,
                    uint32_t fresh);

/* Completes units of a kind with atoms and running pods within their supernodes where possible; those that
 * miss the fewest pods first. */
void gt_complete_started(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* Places the remaining atoms of one unit in several supernodes. False: not all have room; nothing was placed.
 */
bool gt_place_split(struct job *job, struct gt_plan_unit *unit, const struct room *room);

/* Where a job comes back to a domain that it has left: orders its units with atoms, the atoms of each, and
 * units smaller than a node, so that it does so less often. For jobs without running pods; up to 256 units,
 * and atoms of a kind. */
void gt_plan_order(struct job *job);

/* ---- begin and end ---- */

struct job gt_plan_begin(struct gt_cluster *cluster, const struct gt_plan_request *request);
/* Begins a draft in which no pod of the job but the running ones has a place. */
void gt_plan_clear(struct job *job);
/* Gives all pods, which have nodes now, their GPUs, and describes the units. */
void gt_plan_finish(struct job *job);

/* Describes why the unit has no room in what is left of the cluster. */
void gt_plan_fail(struct job *job, uint32_t unit, struct gt_plan_failure *ret);
/* The same for a run with running pods: they lie in different supernodes (super GT_NONE), or `super` has too
 * little room. */
void gt_plan_fail_started(struct job *job, uint32_t unit, uint32_t first, uint32_t super,
                          struct gt_plan_failure *ret);

/*
 * The min-loss rule: of the supernodes with f >= q slots it chooses the one where the fewest larger sizes
 * lose a place, then the one with the smallest f. Proof that no other rule places more while no job ends:
 *
 * Let each of the sizes q1 < q2 < ... divide the next, and let K_j be the sum of floor(f / q_j) over all
 * supernodes: how many runs of size q_j the cluster could hold.
 *
 * What fits: a set of runs fits exactly if, for each j, the runs of size q_j and more, counted in units of
 * q_j, are at most K_j. This is necessary, since a run of q_i >= q_j takes the slots of q_i / q_j runs of
 * q_j. It is sufficient when the runs are placed largest first: each lowers K_j by q_i / q_j for every j <=
 * i, in whichever supernode it is placed.
 *
 * Choices are ordered: a run of q_i lowers K_j for j <= i by the same number in every supernode; supernodes
 * differ only for larger sizes. If Q loses a place in f, so does every size Q' of the chain between q_i and
 * Q, since f mod Q' <= f mod Q < q_i. So of two supernodes one is better or equal for all sizes at the same
 * time.
 *
 * No run is refused that another rule could place: runs arrive one by one. Claim: our K_j are never below
 * those of any other rule. The claim could only fail when both place a run of q_i, we lose a place of a
 * larger size q_j, the other rule does not, and both had the same K_j. Then f mod q_j < q_i in every
 * supernode where the run fits, and f < q_i elsewhere, so our K_i = (q_j / q_i) K_j. The other rule had room
 * for a q_i besides its K_j runs of q_j, so its K_i is at least (q_j / q_i) K_j + 1. That is more than ours:
 * a contradiction.
 */

enum { RULE_TABLE = 512, LOST_UNKNOWN = 255 };
_Static_assert((int)GT_CHAIN_MAX < (int)LOST_UNKNOWN, "a count of lost sizes fits");

/*
 * A size of the chain needs as many slots as it has pods of the unit's size. If the largest is no number of
 * them, it is counted by its nodes: a unit of 40 GPUs needs 5 nodes of 8, each a slot for a pod of 6.
 *
 * How many sizes of the chain lose a place when q of the f slots of a supernode are taken: the larger sizes L
 * with f mod L < q. It depends on f only, so it is computed once for each f that occurs.
 */
struct rule {
    uint32_t q;
    uint32_t levels[GT_CHAIN_MAX]; /* in slots */
    unsigned level_count;
    uint8_t lost[RULE_TABLE]; /* [f] how many sizes lose a place; LOST_UNKNOWN */
};

enum { RULE_LOST_SHIFT = 24 }; /* a key: sizes that lose a place, then f; the least key is the best */
_Static_assert((uint64_t)GT_CLUSTER_NODES_MAX *GT_GPUS_MAX < 1 << RULE_LOST_SHIFT, "f fits into a key");

/* In how many slots a size has its nodes: nodes of the kind that holds such pods and has the most GPUs in
 * all. 0: it is no number of them. */
static inline uint32_t gt_rule_by_nodes(const struct gt_cluster *cluster, uint32_t size, unsigned gpus)
{
    unsigned node = gpus;
    for (unsigned n = gpus; n <= GT_GPUS_MAX; n++)
        if (cluster->nodes_of[n] * n > cluster->nodes_of[node] * node)
            node = n;
    return size % node ? 0 : size / node * (node / gpus);
}

static inline void gt_rule_make(const struct gt_cluster *cluster, uint32_t q, unsigned gpus, struct rule *ret)
{
    ret->q = q;
    ret->level_count = 0;
    memset(ret->lost, LOST_UNKNOWN, sizeof(ret->lost));
    const struct gt_chain_sizes *chain = &cluster->chain.sizes;
    for (unsigned i = 0; i < chain->count; i++) {
        uint32_t slots = chain->size[i] % gpus == 0 ? chain->size[i] / gpus
                         : i + 1 == chain->count    ? gt_rule_by_nodes(cluster, chain->size[i], gpus)
                                                    : 0;
        if (slots > q)
            ret->levels[ret->level_count++] = slots;
    }
}

static inline unsigned gt_rule_count_lost(const struct rule *rule, uint32_t f)
{
    unsigned lost = 0;
    for (unsigned i = 0; i < rule->level_count; i++)
        lost += f % rule->levels[i] < rule->q;
    return lost;
}

/* f >= q */
static inline unsigned gt_rule_lost(struct rule *rule, uint32_t f)
{
    if (f >= RULE_TABLE)
        return gt_rule_count_lost(rule, f);
    if (rule->lost[f] == LOST_UNKNOWN)
        rule->lost[f] = (uint8_t)gt_rule_count_lost(rule, f);
    return rule->lost[f];
}

static inline uint32_t gt_rule_key(struct rule *rule, uint32_t f)
{
    return (uint32_t)gt_rule_lost(rule, f) << RULE_LOST_SHIFT | f;
}

extern uint8_t gt_core_slots_of[GT_GPUS_MAX + 1][GT_GPUS_MAX + 1]; /* [g][n] = n / g; 0 for g of 0 */

/* How many pods of g GPUs n GPUs (0..64) hold; 0 for g of 0 or above 64. */
static inline unsigned gt_core_slots(unsigned g, unsigned n)
{
    return g <= GT_GPUS_MAX ? gt_core_slots_of[g][n] : 0;
}

/* Places pods on the nodes of one supernode. */

/* Places those pods of a run that have no place yet in one supernode. False: it has too little room; pods
 * that were placed stay placed. */
bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count);

/* Places `count` pods in a row on one node that has room for them. Their GPUs are chosen later, unless one
 * pod takes all. */
void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods,
                      uint32_t count);

/* Places all pods of a job with hard units by an exhaustive search. False: nothing is placed; *ret_exact: it
 * does not fit, otherwise the search was cut short. */
bool gt_place_mixed(struct job *job, bool *ret_exact);

/* Chooses GPUs for the pods that have none (pod_gpus.h); all pods must have a node. */
void gt_give_gpus(struct job *job);

/*
 * Chooses the GPUs of a job's pods on one node. A batch is the set of these pods that belong to one run (a
 * unit, or an atom); all pods of a batch ask for equally many GPUs. The choice has, in this order, with S as
 * in topology/model/loss.h,
 *   1. the highest sum of S over the pods,
 *   2. the highest sum of S over the batches,
 *   3. the highest S of all those GPUs and `held` together,
 *   4. the least cut against what stays free,
 *   5. the lowest mask of all; then, batch by batch and pod by pod, the lowest masks.
 * For one pod, and without held GPUs, this is gt_choose(). Up to 16 GPUs it is exact; above, the best that a
 * bounded search finds.
 */
enum { BATCHES_MAX = GT_GPUS_MAX };

struct pod_batch {
    uint8_t pods, gpus; /* gpus of each pod */
};

struct pod_gpus_query {
    uint32_t class;
    unsigned batches; /* 1 or more; the free GPUs suffice for all */
    uint64_t free;
    uint64_t own; /* GPUs of the job's pods that run there; none of them is free */
    /* Sorted: larger pods first; of equal ones, more pods first. */
    struct pod_batch batch[BATCHES_MAX];
    uint64_t requests[GT_GPUS_MAX]; /* of each pod, batch by batch (struct gt_numa_pod) */
};

/* Writes one mask for each pod, batch by batch. */
void gt_choose_pod_gpus(struct gt_cluster *cluster, const struct pod_gpus_query *query, uint64_t *ret_masks);

/* The same by a bounded search, for nodes of any size. */
void gt_search_pod_gpus(const struct gt_class *class, const struct pod_gpus_query *query,
                        uint64_t *ret_masks);

/* Frees the tables: of one class, of all. */
void gt_pod_gpus_forget_class(struct gt_cluster *cluster, uint32_t class);
void gt_pod_gpus_done(struct gt_cluster *cluster);

/*
 * A job that must lie in one supernode of a tier, or that lies close before anything else. If the plan that
 * is made without that lies in one, it is taken, so nothing is lost at tier 1; else the one with the fewest
 * available GPUs of those that hold it.
 */
typedef bool gt_plan_fn(struct gt_cluster *cluster, const struct gt_plan_request *request,
                        struct gt_plan_failure *ret_failure);

/* Whether the request is for gt_plan_within(), and not to be planned as it is. */
static inline bool gt_plan_has_tier(const struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    bool several = request->unit_count > 1 || (request->unit_count && request->units->atom);
    return request->within ||
           (cluster->prefers_close && cluster->uppers && several && !request->flat && !request->chosen);
}

/* Plans by `plan` with requests that are to be planned as they are. */
bool gt_plan_within(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                    struct gt_plan_failure *ret_failure);

/*
 * Slow and suspect GPUs: below feasibility and room. A job that avoids them is planned without regard to them
 * first: if that plan has none, it is the one. Of supernodes whose nodes are alike and equally full, the job
 * then takes those with the fewest such GPUs, and within each supernode the nodes with the fewest: the free
 * GPUs stay the same numbers. Last the job is planned without any slow GPU, for a single unit in each
 * supernode. That plan is taken where it leaves the cluster at least as many places of each size of the
 * chain, and lies no farther apart. So while no job ends, and where sizes divide one another, nothing is
 * refused that would have fitted (plan_rule.h): what fits is told by these numbers.
 */

/* Whether the request is for gt_plan_slow(), and not to be planned as it is. */
static inline bool gt_plan_minds_slow(const struct gt_cluster *cluster, const struct gt_plan_request *request)
{
    return cluster->slow_nodes && !request->settled &&
           (request->slow == GT_SLOW_NEVER || (request->slow == GT_SLOW_AVOID && !request->rules));
}

/* Plans by `plan`, which is gt_plan_job(). */
bool gt_plan_slow(struct gt_cluster *cluster, const struct gt_plan_request *request, gt_plan_fn *plan,
                  struct gt_plan_failure *ret_failure);

/* Moves pods between nodes and supernodes that are alike, when all have one and before they get their GPUs.
 */
void gt_slow_trade(struct job *job);

/*
 * Closeness above the supernode. The rule of the cluster decides which kinds of supernodes the job takes: two
 * are of one kind when they have equally many slots, now and when empty. Which ones of a kind is free, and
 * decided here, so nothing is lost at tier 1: the job touches as few domains as possible of the highest tier,
 * then of the one below, and so on down. Of a job that one leaf holds the spines that were added first count
 * next, and in them the fewest available GPUs; of others the fewest available GPUs, the highest tier first.
 * Domains in which the job has pods already cost nothing.
 */

struct gt_close_place {
    uint32_t from, to; /* the supernode that the rule chose, and the one of its kind that is taken */
    uint32_t load;     /* units, or atoms of a split unit */
    uint32_t first;    /* scratch */
    uint32_t path[GT_TIERS_MAX]; /* of `to`: domains from the highest tier down */
};

/* Places a fresh unit in this supernode, or notes that it is to lie there, until gt_close_whole(). */
void gt_close_put(struct job *job, struct gt_plan_unit *unit, uint32_t super, const struct room *room);

/* Places the noted units of a kind; ranks follow the tree. */
void gt_close_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room);

/* Memory for places, valid until the next call or gt_close_whole(); NULL without memory. */
struct gt_close_place *gt_close_places(struct gt_cluster *cluster, uint32_t count);

/* Sets `to` of each place (with `from` and `load`), and sorts them along the tree. The slots are those before
 * the places are taken. `unit`: one that is split, in its `supernode` (GT_NONE: anywhere); for it,
 * domains count where only other units are. NULL: whole units. */
void gt_close_choose(struct job *job, const struct room *room, struct gt_close_place *places, uint32_t count,
                     const struct gt_plan_unit *unit);

/* Sorts them along the tree, by `to`. */
void gt_close_sort(const struct gt_cluster *cluster, struct gt_close_place *places, uint32_t count);

/* Brings the units of a kind together that are smaller than a node and have been placed. */
void gt_close_small(struct job *job, const struct gt_plan_unit *kind);

/* A new mark for supernodes that have pods of a job, or of one unit. */
uint32_t gt_close_next_touch(struct gt_cluster *cluster);

/* Scratch memory that is kept for the next plan: 0 to 2. NULL without memory. */
void *gt_close_memory(struct gt_cluster *cluster, unsigned block, size_t size);

/* What the search for close supernodes shares with its tables. */

enum {
    CLOSE_KINDS = 16,
    CLOSE_STATES = 1024, /* for several kinds together */
};

/* Domains touched, then available GPUs in them, each the highest tier first. */
struct close_cost {
    uint64_t domains, room;
};

/* A state is a number of supernodes of each kind, as one number: sum of number x stride. */
struct close_kind {
    uint32_t slots, whole, want, stride, there; /* there: in the cluster */
};

struct close_domain {
    uint32_t super, parent; /* parent: index, UINT32_MAX: the whole cluster */
    uint32_t top;           /* the highest state that it holds */
    uint32_t need;          /* the state that is taken */
    struct close_cost cost;
    struct close_cost *table; /* [state] the least cost below it; NULL: it has no domain below it */
    uint16_t *taken;          /* [state of the parent] the state that is taken here */
    bool inner;
    uint32_t own[CLOSE_KINDS];  /* supernodes directly in it */
    uint32_t have[CLOSE_KINDS]; /* with all below, at most as many as wanted */
};

struct close_search {
    struct job *job;
    const struct room *room;
    struct close_kind kinds[CLOSE_KINDS];
    unsigned kind_count, tiers;
    uint32_t states;
    struct close_domain *domains;
    uint32_t count;
    const uint32_t *total; /* [supernode] available GPUs */
    uint32_t *index;       /* [supernode] of its domain, where it has the mark */
    uint32_t *order;       /* domains, the lowest tier first */
    uint32_t *list, *home; /* supernodes of the kinds, ascending ids, and close_home() of each */
    uint32_t listed;
    uint32_t stamp;
    unsigned bits, scale;   /* bits of a cost for each tier */
    const uint64_t *packed; /* [state] of several kinds */
    uint64_t borrow;
    const struct gt_plan_unit *unit; /* that is split; NULL: whole ones */
};

static inline bool gt_close_is_less(struct close_cost a, struct close_cost b)
{
    return a.domains != b.domains ? a.domains < b.domains : a.room < b.room;
}

static inline struct close_cost gt_close_sum(struct close_cost a, struct close_cost b)
{
    return (struct close_cost){a.domains + b.domains, a.room + b.room};
}

/* What it costs to touch a domain: once for each tier up to its parent's. */
struct close_cost gt_close_cost(const struct close_search *search, uint32_t super);

/* The index of a supernode in `domains`, which it is added to if it is not there; UINT32_MAX for GT_NONE. */
uint32_t gt_close_domain(struct close_search *search, uint32_t super);

/* Keeps as many of the kinds as one search can take, and numbers their states. */
void gt_close_count_states(struct close_search *search);

/* How many supernodes of this kind the state has. */
uint32_t gt_close_digit(const struct close_kind *kind, uint32_t state);

/* Chooses what is taken in each domain (`need`), so that all together is what is wanted and costs least.
 * False: it would take too long, or memory is short. */
bool gt_close_search(struct close_search *search);

/* How many pods of a plan in progress lie in each domain of a rule. */
struct rule_tally {
    uint32_t *who, *with;     /* [domain]; one block with those below */
    uint32_t *open;           /* [domain] of `who`, those that are to be placed */
    uint32_t *both;           /* [domain] of `who` and of `with`; TOGETHER: only those to be placed */
    uint32_t domains, placed; /* placed: pods of `who` */
    uint32_t home;            /* TOGETHER: where its pods have begun */
    uint64_t sum;             /* SPREAD: pods that are there in domains that count, and `with` in them */
    uint32_t counting;        /* SPREAD: domains that count */
    uint32_t to_come;         /* pods of `with` without a node */
    bool begins; /* TOGETHER: nothing that it asks for is there, and its pods may begin anywhere */
    bool seeded; /* TOGETHER: pods of the plan without this rule are what it asks for */
};

struct rule_work {
    struct gt_cluster *cluster;
    const struct gt_plan_request *request;
    const struct gt_plan_rules *rules;
    struct rule_tally tallies[GT_PLAN_RULES_MAX];
};

/* Counts the pods of the request that have a node. False without memory. */
bool gt_rule_work_make(struct rule_work *work);
void gt_rule_work_done(struct rule_work *work);

static inline bool gt_rule_has(uint64_t sorts, unsigned sort)
{
    return sort < GT_PLAN_SORTS_MAX && sorts >> sort & 1;
}

/* Whether pods of `who` may have to wait for others. */
static inline bool gt_rule_waits(const struct gt_plan_rule *rule)
{
    return rule->kind == GT_PEER_TOGETHER || rule->kind == GT_PEER_SPREAD;
}

static inline uint32_t gt_rule_domain(const struct gt_plan_rule *rule, uint32_t node)
{
    return rule->domain ? rule->domain[node] : node;
}

/* Puts a pod of this sort on a node (sign 1), or takes it away (-1). */
void gt_rule_count(struct rule_work *work, unsigned sort, uint32_t node, bool open, int sign);
/* Whether a further pod of this sort may be there, as far as that is known before all are placed. */
bool gt_rule_allows(const struct rule_work *work, unsigned sort, uint32_t node);
/* Whether all pods, which have nodes and are counted, keep the rules. */
bool gt_rules_are_kept(struct rule_work *work);

/* Looks for places of all pods, best first; *ret_exact: there are none, else the search was cut short. On
 * success pods and units are as after gt_plan_job(). */
bool gt_rule_search(struct rule_work *work, bool *ret_exact);
