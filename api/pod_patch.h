/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_PATCH_H
#define GPUTOPO_API_POD_PATCH_H

#include "api/pod.h"

/* Pod: what is written on one that is there, as merge patches. On new ones: pod_json_patch.h. */

enum { GT_POD_LISTS_MAX = 64 << 10 }; /* bytes of each */

/* A merge patch knows no keys of lists and writes them whole: what is in them besides ours, as JSON. */
struct gt_pod_lists {
    char *gates;      /* but GT_GATE, without the brackets; NULL: none */
    char *conditions; /* but GT_CONDITION_PLACEMENT, likewise */
    char *terms;      /* of the required node affinity; NULL: none, or longer than GT_POD_LISTS_MAX */
};
int gt_pod_lists_read(const struct gt_pod *pod, struct gt_pod_lists *ret, struct gt_err **err);
void gt_pod_lists_done(struct gt_pod_lists *lists);

struct gt_pod_patch {
    const char *uid, *resource_version; /* of another one it is refused; NULL: any */
    /* Metadata and spec. */
    const struct gt_pair *annotations;
    unsigned annotation_count;
    const struct gt_pod_lists *lists; /* the pod's own; not NULL with one of the next three */
    bool ungate;                      /* GT_GATE goes */
    const char *node;                 /* required from now on, besides its terms; NULL: it stays as it is */
    /* Status. */
    const struct gt_condition *placement; /* GT_CONDITION_PLACEMENT; NULL: it stays */
    bool nominates;
    const char *nominated_node; /* NULL: it goes */
};
/* Appends the body. */
void gt_pod_patch_write(const struct gt_pod_patch *patch, struct gt_buf *to);

/* Appends a node affinity that requires the node and one of the terms (gt_pod_lists; NULL: none): the value
 * of spec.affinity.nodeAffinity. */
void gt_pod_write_affinity(const char *terms, const char *node, struct gt_buf *to);

#endif
