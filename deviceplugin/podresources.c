/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/podresources.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <time.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "base/mailbox.h"
#include "base/process.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/plugin.h"
#include "deviceplugin/podresources_call.h"

enum {
    POLL_MS = 5000,
    SETTLE_QUIET_MS = 300,
    SETTLE_POLL_MS = 1000,
    LIST_TIMEOUT_MS = 10000,
    LIST_PAUSE_FIRST_MS = 1000,
    LIST_PAUSE_MAX_MS = 30000,
    LIMITED_FIRST_MS = 5000,
    LIMITED_MAX_MS = 60000,
    LARGE = 1 << 20, /* an answer whose memory is given back at once */
    WHY_MAX = 600,
};

struct gt_podresources {
    struct gt_loop *loop;
    struct gt_podresources_options options;
    struct gt_podresources_events events;
    char socket[PATH_MAX];
    struct gt_pod_wanted wanted; /* borrowed texts */
    struct gt_mailbox *mailbox;
    struct gt_source *timer; /* for the next call, or the time limit of the current one */
    struct gt_rpc *rpc;      /* NULL until the first call */
    struct gt_loop_call call;
    enum gt_pod_method method; /* of the call */
    uint64_t offer_due_ms;     /* when the next GetAllocatableResources is due */

    uint64_t due_ms, soon_ms; /* when the next one is due; 0: not asked for */
    unsigned failures;
    struct gt_jitter jitter;
    bool limited; /* the kubelet has refused a call for its rate limit: no call before due_ms */

    bool has_id;
    struct gt_socket_id id; /* of the kubelet's socket at the last call */
    uint64_t settled_ms;

    struct gt_podresources_stats stats;
};

static void podresources_arm(struct gt_podresources *client)
{
    uint64_t now = gt_clock_ms(), at = client->due_ms;
    if (client->soon_ms && client->soon_ms < at && !client->limited)
        at = client->soon_ms;
    gt_source_arm(client->timer, at > now ? at - now : 0);
}

static unsigned next_pause(struct gt_podresources *client, bool limited)
{
    return (unsigned)gt_backoff_pause(client->failures++, limited ? LIMITED_FIRST_MS : LIST_PAUSE_FIRST_MS,
                                      limited ? LIMITED_MAX_MS : LIST_PAUSE_MAX_MS, &client->jitter);
}

static void podresources_fail(struct gt_podresources *client, const char *why, bool limited)
{
    if (limited && !client->limited)
        client->failures = 0; /* the pause depends on the reason */
    unsigned pause = next_pause(client, limited);
    client->limited = limited;
    if (limited)
        client->stats.limited++;
    else
        client->stats.failed++;
    client->due_ms = gt_clock_ms() + pause;
    podresources_arm(client);
    if (client->events.failed)
        client->events.failed(client->events.arg, why, pause);
}

static bool podresources_read_answer(struct gt_podresources *client, const uint8_t *reply, size_t len)
{
    struct gt_pod_answer answer;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_pod_answer_read(GT_POD_LIST, reply, len, &client->wanted, &answer, &err) < 0) {
        podresources_fail(client, gt_err_text(err), false);
        return false;
    }
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    client->stats.done++;
    client->stats.last_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
    client->failures = 0;
    client->limited = false;
    answer.uses.settling = gt_clock_ms() < client->settled_ms;
    client->due_ms = gt_clock_ms() + (answer.uses.settling && client->options.poll_ms > SETTLE_POLL_MS
                                          ? SETTLE_POLL_MS
                                          : client->options.poll_ms);
    podresources_arm(client);
    if (client->events.listed)
        client->events.listed(client->events.arg, &answer.uses);
    gt_pod_answer_done(&answer);
    if (len > LARGE)
        gt_process_trim();
    return true;
}

/* It does not say which containers hold devices: if it fails, only the offer is unknown. */
static void podresources_read_offer(struct gt_podresources *client, const uint8_t *reply, size_t len)
{
    struct gt_pod_answer answer = {0};
    int others = -1;
    if (reply && gt_pod_answer_read(GT_POD_ALLOCATABLE, reply, len, &client->wanted, &answer, NULL) == 0) {
        others = (int)answer.uses.others;
        gt_pod_answer_done(&answer);
    }
    podresources_arm(client);
    if (client->events.offered)
        client->events.offered(client->events.arg, others);
}

static int podresources_call(struct gt_podresources *client, enum gt_pod_method method, struct gt_err **err)
{
    const struct gt_pod_ask ask = {client->options.timeout_ms, gt_loop_call_done, &client->call};
    client->method = method;
    return gt_pod_call_new(client->rpc, client->options.kubelet_dir, method, &ask, &client->call.call, err);
}

static void query_offer(struct gt_podresources *client)
{
    if (!client->wanted.other || gt_clock_ms() < client->offer_due_ms)
        return;
    client->offer_due_ms = gt_clock_ms() + client->options.poll_ms * 3 / 2; /* every second time */
    if (podresources_call(client, GT_POD_ALLOCATABLE, NULL) < 0)
        podresources_read_offer(client, NULL, 0);
    else
        gt_source_arm(client->timer, client->options.timeout_ms + 1000ULL);
}

