/* SPDX-License-Identifier: Apache-2.0 */
#include <dlfcn.h>
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

/* What a call fills: a struct, or (`key` NULL) a number. */
struct gt_vendor_shape {
    size_t size;
    struct member {
        const char *key;
        enum { NO_MORE, UNSIGNED, SIGNED, SIGNED_LONG, REAL, TEXT } type;
        size_t at, size;
    } members[9];
};

#define MEMBER(of, type, key, member)                                                                        \
    {                                                                                                        \
        key, type, offsetof(struct of, member), sizeof(((struct of *)NULL)->member)                          \
    }

static const struct gt_vendor_shape an_unsigned = {sizeof(uint32_t), {{NULL, UNSIGNED, 0, 0}}};
static const struct gt_vendor_shape an_int = {sizeof(int32_t), {{NULL, SIGNED, 0, 0}}};
static const struct gt_vendor_shape info = {
    sizeof(struct mx_device_info),
    {MEMBER(mx_device_info, UNSIGNED, "deviceId", device_id), MEMBER(mx_device_info, TEXT, "bdfId", bdf),
     MEMBER(mx_device_info, UNSIGNED, "gpuId", gpu_id), MEMBER(mx_device_info, UNSIGNED, "nodeId", node_id),
     MEMBER(mx_device_info, TEXT, "uuid", uuid), MEMBER(mx_device_info, UNSIGNED, "brand", brand),
     MEMBER(mx_device_info, UNSIGNED, "mode", mode), MEMBER(mx_device_info, TEXT, "deviceName", name)}};
static const struct gt_vendor_shape memory = {sizeof(struct mx_memory),
                                              {MEMBER(mx_memory, SIGNED_LONG, "vramTotal", vram_total),
                                               MEMBER(mx_memory, SIGNED_LONG, "vramUse", vram_used)}};
static const struct gt_vendor_shape one_link = {
    sizeof(struct mx_link),
    {MEMBER(mx_link, REAL, "speed", speed), MEMBER(mx_link, UNSIGNED, "width", width)}};
static const struct gt_vendor_shape remote = {
    sizeof(struct mx_remote),
    {MEMBER(mx_remote, SIGNED, "deviceId", device_id), MEMBER(mx_remote, TEXT, "bdfId", bdf)}};
static const struct gt_vendor_shape link_topology = {
    sizeof(struct mx_link_topology),
    {MEMBER(mx_link_topology, UNSIGNED, "topologyId", topology_id),
     MEMBER(mx_link_topology, UNSIGNED, "socketId", socket_id),
     MEMBER(mx_link_topology, UNSIGNED, "dieId", die_id)}};
static const struct gt_vendor_shape reason = {
    sizeof(struct mx_reason),
    {MEMBER(mx_reason, SIGNED, "code", code), MEMBER(mx_reason, TEXT, "text", text)}};
static const struct gt_vendor_shape pci_event = {
    sizeof(struct mx_pci_event),
    {MEMBER(mx_pci_event, SIGNED, "count", count), MEMBER(mx_pci_event, TEXT, "name", name)}};
static const struct gt_vendor_shape ecc = {
    sizeof(struct mx_ecc),
    {MEMBER(mx_ecc, UNSIGNED, "sramCE", sram_ce), MEMBER(mx_ecc, UNSIGNED, "sramUE", sram_ue),
     MEMBER(mx_ecc, UNSIGNED, "dramCE", dram_ce), MEMBER(mx_ecc, UNSIGNED, "dramUE", dram_ue),
     MEMBER(mx_ecc, UNSIGNED, "retiredPage", retired_pages)}};

static void add_member(struct gt_buf *to, const char *key, const struct member *member, const void *from)
{
    switch (member->type) {
    case UNSIGNED:
        gt_json_add_unsigned(to, key, *(const uint32_t *)from);
        break;
    case SIGNED:
        gt_json_add_int(to, key, *(const int32_t *)from);
        break;
    case SIGNED_LONG:
        gt_json_add_int(to, key, *(const int64_t *)from);
        break;
    case REAL:
        gt_json_add_real(to, key, (double)*(const float *)from, 9);
        break;
    case TEXT:
        vendor_calls_add_text(to, key, from, member->size);
        break;
    case NO_MORE:
        break;
    }
}

static void add_shape(struct gt_buf *to, const char *key, const struct gt_vendor_shape *shape,
                      const unsigned char *from)
{
    if (!shape->members->key) {
        add_member(to, key, shape->members, from);
        return;
    }
    gt_json_begin(to, key, '{');
    for (const struct member *member = shape->members; member->type; member++)
        add_member(to, member->key, member, from + member->at);
    gt_json_end(to, '}');
}

