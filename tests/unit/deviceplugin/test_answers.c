/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "base/err.h"
#include "deviceplugin/answers.h"
#include "machine.h"
#include "proto/deviceplugin.pb-c.h"

/* A /dev of our own, with the nodes of four GPUs. */
struct dev {
    char path[64];
};

static const char *const dev_nodes[] = {"mxcd",          "mxgd",           "mxad",           "mxcdx",
                                        "mx1",           "dri/card0",      "dri/card1",      "dri/card2",
                                        "dri/card3",     "dri/renderD128", "dri/renderD129", "dri/renderD130",
                                        "dri/renderD131"};

static void path_of(const struct dev *dev, const char *name, char *to, size_t size)
{
    snprintf(to, size, "%s/%s", dev->path, name);
}

static int make_dev(void **state)
{
    static struct dev dev;
    char path[128];
    snprintf(dev.path, sizeof(dev.path), "/tmp/gputopo-dev-XXXXXX");
    if (!mkdtemp(dev.path))
        return -1;
    path_of(&dev, "dri", path, sizeof(path));
    mkdir(path, 0755);
    path_of(&dev, "mxzd", path, sizeof(path));
    mkdir(path, 0755); /* a directory is no device */
    for (unsigned i = 0; i < GT_COUNT(dev_nodes); i++) {
        path_of(&dev, dev_nodes[i], path, sizeof(path));
        close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
    }
    *state = &dev;
    return 0;
}

static int remove_dev(void **state)
{
    const struct dev *dev = *state;
    char path[128];
    for (unsigned i = 0; i < GT_COUNT(dev_nodes); i++) {
        path_of(dev, dev_nodes[i], path, sizeof(path));
        unlink(path);
    }
    path_of(dev, "dri", path, sizeof(path));
    rmdir(path);
    path_of(dev, "mxzd", path, sizeof(path));
    rmdir(path);
    return rmdir(dev->path);
}

static void add_field(struct gt_buf *to, unsigned field, const void *data, size_t len)
{
    unsigned char head[2] = {(unsigned char)(field << 3 | 2), (unsigned char)len};
    assert_true(len < 128);
    gt_buf_add(to, head, 2);
    gt_buf_add(to, data, len);
}

/* The bytes of an AllocateRequest, by hand: one container for each list of IDs, which end with NULL. */
static void allocate_request(struct gt_buf *to, const char *const *const *containers)
{
    for (; *containers; containers++) {
        gt_auto_buf struct gt_buf one = GT_BUF(1024);
        for (const char *const *id = *containers; *id; id++)
            add_field(&one, 1, *id, strlen(*id));
        add_field(to, 1, one.data ? one.data : "", one.len);
    }
}

struct received {
    unsigned count;
    char error[512];
};

static void receive(void *arg, const char *const *ids, unsigned count, const char *error)
{
    struct received *received = arg;
    (void)ids, (void)count;
    received->count++;
    if (error)
        snprintf(received->error, sizeof(received->error), "%s", error);
}

static enum gt_rpc_status allocate(const struct dev *dev, const struct gt_inventory *inventory,
                                   const char *const *const *containers, struct gt_buf *reply,
                                   struct received *received, struct gt_err **err)
{
    gt_auto_buf struct gt_buf request = GT_BUF(4096);
    allocate_request(&request, containers);
    *received = (struct received){0};
    const struct gt_allocate_options options = {.dev_root = dev->path, .allocated = receive, .arg = received};
    return gt_answer_allocate(inventory, &options, (const uint8_t *)request.data, request.len, reply, err);
}

static bool refuse_gpu_1(void *arg, const char *id)
{
    unsigned *asked = arg;
    ++*asked;
    return strcmp(id, "GPU-1") != 0;
}

/* If one ID is retired, no container gets anything. */
static void asks_before_it_gives(void **state)
{
    const struct dev *dev = *state;
    unsigned asked = 0;
    const struct gt_allocate_options options = {.dev_root = dev->path, .claim = refuse_gpu_1, .arg = &asked};
    const char *const first[] = {"GPU-0", NULL}, *const second[] = {"GPU-1", NULL};
    gt_auto_buf struct gt_buf request = GT_BUF(4096), reply = GT_BUF(1 << 16);
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(2, 0), NULL);
    gt_auto_err struct gt_err *err = NULL;
    allocate_request(&request, (const char *const *const[]){first, second, NULL});
    assert_int_equal(
        gt_answer_allocate(inventory, &options, (const uint8_t *)request.data, request.len, &reply, &err),
        GT_RPC_NOT_FOUND);
    assert_int_equal(asked, 2);
    assert_int_equal(reply.len, 0);
    assert_non_null(strstr(gt_err_text(err), "served by another ID now"));
}

