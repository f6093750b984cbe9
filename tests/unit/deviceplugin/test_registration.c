/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "deviceplugin/answers.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/listener.h"
#include "deviceplugin/podresources_call.h"
#include "deviceplugin/registration.h"

/* The registration with doubles of everything that it uses: the test advances the time and gives the answers.
 */

struct gt_source {
    gt_timer_callback *callback;
    void *arg;
    bool armed;
};

struct gt_rpc_call {
    gt_rpc_done *done; /* NULL: none runs */
    void *arg;
};

enum { LETTERS = 8 };

static struct {
    struct gt_source timer;
    void *owner;                          /* of the mailbox */
    const struct gt_rpc_service *service; /* as it is served */
    struct gt_message *messages[LETTERS];
    unsigned message_count;

    bool other;       /* another plugin's socket is in the directory */
    bool late;        /* the answer comes just when it is given up */
    unsigned offered; /* devices of the resource that the kubelet has */
    unsigned listed;  /* how many of them the other plugin lists */
    bool others_late; /* the other plugin does not answer */
    gt_other_plugins_result *on_result;
    void *result_arg;
    unsigned others_queried;
    bool lacks; /* ours are not among them */
    bool cannot_listen;

    char path[128]; /* of our socket */
    struct gt_rpc_call ask, reg;
    unsigned asks, registers;

    unsigned registered, failures, pause;
    char why[1024];
} w;

int gt_loop_add_timer(struct gt_loop *loop, gt_timer_callback *callback, void *arg, struct gt_source **ret,
                      struct gt_err **err)
{
    (void)loop;
    (void)err;
    w.timer = (struct gt_source){callback, arg, false};
    *ret = &w.timer;
    return 0;
}

void gt_source_arm(struct gt_source *source, uint64_t milliseconds)
{
    (void)milliseconds;
    source->armed = true;
}

void gt_source_disarm(struct gt_source *source)
{
    source->armed = false;
}

void gt_source_free(struct gt_source *source)
{
    (void)source;
}

bool gt_mailbox_send(struct gt_mailbox *mailbox, struct gt_message *mailbox_message)
{
    (void)mailbox;
    assert_true(w.message_count < LETTERS);
    w.messages[w.message_count++] = mailbox_message;
    return true;
}

int gt_mailbox_new(struct gt_loop *loop, void *owner, struct gt_mailbox **ret, struct gt_err **err)
{
    (void)loop;
    (void)err;
    w.owner = owner;
    *ret = NULL;
    return 0;
}

void gt_mailbox_free(struct gt_mailbox *mailbox)
{
    (void)mailbox;
}

int gt_rpc_new(struct gt_rpc **ret, struct gt_err **err)
{
    (void)err;
    *ret = NULL;
    return 0;
}

void gt_rpc_free(struct gt_rpc *rpc)
{
    (void)rpc;
}

uint64_t gt_rpc_busy_ms(const struct gt_rpc *rpc)
{
    (void)rpc;
    return 0;
}

int gt_kubelet_dir_new(struct gt_loop *loop, const char *kubelet_dir, gt_kubelet_dir_changed *changed,
                       void *arg, struct gt_kubelet_dir **ret, struct gt_err **err)
{
    (void)loop;
    (void)kubelet_dir;
    (void)changed;
    (void)arg;
    (void)err;
    *ret = NULL;
    return 0;
}

void gt_kubelet_dir_free(struct gt_kubelet_dir *dir)
{
    (void)dir;
}

const char *gt_kubelet_dir_path(const struct gt_kubelet_dir *dir)
{
    (void)dir;
    return "/k/device-plugins";
}

const char *gt_kubelet_dir_socket_path(const struct gt_kubelet_dir *dir)
{
    (void)dir;
    return "/k/device-plugins/kubelet.sock";
}

bool gt_kubelet_dir_socket(const struct gt_kubelet_dir *dir, struct gt_socket_id *ret)
{
    (void)dir;
    *ret = (struct gt_socket_id){1, 1, 1, 1};
    return true;
}

bool gt_socket_id_equal(const struct gt_socket_id *a, const struct gt_socket_id *b)
{
    return a->inode == b->inode;
}

void gt_kubelet_dir_clean(const struct gt_kubelet_dir *dir)
{
    (void)dir;
}

