/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/supernodes/network.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/text.h"

enum { TEXTS_BYTES = 1 << 16 };

/* Texts lie one after the other and are freed together. */
struct gt_network_text {
    struct gt_network_text *next;
    size_t used;
    char data[TEXTS_BYTES];
};

int gt_network_new(struct gt_network **ret, struct gt_err **err)
{
    struct gt_network *network = calloc(1, sizeof(*network));
    GT_NEED(network, err, "network");
    *ret = network;
    return 0;
}

void gt_network_free(struct gt_network *network)
{
    if (!network)
        return;
    while (network->texts) {
        struct gt_network_text *next = network->texts->next;
        free(network->texts);
        network->texts = next;
    }
    for (uint32_t i = 0; i < network->note_count; i++)
        free(network->notes[i]);
    gt_table_done(&network->index);
    free(network->points);
    free(network->cables);
    free(network);
}

void gt_network_note(struct gt_network *network, const char *format, ...)
{
    char *text = NULL;
    va_list args;
    if (network->note_count == GT_NETWORK_NOTES_MAX)
        return;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (!text)
        return;
    gt_text_make_printable(text);
    network->notes[network->note_count++] = text;
}

/* A copy of at most GT_NETWORK_NAME_MAX bytes, printable; NULL without memory. */
static const char *network_copy(struct gt_network *network, const char *text)
{
    size_t len = strnlen(text, GT_NETWORK_NAME_MAX);
    struct gt_network_text *texts = network->texts;
    if (!len)
        return "";
    if (!texts || texts->used + len + 1 > TEXTS_BYTES) {
        texts = malloc(sizeof(*texts));
        if (!texts)
            return NULL;
        texts->next = network->texts;
        texts->used = 0;
        network->texts = texts;
    }
    char *to = texts->data + texts->used;
    memcpy(to, text, len);
    to[len] = '\0';
    gt_text_make_printable(to);
    texts->used += len + 1;
    return to;
}

static int network_full(uint32_t max, struct gt_err **err)
{
    return gt_fail(err, E2BIG, "a network of more than %u nodes and switches, or cables", max);
}

static uint32_t network_hash(bool is_switch, unsigned tier, const char *key)
{
    return gt_digest_hash(gt_digest_keyed(key) + (is_switch ? tier + 1 : 0));
}

/* The index has numbers of points plus one, since points may move. */
struct network_key {
    const struct gt_network *network;
    bool is_switch;
    unsigned tier;
    const char *key;
};

static bool network_is_point(const void *item, const void *arg)
{
    const struct network_key *wanted = arg;
    const struct gt_network_point *point = &wanted->network->points[(uintptr_t)item - 1];
    return point->is_switch == wanted->is_switch && point->tier == wanted->tier &&
           strcmp(point->key, wanted->key) == 0;
}

uint32_t gt_network_find(const struct gt_network *network, bool is_switch, unsigned tier, const char *key)
{
    const struct network_key wanted = {network, is_switch, tier, key};
    void *item =
        gt_table_find(&network->index, network_hash(is_switch, tier, key), network_is_point, &wanted);
    return item ? (uint32_t)(uintptr_t)item - 1 : GT_NETWORK_NONE;
}

static int network_point(struct gt_network *network, const struct gt_network_point *wanted, uint32_t *ret,
                         struct gt_err **err)
{
    char key[GT_NETWORK_NAME_MAX + 1];
    gt_text_cut(key, sizeof(key), wanted->key);
    gt_text_make_printable(key);
    uint32_t found = gt_network_find(network, wanted->is_switch, wanted->tier, key);
    if (found != GT_NETWORK_NONE) {
        *ret = found;
        return 0;
    }
    if (network->point_count == GT_NETWORK_POINTS_MAX)
        return network_full(GT_NETWORK_POINTS_MAX, err);
    GT_NEED(GT_GROW(network->points, network->point_count, network->point_capacity, 256), err, "network");
    struct gt_network_point *point = &network->points[network->point_count];
    *point = *wanted;
    point->number = network->point_count;
    point->key = network_copy(network, key);
    point->name = strcmp(wanted->name, wanted->key) == 0 ? point->key : network_copy(network, wanted->name);
    if (!point->key || !point->name ||
        gt_table_add(&network->index, network_hash(point->is_switch, point->tier, point->key),
                     (void *)(uintptr_t)(point->number + 1)) < 0)
        return gt_fail_sys(err, ENOMEM, "network");
    *ret = network->point_count++;
    return 0;
}

int gt_network_node(struct gt_network *network, const char *key, uint32_t *ret, struct gt_err **err)
{
    return network_point(network, &(struct gt_network_point){.key = key, .name = key}, ret, err);
}

int gt_network_switch(struct gt_network *network, unsigned tier, const char *key, const char *name,
                      uint32_t *ret, struct gt_err **err)
{
    return network_point(
        network, &(struct gt_network_point){.key = key, .name = name, .is_switch = true, .tier = tier}, ret,
        err);
}

int gt_network_connect(struct gt_network *network, uint32_t low, const char *port, uint32_t high,
                       const char *high_port, struct gt_err **err)
{
    if (network->cable_count == GT_NETWORK_CABLES_MAX)
        return network_full(GT_NETWORK_CABLES_MAX, err);
    GT_NEED(GT_GROW(network->cables, network->cable_count, network->cable_capacity, 256), err, "network");
    struct gt_network_cable cable = {low, high, network_copy(network, port),
                                     network_copy(network, high_port)};
    GT_NEED(cable.port && cable.high_port, err, "network");
    network->cables[network->cable_count++] = cable;
    return 0;
}

int gt_network_add(struct gt_network *network, const struct gt_network *other, struct gt_err **err)
{
    gt_auto_free uint32_t *number = calloc((size_t)other->point_count + 1, sizeof(*number));
    GT_NEED(number, err, "network");
    for (uint32_t i = 0; i < other->point_count; i++)
        GT_TRY(network_point(network, &other->points[i], &number[i], err));
    for (uint32_t i = 0; i < other->cable_count; i++) {
        const struct gt_network_cable *cable = &other->cables[i];
        GT_TRY(gt_network_connect(network, number[cable->low], cable->port, number[cable->high],
                                  cable->high_port, err));
    }
    return 0;
}

char *gt_network_line(char **text)
{
    char *line = *text;
    if (!line || !*line)
        return NULL;
    char *end = strchr(line, '\n');
    *text = end ? end + 1 : line + strlen(line);
    if (end)
        *end = '\0';
    size_t len = strlen(line);
    if (len && line[len - 1] == '\r')
        line[len - 1] = '\0';
    return line;
}
