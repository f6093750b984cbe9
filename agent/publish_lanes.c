/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/publish_lanes.h"

#include "api/names.h"

static const struct {
    const char *name;
    const char *manager;
} lane_facts[GT_PUBLISH_LANES] = {
    [GT_PUBLISH_OWNER] = {"owner", NULL},
    [GT_PUBLISH_OBJECT] = {"object", GT_MANAGER_AGENT},
    [GT_PUBLISH_WIRING] = {"wiring", GT_MANAGER_AGENT},
    [GT_PUBLISH_USAGE] = {"usage", GT_MANAGER_USAGE},
    [GT_PUBLISH_ANNOTATIONS] = {"annotations", GT_MANAGER_AGENT},
    [GT_PUBLISH_LABELS] = {"labels", GT_MANAGER_LABELS},
    [GT_PUBLISH_COUNTERS] = {"counters", GT_MANAGER_AGENT},
    [GT_PUBLISH_SLICE] = {"slice", GT_MANAGER_AGENT},
};

const char *gt_publish_lane_name(enum gt_publish_lane lane)
{
    return lane < GT_PUBLISH_LANES ? lane_facts[lane].name : "?";
}

const char *gt_publish_lane_manager(enum gt_publish_lane lane)
{
    return lane_facts[lane].manager;
}