static void check_node(const struct dev *dev, const Dp__DeviceNode *node, const char *name)
{
    char host[128], inside[128];
    path_of(dev, name, host, sizeof(host));
    snprintf(inside, sizeof(inside), "/dev/%s", name);
    assert_string_equal(node->host_path, host);
    assert_string_equal(node->container_path, inside);
    assert_string_equal(node->permissions, "rw");
}

static void allocates_the_nodes_of_the_gpus(void **state)
{
    struct received received;
    gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16);
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(4, 0), NULL);
    const char *const first[] = {"GPU-2", "GPU-0", "GPU-2", NULL}, *const second[] = {"GPU-3", NULL};
    assert_int_equal(allocate(*state, inventory, (const char *const *const[]){first, second, NULL}, &reply,
                              &received, NULL),
                     GT_RPC_OK);
    assert_int_equal(received.count, 2);
    Dp__AllocateResponse *response =
        dp__allocate_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    assert_non_null(response);
    assert_int_equal(response->n_containers, 2);
    const Dp__ContainerAllocateResponse *one = response->containers[0];
    static const char *const expected[] = {"mxcd",           "mxad",      "mxgd",          "dri/card2",
                                           "dri/renderD130", "dri/card0", "dri/renderD128"};
    assert_int_equal(one->n_devices, GT_COUNT(expected));
    for (unsigned i = 0; i < GT_COUNT(expected); i++)
        check_node(*state, one->devices[i], expected[i]);
    assert_string_equal(one->envs[0]->key, "METAX_GPU_UUIDS");
    assert_string_equal(one->envs[0]->value, "GPU-2,GPU-0");
    assert_int_equal(one->n_mounts + one->n_annotations + one->n_cdi_devices, 0);
    assert_int_equal(response->containers[1]->n_devices, 5);
    assert_string_equal(response->containers[1]->envs[0]->value, "GPU-3");
    dp__allocate_response__free_unpacked(response, NULL);
}

/* A node with three NICs: two are near GPU 0, one of them without an RDMA device; of GPU 1 nothing is known,
 * GPU 2 is far from all. */
static struct gt_inventory *with_nics(void)
{
    struct gt_node *node = machine_new(3, 0);
    node->nics = calloc(3, sizeof(*node->nics));
    assert_non_null(node->nics);
    node->nic_count = 3;
    for (unsigned i = 0; i < 3; i++) {
        struct gt_nic *nic = &node->nics[i];
        snprintf(nic->name, sizeof(nic->name), "mlx5_%u", i);
        snprintf(nic->bdf, sizeof(nic->bdf), "0000:8%u:00.0", i);
        nic->numa_node = -1;
        nic->kind[0] = i < 2 ? GT_LINK_PXB : GT_LINK_NODE;
        nic->kind[1] = GT_LINK_UNKNOWN;
        nic->kind[2] = GT_LINK_SYS;
    }
    snprintf(node->nics[1].name, sizeof(node->nics[1].name), "%s", node->nics[1].bdf);
    node->gpus[0].numa_node = 1;
    node->gpus[1].numa_node = -1;
    return machine_inventory(node, NULL);
}

/* `expected`: all variables that the container gets, NAME=VALUE, each on a line */
static void check_variables(const struct dev *dev, const struct gt_inventory *inventory,
                            const char *const *ids, const char *expected)
{
    struct received received = {0};
    const struct gt_allocate_options options = {
        .dev_root = dev->path, .allocated = receive, .arg = &received};
    gt_auto_buf struct gt_buf request = GT_BUF(4096), reply = GT_BUF(1 << 16), told = GT_BUF(4096);
    allocate_request(&request, (const char *const *const[]){ids, NULL});
    assert_int_equal(
        gt_answer_allocate(inventory, &options, (const uint8_t *)request.data, request.len, &reply, NULL),
        GT_RPC_OK);
    Dp__AllocateResponse *response =
        dp__allocate_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    assert_non_null(response);
    const Dp__ContainerAllocateResponse *one = response->containers[0];
    for (size_t i = 0; i < one->n_envs; i++)
        gt_buf_printf(&told, "%s=%s\n", one->envs[i]->key, one->envs[i]->value);
    assert_string_equal(told.data, expected);
    dp__allocate_response__free_unpacked(response, NULL);
}

