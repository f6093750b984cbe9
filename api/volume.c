/* SPDX-License-Identifier: Apache-2.0 */
#include "api/volume.h"

#include <errno.h>
#include <string.h>

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

int gt_volume_read(enum gt_volume_kind kind, const cJSON *object, struct gt_volume *ret)
{
    const cJSON *metadata = gt_get(object, "metadata"), *spec = gt_get(object, "spec");
    const char *volume = gt_get_string(spec, "volumeName");
    struct gt_volume read = {
        .namespace_ = gt_get_string(metadata, "namespace"),
        .name = gt_get_string(metadata, "name"),
        .of = *volume ? volume : gt_get_string(spec, "storageClassName"),
        .is_bound = *volume,
        .is_late = strcmp(gt_get_string(object, "volumeBindingMode"), "WaitForFirstConsumer") == 0};
    const cJSON *topologies = kind == GT_VOLUME_CLASS ? gt_get(object, "allowedTopologies") : NULL;
    if (cJSON_IsArray(topologies) && topologies->child) {
        read.nodes.terms = read.made = terms_of_topologies(topologies);
        if (!read.made)
            return -ENOMEM;
    } else if (kind == GT_VOLUME)
        read.nodes.terms = gt_get_at(spec, "nodeAffinity", "required", "nodeSelectorTerms");
    read.nodes.has_terms = read.nodes.terms;
    *ret = read;
    return 0;
}

void gt_volume_done(struct gt_volume *volume)
{
    cJSON_Delete(volume->made);
}
