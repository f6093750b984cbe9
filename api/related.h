/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

/* Objects that pods refer to: PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSINodes, as far
 * as they say where a pod can use its volumes, and Namespaces, whose labels rules between pods ask for. */
enum gt_related_kind {
    GT_RELATED_CLAIM,
    GT_RELATED_VOLUME,
    GT_RELATED_CLASS,
    GT_RELATED_CSI_NODE,
    GT_RELATED_NAMESPACE
};

struct gt_related {
    const char *namespace_, *name; /* borrowed; namespace_: "" for all but claims */
    char *of;           /* of a claim: its volume, else its class, "" where it has none; of a Namespace:
                           gt_peer_labels_text() of its name and labels; of a CSINode: how many volumes can be
                           attached, "DRIVER=NUMBER\n" for each driver with a limit; else "" */
    const char *driver; /* of a volume or class; "" not known */
    const char *handle; /* of a volume: by which its driver knows it */
    bool is_bound;      /* it is the volume */
    bool is_late;       /* a class: its claims are bound when their pods are */
    struct gt_pod_where nodes; /* a volume: which have it; a class: where volumes are made */
    cJSON *made;               /* what `nodes` points into */
};
/* -ENOMEM; gt_related_done() frees it. */
int gt_related_read(enum gt_related_kind kind, const cJSON *object, struct gt_related *ret);
void gt_related_done(struct gt_related *related);
