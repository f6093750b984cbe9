/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>

#include "base/buf.h"

/* A kind of object as in paths. Texts are literals; it must outlive the requests for it. With a group alone
 * it is the group, of which GT_KUBE_GET answers the versions that are served (an APIGroup). */
struct gt_kube_resource {
    const char *group;   /* "" is the core group */
    const char *version; /* "v1" */
    const char *plural;  /* "configmaps" */
    bool namespaced;
};

extern const struct gt_kube_resource gt_kube_nodes, gt_kube_pods, gt_kube_configmaps, gt_kube_leases,
    gt_kube_services, gt_kube_events, gt_kube_resource_quotas, gt_kube_resource_claims,
    gt_kube_resource_claim_templates, gt_kube_resource_slices, gt_kube_crds;

/* Our own kinds, and the kinds of others as which Supernodes are published. */
extern const struct gt_kube_resource gt_kube_node_gpu_topologies, gt_kube_supernodes, gt_kube_gpu_placements,
    gt_kube_hypernodes, gt_kube_nodefeatures;

/*
 * Appends the path: /api/v1/namespaces/NS/PLURAL/NAME/SUBRESOURCE, or /apis/GROUP/... `name` and
 * `subresource` may be NULL; `namespace_` NULL means all of them (lists only). -EINVAL if a name is invalid,
 * or if the namespace is missing or not allowed.
 */
int gt_kube_path(struct gt_buf *to, const struct gt_kube_resource *resource, const char *namespace_,
                 const char *name, const char *subresource, struct gt_err **err);

/* Appends "?key=value", or "&key=value" if the text has a query already. A NULL value adds nothing. */
void gt_kube_query(struct gt_buf *to, const char *key, const char *value);
