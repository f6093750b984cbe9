/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/informers.h"

#include <errno.h>
#include <inttypes.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "kube/informer.h"
#include "scheduler-ext/decide/noted.h"

enum { TICK_MS = 5000, PODS_MAX = 1 << 20 };

static const char no_volumes[] = "plans do not consider where pods can use their volumes";

static const char no_devices[] = "plans do not consider which nodes have devices of other drivers";

static const struct {
    const char *name;
    const struct gt_kube_resource *resource;
    const char *field_selector;
    const char *without; /* consequence where it cannot be listed; NULL: it is required */
} kinds[GT_INFORMER_KINDS] = {
    [GT_INFORMER_TOPOLOGIES] = {GT_PLURAL_NODE_GPU_TOPOLOGY, &gt_kube_node_gpu_topologies, NULL, NULL},
    [GT_INFORMER_SUPERNODES] = {GT_PLURAL_SUPERNODE, &gt_kube_supernodes, NULL, NULL},
    [GT_INFORMER_NODES] = {"nodes", &gt_kube_nodes, NULL, NULL},
    [GT_INFORMER_PODS] = {"pods", &gt_kube_pods, "status.phase!=Succeeded", NULL},
    [GT_INFORMER_LEASES] = {"leases", &gt_kube_leases, "metadata.name=" GT_VC_SCHEDULER_NAME,
                            "places that Volcano's scheduler keeps for pods to come count as free"},
    [GT_INFORMER_PLACEMENTS] = {GT_PLURAL_GPU_PLACEMENT, &gt_kube_gpu_placements, NULL, NULL},
    [GT_INFORMER_QUOTAS] = {"resourcequotas", &gt_kube_resource_quotas, NULL,
                            "GPUs are reserved for pods that do not exist as if there were no quota"},
    [GT_INFORMER_CLAIMS] = {"resourceclaims", &gt_kube_resource_claims, NULL, NULL},
    [GT_INFORMER_CLAIM_TEMPLATES] = {"resourceclaimtemplates", &gt_kube_resource_claim_templates, NULL, NULL},
    [GT_INFORMER_SLICES] = {"resourceslices", &gt_kube_resource_slices, "spec.driver=" GT_DRA_DRIVER,
                            "NodeGPUTopologies alone say which GPUs claims can get"},
    [GT_INFORMER_VOLUME_CLAIMS] = {"persistentvolumeclaims", &gt_kube_volume_claims, NULL, no_volumes},
    [GT_INFORMER_VOLUMES] = {"persistentvolumes", &gt_kube_volumes, NULL, no_volumes},
    [GT_INFORMER_CLASSES] = {"storageclasses", &gt_kube_storage_classes, NULL, no_volumes},
    [GT_INFORMER_CSI_NODES] = {"csinodes", &gt_kube_csi_nodes, NULL,
                               "plans do not consider how many volumes a node can have attached"},
    [GT_INFORMER_NAMESPACES] = {"namespaces", &gt_kube_namespaces, NULL,
                                "of Namespaces only the names are known"},
    [GT_INFORMER_DEVICE_CLAIMS] = {"resourceclaims", &gt_kube_resource_claims, NULL, no_devices},
    [GT_INFORMER_DEVICE_TEMPLATES] = {"resourceclaimtemplates", &gt_kube_resource_claim_templates, NULL,
                                      no_devices},
    [GT_INFORMER_DEVICE_CLASSES] = {"deviceclasses", &gt_kube_device_classes, NULL, no_devices},
    [GT_INFORMER_DEVICE_SLICES] = {"resourceslices of others", &gt_kube_resource_slices,
                                   "spec.driver!=" GT_DRA_DRIVER, no_devices},
};

struct channel { /* the argument of an informer's callbacks */
    struct gt_informers *informers;
    enum gt_informer_kind kind;
    struct gt_kube_informer *informer;
    bool synced, failing;
    char error[256]; /* since the last list */
};

struct gt_informers {
    struct gt_informers_spec spec;
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_cache *cache;
    struct gt_source *tick;
    struct channel channels[GT_INFORMER_KINDS];
    struct gt_cache_handlers handlers[GT_INFORMERS_HANDLERS_MAX];
    unsigned handler_count;
    bool synced;
};

