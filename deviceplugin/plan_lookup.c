/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/plan_lookup.h"

#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "deviceplugin/podresources_call.h"

enum { TRIES = 6, LEAST_MS = 2 };

struct gt_plan_lookup {
    struct gt_rpc *rpc; /* a separate one: the plugin's thread waits here and cannot handle the answer */
    const char *kubelet_dir, *resource; /* borrowed */
    uint64_t deadline_ns;
};

/* The kubelet's answer, passed from gRPC's thread to the thread that waits for it. */
struct kubelet_answer {
    pthread_mutex_t lock;
    pthread_cond_t come;
    bool is_here; /* under lock, as all below */
    int status;
    uint8_t *bytes; /* NULL: none, or too many */
    size_t len;
};

static void plan_lookup_on_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct kubelet_answer *answer = arg;
    (void)message;
    pthread_mutex_lock(&answer->lock);
    answer->status = status;
    if (status == GT_RPC_OK && len <= GT_PLAN_LOOKUP_ANSWER_MAX && (answer->bytes = malloc(len + 1))) {
        if (len)
            memcpy(answer->bytes, reply, len);
        answer->len = len;
    }
    answer->is_here = true;
    pthread_cond_signal(&answer->come);
    pthread_mutex_unlock(&answer->lock);
}

/* Whether a usable answer came in time. */
static bool plan_lookup_ask(struct gt_plan_lookup *lookup, struct kubelet_answer *answer, uint64_t end_ns)
{
    uint64_t now = gt_clock_ns();
    unsigned left_ms = end_ns > now ? (unsigned)((end_ns - now) / 1000000) : 0;
    GT_CLEANUP(gt_rpc_call_free) struct gt_rpc_call *call = NULL;
    const struct gt_pod_ask ask = {left_ms, plan_lookup_on_done, answer};
    if (left_ms < LEAST_MS ||
        gt_pod_call_new(lookup->rpc, lookup->kubelet_dir, GT_POD_LIST, &ask, &call, NULL) < 0)
        return false;
    pthread_mutex_lock(&answer->lock);
    while (!answer->is_here && gt_cond_wait_until(&answer->come, &answer->lock, end_ns) == 0)
        ;
    bool useful = answer->is_here && answer->status == GT_RPC_OK && answer->bytes;
    pthread_mutex_unlock(&answer->lock);
    return useful; /* after the call is freed, nothing writes to the answer */
}

static void answer_init(struct kubelet_answer *answer)
{
    *answer = (struct kubelet_answer){0};
    pthread_mutex_init(&answer->lock, NULL);
    gt_cond_init(&answer->come);
}

static void answer_done(struct kubelet_answer *answer)
{
    free(answer->bytes);
    pthread_cond_destroy(&answer->come);
    pthread_mutex_destroy(&answer->lock);
}

static void sleep_ms(unsigned ms)
{
    const struct timespec pause = {0, ms * 1000000L};
    clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, NULL);
}

/* Tries again after a failure if there is time: the kubelet refuses clients that call too often. */
static bool list(struct gt_plan_lookup *lookup, struct gt_listed_containers *ret)
{
    uint64_t end = gt_clock_ns() + lookup->deadline_ns;
    bool listed = false;
    unsigned pause_ms = GT_PLAN_LOOKUP_RETRY_MS;
    for (unsigned i = 0; i < TRIES && !listed; i++) {
        if (i && gt_clock_ns() + (pause_ms + LEAST_MS) * 1000000ULL > end)
            break;
        if (i) {
            sleep_ms(pause_ms);
            pause_ms *= 2;
        }
        struct kubelet_answer answer;
        answer_init(&answer);
        listed = plan_lookup_ask(lookup, &answer, end) &&
                 gt_pod_containers_read(answer.bytes, answer.len, lookup->resource, ret, NULL) == 0;
        answer_done(&answer);
    }
    return listed;
}

static void wait_for_plan(struct gt_plans **plans, gt_plan_lookup_plans *newer, void *arg,
                          const struct gt_listed_containers *listed)
{
    uint64_t end = gt_clock_ms() + GT_PLAN_LOOKUP_PLAN_MS;
    while ((*plans)->is_complete && gt_plans_lack_one(*plans, listed) && gt_clock_ms() < end) {
        sleep_ms(GT_PLAN_LOOKUP_POLL_MS);
        struct gt_plans *next = newer(arg);
        if (!next)
            return;
        gt_plans_unref(*plans);
        *plans = next;
    }
}

enum gt_plan_result gt_plan_lookup_find(struct gt_plan_lookup *lookup, struct gt_plans **plans,
                                        gt_plan_lookup_plans *newer, void *arg,
                                        const struct gt_planned_request *request, const struct gt_plan **ret)
{
    struct gt_listed_containers listed;
    bool any_fits = gt_plans_any_fits(*plans, request);
    if (!any_fits && !(*plans)->is_complete)
        return GT_PLAN_NONE;
    if (!list(lookup, &listed))
        return any_fits ? GT_PLAN_LATE : GT_PLAN_NONE;
    wait_for_plan(plans, newer, arg, &listed);
    enum gt_plan_result result = gt_plans_match(*plans, request, &listed, ret);
    gt_pod_containers_done(&listed);
    return result;
}

int gt_plan_lookup_new(const char *kubelet_dir, const char *resource, unsigned deadline_ms,
                       struct gt_plan_lookup **ret, struct gt_err **err)
{
    gt_auto_plan_lookup struct gt_plan_lookup *lookup = calloc(1, sizeof(*lookup));
    GT_NEED(lookup, err, "planner");
    lookup->deadline_ns = (deadline_ms ? deadline_ms : GT_PLAN_LOOKUP_DEADLINE_MS) * 1000000ULL;
    lookup->kubelet_dir = kubelet_dir;
    lookup->resource = resource;
    GT_TRY(gt_rpc_new(&lookup->rpc, err));
    *ret = gt_steal(lookup);
    return 0;
}

void gt_plan_lookup_free(struct gt_plan_lookup *lookup)
{
    if (!lookup)
        return;
    gt_rpc_free(lookup->rpc);
    free(lookup);
}