static void tells_what_is_near(void **state)
{
    gt_auto_inventory struct gt_inventory *inventory = with_nics();
    gt_auto_inventory struct gt_inventory *without = machine_inventory(machine_new(2, 0), NULL);
    check_variables(*state, inventory, (const char *const[]){"GPU-0", NULL},
                    "METAX_GPU_UUIDS=GPU-0\nMETAX_GPU_NICS=mlx5_0,0000:81:00.0\nMETAX_GPU_HCAS=mlx5_0\n"
                    "METAX_GPU_NUMA_NODES=1\n");
    check_variables(
        *state, inventory, (const char *const[]){"GPU-2", "GPU-1", "GPU-0", NULL},
        "METAX_GPU_UUIDS=GPU-2,GPU-1,GPU-0\nMETAX_GPU_NICS=mlx5_0,0000:81:00.0,mlx5_2;;mlx5_0,0000:81:00.0\n"
        "METAX_GPU_HCAS=mlx5_0,mlx5_2\nMETAX_GPU_NUMA_NODES=0,1\n");
    check_variables(*state, inventory, (const char *const[]){"GPU-1", NULL}, "METAX_GPU_UUIDS=GPU-1\n");
    check_variables(*state, without, (const char *const[]){"GPU-0", NULL},
                    "METAX_GPU_UUIDS=GPU-0\nMETAX_GPU_NUMA_NODES=0\n");
}

static void refuses(void **state, const struct gt_inventory *inventory, const char *id,
                    enum gt_rpc_status status, const char *part)
{
    struct received received;
    gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16);
    gt_auto_err struct gt_err *err = NULL;
    const char *const good[] = {"GPU-0", NULL}, *const bad[] = {"GPU-0", id, NULL};
    assert_int_equal(allocate(*state, inventory, (const char *const *const[]){good, bad, good, NULL}, &reply,
                              &received, &err),
                     status);
    assert_int_equal(reply.len, 0);
    assert_int_equal(received.count, 1);
    assert_non_null(strstr(gt_err_text(err), part));
    assert_string_equal(received.error, gt_err_text(err));
}

static void refuses_what_cannot_work(void **state)
{
    const struct dev *dev = *state;
    char path[128];
    gt_auto_inventory struct gt_inventory *all = machine_inventory(machine_new(4, 0), NULL);
    refuses(state, all, "GPU-9", GT_RPC_NOT_FOUND, "GPU-9");
    gt_auto_inventory struct gt_inventory *some = machine_inventory(machine_new(3, 0), all);
    refuses(state, some, "GPU-3", GT_RPC_NOT_FOUND, "lost");
    gt_auto_inventory struct gt_inventory *more = machine_inventory(machine_new(5, 0), NULL);
    path_of(dev, "dri/card4", path, sizeof(path));
    refuses(state, more, "GPU-4", GT_RPC_FAILED_PRECONDITION, path);
    struct gt_node *node = machine_new(2, 0);
    node->gpus[1].drm_card = node->gpus[1].drm_render = -1;
    gt_auto_inventory struct gt_inventory *none = machine_inventory(node, NULL);
    refuses(state, none, "GPU-1", GT_RPC_FAILED_PRECONDITION, "0000:11:00.0");

    const struct dev empty = {"/tmp/gputopo-no-such-dev"};
    struct received received;
    gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16);
    gt_auto_err struct gt_err *err = NULL;
    const char *const good[] = {"GPU-0", NULL};
    assert_int_equal(allocate(&empty, all, (const char *const *const[]){good, NULL}, &reply, &received, &err),
                     GT_RPC_FAILED_PRECONDITION);
    assert_non_null(strstr(gt_err_text(err), empty.path));
}

static void gives_an_unhealthy_gpu_that_is_there(void **state)
{
    struct received received;
    gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16);
    struct gt_node *node = machine_new(2, 0);
    node->gpus[1].health = GT_GPU_UNHEALTHY;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);
    const char *const ids[] = {"GPU-1", NULL};
    assert_int_equal(
        allocate(*state, inventory, (const char *const *const[]){ids, NULL}, &reply, &received, NULL),
        GT_RPC_OK);
}

/* One Allocate of the device "all": how many device nodes each of the containers has; the names in
 * `ret_names`. */
