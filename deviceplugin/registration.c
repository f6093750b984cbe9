/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/registration.h"

#include <string.h>

#include "base/backoff.h"
#include "base/clock.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/listener.h"
#include "deviceplugin/podresources_call.h"

enum {
    PAUSE_FIRST_MS = 100,
    PAUSE_MAX_MS = 30000,
    STEADY_MS = 10000, /* a stream that was open this long was no failure */
    OWN_SOCKET_MS = 1000,
    OTHER_ENDED_MS = 500,
    REGISTER_REQUEST_MAX = 4096,
    QUERY_MS = 2000, /* to ask the kubelet for the devices of the resource that it offers */
    REGISTER_TIMEOUT_MS = 20000,
    STREAM_TIMEOUT_MS = 10000,
    CHECK_MS = 30000,
    CHECK_AGAIN_MS = 3000, /* it may not have received our last list yet */
    LACKING_MAX = 2,       /* checks in a row */
    WHY_MAX = 512,
    REASON_MAX = 2048,
};

enum registration_state {
    STOPPED,     /* nothing to serve yet */
    WAITING,     /* for kubelet.sock */
    PAUSING,     /* after a failure */
    QUERYING,    /* asks whether another plugin serves the resource */
    REGISTERING, /* Register is under way */
    REGISTERED,
};

/*
 * Which ListAndWatch is the kubelet's: other programs may call the plugin, too. It is the one on a connection
 * that called GetDevicePluginOptions during Register, since the kubelet connects back during that call. If no
 * connection did, it is the first ListAndWatch that is open when Register is done.
 */
enum { DIALLED_MAX = 4 };

struct callers {
    int dialled[DIALLED_MAX]; /* connections that called GetDevicePluginOptions during Register */
    unsigned dialled_count;
    unsigned stream; /* the kubelet's ListAndWatch, 0: none */
    unsigned early;  /* one that began before Register was done and may be the kubelet's, 0: none */
};

struct gt_registration {
    struct gt_loop *loop;
    struct gt_rpc *rpc;
    struct gt_mailbox *mailbox;
    struct gt_rpc_service service;
    struct gt_registration_options options;
    struct gt_registration_events events;
    struct gt_registration_stats stats;
    struct gt_kubelet_dir *dir;
    struct gt_source *timer; /* ends a pause, or the waiting for an answer or for ListAndWatch */

    enum registration_state state;
    unsigned failures;
    struct gt_jitter jitter;
    struct gt_other_plugins *others;
    unsigned lacking; /* checks in a row that missed devices of ours */
    struct callers callers;
    struct {
        struct gt_socket_id kubelet; /* the kubelet's socket */
        bool held_back;              /* it ended because another plugin serves the resource */
        uint64_t at, stream_at;
        bool stream_lost;  /* one was there and ended */
        unsigned epoch;    /* changed only while no server and no call are there */
        char endpoint[96]; /* the name of our socket, another one with each attempt */
    } attempt;             /* the last one */
    uint32_t instance;
    struct gt_listener *listener;
    struct gt_rpc_server *server;
    struct {
        struct gt_loop_call options;   /* what the kubelet offers */
        struct gt_loop_call registers; /* Register */
    } calls;                           /* at most one of them runs */
};

struct caller_message {
    struct gt_message mailbox_message;
    unsigned epoch;
    enum { DIALLED, STREAMS, GONE } event;
    struct gt_rpc_caller caller;
};

/* ---- what is told to the plugin ---- */

static void tell_registered(struct gt_registration *registration)
{
    registration->stats.registered = true;
    registration->stats.registrations++;
    if (registration->events.registered)
        registration->events.registered(registration->events.arg);
}

static void tell_failed(struct gt_registration *registration, const char *why, unsigned retry_ms)
{
    registration->stats.registered = false;
    registration->stats.registration_failures++;
    if (registration->events.failed)
        registration->events.failed(registration->events.arg, why, retry_ms);
}

static void tell_stream_ended(struct gt_registration *registration)
{
    registration->stats.registered = registration->stats.streaming = false;
    if (registration->events.stream_ended)
        registration->events.stream_ended(registration->events.arg);
}

/* ---- an attempt ---- */

