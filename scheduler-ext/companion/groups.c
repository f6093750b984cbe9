/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/view.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

#include "api/supernode.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/yaml.h"

enum { NODE_NAME_MAX = 253, RANGE_DIGITS_MAX = 9 };

void gt_groups_free(struct gt_groups *groups)
{
    if (!groups)
        return;
    for (uint32_t i = 0; i < groups->count; i++) {
        struct gt_join_group *group = &groups->items[i];
        for (uint32_t n = 0; n < group->node_count; n++)
            free((char *)(uintptr_t)group->nodes[n]);
        free((void *)(uintptr_t)group->nodes);
        free((char *)(uintptr_t)group->name);
        free((char *)(uintptr_t)group->parent);
    }
    for (uint32_t i = 0; i < groups->note_count; i++)
        free(groups->notes[i]);
    free(groups->items);
    free(groups);
}

__attribute__((format(printf, 2, 3))) static void groups_note(struct gt_groups *groups, const char *format,
                                                              ...)
{
    char *text = NULL;
    va_list args;
    if (groups->note_count == GT_GROUPS_NOTES_MAX)
        return;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0)
        text = NULL;
    va_end(args);
    if (text)
        groups->notes[groups->note_count++] = text;
}

/* The node names of one group, while they are collected. */
struct node_names {
    char **items;
    uint32_t count, capacity, left; /* left: for all groups together */
};

static int groups_add_name(struct node_names *names, char *name, struct gt_err **err)
{
    if (!name || !names->left) {
        free(name);
        return name ? gt_fail(err, E2BIG, "the groups have more than %d nodes", GT_GROUPS_NODES_MAX)
                    : gt_fail_sys(err, ENOMEM, "groups");
    }
    if (!GT_GROW(names->items, names->count, names->capacity, 16)) {
        free(name);
        return gt_fail_sys(err, ENOMEM, "groups");
    }
    names->items[names->count++] = name;
    names->left--;
    return 0;
}

/* Reads "[02-16]" at `open`. False: it is not a range. */
static bool read_range(const char *open, unsigned *first, unsigned *last, int *width, const char **behind)
{
    const char *p = open + 1;
    size_t a = strspn(p, "0123456789"), b = p[a] == '-' ? strspn(p + a + 1, "0123456789") : 0;
    if (!a || !b || a > RANGE_DIGITS_MAX || b > RANGE_DIGITS_MAX || p[a + 1 + b] != ']')
        return false;
    *first = (unsigned)strtoul(p, NULL, 10);
    *last = (unsigned)strtoul(p + a + 1, NULL, 10);
    *width = (int)a;
    *behind = p + a + b + 2;
    return *first <= *last && !strpbrk(*behind, "[]");
}

static int expand(struct gt_groups *groups, const char *group, const char *name, struct node_names *to,
                  struct gt_err **err)
{
    const char *open = strchr(name, '['), *behind;
    unsigned first, last;
    int width, r = 0;
    if (!open && !strchr(name, ']'))
        return groups_add_name(to, strdup(name), err);
    if (!open || !read_range(open, &first, &last, &width, &behind)) {
        groups_note(groups, "group %.64s: \"%.128s\" is no name and no range such as n[01-16]", group, name);
        return 0;
    }
    for (unsigned i = first; r >= 0 && i <= last; i++) {
        char *made = NULL;
        if (asprintf(&made, "%.*s%0*u%s", (int)(open - name), name, width, i, behind) < 0)
            made = NULL;
        r = groups_add_name(to, made, err);
    }
    return r;
}

static int groups_read_nodes(struct gt_groups *groups, const char *group, const cJSON *list,
                             struct node_names *to, struct gt_err **err)
{
    const cJSON *item;
    if (!list || cJSON_IsNull(list))
        return 0;
    if (!cJSON_IsArray(list)) {
        groups_note(groups, "group %.64s: nodes: a list of names is expected", group);
        return 0;
    }
    cJSON_ArrayForEach(item, list)
    {
        const char *name = cJSON_GetStringValue(item);
        if (!name || !*name || strlen(name) > NODE_NAME_MAX) {
            groups_note(groups, "group %.64s: nodes: an entry is no name of a node", group);
            continue;
        }
        GT_TRY(expand(groups, group, name, to, err));
    }
    return 0;
}

static bool read_tier(struct gt_groups *groups, const char *group, const cJSON *tier, unsigned *ret)
{
    uint64_t value = 1;
    if (tier && (!cJSON_IsString(tier) || !gt_text_to_unsigned(tier->valuestring, 1000000, &value))) {
        groups_note(groups, "group %.64s: tier: a number from 1 to %d is expected", group, GT_JOIN_TIERS_MAX);
        return false;
    }
    *ret = (unsigned)value;
    return true;
}