static unsigned allocate_all(const struct dev *dev, const struct gt_node *node, unsigned containers,
                             char (*ret_names)[32])
{
    gt_auto_buf struct gt_buf request = GT_BUF(4096), reply = GT_BUF(1 << 16);
    const char *const ids[] = {"all", NULL}, *const *const all[] = {ids, ids, NULL};
    unsigned nodes = 99;
    allocate_request(&request, &all[2 - containers]);
    assert_int_equal(gt_answer_allocate_all(node, dev->path, "all", (const uint8_t *)request.data,
                                            request.len, &nodes, &reply, NULL),
                     GT_RPC_OK);
    Dp__AllocateResponse *response =
        dp__allocate_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    assert_non_null(response);
    assert_int_equal(response->n_containers, containers);
    for (unsigned i = 0; i < containers; i++) {
        const Dp__ContainerAllocateResponse *one = response->containers[i];
        assert_int_equal(one->n_devices, nodes);
        assert_int_equal(one->n_envs + one->n_mounts + one->n_annotations + one->n_cdi_devices, 0);
        for (unsigned k = 0; k < nodes; k++) {
            const char *name = one->devices[k]->container_path + strlen("/dev/");
            check_node(dev, one->devices[k], name);
            snprintf(ret_names[k], sizeof(ret_names[k]), "%s", name);
        }
    }
    dp__allocate_response__free_unpacked(response, NULL);
    return nodes;
}

/* Of every GPU, what is there: the probe shall see the others where a node is missing, or a GPU has none. */
static void allocates_every_node_there_is(void **state)
{
    const struct dev *dev = *state, empty = {"/tmp/gputopo-no-such-dev"};
    static const char *const expected[] = {"mxcd",      "mxad",           "mxgd",          "dri/card0",
                                           "dri/card2", "dri/renderD130", "dri/renderD131"};
    char names[64][32];
    gt_auto_node struct gt_node *node = machine_new(4, 0);
    node->gpus[0].drm_render = -1;
    node->gpus[1].drm_card = node->gpus[1].drm_render = -1;
    node->gpus[3].drm_card = 77; /* gone from the host */
    node->gpus[3].health = GT_GPU_UNHEALTHY;
    assert_int_equal(allocate_all(dev, node, 2, names), GT_COUNT(expected));
    for (unsigned i = 0; i < GT_COUNT(expected); i++)
        assert_string_equal(names[i], expected[i]);
    assert_int_equal(allocate_all(dev, NULL, 1, names), 3); /* before the node is known */
    assert_int_equal(allocate_all(&empty, node, 1, names), 0);
}

static void all_is_the_only_device(void **state)
{
    const struct dev *dev = *state;
    static const uint8_t garbage[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x41};
    gt_auto_node struct gt_node *node = machine_new(4, 0);
    gt_auto_buf struct gt_buf request = GT_BUF(4096), reply = GT_BUF(1 << 16), list = GT_BUF(4096);
    gt_auto_err struct gt_err *err = NULL, *no_request = NULL;
    const char *const ids[] = {"all", "GPU-0", NULL};
    unsigned nodes = 0;
    allocate_request(&request, (const char *const *const[]){ids, NULL});
    assert_int_equal(gt_answer_allocate_all(node, dev->path, "all", (const uint8_t *)request.data,
                                            request.len, &nodes, &reply, &err),
                     GT_RPC_NOT_FOUND);
    assert_non_null(strstr(gt_err_text(err), "GPU-0"));
    assert_int_equal(
        gt_answer_allocate_all(node, dev->path, "all", garbage, sizeof(garbage), &nodes, &reply, &no_request),
        GT_RPC_INVALID_ARGUMENT);
    assert_int_equal(reply.len, 0);
    gt_answer_list_one("all", true, &list);
    Dp__DeviceList *reported = dp__device_list__unpack(NULL, list.len, (const uint8_t *)list.data);
    assert_non_null(reported);
    assert_int_equal(reported->n_devices, 1);
    assert_string_equal(reported->devices[0]->id, "all");
    assert_string_equal(reported->devices[0]->health, "Healthy");
    assert_null(reported->devices[0]->topology);
    dp__device_list__free_unpacked(reported, NULL);
}