static bool follows(const struct gt_informers *informers, enum gt_informer_kind kind)
{
    return informers->spec.kinds >> kind & 1;
}

/* Nothing but the pods that need them waits for these. */
static bool is_late(enum gt_informer_kind kind)
{
    return kind >= GT_INFORMER_VOLUME_CLAIMS;
}

/* ---- to the handlers ---- */

/* The arguments are evaluated for each handler: none of them may take anything over. */
#define NOTIFY(informers, call, ...)                                                                         \
    for (unsigned i_ = 0; i_ < (informers)->handler_count; i_++)                                             \
        if ((informers)->handlers[i_].call)                                                                  \
    (informers)->handlers[i_].call(__VA_ARGS__)

static void cache_pod(void *arg, struct gt_cache_pod *pod)
{
    struct gt_informers *informers = arg;
    NOTIFY(informers, on_pod, informers->handlers[i_].arg, pod);
}

static void cache_pod_gone(void *arg, struct gt_cache_pod *pod)
{
    struct gt_informers *informers = arg;
    NOTIFY(informers, on_pod_deleted, informers->handlers[i_].arg, pod);
}

static void cache_refused(void *arg, const char *namespace_, const char *name, const char *why)
{
    struct gt_informers *informers = arg;
    NOTIFY(informers, on_refused, informers->handlers[i_].arg, namespace_, name, why);
}

/* Every replica says it: its own memory and time are at stake. */
static void cache_rewires(void *arg, const char *node)
{
    (void)arg;
    gt_warning("a node reports another wiring again and again: its links fail, or its agent is faulty",
               GT_STR("node", node));
}

static void cache_on_more_room(void *arg)
{
    struct gt_informers *informers = arg;
    NOTIFY(informers, on_capacity, informers->handlers[i_].arg);
}

static void cache_report(void *arg)
{
    struct gt_informers *informers = arg;
    NOTIFY(informers, on_report, informers->handlers[i_].arg);
}

/* ---- from the informers ---- */

static void follow_late(struct gt_informers *informers, enum gt_informer_kind first,
                        enum gt_informer_kind last);

static void follow_devices(struct gt_informers *informers, const struct gt_pod *pod)
{
    if (follows(informers, GT_INFORMER_PLACEMENTS) && pod->gated &&
        !informers->channels[GT_INFORMER_DEVICE_SLICES].informer &&
        gt_cache_wants_devices(informers->cache, pod))
        follow_late(informers, GT_INFORMER_DEVICE_CLAIMS, GT_INFORMER_DEVICE_SLICES);
}

static void came_pod(struct gt_informers *informers, const cJSON *object, bool is_new)
{
    struct gt_pod pod; /* every handler gets the parsed object */
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    if (follows(informers, GT_INFORMER_PLACEMENTS) && pod.gated &&
        !informers->channels[GT_INFORMER_CSI_NODES].informer &&
        gt_cache_wants_volumes(informers->cache, &pod))
        follow_late(informers, GT_INFORMER_VOLUME_CLAIMS, GT_INFORMER_CSI_NODES);
    follow_devices(informers, &pod);
    if (is_new && informers->synced)
        NOTIFY(informers, made_pod, informers->handlers[i_].arg, &pod);
    NOTIFY(informers, observe_pod, informers->handlers[i_].arg, &pod);
    gt_cache_pod(informers->cache, &pod);
    if (follows(informers, GT_INFORMER_PLACEMENTS) && !informers->channels[GT_INFORMER_NAMESPACES].informer &&
        gt_cache_wants_namespaces(informers->cache))
        follow_late(informers, GT_INFORMER_NAMESPACES, GT_INFORMER_NAMESPACES);
}

static void tell_wrong_default(const cJSON *namespace_)
{
    gt_auto_err struct gt_err *err = NULL;
    enum gt_closeness closeness;
    if (gt_namespace_closeness(namespace_, &closeness, &err) < 0)
        gt_warning("an annotation of a Namespace says nothing", GT_STR("namespace", gt_meta_name(namespace_)),
                   GT_STR("why", gt_err_text(err)));
}

