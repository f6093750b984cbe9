/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/placement/state.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"

/* The states of a job: every event of the table is taken, and every other one aborts in debug builds. */

static const struct event {
    const char *word, *to, *from, *queue;
} events[] = {
#define JOB_EVENT(word, to, from, queue, why) {word, #to, #from, #queue},
#include "scheduler-ext/placement/job_states.def"
#undef JOB_EVENT
};
static const char *const names[GT_PLACEMENT_STATES] = {"NONE",   "GATHERS", "WAITS", "REFUSED",
                                                       "WRITES", "PLACED",  "LOST"};

static bool states_is(const char *text, const char *word)
{
    return strcmp(text, word) == 0;
}

/* Whether an event with this `from` follows the state. */
static bool states_follows(const char *from, unsigned state)
{
    bool is_named = strstr(from, names[state]); /* no name is part of another one */
    return states_is(from, "ANY")      ? true
           : states_is(from, "QUEUED") ? strstr("GATHERS, WAITS, PLACED, LOST", names[state]) != NULL
           : *from == 'B'              ? !is_named
                                       : is_named;
}

static bool states_allows(const struct event *event, unsigned from, bool queued, unsigned to)
{
    bool out = states_is(event->queue, "OUT"), enters = states_is(event->queue, "ENTERS");
    bool suits = queued ? enters || (states_follows("QUEUED", from) && !out)
                        : out || states_is(event->queue, "EITHER");
    return suits && states_follows(event->from, from) && states_is(event->to, names[to]);
}

static bool in_table(unsigned from, bool queued, unsigned to, const char *word)
{
    for (size_t i = 0; i < GT_COUNT(events); i++)
        if (states_is(events[i].word, word) && states_allows(&events[i], from, queued, to))
            return true;
    return false;
}

static jmp_buf failed;
static bool really;

void __real___assert_fail(const char *holds, const char *file, unsigned line, const char *function);
void __wrap___assert_fail(const char *holds, const char *file, unsigned line, const char *function);
void __wrap___assert_fail(const char *holds, const char *file, unsigned line, const char *function)
{
    if (really)
        __real___assert_fail(holds, file, line, function);
    longjmp(failed, 1);
}

/* Whether the event was taken; false: an assertion failed. */
static bool takes(unsigned from, bool queued, unsigned to, const char *word)
{
    static struct gt_placement placement;
    struct gt_cache_job job = {.key = "ns/Job/a"};
    struct pjob pjob = {.placement = &placement, .job = &job, .state = from, .report = {.reason = ""}};
    pjob.wait.queued = queued;
    if (setjmp(failed))
        return false;
    assert_int_equal(gt_placement_may_follow(&pjob, to, word), in_table(from, queued, to, word));
    gt_placement_set_state(&pjob, to, word, "text");
    assert_int_equal(pjob.state, to);
    assert_string_equal(pjob.report.reason, word);
    free(pjob.report.text);
    return true;
}

static void all_events(void **state)
{
    (void)state;
    unsigned taken = 0, others = 0;
    for (unsigned from = 0; from < GT_PLACEMENT_STATES; from++)
        for (unsigned to = 0; to < GT_PLACEMENT_STATES; to++)
            for (size_t i = 0; i < 2 * (GT_COUNT(events) + 1); i++) {
                const char *word = i / 2 < GT_COUNT(events) ? events[i / 2].word : "Unheard";
                bool expected = in_table(from, i % 2, to, word), found = takes(from, i % 2, to, word);
                *(expected ? &taken : &others) += 1;
#ifdef NDEBUG
                expected = true; /* nothing is asserted */
#endif
                assert_int_equal(found, expected);
            }
    assert_true(taken > 300 && others > 2000);
}

static void states_are_reached(void **state)
{
    (void)state;
    bool reached[GT_PLACEMENT_STATES][2] = {{true}};
    for (bool more = true; more;) {
        more = false;
        for (unsigned from = 0; from < GT_PLACEMENT_STATES; from++)
            for (size_t i = 0; i < 2 * GT_COUNT(events); i++) {
                const struct event *event = &events[i / 2];
                bool queued = i % 2, enters = states_is(event->queue, "ENTERS");
                bool stays = queued && !states_is(event->queue, "LEAVES");
                for (unsigned to = 0; to < GT_PLACEMENT_STATES; to++)
                    if ((reached[from][queued] || (enters && reached[from][0])) && !reached[to][stays] &&
                        states_allows(event, from, queued, to) && takes(from, queued, to, event->word))
                        more = reached[to][stays] = reached[to][0] = true; /* it may leave at any time */
            }
    }
    for (unsigned at = 0; at < GT_PLACEMENT_STATES; at++) {
        assert_true(reached[at][0]);
        assert_int_equal(reached[at][1], states_follows("QUEUED", at));
    }
}

#ifndef NDEBUG
static void states_abort(void **state)
{
    (void)state;
    int status;
    pid_t pid = fork();
    if (!pid) {
        really = true;
        signal(SIGABRT, SIG_DFL);
        fclose(stderr); /* it says which assertion failed */
        takes(GT_PLACEMENT_NONE, false, GT_PLACEMENT_WAITS, "TooFewGPUs");
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_events),
        cmocka_unit_test(states_are_reached),
#ifndef NDEBUG
        cmocka_unit_test(states_abort),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
