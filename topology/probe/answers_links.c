/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "topology/probe/answers_internal.h"

enum {
    LEVEL_MX = 5,
    LEVEL_LAST = 8,
    LEVEL_UNKNOWN = 255, /* not asked, or it failed */
    PEER_NONE = -1,      /* nothing on the port, or not a GPU of this node */
    STATE_UNKNOWN = -1,
    STATE_UP = 1,
};

/* Everything that was said about links, by the node's GPU indices. */
struct wiring {
    unsigned char level[GT_GPUS_MAX][GT_GPUS_MAX];
    signed char peer[GT_GPUS_MAX][GT_VENDOR_LINK_NUMBERS];
    bool reported_peers[GT_GPUS_MAX];                                    /* any answer about a port */
    bool there[GT_VENDOR_LINK_NUMBERS], refused[GT_VENDOR_LINK_NUMBERS]; /* link numbers, over all GPUs */
    signed char state[GT_GPUS_MAX][GT_VENDOR_PORTS];
    double speed[GT_GPUS_MAX][GT_VENDOR_PORTS];
    unsigned width[GT_GPUS_MAX][GT_VENDOR_PORTS];
    unsigned link_state[GT_GPUS_MAX]; /* 0: enabled, or not reported */
    unsigned base;                    /* the link number of the first port */
};

static void read_level(struct gt_reading *reading, const struct gt_answer *answer, unsigned a,
                       struct wiring *wiring)
{
    uint64_t level;
    if (answer->arg_count != 2 || answer->args[1] >= GT_VENDOR_DEVICES ||
        reading->gpu_of[answer->args[1]] < 0)
        return;
    unsigned b = (unsigned)reading->gpu_of[answer->args[1]];
    if (gt_json_is_unsigned(answer->value, LEVEL_LAST, &level))
        wiring->level[a][b] = (unsigned char)level;
    else
        gt_node_missing(reading->node, "vendor library, topology", "GPUs %u and %u: an unknown level",
                        answer->args[0], answer->args[1]);
}

/*
 * The local GPU at the other end, by BDF and device number together: GPUs of another server may well have the
 * BDF of one of ours, and what their number is then is not known. Where both are given they must agree.
 */
static int find_peer(const struct gt_reading *reading, const struct gt_answer *answer)
{
    int64_t device = -1;
    char bdf[GT_BDF_SIZE];
    int by_number = PEER_NONE;
    if (gt_json_is_int(gt_get(answer->value, "deviceId"), &device) && device >= 0 &&
        device < GT_VENDOR_DEVICES)
        by_number = reading->gpu_of[device];
    if (!gt_answer_bdf(answer, bdf))
        return by_number;
    const struct gt_node *node = reading->node;
    const struct gt_gpu *gpu = GT_FIND(node->gpus, node->gpu_count, bdf, bdf);
    int at = gpu ? (int)(gpu - node->gpus) : PEER_NONE;
    return device < 0 || by_number == at ? at : PEER_NONE;
}

static void read_remote(struct gt_reading *reading, const struct gt_answer *answer, unsigned gpu,
                        struct wiring *wiring)
{
    if (answer->arg_count != 2 || answer->args[1] >= GT_VENDOR_LINK_NUMBERS)
        return;
    unsigned number = answer->args[1];
    wiring->refused[number] =
        wiring->refused[number] || (!answer->why && answer->code != 0 && answer->code != 2);
    if (!answer->why && (answer->code == 0 || answer->code == 2))
        wiring->reported_peers[gpu] = true;
    if (!answer->value)
        return;
    wiring->there[number] = true;
    int peer = find_peer(reading, answer);
    wiring->peer[gpu][number] = peer == (int)gpu ? PEER_NONE : (signed char)peer;
}

static void read_port_links(const struct gt_answer *answer, unsigned gpu, struct wiring *wiring)
{
    const cJSON *port;
    unsigned i = 0;
    cJSON_ArrayForEach(port, answer->value)
    {
        const cJSON *speed = gt_get(port, "speed");
        uint64_t width;
        if (i == GT_VENDOR_PORTS)
            return;
        if (cJSON_IsNumber(speed) && speed->valuedouble > 0 && speed->valuedouble <= GT_LINK_SPEED_MAX)
            wiring->speed[gpu][i] = speed->valuedouble;
        if (gt_json_is_unsigned(gt_get(port, "width"), GT_LINK_WIDTH_MAX, &width))
            wiring->width[gpu][i] = (unsigned)width;
        i++;
    }
}

static void read_port_states(const struct gt_answer *answer, unsigned gpu, struct wiring *wiring)
{
    const cJSON *state;
    unsigned i = 0;
    cJSON_ArrayForEach(state, answer->value)
    {
        uint64_t value;
        if (i == GT_VENDOR_PORTS)
            return;
        if (gt_json_is_unsigned(state, 5, &value))
            wiring->state[gpu][i] = (signed char)value;
        i++;
    }
}