static enum gt_related_kind related_kind(enum gt_informer_kind kind)
{
    return (enum gt_related_kind)(kind - GT_INFORMER_VOLUME_CLAIMS);
}

static void informers_came(void *arg, cJSON *object)
{
    struct channel *channel = arg;
    struct gt_informers *informers = channel->informers;
    switch (channel->kind) {
    case GT_INFORMER_TOPOLOGIES:
        gt_cache_topology(informers->cache, object, gt_clock_ms());
        break;
    case GT_INFORMER_SUPERNODES:
        gt_cache_supernode(informers->cache, object);
        break;
    case GT_INFORMER_NODES:
        gt_cache_node(informers->cache, object);
        break;
    case GT_INFORMER_LEASES:
        gt_noted_read_foreign(informers->cache, object, gt_clock_ms());
        break;
    case GT_INFORMER_CLAIMS:
        gt_cache_claim(informers->cache, object);
        gt_cache_related(informers->cache, GT_RELATED_DEVICE_CLAIM, object);
        break;
    case GT_INFORMER_SLICES:
        gt_cache_slice(informers->cache, object);
        break;
    case GT_INFORMER_CLAIM_TEMPLATES:
        gt_cache_related(informers->cache, GT_RELATED_DEVICE_TEMPLATE, object);
        break;
    case GT_INFORMER_PODS:
        came_pod(informers, object, false);
        return;
    case GT_INFORMER_NAMESPACES:
        tell_wrong_default(object);
        break;
    default:
        break; /* of the late ones, or for the handlers alone */
    }
    if (is_late(channel->kind))
        gt_cache_related(informers->cache, related_kind(channel->kind), object);
    NOTIFY(informers, observe, informers->handlers[i_].arg, channel->kind, object);
}

static void came_new(void *arg, cJSON *object)
{
    struct channel *channel = arg;
    if (channel->kind == GT_INFORMER_PODS)
        came_pod(channel->informers, object, true);
    else
        informers_came(arg, object);
}

static void informers_went(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct channel *channel = arg;
    struct gt_informers *informers = channel->informers;
    (void)object;
    NOTIFY(informers, observe_deleted, informers->handlers[i_].arg, channel->kind, namespace_, name);
    switch (channel->kind) {
    case GT_INFORMER_TOPOLOGIES:
        gt_cache_topology_deleted(informers->cache, name);
        break;
    case GT_INFORMER_SUPERNODES:
        gt_cache_supernode_deleted(informers->cache, name);
        break;
    case GT_INFORMER_NODES:
        gt_cache_node_deleted(informers->cache, name);
        break;
    case GT_INFORMER_LEASES:
        gt_noted_read_foreign(informers->cache, NULL, 0);
        break;
    case GT_INFORMER_CLAIMS:
        gt_cache_claim_deleted(informers->cache, namespace_, name);
        gt_cache_related_deleted(informers->cache, GT_RELATED_DEVICE_CLAIM, namespace_, name);
        break;
    case GT_INFORMER_SLICES:
        gt_cache_slice_deleted(informers->cache, name);
        break;
    case GT_INFORMER_CLAIM_TEMPLATES:
        gt_cache_related_deleted(informers->cache, GT_RELATED_DEVICE_TEMPLATE, namespace_, name);
        break;
    case GT_INFORMER_PODS:
        gt_cache_pod_deleted(informers->cache, namespace_, name);
        break;
    default:
        break;
    }
    if (is_late(channel->kind))
        gt_cache_related_deleted(informers->cache, related_kind(channel->kind), namespace_, name);
}

/* What lists the objects of a kind: ResourceClaims may be followed for other reasons already. */
static enum gt_informer_kind source_of(const struct gt_informers *informers, enum gt_informer_kind kind)
{
    bool claims = follows(informers, GT_INFORMER_CLAIMS);
    return claims && kind == GT_INFORMER_DEVICE_CLAIMS      ? GT_INFORMER_CLAIMS
           : claims && kind == GT_INFORMER_DEVICE_TEMPLATES ? GT_INFORMER_CLAIM_TEMPLATES
                                                            : kind;
}