static void note_unknown_keys(struct gt_groups *groups, const char *group, const cJSON *entry)
{
    static const char *const known[] = {"name", "tier", "parent", "nodes"};
    const cJSON *member;
    cJSON_ArrayForEach(member, entry)
    {
        const char *meant = gt_text_meant(member->string, known, GT_COUNT(known));
        if (!meant || strcmp(meant, member->string) != 0)
            groups_note(groups, "group %.64s: \"%.64s\" is no key of a group%s%s%s", group, member->string,
                        meant ? ", did you mean " : "", meant ? meant : "", meant ? "?" : "");
    }
}

static int read_group(struct gt_groups *groups, uint32_t number, const cJSON *entry, uint32_t *left,
                      struct gt_err **err)
{
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "name"));
    const cJSON *parent = cJSON_GetObjectItemCaseSensitive(entry, "parent");
    unsigned tier = 1;
    if (!cJSON_IsObject(entry) || !name || !*name) {
        groups_note(groups, "groups[%u] has no name", number);
        return 0;
    }
    if (!read_tier(groups, name, cJSON_GetObjectItemCaseSensitive(entry, "tier"), &tier))
        return 0;
    if (parent && !cJSON_IsNull(parent) && !cJSON_IsString(parent))
        groups_note(groups, "group %.64s: parent: a name is expected", name);
    note_unknown_keys(groups, name, entry);
    struct node_names names = {.left = *left};
    int r = groups_read_nodes(groups, name, cJSON_GetObjectItemCaseSensitive(entry, "nodes"), &names, err);
    *left = names.left;
    const char *parent_name = cJSON_GetStringValue(parent);
    /* From here on the list owns it. */
    struct gt_join_group *made = &groups->items[groups->count++];
    *made = (struct gt_join_group){.name = strdup(name),
                                   .tier = tier,
                                   .parent = parent_name ? strdup(parent_name) : NULL,
                                   .nodes = (const char *const *)names.items,
                                   .node_count = names.count};
    if (r >= 0 && (!made->name || (parent_name && !made->parent)))
        r = gt_fail_sys(err, ENOMEM, "groups");
    return r;
}

/* What is known of tiers. */
static void groups_read_tiers(const cJSON *list, struct gt_groups *groups)
{
    const cJSON *entry;
    unsigned number = 0;
    if (!list || cJSON_IsNull(list))
        return;
    if (!cJSON_IsArray(list)) {
        groups_note(groups, "tiers: a list is expected");
        return;
    }
    cJSON_ArrayForEach(entry, list)
    {
        const char *tier = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "tier"));
        const char *gbps = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(entry, "bandwidthGBps"));
        uint64_t at = 0;
        double value = 0;
        if (!tier || !gt_text_to_unsigned(tier, GT_JOIN_TIERS_MAX, &at) || !at)
            groups_note(groups, "tiers[%u]: tier: a number from 1 to %d is expected", number,
                        GT_JOIN_TIERS_MAX);
        else if (!gbps || !gt_text_to_real(gbps, &value) || !(value > 0) || value > GT_SUPERNODE_GBPS_MAX)
            groups_note(groups, "tiers[%u]: bandwidthGBps: GB/s above 0, at most %d, are expected", number,
                        GT_SUPERNODE_GBPS_MAX);
        else
            groups->gbps[at] = value;
        number++;
    }
}

static int groups_read_all(const cJSON *root, struct gt_groups *groups, struct gt_err **err)
{
    const cJSON *entry, *list = cJSON_GetObjectItemCaseSensitive(root, "groups");
    uint32_t number = 0, left = GT_GROUPS_NODES_MAX;
    groups_read_tiers(cJSON_GetObjectItemCaseSensitive(root, "tiers"), groups);
    if (cJSON_IsNull(root) || cJSON_IsNull(list) || (!list && cJSON_HasObjectItem(root, "tiers")))
        return 0;
    if (!cJSON_IsArray(list))
        return gt_fail(err, EINVAL, "a mapping with a list \"groups\" is expected");
    int size = cJSON_GetArraySize(list);
    if (size > GT_JOIN_GROUPS_MAX)
        return gt_fail(err, E2BIG, "%d groups, at most %d are possible", size, GT_JOIN_GROUPS_MAX);
    groups->items = calloc((size_t)size + 1, sizeof(*groups->items));
    GT_NEED(groups->items, err, "groups");
    cJSON_ArrayForEach(entry, list)
    {
        GT_TRY(read_group(groups, number++, entry, &left, err));
    }
    return 0;
}

int gt_groups_read(const char *text, size_t len, struct gt_groups **ret, struct gt_err **err)
{
    gt_auto_groups struct gt_groups *groups = calloc(1, sizeof(*groups));
    gt_auto_json cJSON *root = NULL;
    GT_NEED(groups, err, "groups");
    if (len > GT_GROUPS_TEXT_MAX)
        return gt_fail(err, E2BIG, "%zu bytes, at most %d are read", len, GT_GROUPS_TEXT_MAX);
    GT_TRY(gt_yaml_read(text, len, &root, err));
    GT_TRY(groups_read_all(root, groups, err));
    *ret = gt_steal(groups);
    return 0;
}
