/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/core/plan_work.h"

/*
 * Units smaller than a node, once the rule has chosen nodes for them: what it chose of idle nodes in one
 * supernode moves to an equal one where that brings the job together. Equal ones have equally many idle
 * nodes, so it costs no room. Nodes in use stay what they are: the rule chose them for what is left on them.
 */

struct small_unit {
    uint32_t unit, node; /* as the rule has it */
    uint32_t place;
};

struct small_units {
    struct job *job;
    struct small_unit *of;
    uint32_t count;
    struct gt_close_place *places; /* one for each supernode: those that may move, then the others */
    uint32_t place_count, movable;
    unsigned size; /* of the nodes of those that may move */
};

static int small_compare(const void *left, const void *right)
{
    const struct small_unit *a = left, *b = right;
    if (a->place != b->place)
        return a->place < b->place ? -1 : 1;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    return a->unit < b->unit ? -1 : a->unit > b->unit;
}

/* Lists the units of the kind, with the supernode in the place of `place`. False: one lies on several nodes.
 */
static bool small_list(struct small_units *small, const struct gt_plan_unit *kind)
{
    const struct job *job = small->job;
    for (uint32_t u = (uint32_t)(kind - job->units); u < job->unit_count; u++) {
        const struct gt_plan_unit *unit = &job->units[u];
        if (!gt_unit_is_kind(unit, kind))
            continue;
        uint32_t node = job->pods[unit->first].place.node;
        for (uint32_t i = 0; i < unit->pods; i++)
            if (node == GT_NONE || job->pods[unit->first + i].place.node != node)
                return false;
        small->of[small->count++] = (struct small_unit){u, node, job->cluster->super[node]};
    }
    qsort(small->of, small->count, sizeof(*small->of), small_compare);
    return true;
}

/* The units of one supernode may move if each of their nodes was idle, and all have one size. */
static bool small_may_move(const struct small_units *small, uint32_t first, uint32_t end, uint32_t gpus,
                           unsigned *size)
{
    const struct gt_cluster *cluster = small->job->cluster;
    for (uint32_t i = first, same; i < end; i += same) {
        uint32_t node = small->of[i].node;
        for (same = 1; i + same < end && small->of[i + same].node == node; same++)
            ;
        unsigned own = cluster->size[node];
        if (gt_draft_count(small->job, node) + same * gpus != own || (*size && *size != own))
            return false;
        *size = own;
    }
    return true;
}

/* Makes a place of each supernode. */
static void small_gather(struct small_units *small, uint32_t gpus)
{
    uint32_t fixed = small->count;
    for (uint32_t first = 0, end; first < small->count; first = end) {
        uint32_t super = small->of[first].place;
        for (end = first; end < small->count && small->of[end].place == super; end++)
            ;
        unsigned size = small->size;
        bool moves = small_may_move(small, first, end, gpus, &size);
        uint32_t place = moves ? small->movable++ : --fixed;
        small->size = moves ? size : small->size;
        small->places[place] =
            (struct gt_close_place){.from = super, .to = super, .first = first, .load = end - first};
        if (!moves)
            gt_run_touch(small->job, super);
    }
    small->place_count = small->movable + small->count - fixed;
    memmove(small->places + small->movable, small->places + fixed,
            (small->count - fixed) * sizeof(*small->places));
}

/* The next idle node of the size in a supernode, from `node` on. */
static uint32_t small_idle(const struct small_units *small, uint32_t node)
{
    const struct gt_cluster *cluster = small->job->cluster;
    while (node != GT_NONE &&
           (cluster->size[node] != small->size || gt_draft_count(small->job, node) != small->size))
        node = cluster->next[node];
    return node;
}

/* Supernodes are of one kind if all of this is equal. The sum is one number for gt_close_choose(). */
static uint32_t small_sum(uint32_t pods, uint32_t nodes)
{
    return nodes * UINT32_C(0x9e3779b1) + pods;
}

/* Whether `to` is of the kind, and has as many idle nodes of the size as the units of the place use. */
static bool small_has_room(const struct small_units *small, const struct gt_close_place *place)
{
    const struct room *pods = &small->job->rooms[ROOM_OF_PODS], *nodes = &small->job->rooms[ROOM_OF_NODES];
    uint32_t a = place->from, b = place->to, last = GT_NONE;
    if (pods->slots[a] != pods->slots[b] || pods->whole[a] != pods->whole[b] ||
        nodes->slots[a] != nodes->slots[b] || nodes->whole[a] != nodes->whole[b])
        return false;
    const struct gt_cluster *cluster = small->job->cluster;
    uint32_t node = small_idle(small, cluster->supers[b].first_node);
    for (uint32_t i = place->first; i < place->first + place->load; last = small->of[i++].node)
        if (small->of[i].node != last) {
            if (node == GT_NONE)
                return false;
            node = small_idle(small, cluster->next[node]);
        }
    return true;
}