static void podresources_on_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct gt_podresources *client = arg;
    if (client->method == GT_POD_ALLOCATABLE) {
        podresources_read_offer(client, status == GT_RPC_OK ? reply : NULL, len);
        return;
    }
    if (status == GT_RPC_OK) {
        if (podresources_read_answer(client, reply, len))
            query_offer(client);
        return;
    }
    char why[WHY_MAX];
    snprintf(why, sizeof(why), "pod-resources: %s: %s", gt_rpc_status_name(status), message);
    podresources_fail(client, why, status == GT_RPC_RESOURCE_EXHAUSTED);
}

/* If the socket is new, by its age or because it has replaced another one, the kubelet has just started. */
static void check_socket(struct gt_podresources *client)
{
    struct gt_socket_id id;
    if (!gt_socket_id_read(client->socket, &id))
        return;
    if (client->has_id && gt_socket_id_equal(&id, &client->id))
        return;
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    int64_t age_ms =
        client->has_id ? 0 : (now.tv_sec - id.seconds) * 1000 + (now.tv_nsec - id.nanoseconds) / 1000000;
    if (age_ms >= 0 && age_ms < GT_PODRESOURCES_SETTLE_MS)
        client->settled_ms = gt_clock_ms() + GT_PODRESOURCES_SETTLE_MS - (uint64_t)age_ms;
    client->has_id = true;
    client->id = id;
}

static void podresources_ask(struct gt_podresources *client)
{
    gt_auto_err struct gt_err *err = NULL;
    client->soon_ms = 0;
    check_socket(client);
    int r = 0;
    if (!client->rpc && access(client->socket, F_OK) < 0)
        r = gt_fail_sys(&err, errno, "%s", client->socket);
    if (r == 0 && !client->rpc)
        r = gt_rpc_new(&client->rpc, &err);
    client->method = GT_POD_LIST;
    if (r == 0)
        r = podresources_call(client, GT_POD_LIST, &err);
    if (r < 0) {
        podresources_fail(client, gt_err_text(err), false);
        return;
    }
    /* gRPC watches the deadline; the timer is for a message that gets lost. */
    gt_source_arm(client->timer, client->options.timeout_ms + 1000ULL);
}

static void podresources_on_timer(void *arg)
{
    struct gt_podresources *client = arg;
    if (client->call.call) {
        gt_loop_call_cancel(&client->call);
        if (client->method == GT_POD_ALLOCATABLE)
            podresources_read_offer(client, NULL, 0);
        else
            podresources_fail(client, "pod-resources: no answer", false);
        return;
    }
    uint64_t quiet = client->options.plugin ? gt_plugin_quiet_ms(client->options.plugin) : UINT64_MAX;
    if (quiet < client->options.settle_quiet_ms)
        gt_source_arm(client->timer, client->options.settle_quiet_ms - quiet);
    else
        podresources_ask(client);
}

int gt_podresources_new(struct gt_loop *loop, const struct gt_podresources_options *options,
                        const struct gt_podresources_events *events, struct gt_podresources **ret,
                        struct gt_err **err)
{
    GT_CLEANUP(gt_podresources_free) struct gt_podresources *client = calloc(1, sizeof(*client));
    GT_NEED(client, err, "pod-resources");
    client->loop = loop;
    client->options = *options;
    client->events = *events;
    gt_jitter_seed(&client->jitter);
    if (!options->poll_ms)
        client->options.poll_ms = POLL_MS;
    if (!options->settle_quiet_ms)
        client->options.settle_quiet_ms = SETTLE_QUIET_MS;
    if (!options->timeout_ms)
        client->options.timeout_ms = LIST_TIMEOUT_MS;
    client->wanted = (struct gt_pod_wanted){options->resource, options->other, options->driver};
    gt_pod_socket(options->kubelet_dir, client->socket);
    GT_TRY(gt_mailbox_new(loop, client, &client->mailbox, err));
    client->call = (struct gt_loop_call){client->mailbox, podresources_on_done, client, NULL, 0};
    GT_TRY(gt_loop_add_timer(loop, podresources_on_timer, client, &client->timer, err));
    podresources_arm(client);
    *ret = gt_steal(client);
    return 0;
}

void gt_podresources_soon(struct gt_podresources *client)
{
    if (client->soon_ms)
        return;
    client->soon_ms = gt_clock_ms() + client->options.settle_quiet_ms;
    if (!client->call.call)
        podresources_arm(client);
}

void gt_podresources_restarted(struct gt_podresources *client)
{
    client->settled_ms = gt_clock_ms() + GT_PODRESOURCES_SETTLE_MS;
    gt_podresources_soon(client);
}

void gt_podresources_stats(const struct gt_podresources *client, struct gt_podresources_stats *ret)
{
    *ret = client->stats;
}

void gt_podresources_free(struct gt_podresources *client)
{
    if (!client)
        return;
    gt_loop_call_cancel(&client->call);
    gt_source_free(client->timer);
    gt_rpc_free(client->rpc);
    gt_mailbox_free(client->mailbox);
    free(client);
}
