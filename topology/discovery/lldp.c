/* SPDX-License-Identifier: Apache-2.0 */
#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/text.h"
#include "topology/discovery/backends.h"

/*
 * The neighbours that systemd-networkd knows (LLDP=yes in its .network file): one file for each
 * interface, with frames as they came, each after its length in 64 bits, little endian. IEEE 802.1AB: a TLV
 * is 7 bits of type and 9 of length, and then the value; chassis and port begin with a subtype.
 */
enum {
    LLDP_FILE_MAX = 64 << 10,
    LLDP_SAVED_MAX = 1 << 20,
    LLDP_SAVED_INTERFACES_MAX = 4096,
    LLDP_ETHER_HEADER = 14,
    LLDP_TLV_END = 0,
    LLDP_TLV_CHASSIS = 1,
    LLDP_TLV_PORT = 2,
    LLDP_TLV_TTL = 3,
    LLDP_TLV_PORT_TEXT = 4,
    LLDP_TLV_NAME = 5,
    LLDP_CHASSIS_MAC = 4,
    LLDP_PORT_MAC = 3,
};

/* What a unit of the node saves: lldpd keeps no file, and what it speaks on its socket changes with its
 * version.
 */
#define LLDP_SAVED_PATH "run/gputopo/lldp.json"

struct lldp_value {
    const unsigned char *data;
    size_t len;
};

/* A text, or a MAC address in hexadecimal form; false: neither. */
static bool lldp_text(const struct lldp_value *value, bool is_mac, char to[static GT_PEER_SIZE])
{
    char text[GT_PEER_SIZE];
    const unsigned char *p = value->data;
    if (is_mac && value->len == 6)
        snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x", p[0], p[1], p[2], p[3], p[4], p[5]);
    else if (is_mac || !value->len || value->len >= sizeof(text))
        return false;
    else {
        memcpy(text, p, value->len);
        text[value->len] = '\0';
    }
    if (!text[0] || !gt_text_is_printable(text))
        return false;
    memcpy(to, text, sizeof(text));
    return true;
}

/* The text behind a subtype; those of addresses other than MACs are not used. */
static bool lldp_id(const struct lldp_value *value, unsigned mac, char to[static GT_PEER_SIZE])
{
    if (!value->len)
        return false;
    const struct lldp_value id = {value->data + 1, value->len - 1};
    return lldp_text(&id, value->data[0] == mac, to);
}

/* Splits a frame; false: it is cut off, or no LLDP. */
static bool lldp_split(const unsigned char *frame, size_t len,
                       struct lldp_value values[static LLDP_TLV_NAME + 1])
{
    if (len < LLDP_ETHER_HEADER || frame[12] != 0x88 || frame[13] != 0xcc)
        return false;
    for (size_t at = LLDP_ETHER_HEADER; len - at >= 2;) {
        unsigned type = frame[at] >> 1;
        size_t length = (size_t)(frame[at] & 1) << 8 | frame[at + 1];
        at += 2;
        if (type == LLDP_TLV_END)
            return true;
        if (length > len - at)
            return false;
        if (type <= LLDP_TLV_NAME && !values[type].data)
            values[type] = (struct lldp_value){frame + at, length};
        at += length;
    }
    return false;
}

bool gt_lldp_neighbour(const void *data, size_t len, char peer[static GT_PEER_SIZE],
                       char port[static GT_PEER_SIZE])
{
    const unsigned char *at = data;
    while (len >= sizeof(uint64_t)) {
        struct lldp_value values[LLDP_TLV_NAME + 1] = {0};
        char name[GT_PEER_SIZE], its_port[GT_PEER_SIZE];
        uint64_t size;
        memcpy(&size, at, sizeof(size));
        size = le64toh(size);
        at += sizeof(uint64_t);
        len -= sizeof(uint64_t);
        if (size > len)
            return false;
        const struct lldp_value *ttl = &values[LLDP_TLV_TTL];
        bool is_there =
            lldp_split(at, (size_t)size, values) && ttl->len >= 2 && (ttl->data[0] || ttl->data[1]);
        if (is_there && (lldp_text(&values[LLDP_TLV_NAME], false, name) ||
                         lldp_id(&values[LLDP_TLV_CHASSIS], LLDP_CHASSIS_MAC, name))) {
            if (!lldp_id(&values[LLDP_TLV_PORT], LLDP_PORT_MAC, its_port) &&
                !lldp_text(&values[LLDP_TLV_PORT_TEXT], false, its_port))
                its_port[0] = '\0';
            memcpy(peer, name, GT_PEER_SIZE);
            memcpy(port, its_port, GT_PEER_SIZE);
            return true;
        }
        at += size;
        len -= (size_t)size;
    }
    return false;
}

