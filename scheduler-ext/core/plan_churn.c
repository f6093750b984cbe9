/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/core/plan_work.h"

/*
 * GT_RULE_CHURN: whole units where jobs come and go (docs/reference/placement.md).
 *
 * A supernode of C slots holds at most floor(C / Q) units of Q slots; the other C mod Q slots are never of
 * use to that size, whichever jobs end. A unit uses room of Q when it leaves fewer slots than these units of
 * Q need.
 *
 * A single unit is placed by the min-loss rule, which is optimal until jobs end; among equal supernodes where
 * it uses room of the fewest sizes; then in the fullest. Last, here and below, comes the smaller supernode.
 * Several equal units are placed where they use room of the fewest sizes, and together: they end together,
 * and then leave whole supernodes free. There is an exception: when no room is left that is useless to larger
 * sizes, and the rest of the job does not fill whole places of the largest size, a supernode that would lose
 * such a place comes last.
 *
 * Once jobs have ended, small room becomes free again soon, so only the largest sizes are protected: from a
 * single unit the places of the largest, then those of the second largest, but these not in supernodes too
 * small for the largest where others are not: what keeps off the small ones fills the large ones; from
 * several units the room of the largest.
 *
 * While other jobs wait for room, freed room is used immediately, and a job that lies together leaves whole
 * supernodes free for the next one. Then several units are placed first only in what places of the two
 * largest sizes leave over, in supernodes that have such places; otherwise as many as have room are placed in
 * one supernode.
 */
struct churn {
    struct rule rule;
    const struct room *room;
    uint32_t most_whole;            /* slots of the largest supernode */
    uint32_t whole;                 /* slots of a supernode for which places[] was computed */
    uint32_t places[GT_CHAIN_MAX];  /* [as rule.levels] slots that the places of each larger size need */
    bool jobs_leave;                /* jobs have ended, and the chain is learned */
    bool crowded;                   /* jobs have ended, and other jobs wait */
    unsigned size_bits, size_shift; /* of the part of a choice that is the size of the supernode */
    unsigned first_kept; /* index in rule.levels: several units avoid the room of this size and larger ones */
    bool spares_largest; /* several units avoid places of the largest size */
    /* The last choice for many units, without the id: most supernodes of a cluster are equal. */
    uint32_t last_slots, last_whole; /* 0: none */
    uint64_t last_choice;
};

/* A choice as one number, the least is the best. For a single unit: the sizes that lose a place (0 or 1 where
 * only the largest counts); those whose room is used (where jobs have ended 0 or 1: whether the second
 * largest size loses a place); its slots; its slots when empty, in steps if they are many; its id. For
 * several: the sizes whose room is used (where places of the largest size are avoided: 0 for none, 2 where
 * one is lost, else 1); the units for which it has no room; then as for a single one. */
enum { SUPER_BITS = 18, SLOT_BITS = 24, MIDDLE_BITS = 17, MIDDLE_MAX = (1 << MIDDLE_BITS) - 1 };
enum { MIDDLE_SHIFT = SUPER_BITS + SLOT_BITS, TOP_SHIFT = MIDDLE_SHIFT + MIDDLE_BITS };
_Static_assert(SUPERS_MAX <= 1 << SUPER_BITS && GT_CHAIN_MAX < 1 << (64 - TOP_SHIFT), "a choice fits");
_Static_assert((int)SLOT_BITS == (int)RULE_LOST_SHIFT, "slots fit");

static bool do_jobs_leave(const struct chain *chain)
{
    bool leave = false;
    for (unsigned i = 0; i < chain->seen_count && !leave; i++)
        leave = chain->seen[i].past > 0;
    return leave && !chain->fixed;
}

static void plan_churn_start(struct churn *churn, const struct gt_cluster *cluster, const struct room *room,
                             uint32_t q)
{
    churn->room = room;
    churn->whole = churn->last_slots = 0;
    churn->spares_largest = false;
    memset(churn->places, 0, sizeof(churn->places));
    gt_rule_make(cluster, q, room->gpus, &churn->rule);
    uint32_t largest = 1;
    for (uint32_t s = 0; s < room->count; s++)
        largest = room->whole[s] > largest ? room->whole[s] : largest;
    churn->most_whole = largest;
    unsigned bits = 32 - (unsigned)__builtin_clz(largest);
    churn->size_bits = SLOT_BITS - bits;
    churn->size_shift = bits > churn->size_bits ? bits - churn->size_bits : 0;
    churn->jobs_leave = do_jobs_leave(&cluster->chain);
    churn->crowded = churn->jobs_leave && cluster->crowded;
    unsigned kept = !churn->jobs_leave ? GT_CHAIN_MAX : churn->crowded ? 2 : 1;
    churn->first_kept = churn->rule.level_count > kept ? churn->rule.level_count - kept : 0;
}

