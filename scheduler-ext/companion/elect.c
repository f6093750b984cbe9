/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/leader.h"

#include "base/backoff.h"
#include "base/clock.h"

struct gt_elect {
    struct gt_kube *kube;
    struct gt_kube_call *call;
    gt_kube_done *done;
    void *done_arg;
    struct gt_source *timer;
    struct gt_jitter jitter;
    struct gt_leader *leader;
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

int gt_elect_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_leader_spec *spec,
                 struct gt_elect **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_elect_free) struct gt_elect *elect = calloc(1, sizeof(*elect));
    GT_NEED(elect, err, "leader election");
    elect->kube = kube;
    gt_jitter_seed(&elect->jitter);
    const struct gt_leader_port port = {elect_port_now_ms,
                                        elect_port_now_text,
                                        elect_port_random_below,
                                        elect_port_wake,
                                        elect_port_send,
                                        elect_port_withdraw,
                                        elect};
    GT_TRY(gt_loop_add_timer(loop, elect_on_timer, elect, &elect->timer, err));
    GT_TRY(gt_leader_new(spec, &port, &elect->leader, err));
    gt_source_arm(elect->timer, 0);
    *ret = gt_steal(elect);
    return 0;
}

struct gt_leader *gt_elect_leader(const struct gt_elect *elect)
{
    return elect->leader;
}