/* Once all of them are listed or refused. `all`: otherwise nothing is known, else without the first. */
static void check_late(struct gt_informers *informers, enum gt_informer_kind first,
                       enum gt_informer_kind last, bool all)
{
    unsigned known = 0, failing = 0;
    for (enum gt_informer_kind kind = first; kind <= last; kind++) {
        const struct channel *channel = &informers->channels[source_of(informers, kind)];
        known += channel->synced;
        failing += !channel->synced && channel->failing;
    }
    bool read = all ? !failing : informers->channels[first].synced;
    if (informers->channels[last].informer && known + failing == last - first + 1)
        gt_cache_set_related(informers->cache, related_kind(first), read ? GT_IS_READ : GT_NOT_READ);
}

static void check_synced(struct gt_informers *informers)
{
    check_late(informers, GT_INFORMER_VOLUME_CLAIMS, GT_INFORMER_CSI_NODES, false);
    check_late(informers, GT_INFORMER_NAMESPACES, GT_INFORMER_NAMESPACES, true);
    check_late(informers, GT_INFORMER_DEVICE_CLAIMS, GT_INFORMER_DEVICE_SLICES, true);
    if (informers->synced || !gt_informers_is_synced(informers, NULL))
        return;
    informers->synced = true;
    NOTIFY(informers, on_synced, informers->handlers[i_].arg);
}

static void informers_synced(void *arg)
{
    struct channel *channel = arg;
    struct gt_informers *informers = channel->informers;
    channel->synced = true;
    if (channel->failing)
        gt_info("follows again", GT_STR("resource", kinds[channel->kind].name));
    channel->failing = false;
    channel->error[0] = '\0';
    if (channel->kind == GT_INFORMER_SLICES)
        gt_cache_slices_synced(informers->cache);
    NOTIFY(informers, on_listed, informers->handlers[i_].arg, channel->kind);
    check_synced(informers);
}

static void informers_failed(void *arg, const struct gt_err *error)
{
    struct channel *channel = arg;
    struct gt_informers *informers = channel->informers;
    const char *name = kinds[channel->kind].name,
               *without = channel->synced ? NULL : kinds[channel->kind].without;
    if (gt_err_code(error) == ESTALE)
        NOTIFY(informers, on_relist, informers->handlers[i_].arg, channel->kind);
    gt_log(channel->failing ? GT_LOG_DEBUG : GT_LOG_WARNING, without ? without : "cannot watch",
           GT_STR("resource", name), GT_STR("error", gt_err_text(error)));
    channel->failing = true;
    snprintf(channel->error, sizeof(channel->error), "%s", gt_err_text(error));
    check_synced(informers);
}

static void tick(void *arg)
{
    struct gt_informers *informers = arg;
    gt_cache_tick(informers->cache, gt_clock_ms());
    gt_source_arm(informers->tick, TICK_MS);
}

/* ---- creation and end ---- */

int gt_informers_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_informers_spec *wanted,
                     struct gt_informers **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_informers_free) struct gt_informers *informers = calloc(1, sizeof(*informers));
    if (!informers)
        return gt_fail(err, ENOMEM, "no memory to follow the cluster");
    informers->spec = *wanted;
    informers->loop = loop;
    informers->kube = kube;
    struct gt_cache_spec spec = {.reports = wanted->reports,
                                 .gpu_attributes = wanted->gpu_attributes,
                                 .supernode_labels = wanted->supernode_labels,
                                 .network_labels = wanted->network_labels,
                                 .claims = follows(informers, GT_INFORMER_CLAIMS),
                                 .reports_only = !follows(informers, GT_INFORMER_PODS),
                                 .on_pod = cache_pod,
                                 .on_pod_deleted = cache_pod_gone,
                                 .on_refused = cache_refused,
                                 .on_capacity = cache_on_more_room,
                                 .on_rewires = cache_rewires,
                                 .on_report = cache_report,
                                 .arg = informers};
    GT_TRY(gt_cache_new(&spec, &informers->cache, err));
    GT_TRY(gt_loop_add_timer(loop, tick, informers, &informers->tick, err));
    *ret = gt_steal(informers);
    return 0;
}

