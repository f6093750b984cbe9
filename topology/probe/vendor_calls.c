/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/json_write.h"
#include "topology/probe/mxsml_abi.h"
#include "topology/probe/vendor.h"

static void *library;

bool gt_vendor_open(const char *path, const char **ret_why)
{
    if (!library)
        library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
        return true;
    const char *why = dlerror();
    *ret_why = why ? why : "dlopen failed";
    return false;
}

gt_vendor_function *gt_vendor_symbol(const char *name)
{
    /* ISO C has no cast from an object pointer to a function pointer. */
    void *address = library ? dlsym(library, name) : NULL;
    gt_vendor_function *function;
    memcpy(&function, &address, sizeof(function));
    return function;
}

/*
 * Each call gets zeroed memory with a guard behind it: a library that knows a longer structure than ours, or
 * ignores the size it is given, is found out instead of corrupting the worker unseen.
 */
enum { AREA = 32768, GUARD = 4096, GUARD_BYTE = 0xa5, TEXT_LIMIT = 4096, WORDS_MAX = 32 };
enum { REMOTES = 128, REMOTE_TEXT = 128, REMOTE_CAPACITY = 64, PORT_SLOTS = 64, PCI_EVENTS = 64 };

static unsigned char *area;
static size_t area_used;

static void *fresh(size_t size)
{
    if (!area && !(area = malloc(AREA + GUARD)))
        abort(); /* the supervisor reports the worker as crashed */
    area_used = size < AREA ? size : AREA;
    memset(area, 0, area_used);
    memset(area + area_used, GUARD_BYTE, GUARD);
    return area;
}

static bool overrun(void)
{
    for (size_t i = 0; i < GUARD; i++)
        if (area[area_used + i] != GUARD_BYTE)
            return true;
    return false;
}

/* The beginning of an answer; false where there is no value. */
static bool vendor_calls_begin(struct gt_buf *to, uint32_t code)
{
    gt_json_add_unsigned(to, "rc", code);
    if (overrun()) {
        gt_json_add_text(to, "bad", "wrote more than its structure holds");
        return false;
    }
    return code == MX_OK;
}

/* A text of at most `size` bytes, null where its end is missing. */
static void vendor_calls_add_text(struct gt_buf *to, const char *key, const char *text, size_t size)
{
    char copy[TEXT_LIMIT + 1];
    size_t len = strnlen(text, size);
    if (len == size || len > TEXT_LIMIT) {
        gt_json_add_null(to, key);
        return;
    }
    memcpy(copy, text, len);
    copy[len] = '\0';
    gt_json_add_text(to, key, copy);
}

static void vendor_calls_add_link(struct gt_buf *to, const char *key, float speed, uint32_t width)
{
    gt_json_begin(to, key, '{');
    gt_json_add_real(to, "speed", (double)speed, 9);
    gt_json_add_unsigned(to, "width", width);
    gt_json_end(to, '}');
}

static void run_init(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    (void)args;
    fresh(0);
    vendor_calls_begin(to, ((mx_init *)function)());
}

static void run_count(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    (void)args;
    fresh(0);
    gt_json_add_unsigned(to, "rc", 0);
    gt_json_add_unsigned(to, "value", ((mx_count *)function)());
}

/* All calls that fill a text: with 0, 1 or 2 arguments before it. Asks again where it wants more room. */
static void run_text_n(gt_vendor_function *function, const uint32_t *args, unsigned n, uint32_t capacity,
                       struct gt_buf *to)
{
    uint32_t code = MX_INSUFFICIENT_SIZE;
    for (unsigned attempt = 0; attempt < 2 && code == MX_INSUFFICIENT_SIZE; attempt++) {
        uint32_t size = capacity;
        char *text = fresh(capacity);
        if (n == 0)
            code = ((mx_text *)function)(text, &size);
        else if (n == 1)
            code = ((mx_device_text *)function)(args[0], text, &size);
        else
            code = ((mx_unit_text *)function)(args[0], args[1], text, &size);
        if (code != MX_INSUFFICIENT_SIZE || size <= capacity || size > TEXT_LIMIT)
            break;
        capacity = size;
    }
    if (!vendor_calls_begin(to, code))
        return;
    gt_json_begin(to, "value", '{');
    vendor_calls_add_text(to, "text", (const char *)area, capacity);
    gt_json_end(to, '}');
}

