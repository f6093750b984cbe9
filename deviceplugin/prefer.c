/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/digest.h"
#include "deviceplugin/inventory.h"

enum { SLOTS = 2 * GT_DEVICES_MAX };

/* The answer while it is built. Known devices are marked by number, unknown IDs, of which there may be any
 * number, in a hash table. */
struct preference {
    const struct gt_inventory *inventory;
    const char **ids;
    unsigned count, size; /* size: at most GT_DEVICES_MAX, so that the table is never full */
    uint64_t taken[(GT_DEVICES_MAX + 63) / 64];
    const char **unknown; /* [SLOTS], NULL: a free slot; not set before the first one */
    bool any_unknown;
};

/* False if it is in the answer already. */
static bool add_unknown(struct preference *preference, const char *id)
{
    if (!preference->any_unknown)
        memset(preference->unknown, 0, SLOTS * sizeof(*preference->unknown));
    preference->any_unknown = true;
    unsigned slot = (unsigned)(gt_digest_bytes(GT_DIGEST_EMPTY, id, strlen(id)) % SLOTS);
    for (; preference->unknown[slot]; slot = (slot + 1) % SLOTS)
        if (strcmp(preference->unknown[slot], id) == 0)
            return false;
    preference->unknown[slot] = id;
    return true;
}

static void prefer_add(struct preference *preference, const char *id, const struct gt_device *device)
{
    if (preference->count == preference->size)
        return;
    if (device) {
        size_t number = (size_t)(device - preference->inventory->devices);
        if (preference->taken[number / 64] >> (number % 64) & 1)
            return;
        preference->taken[number / 64] |= 1ULL << (number % 64);
    } else if (!add_unknown(preference, id))
        return;
    preference->ids[preference->count++] = id;
}

static bool is_usable(const struct gt_device *device)
{
    return device && device->gpu >= 0 && device->healthy;
}

unsigned gt_inventory_prefer(const struct gt_inventory *inventory, const char *const *available,
                             unsigned available_count, const char *const *must, unsigned must_count,
                             unsigned size, const char **ret_ids, struct gt_choice *ret_choice)
{
    if (size > GT_DEVICES_MAX)
        size = GT_DEVICES_MAX;
    const char *unknown[SLOTS];
    struct preference answer = {.inventory = inventory, .ids = ret_ids, .size = size, .unknown = unknown};
    const char *id_of[GT_GPUS_MAX]; /* of GPU i, the caller's pointer */
    uint64_t must_mask = 0, free_mask = 0;
    for (unsigned i = 0; i < must_count; i++) {
        const struct gt_device *device = gt_inventory_find(inventory, must[i]);
        prefer_add(&answer, must[i], device);
        if (device && device->gpu >= 0)
            must_mask |= 1ULL << device->gpu; /* taken already, whatever its health */
    }
    for (unsigned i = 0; i < available_count; i++) {
        const struct gt_device *device = gt_inventory_find(inventory, available[i]);
        if (!is_usable(device))
            continue;
        id_of[device->gpu] = available[i];
        free_mask |= 1ULL << device->gpu;
    }
    free_mask |= must_mask;

    struct gt_choice choice = {0};
    unsigned wanted = size - answer.count + gt_bit_count(must_mask);
    if (wanted > gt_bit_count(free_mask))
        wanted = gt_bit_count(free_mask);
    /* Slow ones last: none where others suffice, else all others. */
    uint64_t good = free_mask & (~gt_node_graded(inventory->node) | must_mask);
    bool suffices = gt_bit_count(good) >= wanted;
    if (answer.count < size && inventory->class && wanted &&
        gt_choose(inventory->class, suffices ? good : free_mask, suffices ? must_mask : good, wanted, 0,
                  &choice))
        for (uint64_t rest = choice.mask & ~must_mask; rest; rest &= rest - 1) {
            int gpu = gt_bit_first(rest);
            prefer_add(&answer, id_of[gpu], &inventory->devices[gpu]);
        }
    for (unsigned i = 0; i < available_count && answer.count < size; i++)
        prefer_add(&answer, available[i], gt_inventory_find(inventory, available[i]));
    if (ret_choice)
        *ret_choice = choice;
    return answer.count;
}
