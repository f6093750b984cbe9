/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_SERVERS_H
#define GPUTOPO_COMPANION_SERVERS_H

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/companion/apply_set.h"

/*
 * Which node holds which server UUID. A node says itself which server it is; so that none can take another's
 * place by saying the other's UUID, who had it first keeps it:
 *
 *  - the member of a published Supernode, which is how a new leader knows;
 *  - else whoever was the only one to report it, for as long as this process remembers.
 *
 * A holder keeps its UUID while its Node is there and reports no other one; also while it reports none. Of
 * several that come with a UUID at once, none holds it.
 */
struct gt_servers;

int gt_servers_new(struct gt_servers **ret, struct gt_err **err);
void gt_servers_free(struct gt_servers *servers);
GT_DEFINE_CLEANUP(struct gt_servers *, gt_servers_free)
#define gt_auto_servers GT_CLEANUP(gt_servers_free)

/* A gt_apply_set_visit for Supernodes: `arg` are the servers. What is published counts more than what is
 * remembered. */
void gt_servers_learn(void *arg, const char *name, enum gt_apply_set_state state, const char *have);

/* Brings it up to date with the nodes that are there, sorted by name. -ENOMEM. */
int gt_servers_settle(struct gt_servers *servers, const struct gt_cache_report *const *reports,
                      uint32_t count, struct gt_err **err);

/* The name of the node, until the next change; NULL: nobody, or `servers` or `uuid` is NULL. */
const char *gt_servers_holder(const struct gt_servers *servers, const char *uuid);

#endif