static void run_text(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    run_text_n(function, args, 0, 64, to);
}

static void run_device_text(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    run_text_n(function, args, 1, 64, to);
}

static void run_unit_text(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    run_text_n(function, args, 2, 64, to);
}

static void run_info(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_device_info *info = fresh(sizeof(*info));
    if (!vendor_calls_begin(to, ((mx_get_info *)function)(args[0], info)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_unsigned(to, "deviceId", info->device_id);
    vendor_calls_add_text(to, "bdfId", info->bdf, sizeof(info->bdf));
    gt_json_add_unsigned(to, "gpuId", info->gpu_id);
    gt_json_add_unsigned(to, "nodeId", info->node_id);
    vendor_calls_add_text(to, "uuid", info->uuid, sizeof(info->uuid));
    gt_json_add_unsigned(to, "brand", info->brand);
    gt_json_add_unsigned(to, "mode", info->mode);
    vendor_calls_add_text(to, "deviceName", info->name, sizeof(info->name));
    gt_json_end(to, '}');
}

static void run_ids(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    (void)args;
    struct mx_id_list *list = fresh(sizeof(*list));
    if (!vendor_calls_begin(to, ((mx_get_ids *)function)(list)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_int(to, "number", list->number);
    gt_json_begin(to, "deviceId", '[');
    for (int32_t i = 0; i < list->number && i < MX_LIMITED_MAX; i++)
        gt_json_add_int(to, NULL, list->ids[i]);
    gt_buf_puts(to, "]}");
}

static void run_unsigned(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    uint32_t *value = fresh(sizeof(*value));
    if (vendor_calls_begin(to, ((mx_get_unsigned *)function)(args[0], value)))
        gt_json_add_unsigned(to, "value", *value);
}

static void run_int(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    int32_t *value = fresh(sizeof(*value));
    if (vendor_calls_begin(to, ((mx_get_int *)function)(args[0], value)))
        gt_json_add_int(to, "value", *value);
}

static void run_memory(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_memory *memory = fresh(sizeof(*memory));
    if (!vendor_calls_begin(to, ((mx_get_memory *)function)(args[0], memory)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_int(to, "vramTotal", memory->vram_total);
    gt_json_add_int(to, "vramUse", memory->vram_used);
    gt_json_end(to, '}');
}

static void run_link(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_link *link = fresh(sizeof(*link));
    if (!vendor_calls_begin(to, ((mx_get_link *)function)(args[0], link)))
        return;
    vendor_calls_add_link(to, "value", link->speed, link->width);
}

static void run_pair(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    uint32_t *value = fresh(sizeof(*value));
    if (vendor_calls_begin(to, ((mx_get_pair *)function)(args[0], args[1], value)))
        gt_json_add_unsigned(to, "value", *value);
}

static void run_mask(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    uint32_t words = args[1] < WORDS_MAX ? args[1] : WORDS_MAX;
    uint32_t *mask = fresh(words * sizeof(*mask));
    if (!vendor_calls_begin(to, ((mx_get_mask *)function)(args[0], words, mask)))
        return;
    gt_json_begin(to, "value", '[');
    for (uint32_t i = 0; i < words; i++)
        gt_json_add_unsigned(to, NULL, mask[i]);
    gt_json_end(to, ']');
}

static void run_port_links(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_port_links *links = fresh(sizeof(*links));
    if (!vendor_calls_begin(to, ((mx_get_port_links *)function)(args[0], links)))
        return;
    gt_json_begin(to, "value", '[');
    for (unsigned i = 0; i < MX_PORTS; i++)
        vendor_calls_add_link(to, NULL, links->speed[i], links->width[i]);
    gt_json_end(to, ']');
}

static void run_port_links_v2(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    uint32_t size = MX_PORTS;
    struct mx_link *links = fresh(PORT_SLOTS * sizeof(*links));
    if (!vendor_calls_begin(to, ((mx_get_port_links_v2 *)function)(args[0], &size, links)))
        return;
    gt_json_begin(to, "value", '[');
    for (unsigned i = 0; i < MX_PORTS && i < size; i++)
        vendor_calls_add_link(to, NULL, links[i].speed, links[i].width);
    gt_json_end(to, ']');
}

static void run_remote(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_remote *remote = fresh(sizeof(*remote));
    if (!vendor_calls_begin(to, ((mx_get_remote *)function)(args[0], args[1], remote)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_int(to, "deviceId", remote->device_id);
    vendor_calls_add_text(to, "bdfId", remote->bdf, sizeof(remote->bdf));
    gt_json_end(to, '}');
}

static void run_link_topology(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_link_topology *topology = fresh(sizeof(*topology));
    if (!vendor_calls_begin(to, ((mx_get_link_topology *)function)(args[0], topology)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_unsigned(to, "topologyId", topology->topology_id);
    gt_json_add_unsigned(to, "socketId", topology->socket_id);
    gt_json_add_unsigned(to, "dieId", topology->die_id);
    gt_json_end(to, '}');
}

static void run_link_state(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    enum { CAPACITY = 128 };
    uint32_t state = 0, size = CAPACITY;
    char *text = fresh(CAPACITY);
    if (!vendor_calls_begin(to, ((mx_get_link_state *)function)(args[0], &state, text, &size)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_unsigned(to, "code", state);
    vendor_calls_add_text(to, "text", text, CAPACITY);
    gt_json_end(to, '}');
}

static void run_port_states(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    /* Whether the size counts ports or bytes is not written down: asked for ports first, then as it wants. */
    uint32_t size = MX_PORTS;
    uint32_t *states = fresh(PORT_SLOTS * sizeof(*states));
    uint32_t code = ((mx_get_port_states *)function)(args[0], states, &size);
    if (code == MX_INSUFFICIENT_SIZE && size > MX_PORTS && size <= PORT_SLOTS) {
        states = fresh(PORT_SLOTS * sizeof(*states));
        code = ((mx_get_port_states *)function)(args[0], states, &size);
    }
    if (!vendor_calls_begin(to, code))
        return;
    gt_json_begin(to, "value", '[');
    for (unsigned i = 0; i < MX_PORTS && i < size; i++)
        gt_json_add_unsigned(to, NULL, states[i]);
    gt_json_end(to, ']');
}

static void run_reason(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_reason *reason = fresh(sizeof(*reason));
    if (!vendor_calls_begin(to, ((mx_get_reason *)function)(args[0], reason)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_int(to, "code", reason->code);
    vendor_calls_add_text(to, "text", reason->text, sizeof(reason->text));
    gt_json_end(to, '}');
}

static void run_ecc(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    struct mx_ecc *ecc = fresh(sizeof(*ecc));
    if (!vendor_calls_begin(to, ((mx_get_ecc *)function)(args[0], ecc)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_unsigned(to, "sramCE", ecc->sram_ce);
    gt_json_add_unsigned(to, "sramUE", ecc->sram_ue);
    gt_json_add_unsigned(to, "dramCE", ecc->dram_ce);
    gt_json_add_unsigned(to, "dramUE", ecc->dram_ue);
    gt_json_add_unsigned(to, "retiredPage", ecc->retired_pages);
    gt_json_end(to, '}');
}

static void run_sensor(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    int32_t *value = fresh(sizeof(*value));
    if (vendor_calls_begin(to, ((mx_get_sensor *)function)(args[0], args[1], value)))
        gt_json_add_int(to, "value", *value);
}

static void run_pci_events(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    uint32_t size = PCI_EVENTS;
    struct mx_pci_event *events = fresh(PCI_EVENTS * sizeof(*events));
    if (!vendor_calls_begin(to, ((mx_get_pci_events *)function)(args[0], args[1], events, &size)))
        return;
    gt_json_begin(to, "value", '[');
    for (unsigned i = 0; i < PCI_EVENTS && i < size; i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_int(to, "count", events[i].count);
        vendor_calls_add_text(to, "name", events[i].name, sizeof(events[i].name));
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

static void run_remote_server(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    (void)args;
    uint32_t size = REMOTE_CAPACITY;
    char *texts = fresh((size_t)2 * REMOTE_TEXT);
    if (!vendor_calls_begin(to, ((mx_get_remote_server *)function)(texts, texts + REMOTE_TEXT, &size)))
        return;
    gt_json_begin(to, "value", '{');
    vendor_calls_add_text(to, "local", texts, REMOTE_TEXT);
    vendor_calls_add_text(to, "remote", texts + REMOTE_TEXT, REMOTE_TEXT);
    gt_json_end(to, '}');
}

static void run_remote_servers(gt_vendor_function *function, const uint32_t *args, struct gt_buf *to)
{
    (void)args;
    static char *remotes[REMOTES];
    uint32_t count = REMOTES, size = REMOTE_CAPACITY;
    char *texts = fresh((size_t)(1 + REMOTES) * REMOTE_TEXT);
    for (unsigned i = 0; i < REMOTES; i++)
        remotes[i] = texts + (size_t)(1 + i) * REMOTE_TEXT;
    if (!vendor_calls_begin(to, ((mx_get_remote_servers *)function)(texts, remotes, &count, &size)))
        return;
    gt_json_begin(to, "value", '{');
    vendor_calls_add_text(to, "local", texts, REMOTE_TEXT);
    gt_json_add_unsigned(to, "count", count);
    gt_json_begin(to, "remotes", '[');
    for (unsigned i = 0; i < count && i < REMOTES; i++) {
        gt_json_begin(to, NULL, '{');
        vendor_calls_add_text(to, "uuid", texts + (size_t)(1 + i) * REMOTE_TEXT, REMOTE_TEXT);
        gt_json_end(to, '}');
    }
    gt_buf_puts(to, "]}");
}

const struct gt_vendor_call gt_vendor_calls[] = {
    {"mxSmlInit", 0, run_init},
    {"mxSmlGetDeviceCount", 0, run_count},
    {"mxSmlGetPfDeviceCount", 0, run_count},
    {"mxSmlGetMacaVersion", 0, run_text},
    {"mxSmlGetDeviceVersion", 2, run_unit_text},
    {"mxSmlGetDeviceInfo", 1, run_info},
    {"mxSmlGetAllLimitedDevices", 0, run_ids},
    {"mxSmlGetLimitedDeviceInfo", 1, run_info},
    {"mxSmlGetDeviceDieCount", 1, run_unsigned},
    {"mxSmlGetBoardSerial", 1, run_device_text},
    {"mxSmlGetChipSerial", 1, run_device_text},
    {"mxSmlGetMemoryInfo", 1, run_memory},
    {"mxSmlGetPcieInfo", 1, run_link},
    {"mxSmlGetPcieMaxLinkInfo", 1, run_link},
    {"mxSmlGetDeviceTopology", 2, run_pair},
    {"mxSmlGetCpuAffinity", 2, run_mask},
    {"mxSmlGetNodeAffinity", 2, run_mask},
    {"mxSmlGetMetaXLinkInfo", 1, run_port_links},
    {"mxSmlGetMetaXLinkInfo_v2", 1, run_port_links_v2},
    {"mxSmlGetMetaXLinkRemoteInfo", 2, run_remote},
    {"mxSmlGetMetaXLinkTopo", 1, run_link_topology},
    {"mxSmlGetMetaXLinkState", 1, run_link_state},
    {"mxSmlGetMetaXLinkPortState", 1, run_port_states},
    {"mxSmlGetLocalAndRemoteUuid", 0, run_remote_server},
    {"mxSmlGetLocalAndMultipleRemoteUuid", 0, run_remote_servers},
    {"mxSmlGetDeviceState", 1, run_int},
    {"mxSmlGetDeviceUnavailableReason", 1, run_reason},
    {"mxSmlGetTotalEccErrors", 1, run_ecc},
    {"mxSmlGetEccState", 1, run_unsigned},
    {"mxSmlGetTemperatureInfo", 2, run_sensor},
    {"mxSmlGetPciEventInfo", 2, run_pci_events},
};
const unsigned gt_vendor_call_count = GT_COUNT(gt_vendor_calls);
