/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/err.h"
#include "deviceplugin/answers.h"
#include "proto/deviceplugin.pb-c.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/fuzz_inventory.h"

/*
 * An AllocateRequest, with the strategy in the first byte. What is answered is a response for each container
 * that has each device node once; what is refused has a reason and no answer. The device nodes of all GPUs
 * but GPU-5 are there.
 */
static char root[] = "/tmp/gputopo-fuzz-XXXXXX";
static char dev_root[64], cdi_dir[64];
static struct gt_cdi *cdi;

static void touch(const char *directory, const char *name)
{
    char path[128];
    snprintf(path, sizeof(path), "%s/%s", directory, name);
    close(open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600));
}

static void remove_all(void)
{
    char path[128];
    gt_cdi_remove(cdi, NULL);
    gt_cdi_free(cdi);
    for (unsigned i = 0; i < 5; i++) {
        snprintf(path, sizeof(path), "%s/dri/card%u", dev_root, i);
        unlink(path);
        snprintf(path, sizeof(path), "%s/dri/renderD%u", dev_root, 128 + i);
        unlink(path);
    }
    snprintf(path, sizeof(path), "%s/mxcd", dev_root);
    unlink(path);
    snprintf(path, sizeof(path), "%s/dri", dev_root);
    rmdir(path);
    rmdir(dev_root);
    rmdir(cdi_dir);
    rmdir(root);
}

static void make_all(void)
{
    char path[128], name[32];
    if (!mkdtemp(root))
        abort();
    snprintf(dev_root, sizeof(dev_root), "%s/dev", root);
    snprintf(cdi_dir, sizeof(cdi_dir), "%s/cdi", root);
    snprintf(path, sizeof(path), "%s/dri", dev_root);
    if (mkdir(dev_root, 0755) < 0 || mkdir(path, 0755) < 0)
        abort();
    touch(dev_root, "mxcd");
    for (unsigned i = 0; i < 5; i++) {
        snprintf(name, sizeof(name), "dri/card%u", i);
        touch(dev_root, name);
        snprintf(name, sizeof(name), "dri/renderD%u", 128 + i);
        touch(dev_root, name);
    }
    const struct gt_cdi_options options = {cdi_dir, "metax-tech.com/gpu", dev_root};
    if (gt_cdi_new(&options, &cdi, NULL) < 0)
        abort();
    atexit(remove_all);
}

static void check_container(const Dp__ContainerAllocateResponse *one, enum gt_device_strategy strategy)
{
    if (one->n_mounts || one->n_annotations || one->n_envs > 1 ||
        (one->n_devices && strategy == GT_STRATEGY_CDI) ||
        (one->n_cdi_devices && strategy == GT_STRATEGY_DEVICES) ||
        (one->n_devices && one->n_cdi_devices && one->n_devices != 1 + 2 * one->n_cdi_devices))
        abort();
    for (size_t i = 0; i < one->n_devices; i++) {
        const Dp__DeviceNode *node = one->devices[i];
        if (strncmp(node->container_path, "/dev/", 5) != 0 ||
            strncmp(node->host_path, dev_root, strlen(dev_root)) != 0 ||
            strcmp(node->container_path + 4, node->host_path + strlen(dev_root)) != 0)
            abort();
        for (size_t k = 0; k < i; k++)
            if (strcmp(one->devices[k]->container_path, node->container_path) == 0)
                abort();
    }
}

static unsigned received;

static void receive(void *arg, const char *const *ids, unsigned count, const char *error)
{
    (void)arg, (void)error;
    for (unsigned i = 0; i < count; i++)
        if (!ids[i])
            abort();
    received++;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    if (!cdi)
        make_all();
    const struct gt_allocate_options options = {.dev_root = dev_root,
                                                .strategy = (enum gt_device_strategy)(data[0] % 3),
                                                .cdi = cdi,
                                                .allocated = receive};
    gt_auto_buf struct gt_buf reply = GT_BUF(64 << 20);
    gt_auto_err struct gt_err *err = NULL;
    received = 0;
    enum gt_rpc_status status =
        gt_answer_allocate(fuzz_inventory(), &options, data + 1, size - 1, &reply, &err);
    if ((status == GT_RPC_OK) == (err != NULL) || (status != GT_RPC_OK && reply.len))
        abort();
    unsigned nodes;
    gt_auto_buf struct gt_buf all = GT_BUF(64 << 20);
    gt_answer_allocate_all(fuzz_inventory()->node, dev_root, "all", data + 1, size - 1, &nodes, &all, NULL);
    if (status != GT_RPC_OK)
        return 0;
    Dp__AllocateRequest *request = dp__allocate_request__unpack(NULL, size - 1, data + 1);
    Dp__AllocateResponse *response =
        dp__allocate_response__unpack(NULL, reply.len, (const uint8_t *)reply.data);
    if (!request || !response || response->n_containers != request->n_containers ||
        received != request->n_containers)
        abort();
    for (size_t i = 0; i < response->n_containers; i++)
        check_container(response->containers[i], options.strategy);
    dp__allocate_request__free_unpacked(request, NULL);
    dp__allocate_response__free_unpacked(response, NULL);
    return 0;
}
