/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/workload.h"
#include "base/err.h"

void gt_resource_flavor_done(struct gt_resource_flavor *flavor)
{
    free(flavor->name);
    cJSON_Delete(flavor->labels);
    cJSON_Delete(flavor->tolerations);
    *flavor = (struct gt_resource_flavor){0};
}

int gt_resource_flavor_read(const cJSON *object, struct gt_resource_flavor *ret, struct gt_err **err)
{
    const struct gt_at at = {"ResourceFlavor", "", err};
    const cJSON *labels = gt_get_at(object, "spec", "nodeLabels"),
                *tolerations = gt_get_at(object, "spec", "tolerations");
    const char *name, *version;
    GT_TRY(gt_api_meta(&at, object, &name, &version));
    struct gt_resource_flavor flavor = {.name = strdup(name),
                                        .labels = labels ? cJSON_Duplicate(labels, true) : NULL,
                                        .tolerations =
                                            tolerations ? cJSON_Duplicate(tolerations, true) : NULL};
    if (!flavor.name || !flavor.labels != !labels || !flavor.tolerations != !tolerations) {
        gt_resource_flavor_done(&flavor);
        return gt_fail_sys(err, ENOMEM, "ResourceFlavor");
    }
    *ret = flavor;
    return 0;
}

static bool copy_members(cJSON *to, const cJSON *from)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, from)
    {
        cJSON *copy = cJSON_Duplicate(item, true);
        bool added =
            copy && (cJSON_IsArray(to) ? cJSON_AddItemToArray(to, copy)
                                       : item->string && cJSON_AddItemToObject(to, item->string, copy));
        if (!added) {
            cJSON_Delete(copy);
            return false;
        }
    }
    return true;
}

static const struct gt_resource_flavor *resource_flavor_find(const struct gt_resource_flavor *flavors,
                                                             unsigned count, const char *name)
{
    return name ? GT_FIND(flavors, count, name, name) : NULL;
}

int gt_workload_where(const struct gt_workload_pod_set *pod_set, const struct gt_resource_flavor *flavors,
                      unsigned count, struct gt_pod_where *ret, struct gt_err **err)
{
    cJSON *selector = cJSON_CreateObject(), *tolerations = cJSON_CreateArray();
    struct gt_pod_where where = pod_set->where;
    bool whole = selector && tolerations && copy_members(selector, where.selector) &&
                 copy_members(tolerations, where.tolerations);
    const cJSON *item;
    cJSON_ArrayForEach(item, pod_set->flavors)
    {
        const struct gt_resource_flavor *flavor =
            resource_flavor_find(flavors, count, cJSON_GetStringValue(item));
        whole = whole && (!flavor || (copy_members(selector, flavor->labels) &&
                                      copy_members(tolerations, flavor->tolerations)));
    }
    where.selector = selector;
    where.tolerations = tolerations;
    if (!whole) {
        gt_workload_where_done(&where);
        return gt_fail_sys(err, ENOMEM, "pod set");
    }
    *ret = where;
    return 0;
}

void gt_workload_where_done(struct gt_pod_where *where)
{
    cJSON_Delete((cJSON *)(uintptr_t)where->selector);
    cJSON_Delete((cJSON *)(uintptr_t)where->tolerations);
    *where = (struct gt_pod_where){0};
}
