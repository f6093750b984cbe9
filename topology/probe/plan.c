/* SPDX-License-Identifier: Apache-2.0 */
#include <cjson/cJSON.h>

#include "base/bits.h"
#include "base/json_get.h"
#include "topology/probe/prober.h"

enum { DEVICES_MAX = 64, PORT_NUMBERS = 8, CPU_WORDS = 32, NODE_WORDS = 4 };

#define ASK(prober, call, ...)                                                                               \
    gt_prober_call((prober), (call), sizeof((uint32_t[]){__VA_ARGS__}) / sizeof(uint32_t),                   \
                   (uint32_t[]){__VA_ARGS__})

/* Adds an entry to the log without a call. */
#define NOTE(prober, call, ...) cJSON_Delete(ASK((prober), (call), __VA_ARGS__))

static bool answered(cJSON *value)
{
    bool there = value != NULL;
    cJSON_Delete(value);
    return there;
}

/* A number from 0 to max, else `otherwise`. */
static unsigned probe_plan_number(cJSON *value, unsigned max, unsigned otherwise)
{
    unsigned result = otherwise;
    if (cJSON_IsNumber(value) && value->valuedouble >= 0)
        result = value->valuedouble > max ? max : (unsigned)value->valuedouble;
    cJSON_Delete(value);
    return result;
}

static void query_limited(struct gt_prober *prober)
{
    cJSON *list = gt_prober_call(prober, "mxSmlGetAllLimitedDevices", 0, NULL);
    const cJSON *id;
    unsigned asked = 0;
    cJSON_ArrayForEach(id, gt_get(list, "deviceId")) if (cJSON_IsNumber(id) && id->valueint >= 0 &&
                                                         asked++ < DEVICES_MAX)
        NOTE(prober, "mxSmlGetLimitedDeviceInfo", (uint32_t)id->valueint);
    cJSON_Delete(list);
}

/* The sensor of mxSmlGetTemperatureInfo, and kinds of mxSmlGetPciEventInfo that cannot be corrected; errors
 * that the bus reports (AER) are read from PCI. */
enum { HOTSPOT = 0, PCI_SYNC_FLOOD = 2, PCI_MMIO = 4 };

/* A call for each device in turn; `count` numbers of it, the second one is `second`. */
static void note_each(struct gt_prober *prober, uint64_t devices, const char *call, unsigned count,
                      uint32_t second)
{
    for (; devices; devices &= devices - 1)
        cJSON_Delete(gt_prober_call(prober, call, count, (uint32_t[]){gt_bit_first(devices), second}));
}

/* One function after the other, each for all devices: so a fault of a function shows at once. */
static void query_health(struct gt_prober *prober, uint64_t devices)
{
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (devices >> i & 1 && probe_plan_number(ASK(prober, "mxSmlGetDeviceState", i), 2, 2) == 0)
            NOTE(prober, "mxSmlGetDeviceUnavailableReason", i);
    note_each(prober, devices, "mxSmlGetTotalEccErrors", 1, 0);
    note_each(prober, devices, "mxSmlGetEccState", 1, 0);
    note_each(prober, devices, "mxSmlGetTemperatureInfo", 2, HOTSPOT);
    for (uint32_t kind = PCI_SYNC_FLOOD; kind <= PCI_MMIO; kind++)
        note_each(prober, devices, "mxSmlGetPciEventInfo", 2, kind);
}

static void query_device(struct gt_prober *prober, uint32_t device)
{
    NOTE(prober, "mxSmlGetMemoryInfo", device);
    NOTE(prober, "mxSmlGetBoardSerial", device);
    NOTE(prober, "mxSmlGetChipSerial", device);
    NOTE(prober, "mxSmlGetPcieInfo", device);
    NOTE(prober, "mxSmlGetPcieMaxLinkInfo", device);
    NOTE(prober, "mxSmlGetNodeAffinity", device, NODE_WORDS);
    NOTE(prober, "mxSmlGetCpuAffinity", device, CPU_WORDS);
    NOTE(prober, "mxSmlGetDeviceDieCount", device);
    NOTE(prober, "mxSmlGetDeviceVersion", device, 0);
}

static void query_ports(struct gt_prober *prober, uint32_t device)
{
    for (uint32_t port = 0; port < PORT_NUMBERS; port++)
        NOTE(prober, "mxSmlGetMetaXLinkRemoteInfo", device, port);
    NOTE(prober, "mxSmlGetMetaXLinkPortState", device);
    if (!answered(ASK(prober, "mxSmlGetMetaXLinkInfo", device)))
        NOTE(prober, "mxSmlGetMetaXLinkInfo_v2", device);
    NOTE(prober, "mxSmlGetMetaXLinkState", device);
    NOTE(prober, "mxSmlGetMetaXLinkTopo", device);
}

/* Who is there: the mask of devices that answer. */
static uint64_t query_identities(struct gt_prober *prober)
{
    uint64_t devices = 0;
    /* Without a credible count the devices are asked up to the first that does not answer. */
    unsigned count = probe_plan_number(gt_prober_call(prober, "mxSmlGetDeviceCount", 0, NULL),
                                       DEVICES_MAX + 1, DEVICES_MAX + 1);
    bool guess = count > DEVICES_MAX;
    if (guess)
        count = DEVICES_MAX;
    for (uint32_t i = 0; i < count; i++) {
        bool there = answered(ASK(prober, "mxSmlGetDeviceInfo", i));
        if (there)
            devices |= UINT64_C(1) << i;
        else if (guess)
            count = i;
    }
    return devices;
}

static void query_servers(struct gt_prober *prober, uint64_t devices)
{
    if (devices && !answered(gt_prober_call(prober, "mxSmlGetLocalAndMultipleRemoteUuid", 0, NULL)))
        cJSON_Delete(gt_prober_call(prober, "mxSmlGetLocalAndRemoteUuid", 0, NULL));
}

static void query_for_health(struct gt_prober *prober, uint64_t *ret_devices)
{
    uint64_t devices = query_identities(prober);
    query_limited(prober);
    query_health(prober, devices);
    note_each(prober, devices, "mxSmlGetMetaXLinkPortState", 1, 0);
    note_each(prober, devices, "mxSmlGetMetaXLinkState", 1, 0);
    query_servers(prober, devices);
    note_each(prober, devices, "mxSmlGetMemoryInfo", 1, 0); /* a scan judges by it, too */
    *ret_devices = devices;
}

static void query_all(struct gt_prober *prober, uint64_t *ret_devices)
{
    uint64_t devices = query_identities(prober);
    query_limited(prober);
    query_health(prober, devices);
    /* Both directions of a pair, so that the reader can compare them. */
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (devices >> i & 1)
            note_each(prober, devices & ~(UINT64_C(1) << i), "mxSmlGetDeviceTopology", 2, i);
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (devices >> i & 1)
            query_ports(prober, i);
    query_servers(prober, devices);
    if (devices)
        NOTE(prober, "mxSmlGetDeviceVersion", gt_bit_first(devices), 1);
    cJSON_Delete(gt_prober_call(prober, "mxSmlGetPfDeviceCount", 0, NULL));
    cJSON_Delete(gt_prober_call(prober, "mxSmlGetMacaVersion", 0, NULL));
    for (uint32_t i = 0; i < DEVICES_MAX; i++)
        if (devices >> i & 1)
            query_device(prober, i);
    *ret_devices = devices;
}

const struct gt_probe_plan gt_plan_scan = {.ask = query_all};
const struct gt_probe_plan gt_plan_health = {.ask = query_for_health, .patient = true};