static inline uint32_t plan_churn_id_of(uint64_t choice)
{
    return (uint32_t)choice & ((1 << SUPER_BITS) - 1);
}

static inline unsigned top_of(uint64_t choice)
{
    return (unsigned)(choice >> TOP_SHIFT);
}

static inline uint32_t units_of(uint64_t choice)
{
    return MIDDLE_MAX - ((uint32_t)(choice >> MIDDLE_SHIFT) & MIDDLE_MAX);
}

/* Without the id. */
static inline uint64_t plan_churn_choice_of(const struct churn *churn, unsigned top, uint32_t middle,
                                            uint32_t super)
{
    uint32_t slots =
        churn->room->slots[super] << churn->size_bits | churn->room->whole[super] >> churn->size_shift;
    return (uint64_t)top << TOP_SHIFT | (uint64_t)middle << MIDDLE_SHIFT | (uint64_t)slots << SUPER_BITS;
}

static void fit_to(struct churn *churn, uint32_t whole)
{
    churn->whole = whole;
    for (unsigned i = 0; i < churn->rule.level_count; i++)
        churn->places[i] = whole - whole % churn->rule.levels[i];
}

/* The number of sizes from rule.levels[first] on whose room one unit uses. Also the most slots that the other
 * sizes need: further units may use the slots beyond that. */
static inline unsigned reach(struct churn *churn, uint32_t super, unsigned first, uint32_t *ret_kept)
{
    uint32_t left = churn->room->slots[super] - churn->rule.q, kept = 0;
    unsigned touched = 0;
    if (churn->room->whole[super] != churn->whole)
        fit_to(churn, churn->room->whole[super]);
    for (unsigned i = first; i < churn->rule.level_count; i++) {
        uint32_t places = churn->places[i];
        touched += places > left;
        kept = places <= left && places > kept ? places : kept;
    }
    *ret_kept = kept;
    return touched;
}

/* In slots; `nth` 0 is the largest. 0: there is none. */
static uint32_t large_size(const struct churn *churn, unsigned nth)
{
    return nth < churn->rule.level_count ? churn->rule.levels[churn->rule.level_count - 1 - nth] : 0;
}

static unsigned lost_in(struct churn *churn, uint32_t super)
{
    return gt_rule_lost(&churn->rule, churn->room->slots[super]);
}

/* Whether the nth largest size loses a place. */
static bool loses_large(const struct churn *churn, uint32_t super, unsigned nth)
{
    uint32_t size = large_size(churn, nth);
    return size && churn->room->slots[super] % size < churn->rule.q;
}

static void choose_again(struct churn *churn, uint32_t super)
{
    uint32_t f = churn->room->slots[super], kept;
    unsigned touched = reach(churn, super, churn->first_kept, &kept);
    if (churn->crowded && (touched || churn->room->whole[super] < large_size(churn, 0))) {
        touched = 1;
        kept = 0;
    }
    uint32_t units = (f - kept) / churn->rule.q;
    if (churn->spares_largest && touched)
        touched = loses_large(churn, super, 0) ? 2 : 1;
    churn->last_slots = f;
    churn->last_whole = churn->room->whole[super];
    churn->last_choice =
        plan_churn_choice_of(churn, touched, units < MIDDLE_MAX ? MIDDLE_MAX - units : 0, super);
}

/* The supernode must have room for at least one unit. */
static inline uint64_t choice_for_many(struct churn *churn, uint32_t super)
{
    if (churn->room->slots[super] != churn->last_slots || churn->room->whole[super] != churn->last_whole)
        choose_again(churn, super);
    return churn->last_choice | super;
}

/* The best two so far. */
struct two {
    uint64_t first, second; /* UINT64_MAX: none */
    uint32_t count;
};

static inline void plan_churn_consider(struct two *two, uint64_t choice)
{
    if (choice < two->first) {
        two->second = two->first;
        two->first = choice;
    } else if (choice < two->second)
        two->second = choice;
}

/* Whether the second largest size loses a place that counts. */
static bool loses_second(const struct churn *churn, uint32_t super)
{
    uint32_t largest = large_size(churn, 0);
    return loses_large(churn, super, 1) &&
           (churn->room->whole[super] >= largest || churn->most_whole < largest);
}

