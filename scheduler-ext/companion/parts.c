/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/part.h"

const struct gt_part *const gt_parts[] = {
    &gt_supernodes_part, &gt_placement_part, &gt_extender_part, &gt_ui_part, &gt_kueue_part,
};
const unsigned gt_part_count = GT_COUNT(gt_parts);
_Static_assert(GT_COUNT(gt_parts) <= GT_PARTS_MAX, "room for every part");
