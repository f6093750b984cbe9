/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"

enum { KEPT_MAX = 1024 }; /* further ones are planned from their pods alone, which takes longer */

struct kept_owner {
    enum gt_job_kind kind;
    cJSON *object;
    struct kept_owner *next;
};

struct gt_own_claims {
    struct gt_own_claims_spec spec;
    struct kept_owner *kept;
    unsigned count;
};

static void own_claims_drop(struct gt_own_claims *own, struct kept_owner **at)
{
    struct kept_owner *gone = *at;
    *at = gone->next;
    own->count--;
    cJSON_Delete(gone->object);
    free(gone);
}

void gt_own_claims_forget(struct gt_own_claims *own, enum gt_job_kind kind, const char *namespace_,
                          const char *name)
{
    for (struct kept_owner **at = &own->kept; *at; at = &(*at)->next)
        if ((*at)->kind == kind && strcmp(gt_meta_name((*at)->object), name) == 0 &&
            strcmp(gt_meta_namespace((*at)->object), namespace_) == 0) {
            own_claims_drop(own, at);
            return;
        }
}

static bool own_claims_replace(const struct gt_own_claims *own, cJSON *object)
{
    return gt_own_claims_replace(own->spec.cache, gt_meta_namespace(object), GT_RESOURCE_GPU, object);
}

void gt_own_claims_prepare(struct gt_own_claims *own, enum gt_job_kind kind, cJSON *object)
{
    gt_own_claims_forget(own, kind, gt_meta_namespace(object), gt_meta_name(object));
    if (own_claims_replace(own, object) || own->count == KEPT_MAX)
        return;
    cJSON *copy = cJSON_Duplicate(object, true);
    struct kept_owner *kept = copy ? calloc(1, sizeof(*kept)) : NULL;
    if (!kept) {
        cJSON_Delete(copy);
        return;
    }
    *kept = (struct kept_owner){kind, copy, own->kept};
    own->kept = kept;
    own->count++;
}

void gt_own_claims_observe_template(struct gt_own_claims *own, const char *namespace_)
{
    for (struct kept_owner **at = &own->kept; *at;) {
        enum gt_job_kind kind = (*at)->kind;
        bool here = strcmp(gt_meta_namespace((*at)->object), namespace_) == 0;
        cJSON *object = here ? cJSON_Duplicate((*at)->object, true) : NULL;
        if (!object || !own_claims_replace(own, object)) {
            cJSON_Delete(object);
            at = &(*at)->next;
            continue;
        }
        own_claims_drop(own, at);
        gt_owners_put(own->spec.owners, kind, object);
        own->spec.on_owner(own->spec.arg, kind, namespace_, gt_meta_name(object));
        cJSON_Delete(object);
    }
}

int gt_own_claims_new(const struct gt_own_claims_spec *spec, struct gt_own_claims **ret, struct gt_err **err)
{
    struct gt_own_claims *own = calloc(1, sizeof(*own));
    GT_NEED(own, err, "claims of owners");
    own->spec = *spec;
    *ret = own;
    return 0;
}

void gt_own_claims_free(struct gt_own_claims *own)
{
    if (!own)
        return;
    while (own->kept)
        own_claims_drop(own, &own->kept);
    free(own);
}
