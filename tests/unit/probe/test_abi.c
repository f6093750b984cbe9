/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/file.h"
#include "tests/fake-mxsml/mxsml_fake.h"
#include "topology/probe/mxsml_abi.h"

/* Two descriptions of one binary interface, written apart: they have to agree field by field. */
#define SAME(ours, our_field, theirs, their_field)                                                           \
    static_assert(offsetof(struct ours, our_field) == offsetof(theirs, their_field) &&                       \
                      sizeof(((struct ours *)0)->our_field) == sizeof(((theirs *)0)->their_field),           \
                  #theirs "." #their_field)
#define SAME_SIZE(ours, theirs) static_assert(sizeof(struct ours) == sizeof(theirs), #theirs)

SAME_SIZE(mx_device_info, DeviceInfo);
SAME(mx_device_info, device_id, DeviceInfo, deviceId);
SAME(mx_device_info, bdf, DeviceInfo, bdfId);
SAME(mx_device_info, gpu_id, DeviceInfo, gpuId);
SAME(mx_device_info, node_id, DeviceInfo, nodeId);
SAME(mx_device_info, uuid, DeviceInfo, uuid);
SAME(mx_device_info, brand, DeviceInfo, brand);
SAME(mx_device_info, mode, DeviceInfo, mode);
SAME(mx_device_info, name, DeviceInfo, deviceName);
SAME_SIZE(mx_id_list, IdList);
SAME(mx_id_list, number, IdList, number);
SAME(mx_id_list, ids, IdList, deviceId);
SAME_SIZE(mx_memory, MemoryInfo);
SAME(mx_memory, vram_total, MemoryInfo, vramTotal);
SAME(mx_memory, xtt_used, MemoryInfo, xttUse);
SAME_SIZE(mx_link, LinkInfo);
SAME(mx_link, speed, LinkInfo, speed);
SAME(mx_link, width, LinkInfo, width);
SAME_SIZE(mx_port_links, MetaXLinkInfo);
SAME(mx_port_links, speed, MetaXLinkInfo, speed);
SAME(mx_port_links, width, MetaXLinkInfo, width);
SAME_SIZE(mx_remote, RemoteInfo);
SAME(mx_remote, device_id, RemoteInfo, deviceId);
SAME(mx_remote, bdf, RemoteInfo, bdfId);
SAME_SIZE(mx_link_topology, LinkTopo);
SAME(mx_link_topology, die_id, LinkTopo, dieId);
SAME_SIZE(mx_reason, Reason);
SAME(mx_reason, code, Reason, code);
SAME(mx_reason, text, Reason, text);
SAME_SIZE(mx_ecc, EccErrors);
SAME(mx_ecc, dram_ue, EccErrors, dramUE);
SAME(mx_ecc, retired_pages, EccErrors, retiredPage);
SAME_SIZE(mx_event, Event);
SAME(mx_event, type, Event, type);
SAME(mx_event, data, Event, eventData);

static void *resolve(void *library, const char *name)
{
    void *address = dlsym(library, name);
    if (!address)
        print_error("%s is missing\n", name);
    assert_non_null(address);
    return address;
}

/* The fake's functions through the product's declarations. */
static void calls(void **state)
{
    (void)state;
    char path[] = "/tmp/gputopo-abi-XXXXXX";
    static const char scenario[] = "{\"devices\":[{},{\"uuid\":\"GPU-x\",\"bdf\":\"0001:02:03.0\",\"mode\":2,"
                                   "\"name\":\"MXC550\",\"ecc\":{\"dramUE\":7},\"vramKiB\":1024}],"
                                   "\"matrix\":[[0,5],[5,0]]}";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    close(fd);
    assert_int_equal(gt_file_write(path, scenario, strlen(scenario), 0600, NULL), 0);
    setenv("GPUTOPO_FAKE_MXSML", path, 1);
    void *library = dlopen(TEST_BINARY_DIR "/tests/fake-mxsml/libmxsml.so", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(library);

    union {
        void *address;
        mx_init *init;
        mx_count *count;
        mx_fill *info;
        mx_fill *ecc;
        mx_fill *memory;
        mx_fill_of *pair;
    } f;
    f.address = resolve(library, "mxSmlInit");
    assert_int_equal(f.init(), 0);
    f.address = resolve(library, "mxSmlGetDeviceCount");
    assert_int_equal(f.count(), 2);
    struct mx_device_info info;
    f.address = resolve(library, "mxSmlGetDeviceInfo");
    assert_int_equal(f.info(1, &info), 0);
    assert_string_equal(info.uuid, "GPU-x");
    assert_string_equal(info.bdf, "0001:02:03.0");
    assert_string_equal(info.name, "MXC550");
    assert_int_equal(info.mode, 2);
    assert_int_equal(info.device_id, 1);
    assert_int_equal(f.info(2, &info), 6);
    struct mx_ecc ecc;
    f.address = resolve(library, "mxSmlGetTotalEccErrors");
    assert_int_equal(f.ecc(1, &ecc), 0);
    assert_int_equal(ecc.dram_ue, 7);
    struct mx_memory memory;
    f.address = resolve(library, "mxSmlGetMemoryInfo");
    assert_int_equal(f.memory(1, &memory), 0);
    assert_int_equal(memory.vram_total, 1024);
    uint32_t level;
    f.address = resolve(library, "mxSmlGetDeviceTopology");
    assert_int_equal(f.pair(0, 1, &level), 0);
    assert_int_equal(level, 5);

    void *old = dlopen(TEST_BINARY_DIR "/tests/fake-mxsml-old/libmxsml.so", RTLD_NOW | RTLD_LOCAL);
    assert_non_null(old);
    assert_null(dlsym(old, "mxSmlEventSetWait"));
    assert_null(dlsym(old, "mxSmlGetMetaXLinkInfo_v2"));
    assert_non_null(dlsym(old, "mxSmlGetMetaXLinkInfo"));
    assert_non_null(dlsym(library, "mxSmlEventSetWait"));
    unlink(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(calls)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