void gt_kubelet_dir_others(const struct gt_kubelet_dir *dir, gt_kubelet_dir_other *other, void *arg)
{
    (void)dir;
    if (w.other)
        other(arg, "other.sock", &(struct gt_socket_id){2, 2, 2, 2}, 1000);
}

int gt_other_plugins_new(struct gt_rpc *rpc, struct gt_mailbox *mailbox, const struct gt_kubelet_dir *dir,
                         gt_other_plugins_result *on_result, void *arg, struct gt_other_plugins **ret,
                         struct gt_err **err)
{
    static char others;
    (void)rpc;
    (void)mailbox;
    (void)dir;
    (void)err;
    w.on_result = on_result;
    w.result_arg = arg;
    *ret = (struct gt_other_plugins *)&others;
    return 0;
}

void gt_other_plugins_query(struct gt_other_plugins *others, struct gt_pod_answer *answer)
{
    (void)others;
    (void)answer;
    w.others_queried++;
    if (!w.others_late)
        w.on_result(w.result_arg, w.listed ? "other.sock" : NULL, w.listed);
}

void gt_other_plugins_cancel(struct gt_other_plugins *others)
{
    (void)others;
}

bool gt_other_plugins_unchanged(const struct gt_other_plugins *others)
{
    (void)others;
    return true;
}

void gt_other_plugins_free(struct gt_other_plugins *others)
{
    (void)others;
}

int gt_listener_new(struct gt_loop *loop, const char *path, gt_accepted *accepted, void *arg,
                    struct gt_listener **ret, struct gt_err **err)
{
    (void)loop;
    (void)accepted;
    (void)arg;
    snprintf(w.path, sizeof(w.path), "%s", path);
    if (w.cannot_listen)
        return gt_fail(err, EADDRINUSE, "%s: create the socket: %s is taken", path, path);
    *ret = NULL;
    return 0;
}

bool gt_listener_in_place(const struct gt_listener *listener)
{
    (void)listener;
    return true;
}

void gt_listener_free(struct gt_listener *listener)
{
    (void)listener;
}

int gt_unix_connect(const char *path, struct gt_err **err)
{
    (void)path;
    (void)err;
    return 1000;
}

int gt_rpc_server_new(struct gt_rpc *rpc, const struct gt_rpc_service *service, struct gt_rpc_server **ret,
                      struct gt_err **err)
{
    (void)rpc;
    (void)err;
    w.service = service;
    *ret = NULL;
    return 0;
}

void gt_rpc_server_add(struct gt_rpc_server *server, int fd)
{
    (void)server;
    (void)fd;
}

void gt_rpc_server_changed(struct gt_rpc_server *server)
{
    (void)server;
}

void gt_rpc_server_free(struct gt_rpc_server *server)
{
    (void)server;
}

const char *gt_rpc_status_name(int status)
{
    return status ? "UNAVAILABLE" : "OK";
}

int gt_rpc_call_new(struct gt_rpc *rpc, int fd, const struct gt_rpc_ask *ask, struct gt_rpc_call **ret,
                    struct gt_err **err)
{
    (void)rpc;
    (void)fd;
    (void)err;
    w.reg = (struct gt_rpc_call){ask->done, ask->arg};
    w.registers++;
    *ret = &w.reg;
    return 0;
}

int gt_pod_call_new(struct gt_rpc *rpc, const char *kubelet_dir, enum gt_pod_method method,
                    const struct gt_pod_ask *ask, struct gt_rpc_call **ret, struct gt_err **err)
{
    (void)rpc;
    (void)kubelet_dir;
    (void)err;
    assert_int_equal(method, GT_POD_ALLOCATABLE);
    w.ask = (struct gt_rpc_call){ask->done, ask->arg};
    w.asks++;
    *ret = &w.ask;
    return 0;
}

static void answer(struct gt_rpc_call *call, int status, const char *message)
{
    gt_rpc_done *done = call->done;
    assert_non_null(done);
    call->done = NULL;
    done(call->arg, status, message, NULL, 0);
}

void gt_rpc_call_free(struct gt_rpc_call *call)
{
    if (call && call->done && call == &w.ask && w.late)
        answer(call, GT_RPC_DEADLINE_EXCEEDED, "");
    if (call)
        call->done = NULL;
}

