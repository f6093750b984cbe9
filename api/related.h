/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

/* Objects that pods refer to: PersistentVolumeClaims, PersistentVolumes, StorageClasses and CSINodes, as far
 * as they say where a pod can use its volumes; Namespaces, whose labels rules between pods ask for; and what
 * says where a pod can have devices (resource.k8s.io/v1). */
enum gt_related_kind {
    GT_RELATED_CLAIM,
    GT_RELATED_VOLUME,
    GT_RELATED_CLASS,
    GT_RELATED_CSI_NODE,
    GT_RELATED_NAMESPACE,
    GT_RELATED_DEVICE_CLAIM,    /* ResourceClaim */
    GT_RELATED_DEVICE_TEMPLATE, /* ResourceClaimTemplate */
    GT_RELATED_DEVICE_CLASS,
    GT_RELATED_DEVICE_SLICE, /* ResourceSlice */
};

enum gt_closeness { GT_CLOSENESS_UNSAID, GT_CLOSENESS_PREFERRED, GT_CLOSENESS_NONE };

struct gt_related {
    const char *namespace_, *name; /* borrowed; namespace_: "" where it is in none */
    char *of;           /* of a claim: its volume, else its class, "" where it has none; of a Namespace:
                           gt_peer_labels_text() of its name and labels; of a CSINode: how many volumes can be attached,
                           "DRIVER=NUMBER\n" for each driver with a limit; of a ResourceClaim "DRIVER=POOL\n" for each
                           device that it has, else, and of a template, "CLASS=COUNT\n" for each request of so many; of
                           a ResourceSlice its pool; else "" */
    const char *driver; /* of a volume, class or slice; "" not known */
    const char *handle; /* of a volume: by which its driver knows it; of a slice: its node, "": several */
    bool is_bound;      /* it is the volume; of a ResourceClaim: it has devices */
    bool is_late;       /* a class: its claims are bound when their pods are */
    bool is_many;       /* a slice: a device of it may be given several times */
    uint32_t count;     /* of a slice: devices */
    enum gt_closeness closeness; /* a Namespace: gt_namespace_closeness() */
    struct gt_pod_where nodes;   /* a volume, devices: which nodes have it; a class: where volumes are made */
    cJSON *made;                 /* what `nodes` points into */
    char *class_driver;          /* what `driver` points to */
};
/* -ENOMEM; gt_related_done() frees it. */
int gt_related_read(enum gt_related_kind kind, const cJSON *object, struct gt_related *ret);
void gt_related_done(struct gt_related *related);

/* How the jobs of a Namespace are to lie that do not say so themselves. -EINVAL, with the sentence: its
 * annotation is no such word. */
int gt_namespace_closeness(const cJSON *object, enum gt_closeness *ret, struct gt_err **err);
