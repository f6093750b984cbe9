/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/companion/apply_set.h"

/*
 * Which node holds which server UUID. Each node reports its own UUID. So that no node can take another node's
 * place by reporting its UUID, the first holder keeps it:
 *
 *  - the member of a published Supernode (from which a new leader learns the holders);
 *  - else the node that was the only one to report it, as far as this process remembers.
 *
 * A holder keeps its UUID while its Node exists and it reports no other UUID, or none. Where several nodes
 * begin to report a UUID at the same time, none holds it.
 */
struct gt_servers;

int gt_servers_new(struct gt_servers **ret, struct gt_err **err);
void gt_servers_free(struct gt_servers *servers);
GT_DEFINE_CLEANUP(struct gt_servers *, gt_servers_free)
#define gt_auto_servers GT_CLEANUP(gt_servers_free)

/* A gt_apply_set_visit for Supernodes: `arg` is the struct gt_servers. Published holders replace remembered
 * ones. */
void gt_servers_learn(void *arg, const char *name, enum gt_apply_set_state state, const char *have);

/* Updates the holders from the reports of all nodes, sorted by name. -ENOMEM. */
int gt_servers_settle(struct gt_servers *servers, const struct gt_cache_report *const *reports,
                      uint32_t count, struct gt_err **err);

/* The name of the node that holds the UUID, valid until the next change; NULL: none, or `servers` or `uuid`
 * is NULL. */
const char *gt_servers_holder(const struct gt_servers *servers, const char *uuid);