static void consider_super(struct churn *churn, struct two *two, uint32_t super)
{
    uint32_t kept;
    unsigned lost = churn->jobs_leave ? loses_large(churn, super, 0) : lost_in(churn, super);
    unsigned then = churn->jobs_leave ? loses_second(churn, super) : reach(churn, super, 0, &kept);
    plan_churn_consider(two, plan_churn_choice_of(churn, lost, then, super) | super);
}

static struct two choose_alone(struct churn *churn)
{
    struct two two = {UINT64_MAX, UINT64_MAX, 0};
    const uint32_t *slots = churn->room->slots, *whole = churn->room->whole;
    uint32_t second_slots = 0, second_whole = 0; /* most supernodes are equal, and a later one is worse */
    for (uint32_t s = 0; s < churn->room->count; s++) {
        if (slots[s] < churn->rule.q)
            continue;
        two.count++;
        if (slots[s] == second_slots && whole[s] == second_whole)
            continue;
        consider_super(churn, &two, s);
        if (two.second != UINT64_MAX) {
            second_slots = slots[plan_churn_id_of(two.second)];
            second_whole = whole[plan_churn_id_of(two.second)];
        }
    }
    return two;
}

static void plan_churn_describe(struct gt_plan_unit *unit, struct churn *churn, const struct two *two)
{
    const uint32_t *slots = churn->room->slots;
    uint32_t first = plan_churn_id_of(two->first), second = plan_churn_id_of(two->second), kept;
    unit->feasible = two->count;
    unit->slots_before = slots[first];
    unit->levels_lost = lost_in(churn, first);
    unit->touched = reach(churn, first, 0, &kept);
    if (two->second == UINT64_MAX)
        return;
    unit->next.supernode = second;
    unit->next.slots = slots[second];
    unit->next.levels_lost = lost_in(churn, second);
    unit->next.touched = reach(churn, second, 0, &kept);
}

/* A single unit. `noted`: its place may still be exchanged for an equal one. */
static void place_one(struct job *job, struct gt_plan_unit *unit, const struct room *room, bool noted)
{
    struct churn churn;
    plan_churn_start(&churn, job->cluster, room, unit->pods);
    struct two two = choose_alone(&churn);
    if (!two.count)
        return;
    plan_churn_describe(unit, &churn, &two);
    if (noted)
        gt_close_put(job, unit, plan_churn_id_of(two.first), room);
    else
        gt_place_in_super(job, plan_churn_id_of(two.first), unit->gpus, unit->first, unit->pods);
}

/* ---- units smaller than a node ---- */

/* The best nodes in use for the next units: a heap in scratch of the cluster, each with its key above its id.
 */
struct in_use {
    uint64_t *heap, beyond; /* beyond: nodes above this entry are not in the heap */
    uint32_t size;
    uint32_t feasible; /* supernodes that hold a unit; GT_NONE: not counted */
    unsigned gpus;     /* of a unit */
    unsigned above;    /* GPUs of the smallest kind of node that is larger */
    struct rule rule;  /* the node in the place of the supernode */
    bool jobs_leave, keeps_nodes;
};
enum { NODE_BITS = 17, OWN_BITS = 24 };
_Static_assert(GT_CLUSTER_NODES_MAX <= 1 << NODE_BITS, "an id fits");

/* Idle nodes are kept together where a known size needs whole nodes; until jobs have left, one may come. */
static void in_use_start(const struct job *job, unsigned gpus, unsigned above, struct in_use *ret)
{
    const struct gt_chain_sizes *sizes = &job->cluster->chain.sizes;
    *ret = (struct in_use){.heap = job->cluster->heap, .feasible = GT_NONE, .gpus = gpus, .above = above};
    ret->jobs_leave = do_jobs_leave(&job->cluster->chain);
    ret->keeps_nodes = !ret->jobs_leave || (sizes->count && sizes->size[sizes->count - 1] >= above);
    gt_rule_make(job->cluster, gpus, 1, &ret->rule);
}

/* The room for whole nodes of so many GPUs. */
static const struct room *room_of_nodes(struct job *job, unsigned gpus)
{
    const struct room *room = &job->rooms[ROOM_OF_NODES];
    return room->gpus == gpus ? room : gt_draft_room(job, ROOM_OF_NODES, gpus);
}