static int informers_follow(struct gt_informers *informers, enum gt_informer_kind kind, struct gt_err **err)
{
    struct channel *channel = &informers->channels[kind];
    channel->informers = informers;
    channel->kind = kind;
    struct gt_kube_informer_spec spec = {
        .selection = {.resource = kinds[kind].resource,
                      .namespace_ = kind == GT_INFORMER_LEASES ? informers->spec.lease_namespace : NULL,
                      .metadata_only = kind == GT_INFORMER_NODES && !follows(informers, GT_INFORMER_PODS),
                      .field_selector = kinds[kind].field_selector},
        .objects_max = kind == GT_INFORMER_PODS ? PODS_MAX : 0,
        .on_add = came_new,
        .on_update = informers_came,
        .on_delete = informers_went,
        .on_synced = informers_synced,
        .on_error = informers_failed,
        .arg = channel,
    };
    int r = gt_kube_informer_start(informers->kube, &spec, &channel->informer, err);
    return r < 0 ? gt_wrap(err, "following %s", kinds[kind].name) : 0;
}

static void follow_late(struct gt_informers *informers, enum gt_informer_kind first,
                        enum gt_informer_kind last)
{
    gt_auto_err struct gt_err *err = NULL;
    int r = 0;
    for (enum gt_informer_kind kind = first; kind <= last && r >= 0; kind++) {
        if (source_of(informers, kind) != kind)
            continue;
        informers->spec.kinds |= 1U << kind;
        r = informers_follow(informers, kind, &err);
    }
    enum gt_cache_reading known = r < 0 ? GT_NOT_READ : GT_BEING_READ;
    if (r < 0)
        gt_warning(kinds[first].without, GT_STR("error", gt_err_text(err)));
    gt_cache_set_related(informers->cache, related_kind(first), known);
}

int gt_informers_start(struct gt_informers *informers, struct gt_err **err)
{
    for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++)
        if (follows(informers, kind))
            GT_TRY(informers_follow(informers, kind, err));
    if (follows(informers, GT_INFORMER_NAMESPACES))
        gt_cache_set_related(informers->cache, GT_RELATED_NAMESPACE, GT_BEING_READ);
    gt_source_arm(informers->tick, TICK_MS);
    return 0;
}

void gt_informers_free(struct gt_informers *informers)
{
    if (!informers)
        return;
    for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++)
        gt_kube_informer_free(informers->channels[kind].informer);
    gt_source_free(informers->tick);
    informers->handler_count = 0;
    gt_cache_free(informers->cache);
    free(informers);
}

bool gt_informers_add_handlers(struct gt_informers *informers, const struct gt_cache_handlers *handler)
{
    if (informers->handler_count == GT_INFORMERS_HANDLERS_MAX)
        return false;
    informers->handlers[informers->handler_count++] = *handler;
    return true;
}

void gt_informers_remove_handlers(struct gt_informers *informers, const void *arg)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < informers->handler_count; i++)
        if (informers->handlers[i].arg != arg)
            informers->handlers[kept++] = informers->handlers[i];
    informers->handler_count = kept;
}

struct gt_cache *gt_informers_cache(struct gt_informers *informers)
{
    return informers->cache;
}

bool gt_informers_has_listed(const struct gt_informers *informers, enum gt_informer_kind kind,
                             const char **ret_error)
{
    const struct channel *channel = &informers->channels[kind];
    if (ret_error)
        *ret_error = channel->error;
    return channel->synced;
}

bool gt_informers_is_synced(const struct gt_informers *informers, struct gt_buf *why)
{
    bool all = true;
    for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++) {
        const struct channel *channel = &informers->channels[kind];
        if (!follows(informers, kind) || channel->synced || is_late(kind) ||
            (kinds[kind].without && channel->failing))
            continue;
        if (why)
            gt_buf_printf(why, "%s%s", all ? "waiting for the list of " : ", ", kinds[kind].name);
        all = false;
    }
    return all;
}

