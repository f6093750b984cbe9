/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/plan_work.h"

/* Whole units by the min-loss rule. */

/* Supernodes with room for the unit: the rule's key, and below it the id, so that the least is the choice. */
static uint64_t entry(struct rule *rule, uint32_t f, uint32_t super)
{
    return (uint64_t)gt_rule_key(rule, f) << 32 | super;
}

/* For a single unit: moves only the least entry and the second least to the front. */
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
    unit->next.supernode = (uint32_t)second;
    unit->next.slots = room->slots[unit->next.supernode];
    unit->next.levels_lost = (unsigned)(second >> (32 + RULE_LOST_SHIFT));
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
        gt_close_whole(job, kind, room);
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
        gt_close_put(job, unit, super, room);
        heap[0] = room->slots[super] >= rule.q ? entry(&rule, room->slots[super], super) : heap[--size];
        if (fresh > 1 && size)
            gt_sift_down(heap, size, 0);
    }
    gt_close_whole(job, kind, room);
}