/* The GPUs of the smallest kind of node of which one is idle and holds the unit; 0: none. */
static unsigned idle_kind(const struct job *job, unsigned gpus)
{
    while (gpus <= GT_GPUS_MAX && !job->idle_with[gpus])
        gpus++;
    return gpus <= GT_GPUS_MAX ? gpus : 0;
}

/* The least is the best: a node that is filled; the smallest kind of node; of those that are filled the one
 * in the supernode with the fewest idle nodes. Of others, until jobs have left, the fewest sizes that lose a
 * place on it; the first supernode, there the fullest node. Where no nodes are kept: the fullest node, in the
 * supernode with the fewest idle nodes. Last the lowest id. UINT64_MAX: it is idle, or has no room. */
static uint64_t in_use_entry(struct in_use *in_use, const struct job *job, uint32_t node)
{
    const struct gt_cluster *cluster = job->cluster;
    unsigned n = cluster->draft_count[node], size = cluster->size[node];
    if (n < in_use->gpus || n == size)
        return UINT64_MAX;
    uint64_t super = cluster->super[node], own = job->rooms[ROOM_OF_NODES].slots[super];
    uint64_t key = (n != in_use->gpus) << 7 | size;
    key = key << 5 | (in_use->jobs_leave ? 0 : gt_rule_lost(&in_use->rule, n));
    if (n == in_use->gpus)
        key = key << (OWN_BITS + 7) | own;
    else if (in_use->keeps_nodes)
        key = key << (OWN_BITS + 7) | super << 7 | n;
    else
        key = (key << 7 | n) << OWN_BITS | own;
    return key << NODE_BITS | node;
}

static void sift_all(uint64_t *heap, uint32_t size)
{
    for (uint32_t i = size / 2; i-- > 0;)
        gt_sift_down(heap, size, i);
}

/* Collects up to one node for each unit. Until the end the heap has complements, so that its first is the
 * worst. */
static void list_in_use(struct job *job, uint32_t units, struct in_use *in_use)
{
    const struct gt_cluster *cluster = job->cluster;
    unsigned most = idle_kind(job, in_use->gpus); /* larger nodes with as much room come after an idle one */
    const uint8_t *counts = cluster->draft_count, *end = counts + cluster->node_count;
    in_use->size = 0;
    in_use->beyond = UINT64_MAX;
    units = units < cluster->super_capacity ? units : cluster->super_capacity;
    if (!room_of_nodes(job, in_use->above))
        return;
    for (unsigned n = in_use->gpus; n <= GT_GPUS_MAX; n++)
        for (const uint8_t *at = counts;
             job->nodes_with[n] > job->idle_with[n] && (at = memchr(at, (int)n, (size_t)(end - at))); at++) {
            uint32_t node = (uint32_t)(at - counts);
            if (most && n >= most && cluster->size[node] > most)
                continue;
            uint64_t entry = ~in_use_entry(in_use, job, node);
            if (in_use->size < units) {
                in_use->heap[in_use->size++] = entry;
                if (in_use->size == units)
                    sift_all(in_use->heap, units);
            } else if (entry > in_use->heap[0]) {
                in_use->heap[0] = entry;
                gt_sift_down(in_use->heap, units, 0);
            }
        }
    if (in_use->size == units)
        in_use->beyond = ~in_use->heap[0];
    for (uint32_t i = 0; i < in_use->size; i++)
        in_use->heap[i] = ~in_use->heap[i];
    sift_all(in_use->heap, in_use->size);
}

/* The best node in use for the next unit; GT_NONE: there is none, or an idle one of a smaller kind with no
 * more room. `units`: number of remaining units. */
static uint32_t find_in_use(struct job *job, struct in_use *in_use, uint32_t units)
{
    const uint64_t id = (1 << NODE_BITS) - 1;
    if (in_use->size) { /* the last unit went to the first node */
        uint64_t entry = in_use_entry(in_use, job, (uint32_t)(in_use->heap[0] & id));
        in_use->heap[0] = entry != UINT64_MAX ? entry : in_use->heap[--in_use->size];
        gt_sift_down(in_use->heap, in_use->size, 0);
    }
    if (!in_use->size || in_use->heap[0] > in_use->beyond)
        list_in_use(job, units, in_use);
    return in_use->size && in_use->heap[0] != UINT64_MAX ? (uint32_t)(in_use->heap[0] & id) : GT_NONE;
}

