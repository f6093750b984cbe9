/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_JSON_PATCH_H
#define GPUTOPO_API_POD_JSON_PATCH_H

#include "api/pod_claim.h"

/*
 * Pod: what is written on a new one, as operations of a JSON patch (RFC 6902). They are appended, with commas
 * between them and no brackets around. A pod that is there gets merge patches: pod_patch.h.
 */

void gt_pod_json_add_gate(const struct gt_pod *pod, struct gt_buf *to); /* GT_GATE */

/* All annotations below GT_PLAN_PREFIX. */
void gt_pod_json_remove_plan(const struct gt_pod *pod, struct gt_buf *to);

/* `text`: its annotations as they stand, "{...}"; "" where it has none. */
void gt_pod_json_add_annotations(const struct gt_pod *pod, const char *text, const struct gt_pair *pairs,
                                 unsigned count, struct gt_buf *to);

/* It must run on that node. What it says of nodes itself is written over. */
void gt_pod_json_add_node(const struct gt_pod *pod, const char *node, struct gt_buf *to);

/* Turns its limits of `resource` into one claim. True: it has its GPUs by a claim then, or had so before.
 * False, and nothing is added: it asks for more than a claim may have. */
bool gt_pod_json_add_claim(const cJSON *object, const char *resource, struct gt_buf *to);

/* One of the user's becomes one of ours with these requests, the first for whoever names it; also in `spec`
 * itself, which may be a template's. `to` NULL: there alone. */
void gt_pod_json_replace_claim(cJSON *spec, const struct gt_claim_entry *entry,
                               const struct gt_claim_sizes *sizes, struct gt_buf *to);

#endif
