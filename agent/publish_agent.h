/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_PUBLISH_AGENT_H
#define GPUTOPO_AGENT_PUBLISH_AGENT_H

#include "agent/publish.h"

struct gt_agent;

/* Publishing in the daemon: the connection, and what the agent knows as text. */
struct gt_agent_publish;

/* By agent->kube, which must live longer. */
int gt_agent_publish_start(struct gt_agent *agent, struct gt_agent_publish **ret, struct gt_err **err);

/* All take NULL. Something that is published may have changed; somebody asked for everything again. */
void gt_agent_publish_changed(struct gt_agent_publish *publish);
void gt_agent_publish_refresh(struct gt_agent_publish *publish);
/* What this lane wrote is gone. */
void gt_agent_publish_again(struct gt_agent_publish *publish, enum gt_publish_lane lane);
/* Composites are offered, or will be when the API server has the counters that they need. */
bool gt_agent_publishes_counters(const struct gt_agent *agent);
void gt_agent_publish_stop(struct gt_agent_publish *publish);

/* False, nothing written, where nothing is published. */
bool gt_agent_publish_stats(const struct gt_agent_publish *publish, struct gt_publish_stats *ret,
                            struct gt_kube_counters *ret_client);

#endif