/* Chooses among the idle nodes of a kind by their supernodes. */
static struct two choose_idle(const struct job *job, struct churn *churn, unsigned kind, uint32_t *ret_node)
{
    const struct gt_cluster *cluster = job->cluster;
    struct two two = {UINT64_MAX, UINT64_MAX, 0};
    const uint8_t *counts = cluster->draft_count, *end = counts + cluster->node_count, *at = counts;
    for (uint32_t last = GT_NONE; (at = memchr(at, (int)kind, (size_t)(end - at))); at++) {
        uint32_t node = (uint32_t)(at - counts), super = cluster->super[node];
        uint64_t first = two.first;
        if (cluster->size[node] != kind || super == last ||
            (first != UINT64_MAX && super == plan_churn_id_of(first)))
            continue;
        consider_super(churn, &two, super);
        if (two.first != first)
            *ret_node = node;
        last = super;
    }
    return two;
}

/* The least number of GPUs above `gpus` that a node of the cluster has; 0: none. */
static unsigned node_above(const struct gt_cluster *cluster, unsigned gpus)
{
    for (unsigned n = gpus + 1; n <= GT_GPUS_MAX; n++)
        if (cluster->nodes_of[n])
            return n;
    return 0;
}

/* Places the unit's pods that have no place; there may be a running pod on an unknown node among them. */
static void place_on(struct job *job, uint32_t node, const struct gt_plan_unit *unit)
{
    uint32_t end = unit->first + unit->pods;
    for (uint32_t pod = unit->first, count; pod < end; pod += count + 1) {
        count = 0;
        while (pod + count < end && !job->pods[pod + count].running)
            count++;
        if (count)
            gt_place_on_node(job, node, unit->gpus, job->pods + pod, count);
    }
}

static uint32_t count_feasible(const struct room *room, uint32_t pods)
{
    uint32_t count = 0;
    for (uint32_t s = 0; s < room->count; s++)
        count += room->slots[s] >= pods;
    return count;
}

/* The choice counts whole nodes; it is reported in pods, as for any other unit. */
static void describe_small(struct gt_plan_unit *unit, const struct gt_cluster *cluster,
                           const struct room *room, const struct two *two)
{
    struct churn churn;
    plan_churn_start(&churn, cluster, room, unit->pods);
    plan_churn_describe(unit, &churn, two);
    unit->feasible = count_feasible(room, unit->pods);
}

static void place_small(struct job *job, struct gt_plan_unit *unit, const struct room *room,
                        struct in_use *in_use, uint32_t units)
{
    struct gt_cluster *cluster = job->cluster;
    const struct room *nodes = &job->rooms[ROOM_OF_NODES];
    uint32_t node = find_in_use(job, in_use, units);
    if (node != GT_NONE) {
        uint32_t super = cluster->super[node], idle = nodes->slots[cluster->super[node]];
        if (in_use->feasible == GT_NONE)
            in_use->feasible = count_feasible(room, unit->pods);
        unit->feasible = in_use->feasible;
        unit->slots_before = room->slots[super];
        unit->node_in_use = true;
        place_on(job, node, unit);
        in_use->feasible -= unit->slots_before >= unit->pods && room->slots[super] < unit->pods;
        if (nodes->slots[cluster->super[node]] != idle)
            in_use->size = 0;
        return;
    }
    in_use->feasible = GT_NONE;
    in_use->size = 0;
    unsigned kind = idle_kind(job, in_use->gpus);
    if (!kind || !room_of_nodes(job, kind)) { /* no node holds the unit, several nodes of one supernode may */
        place_one(job, unit, room, false);
        return;
    }
    struct churn churn;
    plan_churn_start(&churn, cluster, nodes, 1); /* a whole idle node is used: it counts as one slot */
    struct two two = choose_idle(job, &churn, kind, &node);
    describe_small(unit, cluster, room, &two);
    place_on(job, node, unit);
}

/* ---- several units ---- */

/* The best two choices for `left` remaining units. The first of the heap holds most units; where it holds
 * all, others may, too, and the fullest of these is the best. */
static struct two choose_for_many(const uint64_t *heap, uint32_t size, uint32_t wanted)
{
    const uint64_t middle = (uint64_t)MIDDLE_MAX << MIDDLE_SHIFT;
    const uint64_t fewer = (uint64_t)top_of(heap[0]) << TOP_SHIFT | (uint64_t)(MIDDLE_MAX - wanted + 1)
                                                                        << MIDDLE_SHIFT;
    struct two all = {UINT64_MAX, UINT64_MAX, 0};
    uint64_t rest = UINT64_MAX;
    if (units_of(heap[0]) < wanted) {
        for (uint32_t i = 1; i < size && i < 3; i++)
            rest = heap[i] < rest ? heap[i] : rest;
        return (struct two){heap[0], rest, size};
    }
    for (uint32_t i = 0; i < size; i++)
        if (heap[i] < fewer) {
            plan_churn_consider(&all, heap[i] & ~middle);
            all.count++;
        } else
            rest = heap[i] < rest ? heap[i] : rest;
    return (struct two){all.first, all.count > 1 ? all.second : rest, size};
}

