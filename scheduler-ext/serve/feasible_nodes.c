/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/feasible_nodes.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/clock.h"
#include "base/text.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/core/numa_room.h"

void gt_extender_pod_find(const struct gt_cache *cache, struct gt_extender_pod *pod)
{
    const struct gt_cache_pod *known = gt_cache_find_pod(cache, pod->namespace_, pod->name);
    if (known && pod->uid[0] && strcmp(known->uid, pod->uid) != 0)
        known = NULL; /* an earlier pod of the same name */
    pod->known = known;
    if (known) {
        gt_cache_asked(cache, known, &pod->asked);
        pod->gpus = known->gpus;
    } else
        pod->asked.gpus = pod->gpus;
    pod->planned = known && known->plan == GT_CACHE_PLAN_ASSUMED ? known->planned.node : GT_NONE;
}

/* Reserved by people, and not for it. */
static bool is_by_people(const struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node)
{
    return !gt_cache_job_may_use(cache, pod->known ? pod->known->job->key : pod->namespace_, node);
}

static const struct gt_promise *kept_from(struct gt_cache *cache, const struct gt_extender_pod *pod,
                                          uint32_t node)
{
    return gt_cluster_kept_from(gt_cache_cluster(cache), node, pod->known ? pod->known->job->number : 0);
}

bool gt_node_is_kept(const struct gt_cache *cache, const struct gt_placement *placement,
                     const struct gt_extender_pod *pod, uint32_t node)
{
    return is_by_people(cache, pod, node) ||
           (placement && gt_placement_kept_from(placement, pod->known, node));
}

enum gt_feasibility gt_node_feasibility(struct gt_cache *cache, const struct gt_placement *placement,
                                        const struct gt_extender_pod *pod, uint32_t node)
{
    struct gt_cluster_node known;
    if (!pod->gpus)
        return GT_FEASIBLE;
    if (pod->planned != GT_NONE)
        return node == pod->planned ? GT_FEASIBLE : GT_PLANNED_ELSEWHERE;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), node, &known))
        return GT_FEASIBLE;
    if (gt_node_is_kept(cache, placement, pod, node))
        return GT_NODE_RESERVED;
    return gt_node_gpus_are_reserved(gt_cache_cluster(cache), node, &known, pod->gpus) ? GT_GPUS_RESERVED
           : gt_node_kubelet_refuses(cache, node, gt_mix_numa_pod(&pod->asked))        ? GT_NUMA_REFUSED
           : gt_node_slow_refuses(cache, node, &pod->asked)                            ? GT_SLOW_REFUSED
                                                                                       : GT_FEASIBLE;
}

void gt_node_say_kept(struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node,
                      struct gt_buf *to)
{
    const struct gt_promise *promise = kept_from(cache, pod, node);
    if (promise && !is_by_people(cache, pod, node))
        gt_cache_say_promise(cache, promise, gt_clock_wall_ms() - gt_clock_ms(), to);
    else
        gt_cache_say_reserved(cache, node, to);
}

/* As an Event of the pod has it: its namespace does not learn of others' jobs. */
static void say_kept_to_pod(struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node,
                            struct gt_buf *to)
{
    const struct gt_promise *promise = kept_from(cache, pod, node);
    const struct gt_cache_job *job =
        promise && promise->owner ? gt_cache_numbered_job(cache, promise->owner) : NULL;
    const char *namespace_ = pod->known ? pod->known->meta.namespace_ : pod->namespace_;
    size_t len = namespace_ ? strlen(namespace_) : 0;
    bool is_own = job && len && strncmp(job->key, namespace_, len) == 0 && job->key[len] == '/';
    if (!promise || is_own || is_by_people(cache, pod, node))
        gt_node_say_kept(cache, pod, node, to);
    else
        gt_promise_say(promise, NULL, gt_clock_wall_ms() - gt_clock_ms(), to);
}