static void end_attempt(struct gt_registration *registration)
{
    gt_source_disarm(registration->timer);
    gt_other_plugins_cancel(registration->others);
    gt_loop_call_cancel(&registration->calls.options);
    gt_loop_call_cancel(&registration->calls.registers);
    gt_listener_free(registration->listener);
    registration->listener = NULL;
    gt_rpc_server_free(registration->server);
    registration->server = NULL;
    registration->attempt.epoch++; /* messages that these have sent are out of date now */
    registration->attempt.stream_lost = false;
    registration->lacking = 0;
    bool streaming = registration->callers.stream;
    registration->callers = (struct callers){0};
    if (streaming)
        tell_stream_ended(registration);
}

/* Replaces the name of our socket, which changes with each attempt, so that equal failures have equal texts.
 */
static void registration_add_why(const struct gt_registration *registration, const char *why,
                                 struct gt_buf *to)
{
    const char *name = registration->attempt.endpoint, *at;
    for (; *name && (at = strstr(why, name)); why = at + strlen(name)) {
        gt_buf_add(to, why, (size_t)(at - why));
        gt_buf_puts(to, GT_SOCKET_PREFIX "*.sock");
    }
    gt_buf_puts(to, why);
}

static void retry_later(struct gt_registration *registration, const char *why)
{
    gt_auto_buf struct gt_buf reason = GT_BUF(REASON_MAX);
    end_attempt(registration);
    unsigned pause = (unsigned)gt_backoff_pause(registration->failures++, PAUSE_FIRST_MS, PAUSE_MAX_MS,
                                                &registration->jitter);
    registration->state = PAUSING;
    gt_source_arm(registration->timer, pause);
    registration_add_why(registration, why, &reason);
    tell_failed(registration, reason.data && !reason.failed ? reason.data : why, pause);
}

static void registration_on_stream(struct gt_registration *registration)
{
    registration->attempt.stream_at = gt_clock_ms();
    registration->attempt.stream_lost = false;
    registration->stats.streaming = true;
    if (registration->state == REGISTERED)
        gt_source_arm(registration->timer, registration->options.check_ms);
}

/* The kubelet has answered Register. */
static void registration_on_done(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct gt_registration *registration = arg;
    (void)reply, (void)len;
    if (status != GT_RPC_OK) {
        char why[WHY_MAX + 128];
        snprintf(why, sizeof(why), "the kubelet refuses %s: %s: %s", registration->options.resource,
                 gt_rpc_status_name(status), message);
        retry_later(registration, why);
        return;
    }
    registration->state = REGISTERED;
    if (registration->attempt.stream_lost) {
        retry_later(registration, "the kubelet ended ListAndWatch at once");
        return;
    }
    struct callers *callers = &registration->callers;
    if (callers->early && !callers->stream && !callers->dialled_count) {
        callers->stream = callers->early;
        registration_on_stream(registration);
    }
    gt_source_arm(registration->timer, registration->callers.stream
                                           ? registration->options.check_ms
                                           : registration->options.stream_timeout_ms);
    tell_registered(registration);
}

static void registration_on_accepted(void *arg, int fd)
{
    struct gt_registration *registration = arg;
    gt_rpc_server_add(registration->server, fd);
}

/* Serves on a socket that no other instance, and no earlier attempt of this one, ever had: the kubelet
 * distinguishes plugins by it. */
static int registration_serve(struct gt_registration *registration, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(4096);
    snprintf(registration->attempt.endpoint, sizeof(registration->attempt.endpoint),
             GT_SOCKET_PREFIX "%d-%08x-%u.sock", (int)getpid(), registration->instance,
             registration->attempt.epoch);
    gt_buf_printf(&path, "%s/%s", gt_kubelet_dir_path(registration->dir), registration->attempt.endpoint);
    GT_TRY(gt_buf_check(&path, "socket path", err));
    GT_TRY(gt_rpc_server_new(registration->rpc, &registration->service, &registration->server, err));
    return gt_listener_new(registration->loop, path.data, registration_on_accepted, registration,
                           &registration->listener, err);
}

static int call_register(struct gt_registration *registration, const char *endpoint, struct gt_err **err)
{
    gt_auto_buf struct gt_buf request = GT_BUF(REGISTER_REQUEST_MAX);
    gt_answer_register(endpoint, registration->options.resource, registration->options.prefers, &request);
    GT_TRY(gt_buf_check(&request, "Register", err));
    int fd = gt_unix_connect(gt_kubelet_dir_socket_path(registration->dir), err);
    if (fd < 0)
        return fd;
    const struct gt_rpc_ask ask = {GT_PATH_REGISTER,
                                   request.data,
                                   request.len,
                                   registration->options.register_timeout_ms,
                                   false,
                                   gt_loop_call_done,
                                   &registration->calls.registers};
    return gt_rpc_call_new(registration->rpc, fd, &ask, &registration->calls.registers.call, err);
}

