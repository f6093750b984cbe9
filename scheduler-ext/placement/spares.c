/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>
#include <stdio.h>

#include "api/names.h"
#include "base/clock.h"
#include "scheduler-ext/placement/state.h"

/* Spare nodes, which only replacements may use. */

void gt_placement_find_spares(struct gt_placement *placement)
{
    placement->nodes.spares_ms = gt_clock_ms();
    if (gt_cache_spares(placement->spec.cache, (uint32_t)placement->spec.options.spare_nodes,
                        &placement->nodes.spares, NULL) < 0)
        gt_node_set_clear(&placement->nodes.spares);
}

void gt_placement_report_spares(struct gt_placement *placement)
{
    uint64_t spares;
    uint32_t nodes;
    char text[128];
    for (const char *name;
         (name = gt_cache_next_excess(placement->spec.cache, (uint32_t)placement->spec.options.spare_nodes,
                                      &spares, &nodes));) {
        if (spares == INT64_MAX)
            snprintf(text, sizeof(text), GT_ANNOTATION_SPARES " is no number of nodes: it has no spares");
        else
            snprintf(text, sizeof(text),
                     "%" PRIu64 " spare nodes are more than its %u nodes: it has no spares", spares, nodes);
        const struct gt_event_object event = {.api_version = GT_API_GROUP_VERSION,
                                              .kind = GT_KIND_SUPERNODE,
                                              .name = name,
                                              .warning = true,
                                              .reason = "TooManySpares",
                                              .action = "Place",
                                              .note = text};
        if (placement->spec.on_note)
            placement->spec.on_note(placement->spec.arg, true, name, text);
        if (placement->spec.recorder)
            gt_kube_record(placement->spec.recorder, &event);
    }
}
