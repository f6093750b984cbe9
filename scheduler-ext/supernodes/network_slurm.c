/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "kube/yaml.h"
#include "scheduler-ext/supernodes/network.h"

/*
 * Slurm's topology.conf, and topology.yaml with the same words, as topograph writes them, too:
 *
 *     SwitchName=spine Switches=leaf[1-2]      - topology: t
 *     SwitchName=leaf1 Nodes=gpu-[001-016]       tree:
 *     BlockName=b1 Nodes=gpu-[001-004]             switches: [{switch: leaf1, nodes: "gpu-[001-016]"}]
 *                                                block: {blocks: [{block: b1, nodes: ...}]}
 */
enum { SLURM_NAME_SIZE = GT_NETWORK_NAME_MAX + 1, SLURM_DIGITS_MAX = 9, SLURM_IN_SWITCH = 2, SLURM_IN_BLOCK };

struct slurm_entry {
    const char *children, *nodes; /* lists; NULL: none */
    bool is_block;
    uint32_t parent;    /* entry, GT_NETWORK_NONE */
    uint32_t unsettled; /* children whose tier is not known yet */
    unsigned tier;
    uint32_t point; /* in the network; GT_NETWORK_NONE: left out */
};

struct slurm {
    struct gt_network *network, *names; /* names: of the entries, whose numbers are those of its points */
    struct slurm_entry *entries;
    uint32_t count, capacity;
    uint32_t names_left; /* how many may still be made of lists */
};

static int slurm_add(struct slurm *slurm, const char *name, struct slurm_entry entry, struct gt_err **err)
{
    uint32_t number;
    const char *what = entry.is_block ? "block" : "switch";
    unsigned tier = entry.is_block ? 1 : 0;
    if (!name || !*name) {
        gt_network_note(slurm->network, "a %s has no name%s%.64s", what, entry.nodes ? ": it has nodes " : "",
                        entry.nodes ? entry.nodes : "");
        return 0;
    }
    if (gt_network_find(slurm->names, true, tier, name) != GT_NETWORK_NONE) {
        gt_network_note(slurm->network, "%s %.64s is there twice, the first one counts", what, name);
        return 0;
    }
    GT_TRY(gt_network_switch(slurm->names, tier, name, name, &number, err));
    GT_NEED(GT_GROW(slurm->entries, slurm->count, slurm->capacity, 64), err, "network");
    entry.parent = entry.point = GT_NETWORK_NONE;
    entry.tier = entry.is_block ? 1 : GT_NETWORK_LEAF_TIER;
    slurm->entries[slurm->count++] = entry;
    return 0;
}

/* ---- lists: n[01-03,7],m1 ---- */

typedef int slurm_each(struct slurm *slurm, uint32_t entry, const char *name, struct gt_err **err);

static int slurm_one(struct slurm *slurm, uint32_t entry, slurm_each *each, const char *name,
                     struct gt_err **err)
{
    if (!slurm->names_left)
        return gt_fail(err, E2BIG, "lists of more than %d names", GT_NETWORK_CABLES_MAX);
    slurm->names_left--;
    return each(slurm, entry, name, err);
}

/* The numbers of one bracket: "01-03,7". False: it is none. */
static bool slurm_range(const char **at, unsigned *first, unsigned *last, int *width)
{
    const char *p = *at;
    size_t a = strspn(p, "0123456789"), b = p[a] == '-' ? strspn(p + a + 1, "0123456789") : 0;
    if (!a || a > SLURM_DIGITS_MAX || b > SLURM_DIGITS_MAX || (p[a] == '-' && !b))
        return false;
    *first = (unsigned)strtoul(p, NULL, 10);
    *last = b ? (unsigned)strtoul(p + a + 1, NULL, 10) : *first;
    *width = (int)a;
    *at = p + a + (b ? b + 1 : 0);
    return *first <= *last;
}

