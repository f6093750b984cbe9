/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/client.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"

const struct gt_kube_resource gt_kube_nodes = {"", "v1", "nodes", false};
const struct gt_kube_resource gt_kube_pods = {"", "v1", "pods", true};
const struct gt_kube_resource gt_kube_services = {"", "v1", "services", true};
const struct gt_kube_resource gt_kube_configmaps = {"", "v1", "configmaps", true};
const struct gt_kube_resource gt_kube_resource_quotas = {"", "v1", "resourcequotas", true};
const struct gt_kube_resource gt_kube_resource_claims = {"resource.k8s.io", "v1", "resourceclaims", true};
const struct gt_kube_resource gt_kube_resource_claim_templates = {"resource.k8s.io", "v1",
                                                                  "resourceclaimtemplates", true};
const struct gt_kube_resource gt_kube_resource_slices = {"resource.k8s.io", "v1", "resourceslices", false};
const struct gt_kube_resource gt_kube_device_classes = {"resource.k8s.io", "v1", "deviceclasses", false};
const struct gt_kube_resource gt_kube_namespaces = {"", "v1", "namespaces", false};
const struct gt_kube_resource gt_kube_volume_claims = {"", "v1", "persistentvolumeclaims", true};
const struct gt_kube_resource gt_kube_volumes = {"", "v1", "persistentvolumes", false};
const struct gt_kube_resource gt_kube_storage_classes = {"storage.k8s.io", "v1", "storageclasses", false};
const struct gt_kube_resource gt_kube_csi_nodes = {"storage.k8s.io", "v1", "csinodes", false};
const struct gt_kube_resource gt_kube_leases = {"coordination.k8s.io", "v1", "leases", true};
const struct gt_kube_resource gt_kube_events = {"events.k8s.io", "v1", "events", true};
const struct gt_kube_resource gt_kube_node_gpu_topologies = {GT_API_GROUP, GT_API_VERSION,
                                                             GT_PLURAL_NODE_GPU_TOPOLOGY, false};
const struct gt_kube_resource gt_kube_supernodes = {GT_API_GROUP, GT_API_VERSION, GT_PLURAL_SUPERNODE, false};
const struct gt_kube_resource gt_kube_gpu_placements = {GT_API_GROUP, GT_API_VERSION, GT_PLURAL_GPU_PLACEMENT,
                                                        true};
const struct gt_kube_resource gt_kube_crds = {"apiextensions.k8s.io", "v1", "customresourcedefinitions",
                                              false};
const struct gt_kube_resource gt_kube_hypernodes = {"topology.volcano.sh", "v1alpha1", "hypernodes", false};
const struct gt_kube_resource gt_kube_nodefeatures = {"nfd.k8s-sigs.io", "v1alpha1", "nodefeatures", true};

enum { RESOURCE_NAME_MAX = 253 };

/* Everything but letters, digits and "-._~". */
static void escape(struct gt_buf *to, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    while (*text) {
        size_t n = strspn(text, plain);
        gt_buf_add(to, text, n);
        text += n;
        if (*text)
            gt_buf_printf(to, "%%%02X", (unsigned char)*text++);
    }
}

static int add_segment(struct gt_buf *to, const char *what, const char *segment, struct gt_err **err)
{
    size_t len = strlen(segment);
    if (!len || len > RESOURCE_NAME_MAX || strcmp(segment, ".") == 0 || strcmp(segment, "..") == 0 ||
        strpbrk(segment, "/%"))
        return gt_fail(err, EINVAL, "'%.64s' cannot be a %s", segment, what);
    gt_buf_puts(to, "/");
    escape(to, segment);
    return 0;
}

int gt_kube_path(struct gt_buf *to, const struct gt_kube_resource *resource, const char *namespace_,
                 const char *name, const char *subresource, struct gt_err **err)
{
    if (!resource->plural) {
        gt_buf_printf(to, "/apis/%s", resource->group);
        return gt_buf_check(to, "path", err);
    }
    if (namespace_ && !resource->namespaced)
        return gt_fail(err, EINVAL, "%s are in no namespace", resource->plural);
    if (!namespace_ && resource->namespaced && name)
        return gt_fail(err, EINVAL, "%s '%.64s': no namespace is given", resource->plural, name);
    if (*resource->group)
        gt_buf_printf(to, "/apis/%s/%s", resource->group, resource->version);
    else
        gt_buf_printf(to, "/api/%s", resource->version);
    gt_buf_puts(to, namespace_ ? "/namespaces" : "");
    GT_TRY(namespace_ ? add_segment(to, "namespace", namespace_, err) : 0);
    gt_buf_printf(to, "/%s", resource->plural);
    GT_TRY(name ? add_segment(to, "name", name, err) : 0);
    GT_TRY(subresource ? add_segment(to, "subresource", subresource, err) : 0);
    return gt_buf_check(to, "path", err);
}

void gt_kube_query(struct gt_buf *to, const char *key, const char *value)
{
    if (!value)
        return;
    gt_buf_puts(to, to->data && strchr(to->data, '?') ? "&" : "?");
    gt_buf_puts(to, key);
    gt_buf_puts(to, "=");
    escape(to, value);
}
