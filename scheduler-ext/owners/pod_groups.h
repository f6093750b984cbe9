/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_group.h"

/*
 * The PodGroups and Queues of Volcano, by name: whether a queue has admitted a group of pods, and how much
 * room it has. No I/O.
 */
enum { GT_POD_GROUPS_MAX = 1 << 17, GT_VOLCANO_QUEUES_MAX = 1 << 14 };

struct gt_pod_groups;

/* `resource` must outlive them. */
int gt_pod_groups_new(const char *resource, struct gt_pod_groups **ret, struct gt_err **err);
void gt_pod_groups_free(struct gt_pod_groups *groups); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_pod_groups *, gt_pod_groups_free)

/* An object was added, changed, or deleted. An invalid one counts as deleted. True: the result of a find
 * function has changed. */
bool gt_pod_groups_put(struct gt_pod_groups *groups, const cJSON *object);
bool gt_pod_groups_remove(struct gt_pod_groups *groups, const char *namespace_, const char *name);

bool gt_pod_groups_put_queue(struct gt_pod_groups *groups, const cJSON *object);
bool gt_pod_groups_remove_queue(struct gt_pod_groups *groups, const char *name);

/* Sets whether the cluster has PodGroups and all its objects were listed. */
void gt_pod_groups_set_known(struct gt_pod_groups *groups, bool known);
bool gt_pod_groups_is_known(const struct gt_pod_groups *groups); /* NULL: no */

/* NULL: there is none of that name. Valid until the next change. */
const struct gt_pod_group *gt_pod_groups_find(const struct gt_pod_groups *groups, const char *namespace_,
                                              const char *name);
const struct gt_volcano_queue *gt_pod_groups_find_queue(const struct gt_pod_groups *groups, const char *name);
