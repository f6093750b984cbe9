/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_group.h"

/*
 * PodGroups by key and name, and Volcano's Queues by name: how many pods a group needs, whether a
 * queue has admitted it, and how much room the queue has. No I/O.
 */
enum { GT_POD_GROUPS_MAX = 1 << 17, GT_VOLCANO_QUEUES_MAX = 1 << 14 };

struct gt_pod_groups;

/* `resource` must outlive them. */
int gt_pod_groups_new(const char *resource, struct gt_pod_groups **ret, struct gt_err **err);
void gt_pod_groups_free(struct gt_pod_groups *groups); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_pod_groups *, gt_pod_groups_free)

/* An object of that number in gt_pod_group_types was added, changed, or deleted. An invalid one counts as
 * deleted. True: the result of a find function may have changed. */
bool gt_pod_groups_put(struct gt_pod_groups *groups, unsigned type, const cJSON *object);
bool gt_pod_groups_remove(struct gt_pod_groups *groups, unsigned type, const char *namespace_,
                          const char *name);

/* Sets whether the cluster has PodGroups of Volcano and all its objects were listed. */
void gt_pod_groups_set_known(struct gt_pod_groups *groups, bool known);
bool gt_pod_groups_is_known(const struct gt_pod_groups *groups); /* NULL: no */

/* `key`: of its type. NULL: there is none of that name. Valid until the next change. */
const struct gt_pod_group *gt_pod_groups_find(const struct gt_pod_groups *groups, enum gt_pod_key key,
                                              const char *namespace_, const char *name);
const struct gt_volcano_queue *gt_pod_groups_find_queue(const struct gt_pod_groups *groups, const char *name);
