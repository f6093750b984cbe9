/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

/* PersistentVolumeClaims, PersistentVolumes and StorageClasses, as far as they say where a pod can use its
 * volumes. */
enum gt_volume_kind { GT_VOLUME_CLAIM, GT_VOLUME, GT_VOLUME_CLASS };

struct gt_volume {                 /* texts are borrowed */
    const char *namespace_, *name; /* namespace_: "" for all but claims */
    const char *of;                /* of a claim: its volume, else its class, "" where it has none */
    bool is_bound;                 /* it is the volume */
    bool is_late;                  /* a class: its claims are bound when their pods are */
    struct gt_pod_where nodes;     /* a volume: which have it; a class: where volumes are made */
    cJSON *made;                   /* what `nodes` points into */
};
/* -ENOMEM; gt_volume_done() frees it. */
int gt_volume_read(enum gt_volume_kind kind, const cJSON *object, struct gt_volume *ret);
void gt_volume_done(struct gt_volume *volume);
