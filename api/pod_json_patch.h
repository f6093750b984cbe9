/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_claim.h"

/*
 * Changes of a new pod, as operations of a JSON patch (RFC 6902). They are appended with commas between them
 * and without brackets around. Existing pods get merge patches: pod_patch.h.
 */

void gt_pod_json_add_gate(const struct gt_pod *pod, struct gt_buf *to); /* GT_GATE */

/* Removes all annotations that begin with GT_PLAN_PREFIX. */
void gt_pod_json_remove_plan(const struct gt_pod *pod, struct gt_buf *to);

/* Removes metadata.managedFields: the API server makes them ready again for each policy, and extends them
 * with each write of the status. Not for a pod that somebody applies, since those need them. */
void gt_pod_json_remove_managers(const cJSON *object, struct gt_buf *to);

void gt_pod_json_add_annotations(const struct gt_pod *pod, const struct gt_pair *pairs, unsigned count,
                                 struct gt_buf *to);

/* Requires that node. The pod's own node affinity is overwritten. */
void gt_pod_json_add_node(const struct gt_pod *pod, const char *node, struct gt_buf *to);

/* Replaces its limits of `resource` by one claim. True: it then gets its GPUs by a claim, or did so before.
 * False, and nothing is added, if it asks for more than a claim may have. */
bool gt_pod_json_add_claim(const cJSON *object, const char *resource, struct gt_buf *to);

/* Replaces a claim of the user by one of ours with these requests; containers that name it get the first one.
 * `spec`, which may be a template's, is changed, too. `to` NULL: only `spec` is changed. */
void gt_pod_json_replace_claim(cJSON *spec, const struct gt_claim_entry *entry,
                               const struct gt_claim_sizes *sizes, struct gt_buf *to);