/* The value of an answer: at most `most` of so many. */
static void add_list(struct gt_buf *to, const struct gt_vendor_shape *shape, const void *from, uint32_t count,
                     uint32_t most)
{
    gt_json_begin(to, "value", '[');
    for (uint32_t i = 0; i < count && i < most; i++)
        add_shape(to, NULL, shape, (const unsigned char *)from + i * shape->size);
    gt_json_end(to, ']');
}

/* All calls that fill a struct or a number of one device, or of one and another number. */
static void run_shape(const struct gt_vendor_query *query, struct gt_buf *to)
{
    const struct gt_vendor_shape *shape = query->call->shape;
    unsigned char *filled = fresh(shape->size);
    uint32_t code = query->call->args == 1
                        ? ((mx_fill *)query->function)(query->args[0], filled)
                        : ((mx_fill_of *)query->function)(query->args[0], query->args[1], filled);
    if (vendor_calls_begin(to, code))
        add_shape(to, "value", shape, filled);
}

static void run_init(const struct gt_vendor_query *query, struct gt_buf *to)
{
    fresh(0);
    vendor_calls_begin(to, ((mx_init *)query->function)());
}

static void run_count(const struct gt_vendor_query *query, struct gt_buf *to)
{
    fresh(0);
    gt_json_add_unsigned(to, "rc", 0);
    gt_json_add_unsigned(to, "value", ((mx_count *)query->function)());
}

