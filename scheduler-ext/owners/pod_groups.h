/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_OWNERS_POD_GROUPS_H
#define GPUTOPO_OWNERS_POD_GROUPS_H

#include "api/pod_group.h"

/*
 * The PodGroups and Queues of Volcano, by name: whether a queue has let a group of pods in, and what it has
 * room for. No I/O.
 */
enum { GT_POD_GROUPS_MAX = 1 << 17, GT_VOLCANO_QUEUES_MAX = 1 << 14 };

struct gt_pod_groups;

/* `resource` lives as long as they do. */
int gt_pod_groups_new(const char *resource, struct gt_pod_groups **ret, struct gt_err **err);
void gt_pod_groups_free(struct gt_pod_groups *groups); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_pod_groups *, gt_pod_groups_free)
#define gt_auto_pod_groups GT_CLEANUP(gt_pod_groups_free)

/* An object was added or has changed, or is gone. One that is invalid counts as gone. True: what is found
 * is another now. */
bool gt_pod_groups_put(struct gt_pod_groups *groups, const cJSON *object);
bool gt_pod_groups_remove(struct gt_pod_groups *groups, const char *namespace_, const char *name);

bool gt_pod_groups_put_queue(struct gt_pod_groups *groups, const cJSON *object);
bool gt_pod_groups_remove_queue(struct gt_pod_groups *groups, const char *name);

/* The cluster has PodGroups, and all of its objects were listed. */
void gt_pod_groups_set_known(struct gt_pod_groups *groups, bool known);
bool gt_pod_groups_is_known(const struct gt_pod_groups *groups); /* NULL: no */

/* NULL: there is none of that name. Until the next change. */
const struct gt_pod_group *gt_pod_groups_find(const struct gt_pod_groups *groups, const char *namespace_,
                                              const char *name);
const struct gt_volcano_queue *gt_pod_groups_find_queue(const struct gt_pod_groups *groups, const char *name);

#endif