void gt_feasibility_reason(struct gt_cache *cache, const struct gt_extender_pod *pod, uint32_t node,
                           enum gt_feasibility feasibility, struct gt_buf *to)
{
    struct gt_cluster_node known;
    uint32_t shown = feasibility == GT_PLANNED_ELSEWHERE ? pod->planned : node;
    if (!gt_cluster_get_node(gt_cache_cluster(cache), shown, &known))
        return;
    uint64_t available = gt_node_available(gt_cache_cluster(cache), node, &known);
    unsigned left = gt_bit_count(available);
    const struct gt_numa *numa = gt_class_numa(known.class);
    if (feasibility == GT_PLANNED_ELSEWHERE)
        gt_buf_printf(to, "gputopo planned this pod for node %s", known.name);
    else if (feasibility == GT_NODE_RESERVED) {
        gt_buf_puts(to, "this node is ");
        say_kept_to_pod(cache, pod, node, to);
    } else if (feasibility == GT_NUMA_REFUSED && left < pod->gpus)
        gt_buf_printf(
            to,
            "by its last report %u GPUs are free, %u needed: it is not known yet on which NUMA nodes "
            "others are, and the kubelet's topology manager may refuse the pod",
            left, pod->gpus);
    else if (feasibility == GT_NUMA_REFUSED && gt_numa_by_request(numa, pod->asked.requests))
        gt_buf_puts(to,
                    "the kubelet's topology manager would refuse the pod (TopologyAffinityError): the GPUs "
                    "of one of its containers would be spread over too many NUMA nodes");
    else if (feasibility == GT_NUMA_REFUSED)
        gt_buf_printf(
            to,
            "the kubelet's topology manager would refuse the pod (TopologyAffinityError): its %u GPUs "
            "would be spread over too many NUMA nodes",
            pod->gpus);
    else if (feasibility == GT_SLOW_REFUSED)
        gt_buf_printf(to, "%u of the free GPUs are slow or suspect, which the pod never takes, %u needed",
                      gt_bit_count(available & known.slow), pod->gpus);
    else if (feasibility == GT_GPUS_RESERVED) {
        gt_buf_printf(
            to, "%u of the free GPUs are reserved for planned or starting pods, %u are left, %u needed",
            gt_bit_count(known.assumed | (known.free & known.healthy & ~available)), left, pod->gpus);
        uint64_t foreign = gt_cluster_promised(gt_cache_cluster(cache), node, GT_PROMISE_FOREIGN);
        gt_promise_say_some(GT_PROMISE_FOREIGN, gt_bit_count(foreign), "GPU", to);
    }
}

/* Whether the node is refused independently of its GPUs. */
static bool is_out(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                   const struct gt_cluster_node *node, uint32_t id, enum gt_refusal *ret)
{
    struct gt_cache_node cached = {0};
    gt_cache_get_node(view->cache, id, &cached);
    *ret = cached.left_alone  ? GT_REFUSED_LEFT_ALONE
           : !cached.has_node ? GT_REFUSED_NO_NODE
           : cached.outlived  ? GT_REFUSED_OUTLIVED
           : cached.stale     ? GT_REFUSED_STALE
           : !cached.ready    ? GT_REFUSED_NOT_READY
           : cached.cordoned  ? GT_REFUSED_CORDONED
           : !node->eligible  ? GT_REFUSED_NOT_ELIGIBLE
                              : GT_REFUSED_UNSUITED;
    return *ret != GT_REFUSED_UNSUITED ||
           (gt_cache_pod_is_constrained(view->cache, pod) && !gt_cache_pod_fits_node(view->cache, pod, id));
}

uint32_t gt_node_slots(const struct gt_debug_view *view, const struct gt_extender_pod *pod, uint32_t id,
                       enum gt_refusal *ret)
{
    struct gt_cluster_node node;
    *ret = GT_REFUSED_NOT_ELIGIBLE;
    if (!gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node) ||
        is_out(view, pod->known, &node, id, ret))
        return 0;
    enum gt_feasibility feasibility = gt_node_feasibility(view->cache, view->placement, pod, id);
    uint64_t available = gt_node_available(gt_cache_cluster(view->cache), id, &node);
    const struct gt_promise *kept = kept_from(view->cache, pod, id);
    bool spare = feasibility == GT_NODE_RESERVED && kept && kept->kind == GT_PROMISE_SPARE;
    *ret = spare                                                                    ? GT_REFUSED_SPARE
           : feasibility == GT_NODE_RESERVED                                        ? GT_REFUSED_NODE_RESERVED
           : feasibility == GT_GPUS_RESERVED                                        ? GT_REFUSED_GPUS_RESERVED
           : feasibility == GT_SLOW_REFUSED && gt_bit_count(available) >= pod->gpus ? GT_REFUSED_SLOW
           : feasibility == GT_NUMA_REFUSED && gt_bit_count(available) >= pod->gpus ? GT_REFUSED_NUMA
                                                                                    : GT_REFUSED_TOO_FEW;
    if (feasibility != GT_FEASIBLE)
        return 0;
    uint32_t slots = gt_numa_pods(gt_cache_cluster(view->cache), id, available, gt_mix_numa_pod(&pod->asked));
    uint32_t room = gt_cache_room_for(view->cache, id, gt_cache_pod_request(pod->known), GT_CACHE_ROOM_NOW);
    bool offered = pod->known->claim_template || gt_cache_gpus_left(view->cache, id) >= pod->gpus;
    *ret = !slots ? GT_REFUSED_TOO_FEW : offered ? GT_REFUSED_RESOURCES : GT_REFUSED_OFFERED;
    return slots < room ? slots : room;
}

