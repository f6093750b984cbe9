/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/publish.h"

struct gt_agent;

/* Publishing in the daemon: the connection, and the agent's data as texts. */
struct gt_agent_publish;

/* Uses agent->kube, which must outlive *ret. */
int gt_agent_publish_start(struct gt_agent *agent, struct gt_agent_publish **ret, struct gt_err **err);

/* These accept NULL. _changed(): something that is published may have changed. _refresh(): everything is
 * written again. */
void gt_agent_publish_changed(struct gt_agent_publish *publish);
void gt_agent_publish_refresh(struct gt_agent_publish *publish);
/* What this lane wrote was deleted. */
void gt_agent_publish_again(struct gt_agent_publish *publish, enum gt_publish_lane lane);
/* Whether composites are offered, or will be when the API server has the counters that they need. */
bool gt_agent_publishes_counters(const struct gt_agent *agent);
void gt_agent_publish_stop(struct gt_agent_publish *publish);

/* False, with nothing written, if nothing is published. */
bool gt_agent_publish_stats(const struct gt_agent_publish *publish, struct gt_publish_stats *ret,
                            struct gt_kube_counters *ret_client);