static void survives_other_bytes(void **state)
{
    struct received received = {0};
    const struct dev *dev = *state;
    const struct gt_allocate_options options = {
        .dev_root = dev->path, .allocated = receive, .arg = &received};
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(2, 0), NULL);
    static const uint8_t garbage[] = {0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f, 0x41};
    for (size_t len = 1; len <= sizeof(garbage); len++) {
        gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16);
        gt_auto_err struct gt_err *first = NULL, *second = NULL;
        assert_int_equal(gt_answer_allocate(inventory, &options, garbage, len, &reply, &first),
                         GT_RPC_INVALID_ARGUMENT);
        assert_int_equal(gt_answer_preferred(inventory, NULL, garbage, len, &reply, &second),
                         GT_RPC_INVALID_ARGUMENT);
        assert_int_equal(reply.len, 0);
    }
    gt_auto_buf struct gt_buf reply = GT_BUF(1 << 16); /* the empty request is one */
    assert_int_equal(gt_answer_allocate(inventory, &options, NULL, 0, &reply, NULL), GT_RPC_OK);
    assert_int_equal(gt_answer_preferred(inventory, NULL, NULL, 0, &reply, NULL), GT_RPC_OK);
    assert_int_equal(reply.len, 0);
    assert_int_equal(received.count, 0);
}

static void lists_health_and_numa(void **state)
{
    (void)state;
    struct gt_node *node = machine_new(5, 0);
    node->gpus[1].health = GT_GPU_UNHEALTHY;
    node->gpus[2].numa_node = -1;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(node, NULL);
    gt_auto_buf struct gt_buf bytes = GT_BUF(1 << 16);
    gt_answer_list(inventory, &bytes);
    Dp__DeviceList *list = dp__device_list__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
    assert_non_null(list);
    assert_int_equal(list->n_devices, 5);
    assert_string_equal(list->devices[0]->id, "GPU-0");
    assert_string_equal(list->devices[0]->health, "Healthy");
    assert_string_equal(list->devices[1]->health, "Unhealthy");
    assert_null(list->devices[2]->topology);
    assert_int_equal(list->devices[4]->topology->n_nodes, 1);
    assert_int_equal(list->devices[4]->topology->nodes[0]->id, 1);
    dp__device_list__free_unpacked(list, NULL);
}

static void preferred_has_the_exact_size(void **state)
{
    (void)state;
    gt_auto_inventory struct gt_inventory *inventory = machine_inventory(machine_new(4, 7), NULL);
    char *available[] = {(char[]){"GPU-0"}, (char[]){"GPU-1"}, (char[]){"GPU-2"}};
    static const int32_t sizes[] = {-1, 0, 2, 3, 4, INT32_MAX};
    for (unsigned i = 0; i < GT_COUNT(sizes); i++) {
        Dp__ContainerPreferredRequest one = DP__CONTAINER_PREFERRED_REQUEST__INIT;
        one.available = available;
        one.n_available = 3;
        one.must = &available[2];
        one.n_must = 1;
        one.size = sizes[i];
        Dp__ContainerPreferredRequest *ones[] = {&one, &one};
        Dp__PreferredRequest request = DP__PREFERRED_REQUEST__INIT;
        request.containers = ones;
        request.n_containers = 2;
        uint8_t packed[256];
        size_t len = dp__preferred_request__pack(&request, packed);
        gt_auto_buf struct gt_buf bytes = GT_BUF(1 << 16);
        assert_int_equal(gt_answer_preferred(inventory, NULL, packed, len, &bytes, NULL), GT_RPC_OK);
        Dp__PreferredResponse *response =
            dp__preferred_response__unpack(NULL, bytes.len, (const uint8_t *)bytes.data);
        assert_non_null(response);
        assert_int_equal(response->n_containers, 2);
        size_t expected = sizes[i] < 0 ? 0 : sizes[i] < 3 ? (size_t)sizes[i] : 3;
        assert_int_equal(response->containers[1]->n_ids, expected);
        if (expected)
            assert_string_equal(response->containers[1]->ids[0], "GPU-2");
        dp__preferred_response__free_unpacked(response, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(asks_before_it_gives, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(allocates_the_nodes_of_the_gpus, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(tells_what_is_near, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(refuses_what_cannot_work, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(gives_an_unhealthy_gpu_that_is_there, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(allocates_every_node_there_is, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(all_is_the_only_device, make_dev, remove_dev),
        cmocka_unit_test_setup_teardown(survives_other_bytes, make_dev, remove_dev),
        cmocka_unit_test(lists_health_and_numa),
        cmocka_unit_test(preferred_has_the_exact_size),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