/* ---- metrics ---- */

static void write_informers(const struct gt_informers *informers, struct gt_buf *to)
{
    static const struct {
        const char *name, *help;
    } numbers[] = {
        {"gputopo_informer_objects", "Objects that are followed, by resource."},
        {"gputopo_informer_events_total", "Additions, updates and deletions of them."},
        {"gputopo_informer_lists_total", "Whole lists of them."},
        {"gputopo_informer_list_failures_total", "Lists of them that failed."},
        {"gputopo_informer_refused_total", "Objects beyond the limit, which are passed over."},
    };
    static const char silent[] = "gputopo_informer_silence_seconds";
    struct gt_kube_informer_counters counters[GT_INFORMER_KINDS] = {0};
    for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++)
        if (informers->channels[kind].informer)
            gt_kube_informer_counters(informers->channels[kind].informer, &counters[kind]);
    for (unsigned i = 0; i < GT_COUNT(numbers); i++) {
        gt_prom_head(to, numbers[i].name, numbers[i].help);
        for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++) {
            const struct gt_kube_informer_counters *of = &counters[kind];
            const uint64_t values[] = {of->objects, of->added + of->updated + of->deleted, of->lists,
                                       of->lists_failed, of->refused};
            if (follows(informers, kind))
                gt_buf_printf(to, "%s{resource=\"%s\"} %" PRIu64 "\n", numbers[i].name, kinds[kind].name,
                              values[i]);
        }
    }
    gt_prom_head(to, silent, "Time since the API server said anything on this watch.");
    for (enum gt_informer_kind kind = 0; kind < GT_INFORMER_KINDS; kind++)
        if (counters[kind].watch.last_received_ms)
            gt_buf_printf(to, "%s{resource=\"%s\"} %.3f\n", silent, kinds[kind].name,
                          (double)(gt_clock_ms() - counters[kind].watch.last_received_ms) * 1e-3);
}

static void write_cache(const struct gt_cache_counters *counters, struct gt_buf *to)
{
    static const char *const states[] = {"gated", "waiting", "bound", "running"};
    static const char pods[] = "gputopo_cache_pods";
    const struct {
        const char *name, *help;
        uint64_t value;
    } numbers[] = {
        {"gputopo_cache_nodes", "Nodes whose topology is known.", counters->nodes},
        {"gputopo_cache_nodes_without_topology", "Nodes without a NodeGPUTopology: unknown, not empty.",
         counters->nodes_without_topology},
        {"gputopo_cache_nodes_stale", "Nodes whose agent has been silent for too long.",
         counters->nodes_stale},
        {"gputopo_cache_nodes_outlived",
         "Nodes whose NodeGPUTopology was written for an earlier Node of this name.",
         counters->nodes_outlived},
        {"gputopo_cache_nodes_offering_less", "Nodes whose allocatable GPUs are fewer than the healthy ones.",
         counters->nodes_offering_less},
        {"gputopo_cache_nodes_rewired", "Nodes whose wiring changes again and again.",
         counters->nodes_rewired},
    };
    for (unsigned i = 0; i < GT_COUNT(numbers); i++)
        gt_prom_number(to, numbers[i].name, numbers[i].help, numbers[i].value);
    gt_prom_head(to, pods, "Pods that ask for GPUs, by state.");
    for (unsigned i = 0; i < GT_COUNT(states); i++)
        gt_buf_printf(to, "%s{state=\"%s\"} %u\n", pods, states[i], counters->pods[i]);
}

void gt_informers_metrics(const struct gt_informers *informers, struct gt_buf *to)
{
    struct gt_cache_counters counters;
    gt_cache_counters(informers->cache, &counters);
    write_informers(informers, to);
    gt_prom_number(to, "gputopo_cache_refused_total", "Objects that made no sense.", counters.refused);
    if (!follows(informers, GT_INFORMER_PODS)) /* there is no cluster */
        return;
    gt_room_metrics(gt_cache_cluster(informers->cache), to);
    write_cache(&counters, to);
}
