/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/follow.h"

#include <errno.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/prometheus.h"
#include "kube/informer.h"
#include "scheduler-ext/core/room.h"

enum { TICK_MS = 5000 };

enum source { TOPOLOGIES, SUPERNODES, NODES, PODS, SOURCES };

static const char group[] = "topology.metax-tech.com", version[] = "v1alpha1";
static const struct gt_kube_resource topologies = {group, version, "nodegputopologies", false},
                                     supernodes = {group, version, "supernodes", false};

static const struct {
    const char *name;
    const struct gt_kube_resource *resource;
    const char *field_selector;
} sources[SOURCES] = {
    [TOPOLOGIES] = {"nodegputopologies", &topologies, NULL},
    [SUPERNODES] = {"supernodes", &supernodes, NULL},
    [NODES] = {"nodes", &gt_kube_nodes, NULL},
    [PODS] = {"pods", &gt_kube_pods, "status.phase!=Succeeded,status.phase!=Failed"},
};

struct channel { /* an informer's way back */
    struct gt_follow *follow;
    enum source source;
    struct gt_kube_informer *informer;
    bool synced, troubled;
};

struct gt_follow {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_feed *feed;
    struct gt_source *tick;
    struct channel channels[SOURCES];
    struct gt_follow_listener listeners[GT_FOLLOW_LISTENERS_MAX];
    unsigned listener_count;
    bool synced;
};

/* ---- to the listeners ---- */

#define TELL(follow, call, ...)                                                                              \
    for (unsigned i_ = 0; i_ < (follow)->listener_count; i_++)                                               \
        if ((follow)->listeners[i_].call)                                                                    \
    (follow)->listeners[i_].call(__VA_ARGS__)

static void feed_pod(void *arg, struct gt_feed_pod *pod)
{
    struct gt_follow *follow = arg;
    TELL(follow, on_pod, follow->listeners[i_].arg, pod);
}

static void feed_pod_gone(void *arg, struct gt_feed_pod *pod)
{
    struct gt_follow *follow = arg;
    TELL(follow, on_pod_gone, follow->listeners[i_].arg, pod);
}

static void feed_refused(void *arg, const char *namespace_, const char *name, const char *why)
{
    struct gt_follow *follow = arg;
    TELL(follow, on_refused, follow->listeners[i_].arg, namespace_, name, why);
}

static void feed_room(void *arg)
{
    struct gt_follow *follow = arg;
    TELL(follow, on_room, follow->listeners[i_].arg);
}

/* ---- from the informers ---- */

static void came(void *arg, cJSON *object)
{
    struct channel *channel = arg;
    struct gt_follow *follow = channel->follow;
    switch (channel->source) {
    case TOPOLOGIES:
        gt_feed_topology(follow->feed, object, gt_clock_ms());
        break;
    case SUPERNODES:
        gt_feed_supernode(follow->feed, object);
        break;
    case NODES:
        gt_feed_node(follow->feed, object);
        break;
    case PODS:
    case SOURCES:
        TELL(follow, saw_pod, follow->listeners[i_].arg, object);
        gt_feed_pod(follow->feed, object);
        break;
    }
}

static void came_new(void *arg, cJSON *object)
{
    struct channel *channel = arg;
    struct gt_follow *follow = channel->follow;
    if (channel->source == PODS && follow->synced)
        TELL(follow, made_pod, follow->listeners[i_].arg, object);
    came(arg, object);
}

static void went(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct channel *channel = arg;
    struct gt_follow *follow = channel->follow;
    (void)object;
    switch (channel->source) {
    case TOPOLOGIES:
        gt_feed_topology_gone(follow->feed, name);
        break;
    case SUPERNODES:
        gt_feed_supernode_gone(follow->feed, name);
        break;
    case NODES:
        gt_feed_node_gone(follow->feed, name);
        break;
    case PODS:
    case SOURCES:
        TELL(follow, saw_pod_gone, follow->listeners[i_].arg, namespace_, name);
        gt_feed_pod_gone(follow->feed, namespace_, name);
        break;
    }
}

