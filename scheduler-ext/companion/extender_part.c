/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/serve/extender.h"

/* The part "extender": the endpoints of kube-scheduler and Volcano. It answers on every replica. */

struct extender_part {
    struct gt_informers *informers;
    struct gt_extender *extender;
};

static void extender_part_free(void *self)
{
    struct extender_part *part = self;
    if (!part)
        return;
    gt_informers_remove_handlers(part->informers, part);
    gt_extender_free(part->extender);
    free(part);
}
GT_DEFINE_CLEANUP(struct extender_part *, extender_part_free)

static void extender_part_on_synced(void *arg)
{
    struct extender_part *part = arg;
    gt_extender_set_ready(part->extender, true);
}

static int extender_part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    struct gt_cache *cache = gt_informers_cache(env->informers);
    struct gt_extender_spec spec = {.cache = cache,
                                    .placement = env->placement,
                                    .client_wanted = env->options->serve.tls.client_ca != NULL,
                                    .clients = env->options->serve.extender_clients,
                                    .weights = env->options->weights};
    GT_TRY(gt_score_set_weights(gt_cache_cluster(cache), &spec.weights, err));
    GT_CLEANUP(extender_part_free) struct extender_part *part = calloc(1, sizeof(*part));
    if (!part)
        return gt_fail(err, ENOMEM, "no memory for the extender");
    part->informers = env->informers;
    GT_TRY(gt_extender_new(&spec, &part->extender, err));
    gt_informers_add_handlers(env->informers,
                              &(struct gt_cache_handlers){.on_synced = extender_part_on_synced, .arg = part});
    *ret = gt_steal(part);
    return 0;
}

static bool extender_part_ready(const void *self, struct gt_buf *why)
{
    const struct extender_part *part = self;
    return gt_informers_is_synced(part->informers, why);
}

static void extender_part_metrics(const void *self, struct gt_buf *to)
{
    const struct extender_part *part = self;
    gt_extender_metrics(part->extender, to);
}

static bool extender_part_serve(void *self, const struct gt_http_request *request,
                                struct gt_http_response *response)
{
    const struct extender_part *part = self;
    return gt_extender_serve(part->extender, request, response);
}

static bool extender_part_on_body(void *self, const struct gt_http_request *request,
                                  struct gt_http_consumer *ret)
{
    struct extender_part *part = self;
    return gt_extender_on_body(part->extender, request, ret);
}

const struct gt_part gt_extender_part = {
    .name = "extender",
    .help = "scores nodes for kube-scheduler and Volcano",
    .kinds = GT_INFORMER_CLUSTER | 1U << GT_INFORMER_NAMESPACES,
    .new = extender_part_new,
    .free = extender_part_free,
    .ready = extender_part_ready,
    .metrics = extender_part_metrics,
    .serve = extender_part_serve,
    .on_body = extender_part_on_body,
};
