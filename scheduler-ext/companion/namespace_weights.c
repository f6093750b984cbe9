/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <stdlib.h>

#include "base/json_get.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/informer.h"

#define WEIGHTS_NAME "gputopo-namespace-weights"

enum { NAMESPACE_WEIGHT_MAX = 1000 };

struct gt_namespace_weights {
    struct gt_kube_informer *informer;
    cJSON *data; /* of the ConfigMap; NULL: there is none */
    void (*on_change)(void *arg);
    void *arg;
};

/* 0: it is no weight. */
static uint32_t namespace_weights_read(const cJSON *item)
{
    const char *text = cJSON_GetStringValue(item);
    uint64_t value;
    return text && gt_text_to_unsigned(text, NAMESPACE_WEIGHT_MAX, &value) ? (uint32_t)value : 0;
}

uint32_t gt_namespace_weight(const struct gt_namespace_weights *weights, const char *namespace_)
{
    uint32_t own = namespace_weights_read(gt_get(weights->data, namespace_)),
             standard = own ? own : namespace_weights_read(gt_get(weights->data, "default"));
    return standard ? standard : 1;
}

static void namespace_weights_on_object(void *arg, cJSON *object)
{
    struct gt_namespace_weights *weights = arg;
    const cJSON *item;
    cJSON_Delete(weights->data);
    weights->data = cJSON_Duplicate(gt_get(object, "data"), true);
    cJSON_ArrayForEach(item, weights->data)
    {
        if (!namespace_weights_read(item))
            gt_warning("a namespace's weight is no number from 1 to 1000, and is passed over",
                       GT_STR("ConfigMap", WEIGHTS_NAME), GT_STR("namespace", item->string),
                       GT_STR("weight", cJSON_IsString(item) ? item->valuestring : ""));
    }
    gt_info("weights of namespaces read", GT_STR("ConfigMap", WEIGHTS_NAME),
            GT_INT("namespaces", cJSON_GetArraySize(weights->data)));
    weights->on_change(weights->arg);
}

static void namespace_weights_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct gt_namespace_weights *weights = arg;
    (void)namespace_;
    (void)name;
    (void)object;
    cJSON_Delete(gt_steal(weights->data));
    weights->on_change(weights->arg);
}

void gt_namespace_weights_free(struct gt_namespace_weights *weights)
{
    if (!weights)
        return;
    gt_kube_informer_free(weights->informer);
    cJSON_Delete(weights->data);
    free(weights);
}
GT_DEFINE_CLEANUP(struct gt_namespace_weights *, gt_namespace_weights_free)

int gt_namespace_weights_new(struct gt_kube *kube, const char *namespace_, void (*on_change)(void *arg),
                             void *arg, struct gt_namespace_weights **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_namespace_weights_free) struct gt_namespace_weights *weights = calloc(1, sizeof(*weights));
    GT_NEED(weights, err, "weights of namespaces");
    *weights = (struct gt_namespace_weights){.on_change = on_change, .arg = arg};
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_configmaps,
                      .namespace_ = namespace_,
                      .field_selector = "metadata.name=" WEIGHTS_NAME},
        .on_add = namespace_weights_on_object,
        .on_update = namespace_weights_on_object,
        .on_delete = namespace_weights_on_deleted,
        .arg = weights,
    };
    GT_TRY(gt_kube_informer_start(kube, &spec, &weights->informer, err));
    *ret = gt_steal(weights);
    return 0;
}
