/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/webhook/own_claim.h"

#include <errno.h>

#include "api/owner.h"
#include "api/pod_patch.h"
#include "base/err.h"

struct own_claim {
    struct gt_claim_template template_; /* asks: there is one */
    struct gt_claim_entry entry;
    const char *unknown;
};

static int own_claim_read(const struct gt_cache *cache, const char *namespace_,
                          const struct gt_claim_entry *entry, struct own_claim *to, struct gt_err **err)
{
    if (*entry->claim && gt_cache_find_claim(cache, namespace_, entry->claim))
        return gt_fail(
            err, EINVAL,
            "it names the ResourceClaim %.253s, which other pods may share: GPUs of groups are planned "
            "for pods that name a ResourceClaimTemplate",
            entry->claim);
    if (!*entry->template_)
        return 0;
    struct gt_claim_template template = {0};
    if (!gt_cache_find_claim_template(cache, namespace_, entry->template_, &template) && !to->unknown)
        to->unknown = entry->template_;
    if (!template.asks)
        return 0;
    if (to->template_.asks)
        return gt_fail(err, EINVAL,
                       "it has two claims of GPUs, by the ResourceClaimTemplates %.253s and %.253s",
                       to->template_.name, template.name);
    to->template_ = template;
    to->entry = *entry;
    if (template.unfit)
        return gt_fail(err, EINVAL, "the ResourceClaimTemplate %.253s %s", template.name, template.unfit);
    return 0;
}

static bool has_limits(const cJSON *spec, const char *resource)
{
    struct gt_pod_containers containers;
    return gt_pod_gpu_containers_read(spec, resource, &containers, NULL) < 0 || containers.count;
}

int gt_own_claim_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                         cJSON *spec, struct gt_buf *patch, struct gt_err **err)
{
    struct own_claim own = {0};
    struct gt_claim_of_pod ours;
    gt_claim_of_pod_read(spec, &ours);
    if (!cache || ours.template_)
        return 0;
    for (struct gt_claim_entry entry = {0}; gt_claim_entry_next(spec, &entry);)
        GT_TRY(own_claim_read(cache, namespace_, &entry, &own, err));
    if (!own.template_.asks && (!own.unknown || has_limits(spec, resource)))
        return 0;
    if (!own.template_.asks)
        return gt_fail(err, ENOENT, "the ResourceClaimTemplate %.253s is not there", own.unknown);
    if (has_limits(spec, resource))
        return gt_fail(err, EINVAL, "it asks for GPUs by limits and by a claim");
    if (gt_claim_uses(spec, own.entry.name) != 1)
        return gt_fail(err, EINVAL, "its claim of GPUs has to be that of one container, no more and no less");
    const struct gt_claim_sizes sizes = {1, {own.template_.gpus ? own.template_.gpus : 1}};
    gt_pod_json_replace_claim(spec, &own.entry, &sizes, patch);
    return 1;
}

struct own_claims {
    const struct gt_cache *cache;
    const char *namespace_, *resource;
    bool known;
};

static void replace_in(void *arg, cJSON *spec)
{
    struct own_claims *own = arg;
    own->known =
        gt_own_claim_replace(own->cache, own->namespace_, own->resource, spec, NULL, NULL) != -ENOENT &&
        own->known;
}

bool gt_own_claims_replace(const struct gt_cache *cache, const char *namespace_, const char *resource,
                           cJSON *owner)
{
    struct own_claims own = {cache, namespace_, resource, true};
    gt_owner_each_template(owner, replace_in, &own);
    return own.known;
}