void gt_lldp_fill(int rootfd, int dirfd, struct gt_fact *fact)
{
    char path[96], number[16];
    gt_auto_free char *data = NULL;
    size_t len;
    uint64_t index;
    if (!fact->net[0] || fact->virtual_function)
        return;
    snprintf(path, sizeof(path), "net/%s/ifindex", fact->net);
    if (gt_file_read_attribute(dirfd, path, number, sizeof(number)) <= 0 ||
        !gt_text_to_unsigned(number, INT32_MAX, &index))
        return;
    snprintf(path, sizeof(path), "run/systemd/netif/lldp/%u", (unsigned)index);
    if (gt_file_read(rootfd, path, LLDP_FILE_MAX, &data, &len, NULL) >= 0)
        gt_lldp_neighbour(data, len, fact->peer, fact->peer_port);
}

/* Each value is the only one of a list: `json0` has the same form for one neighbour as for many. */
static const char *lldp_saved_value(const cJSON *in, const char *key)
{
    return gt_get_string(cJSON_GetArrayItem(gt_get(in, key), 0), "value");
}

static bool lldp_saved_text(const char *value, char to[static GT_PEER_SIZE])
{
    const struct lldp_value text = {(const unsigned char *)value, strlen(value)};
    return lldp_text(&text, false, to);
}

static void lldp_saved_interface(const cJSON *neighbour, struct gt_facts *facts)
{
    const cJSON *chassis = cJSON_GetArrayItem(gt_get(neighbour, "chassis"), 0);
    const cJSON *port = cJSON_GetArrayItem(gt_get(neighbour, "port"), 0);
    const char *net = gt_get_string(neighbour, "name");
    char name[GT_PEER_SIZE], its_port[GT_PEER_SIZE];
    if (!lldp_saved_text(lldp_saved_value(chassis, "name"), name) &&
        !lldp_saved_text(lldp_saved_value(chassis, "id"), name))
        return;
    if (!lldp_saved_text(lldp_saved_value(port, "id"), its_port) &&
        !lldp_saved_text(lldp_saved_value(port, "descr"), its_port))
        its_port[0] = '\0';
    for (unsigned i = 0; *net && i < facts->count; i++) {
        struct gt_fact *fact = &facts->devices[i];
        if (fact->peer[0] || fact->virtual_function || strcmp(fact->net, net) != 0)
            continue;
        memcpy(fact->peer, name, GT_PEER_SIZE);
        memcpy(fact->peer_port, its_port, GT_PEER_SIZE);
    }
}

int gt_lldp_read_saved(const char *text, size_t len, struct gt_facts *facts, struct gt_err **err)
{
    gt_auto_json cJSON *json = NULL;
    const cJSON *list, *of;
    unsigned count;
    const struct gt_at at = {LLDP_SAVED_PATH, "", err}, below = {at.source, "lldp[0]", err};
    GT_TRY(gt_json_parse(text, len, at.source, &json, err));
    GT_TRY(gt_get_array(&at, json, "lldp", 1, &list, &count));
    if (!list)
        return gt_at_fail(&at, "lldp", "is not there, print it by lldpcli -f json0 show neighbors");
    GT_TRY(gt_get_array(&below, list->child, "interface", LLDP_SAVED_INTERFACES_MAX, &of, &count));
    for (const cJSON *one = of ? of->child : NULL; one; one = one->next)
        lldp_saved_interface(one, facts);
    return 0;
}

void gt_lldp_fill_saved(int rootfd, struct gt_facts *facts)
{
    gt_auto_free char *text = NULL;
    gt_auto_err struct gt_err *err = NULL;
    size_t len;
    int r = gt_file_read(rootfd, LLDP_SAVED_PATH, LLDP_SAVED_MAX, &text, &len, &err);
    if (r >= 0)
        r = gt_lldp_read_saved(text, len, facts, &err);
    if (r < 0 && r != -ENOENT)
        gt_facts_missing(facts, "LLDP neighbours", "%s", gt_err_text(err));
}
