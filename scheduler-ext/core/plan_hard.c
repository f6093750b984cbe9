/* SPDX-License-Identifier: Apache-2.0 */
#include "base/bits.h"
#include "scheduler-ext/core/plan_internal.h"

/* ---- the min-loss rule ---- */

void gt_rule_make(const struct gt_cluster *cluster, uint32_t q, unsigned gpus, struct rule *ret)
{
    ret->q = q;
    ret->level_count = 0;
    ret->known = q;
    for (unsigned i = 0; i < cluster->chain_count; i++)
        if (cluster->chain[i] > q * gpus && cluster->chain[i] % gpus == 0)
            ret->levels[ret->level_count++] = cluster->chain[i] / gpus;
}

static uint32_t compute_key(const struct rule *rule, uint32_t f)
{
    uint32_t lost = 0;
    for (unsigned i = 0; i < rule->level_count; i++)
        lost += f % rule->levels[i] < rule->q;
    return lost << RULE_LOST_SHIFT | f;
}

uint32_t gt_rule_key(struct rule *rule, uint32_t f)
{
    if (f >= RULE_TABLE)
        return compute_key(rule, f);
    for (; rule->known <= f; rule->known++)
        rule->key[rule->known] = compute_key(rule, rule->known);
    return rule->key[f];
}

/* ---- inside one supernode ---- */

/* The nodes of a supernode by how many GPUs are available on them. */
struct nodes {
    uint32_t *same;
    unsigned gpus;
    uint64_t there;                  /* bit n - 1: there is a node with n */
    uint32_t first[GT_GPUS_MAX + 1]; /* [n], the lowest id; further ones in `same` */
};

static void sort_nodes(const struct job *job, uint32_t super, unsigned gpus, struct nodes *ret)
{
    const struct gt_cluster *cluster = job->cluster;
    ret->same = cluster->same;
    ret->gpus = gpus;
    ret->there = 0;
    for (uint32_t node = cluster->supers[super].first_node; node != GT_NONE; node = cluster->next[node]) {
        unsigned n = gt_draft_count(job, node);
        if (n < gpus)
            continue;
        uint64_t bit = UINT64_C(1) << (n - 1);
        ret->same[node] = ret->there & bit ? ret->first[n] : GT_NONE;
        ret->first[n] = node;
        ret->there |= bit;
    }
}

/* The node for the next pods: the fullest that holds them all; else, of those that hold most, the fullest. */
static uint32_t take_node(struct nodes *nodes, uint32_t need, uint32_t *ret_slots)
{
    if (!nodes->there)
        return GT_NONE;
    unsigned most = 64 - (unsigned)__builtin_clzll(nodes->there);
    uint32_t slots = gt_core_slots(nodes->gpus, most);
    slots = slots < need ? slots : need;
    uint64_t enough = nodes->there & ~UINT64_C(0) << (slots * nodes->gpus - 1);
    unsigned n = gt_bit_first(enough) + 1;
    uint32_t node = nodes->first[n];
    nodes->first[n] = nodes->same[node];
    if (nodes->first[n] == GT_NONE)
        nodes->there &= ~(UINT64_C(1) << (n - 1));
    *ret_slots = slots;
    return node;
}

/* Gives `count` pods their GPUs on one node: the best set for all of them, then split. */
void gt_place_on_node(struct job *job, uint32_t node, unsigned gpus, struct gt_plan_pod *pods, uint32_t count)
{
    enum { SEARCH_LIMIT_US = 1000 }; /* above 16 GPUs */
    const struct gt_class *class = job->cluster->classes[job->cluster->class[node]];
    struct gt_choice choice = {.mask = gt_draft_available(job, node)};
    if (gt_draft_count(job, node) > count * gpus)
        gt_choose(class, choice.mask, 0, count * gpus, SEARCH_LIMIT_US, &choice);
    gt_draft_take(job, node, choice.mask);
    uint64_t rest = choice.mask;
    for (uint32_t i = 0; i < count; i++) {
        struct gt_choice own = {.mask = rest};
        if (i + 1 < count)
            gt_choose(class, rest, 0, gpus, SEARCH_LIMIT_US, &own);
        pods[i].node = node;
        pods[i].mask = own.mask;
        rest &= ~own.mask;
    }
}

