/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/composite.h"

#include <stdio.h>
#include <string.h>

#include "base/bits.h"

static const char *const words[GT_COMPOSITE_TYPES] = {
    [GT_COMPOSITE_PAIR] = "pair", [GT_COMPOSITE_ZONE] = "zone", [GT_COMPOSITE_NODE] = "node"};

/* A GPU's name without "gpu-". */
static const char *composite_place_of(const char *name)
{
    return *name ? name + strlen("gpu-") : name;
}

static uint64_t bit(unsigned gpu)
{
    return UINT64_C(1) << gpu;
}

const char *gt_composite_word(enum gt_composite_type type)
{
    return words[type];
}

/* ---- all of a node ---- */

static unsigned list_pairs(const struct gt_node *node, uint64_t ret[static GT_COMPOSITES_MAX])
{
    unsigned count = 0;
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind == GT_LINK_MX && link->state != GT_LINK_STATE_DOWN)
            ret[count++] = bit(link->a) | bit(link->b);
    }
    return count;
}

static unsigned list_zones(const struct gt_node *node, uint64_t ret[static GT_COMPOSITES_MAX])
{
    uint64_t members[GT_GPUS_MAX + 1] = {0};
    unsigned count = 0;
    for (unsigned i = 0; i < node->gpu_count; i++)
        members[node->gpus[i].zone] |= bit(i);
    for (unsigned zone = 1; zone <= GT_GPUS_MAX; zone++)
        if (members[zone])
            ret[count++] = members[zone];
    return count;
}

unsigned gt_composite_list(const struct gt_node *node, enum gt_composite_type type,
                           uint64_t ret[static GT_COMPOSITES_MAX])
{
    if (node->gpu_count < 2 || node->gpu_count > GT_COMPOSITE_GPUS_MAX)
        return 0;
    if (type == GT_COMPOSITE_PAIR)
        return list_pairs(node, ret);
    if (type == GT_COMPOSITE_ZONE)
        return list_zones(node, ret);
    ret[0] = bit(node->gpu_count) - 1;
    return 1;
}

void gt_composite_name(const struct gt_node *node, enum gt_composite_type type, uint64_t gpus,
                       char to[static GT_DRA_DEVICE_SIZE])
{
    char first[GT_DRA_DEVICE_SIZE] = "", second[GT_DRA_DEVICE_SIZE] = "";
    gt_dra_device_name(node->gpus[gt_bit_first(gpus)].bdf, first);
    if (type == GT_COMPOSITE_PAIR) {
        gt_dra_device_name(node->gpus[gt_bit_first(gpus & (gpus - 1))].bdf, second);
        snprintf(to, GT_DRA_DEVICE_SIZE, "%s-%.25s-%.25s", words[type], composite_place_of(first),
                 composite_place_of(second));
    } else if (type == GT_COMPOSITE_ZONE)
        snprintf(to, GT_DRA_DEVICE_SIZE, "%s-%.25s-%u", words[type], composite_place_of(first),
                 gt_bit_count(gpus));
    else
        snprintf(to, GT_DRA_DEVICE_SIZE, "%s-%u", words[type], gt_bit_count(gpus));
}

/* ---- by name ---- */

/* What is behind the type's word; NULL: it is of none. */
static const char *rest_of(const char *name, enum gt_composite_type *ret_type)
{
    for (unsigned type = 0; type < GT_COMPOSITE_TYPES; type++) {
        size_t len = strlen(words[type]);
        if (strncmp(name, words[type], len) == 0 && name[len] == '-') {
            *ret_type = (enum gt_composite_type)type;
            return name + len + 1;
        }
    }
    return NULL;
}

bool gt_composite_is_name(const char *name)
{
    enum gt_composite_type type;
    size_t len = strlen(name);
    return rest_of(name, &type) && len < GT_DRA_DEVICE_SIZE && name[len - 1] != '-' &&
           strspn(name, "abcdefghijklmnopqrstuvwxyz0123456789-") == len;
}

/* The GPU whose place stands at the begin, and what is behind it; -1: none does. */
static int composite_find_place(const struct gt_composite_gpus *gpus, const char *text, const char **ret_rest)
{
    for (unsigned i = 0; i < gpus->count; i++) {
        const char *place = composite_place_of(gpus->names[i]);
        size_t len = strlen(place);
        if (len && strncmp(text, place, len) == 0 && (!text[len] || text[len] == '-')) {
            *ret_rest = text + len;
            return (int)i;
        }
    }
    return -1;
}

static bool says_count(const char *text, uint64_t gpus)
{
    char number[16];
    snprintf(number, sizeof(number), "%u", gt_bit_count(gpus));
    return strcmp(text, number) == 0;
}

static uint64_t find_pair(const struct gt_composite_gpus *gpus, const char *text)
{
    const char *rest = "";
    int a = composite_find_place(gpus, text, &rest);
    int b = a < 0 || *rest != '-' ? -1 : composite_find_place(gpus, rest + 1, &rest);
    return b > a && !*rest ? bit((unsigned)a) | bit((unsigned)b) : 0;
}

static uint64_t find_zone(const struct gt_composite_gpus *gpus, const char *text)
{
    const char *rest = "";
    int first = composite_find_place(gpus, text, &rest);
    uint64_t members = 0;
    for (unsigned i = 0; first >= 0 && gpus->zones[first] && i < gpus->count; i++)
        if (gpus->zones[i] == gpus->zones[first])
            members |= bit(i);
    return members && gt_bit_first(members) == (unsigned)first && *rest == '-' &&
                   says_count(rest + 1, members)
               ? members
               : 0;
}

uint64_t gt_composite_find(const struct gt_composite_gpus *gpus, const char *name)
{
    enum gt_composite_type type;
    const char *rest = rest_of(name, &type);
    if (!rest || gpus->count < 2 || gpus->count > GT_COMPOSITE_GPUS_MAX)
        return 0;
    uint64_t all = bit(gpus->count) - 1;
    return type == GT_COMPOSITE_PAIR   ? find_pair(gpus, rest)
           : type == GT_COMPOSITE_ZONE ? find_zone(gpus, rest)
           : says_count(rest, all)     ? all
                                       : 0;
}

uint64_t gt_composite_of_node(const struct gt_node *node, const char *name)
{
    char names[GT_GPUS_MAX][GT_DRA_DEVICE_SIZE];
    const char *list[GT_GPUS_MAX];
    uint8_t zones[GT_GPUS_MAX];
    for (unsigned i = 0; i < node->gpu_count; i++) {
        if (!gt_dra_device_name(node->gpus[i].bdf, names[i]))
            names[i][0] = '\0';
        list[i] = names[i];
        zones[i] = (uint8_t)node->gpus[i].zone;
    }
    const struct gt_composite_gpus of = {node->gpu_count, list, zones};
    return gt_composite_find(&of, name);
}
