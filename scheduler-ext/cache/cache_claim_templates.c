/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/cache/cache_internal.h"

/* ResourceClaimTemplates: the number of GPUs of pods that refer to one is only known from the template. */

struct cache_claim_template {
    struct gt_claim_template pub; /* one block, with the texts behind it */
    uint32_t hash;
};

static bool cache_templates_is_template(const void *item, const void *key)
{
    const struct gt_claim_template *one = &((const struct cache_claim_template *)item)->pub, *wanted = key;
    return strcmp(one->name, wanted->name) == 0 && strcmp(one->namespace_, wanted->namespace_) == 0;
}

static struct cache_claim_template *cache_templates_find(const struct gt_cache *cache, const char *namespace_,
                                                         const char *name)
{
    const struct gt_claim_template wanted = {.namespace_ = namespace_, .name = name};
    return gt_table_find(&cache->claim_templates, gt_cache_pod_hash(cache, namespace_, name),
                         cache_templates_is_template, &wanted);
}

const struct gt_claim_template *gt_cache_find_claim_template(const struct gt_cache *cache,
                                                             const char *namespace_, const char *name)
{
    const struct cache_claim_template *found = cache_templates_find(cache, namespace_, name);
    return found ? &found->pub : NULL;
}

static const char *cache_templates_put(char **at, const char *text)
{
    const char *start = *at;
    *at = stpcpy(*at, text) + 1;
    return start;
}

void gt_cache_claim_template(struct gt_cache *cache, const cJSON *object)
{
    struct gt_claim_template read;
    if (gt_claim_template_read(object, &read, NULL) < 0) {
        cache->refused++;
        return;
    }
    gt_cache_claim_template_deleted(cache, read.namespace_, read.name);
    size_t size = sizeof(struct cache_claim_template) + strlen(read.namespace_) + strlen(read.name) +
                  strlen(read.request) + 3;
    struct cache_claim_template *kept = gt_cache_alloc(&cache->bytes, size);
    if (!kept) {
        cache->refused++;
        return;
    }
    char *at = (char *)(kept + 1);
    kept->pub = read;
    kept->pub.namespace_ = cache_templates_put(&at, read.namespace_);
    kept->pub.name = cache_templates_put(&at, read.name);
    kept->pub.request = cache_templates_put(&at, read.request);
    kept->hash = gt_cache_pod_hash(cache, read.namespace_, read.name);
    if (gt_table_add(&cache->claim_templates, kept->hash, kept) < 0) {
        cache->refused++;
        gt_cache_release(&cache->bytes, kept);
    }
}

void gt_cache_claim_template_deleted(struct gt_cache *cache, const char *namespace_, const char *name)
{
    struct cache_claim_template *gone = cache_templates_find(cache, namespace_, name);
    if (!gone)
        return;
    gt_table_remove(&cache->claim_templates, gone->hash, gone);
    gt_cache_release(&cache->bytes, gone);
}

void gt_cache_claim_templates_done(struct gt_cache *cache)
{
    for (struct cache_claim_template *next = gt_table_after(&cache->claim_templates, 0, NULL), *one;
         (one = next);) {
        next = gt_table_after(&cache->claim_templates, one->hash, one);
        gt_cache_release(&cache->bytes, one);
    }
    gt_table_done(&cache->claim_templates);
}
