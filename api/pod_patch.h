/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

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
