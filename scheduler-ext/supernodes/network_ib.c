/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/supernodes/network.h"

/*
 * What ibnetdiscover prints:
 *
 *     Switch  41 "S-b8cef603005c7d60"      # "MF0;leaf-01:MQM8700/U1" enhanced port 0 lid 5 lmc 0
 *     [1]     "H-b8cef60300a1b2c3"[1](b8cef60300a1b2c3)    # "gpu-001 mlx5_0" lid 12 4xHDR
 *     [21]    "S-b8cef603005c7d64"[3]      # "MF0;spine-1:MQM8700/U1" lid 1 4xHDR
 *
 *     Ca      1 "H-b8cef60300a1b2c3"       # "gpu-001 mlx5_0"
 *     [1](b8cef60300a1b2c3)   "S-b8cef603005c7d60"[1]      # lid 12 lmc 0 "MF0;leaf-01:MQM8700/U1" ...
 *
 * A cable is in the blocks of both its ends. A node's name is the first word of its description.
 */
enum { IB_TEXT_SIZE = 128 };

struct ib {
    struct gt_network *network;
    unsigned line;
    uint32_t block;          /* the point whose cables follow; GT_NETWORK_NONE: none */
    char card[IB_TEXT_SIZE]; /* of a node: what follows the name in its description */
};

/* The text between the next quotes; false: there is none. *at moves behind it. */
static bool ib_quoted(const char **at, char to[static IB_TEXT_SIZE])
{
    const char *open = strchr(*at, '"'), *close = open ? strchr(open + 1, '"') : NULL;
    if (!close)
        return false;
    size_t len = (size_t)(close - open) - 1;
    if (len >= IB_TEXT_SIZE)
        len = IB_TEXT_SIZE - 1;
    memcpy(to, open + 1, len);
    to[len] = '\0';
    *at = close + 1;
    return true;
}

/* "MF0;leaf-01:MQM8700/U1" is leaf-01. */
static void ib_switch_name(char *text)
{
    char *from = strncmp(text, "MF0;", 4) == 0 ? text + 4 : text;
    if (from != text)
        from[strcspn(from, ":")] = '\0';
    memmove(text, from, strlen(from) + 1);
    for (size_t len = strlen(text); len && isspace((unsigned char)text[len - 1]); len--)
        text[len - 1] = '\0';
}

static int ib_point(struct ib *ib, const char *guid, char *text, char card[static IB_TEXT_SIZE],
                    uint32_t *ret, struct gt_err **err)
{
    card[0] = '\0';
    if (guid[0] == 'S') {
        bool known = gt_network_find(ib->network, true, 0, guid) != GT_NETWORK_NONE;
        ib_switch_name(text);
        if (!*text && !known)
            gt_network_note(ib->network, "line %u: switch %s has no name", ib->line, guid);
        return gt_network_switch(ib->network, 0, guid, *text ? text : guid, ret, err);
    }
    size_t len = strcspn(text, " \t");
    const char *rest = text + len + strspn(text + len, " \t");
    snprintf(card, IB_TEXT_SIZE, "%s", rest);
    text[len] = '\0';
    if (!*text) {
        gt_network_note(ib->network, "line %u: %s has no name", ib->line, guid);
        *ret = GT_NETWORK_NONE;
        return 0;
    }
    return gt_network_node(ib->network, text, ret, err);
}

static void ib_port(char to[static IB_TEXT_SIZE], const char *card, unsigned long port)
{
    if (*card && port == 1)
        gt_text_cut(to, IB_TEXT_SIZE, card);
    else
        snprintf(to, IB_TEXT_SIZE, "%.100s%s%lu", card, *card ? "/" : "", port);
}

/* [1](guid) "S-b8ce..."[23](guid) # ... "description" ... */
static int ib_cable(struct ib *ib, const char *line, struct gt_err **err)
{
    char guid[IB_TEXT_SIZE] = "", text[IB_TEXT_SIZE] = "", card[IB_TEXT_SIZE], own[IB_TEXT_SIZE],
         other[IB_TEXT_SIZE];
    char *end;
    unsigned long port = strtoul(line + 1, &end, 10);
    const char *at = end;
    uint32_t peer;
    if (*end != ']' || !ib_quoted(&at, guid) || *at != '[') {
        gt_network_note(ib->network, "line %u: it names no cable: is the file complete?", ib->line);
        return 0;
    }
    if (guid[0] != 'S' && guid[0] != 'H')
        return 0; /* a router */
    unsigned long peer_port = strtoul(at + 1, NULL, 10);
    ib_quoted(&at, text);
    GT_TRY(ib_point(ib, guid, text, card, &peer, err));
    if (peer == GT_NETWORK_NONE)
        return 0;
    ib_port(own, ib->card, port);
    ib_port(other, card, peer_port);
    const struct gt_network_point *points = ib->network->points;
    if (points[peer].is_switch)
        return gt_network_connect(ib->network, ib->block, own, peer, other, err);
    if (points[ib->block].is_switch)
        return gt_network_connect(ib->network, peer, other, ib->block, own, err);
    return 0; /* two nodes without a switch */
}

static int ib_block(struct ib *ib, const char *line, struct gt_err **err)
{
    char guid[IB_TEXT_SIZE] = "", text[IB_TEXT_SIZE] = "";
    ib->block = GT_NETWORK_NONE;
    if (!ib_quoted(&line, guid) || (guid[0] != 'S' && guid[0] != 'H')) {
        gt_network_note(ib->network, "line %u: it names no switch and no node: is the file complete?",
                        ib->line);
        return 0;
    }
    ib_quoted(&line, text);
    return ib_point(ib, guid, text, ib->card, &ib->block, err);
}

int gt_network_read_ib(struct gt_network *network, char *text, struct gt_err **err)
{
    struct ib ib = {.network = network, .block = GT_NETWORK_NONE};
    for (char *line; (line = gt_network_line(&text));) {
        ib.line++;
        if (strncmp(line, "Switch", 6) == 0 || strncmp(line, "Ca", 2) == 0)
            GT_TRY(ib_block(&ib, line, err));
        else if (strncmp(line, "Rt", 2) == 0)
            ib.block = GT_NETWORK_NONE;
        else if (line[0] == '[' && ib.block != GT_NETWORK_NONE)
            GT_TRY(ib_cable(&ib, line, err));
    }
    return 0;
}
