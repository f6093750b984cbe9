/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GetPreferredAllocation: its handler without gRPC, and over the socket of a running plugin.
 *
 *     bench_plugin handler          8 and 16 GPUs, every k, without and with one GPU that must be in it
 *     bench_plugin socket PATH ID...   calls the plugin at PATH with these available IDs, half of them wanted
 *
 * Prints measures in the form that loss.sh describes.
 */
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/err.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/inventory.h"
#include "proto/deviceplugin.pb-c.h"

enum { ROUNDS = 2001, CALLS = 2001, IDS_MAX = 64 };

static double now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *times, unsigned count)
{
    qsort(times, count, sizeof(*times), by_value);
    return times[count / 2];
}

static void measure(const char *name, double value, const char *goal)
{
    printf("%s\t%.3f\tus\t%s\n", name, value, goal);
}

/* A node of `count` GPUs in groups of four that are joined by direct links. */
static int make_inventory(unsigned count, struct gt_inventory **ret, struct gt_err **err)
{
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_class_cache struct gt_class_cache *classes = NULL;
    int r = gt_node_new(count, 0, &node, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        snprintf(gpu->bdf, sizeof(gpu->bdf), "0000:%02x:00.0", 0x10 + i);
        snprintf(gpu->uuid, sizeof(gpu->uuid), "GPU-00000000-0000-4000-8000-%012x", i);
    }
    for (unsigned l = 0; l < node->link_count; l++) {
        struct gt_link *link = &node->links[l];
        link->kind = link->a / 4 == link->b / 4 ? GT_LINK_MX : GT_LINK_UNKNOWN;
        link->path_kind = GT_LINK_SYS;
    }
    if ((r = gt_node_finish(node, err)) < 0 || (r = gt_class_cache_new(4, &classes, err)) < 0)
        return r;
    return gt_inventory_next(node, classes, NULL, NULL, 0, ret, err);
}

/* The worst median over all k, of the whole answer: bytes of the request to bytes of the reply. */
static double worst_k(const struct gt_inventory *inventory, unsigned must)
{
    static double times[ROUNDS];
    unsigned count = inventory->device_count;
    double worst = 0;
    char *ids[IDS_MAX];
    for (unsigned i = 0; i < count; i++) {
        ids[i] = strdup(inventory->devices[i].id);
        if (!ids[i])
            abort();
    }
    for (unsigned k = 1; k <= count; k++) {
        Dp__ContainerPreferredRequest container = DP__CONTAINER_PREFERRED_REQUEST__INIT;
        Dp__ContainerPreferredRequest *containers[] = {&container};
        Dp__PreferredRequest request = DP__PREFERRED_REQUEST__INIT;
        container.n_available = count;
        container.available = ids;
        container.n_must = must;
        container.must = ids + count / 2; /* one from the middle */
        container.size = (int32_t)k;
        request.n_containers = 1;
        request.containers = containers;
        uint8_t bytes[8192];
        size_t len = dp__preferred_request__pack(&request, bytes);
        for (unsigned i = 0; i < ROUNDS; i++) {
            gt_auto_buf struct gt_buf reply = GT_BUF(GT_RPC_MESSAGE_MAX);
            double start = now_us();
            if (gt_answer_preferred(inventory, NULL, bytes, len, &reply, NULL) != GT_RPC_OK)
                abort();
            times[i] = now_us() - start;
        }
        double here = median(times, ROUNDS);
        worst = here > worst ? here : worst;
    }
    for (unsigned i = 0; i < count; i++)
        free(ids[i]);
    return worst;
}

static int handler(void)
{
    printf("# GetPreferredAllocation, the handler without gRPC: median, worst k\n");
    for (unsigned count = 8; count <= 16; count += 8) {
        gt_auto_err struct gt_err *err = NULL;
        gt_auto_inventory struct gt_inventory *inventory = NULL;
        if (make_inventory(count, &inventory, &err) < 0) {
            fprintf(stderr, "bench_plugin: %s\n", gt_err_text(err));
            return 1;
        }
        char name[64];
        snprintf(name, sizeof(name), "handler, %u GPUs, any k", count);
        measure(name, worst_k(inventory, 0), "<10");
        snprintf(name, sizeof(name), "handler, %u GPUs, any k, one must be in it", count);
        measure(name, worst_k(inventory, 1), "<100");
    }
    return 0;
}