/* Places `count` units from `*u` on in the first choice. */
static void place_together(struct job *job, const struct gt_plan_unit *kind, struct churn *churn,
                           const struct two *two, uint32_t count, uint32_t *u)
{
    uint32_t super = plan_churn_id_of(two->first), first = GT_NONE, kept;
    for (; count; ++*u) {
        struct gt_plan_unit *unit = &job->units[*u];
        if (!gt_unit_is_fresh(job, unit, kind))
            continue;
        if (first == GT_NONE) {
            first = *u;
            plan_churn_describe(unit, churn, two);
        } else {
            unit->with = first;
            unit->feasible = two->count;
            unit->slots_before = churn->room->slots[super];
            unit->levels_lost = lost_in(churn, super);
            unit->touched = reach(churn, super, 0, &kept);
        }
        gt_close_put(job, unit, super, churn->room);
        count--;
    }
}

/* Makes a heap of all supernodes that hold a unit, the best in front; returns their number. */
static uint32_t fill_heap(struct churn *churn, uint64_t *heap)
{
    uint32_t size = 0;
    for (uint32_t s = 0; s < churn->room->count; s++)
        if (churn->room->slots[s] >= churn->rule.q)
            heap[size++] = choice_for_many(churn, s);
    sift_all(heap, size);
    return size;
}

/* Whether they need more than one place of the largest size, and not a whole number of them. */
static bool is_ragged(const struct churn *churn, uint32_t wanted)
{
    uint64_t slots = (uint64_t)wanted * churn->rule.q;
    uint32_t largest = large_size(churn, 0);
    return largest && slots > largest && slots % largest;
}

static void place_many(struct job *job, const struct gt_plan_unit *kind, const struct room *room,
                       uint32_t wanted)
{
    struct churn churn;
    uint64_t *heap = job->cluster->heap;
    uint32_t u = (uint32_t)(kind - job->units);
    plan_churn_start(&churn, job->cluster, room, kind->pods);
    uint32_t size = fill_heap(&churn, heap);
    for (bool beyond = false; wanted && size;) {
        if (!beyond && top_of(heap[0])) { /* all remaining room can be used by larger sizes */
            beyond = true;
            churn.spares_largest = is_ragged(&churn, wanted);
            churn.last_slots = 0;
            if (churn.spares_largest)
                size = fill_heap(&churn, heap);
        }
        struct two two = choose_for_many(heap, size, wanted);
        uint32_t super = plan_churn_id_of(heap[0]), take = units_of(heap[0]);
        take = take < wanted ? take : wanted;
        place_together(job, kind, &churn, &two, take, &u);
        wanted -= take; /* 0 where another supernode than the first one was chosen */
        heap[0] = room->slots[super] >= churn.rule.q ? choice_for_many(&churn, super) : heap[--size];
        if (size)
            gt_sift_down(heap, size, 0);
    }
}

void gt_place_churn(struct job *job, const struct gt_plan_unit *kind, const struct room *room, uint32_t fresh)
{
    uint64_t gpus = (uint64_t)kind->pods * kind->gpus;
    unsigned above = gpus < GT_GPUS_MAX ? node_above(job->cluster, (unsigned)gpus) : 0;
    bool small = above && gt_draft_room(job, ROOM_OF_NODES, above);
    if (fresh > 1 && !small) {
        place_many(job, kind, room, fresh);
        return;
    }
    struct in_use list;
    bool several = fresh > 1;
    if (small)
        in_use_start(job, (unsigned)gpus, above, &list);
    for (uint32_t u = (uint32_t)(kind - job->units); u < job->unit_count && fresh; u++) {
        struct gt_plan_unit *unit = &job->units[u];
        if (!gt_unit_is_fresh(job, unit, kind))
            continue;
        if (small)
            place_small(job, unit, room, &list, fresh);
        else
            place_one(job, unit, room, true);
        fresh--;
    }
    if (small && several && job->close)
        gt_close_small(job, kind);
}
