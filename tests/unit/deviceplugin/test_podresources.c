/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/mailbox.h"
#include "deviceplugin/listener.h"
#include "deviceplugin/podresources_call.h"
#include "machine.h"
#include "proto/podresources.pb-c.h"

/* A kubelet with one pod "web" in "prod": container "c0" holds GPU-0 and GPU-3, and another resource's
 * device. */

static uint8_t answer[1 << 20];

static size_t pack_pod(enum gt_pod_method method, unsigned extra)
{
    char *gpus[] = {(char[]){"GPU-0"}, (char[]){"GPU-3"}}, *nics[] = {(char[]){"mlx5_0"}};
    Pr__Devices gpu, nic;
    pr__devices__init(&gpu);
    pr__devices__init(&nic);
    gpu.resource = (char[]){"metax-tech.com/gpu"};
    gpu.ids = gpus;
    gpu.n_ids = 2;
    nic.resource = (char[]){"example.com/nic"};
    nic.ids = nics;
    nic.n_ids = 1;
    Pr__Devices *devices[] = {&nic, &gpu};
    Pr__Container container, *containers[] = {&container};
    pr__container__init(&container);
    container.name = (char[]){"c0"};
    container.devices = devices;
    container.n_devices = 2;
    Pr__Pod pod, none, *pods[GT_COUNT(answer) / 1024];
    pr__pod__init(&pod);
    pr__pod__init(&none);
    pod.name = (char[]){"web"};
    pod.namespace_ = (char[]){"prod"};
    pod.containers = containers;
    pod.n_containers = 1;
    pods[0] = &pod;
    for (unsigned i = 0; i < extra; i++)
        pods[1 + i] = &none;
    Pr__ListResponse list = PR__LIST_RESPONSE__INIT;
    list.pods = pods;
    list.n_pods = 1 + extra;
    Pr__AllocatableResponse allocatable = PR__ALLOCATABLE_RESPONSE__INIT;
    allocatable.devices = devices;
    allocatable.n_devices = 2;
    return protobuf_c_message_pack(method == GT_POD_LIST ? &list.base : &allocatable.base, answer);
}

static void reads_one_resource(void **state)
{
    (void)state;
    for (enum gt_pod_method method = GT_POD_LIST; method <= GT_POD_ALLOCATABLE; method++) {
        struct gt_pod_answer read;
        size_t len = pack_pod(method, method == GT_POD_LIST ? 3 : 0);
        assert_return_code(gt_pod_answer_read(method, answer, len,
                                              &(struct gt_pod_wanted){.resource = "metax-tech.com/gpu"},
                                              &read, NULL),
                           0);
        assert_int_equal(read.uses.count, 2);
        assert_string_equal(read.uses.users[1].id, "GPU-3");
        bool named = method != GT_POD_ALLOCATABLE;
        assert_string_equal(read.uses.users[1].namespace, named ? "prod" : "");
        assert_string_equal(read.uses.users[1].pod, named ? "web" : "");
        assert_string_equal(read.uses.users[1].container, named ? "c0" : "");
        gt_pod_answer_done(&read);
        assert_return_code(gt_pod_answer_read(method, answer, len,
                                              &(struct gt_pod_wanted){.resource = "nobody/has"}, &read, NULL),
                           0);
        assert_int_equal(read.uses.count, 0);
        gt_pod_answer_done(&read);
        assert_return_code(
            gt_pod_answer_read(method, answer, 0, &(struct gt_pod_wanted){.resource = "x"}, &read, NULL), 0);
        assert_int_equal(read.uses.count, 0);
        gt_pod_answer_done(&read);
        gt_auto_err struct gt_err *err = NULL;
        assert_int_equal(gt_pod_answer_read(method, answer, len - 1, &(struct gt_pod_wanted){.resource = "x"},
                                            &read, &err),
                         -EBADMSG);
    }
}

/* Whatever bytes come, it is an answer or an error. */
static void survives_any_bytes(void **state)
{
    (void)state;
    uint64_t random = 1;
    for (unsigned round = 0; round < 20000; round++) {
        struct gt_pod_answer read;
        size_t len = pack_pod(GT_POD_LIST, round % 5);
        for (unsigned i = machine_random(&random, 4) + 1; i; i--)
            answer[machine_random(&random, (unsigned)len)] = (uint8_t)machine_random(&random, 256);
        if (gt_pod_answer_read(GT_POD_LIST, answer, len,
                               &(struct gt_pod_wanted){.resource = "metax-tech.com/gpu"}, &read, NULL) == 0)
            gt_pod_answer_done(&read);
    }
}