/* One unary call over a channel that stays open, as the kubelet keeps it. */
static bool call_once(grpc_channel *channel, grpc_completion_queue *queue, const grpc_slice *message)
{
    gpr_timespec deadline = gpr_time_add(gpr_now(GPR_CLOCK_REALTIME), gpr_time_from_seconds(5, GPR_TIMESPAN));
    grpc_call *call =
        grpc_channel_create_call(channel, NULL, GRPC_PROPAGATE_DEFAULTS, queue,
                                 grpc_slice_from_static_string(GT_PATH_PREFERRED), NULL, deadline, NULL);
    grpc_metadata_array first, last;
    grpc_slice slice = *message;
    grpc_byte_buffer *request = grpc_raw_byte_buffer_create(&slice, 1); /* sending empties it */
    grpc_byte_buffer *reply = NULL;
    grpc_status_code status;
    grpc_slice details;
    grpc_metadata_array_init(&first);
    grpc_metadata_array_init(&last);
    grpc_op ops[6];
    memset(ops, 0, sizeof(ops));
    ops[0].op = GRPC_OP_SEND_INITIAL_METADATA;
    ops[1].op = GRPC_OP_SEND_MESSAGE;
    ops[1].data.send_message.send_message = request;
    ops[2].op = GRPC_OP_SEND_CLOSE_FROM_CLIENT;
    ops[3].op = GRPC_OP_RECV_INITIAL_METADATA;
    ops[3].data.recv_initial_metadata.recv_initial_metadata = &first;
    ops[4].op = GRPC_OP_RECV_MESSAGE;
    ops[4].data.recv_message.recv_message = &reply;
    ops[5].op = GRPC_OP_RECV_STATUS_ON_CLIENT;
    ops[5].data.recv_status_on_client.trailing_metadata = &last;
    ops[5].data.recv_status_on_client.status = &status;
    ops[5].data.recv_status_on_client.status_details = &details;
    bool done = grpc_call_start_batch(call, ops, 6, call, NULL) == GRPC_CALL_OK &&
                grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).success &&
                status == GRPC_STATUS_OK && reply && grpc_byte_buffer_length(reply) > 0;
    if (!done) {
        char *text = grpc_slice_to_c_string(details);
        fprintf(stderr, "bench_plugin: status %d, %s\n", (int)status, text);
        gpr_free(text);
    }
    grpc_byte_buffer_destroy(request);
    if (reply)
        grpc_byte_buffer_destroy(reply);
    grpc_slice_unref(details);
    grpc_metadata_array_destroy(&first);
    grpc_metadata_array_destroy(&last);
    grpc_call_unref(call);
    return done;
}

static int over_socket(const char *path, char **ids, unsigned count)
{
    Dp__ContainerPreferredRequest container = DP__CONTAINER_PREFERRED_REQUEST__INIT;
    Dp__ContainerPreferredRequest *containers[] = {&container};
    Dp__PreferredRequest message = DP__PREFERRED_REQUEST__INIT;
    container.n_available = count;
    container.available = ids;
    container.size = (int32_t)(count / 2);
    message.n_containers = 1;
    message.containers = containers;
    static uint8_t bytes[65536];
    size_t len = dp__preferred_request__get_packed_size(&message);
    if (len > sizeof(bytes))
        return 2;
    dp__preferred_request__pack(&message, bytes);

    grpc_init();
    char target[256];
    snprintf(target, sizeof(target), "unix:%s", path);
    grpc_arg authority = {.type = GRPC_ARG_STRING,
                          .key = strdup("grpc.default_authority"),
                          .value.string = strdup("localhost")};
    grpc_channel_args args = {1, &authority};
    grpc_channel_credentials *insecure = grpc_insecure_credentials_create();
    grpc_channel *channel = grpc_channel_create(target, insecure, &args);
    grpc_channel_credentials_release(insecure);
    grpc_completion_queue *queue = grpc_completion_queue_create_for_next(NULL);
    grpc_slice slice = grpc_slice_from_copied_buffer((const char *)bytes, len);
    static double times[CALLS];
    int result = 0;
    for (unsigned i = 0; i < 100 + CALLS && !result; i++) {
        double start = now_us();
        if (!call_once(channel, queue, &slice)) {
            result = 1;
        }
        if (i >= 100) /* after the warm-up */
            times[i - 100] = now_us() - start;
    }
    if (!result)
        measure("GetPreferredAllocation over the socket, median", median(times, CALLS), "<300");
    grpc_slice_unref(slice);
    grpc_channel_destroy(channel);
    grpc_completion_queue_shutdown(queue);
    while (grpc_completion_queue_next(queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN)
        ;
    grpc_completion_queue_destroy(queue);
    grpc_shutdown_blocking();
    free(authority.key);
    free(authority.value.string);
    return result;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "handler") == 0)
        return handler();
    if (argc >= 4 && argc - 3 <= IDS_MAX && strcmp(argv[1], "socket") == 0)
        return over_socket(argv[2], argv + 3, (unsigned)argc - 3);
    fprintf(stderr, "usage: bench_plugin handler | socket PATH ID...\n");
    return 2;
}