static void register_now(struct gt_registration *registration)
{
    gt_other_plugins_cancel(registration->others);
    gt_loop_call_cancel(&registration->calls.options);
    gt_auto_err struct gt_err *err = NULL;
    registration->state = REGISTERING;
    int r = registration_serve(registration, &err);
    if (r == 0)
        r = call_register(registration, registration->attempt.endpoint, &err);
    if (r < 0) {
        retry_later(registration, gt_err_text(err));
        return;
    }
    /* gRPC watches the deadline; the timer is for a message that gets lost. */
    gt_source_arm(registration->timer, registration->options.register_timeout_ms + 1000ULL);
}

/* ---- other plugins: with two of one resource the kubelet mixes their devices ---- */

static void on_other_plugin(void *arg, const char *name, unsigned count)
{
    struct gt_registration *registration = arg;
    char why[WHY_MAX];
    if (registration->state != QUERYING)
        return;
    if (!name) {
        register_now(registration);
        return;
    }
    snprintf(why, sizeof(why), "another device plugin serves %u devices of %s, that of %.200s in %.100s",
             count, registration->options.resource, name, gt_kubelet_dir_path(registration->dir));
    retry_later(registration, why);
    registration->attempt.held_back = true;
}

static void registration_check(struct gt_registration *registration, const struct gt_device_uses *uses)
{
    bool was_lost = registration->lacking >= LACKING_MAX;
    char why[WHY_MAX];
    gt_source_arm(registration->timer, registration->options.check_ms);
    if (!registration->options.lacks(registration->service.arg, uses)) {
        registration->lacking = registration->failures = 0; /* ours are all there */
        if (was_lost)
            tell_registered(registration);
    } else if (++registration->lacking < LACKING_MAX) {
        gt_source_arm(registration->timer, CHECK_AGAIN_MS);
    } else if (!uses->count) {
        retry_later(registration, "the kubelet has lost our devices without ending ListAndWatch");
    } else if (!was_lost) {
        /* If we ended our stream, the kubelet would drop the other plugin's devices too. */
        snprintf(why, sizeof(why),
                 "another device plugin has taken over %s: the kubelet has %u devices of it",
                 registration->options.resource, uses->count);
        tell_failed(registration, why, registration->options.check_ms);
    }
}

static void on_offer(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct gt_registration *registration = arg;
    struct gt_pod_answer answer = {0};
    const struct gt_pod_wanted wanted = {.resource = registration->options.resource};
    (void)message;
    bool known = status == GT_RPC_OK &&
                 gt_pod_answer_read(GT_POD_ALLOCATABLE, reply, len, &wanted, &answer, NULL) == 0;
    if (registration->state == QUERYING && answer.uses.count) {
        /* Healthy devices that are not ours: those of another plugin, or of one that has ended. */
        gt_source_arm(registration->timer, GT_OTHER_PLUGINS_MS + 1000ULL);
        gt_other_plugins_query(registration->others, &answer);
    } else if (registration->state == QUERYING)
        register_now(registration); /* if the kubelet does not answer, register anyway */
    else if (known)
        registration_check(registration, &answer.uses);
    else
        gt_source_arm(registration->timer, registration->options.check_ms);
    if (known)
        gt_pod_answer_done(&answer);
}

/* Asks the kubelet what it offers of the resource; false: it cannot be asked. */
static bool registration_query(struct gt_registration *registration)
{
    const struct gt_pod_ask ask = {QUERY_MS, gt_loop_call_done, &registration->calls.options};
    if (gt_pod_call_new(registration->rpc, registration->options.kubelet_dir, GT_POD_ALLOCATABLE, &ask,
                        &registration->calls.options.call, NULL) < 0)
        return false;
    gt_source_arm(registration->timer, QUERY_MS + 1000ULL); /* in case its message gets lost */
    return true;
}

static bool registration_on_other(void *arg, const char *name, const struct gt_socket_id *id, int fd)
{
    bool *any = arg;
    (void)name, (void)id;
    close(fd);
    *any = true;
    return false;
}