static void has_limits(void **state)
{
    (void)state;
    struct gt_pod_answer read;
    gt_auto_err struct gt_err *err = NULL;
    /* two bytes each: empty pods, a hundred times as large in memory */
    for (size_t i = 0; i + 1 < sizeof(answer); i += 2)
        memcpy(answer + i, "\x0a\x00", 2);
    assert_int_equal(gt_pod_answer_read(GT_POD_LIST, answer, sizeof(answer),
                                        &(struct gt_pod_wanted){.resource = "x"}, &read, &err),
                     -EBADMSG);
    /* too many holders */
    gt_auto_buf struct gt_buf devices = GT_BUF(1 << 20);
    gt_auto_err struct gt_err *many = NULL;
    gt_buf_puts(&devices, "\x0a\x01x");
    for (unsigned i = 0; i <= GT_DEVICE_USERS_MAX; i++)
        gt_buf_puts(&devices, "\x12\x01y");
    gt_auto_buf struct gt_buf whole = GT_BUF(1 << 20);
    unsigned char head[] = {0x0a, (unsigned char)(devices.len | 0x80), (unsigned char)(devices.len >> 7)};
    assert_true(devices.len < 1 << 14);
    gt_buf_add(&whole, head, sizeof(head));
    gt_buf_add(&whole, devices.data, devices.len);
    assert_int_equal(gt_pod_answer_read(GT_POD_ALLOCATABLE, (const uint8_t *)whole.data, whole.len,
                                        &(struct gt_pod_wanted){.resource = "x"}, &read, &many),
                     -E2BIG);
    /* and names that no Go program would send */
    gt_auto_err struct gt_err *bad = NULL;
    assert_int_equal(gt_pod_answer_read(GT_POD_ALLOCATABLE, (const uint8_t *)"\x0a\x06\x0a\x01x\x12\x01\xff",
                                        8, &(struct gt_pod_wanted){.resource = "x"}, &read, &bad),
                     -EINVAL);
}

/* ---- calls ---- */

struct kubelet {
    char directory[64], socket[128];
    struct gt_loop *loop;
    struct gt_rpc *rpc;
    struct gt_rpc_server *server;
    struct gt_listener *listener;
    _Atomic unsigned lists;
    _Atomic int status; /* what List answers */
    bool empty;
};

static enum gt_rpc_status handle_list(void *arg, const uint8_t *request, size_t len, struct gt_buf *reply,
                                      struct gt_err **err)
{
    struct kubelet *kubelet = arg;
    (void)request;
    assert_int_equal(len, 0);
    kubelet->lists++;
    if (kubelet->status) {
        gt_fail(err, EIO, "as the test wants");
        return (enum gt_rpc_status)kubelet->status;
    }
    if (!kubelet->empty)
        gt_buf_add(reply, answer, pack_pod(GT_POD_LIST, 0));
    return GT_RPC_OK;
}

static enum gt_rpc_status handle_allocatable(void *arg, const uint8_t *request, size_t len,
                                             struct gt_buf *reply, struct gt_err **err)
{
    (void)arg, (void)request, (void)len, (void)err;
    gt_buf_add(reply, answer, pack_pod(GT_POD_ALLOCATABLE, 0));
    return GT_RPC_OK;
}

static const struct gt_rpc_method methods[] = {
    {.path = "/v1.PodResourcesLister/List", .handler = handle_list},
    {.path = "/v1.PodResourcesLister/GetAllocatableResources", .handler = handle_allocatable},
};

static void on_accepted(void *arg, int fd)
{
    const struct kubelet *kubelet = arg;
    gt_rpc_server_add(kubelet->server, fd);
}

