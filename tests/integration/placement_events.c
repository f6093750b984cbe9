/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Appends each event of a job to the file $GPUTOPO_JOB_EVENTS, once: FROM IN|OUT TO WORD, as job_states.def
 * has them; IN: it is in the queue. The linker calls these functions in place of the controller's (--wrap).
 */
#include "tests/integration/placement_events.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "scheduler-ext/decide/view.h"
#include "scheduler-ext/placement/state.h"

enum { KNOWN_MAX = 1024 };

static const char *const names[GT_PLACEMENT_STATES] = {"NONE",   "GATHERS", "WAITS", "REFUSED",
                                                       "WRITES", "PLACED",  "LOST"};

void __real_gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                                   const char *text);
void __wrap_gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                                   const char *text);
void __real_gt_placement_fail(struct pjob *pjob, const char *text);
void __wrap_gt_placement_fail(struct pjob *pjob, const char *text);

int __real_gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job,
                            const struct gt_job_view_spec *spec, struct gt_reservations *reservations,
                            struct gt_job_view **ret, struct gt_err **err);
int __wrap_gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job,
                            const struct gt_job_view_spec *spec, struct gt_reservations *reservations,
                            struct gt_job_view **ret, struct gt_err **err);

static bool lacks;

static void note_event(const struct pjob *pjob, enum gt_placement_state state, const char *reason)
{
    static struct event {
        unsigned from, queued, to;
        char word[40];
    } known[KNOWN_MAX];
    static unsigned count;
    const char *path = getenv("GPUTOPO_JOB_EVENTS");
    struct event event = {.from = pjob->state, .queued = pjob->wait.queued, .to = state};
    snprintf(event.word, sizeof(event.word), "%s", reason);
    for (unsigned i = 0; i < count; i++)
        if (memcmp(&known[i], &event, sizeof(event)) == 0)
            return;
    if (!path || count == KNOWN_MAX)
        return;
    known[count++] = event;
    char line[128];
    int length = snprintf(line, sizeof(line), "%s %s %s %s\n", names[event.from], event.queued ? "IN" : "OUT",
                          names[event.to], event.word);
    gt_auto_close int fd = open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, line, (size_t)length) != length) /* one write: other hosts write into it, too */
        abort();
}

void __wrap_gt_placement_set_state(struct pjob *pjob, enum gt_placement_state state, const char *reason,
                                   const char *text)
{
    note_event(pjob, state, reason);
    __real_gt_placement_set_state(pjob, state, reason, text);
}

void __wrap_gt_placement_fail(struct pjob *pjob, const char *text)
{
    note_event(pjob, GT_PLACEMENT_WAITS, "Failed");
    __real_gt_placement_fail(pjob, text);
}

void placement_events_lack(void)
{
    lacks = true;
}

int __wrap_gt_job_view_make(struct gt_cache *cache, struct gt_cache_job *job,
                            const struct gt_job_view_spec *spec, struct gt_reservations *reservations,
                            struct gt_job_view **ret, struct gt_err **err)
{
    if (!lacks)
        return __real_gt_job_view_make(cache, job, spec, reservations, ret, err);
    lacks = false;
    return gt_fail(err, ENOMEM, "no memory");
}