int gt_pod_answer_read(enum gt_pod_method method, const uint8_t *bytes, size_t len,
                       const struct gt_pod_wanted *wanted, struct gt_pod_answer *ret, struct gt_err **err)
{
    (void)method;
    (void)bytes;
    (void)len;
    (void)wanted;
    (void)err;
    *ret = (struct gt_pod_answer){.uses.count = w.offered};
    return 0;
}

void gt_pod_answer_done(struct gt_pod_answer *answer_)
{
    (void)answer_;
}

static void on_registered(void *arg)
{
    (void)arg;
    w.registered++;
}

static void on_failed(void *arg, const char *why, unsigned retry_ms)
{
    (void)arg;
    w.failures++;
    w.pause = retry_ms;
    snprintf(w.why, sizeof(w.why), "%s", why);
}

static bool on_lacks(void *arg, const struct gt_device_uses *uses)
{
    (void)arg;
    (void)uses;
    return w.lacks;
}

static void deliver(void)
{
    for (unsigned i = 0; i < w.message_count; i++) {
        w.messages[i]->deliver(w.owner, w.messages[i]);
        free(w.messages[i]);
    }
    w.message_count = 0;
}

/* Until the timer goes off. */
static void pass(void)
{
    assert_true(w.timer.armed);
    w.timer.armed = false;
    w.timer.callback(w.timer.arg);
}

static int set_up(void **state)
{
    static const struct gt_rpc_service service = {0};
    const struct gt_registration_options options = {.kubelet_dir = "/k",
                                                    .resource = "metax-tech.com/gpu",
                                                    .register_timeout_ms = 1,
                                                    .stream_timeout_ms = 1,
                                                    .lacks = on_lacks};
    const struct gt_registration_events events = {.registered = on_registered, .failed = on_failed};
    struct gt_registration *registration = NULL;
    memset(&w, 0, sizeof(w));
    assert_int_equal(gt_registration_new(NULL, &service, &options, &events, &registration, NULL), 0);
    *state = registration;
    return 0;
}

static bool is_streaming(const struct gt_registration *registration)
{
    struct gt_registration_stats stats;
    gt_registration_stats(registration, &stats);
    return stats.streaming;
}

static int tear_down(void **state)
{
    gt_registration_free(*state);
    deliver();
    return 0;
}

static void dials(int connection, unsigned call)
{
    w.service->begun(w.service->watcher, &(struct gt_rpc_method){.path = GT_PATH_OPTIONS},
                     &(struct gt_rpc_caller){connection, call});
}

static void streams(int connection, unsigned call)
{
    w.service->begun(w.service->watcher, &(struct gt_rpc_method){.path = GT_PATH_LIST, .streams = true},
                     &(struct gt_rpc_caller){connection, call});
}

static void ends(int connection, unsigned call)
{
    w.service->ended(w.service->watcher, &(struct gt_rpc_caller){connection, call});
}

static void accept_and_stream(void)
{
    dials(7, 1);
    answer(&w.reg, GT_RPC_OK, "");
    streams(7, 2);
    deliver();
}

/* The query to the kubelet, whether another plugin serves the resource, is given up while its answer arrives.
 */
static void a_late_answer(void **state)
{
    w.other = w.late = true;
    gt_registration_start(*state);
    assert_int_equal(w.asks, 1);
    pass();
    assert_int_equal(w.registers, 1);
    deliver();
    assert_non_null(w.reg.done); /* Register goes on */
    accept_and_stream();
    assert_int_equal(w.registered, 1);
    assert_int_equal(w.failures, 0);
}

/* Pauses grow while it fails; once the kubelet has our devices they begin again. */
static void what_was_is_forgiven(void **state)
{
    w.other = true;
    w.offered = w.listed = 3;
    gt_registration_start(*state);
    for (unsigned i = 0; i < 8; i++) {
        answer(&w.ask, GT_RPC_OK, "");
        deliver();
        pass();
    }
    assert_int_equal(w.failures, 8);
    assert_true(w.pause > 1000);
    w.offered = 0;
    answer(&w.ask, GT_RPC_OK, "");
    deliver();
    accept_and_stream();
    assert_int_equal(w.registered, 1);
    for (unsigned i = 0; i < 3; i++) { /* looks: well, lost, lost again */
        w.lacks = i > 0;
        pass();
        answer(&w.ask, GT_RPC_OK, "");
        deliver();
    }
    assert_int_equal(w.failures, 9);
    assert_non_null(strstr(w.why, "lost our devices"));
    assert_in_range(w.pause, 50, 100);
}

