/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/agent_private.h"
#include "api/node.h"
#include "base/digest.h"
#include "base/log.h"

/* Conditions of the Node that are faults (--fault-conditions), as other programs set them. */

void gt_agent_conditions_node(struct gt_agent *agent, const cJSON *node)
{
    struct gt_isolations says = {0};
    uint64_t said = 0, bit = 1;
    const char *at = agent->options->fault_conditions;
    for (size_t len; at && *at; at += len + (at[len] == ','), bit <<= 1) {
        char type[GT_FAULT_CONDITION_SIZE];
        struct gt_condition condition;
        size_t name = strcspn(at, "=");
        len = strcspn(at, ",");
        snprintf(type, sizeof(type), "%.*s", (int)name, at);
        gt_node_condition_read(node, type, &condition);
        if (condition.status != GT_CONDITION_TRUE)
            continue;
        said |= bit;
        if (!(agent->conditions_said & bit)) {
            gt_warning("a condition of the Node is a fault", GT_STR("condition", type),
                       GT_STR("message", condition.message));
            gt_agent_record_event(agent, true, "NodeConditionFault",
                                  "the condition %s of the Node is True: %.400s", type, condition.message);
        }
        if (at[name + 1] == 'i')
            snprintf(says.of[says.count++].reason, GT_ISOLATION_REASON_SIZE, "the Node's condition %.80s",
                     type);
    }
    agent->conditions_said = said;
    if (gt_isolations_equal(&says, &agent->node_says))
        return;
    agent->node_says = says;
    gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_NODE, &agent->node_says, true);
}
