/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "topology/model/node.h"

/* Device IDs that containers hold, as the kubelet lists them; each once. */
enum { GT_IN_USE_MAX = 128 };

struct gt_in_use {
    bool complete; /* a device that is not listed is not in use */
    unsigned count;
    char ids[GT_IN_USE_MAX][GT_ID_SIZE];
    /* IDs that nobody holds and that will not be given to anyone: their GPUs get another ID. */
    unsigned retired_count;
    char retired[GT_GPUS_MAX][GT_ID_SIZE];
};

bool gt_in_use_retired(const struct gt_in_use *in_use, const char *id);
/* Adds a retired ID. False: it is in use, or there is no room. */
bool gt_in_use_retire(struct gt_in_use *in_use, const char *id);

bool gt_in_use_has(const struct gt_in_use *in_use, const char *id);

/* Adds an ID in use unless it is listed. An invalid ID, which cannot have been served, is left out; if there
 * is no room, `complete` becomes false. */
void gt_in_use_add(struct gt_in_use *in_use, const char *id);

/* Whether both have the same IDs, in any order, the same `complete`, and equally many retired IDs. */
bool gt_in_use_equal(const struct gt_in_use *a, const struct gt_in_use *b);
