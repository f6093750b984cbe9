/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_PARTS_H
#define GPUTOPO_PLACEMENT_PARTS_H

#include "scheduler-ext/placement/content.h"
#include "scheduler-ext/placement/reconcile.h"

/*
 * A plan that one object does not hold stands in parts. Only the write of the job's object makes it true, and
 * none of the rules of acknowledge.h is another one for it, since
 *
 *  - a part is made once and never changed: another plan has other parts. The digest in its name is that of
 *    its epoch and its content, so a late write of an old leader makes what is named, or what nobody names;
 *  - the job's object names its parts when all are acknowledged, and not before;
 *  - where one is not there, or not as it was written, nobody knows what was planned: it is as if the job's
 *    object were not there;
 *  - a part is deleted when it can never be named again: the job's object names others, its epoch is as high,
 *    and no write of it by another leader can be on its way: this one wrote it, or has led for request_ms.
 */

/* Whether the plan of the content may be written: it fits into one object, or its parts are there and the
 * object has their names instead. 0: parts are still to be acknowledged, and the job is reconciled again. */
int gt_placement_make_parts(struct reconcile *reconcile, struct placement_content *content,
                            struct gt_err **err);

/* Whether it is a part that no object of a job will name again. */
bool gt_placement_is_left_over(const struct gt_placement *placement, struct placement_object *object);

#endif