static void begin(struct kubelet *kubelet, bool with_server)
{
    static struct gt_rpc_service service = {.methods = methods, .count = GT_COUNT(methods)};
    memset(kubelet, 0, sizeof(*kubelet));
    snprintf(kubelet->directory, sizeof(kubelet->directory), "/tmp/gputopo-pods-XXXXXX");
    assert_non_null(mkdtemp(kubelet->directory));
    snprintf(kubelet->socket, sizeof(kubelet->socket), "%s/pod-resources", kubelet->directory);
    assert_return_code(mkdir(kubelet->socket, 0755), errno);
    snprintf(kubelet->socket, sizeof(kubelet->socket), "%s/pod-resources/kubelet.sock", kubelet->directory);
    assert_return_code(gt_loop_new(&kubelet->loop, NULL), 0);
    if (!with_server)
        return;
    service.arg = kubelet;
    assert_return_code(gt_rpc_new(&kubelet->rpc, NULL), 0);
    assert_return_code(gt_rpc_server_new(kubelet->rpc, &service, &kubelet->server, NULL), 0);
    assert_return_code(
        gt_listener_new(kubelet->loop, kubelet->socket, on_accepted, kubelet, &kubelet->listener, NULL), 0);
}

static void end(struct kubelet *kubelet)
{
    char path[128];
    gt_listener_free(kubelet->listener);
    gt_rpc_server_free(kubelet->server);
    gt_rpc_free(kubelet->rpc);
    gt_loop_free(kubelet->loop);
    snprintf(path, sizeof(path), "%s/pod-resources", kubelet->directory);
    assert_return_code(rmdir(path), errno);
    assert_return_code(rmdir(kubelet->directory), errno);
}

struct listener {
    struct gt_loop *loop;
    struct gt_podresources *client;
    unsigned listed, failed, stop_after;
    bool settling; /* at the first list */
    unsigned count, retry_ms;
    char why[256];
};

static void on_listed(void *arg, const struct gt_device_uses *uses)
{
    struct listener *to = arg;
    to->settling = to->listed ? to->settling : uses->settling;
    to->count = uses->count;
    if (++to->listed + to->failed == to->stop_after)
        gt_loop_stop(to->loop, 0);
}

static void on_failed(void *arg, const char *why, unsigned retry_ms)
{
    struct listener *to = arg;
    snprintf(to->why, sizeof(to->why), "%s", why);
    to->retry_ms = retry_ms;
    if (to->listed + ++to->failed == to->stop_after)
        gt_loop_stop(to->loop, 0);
}

static void on_too_late(void *arg)
{
    gt_loop_stop(arg, -ETIME);
}

enum { PATIENCE_MS = 60000 }; /* a busy machine is no failure */

static int run_for(struct gt_loop *loop, unsigned milliseconds)
{
    struct gt_source *timer = NULL;
    assert_return_code(gt_loop_add_timer(loop, on_too_late, loop, &timer, NULL), 0);
    gt_source_arm(timer, milliseconds);
    int r = gt_loop_run(loop, NULL);
    gt_source_free(timer);
    return r;
}

static void start(struct kubelet *kubelet, struct listener *to, unsigned stop_after)
{
    const struct gt_podresources_options options = {.kubelet_dir = kubelet->directory,
                                                    .resource = "metax-tech.com/gpu",
                                                    .poll_ms = 50,
                                                    .settle_quiet_ms = 20,
                                                    .timeout_ms = PATIENCE_MS};
    *to = (struct listener){.loop = kubelet->loop, .stop_after = stop_after};
    const struct gt_podresources_events events = {.listed = on_listed, .failed = on_failed, .arg = to};
    assert_return_code(gt_podresources_new(kubelet->loop, &options, &events, &to->client, NULL), 0);
}

static void asks_again_and_again(void **state)
{
    struct kubelet kubelet;
    struct listener to;
    (void)state;
    begin(&kubelet, true);
    start(&kubelet, &to, 20);
    assert_int_equal(run_for(kubelet.loop, PATIENCE_MS), 0);
    assert_int_equal(to.listed, 20);
    assert_int_equal(to.count, 2);
    assert_true(to.settling); /* its socket is new */
    struct gt_podresources_stats stats;
    gt_podresources_stats(to.client, &stats);
    assert_int_equal(stats.done, 20);
    gt_podresources_free(to.client);
    end(&kubelet);
}

static void no_socket_costs_a_pause(void **state)
{
    struct kubelet kubelet;
    struct listener to;
    (void)state;
    begin(&kubelet, false);
    start(&kubelet, &to, 2);
    assert_int_equal(run_for(kubelet.loop, PATIENCE_MS), 0);
    assert_int_equal(to.failed, 2);
    assert_non_null(strstr(to.why, "pod-resources/kubelet.sock"));
    assert_in_range(to.retry_ms, 1500, 2000);
    gt_podresources_free(to.client);
    end(&kubelet);
}

