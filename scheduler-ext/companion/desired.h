/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

/*
 * Compares the desired state of a part of an object with its observed state. Two members are times and are
 * never compared: observedAt and lastTransitionTime. Entries of the list "conditions" are matched by their
 * type, since other controllers may have entries there.
 */

/* Whether everything that is desired is there. Further members do not matter, except in lists. */
bool gt_desired_holds(const cJSON *desired, const cJSON *have);

/* A merge patch that removes what is there and not desired, except for conditions; NULL: there is nothing to
 * remove, or no memory. The caller owns it. */
cJSON *gt_desired_extras(const cJSON *desired, const cJSON *have);

/* Sets times in a desired state: lastTransitionTime of each condition stays as in `have` where the status is
 * the same, else it is `now` (RFC 3339); observedAt is `now`. False: no memory. */
bool gt_desired_stamp(cJSON *desired, const cJSON *have, const char *now);