struct gt_extender_pod gt_debug_extender_pod(const struct gt_debug_view *view, const struct gt_cache_pod *pod)
{
    struct gt_extender_pod made = {
        .namespace_ = pod->meta.namespace_, .name = pod->meta.name, .uid = pod->uid, .gpus = pod->gpus};
    gt_extender_pod_find(view->cache, &made);
    made.known = pod;
    return made;
}

/* All nodes that can hold the pod: values and ids in the same order. */
struct feasible {
    double *values, *sums;
    uint32_t *ids;
    uint8_t *tens;
    uint32_t count;
};

static void feasible_done(struct feasible *feasible)
{
    free(feasible->values);
    free(feasible->sums);
    free(feasible->ids);
    free(feasible->tens);
}

static bool feasible_make(struct feasible *ret, uint32_t nodes)
{
    *ret = (struct feasible){.values = calloc((size_t)nodes + 1, sizeof(double)),
                             .sums = calloc((size_t)nodes + 1, sizeof(double)),
                             .ids = calloc((size_t)nodes + 1, sizeof(uint32_t)),
                             .tens = calloc((size_t)nodes + 1, 1)};
    return ret->values && ret->sums && ret->ids && ret->tens;
}

static void sort_out(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                     struct feasible *feasible, struct gt_feasible_nodes *ret)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    uint32_t nodes = gt_cluster_nodes(cluster);
    const struct gt_extender_pod asked = gt_debug_extender_pod(view, pod);
    gt_score_all(cluster, pod->gpus, feasible->values);
    for (uint32_t id = 0; id < nodes; id++) {
        struct gt_cluster_node node;
        enum gt_refusal refusal;
        if (!gt_cluster_get_node(cluster, id, &node))
            continue;
        if (gt_node_slots(view, &asked, id, &refusal) && !isnan(feasible->values[id])) {
            feasible->values[feasible->count] =
                gt_node_value(view->cache, &asked.asked, id, feasible->values[id]);
            feasible->ids[feasible->count++] = id;
            continue;
        }
        struct gt_refused *refused = &ret->refused[refusal];
        if (refused->count < GT_ASSESSED_EXAMPLES)
            refused->examples[refused->count] = id;
        refused->count++;
    }
}

static bool feasible_nodes_goes_before(const struct gt_cluster *cluster, const struct gt_assessed_node *a,
                                       const struct gt_assessed_node *b)
{
    struct gt_cluster_node x, y;
    if (a->ten != b->ten && (a->ten == 10 || b->ten == 10)) /* which breaks all ties */
        return a->ten > b->ten;
    if (a->sum != b->sum)
        return a->sum > b->sum;
    return gt_cluster_get_node(cluster, a->id, &x) && gt_cluster_get_node(cluster, b->id, &y) &&
           strcmp(x.name, y.name) < 0;
}

static void feasible_nodes_insert(const struct gt_cluster *cluster, const struct gt_assessed_node *node,
                                  struct gt_feasible_nodes *to)
{
    unsigned at = to->best_count;
    while (at > 0 && feasible_nodes_goes_before(cluster, node, &to->best[at - 1]))
        at--;
    if (at == GT_ASSESSED_BEST)
        return;
    if (to->best_count < GT_ASSESSED_BEST)
        to->best_count++;
    memmove(&to->best[at + 1], &to->best[at], (to->best_count - 1 - at) * sizeof(*node));
    to->best[at] = *node;
}