static void read_link_state(struct gt_reading *reading, const struct gt_answer *answer, unsigned gpu,
                            struct wiring *wiring)
{
    static const char *const texts[] = {
        [1] = "disabled by a tool",
        [2] = "disabled by SR-IOV",
        [3] = "the number of GPUs does not suit the topology",
        [4] = "training failed",
    };
    uint64_t code;
    if (!gt_json_is_unsigned(gt_get(answer->value, "code"), GT_COUNT(texts) - 1, &code)) {
        gt_node_missing(reading->node, "vendor library, MetaXLink state", "GPU %u: an unknown code",
                        answer->args[0]);
        return;
    }
    wiring->link_state[gpu] = (unsigned)code;
    if (code)
        gt_node_missing(reading->node, "MetaXLink", "GPU %u: %s", answer->args[0], texts[code]);
}

static void read_wiring(struct gt_reading *reading, struct wiring *wiring)
{
    memset(wiring, 0, sizeof(*wiring));
    memset(wiring->level, LEVEL_UNKNOWN, sizeof(wiring->level));
    memset(wiring->peer, PEER_NONE, sizeof(wiring->peer));
    memset(wiring->state, STATE_UNKNOWN, sizeof(wiring->state));
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        const struct gt_gpu *known = gt_reading_gpu(reading, answer);
        if (!known)
            continue;
        unsigned gpu = (unsigned)(known - reading->node->gpus);
        if (strcmp(answer->call, "mxSmlGetMetaXLinkRemoteInfo") == 0)
            read_remote(reading, answer, gpu, wiring);
        else if (gt_answer_is(answer, "mxSmlGetDeviceTopology"))
            read_level(reading, answer, gpu, wiring);
        else if (gt_answer_is(answer, "mxSmlGetMetaXLinkInfo") ||
                 gt_answer_is(answer, "mxSmlGetMetaXLinkInfo_v2"))
            read_port_links(answer, gpu, wiring);
        else if (gt_answer_is(answer, "mxSmlGetMetaXLinkPortState"))
            read_port_states(answer, gpu, wiring);
        else if (gt_answer_is(answer, "mxSmlGetMetaXLinkState"))
            read_link_state(reading, answer, gpu, wiring);
    }
}

/*
 * Whether link numbers start at 0 or 1 is not published. Decided from the answers of the whole node: a link 0
 * or a link 7 that exists; else the base under which more links fall on ports that have a speed and a width;
 * else a number that was refused outright; else 0.
 */
static unsigned find_base(const struct wiring *wiring, unsigned gpus)
{
    unsigned matches[2] = {0, 0};
    if (wiring->there[0])
        return 0;
    if (wiring->there[GT_VENDOR_PORTS])
        return 1;
    for (unsigned gpu = 0; gpu < gpus; gpu++)
        for (unsigned number = 1; number < GT_VENDOR_PORTS; number++)
            for (unsigned base = 0; base < 2 && wiring->peer[gpu][number] != PEER_NONE; base++)
                matches[base] += wiring->width[gpu][number - base] && wiring->speed[gpu][number - base] > 0;
    if (matches[0] != matches[1])
        return matches[1] > matches[0];
    return wiring->refused[0] && !wiring->refused[GT_VENDOR_PORTS];
}

/* The ports of one GPU that name another one. */
struct bundle {
    unsigned ports, up, down;
    unsigned width; /* the least of those in use, 0 unknown */
    double speed;
};

static struct bundle bundle_to(const struct wiring *wiring, unsigned from, unsigned to)
{
    struct bundle bundle = {0};
    for (unsigned number = wiring->base;
         number < wiring->base + GT_VENDOR_PORTS && number < GT_VENDOR_LINK_NUMBERS; number++) {
        unsigned port = number - wiring->base;
        if (wiring->peer[from][number] != (int)to)
            continue;
        int state = wiring->state[from][port];
        bool down = state >= 2 && state <= 4;
        bundle.ports++;
        bundle.up += state == STATE_UP;
        bundle.down += down;
        if (down)
            continue;
        if (wiring->width[from][port] && (!bundle.width || wiring->width[from][port] < bundle.width))
            bundle.width = wiring->width[from][port];
        if (wiring->speed[from][port] > 0 && (bundle.speed == 0 || wiring->speed[from][port] < bundle.speed))
            bundle.speed = wiring->speed[from][port];
    }
    return bundle;
}

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

