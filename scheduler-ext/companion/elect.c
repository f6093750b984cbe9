/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/elect.h"

#include <errno.h>
#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"

struct gt_elect {
    struct gt_kube *kube;
    struct gt_kube_call *call;
    gt_kube_done *done;
    void *done_arg;
    struct gt_source *timer;
    struct gt_jitter jitter;
    struct gt_leader *leader;
    char last_error[256];
    struct gt_elect_spec spec;
};

static uint64_t elect_port_now_ms(void *arg)
{
    (void)arg;
    return gt_clock_ms();
}

static void elect_port_now_text(void *arg, char to[static GT_TIME_TEXT_SIZE])
{
    struct timespec now;
    (void)arg;
    clock_gettime(CLOCK_REALTIME, &now);
    gt_time_text_fine(&now, 6, to);
}

static uint64_t elect_port_random_below(void *arg, uint64_t max)
{
    struct gt_elect *elect = arg;
    return gt_jitter_below(&elect->jitter, max);
}

static void elect_port_wake(void *arg, uint64_t ms)
{
    struct gt_elect *elect = arg;
    gt_source_arm(elect->timer, ms);
}

static void elect_on_answer(void *arg, struct gt_kube_answer *answer)
{
    struct gt_elect *elect = arg;
    elect->call = NULL;
    elect->done(elect->done_arg, answer);
}

static int elect_port_send(void *arg, const struct gt_kube_request *request, gt_kube_done *done,
                           void *done_arg, struct gt_err **err)
{
    struct gt_elect *elect = arg;
    elect->done = done;
    elect->done_arg = done_arg;
    return gt_kube_start(elect->kube, request, elect_on_answer, elect, &elect->call, err);
}

static void elect_port_withdraw(void *arg)
{
    struct gt_elect *elect = arg;
    gt_kube_cancel(gt_steal(elect->call));
}

static void elect_on_lead(void *arg, bool leads)
{
    struct gt_elect *elect = arg;
    gt_info(leads ? "leads now: writes" : "leads no more: only watches");
    elect->last_error[0] = '\0';
    elect->spec.on_lead(elect->spec.arg, leads);
}

static void elect_on_released(void *arg)
{
    struct gt_elect *elect = arg;
    elect->spec.on_released(elect->spec.arg);
}

static void elect_write_note(void *arg, struct gt_buf *to)
{
    struct gt_elect *elect = arg;
    elect->spec.write_note(elect->spec.arg, to);
}

static void elect_write_last_note(void *arg, struct gt_buf *to)
{
    struct gt_elect *elect = arg;
    elect->spec.write_last_note(elect->spec.arg, to);
}

static void elect_read_note(void *arg, const char *note)
{
    struct gt_elect *elect = arg;
    elect->spec.read_note(elect->spec.arg, note);
}

static void elect_on_error(void *arg, const char *what)
{
    struct gt_elect *elect = arg;
    gt_log(gt_log_level_of(elect->last_error, sizeof(elect->last_error), what),
           "the lease cannot be written or read", GT_STR("why", elect->last_error));
}

static void elect_on_timer(void *arg)
{
    struct gt_elect *elect = arg;
    gt_leader_run(elect->leader);
}

void gt_elect_free(struct gt_elect *elect)
{
    if (!elect)
        return;
    gt_leader_free(elect->leader);
    gt_source_free(elect->timer);
    free(elect);
}

int gt_elect_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_elect_spec *spec,
                 struct gt_elect **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_elect_free) struct gt_elect *elect = calloc(1, sizeof(*elect));
    if (!elect)
        return gt_fail_sys(err, ENOMEM, "leader election");
    elect->kube = kube;
    elect->spec = *spec;
    gt_jitter_seed(&elect->jitter);
    const struct gt_leader_spec leader = {.namespace_ = spec->namespace_,
                                          .name = GT_ELECT_LEASE,
                                          .identity = spec->identity,
                                          .on_lead = elect_on_lead,
                                          .on_released = elect_on_released,
                                          .on_error = elect_on_error,
                                          .write_note = elect_write_note,
                                          .write_last_note = elect_write_last_note,
                                          .read_note = elect_read_note,
                                          .arg = elect};
    const struct gt_leader_port port = {elect_port_now_ms,
                                        elect_port_now_text,
                                        elect_port_random_below,
                                        elect_port_wake,
                                        elect_port_send,
                                        elect_port_withdraw,
                                        elect};
    GT_TRY(gt_loop_add_timer(loop, elect_on_timer, elect, &elect->timer, err));
    GT_TRY(gt_leader_new(&leader, &port, &elect->leader, err));
    gt_source_arm(elect->timer, 0);
    *ret = gt_steal(elect);
    return 0;
}

void gt_elect_release(struct gt_elect *elect)
{
    gt_leader_release(elect->leader);
}

bool gt_elect_is_current(const struct gt_elect *elect)
{
    return gt_leader_is_current(elect->leader);
}

void gt_elect_stats(const struct gt_elect *elect, struct gt_leader_stats *ret)
{
    gt_leader_stats(elect->leader, ret);
}