static bool has_others(const struct gt_registration *registration)
{
    bool any = false;
    gt_kubelet_dir_others(registration->dir, registration_on_other, &any);
    return any;
}

static void registration_attempt(struct gt_registration *registration)
{
    end_attempt(registration);
    gt_kubelet_dir_clean(registration->dir);
    registration->attempt.at = gt_clock_ms();
    registration->attempt.held_back = false;
    if (!gt_kubelet_dir_socket(registration->dir, &registration->attempt.kubelet)) {
        registration->state = WAITING;
        return;
    }
    if (has_others(registration) && registration_query(registration))
        registration->state = QUERYING;
    else
        register_now(registration);
}

static void registration_on_timer(void *arg)
{
    struct gt_registration *registration = arg;
    bool queried = registration->calls.options.call;
    gt_loop_call_cancel(&registration->calls.options);
    if (registration->state == PAUSING)
        registration_attempt(registration);
    else if (registration->state == QUERYING)
        register_now(registration);
    else if (registration->state == REGISTERING)
        retry_later(registration, "the kubelet does not answer Register");
    else if (registration->state == REGISTERED && !registration->callers.stream)
        retry_later(registration, "the kubelet accepted Register, but did not open ListAndWatch");
    else if (registration->state == REGISTERED && (queried || !registration_query(registration)))
        gt_source_arm(registration->timer, registration->options.check_ms);
}

static void on_dir_changed(void *arg)
{
    struct gt_registration *registration = arg;
    struct gt_socket_id now;
    if (registration->state == STOPPED || !gt_kubelet_dir_socket(registration->dir, &now))
        return;
    if (registration->state == WAITING || !gt_socket_id_equal(&now, &registration->attempt.kubelet)) {
        registration->failures = 0;
        registration_attempt(registration);
    } else if (registration->attempt.held_back && !gt_other_plugins_unchanged(registration->others)) {
        /* Not at once: if the kubelet sees our socket and the end of the other plugin's connection at the
         * same moment, it forgets our connection, and does not notice when we end. */
        registration->attempt.held_back = false;
        gt_source_arm(registration->timer, OTHER_ENDED_MS);
    } else if (registration->listener && !gt_listener_in_place(registration->listener)) {
        if (gt_clock_ms() - registration->attempt.at < OWN_SOCKET_MS)
            retry_later(registration, "our socket was removed");
        else
            registration_attempt(registration);
    }
}

/* The first time at once, since until then the kubelet rejects pods that want GPUs. Then with a pause, in
 * case another instance registers each time we do. */
static void register_again(struct gt_registration *registration)
{
    if (registration->failures == 0) {
        registration->failures = 1;
        registration_attempt(registration);
    } else
        retry_later(registration, "the kubelet ended ListAndWatch early");
}

static void lose_stream(struct gt_registration *registration)
{
    tell_stream_ended(registration);
    if (registration->state == REGISTERING) {
        registration->attempt.stream_lost =
            true; /* the answer to Register decides whether this is a failure */
        return;
    }
    if (gt_clock_ms() - registration->attempt.stream_at >= STEADY_MS)
        registration->failures = 0;
    register_again(registration);
}

/* A ListAndWatch has begun; true: it is the kubelet's, which had none before. */
static bool callers_opened(struct callers *callers, const struct gt_rpc_caller *caller, bool is_registered)
{
    bool is_kubelets = is_registered;
    for (unsigned i = 0; i < callers->dialled_count; i++) {
        is_kubelets = callers->dialled[i] == caller->connection;
        if (is_kubelets)
            break;
    }
    if (callers->stream)
        return false;
    if (is_kubelets)
        callers->stream = caller->call;
    else if (!callers->early)
        callers->early = caller->call;
    return is_kubelets;
}

static void deliver_caller(void *owner, struct gt_message *mailbox_message)
{
    const struct caller_message *report = (const struct caller_message *)mailbox_message;
    const struct gt_rpc_caller *caller = &report->caller;
    struct gt_registration *registration = owner;
    struct callers *callers = &registration->callers;
    if (report->epoch != registration->attempt.epoch)
        return;
    if (report->event == STREAMS) {
        if (callers_opened(callers, caller, registration->state == REGISTERED))
            registration_on_stream(registration);
    } else if (report->event == GONE) {
        callers->early = caller->call == callers->early ? 0 : callers->early;
        if (caller->call == callers->stream) {
            callers->stream = 0;
            lose_stream(registration);
        }
    } else if (registration->state == REGISTERING && callers->dialled_count < DIALLED_MAX &&
               caller->connection >= 0)
        callers->dialled[callers->dialled_count++] = caller->connection;
}