static int slurm_expand(struct slurm *slurm, uint32_t entry, slurm_each *each, const char *item, size_t len,
                        struct gt_err **err)
{
    char name[SLURM_NAME_SIZE * 2], text[SLURM_NAME_SIZE * 16];
    if (!len || len >= sizeof(text)) {
        gt_network_note(slurm->network, "%s: a name is empty or too long", slurm->names->points[entry].name);
        return 0;
    }
    memcpy(text, item, len);
    text[len] = '\0';
    char *open = strchr(text, '['), *close = open ? strchr(open, ']') : NULL;
    if (!open)
        return slurm_one(slurm, entry, each, text, err);
    const char *behind = close ? close + 1 : "";
    int head = (int)(open - text), width;
    bool good = close && head < SLURM_NAME_SIZE && !strpbrk(behind, "[]");
    for (const char *at = open + 1; good; at++) {
        unsigned first, last;
        good = slurm_range(&at, &first, &last, &width) && (*at == ',' || *at == ']');
        for (unsigned i = first; good && i <= last; i++) {
            snprintf(name, sizeof(name), "%.*s%0*u%.*s", head, text, width, i, SLURM_NAME_SIZE, behind);
            GT_TRY(slurm_one(slurm, entry, each, name, err));
        }
        if (*at == ']')
            break;
    }
    if (!good)
        gt_network_note(slurm->network, "%s: \"%.64s\" is no name and no list such as n[01-16,20]",
                        slurm->names->points[entry].name, text);
    return 0;
}

static int slurm_list(struct slurm *slurm, uint32_t entry, const char *list, slurm_each *each,
                      struct gt_err **err)
{
    for (const char *at = list; at && *at;) {
        const char *end = at;
        for (bool inside = false; *end && (inside || *end != ','); end++)
            inside = *end == '[' || (inside && *end != ']');
        GT_TRY(slurm_expand(slurm, entry, each, at, (size_t)(end - at), err));
        at = *end ? end + 1 : end;
    }
    return 0;
}

/* ---- entries to points and cables ---- */

static int slurm_adopt(struct slurm *slurm, uint32_t entry, const char *name, struct gt_err **err)
{
    const char *own = slurm->names->points[entry].name;
    uint32_t child = gt_network_find(slurm->names, true, 0, name);
    (void)err;
    if (child == GT_NETWORK_NONE)
        gt_network_note(slurm->network, "switch %.64s: there is no switch %.64s", own, name);
    else if (slurm->entries[child].parent != GT_NETWORK_NONE)
        gt_network_note(slurm->network, "switch %.64s is below %.64s already, which counts, not below %.64s",
                        name, slurm->names->points[slurm->entries[child].parent].name, own);
    else {
        slurm->entries[child].parent = entry;
        slurm->entries[entry].unsettled++;
    }
    return 0;
}

/* A switch is one tier above the highest below it. What stays unsettled is in a circle, or above one. */
static int slurm_settle(struct slurm *slurm, struct gt_err **err)
{
    gt_auto_free uint32_t *queue = calloc((size_t)slurm->count + 1, sizeof(*queue));
    uint32_t count = 0;
    GT_NEED(queue, err, "network");
    for (uint32_t i = 0; i < slurm->count; i++)
        if (!slurm->entries[i].unsettled)
            queue[count++] = i;
    for (uint32_t i = 0; i < count; i++) {
        const struct slurm_entry *entry = &slurm->entries[queue[i]];
        if (entry->parent == GT_NETWORK_NONE)
            continue;
        struct slurm_entry *parent = &slurm->entries[entry->parent];
        if (parent->tier <= entry->tier)
            parent->tier = entry->tier + 1;
        if (!--parent->unsettled)
            queue[count++] = entry->parent;
    }
    return 0;
}

static int slurm_points(struct slurm *slurm, struct gt_err **err)
{
    unsigned high = 0;
    for (uint32_t i = 0; i < slurm->count; i++) {
        struct slurm_entry *entry = &slurm->entries[i];
        const char *name = slurm->names->points[i].name;
        if (entry->unsettled)
            gt_network_note(slurm->network,
                            "switch %.64s is below itself, or above a switch that is: left out", name);
        else if (entry->tier > GT_NETWORK_TIERS_MAX)
            high = entry->tier > high ? entry->tier : high;
        else
            GT_TRY(gt_network_switch(slurm->network, entry->tier, name, name, &entry->point, err));
    }
    if (high)
        gt_network_note(slurm->network, "the switches have %u tiers, those up to tier %d are used", high - 1,
                        GT_NETWORK_TIERS_MAX);
    return 0;
}

/* A node is in one switch and in one block. Who has it is kept in `names`, as the name of a point. */
static int slurm_connect(struct slurm *slurm, uint32_t entry, const char *name, struct gt_err **err)
{
    const struct slurm_entry *own = &slurm->entries[entry];
    const char *own_name = slurm->names->points[entry].name;
    unsigned kept = own->is_block ? SLURM_IN_BLOCK : SLURM_IN_SWITCH;
    uint32_t node = gt_network_find(slurm->names, true, kept, name);
    if (own->point == GT_NETWORK_NONE)
        return 0;
    if (node != GT_NETWORK_NONE) {
        gt_network_note(slurm->network, "node %.64s is in %.64s already, which counts, not in %.64s", name,
                        slurm->names->points[node].name, own_name);
        return 0;
    }
    GT_TRY(gt_network_switch(slurm->names, kept, name, own_name, &node, err));
    GT_TRY(gt_network_node(slurm->network, name, &node, err));
    return gt_network_connect(slurm->network, node, "", own->point, "", err);
}

