/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_WISH_H
#define GPUTOPO_COMPANION_WISH_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/*
 * A wish is how a part of an object shall be; these compare it with how it is. Two members are times that
 * change with what is beside them and are never compared: observedAt and lastTransitionTime. The list
 * "conditions" is compared by the type of its entries, since others may have theirs there.
 */

/* Whether everything that is wished is so. What is there beside does not matter, except in lists. */
bool gt_wish_holds(const cJSON *wish, const cJSON *have);

/* A merge patch that removes what is there and was not wished, conditions apart; NULL: nothing is, or no
 * memory. The caller owns it. */
cJSON *gt_wish_strays(const cJSON *wish, const cJSON *have);

/* Gives each condition of a wish its lastTransitionTime: the one it has where its status is the same there,
 * else `now`; and observedAt, `now`. False: no memory. */
bool gt_wish_stamp(cJSON *wish, const cJSON *have, const char *now);

#endif