/* Our socket has another name in each attempt, but the text of the failure is the same each time. */
static void the_reason_is_the_same(void **state)
{
    char first[2][sizeof(w.why)], path[sizeof(w.path)] = "";
    gt_registration_start(*state);
    for (unsigned i = 0; i < 24; i++) {
        char *kept = first[w.cannot_listen];
        if (!w.cannot_listen) {
            char message[256];
            snprintf(message, sizeof(message), "failed to dial %s, twice: %s", w.path, w.path);
            answer(&w.reg, GT_RPC_UNAVAILABLE, message);
            deliver();
        }
        assert_int_equal(w.failures, i + 1);
        assert_string_not_equal(w.path, path);
        snprintf(path, sizeof(path), "%s", w.path);
        if (i < 2)
            memcpy(kept, w.why, sizeof(w.why));
        assert_string_equal(w.why, kept);
        w.cannot_listen = i % 2 == 0;
        pass();
    }
    assert_non_null(strstr(first[0], "failed to dial /k/device-plugins/gputopo-"));
    assert_non_null(strstr(first[1], "create the socket"));
}

/* Streams of others come and go, before and after; the end of the kubelet's is the one that counts. */
static void whose_stream_it_is(void **state)
{
    gt_registration_start(*state);
    streams(3, 1);
    streams(4, 2);
    dials(7, 3);
    ends(3, 1);
    deliver();
    answer(&w.reg, GT_RPC_OK, "");
    deliver();
    assert_int_equal(w.registered, 1);
    assert_int_equal(is_streaming(*state), 0); /* the kubelet's is still to come */
    dials(4, 4);                               /* too late: nobody's Register is under way */
    streams(4, 5);
    deliver();
    assert_int_equal(is_streaming(*state), 0);
    streams(7, 6);
    deliver();
    assert_int_equal(is_streaming(*state), 1);
    ends(4, 5);
    ends(4, 2);
    deliver();
    assert_int_equal(w.registers, 1);
    streams(4, 7);
    ends(7, 6);
    deliver();
    assert_int_equal(is_streaming(*state), 0);
    assert_int_equal(w.registers, 2);
}

/* A kubelet that asks for no options, or over another connection: the first stream is taken for its own. */
static void a_kubelet_that_does_not_dial_back(void **state)
{
    for (int connection = -1; connection < 1; connection++) {
        gt_registration_start(*state);
        if (connection < 0) /* before Register is done, the first time */
            streams(connection, 1);
        answer(&w.reg, GT_RPC_OK, "");
        deliver();
        if (connection >= 0)
            streams(connection, 1);
        streams(5, 2);
        ends(5, 2);
        deliver();
        assert_int_equal(is_streaming(*state), 1);
        assert_int_equal(w.registers, connection + 2);
        ends(connection, 1);
        deliver();
        assert_int_equal(is_streaming(*state), 0);
    }
}

/* The kubelet offers devices that the other plugin does not serve, or does not say that it does. */
static void devices_that_nobody_serves(void **state)
{
    for (unsigned i = 0; i < 2; i++) {
        w.other = true;
        w.offered = 8;
        w.others_late = i == 1;
        gt_registration_start(*state);
        answer(&w.ask, GT_RPC_OK, "");
        deliver();
        assert_int_equal(w.others_queried, i + 1);
        if (w.others_late)
            pass();
        accept_and_stream();
        assert_int_equal(w.registered, i + 1);
        assert_int_equal(w.failures, 0);
        ends(7, 2);
        deliver(); /* and the next attempt begins */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_late_answer, set_up, tear_down),
        cmocka_unit_test_setup_teardown(what_was_is_forgiven, set_up, tear_down),
        cmocka_unit_test_setup_teardown(devices_that_nobody_serves, set_up, tear_down),
        cmocka_unit_test_setup_teardown(whose_stream_it_is, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_kubelet_that_does_not_dial_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_reason_is_the_same, set_up, tear_down),
    };
    return cmocka_run_group_tests_name("registration", tests, NULL, NULL);
}