int gt_feasible_nodes(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                      struct gt_feasible_nodes *ret, struct gt_err **err)
{
    struct gt_cluster *cluster = gt_cache_cluster(view->cache);
    __attribute__((cleanup(feasible_done))) struct feasible feasible = {0};
    *ret = (struct gt_feasible_nodes){0};
    if (!feasible_make(&feasible, gt_cluster_nodes(cluster)))
        return gt_fail(err, ENOMEM, "no memory for %u nodes", gt_cluster_nodes(cluster));
    sort_out(view, pod, &feasible, ret);
    ret->feasible = feasible.count;
    const struct gt_aware_weights weights = gt_node_weights(view->cache, &view->weights, pod);
    gt_node_values_near(view->cache, &weights, pod, feasible.ids, feasible.count, feasible.values);
    gt_score_kube_scheduler(cluster, &weights, feasible.values, feasible.ids, feasible.count, feasible.tens);
    gt_volcano_scores(view->cache, &weights, feasible.values, feasible.ids, feasible.count, feasible.sums);
    for (uint32_t i = 0; i < feasible.count; i++)
        feasible_nodes_insert(cluster,
                              &(struct gt_assessed_node){.id = feasible.ids[i],
                                                         .value = feasible.values[i],
                                                         .sum = feasible.sums[i],
                                                         .ten = feasible.tens[i]},
                              ret);
    for (unsigned i = 0; i < ret->best_count; i++) {
        struct gt_assessed_node *best = &ret->best[i];
        struct gt_score_parts parts = {0};
        struct gt_mix_amounts asked, left;
        gt_cache_asked(view->cache, pod, &asked);
        gt_cache_left(view->cache, best->id, &left);
        best->stranded_part = gt_score_stranded_part(gt_cache_mix(view->cache), &left, &asked);
        gt_score_left(cluster, best->id, UINT64_MAX, gt_mix_numa_pod(&asked), &parts);
        best->score_part = parts.score_part;
        best->exact = parts.exact;
        best->loss_part = parts.loss_part;
        best->mask = parts.choice.mask;
    }
    return 0;
}

/* What is said of nodes: "3 nodes [are] [cordoned]". `its`, `their`: of one node, of several. */
static const struct {
    const char *name, *one, *many, *what, *its, *their, *rest;
} refusals[GT_REFUSALS] = {
    [GT_REFUSED_TOO_FEW] = {"tooFew", "has", "have", .what = "fewer than"},
    [GT_REFUSED_GPUS_RESERVED] = {"gpusReserved", "has", "have",
                                  .what =
                                      "too few left: free GPUs are reserved for planned or starting pods"},
    [GT_REFUSED_NODE_RESERVED] = {"nodeReserved", "is", "are", .what = "reserved"},
    [GT_REFUSED_NUMA] = {"numa", "has", "have", "enough GPUs free, but spread over NUMA nodes so that ",
                         "its kubelet", "their kubelets", " would refuse the pod"},
    [GT_REFUSED_SLOW] = {"slow", "has", "have",
                         .what =
                             "enough GPUs free, but some are slow or suspect, and the pod never takes these"},
    [GT_REFUSED_RESOURCES] = {"tooFewResources", "has", "have",
                              .what = "too little besides GPUs left for the pod"},
    [GT_REFUSED_SPARE] = {"spare", "is", "are", .what = "spare, left free for pods that lose their nodes"},
    [GT_REFUSED_UNSUITED] = {"unsuited", "does not", "do not",
                             "suit the pod: its node selector, affinity or tolerations rule ", "it", "them",
                             " out"},
    [GT_REFUSED_CORDONED] = {"cordoned", "is", "are", .what = "cordoned"},
    [GT_REFUSED_NOT_READY] = {"notReady", "is", "are", .what = "not Ready"},
    [GT_REFUSED_STALE] = {"stale", "is", "are",
                          .what = "stale: the agent there has not published for too long"},
    [GT_REFUSED_OUTLIVED] =
        {"outlived", "is", "are",
         .what = "not believed: the report there is of an earlier Node of the same name, until "
                 "its agent writes a new one"},
    [GT_REFUSED_OFFERED] = {"notOffered", "offers", "offer",
                            "fewer GPUs than are free there, by status.allocatable of ", "its Node",
                            "their Nodes", ""},
    [GT_REFUSED_NO_NODE] = {"noNode", "has", "have", .what = "no Node object"},
    [GT_REFUSED_LEFT_ALONE] =
        {"leftAlone", "is", "are",
         .what = "left alone: the GPUs there are shared, and the vendor's plugin serves them"},
    [GT_REFUSED_NOT_ELIGIBLE] = {"notEligible", "is", "are", .what = "not eligible"},
};

void gt_refusal_text(enum gt_refusal refusal, uint32_t count, const struct gt_cache_pod *pod,
                     struct gt_buf *to)
{
    bool one = count == 1;
    gt_buf_printf(to, "%s %s", one ? refusals[refusal].one : refusals[refusal].many, refusals[refusal].what);
    if (refusals[refusal].its)
        gt_buf_printf(to, "%s%s", one ? refusals[refusal].its : refusals[refusal].their,
                      refusals[refusal].rest);
    if (refusal == GT_REFUSED_TOO_FEW)
        gt_buf_printf(to, " %u GPU%s free", pod->gpus, gt_plural(pod->gpus));
}

const char *gt_refusal_name(enum gt_refusal refusal)
{
    return refusals[refusal].name;
}
