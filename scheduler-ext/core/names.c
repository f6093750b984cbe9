/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "scheduler-ext/core/internal.h"

enum { ID_BITS = 19 }; /* of an entry, for the id; above them bits of the hash, to compare less */

_Static_assert(SUPERS_MAX < 1 << ID_BITS, "id + 1 fits below the bits of the hash");

/* Eight bytes at a time; the last eight may overlap those before. */
static uint64_t hash(const char *name, size_t len)
{
    uint64_t h = len * UINT64_C(0x9e3779b97f4a7c15), word = 0;
    if (len < 8) {
        for (size_t i = 0; i < len; i++)
            word = word << 8 | (unsigned char)name[i];
    } else {
        for (size_t i = 0; i + 8 < len; i += 8) {
            memcpy(&word, name + i, 8);
            h = gt_digest_mix(h, word);
        }
        memcpy(&word, name + len - 8, 8);
    }
    return gt_digest_mix(gt_digest_mix(h, word), 0);
}

static uint32_t tag(uint64_t h)
{
    return (uint32_t)(h >> 32) & ~((UINT32_C(1) << ID_BITS) - 1);
}

static uint32_t names_id_of(uint32_t entry)
{
    return (entry & ((UINT32_C(1) << ID_BITS) - 1)) - 1;
}

static uint64_t names_hash_of(const struct names *names, uint32_t id)
{
    return hash(names->text[id], strlen(names->text[id]));
}

static void names_insert(struct names *names, uint32_t id)
{
    uint64_t h = names_hash_of(names, id);
    uint32_t i = (uint32_t)h & names->mask;
    while (names->table[i])
        i = (i + 1) & names->mask;
    names->table[i] = tag(h) | (id + 1);
}

/* Builds the table again with room for `capacity` names at a load of at most one half. */
static int rebuild(struct names *names, uint32_t count, uint32_t capacity)
{
    uint32_t size = 16;
    while (size < capacity * 2)
        size *= 2;
    uint32_t *table = calloc(size, sizeof(*table));
    if (!table)
        return -ENOMEM;
    free(names->table);
    names->table = table;
    names->mask = size - 1;
    for (uint32_t id = 0; id < count; id++)
        if (names->text[id])
            names_insert(names, id);
    return 0;
}

int gt_names_grow(struct names *names, uint32_t old_capacity, uint32_t capacity)
{
    char **text = gt_core_grow(names->text, sizeof(*text), old_capacity, capacity);
    if (!text)
        return -ENOMEM;
    names->text = text;
    return rebuild(names, old_capacity, capacity);
}

uint32_t gt_names_find(const struct names *names, const char *name)
{
    if (!names->table)
        return GT_NONE;
    size_t len = strlen(name);
    uint64_t h = hash(name, len);
    uint32_t wanted = tag(h), entry;
    for (uint32_t i = (uint32_t)h & names->mask; (entry = names->table[i]); i = (i + 1) & names->mask)
        if (tag((uint64_t)entry << 32) == wanted && strcmp(names->text[names_id_of(entry)], name) == 0)
            return names_id_of(entry);
    return GT_NONE;
}

int gt_names_add(struct names *names, uint32_t id, const char *name)
{
    char *copy = strdup(name);
    if (!copy)
        return -ENOMEM;
    names->text[id] = copy;
    names_insert(names, id);
    return 0;
}

void gt_names_remove(struct names *names, uint32_t id)
{
    uint32_t i = (uint32_t)names_hash_of(names, id) & names->mask;
    while (names_id_of(names->table[i]) != id)
        i = (i + 1) & names->mask;
    free(names->text[id]);
    names->text[id] = NULL;
    /* Closes the gap, so that no marks of removed names are needed. */
    for (uint32_t hole = i;;) {
        i = (i + 1) & names->mask;
        if (!names->table[i]) {
            names->table[hole] = 0;
            break;
        }
        uint32_t home = (uint32_t)names_hash_of(names, names_id_of(names->table[i])) & names->mask;
        if (((i - home) & names->mask) >= ((i - hole) & names->mask)) {
            names->table[hole] = names->table[i];
            hole = i;
        }
    }
}

void gt_names_done(struct names *names, uint32_t count)
{
    for (uint32_t id = 0; id < count; id++)
        free(names->text[id]);
    free(names->text);
    free(names->table);
}

size_t gt_names_bytes(const struct names *names, uint32_t capacity)
{
    size_t bytes = capacity * sizeof(*names->text);
    for (uint32_t id = 0; id < capacity; id++)
        if (names->text[id])
            bytes += (strlen(names->text[id]) + 1 + sizeof(size_t) + 15) & ~(size_t)15;
    return names->table ? bytes + ((size_t)names->mask + 1) * sizeof(*names->table) : bytes;
}
