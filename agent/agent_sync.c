/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/agent_private.h"

/*
 * At its start the agent waits for the first answer of each source, or its failure. Otherwise it could offer
 * a GPU by a new ID that a container holds by an old one, or a shared GPU as a whole one.
 */

enum { FIRST_ANSWERS_MS = 2000 };

void gt_agent_synced(struct gt_agent *agent, unsigned sources)
{
    if (!agent->unsynced)
        return;
    agent->unsynced &= ~sources;
    if (agent->unsynced)
        return;
    gt_source_disarm(agent->sync_timer);
    gt_scanner_name_gpus(agent->scanner);
}

static void sync_on_timer(void *arg)
{
    gt_agent_synced(arg, ~0U);
}

int gt_agent_sync_start(struct gt_agent *agent, struct gt_err **err)
{
    GT_TRY(gt_loop_add_timer(agent->loop, sync_on_timer, agent, &agent->sync_timer, err));
    agent->unsynced = GT_SYNC_HELD | GT_SYNC_OFFERED | (agent->kube ? GT_SYNC_NODE : 0U);
    gt_source_arm(agent->sync_timer, FIRST_ANSWERS_MS);
    return 0;
}

void gt_agent_sync_stop(struct gt_agent *agent)
{
    gt_source_free(gt_steal(agent->sync_timer));
}
