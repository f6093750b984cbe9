/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <stdlib.h>
#include <string.h>

#include "api/config_map.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/informer.h"

#define WEIGHTS_NAME "gputopo-namespace-weights"

enum { NAMESPACE_WEIGHT_MAX = 1000 };

struct weight {
    const char *namespace_; /* in `map` */
    uint32_t weight;
};

struct gt_namespace_weights {
    struct gt_kube_informer *informer;
    struct gt_config_map *map;
    struct weight *items; /* by name */
    size_t count;
    uint32_t standard;
    void (*on_change)(void *arg);
    void *arg;
};

static int namespace_weights_compare(const void *a, const void *b)
{
    return strcmp(((const struct weight *)a)->namespace_, ((const struct weight *)b)->namespace_);
}

uint32_t gt_namespace_weight(const struct gt_namespace_weights *weights, const char *namespace_)
{
    const struct weight key = {.namespace_ = namespace_};
    const struct weight *found =
        weights->count ? bsearch(&key, weights->items, weights->count, sizeof(key), namespace_weights_compare)
                       : NULL;
    return found ? found->weight : weights->standard;
}

static void namespace_weights_clear(struct gt_namespace_weights *weights)
{
    gt_config_map_free(gt_steal(weights->map));
    free(gt_steal(weights->items));
    weights->count = 0;
    weights->standard = 1;
}

static void namespace_weights_take(struct gt_namespace_weights *weights, const struct gt_pair *pair)
{
    uint64_t value = 0;
    if (!gt_text_to_unsigned(pair->value, NAMESPACE_WEIGHT_MAX, &value) || !value)
        gt_warning("a namespace's weight is no number from 1 to 1000, and is passed over",
                   GT_STR("ConfigMap", WEIGHTS_NAME), GT_STR("namespace", pair->key),
                   GT_STR("weight", pair->value));
    else if (strcmp(pair->key, "default") == 0)
        weights->standard = (uint32_t)value;
    else
        weights->items[weights->count++] = (struct weight){pair->key, (uint32_t)value};
}

static void namespace_weights_on_object(void *arg, cJSON *object)
{
    struct gt_namespace_weights *weights = arg;
    gt_auto_err struct gt_err *err = NULL;
    namespace_weights_clear(weights);
    if (gt_config_map_read(object, &weights->map, &err) < 0)
        gt_warning("cannot read", GT_STR("ConfigMap", WEIGHTS_NAME), GT_STR("why", gt_err_text(err)));
    unsigned count = weights->map ? weights->map->count : 0;
    weights->items = count ? calloc(count, sizeof(*weights->items)) : NULL;
    for (unsigned i = 0; weights->items && i < count; i++)
        namespace_weights_take(weights, &weights->map->data[i]);
    if (weights->count)
        qsort(weights->items, weights->count, sizeof(*weights->items), namespace_weights_compare);
    gt_info("weights of namespaces read", GT_STR("ConfigMap", WEIGHTS_NAME),
            GT_INT("namespaces", weights->count));
    weights->on_change(weights->arg);
}

static void namespace_weights_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct gt_namespace_weights *weights = arg;
    (void)namespace_;
    (void)name;
    (void)object;
    namespace_weights_clear(weights);
    weights->on_change(weights->arg);
}

void gt_namespace_weights_free(struct gt_namespace_weights *weights)
{
    if (!weights)
        return;
    gt_kube_informer_free(weights->informer);
    namespace_weights_clear(weights);
    free(weights);
}

int gt_namespace_weights_new(struct gt_kube *kube, const char *namespace_, void (*on_change)(void *arg),
                             void *arg, struct gt_namespace_weights **ret, struct gt_err **err)
{
    struct gt_namespace_weights *weights = calloc(1, sizeof(*weights));
    GT_NEED(weights, err, "weights of namespaces");
    *weights = (struct gt_namespace_weights){.standard = 1, .on_change = on_change, .arg = arg};
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_configmaps,
                      .namespace_ = namespace_,
                      .field_selector = "metadata.name=" WEIGHTS_NAME},
        .on_add = namespace_weights_on_object,
        .on_update = namespace_weights_on_object,
        .on_delete = namespace_weights_on_deleted,
        .arg = weights,
    };
    int r = gt_kube_informer_start(kube, &spec, &weights->informer, err);
    if (r < 0) {
        gt_namespace_weights_free(weights);
        return r;
    }
    *ret = weights;
    return 0;
}
