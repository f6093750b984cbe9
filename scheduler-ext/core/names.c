/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "base/digest.h"
#include "scheduler-ext/core/internal.h"

struct name {
    uint32_t id;
    char text[];
};

static struct name *names_of_text(char *text)
{
    return (struct name *)(void *)(text - offsetof(struct name, text));
}

static bool names_is(const void *item, const void *key)
{
    return strcmp(((const struct name *)item)->text, key) == 0;
}

static uint32_t names_hash(const char *text)
{
    return gt_digest_hash(gt_digest_mix_text(0, text));
}

int gt_names_grow(struct names *names, uint32_t old_capacity, uint32_t capacity)
{
    char **text = gt_core_grow(names->text, sizeof(*text), old_capacity, capacity);
    if (!text)
        return -ENOMEM;
    names->text = text;
    return 0;
}

uint32_t gt_names_find(const struct names *names, const char *text)
{
    const struct name *name = gt_table_find(&names->table, names_hash(text), names_is, text);
    return name ? name->id : GT_NONE;
}

int gt_names_add(struct names *names, uint32_t id, const char *text)
{
    size_t size = strlen(text) + 1;
    struct name *name = malloc(sizeof(*name) + size);
    if (!name || gt_table_add(&names->table, names_hash(text), name) < 0) {
        free(name);
        return -ENOMEM;
    }
    name->id = id;
    memcpy(name->text, text, size);
    names->text[id] = name->text;
    return 0;
}

void gt_names_remove(struct names *names, uint32_t id)
{
    struct name *name = names_of_text(names->text[id]);
    gt_table_remove(&names->table, names_hash(name->text), name);
    names->text[id] = NULL;
    free(name);
}

void gt_names_done(struct names *names, uint32_t count)
{
    for (uint32_t id = 0; id < count; id++)
        if (names->text[id])
            free(names_of_text(names->text[id]));
    free(names->text);
    gt_table_done(&names->table);
}