static void a_limit_is_respected(void **state)
{
    struct kubelet kubelet;
    struct listener to;
    (void)state;
    begin(&kubelet, true);
    kubelet.status = GT_RPC_RESOURCE_EXHAUSTED;
    start(&kubelet, &to, 1);
    assert_int_equal(run_for(kubelet.loop, PATIENCE_MS), 0);
    assert_in_range(to.retry_ms, 3750, 5000);
    assert_non_null(strstr(to.why, "RESOURCE_EXHAUSTED"));
    gt_podresources_soon(to.client);
    assert_int_equal(run_for(kubelet.loop, 500), -ETIME);
    assert_int_equal(kubelet.lists, 1);
    gt_podresources_free(to.client);
    end(&kubelet);
}

static void another_error_may_be_asked_after(void **state)
{
    struct kubelet kubelet;
    struct listener to;
    (void)state;
    begin(&kubelet, true);
    kubelet.status = GT_RPC_UNAVAILABLE;
    start(&kubelet, &to, 4);
    assert_int_equal(run_for(kubelet.loop, PATIENCE_MS), 0);
    assert_in_range(to.retry_ms, 6000, 8000);
    assert_non_null(strstr(to.why, "UNAVAILABLE: as the test wants"));
    kubelet.status = GT_RPC_OK;
    kubelet.empty = true;
    to.stop_after = 5;
    gt_podresources_soon(to.client);
    gt_podresources_soon(to.client);
    assert_int_equal(run_for(kubelet.loop, 5900), 0); /* before that pause is over */
    assert_int_equal(to.listed, 1);
    assert_int_equal(to.count, 0);
    gt_podresources_free(to.client);
    end(&kubelet);
}

static void ends_while_a_call_runs(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        struct kubelet kubelet;
        struct listener to;
        begin(&kubelet, true);
        start(&kubelet, &to, 1000);
        assert_int_equal(run_for(kubelet.loop, i), -ETIME);
        gt_podresources_free(to.client);
        end(&kubelet);
    }
}

struct single {
    struct gt_loop *loop;
    struct gt_mailbox *mailbox;
    struct gt_message answered;
    int status;
    unsigned count;
};

static void stop_loop(void *owner, struct gt_message *mailbox_message)
{
    const struct single *single = owner;
    (void)mailbox_message;
    gt_loop_stop(single->loop, 0);
}

static void on_single(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct single *single = arg;
    struct gt_pod_answer read;
    (void)message;
    single->status = status;
    if (status == GT_RPC_OK &&
        gt_pod_answer_read(GT_POD_ALLOCATABLE, reply, len,
                           &(struct gt_pod_wanted){.resource = "metax-tech.com/gpu"}, &read, NULL) == 0) {
        single->count = read.uses.count;
        gt_pod_answer_done(&read);
    }
    gt_mailbox_send(single->mailbox, &single->answered);
}

static void gets_what_can_be_had(void **state)
{
    struct kubelet kubelet;
    (void)state;
    begin(&kubelet, true);
    GT_CLEANUP(gt_rpc_free) struct gt_rpc *rpc = NULL;
    assert_return_code(gt_rpc_new(&rpc, NULL), 0);
    struct single single = {.loop = kubelet.loop, .answered = {.embedded = true, .deliver = stop_loop}};
    assert_return_code(gt_mailbox_new(kubelet.loop, &single, &single.mailbox, NULL), 0);
    struct gt_rpc_call *call = NULL;
    const struct gt_pod_ask ask = {PATIENCE_MS, on_single, &single};
    assert_return_code(gt_pod_call_new(rpc, kubelet.directory, GT_POD_ALLOCATABLE, &ask, &call, NULL), 0);
    assert_int_equal(run_for(kubelet.loop, PATIENCE_MS), 0);
    gt_rpc_call_free(call);
    gt_mailbox_free(single.mailbox);
    assert_int_equal(single.status, GT_RPC_OK);
    assert_int_equal(single.count, 2);
    end(&kubelet);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_one_resource),
        cmocka_unit_test(survives_any_bytes),
        cmocka_unit_test(has_limits),
        cmocka_unit_test(asks_again_and_again),
        cmocka_unit_test(no_socket_costs_a_pause),
        cmocka_unit_test(a_limit_is_respected),
        cmocka_unit_test(another_error_may_be_asked_after),
        cmocka_unit_test(ends_while_a_call_runs),
        cmocka_unit_test(gets_what_can_be_had),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
