/* SPDX-License-Identifier: Apache-2.0 */
#include "api/related.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/pod_peers.h"
#include "base/buf.h"
#include "base/json_get.h"

/* allowedTopologies as terms of a node affinity; NULL without memory. */
static cJSON *terms_of_topologies(const cJSON *topologies)
{
    cJSON *terms = cJSON_CreateArray();
    for (const cJSON *item = topologies->child; item; item = item->next) {
        cJSON *term = cJSON_CreateObject(), *all = cJSON_AddArrayToObject(term, "matchExpressions");
        const cJSON *labels = gt_get(item, "matchLabelExpressions");
        bool whole = all;
        for (const cJSON *label = cJSON_IsArray(labels) ? labels->child : NULL; label && whole;
             label = label->next) {
            cJSON *made = cJSON_Duplicate(label, true);
            whole = cJSON_AddStringToObject(made, "operator", "In") && cJSON_AddItemToArray(all, made);
            if (!whole)
                cJSON_Delete(made);
        }
        if (!whole || !cJSON_AddItemToArray(terms, term)) {
            cJSON_Delete(term);
            cJSON_Delete(terms);
            return NULL;
        }
    }
    return terms;
}

/* NULL without memory. */
static char *attach_limits(const cJSON *spec)
{
    struct gt_buf text = GT_BUF(1 << 16);
    const cJSON *drivers = gt_get(spec, "drivers");
    for (const cJSON *item = cJSON_IsArray(drivers) ? drivers->child : NULL; item; item = item->next) {
        const cJSON *count = gt_get(gt_get(item, "allocatable"), "count");
        uint64_t number;
        if (gt_json_is_unsigned(count, INT32_MAX, &number))
            gt_buf_printf(&text, "%s=%" PRIu64 "\n", gt_get_string(item, "name"), number);
    }
    return gt_buf_take(&text);
}

static char *what_it_is_of(enum gt_related_kind kind, const cJSON *object, const char *name)
{
    const cJSON *spec = gt_get(object, "spec");
    const char *volume = gt_get_string(spec, "volumeName");
    if (kind == GT_RELATED_NAMESPACE)
        return gt_peer_labels_text(name, gt_get_at(object, "metadata", "labels"));
    if (kind == GT_RELATED_CSI_NODE)
        return attach_limits(spec);
    return strdup(*volume ? volume : gt_get_string(spec, "storageClassName"));
}

int gt_related_read(enum gt_related_kind kind, const cJSON *object, struct gt_related *ret)
{
    const cJSON *spec = gt_get(object, "spec");
    const cJSON *topologies = kind == GT_RELATED_CLASS ? gt_get(object, "allowedTopologies") : NULL;
    bool has = cJSON_IsArray(topologies) && topologies->child;
    *ret = (struct gt_related){
        .namespace_ = gt_meta_namespace(object),
        .name = gt_meta_name(object),
        .is_bound = *gt_get_string(spec, "volumeName"),
        .is_late = strcmp(gt_get_string(object, "volumeBindingMode"), "WaitForFirstConsumer") == 0};
    ret->of = what_it_is_of(kind, object, ret->name);
    ret->driver = kind == GT_RELATED_CLASS ? gt_get_string(object, "provisioner")
                                           : gt_get_string(gt_get(spec, "csi"), "driver");
    ret->handle = gt_get_string(gt_get(spec, "csi"), "volumeHandle");
    ret->made = has ? terms_of_topologies(topologies) : NULL;
    ret->nodes.terms = kind == GT_RELATED_VOLUME
                           ? gt_get_at(spec, "nodeAffinity", "required", "nodeSelectorTerms")
                           : ret->made;
    ret->nodes.has_terms = ret->nodes.terms;
    return ret->of && (ret->made || !has) ? 0 : -ENOMEM;
}

void gt_related_done(struct gt_related *related)
{
    free(related->of);
    cJSON_Delete(related->made);
}