bool gt_place_in_super(struct job *job, uint32_t super, unsigned gpus, uint32_t first, uint32_t count)
{
    const struct gt_plan_pod *pods = job->pods;
    uint32_t end = first + count;
    for (uint32_t pod = first; pod < end;) {
        uint32_t need = 0; /* pods up to the next one that runs */
        while (pod + need < end && !pods[pod + need].running)
            need++;
        struct nodes nodes;
        if (need)
            sort_nodes(job, super, gpus, &nodes);
        while (need) {
            uint32_t slots = 0, node = take_node(&nodes, need, &slots);
            if (node == GT_NONE)
                return false;
            gt_place_on_node(job, node, gpus, job->pods + pod, slots);
            pod += slots;
            need -= slots;
        }
        while (pod < end && pods[pod].running)
            pod++;
    }
    return true;
}

/* ---- whole units ---- */

/* Supernodes with room for the unit: the rule's key, and below it the id, so that the least is the choice. */
static uint64_t entry(struct rule *rule, uint32_t f, uint32_t super)
{
    return (uint64_t)gt_rule_key(rule, f) << 32 | super;
}

void gt_sift_down(uint64_t *heap, uint32_t size, uint32_t at)
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

/* Brings the least in front, for a single unit that needs no more order: the second least behind it. */
static void least_two(uint64_t *heap, uint32_t size)
{
    for (uint32_t front = 0; front < 2 && front < size; front++) {
        uint32_t least = front;
        for (uint32_t i = front + 1; i < size; i++)
            least = heap[i] < heap[least] ? i : least;
        uint64_t moving = heap[front];
        heap[front] = heap[least];
        heap[least] = moving;
    }
}

static uint32_t candidates(const struct room *room, struct rule *rule, uint64_t *heap)
{
    uint32_t size = 0;
    for (uint32_t s = 0; s < room->count; s++)
        if (room->slots[s] >= rule->q)
            heap[size++] = entry(rule, room->slots[s], s);
    return size;
}

static void describe_choice(struct gt_plan_unit *unit, const struct room *room, const uint64_t *heap,
                            uint32_t size)
{
    unit->feasible = size;
    unit->slots_before = room->slots[(uint32_t)heap[0]];
    unit->levels_lost = (unsigned)(heap[0] >> (32 + RULE_LOST_SHIFT));
    if (size < 2)
        return;
    uint64_t second = size > 2 && heap[2] < heap[1] ? heap[2] : heap[1];
    unit->next = (uint32_t)second;
    unit->next_slots = room->slots[unit->next];
    unit->next_lost = (unsigned)(second >> (32 + RULE_LOST_SHIFT));
}

bool gt_unit_is_fresh(const struct job *job, const struct gt_plan_unit *unit, const struct gt_plan_unit *kind)
{
    return gt_unit_is_kind(unit, kind) && !gt_run_is_placed(job, unit->first, unit->pods) &&
           !gt_run_has_started(job, unit->first, unit->pods);
}

void gt_place_whole(struct job *job, const struct gt_plan_unit *kind, const struct room *room)
{
    struct rule rule;
    bool churn = job->cluster->rule == GT_RULE_CHURN;
    struct gt_plan_unit *units = job->units;
    uint32_t u = (uint32_t)(kind - units), fresh = 0;
    for (uint32_t i = u; i < job->unit_count && (churn || fresh < 2); i++)
        fresh += gt_unit_is_fresh(job, &units[i], kind);
    if (!fresh)
        return;
    if (churn) {
        gt_place_churn(job, kind, room, fresh);
        return;
    }
    gt_rule_make(job->cluster, kind->pods, kind->gpus, &rule);
    uint64_t *heap = job->cluster->heap;
    uint32_t size = candidates(room, &rule, heap);
    if (fresh == 1)
        least_two(heap, size);
    else
        for (uint32_t i = size / 2; i-- > 0;)
            gt_sift_down(heap, size, i);
    for (; u < job->unit_count && size; u++) {
        struct gt_plan_unit *unit = &units[u];
        if (!gt_unit_is_fresh(job, unit, kind))
            continue;
        uint32_t super = (uint32_t)heap[0];
        describe_choice(unit, room, heap, size);
        gt_place_in_super(job, super, unit->gpus, unit->first, unit->pods);
        heap[0] = room->slots[super] >= rule.q ? entry(&rule, room->slots[super], super) : heap[--size];
        if (fresh > 1 && size)
            gt_sift_down(heap, size, 0);
    }
}