static void synced(void *arg)
{
    struct channel *channel = arg;
    struct gt_follow *follow = channel->follow;
    channel->synced = true;
    if (channel->troubled)
        gt_info("follows again", GT_STR("resource", sources[channel->source].name));
    channel->troubled = false;
    if (follow->synced || !gt_follow_is_synced(follow, NULL))
        return;
    follow->synced = true;
    TELL(follow, on_synced, follow->listeners[i_].arg);
}

static void failed(void *arg, const struct gt_err *error)
{
    struct channel *channel = arg;
    gt_log(channel->troubled ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch",
           GT_STR("resource", sources[channel->source].name), GT_STR("error", gt_err_text(error)));
    channel->troubled = true;
}

static void tick(void *arg)
{
    struct gt_follow *follow = arg;
    gt_feed_tick(follow->feed, gt_clock_ms());
    gt_source_arm(follow->tick, TICK_MS);
}

/* ---- life ---- */

int gt_follow_new(struct gt_loop *loop, struct gt_kube *kube, struct gt_follow **ret, struct gt_err **err)
{
    gt_auto_follow struct gt_follow *follow = calloc(1, sizeof(*follow));
    if (!follow)
        return gt_fail(err, ENOMEM, "no memory to follow the cluster");
    follow->loop = loop;
    follow->kube = kube;
    struct gt_feed_spec spec = {.on_pod = feed_pod,
                                .on_pod_gone = feed_pod_gone,
                                .on_refused = feed_refused,
                                .on_room = feed_room,
                                .arg = follow};
    int r = gt_feed_new(&spec, &follow->feed, err);
    if (r < 0)
        return r;
    r = gt_loop_add_timer(loop, tick, follow, &follow->tick, err);
    if (r < 0)
        return r;
    *ret = gt_steal(follow);
    return 0;
}

int gt_follow_start(struct gt_follow *follow, struct gt_err **err)
{
    for (enum source source = 0; source < SOURCES; source++) {
        struct channel *channel = &follow->channels[source];
        channel->follow = follow;
        channel->source = source;
        struct gt_kube_informer_spec spec = {
            .selection = {.resource = sources[source].resource,
                          .field_selector = sources[source].field_selector},
            .on_add = came_new,
            .on_update = came,
            .on_delete = went,
            .on_synced = synced,
            .on_error = failed,
            .arg = channel,
        };
        int r = gt_kube_informer_start(follow->kube, &spec, &channel->informer, err);
        if (r < 0)
            return gt_wrap(err, "following %s", sources[source].name);
    }
    gt_source_arm(follow->tick, TICK_MS);
    return 0;
}

void gt_follow_free(struct gt_follow *follow)
{
    if (!follow)
        return;
    for (enum source source = 0; source < SOURCES; source++)
        gt_kube_informer_free(follow->channels[source].informer);
    gt_source_free(follow->tick);
    follow->listener_count = 0;
    gt_feed_free(follow->feed);
    free(follow);
}

bool gt_follow_listen(struct gt_follow *follow, const struct gt_follow_listener *listener)
{
    if (follow->listener_count == GT_FOLLOW_LISTENERS_MAX)
        return false;
    follow->listeners[follow->listener_count++] = *listener;
    return true;
}

void gt_follow_forget(struct gt_follow *follow, const void *arg)
{
    unsigned kept = 0;
    for (unsigned i = 0; i < follow->listener_count; i++)
        if (follow->listeners[i].arg != arg)
            follow->listeners[kept++] = follow->listeners[i];
    follow->listener_count = kept;
}

struct gt_feed *gt_follow_feed(struct gt_follow *follow)
{
    return follow->feed;
}

bool gt_follow_is_synced(const struct gt_follow *follow, struct gt_buf *why)
{
    bool all = true;
    for (enum source source = 0; source < SOURCES; source++) {
        if (follow->channels[source].synced)
            continue;
        if (why)
            gt_buf_printf(why, "%s%s", all ? "waiting for the list of " : ", ", sources[source].name);
        all = false;
    }
    return all;
}

/* ---- metrics ---- */