static int slurm_finish(struct slurm *slurm, struct gt_err **err)
{
    for (uint32_t i = 0; i < slurm->count; i++)
        GT_TRY(slurm_list(slurm, i, slurm->entries[i].children, slurm_adopt, err));
    GT_TRY(slurm_settle(slurm, err));
    GT_TRY(slurm_points(slurm, err));
    for (uint32_t i = 0; i < slurm->count; i++) {
        const struct slurm_entry *entry = &slurm->entries[i];
        if (entry->point != GT_NETWORK_NONE && entry->parent != GT_NETWORK_NONE &&
            slurm->entries[entry->parent].point != GT_NETWORK_NONE)
            GT_TRY(gt_network_connect(slurm->network, entry->point, "", slurm->entries[entry->parent].point,
                                      "", err));
        GT_TRY(slurm_list(slurm, i, entry->nodes, slurm_connect, err));
    }
    return 0;
}

/* ---- the two forms ---- */

static void slurm_done(struct slurm *slurm)
{
    gt_network_free(slurm->names);
    free(slurm->entries);
}

/* One line: Key=value words. */
static int slurm_line(struct slurm *slurm, char *line, struct gt_err **err)
{
    const char *name = NULL;
    struct slurm_entry entry = {0};
    bool is_entry = false;
    line[strcspn(line, "#")] = '\0';
    for (char *word, *rest = line; (word = strsep(&rest, " \t"));) {
        char *value = strchr(word, '=');
        if (value)
            *value++ = '\0';
        if (strcasecmp(word, "SwitchName") == 0 || strcasecmp(word, "BlockName") == 0) {
            is_entry = true;
            entry.is_block = strcasecmp(word, "BlockName") == 0;
            name = value;
        } else if (strcasecmp(word, "Nodes") == 0)
            entry.nodes = value;
        else if (strcasecmp(word, "Switches") == 0)
            entry.children = value;
    }
    return is_entry ? slurm_add(slurm, name, entry, err) : 0;
}

int gt_network_read_slurm(struct gt_network *network, char *text, struct gt_err **err)
{
    struct slurm slurm = {.network = network, .names_left = GT_NETWORK_CABLES_MAX};
    int r = gt_network_new(&slurm.names, err);
    for (char *line; r >= 0 && (line = gt_network_line(&text));)
        r = slurm_line(&slurm, line, err);
    if (r >= 0)
        r = slurm_finish(&slurm, err);
    slurm_done(&slurm);
    return r;
}

static int slurm_items(struct slurm *slurm, const cJSON *list, bool is_block, struct gt_err **err)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, list)
    {
        const char *children = gt_get_string(item, "children"), *nodes = gt_get_string(item, "nodes");
        GT_TRY(slurm_add(slurm, gt_get_string(item, is_block ? "block" : "switch"),
                         (struct slurm_entry){.is_block = is_block,
                                              .children = *children ? children : NULL,
                                              .nodes = *nodes ? nodes : NULL},
                         err));
    }
    return 0;
}

/* Each topology is for itself: the same node may be in several, of which the first counts. */
static int slurm_topologies(struct slurm *slurm, const cJSON *root, struct gt_err **err)
{
    const cJSON *topology;
    if (!cJSON_IsArray(root))
        return gt_fail(err, EINVAL, "a list of topologies is expected");
    cJSON_ArrayForEach(topology, root)
    {
        GT_TRY(slurm_items(slurm, gt_get_at(topology, "tree", "switches"), false, err));
        GT_TRY(slurm_items(slurm, gt_get_at(topology, "block", "blocks"), true, err));
    }
    return slurm_finish(slurm, err);
}

int gt_network_read_slurm_yaml(struct gt_network *network, char *text, struct gt_err **err)
{
    struct slurm slurm = {.network = network, .names_left = GT_NETWORK_CABLES_MAX};
    gt_auto_json cJSON *root = NULL;
    int r = gt_yaml_read(text, strlen(text), &root, err);
    if (r >= 0)
        r = gt_network_new(&slurm.names, err);
    if (r >= 0)
        r = slurm_topologies(&slurm, root, err);
    slurm_done(&slurm);
    return r;
}
