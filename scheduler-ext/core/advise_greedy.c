/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/core/advise_search.h"

/*
 * The greedy search where the tables would be too large: whole nodes are cleared, region by region in the
 * order of the cost of a run, and in a region the nodes with the least cost for each pod of the job first;
 * then every pod that need not leave is put back.
 */

struct cleared { /* a place with all of its items moved */
    uint32_t place, slots;
    uint64_t cost;
};

static int by_cost_per_slot(const void *a, const void *b)
{
    const struct cleared *x = a, *y = b;
    double per_x = (double)x->cost / x->slots, per_y = (double)y->cost / y->slots;
    return per_x != per_y ? (per_x > per_y) - (per_x < per_y) : (x->place > y->place) - (x->place < y->place);
}

/* How to get one more run in a region: by clearing its first `spots` nodes. */
struct step {
    uint32_t region, places;
    uint64_t cost; /* not below that of the step before in the region */
};

static int by_step_cost(const void *a, const void *b)
{
    const struct step *x = a, *y = b;
    GT_BY(x->cost, y->cost);
    GT_BY(x->region, y->region);
    return (x->places > y->places) - (x->places < y->places);
}

static void clear_order(const struct advisor *advisor, struct cleared *cleared)
{
    for (uint32_t s = 0; s < advisor->place_count; s++) {
        const struct advise_place *place = &advisor->places[s];
        cleared[s] = (struct cleared){.place = s, .slots = place->slots ? place->slots : 1};
        for (uint32_t i = 0; i < place->count; i++)
            cleared[s].cost += advise_cost(&advisor->items[place->first + i]);
        if (!place->slots)
            cleared[s] = (struct cleared){s, 1, ADVISE_NEVER >> 1}; /* no gain: sorted last */
    }
    for (uint32_t r = 0; r < advisor->region_count; r++)
        qsort(cleared + advisor->regions[r].first, advisor->regions[r].count, sizeof(*cleared),
              by_cost_per_slot);
}

static uint32_t add_steps(const struct advisor *advisor, uint32_t r, const struct cleared *cleared,
                          struct step *steps)
{
    const struct advise_region *region = &advisor->regions[r];
    uint32_t count = 0, room = region->room, runs = region->runs;
    uint64_t cost = 0, last = 0;
    for (uint32_t i = 0; i < region->count; i++) {
        const struct cleared *next = &cleared[region->first + i];
        if (!advisor->places[next->place].slots)
            break;
        room += next->slots;
        cost += next->cost;
        while (room / advisor->job->pods > runs) {
            runs++;
            last = cost > last ? cost : last;
            steps[count++] = (struct step){r, i + 1, last};
            cost = 0;
        }
    }
    return count;
}

static void mark(struct advisor *advisor, const struct step *step, const struct cleared *cleared)
{
    for (uint32_t i = 0; i < step->places; i++) {
        const struct advise_place *place =
            &advisor->places[cleared[advisor->regions[step->region].first + i].place];
        for (uint32_t k = 0; k < place->count; k++)
            advisor->items[place->first + k].moved = true;
    }
}

/* Puts back what is not needed, the smallest pods of each node last, so that few large ones leave. */
static void advise_greedy_put_back(struct advisor *advisor)
{
    const struct gt_advise_job *job = advisor->job;
    uint64_t runs = 0;
    for (uint32_t r = 0; r < advisor->region_count; r++) {
        const struct advise_region *region = &advisor->regions[r];
        uint32_t room = region->room;
        for (uint32_t s = region->first; s < region->first + region->count; s++) {
            const struct advise_place *place = &advisor->places[s];
            unsigned freed = 0;
            for (uint32_t i = place->first; i < place->first + place->count; i++)
                freed += advisor->items[i].moved ? advisor->items[i].gain : 0;
            room += (place->available + freed) / job->gpus - place->available / job->gpus;
        }
        runs += room / job->pods - region->runs;
        for (uint32_t s = region->first; s < region->first + region->count; s++) {
            const struct advise_place *place = &advisor->places[s];
            unsigned free = place->available;
            for (uint32_t i = place->first; i < place->first + place->count; i++)
                free += advisor->items[i].moved ? advisor->items[i].gain : 0;
            for (unsigned size = 1; size <= 64; size++)
                for (uint32_t i = place->first; i < place->first + place->count; i++) {
                    struct advise_item *item = &advisor->items[i];
                    if (!item->moved || item->gain != size)
                        continue;
                    uint32_t without = room - free / job->gpus + (free - size) / job->gpus;
                    uint64_t left = runs - (room / job->pods - without / job->pods);
                    if (left < advisor->need)
                        continue;
                    item->moved = false;
                    free -= size;
                    room = without;
                    runs = left;
                }
        }
    }
}

int gt_advise_greedy(struct advisor *advisor)
{
    size_t most = 0;
    for (uint32_t r = 0; r < advisor->region_count; r++)
        most += advisor->regions[r].more;
    gt_auto_free struct cleared *cleared = calloc((size_t)advisor->place_count + 1, sizeof(*cleared));
    gt_auto_free struct step *steps = calloc(most + 1, sizeof(*steps));
    if (!cleared || !steps)
        return gt_fail_sys(advisor->err, ENOMEM, "advice");
    clear_order(advisor, cleared);
    uint32_t count = 0;
    for (uint32_t r = 0; r < advisor->region_count; r++)
        count += add_steps(advisor, r, cleared, steps + count);
    qsort(steps, count, sizeof(*steps), by_step_cost);
    for (uint32_t i = 0; i < count && i < advisor->need; i++)
        mark(advisor, &steps[i], cleared);
    advise_greedy_put_back(advisor);
    return 0;
}