static void write_informers(const struct gt_follow *follow, struct gt_buf *to)
{
    static const char objects[] = "gputopo_informer_objects", events[] = "gputopo_informer_events_total",
                      silent[] = "gputopo_informer_silence_seconds";
    struct gt_kube_informer_counters counters[SOURCES] = {0};
    for (enum source source = 0; source < SOURCES; source++)
        if (follow->channels[source].informer)
            gt_kube_informer_counters(follow->channels[source].informer, &counters[source]);
    gt_prom_head(to, objects, "gauge", "Objects that are followed, by resource.");
    for (enum source source = 0; source < SOURCES; source++)
        gt_buf_printf(to, "%s{resource=\"%s\"} %zu\n", objects, sources[source].name,
                      counters[source].objects);
    gt_prom_head(to, events, "counter", "Additions, updates and deletions of them.");
    for (enum source source = 0; source < SOURCES; source++)
        gt_buf_printf(to, "%s{resource=\"%s\"} %llu\n", events, sources[source].name,
                      (unsigned long long)counters[source].added +
                          (unsigned long long)counters[source].updated +
                          (unsigned long long)counters[source].deleted);
    gt_prom_head(to, silent, "gauge", "Time since the API server said anything on this watch.");
    for (enum source source = 0; source < SOURCES; source++)
        if (counters[source].watch.last_heard_ms)
            gt_buf_printf(to, "%s{resource=\"%s\"} %.3f\n", silent, sources[source].name,
                          (double)(gt_clock_ms() - counters[source].watch.last_heard_ms) * 1e-3);
}

/* Of the available GPUs, the share that no unit of a size could use: units lie in one supernode, their pods
 * have 8 GPUs. */
static void write_fragmentation(const struct gt_follow *follow, struct gt_buf *to)
{
    enum { POD = 8 };
    static const unsigned sizes[] = {8, 16, 32, 64, 128};
    static const char name[] = "gputopo_fragmentation_ratio";
    struct gt_cluster *cluster = gt_feed_cluster(follow->feed);
    gt_auto_free uint32_t *room = NULL;
    uint64_t available = 0;
    struct gt_cluster_node node;
    for (uint32_t i = 0; i < gt_cluster_nodes(cluster); i++)
        if (gt_cluster_get_node(cluster, i, &node))
            available += (unsigned)__builtin_popcountll(node.available);
    if (!available || gt_room_of(cluster, POD, &room, NULL) < 0)
        return;
    gt_prom_head(to, name, "gauge", "Share of the available GPUs that no unit of so many GPUs could use.");
    for (unsigned i = 0; i < GT_COUNT(sizes); i++) {
        struct gt_bounds bounds;
        if (gt_bounds_of(room, gt_cluster_supernodes(cluster), sizes[i] / POD, 0, &bounds, NULL) == 0)
            gt_buf_printf(to, "%s{unit=\"%u\"} %.6f\n", name, sizes[i],
                          1 - (double)(bounds.whole * sizes[i]) / (double)available);
    }
}

void gt_follow_metrics(const struct gt_follow *follow, struct gt_buf *to)
{
    static const char pods[] = "gputopo_feed_pods";
    static const char *const states[] = {"gated", "waiting", "bound", "running"};
    struct gt_feed_counters counters;
    gt_feed_counters(follow->feed, &counters);
    write_informers(follow, to);
    write_fragmentation(follow, to);
    gt_prom_number(to, "gputopo_feed_nodes", "gauge", "Nodes whose topology is known.", counters.nodes);
    gt_prom_number(to, "gputopo_feed_nodes_without_topology", "gauge",
                   "Nodes without a NodeGPUTopology: unknown, not empty.", counters.nodes_without_topology);
    gt_prom_number(to, "gputopo_feed_nodes_stale", "gauge", "Nodes whose agent has been silent for too long.",
                   counters.nodes_stale);
    gt_prom_number(to, "gputopo_feed_jobs", "gauge", "Jobs with pods that ask for GPUs.", counters.jobs);
    gt_prom_number(to, "gputopo_feed_refused_total", "counter", "Objects that made no sense.",
                   counters.refused);
    gt_prom_head(to, pods, "gauge", "Pods that ask for GPUs, by state.");
    for (unsigned i = 0; i < GT_COUNT(states); i++)
        gt_buf_printf(to, "%s{state=\"%s\"} %u\n", pods, states[i], counters.pods[i]);
    gt_prom_number(to, "gputopo_feed_bytes", "gauge", "Memory of the model.", gt_feed_bytes(follow->feed));
}
