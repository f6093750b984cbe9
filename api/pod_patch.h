/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"
#include "api/pod_claim.h"
/* Changes of an existing pod, as merge patches. For new pods: pod_json_patch.h. */

enum { GT_POD_LISTS_MAX = 64 << 10 }; /* bytes of each */

/* A merge patch replaces lists as a whole. These are their other elements, as JSON. */
struct gt_pod_lists {
    char *gates;      /* without GT_GATE and without the brackets; NULL: none */
    char *conditions; /* likewise without GT_CONDITION_PLACEMENT */
    char *terms;      /* of the required node affinity; NULL: none, or longer than GT_POD_LISTS_MAX */
};
int gt_pod_lists_read(const struct gt_pod *pod, struct gt_pod_lists *ret, struct gt_err **err);
void gt_pod_lists_done(struct gt_pod_lists *lists);

struct gt_pod_patch {
    const char *uid, *resource_version; /* the patch is refused for another uid or version; NULL: any */
    /* Metadata and spec. */
    const struct gt_pair *annotations;
    unsigned annotation_count;
    const struct gt_pod_lists *lists; /* of this pod; not NULL if one of the next three is set */
    bool ungate;                      /* GT_GATE is removed */
    const char *node;                 /* required, in addition to its terms; NULL: unchanged */
    /* Status. */
    const struct gt_condition *placement; /* GT_CONDITION_PLACEMENT; NULL: unchanged */
    bool nominates;
    const char *nominated_node; /* if `nominates`; NULL: it is removed */
};
/* Appends the body. */
void gt_pod_patch_write(const struct gt_pod_patch *patch, struct gt_buf *to);

/* Appends a node affinity that requires the node and one of the terms (gt_pod_lists; NULL: none): the value
 * of spec.affinity.nodeAffinity. */
void gt_pod_write_affinity(const char *terms, const char *node, struct gt_buf *to);

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
