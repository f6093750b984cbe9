/* SPDX-License-Identifier: Apache-2.0 */
#include "api/related.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/pod_peers.h"
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

int gt_related_read(enum gt_related_kind kind, const cJSON *object, struct gt_related *ret)
{
    const cJSON *spec = gt_get(object, "spec");
    const char *volume = gt_get_string(spec, "volumeName");
    const cJSON *topologies = kind == GT_RELATED_CLASS ? gt_get(object, "allowedTopologies") : NULL;
    bool has = cJSON_IsArray(topologies) && topologies->child;
    *ret = (struct gt_related){
        .namespace_ = gt_meta_namespace(object),
        .name = gt_meta_name(object),
        .is_bound = *volume,
        .is_late = strcmp(gt_get_string(object, "volumeBindingMode"), "WaitForFirstConsumer") == 0};
    ret->of = kind == GT_RELATED_NAMESPACE
                  ? gt_peer_labels_text(ret->name, gt_get_at(object, "metadata", "labels"))
                  : strdup(*volume ? volume : gt_get_string(spec, "storageClassName"));
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
