/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/plan_texts.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "api/pod_plan.h"
#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/core/numa_room.h"
#include "scheduler-ext/core/plan.h"

/* A plan in progress, one container after the other. */
struct plan_draft {
    struct gt_planned_container containers[GT_POD_PLAN_CONTAINERS_MAX];
    unsigned count, id_count;
    const char *ids[GT_POD_PLAN_CONTAINERS_MAX * GT_GPUS_MAX];
};

static int add_container(const struct gt_cache *cache, uint32_t node, const char *name, uint64_t mask,
                         struct plan_draft *draft, struct gt_err **err)
{
    const char **ids = &draft->ids[draft->id_count];
    unsigned count = 0;
    for (uint64_t left = mask; left; left &= left - 1)
        if (!(ids[count++] = gt_cache_device_id(cache, node, gt_bit_first(left))))
            return gt_fail(err, ENOENT, "a planned GPU is gone");
    draft->containers[draft->count++] = (struct gt_planned_container){name, ids, count};
    draft->id_count += count;
    return 0;
}

/*
 * The GPUs of an ordinary init container. The kubelet passes them on to the containers that start afterwards,
 * in their order, so they are taken from the containers' GPUs in this order; then from GPUs of no container.
 * Restartable init containers that were started before keep their GPUs, so these are taken last, in reverse
 * order.
 */
static uint64_t mask_of_init(const struct gt_class *class, const struct gt_cache_pod *pod,
                             const uint64_t *masks, unsigned asked)
{
    unsigned containers = pod->meta.containers, others = containers - pod->sidecars;
    uint64_t got = 0;
    for (unsigned i = 0; i < containers && gt_bit_count(got) < asked; i++) {
        unsigned c = i < others ? pod->sidecars + i : containers - 1 - i;
        struct gt_choice choice;
        got |= gt_choose(class, masks[c], 0, asked - gt_bit_count(got), 0, &choice) ? choice.mask : masks[c];
    }
    return got;
}

/* The ordinary init container that is listed among the containers, as one that needs more than they have. */
static unsigned find_init(const struct gt_cache_pod *pod, unsigned container)
{
    unsigned c = pod->meta.containers, end = c + pod->inits;
    while (c < end && strcmp(pod->container_names[c], pod->container_names[container]) != 0)
        c++;
    return c < end ? c : GT_NONE;
}

/* The GPUs of each container, and after them of each ordinary init container. A kubelet that judges each of
 * them gives them NUMA nodes of their own. */
static void masks_of(const struct gt_class *class, const struct gt_cache_pod *pod, uint64_t mask,
                     uint64_t *ret)
{
    uint64_t requests = pod->meta.requests, served[GT_NUMA_REQUESTS_MAX];
    unsigned containers = pod->meta.containers, kept = 0, init = containers;
    bool judged = gt_numa_by_request(gt_class_numa(class), requests) && requests != GT_NUMA_TOO_MANY;
    if (judged && gt_numa_serve(class, mask, (struct gt_numa_pod){pod->gpus, requests}, served)) {
        for (unsigned i = 0; requests; requests >>= 8)
            ret[requests & GT_NUMA_INIT ? init++ : kept++] = served[i++];
        return;
    }
    gt_plan_split(class, mask, pod->meta.gpus, containers, ret);
    for (unsigned c = containers; c < containers + pod->inits; c++)
        ret[c] = mask_of_init(class, pod, ret, pod->meta.gpus[c]);
}

static int add_containers(const struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node,
                          const uint64_t *masks, struct plan_draft *draft, struct gt_err **err)
{
    unsigned containers = pod->meta.containers, listed = GT_NONE;
    for (unsigned c = 0; c < containers; c++) {
        unsigned init = pod->claim_template ? GT_NONE : find_init(pod, c);
        listed = init == GT_NONE ? listed : init;
        GT_TRY(add_container(cache, node, pod->container_names[c], masks[init == GT_NONE ? c : init], draft,
                             err));
    }
    /* with a claim they have the first GPUs of the others, which need not be written */
    unsigned inits = pod->claim_template ? 0 : pod->inits;
    for (unsigned c = containers; c < containers + inits; c++)
        if (c != listed && draft->count < GT_POD_PLAN_CONTAINERS_MAX)
            GT_TRY(add_container(cache, node, pod->container_names[c], masks[c], draft, err));
    return 0;
}

