/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/part.h"

#include "base/err.h"

/* The members of one unit. */
struct unit_count {
    uint32_t placed, open; /* members with a place; members to be placed */
    bool needed;           /* some of the latter are needed by a minimum */
};

static struct unit_count count_unit(const struct gt_job_view *view, uint32_t number)
{
    const struct gt_plan_unit *unit = &view->job->units.units[number];
    struct unit_count count = {0};
    for (uint32_t i = unit->first; i < unit->first + unit->pods; i++) {
        enum gt_member_state state = view->members[i].state;
        bool open = gt_member_is_open(&view->members[i]);
        count.open += open;
        count.placed += !open && state != GT_MEMBER_ABSENT && state != GT_MEMBER_EARLY;
        count.needed = count.needed || (open && view->job->members[i].needed);
    }
    return count;
}

uint32_t gt_part_units(const struct gt_job_view *view)
{
    uint32_t units = 0;
    for (uint32_t u = 0; u < view->job->units.count; u++)
        units += !view->open[u] && count_unit(view, u).placed;
    return units;
}

bool gt_part_suffices(const struct gt_job_view *view)
{
    uint32_t placed = 0;
    if (!gt_part_is_allowed(view))
        return false;
    for (uint32_t u = 0; u < view->job->units.count; u++) {
        const struct unit_count count = count_unit(view, u);
        if (count.needed)
            return false;
        placed += count.open ? 0 : count.placed;
    }
    return placed >= view->minimum;
}

bool gt_part_grows(const struct gt_job_view *view)
{
    for (uint32_t u = 0; u < view->job->units.count; u++)
        if (view->open[u] && count_unit(view, u).placed)
            return false;
    return gt_part_suffices(view);
}

/* ---- waiting units ---- */

enum { STARTED, NEEDED, OTHER, CLASSES };

/* How many of the first ones are needed for the minimum. */
static uint32_t least_of(const struct gt_job_view *view, const struct gt_waiting_units *waiting)
{
    uint64_t placed = 0;
    uint32_t least = 0;
    for (uint32_t u = 0; u < view->job->units.count; u++)
        placed += view->open[u] ? 0 : count_unit(view, u).placed;
    for (uint32_t i = 0; i < waiting->count; i++) {
        const struct unit_count count = count_unit(view, waiting->units[i]);
        if (placed < view->minimum || count.needed)
            least = i + 1;
        placed += count.placed + count.open;
    }
    return least ? least : 1;
}

int gt_waiting_units_make(const struct gt_job_view *view, struct gt_waiting_units *ret, struct gt_err **err)
{
    struct gt_waiting_units part = {.units = calloc((size_t)view->job->units.count + 1, sizeof(*part.units))};
    GT_NEED(part.units, err, "plan");
    for (unsigned class = 0; class < CLASSES; class ++) {
        for (uint32_t u = 0; u < view->job->units.count; u++) {
            const struct unit_count count = count_unit(view, u);
            if (count.open && (count.placed ? STARTED : count.needed ? NEEDED : OTHER) == class)
                part.units[part.count++] = u;
        }
        part.started = class == STARTED ? part.count : part.started;
    }
    part.least = least_of(view, &part);
    *ret = part;
    return 0;
}

void gt_waiting_units_done(struct gt_waiting_units *waiting)
{
    free(waiting->units);
    *waiting = (struct gt_waiting_units){0};
}

uint64_t gt_part_gpus(const struct gt_job_view *view, uint32_t unit)
{
    return (uint64_t)view->open[unit] * view->job->units.units[unit].gpus;
}

uint64_t gt_part_least_gpus(const struct gt_job_view *view)
{
    gt_auto_waiting_units struct gt_waiting_units part = {0};
    uint64_t gpus = 0;
    if (gt_waiting_units_make(view, &part, NULL) < 0)
        return 0;
    for (uint32_t i = 0; i < part.least && i < part.count; i++)
        gpus += gt_part_gpus(view, part.units[i]);
    return gpus;
}
