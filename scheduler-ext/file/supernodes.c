/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "scheduler-ext/file/reader.h"

struct supernode_entry {
    const char *name, *parent; /* texts of the JSON; parent NULL: none */
    uint32_t above;            /* the parent's place in the list, GT_NONE */
    uint32_t id;               /* in the cluster */
    unsigned tier;
};

static int file_supernodes_read_entry(struct cluster_reader *reader, uint32_t i, const cJSON *json,
                                      struct supernode_entry *ret)
{
    char path[READER_PATH_SIZE], text[READER_NAME_SIZE];
    snprintf(path, sizeof(path), "supernodes[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    TRY(gt_reader_object(&at, json));
    TRY(gt_reader_name(&at, json, "name", text));
    *ret = (struct supernode_entry){.name = gt_get(json, "name")->valuestring, .above = GT_NONE, .tier = 1};
    const cJSON *tier = gt_get(json, "tier");
    if (cJSON_IsNumber(tier) && (tier->valuedouble < 1 || tier->valuedouble > GT_TIERS_MAX))
        return gt_at_fail(&at, "tier", "expected 1 (best performance) to %d, is %g", GT_TIERS_MAX,
                          tier->valuedouble);
    TRY(gt_get_unsigned(&at, json, "tier", GT_TIERS_MAX, &ret->tier));
    if (gt_get(json, "parent")) {
        TRY(gt_reader_name(&at, json, "parent", text));
        ret->parent = gt_get(json, "parent")->valuestring;
    }
    return 0;
}

/* Whether the chain of parents of i leads back to i. A chain longer than the list has a cycle further up. */
static bool is_in_cycle(const struct supernode_entry *entries, uint32_t count, uint32_t i)
{
    uint32_t at = entries[i].above;
    for (uint32_t step = 0; step < count && at != GT_NONE; step++, at = entries[at].above)
        if (at == i)
            return true;
    return false;
}

static int check_parent(struct cluster_reader *reader, const struct supernode_entry *entries, uint32_t count,
                        uint32_t i)
{
    const struct supernode_entry *entry = &entries[i];
    if (entry->above == GT_NONE || entries[entry->above].tier > entry->tier)
        return 0;
    char path[READER_PATH_SIZE];
    snprintf(path, sizeof(path), "supernodes[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    if (is_in_cycle(entries, count, i))
        return gt_at_fail(&at, "parent", "the parents of \"%.100s\" form a cycle", entry->name);
    return gt_at_fail(&at, "parent", "\"%.100s\" has tier %u, a parent of tier %u must have a higher one",
                      entry->parent, entries[entry->above].tier, entry->tier);
}

static int file_supernodes_find_parents(struct cluster_reader *reader, struct supernode_entry *entries,
                                        uint32_t count)
{
    gt_auto_free struct named *names = calloc((size_t)count + 1, sizeof(*names));
    if (!names)
        return gt_fail_sys(reader->err, ENOMEM, "supernodes");
    for (uint32_t i = 0; i < count; i++)
        names[i] = (struct named){entries[i].name, i};
    gt_named_sort(names, count);
    char path[READER_PATH_SIZE];
    struct gt_at at = {READER_SOURCE, path, reader->err};
    uint32_t first, twice = gt_named_twice(names, count, &first);
    if (twice != GT_NONE) {
        snprintf(path, sizeof(path), "supernodes[%u]", twice);
        return gt_at_fail(&at, "name", "\"%.100s\" is the name of supernodes[%u] already",
                          entries[twice].name, first);
    }
    for (uint32_t i = 0; i < count; i++) {
        if (!entries[i].parent)
            continue;
        entries[i].above = gt_named_find(names, count, entries[i].parent);
        snprintf(path, sizeof(path), "supernodes[%u]", i);
        if (entries[i].above == GT_NONE)
            return gt_at_fail(&at, "parent", "there is no supernode \"%.100s\"", entries[i].parent);
    }
    for (uint32_t i = 0; i < count; i++)
        TRY(check_parent(reader, entries, count, i));
    return 0;
}

int gt_reader_supernodes(struct cluster_reader *reader, const cJSON *array, uint32_t count)
{
    gt_auto_free struct supernode_entry *entries = calloc((size_t)count + 1, sizeof(*entries));
    if (!entries)
        return gt_fail_sys(reader->err, ENOMEM, "supernodes");
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++)
        TRY(file_supernodes_read_entry(reader, i, item, &entries[i]));
    TRY(file_supernodes_find_parents(reader, entries, count));
    for (unsigned tier = GT_TIERS_MAX; tier; tier--) /* parents first */
        for (i = 0; i < count; i++) {
            struct supernode_entry *entry = &entries[i];
            if (entry->tier == tier)
                TRY(gt_cluster_add_supernode(reader->file->cluster, entry->name, tier,
                                             entry->above == GT_NONE ? GT_NONE : entries[entry->above].id,
                                             &entry->id, reader->err));
        }
    return 0;
}