static void report_caller(struct gt_registration *registration, int event, const struct gt_rpc_caller *caller)
{
    struct caller_message *mailbox_message = calloc(1, sizeof(*mailbox_message));
    if (!mailbox_message)
        return;
    mailbox_message->mailbox_message.deliver = deliver_caller;
    mailbox_message->epoch = registration->attempt.epoch;
    mailbox_message->event = event;
    mailbox_message->caller = *caller;
    gt_mailbox_send(registration->mailbox, &mailbox_message->mailbox_message);
}

/* These two on gRPC's thread. */
static void registration_on_begun(void *arg, const struct gt_rpc_method *method,
                                  const struct gt_rpc_caller *caller)
{
    struct gt_registration *registration = arg;
    if (method->streams)
        report_caller(registration, STREAMS, caller);
    else if (strcmp(method->path, GT_PATH_OPTIONS) == 0)
        report_caller(registration, DIALLED, caller);
}

static void registration_on_ended(void *arg, const struct gt_rpc_caller *caller)
{
    report_caller(arg, GONE, caller);
}

int gt_registration_new(struct gt_loop *loop, const struct gt_rpc_service *service,
                        const struct gt_registration_options *options,
                        const struct gt_registration_events *events, struct gt_registration **ret,
                        struct gt_err **err)
{
    GT_CLEANUP(gt_registration_free) struct gt_registration *registration = calloc(1, sizeof(*registration));
    GT_NEED(registration, err, "registration");
    *registration = (struct gt_registration){
        .loop = loop, .service = *service, .options = *options, .events = *events, .state = STOPPED};
    registration->service.begun = registration_on_begun;
    registration->service.ended = registration_on_ended;
    registration->service.watcher = registration;
    GT_TRY(gt_mailbox_new(loop, registration, &registration->mailbox, err));
    GT_TRY(gt_rpc_new(&registration->rpc, err));
    registration->calls.options =
        (struct gt_loop_call){.mailbox = registration->mailbox, .done = on_offer, .arg = registration};
    registration->calls.registers = (struct gt_loop_call){
        .mailbox = registration->mailbox, .done = registration_on_done, .arg = registration};
    gt_jitter_seed(&registration->jitter);
    registration->instance = (uint32_t)gt_jitter_below(&registration->jitter, UINT32_MAX);
    if (!options->check_ms)
        registration->options.check_ms = CHECK_MS;
    if (!options->register_timeout_ms)
        registration->options.register_timeout_ms = REGISTER_TIMEOUT_MS;
    if (!options->stream_timeout_ms)
        registration->options.stream_timeout_ms = STREAM_TIMEOUT_MS;
    GT_TRY(gt_loop_add_timer(loop, registration_on_timer, registration, &registration->timer, err));
    GT_TRY(gt_kubelet_dir_new(loop, options->kubelet_dir, on_dir_changed, registration, &registration->dir,
                              err));
    GT_TRY(gt_other_plugins_new(registration->rpc, registration->mailbox, registration->dir, on_other_plugin,
                                registration, &registration->others, err));
    *ret = gt_steal(registration);
    return 0;
}

void gt_registration_start(struct gt_registration *registration)
{
    if (registration->state == STOPPED)
        registration_attempt(registration);
}

void gt_registration_changed(struct gt_registration *registration)
{
    if (registration->server)
        gt_rpc_server_changed(registration->server);
}

void gt_registration_stats(const struct gt_registration *registration, struct gt_registration_stats *ret)
{
    *ret = registration->stats;
}

struct gt_mailbox *gt_registration_mailbox(const struct gt_registration *registration)
{
    return registration->mailbox;
}

uint64_t gt_registration_busy_ms(const struct gt_registration *registration)
{
    return gt_rpc_busy_ms(registration->rpc);
}

void gt_registration_free(struct gt_registration *registration)
{
    if (!registration)
        return;
    registration->events = (struct gt_registration_events){0};
    if (registration->others)
        end_attempt(registration);
    gt_other_plugins_free(registration->others);
    gt_rpc_free(registration->rpc);
    gt_mailbox_free(registration->mailbox);
    gt_kubelet_dir_free(registration->dir);
    gt_source_free(registration->timer);
    free(registration);
}