/* All calls that fill a text: with 0, 1 or 2 arguments before it. Asks again where it wants more room. */
static void run_text(const struct gt_vendor_query *query, struct gt_buf *to)
{
    uint32_t code = MX_INSUFFICIENT_SIZE, capacity = 64;
    for (unsigned attempt = 0; attempt < 2 && code == MX_INSUFFICIENT_SIZE; attempt++) {
        uint32_t size = capacity;
        char *text = fresh(capacity);
        if (query->call->args == 0)
            code = ((mx_text *)query->function)(text, &size);
        else if (query->call->args == 1)
            code = ((mx_device_text *)query->function)(query->args[0], text, &size);
        else
            code = ((mx_unit_text *)query->function)(query->args[0], query->args[1], text, &size);
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

static void run_ids(const struct gt_vendor_query *query, struct gt_buf *to)
{
    struct mx_id_list *list = fresh(sizeof(*list));
    if (!vendor_calls_begin(to, ((mx_get_ids *)query->function)(list)))
        return;
    gt_json_printf(to, "'value': {'number': %d, 'deviceId': [", list->number);
    for (int32_t i = 0; i < list->number && i < MX_LIMITED_MAX; i++)
        gt_json_add_int(to, NULL, list->ids[i]);
    gt_buf_puts(to, "]}");
}

static void run_mask(const struct gt_vendor_query *query, struct gt_buf *to)
{
    uint32_t words = query->args[1] < WORDS_MAX ? query->args[1] : WORDS_MAX;
    uint32_t *mask = fresh(words * sizeof(*mask));
    if (vendor_calls_begin(to, ((mx_get_mask *)query->function)(query->args[0], words, mask)))
        add_list(to, &an_unsigned, mask, words, words);
}

static void run_port_links(const struct gt_vendor_query *query, struct gt_buf *to)
{
    struct mx_port_links *links = fresh(sizeof(*links));
    struct mx_link all[MX_PORTS];
    uint32_t code = ((mx_get_port_links *)query->function)(query->args[0], links);
    for (unsigned i = 0; i < MX_PORTS; i++)
        all[i] = (struct mx_link){links->speed[i], links->width[i]};
    if (vendor_calls_begin(to, code))
        add_list(to, &one_link, all, MX_PORTS, MX_PORTS);
}

static void run_port_links_v2(const struct gt_vendor_query *query, struct gt_buf *to)
{
    uint32_t size = MX_PORTS;
    struct mx_link *links = fresh(PORT_SLOTS * sizeof(*links));
    if (vendor_calls_begin(to, ((mx_get_port_links_v2 *)query->function)(query->args[0], &size, links)))
        add_list(to, &one_link, links, size, MX_PORTS);
}

static void run_link_state(const struct gt_vendor_query *query, struct gt_buf *to)
{
    enum { CAPACITY = 128 };
    uint32_t state = 0, size = CAPACITY;
    char *text = fresh(CAPACITY);
    if (!vendor_calls_begin(to, ((mx_get_link_state *)query->function)(query->args[0], &state, text, &size)))
        return;
    gt_json_begin(to, "value", '{');
    gt_json_add_unsigned(to, "code", state);
    vendor_calls_add_text(to, "text", text, CAPACITY);
    gt_json_end(to, '}');
}

static void run_port_states(const struct gt_vendor_query *query, struct gt_buf *to)
{
    /* Whether the size counts ports or bytes is not written down: asked for ports first, then as it wants. */
    uint32_t size = MX_PORTS;
    uint32_t *states = fresh(PORT_SLOTS * sizeof(*states));
    uint32_t code = ((mx_get_port_states *)query->function)(query->args[0], states, &size);
    if (code == MX_INSUFFICIENT_SIZE && size > MX_PORTS && size <= PORT_SLOTS) {
        states = fresh(PORT_SLOTS * sizeof(*states));
        code = ((mx_get_port_states *)query->function)(query->args[0], states, &size);
    }
    if (vendor_calls_begin(to, code))
        add_list(to, &an_unsigned, states, size, MX_PORTS);
}

static void run_pci_events(const struct gt_vendor_query *query, struct gt_buf *to)
{
    uint32_t size = PCI_EVENTS;
    struct mx_pci_event *events = fresh(PCI_EVENTS * sizeof(*events));
    if (vendor_calls_begin(
            to, ((mx_get_pci_events *)query->function)(query->args[0], query->args[1], events, &size)))
        add_list(to, &pci_event, events, size, PCI_EVENTS);
}

static void run_remote_server(const struct gt_vendor_query *query, struct gt_buf *to)
{
    uint32_t size = REMOTE_CAPACITY;
    char *texts = fresh((size_t)2 * REMOTE_TEXT);
    if (!vendor_calls_begin(to, ((mx_get_remote_server *)query->function)(texts, texts + REMOTE_TEXT, &size)))
        return;
    gt_json_begin(to, "value", '{');
    vendor_calls_add_text(to, "local", texts, REMOTE_TEXT);
    vendor_calls_add_text(to, "remote", texts + REMOTE_TEXT, REMOTE_TEXT);
    gt_json_end(to, '}');
}

static void run_remote_servers(const struct gt_vendor_query *query, struct gt_buf *to)
{
    static char *remotes[REMOTES];
    uint32_t count = REMOTES, size = REMOTE_CAPACITY;
    char *texts = fresh((size_t)(1 + REMOTES) * REMOTE_TEXT);
    for (unsigned i = 0; i < REMOTES; i++)
        remotes[i] = texts + (size_t)(1 + i) * REMOTE_TEXT;
    if (!vendor_calls_begin(to, ((mx_get_remote_servers *)query->function)(texts, remotes, &count, &size)))
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
    {"mxSmlInit", 0, run_init, NULL},
    {"mxSmlGetDeviceCount", 0, run_count, NULL},
    {"mxSmlGetPfDeviceCount", 0, run_count, NULL},
    {"mxSmlGetMacaVersion", 0, run_text, NULL},
    {"mxSmlGetDeviceVersion", 2, run_text, NULL},
    {"mxSmlGetDeviceInfo", 1, run_shape, &info},
    {"mxSmlGetAllLimitedDevices", 0, run_ids, NULL},
    {"mxSmlGetLimitedDeviceInfo", 1, run_shape, &info},
    {"mxSmlGetDeviceDieCount", 1, run_shape, &an_unsigned},
    {"mxSmlGetBoardSerial", 1, run_text, NULL},
    {"mxSmlGetChipSerial", 1, run_text, NULL},
    {"mxSmlGetMemoryInfo", 1, run_shape, &memory},
    {"mxSmlGetPcieInfo", 1, run_shape, &one_link},
    {"mxSmlGetPcieMaxLinkInfo", 1, run_shape, &one_link},
    {"mxSmlGetDeviceTopology", 2, run_shape, &an_unsigned},
    {"mxSmlGetCpuAffinity", 2, run_mask, NULL},
    {"mxSmlGetNodeAffinity", 2, run_mask, NULL},
    {"mxSmlGetMetaXLinkInfo", 1, run_port_links, NULL},
    {"mxSmlGetMetaXLinkInfo_v2", 1, run_port_links_v2, NULL},
    {"mxSmlGetMetaXLinkRemoteInfo", 2, run_shape, &remote},
    {"mxSmlGetMetaXLinkTopo", 1, run_shape, &link_topology},
    {"mxSmlGetMetaXLinkState", 1, run_link_state, NULL},
    {"mxSmlGetMetaXLinkPortState", 1, run_port_states, NULL},
    {"mxSmlGetLocalAndRemoteUuid", 0, run_remote_server, NULL},
    {"mxSmlGetLocalAndMultipleRemoteUuid", 0, run_remote_servers, NULL},
    {"mxSmlGetDeviceState", 1, run_shape, &an_int},
    {"mxSmlGetDeviceUnavailableReason", 1, run_shape, &reason},
    {"mxSmlGetTotalEccErrors", 1, run_shape, &ecc},
    {"mxSmlGetEccState", 1, run_shape, &an_unsigned},
    {"mxSmlGetTemperatureInfo", 2, run_shape, &an_int},
    {"mxSmlGetPciEventInfo", 2, run_pci_events, NULL},
};
const unsigned gt_vendor_call_count = GT_COUNT(gt_vendor_calls);
