/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "scheduler-ext/placement/reconcile.h"

/* Jobs that keep GPUs from others without running on them: for pods that do not exist, and for planned pods
 * that are on no node. */

enum {
    NAMED_MAX = 3,          /* jobs in a text */
    PLANNED_LAG_MS = 10000, /* pods that were planned later will soon be on their nodes, and are not named */
};

void gt_placement_count_kept(struct pjob *pjob)
{
    uint32_t gpus = gt_reservations_gpus(&pjob->place.reservations);
    for (const struct gt_cache_pod *pod = pjob->job->pods; pod; pod = pod->next)
        gpus += pod->plan == GT_CACHE_PLAN_ASSUMED && pod->node == GT_NONE ? pod->gpus : 0;
    if (!pjob->place.kept_gpus != !gpus)
        pjob->place.kept_ms = gt_clock_ms();
    pjob->place.kept_gpus = gpus;
    gt_placement_list(pjob, PJOBS_KEPT, gpus);
}

/* How many of its GPUs are to be named; *ret_reserved of them are for pods that do not exist. */
static uint32_t named_gpus(const struct pjob *pjob, uint64_t now, uint32_t *ret_reserved)
{
    uint32_t reserved = *ret_reserved = gt_reservations_gpus(&pjob->place.reservations);
    return now - pjob->place.kept_ms >= PLANNED_LAG_MS && pjob->place.kept_gpus > reserved
               ? pjob->place.kept_gpus
               : reserved;
}

static void say_one(const struct pjob *pjob, uint64_t now, bool first, struct gt_buf *to)
{
    uint32_t reserved, gpus = named_gpus(pjob, now, &reserved);
    uint64_t end = gt_reservations_reserved_end(&pjob->place.reservations);
    char until[GT_TIME_TEXT_SIZE];
    if (first)
        gt_buf_printf(to, "; %u GPU%s reserved", gpus, gpus == 1 ? " is" : "s are");
    else
        gt_buf_printf(to, ", %u", gpus);
    gt_buf_printf(to, " for %s", pjob->job ? pjob->job->key : pjob->key);
    if (!reserved || end == UINT64_MAX)
        return;
    gt_placement_time_text(end, until);
    if (reserved < gpus)
        gt_buf_printf(to, " (%u of them until %s)", reserved, until);
    else
        gt_buf_printf(to, " until %s", until);
}

void gt_placement_say_kept(const struct pjob *than, uint64_t now, struct gt_buf *to)
{
    const struct pjob *named[NAMED_MAX] = {0};
    uint32_t gpus_of[NAMED_MAX] = {0}, jobs = 0, reserved;
    uint64_t more = 0;
    for (const struct pjob *pjob = than->placement->jobs.lists[PJOBS_KEPT].first; pjob;
         pjob = pjob->links[PJOBS_KEPT].next) {
        uint32_t gpus = pjob == than ? 0 : named_gpus(pjob, now, &reserved);
        unsigned at = NAMED_MAX;
        jobs += gpus > 0;
        more += gpus;
        while (at && gpus > gpus_of[at - 1])
            at--;
        if (at == NAMED_MAX)
            continue;
        memmove(&named[at + 1], &named[at], (NAMED_MAX - 1 - at) * sizeof(named[0]));
        memmove(&gpus_of[at + 1], &gpus_of[at], (NAMED_MAX - 1 - at) * sizeof(gpus_of[0]));
        named[at] = pjob;
        gpus_of[at] = gpus;
    }
    for (unsigned i = 0; i < NAMED_MAX && named[i]; i++) {
        say_one(named[i], now, i == 0, to);
        more -= gpus_of[i];
    }
    if (jobs > NAMED_MAX)
        gt_buf_printf(to, ", %llu for %u other job%s", (unsigned long long)more, jobs - NAMED_MAX,
                      gt_plural(jobs - NAMED_MAX));
}
