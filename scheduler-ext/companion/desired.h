/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_DESIRED_H
#define GPUTOPO_COMPANION_DESIRED_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/*
 * A desired state is how a part of an object shall be. These compare it with how it is. Two members are times
 * that change with what is beside them and are never compared: observedAt and lastTransitionTime. The list
 * "conditions" is compared by the type of its entries, since others may have theirs there.
 */

/* Whether everything that is desired is so. What is there beside does not matter, except in lists. */
bool gt_desired_holds(const cJSON *desired, const cJSON *have);

/* A merge patch that removes what is there and was not desired, conditions apart; NULL: nothing is, or no
 * memory. The caller owns it. */
cJSON *gt_desired_extras(const cJSON *desired, const cJSON *have);

/* Gives each condition of a desired state its lastTransitionTime: the one it has where its status is the same
 * there, else `now`; and observedAt, `now`. False: no memory. */
bool gt_desired_stamp(cJSON *desired, const cJSON *have, const char *now);

#endif