/* The text of the plan. Where it is too long the last init containers are left out, for which the agent then
 * chooses. */
static int plan_texts_write_gpus(const struct plan_draft *draft, unsigned at_least, struct gt_buf *to,
                                 struct gt_err **err)
{
    for (unsigned count = draft->count;; count--) {
        int r = gt_pod_plan_write(draft->containers, count, to, count > at_least ? NULL : err);
        if (r != -E2BIG || count <= at_least)
            return r;
    }
}

int gt_plan_texts_make(const struct gt_cache *cache, const struct gt_cache_pod *pod,
                       const struct gt_planned_place *planned, struct gt_plan_texts *ret, struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster((struct gt_cache *)(uintptr_t)cache);
    struct gt_cluster_node info;
    struct gt_cluster_supernode supernode;
    struct gt_plan_texts texts = {0};
    uint64_t masks[GT_POD_PLAN_CONTAINERS_MAX] = {0};
    gt_auto_buf struct gt_buf gpus = GT_BUF(GT_POD_PLAN_TEXT_MAX);
    if (!gt_cluster_get_node(cluster, planned->place.node, &info) ||
        !gt_cluster_get_supernode(cluster, info.supernode, &supernode) ||
        !gt_text_copy(texts.node, sizeof(texts.node), info.name))
        return gt_fail(err, ENOENT, "the planned node is gone");
    if (pod->gpus != gt_bit_count(planned->place.mask) || pod->meta.containers > GT_POD_CONTAINERS_MAX)
        return gt_fail(err, EINVAL, "pod %s: its plan does not have its number of GPUs", pod->meta.name);
    masks_of(info.class, pod, planned->place.mask, masks);
    gt_auto_free struct plan_draft *draft = calloc(1, sizeof(*draft));
    GT_NEED(draft, err, "plan");
    GT_TRY(add_containers(cache, pod, planned->place.node, masks, draft, err));
    GT_TRY(plan_texts_write_gpus(draft, pod->meta.containers, &gpus, err));
    texts.supernode = supernode.name;
    snprintf(texts.unit, sizeof(texts.unit), "%" PRIu32, planned->unit);
    snprintf(texts.unit_rank, sizeof(texts.unit_rank), "%" PRIu32, planned->unit_rank);
    snprintf(texts.rank, sizeof(texts.rank), "%" PRIu32, planned->rank);
    if (planned->tier)
        snprintf(texts.tier, sizeof(texts.tier), "%u", planned->tier);
    texts.gpus = gt_buf_take(&gpus);
    GT_NEED(texts.gpus, err, "plan");
    *ret = texts;
    return 0;
}

void gt_plan_texts_done(struct gt_plan_texts *texts)
{
    free(texts->gpus);
    *texts = (struct gt_plan_texts){0};
}

void gt_plan_pairs(const struct gt_plan_texts *texts, struct gt_pair ret[static GT_PLAN_PAIRS])
{
    const struct gt_pair pairs[] = {
        {GT_PLAN_ANNOTATION_GPUS, texts->gpus},
        {GT_PLAN_ANNOTATION_NODE, texts->node},
        {GT_PLAN_ANNOTATION_UNIT, texts->unit},
        {GT_PLAN_ANNOTATION_RANK, texts->rank},
        {GT_PLAN_ANNOTATION_UNIT_RANK, texts->unit_rank},
        {GT_PLAN_ANNOTATION_SUPERNODE, texts->supernode ? texts->supernode : ""},
        {GT_PLAN_ANNOTATION_TIER, texts->tier},
    };
    _Static_assert(GT_COUNT(pairs) == GT_PLAN_PAIRS, "each has its pair");
    memcpy(ret, pairs, sizeof(pairs));
}