static void small_take_back(struct small_units *small, uint32_t gpus)
{
    struct job *job = small->job;
    for (uint32_t p = 0; p < small->movable; p++)
        for (uint32_t i = small->places[p].first; i < small->places[p].first + small->places[p].load; i++) {
            gt_draft_give(job, small->of[i].node, gpus);
            for (uint32_t k = 0; k < job->units[small->of[i].unit].pods; k++)
                job->pods[job->units[small->of[i].unit].first + k].place.node = GT_NONE;
        }
}

/* Says on which nodes the units of a place are to lie. */
static void small_map(struct small_units *small, const struct gt_close_place *place)
{
    const struct gt_cluster *cluster = small->job->cluster;
    uint32_t node = GT_NONE, last = GT_NONE;
    for (uint32_t i = place->first; i < place->first + place->load && place->to != place->from; i++) {
        if (small->of[i].node != last)
            node = small_idle(small,
                              node == GT_NONE ? cluster->supers[place->to].first_node : cluster->next[node]);
        last = small->of[i].node;
        small->of[i].node = node;
    }
}

/* Sorts the units along the tree, each with its node; none of them is placed. */
static void small_settle(struct small_units *small, uint32_t gpus)
{
    struct gt_close_place *places = small->places;
    bool fits = true;
    for (uint32_t p = 0; p < small->movable; p++)
        fits = fits && small_has_room(small, &places[p]);
    for (uint32_t p = 0; p < small->place_count; p++) {
        if (!fits || p >= small->movable)
            places[p].to = places[p].from;
        if (p < small->movable)
            small_map(small, &places[p]);
        else /* the others are placed again, too */
            for (uint32_t i = places[p].first; i < places[p].first + places[p].load; i++)
                gt_draft_give(small->job, small->of[i].node, gpus);
    }
    gt_close_sort(small->job->cluster, places, small->place_count);
    for (uint32_t p = 0; p < small->place_count; p++) {
        gt_run_touch(small->job, places[p].to);
        for (uint32_t i = places[p].first; i < places[p].first + places[p].load; i++)
            small->of[i].place = p;
    }
    qsort(small->of, small->count, sizeof(*small->of), small_compare);
}

/* Gives the nodes to the units in the order of the tree. What the rule said of a unit goes with its place. */
static void small_place(struct small_units *small, const struct gt_plan_unit *said,
                        const struct gt_plan_unit *kind)
{
    struct job *job = small->job;
    uint32_t u = (uint32_t)(kind - job->units);
    for (uint32_t i = 0; i < small->count; i++) {
        while (!gt_unit_is_kind(&said[u], kind))
            u++;
        struct gt_plan_unit *unit = &job->units[u++];
        const struct gt_plan_unit own = *unit;
        *unit = said[small->of[i].unit];
        unit->first = own.first;
        unit->atom = own.atom;
        unit->within = own.within;
        for (uint32_t k = 0; k < unit->pods; k++)
            job->pods[own.first + k].place.node = GT_NONE;
        gt_place_on_node(job, small->of[i].node, unit->gpus, job->pods + own.first, unit->pods);
    }
}

void gt_close_small(struct job *job, const struct gt_plan_unit *kind)
{
    uint32_t gpus = kind->pods * kind->gpus, end = job->unit_count,
             left = end - (uint32_t)(kind - job->units);
    uint32_t supers = job->cluster->super_count;
    struct small_units small = {.job = job};
    struct gt_plan_unit *said =
        gt_close_memory(job->cluster, 0,
                        end * sizeof(*said) + left * (sizeof(*small.places) + sizeof(*small.of)) +
                            2 * supers * sizeof(uint32_t));
    if (job->any_running || !said)
        return;
    memcpy(said, job->units, end * sizeof(*said));
    small.places = (struct gt_close_place *)(said + end);
    small.of = (struct small_unit *)(small.places + left);
    uint32_t *slots = (uint32_t *)(small.of + left), *whole = slots + supers;
    if (!small_list(&small, kind))
        return;
    small_gather(&small, gpus);
    const struct room *pods = &job->rooms[ROOM_OF_PODS];
    const struct room *nodes = small.movable ? gt_draft_room(job, ROOM_OF_NODES, small.size) : NULL;
    if (!nodes)
        return;
    small_take_back(&small, gpus);
    for (uint32_t s = 0; s < supers; s++) {
        slots[s] = small_sum(pods->slots[s], nodes->slots[s]);
        whole[s] = small_sum(pods->whole[s], nodes->whole[s]);
    }
    for (uint32_t p = small.movable; p < small.place_count; p++)
        slots[small.places[p].from] = UINT32_MAX; /* like no other */
    gt_close_choose(job, &(struct room){.slots = slots, .whole = whole, .count = supers}, small.places,
                    small.movable, NULL);
    small_settle(&small, gpus);
    small_place(&small, said, kind);
}