/* What both ends agree on; an end that reported no port does not count. */
static struct bundle bundle_of(const struct wiring *wiring, unsigned a, unsigned b)
{
    struct bundle from = bundle_to(wiring, a, b), to = bundle_to(wiring, b, a);
    if (!wiring->reported_peers[a])
        return to;
    if (!wiring->reported_peers[b])
        return from;
    struct bundle both = {.ports = least(from.ports, to.ports), .up = least(from.up, to.up)};
    bool all_down = (from.ports && from.down == from.ports) || (to.ports && to.down == to.ports);
    unsigned down = from.down > to.down ? from.down : to.down;
    both.down = all_down ? both.ports : least(down, both.ports);
    both.width = !from.width || (to.width && to.width < from.width) ? to.width : from.width;
    both.speed = from.speed <= 0 || (to.speed > 0 && to.speed < from.speed) ? to.speed : from.speed;
    return both;
}

/* The level of a pair, LEVEL_UNKNOWN where there is none or the two directions contradict each other. */
static unsigned answers_links_level_of(struct gt_reading *reading, const struct wiring *wiring,
                                       const struct gt_link *link, bool *ret_contradictory)
{
    unsigned forth = wiring->level[link->a][link->b], back = wiring->level[link->b][link->a];
    if (forth == back)
        return forth;
    if (forth == LEVEL_UNKNOWN || back == LEVEL_UNKNOWN)
        return least(forth, back); /* LEVEL_UNKNOWN is the greatest */
    *ret_contradictory = true;
    gt_node_missing(reading->node, "vendor library, topology",
                    "the matrix is not symmetric: GPUs %d and %d are at levels %u and %u",
                    reading->node->gpus[link->a].vendor_index, reading->node->gpus[link->b].vendor_index,
                    forth, back);
    return LEVEL_UNKNOWN;
}

static enum gt_link_kind kind_of_level(unsigned level)
{
    static const enum gt_link_kind kinds[] = {
        [0] = GT_LINK_PIX, /* "internal": two GPUs of one board share its switch */
        [1] = GT_LINK_PIX,  [2] = GT_LINK_PXB,     [3] = GT_LINK_PHB,
        [4] = GT_LINK_NODE, [5] = GT_LINK_UNKNOWN, [6] = GT_LINK_SYS,
    };
    return level < GT_COUNT(kinds) ? kinds[level] : GT_LINK_UNKNOWN;
}

static void set_direct(struct gt_link *link, const struct bundle *bundle, enum gt_link_state state)
{
    link->kind = GT_LINK_MX;
    link->state = state;
    link->ports = state == GT_LINK_STATE_UP ? bundle->up : bundle->ports;
    link->width = bundle->width;
    link->speed = bundle->speed;
}

static void answers_links_read_link(struct gt_reading *reading, const struct wiring *wiring,
                                    struct gt_link *link)
{
    const struct gt_gpu *a = &reading->node->gpus[link->a], *b = &reading->node->gpus[link->b];
    struct bundle bundle = bundle_of(wiring, link->a, link->b);
    bool contradictory = false;
    unsigned level = answers_links_level_of(reading, wiring, link, &contradictory);
    bool all_down = bundle.ports && bundle.down == bundle.ports;

    /* The PCIe path from the kernel has priority over the library's level. */
    if (link->path_kind == GT_LINK_UNKNOWN && (!a->pci.path.root[0] || !b->pci.path.root[0]))
        link->path_kind = kind_of_level(level);

    /* If the library has no level for the pair, ports that name each other and are up are a direct link. */
    if (level == LEVEL_MX || (level == LEVEL_UNKNOWN && !contradictory && bundle.up)) {
        enum gt_link_state state = bundle.up ? GT_LINK_STATE_UP : GT_LINK_STATE_UNKNOWN;
        if (all_down || (!bundle.up && (wiring->link_state[link->a] || wiring->link_state[link->b])))
            state = GT_LINK_STATE_DOWN;
        set_direct(link, &bundle, state);
        if (state == GT_LINK_STATE_UP && bundle.up < bundle.ports)
            gt_node_missing(reading->node, "MetaXLink", "GPUs %d and %d: only %u of %u ports are up",
                            a->vendor_index, b->vendor_index, bundle.up, bundle.ports);
    } else if (all_down && !contradictory) {
        /* The library falls back to the PCIe level, but both ends still name each other. */
        set_direct(link, &bundle, GT_LINK_STATE_DOWN);
    }
}

void gt_read_links(struct gt_reading *reading)
{
    struct wiring *w = malloc(sizeof(*w));
    if (!w) {
        gt_node_missing(reading->node, "vendor library, topology", "no memory");
        return;
    }
    read_wiring(reading, w);
    w->base = find_base(w, reading->node->gpu_count);
    for (unsigned i = 0; i < reading->node->link_count; i++) {
        struct gt_link *link = &reading->node->links[i];
        if (reading->node->gpus[link->a].vendor_index >= 0 && reading->node->gpus[link->b].vendor_index >= 0)
            answers_links_read_link(reading, w, link);
    }
    free(w);
}
