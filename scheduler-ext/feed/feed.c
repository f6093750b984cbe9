/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/feed/feed.h"

#include <errno.h>
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

enum { STALE_MS = 15 * 60 * 1000 };

int gt_feed_new(const struct gt_feed_spec *spec, struct gt_feed **ret, struct gt_err **err)
{
    gt_auto_feed struct gt_feed *feed = calloc(1, sizeof(*feed));
    if (!feed)
        return gt_fail_sys(err, ENOMEM, "feed");
    if (spec)
        feed->spec = *spec;
    if (!feed->spec.stale_ms)
        feed->spec.stale_ms = STALE_MS;
    /* Where memory lies is nobody's to foretell: names cannot be made to meet in one place of a table. */
    feed->seed = gt_feed_mix((uint64_t)(uintptr_t)feed, (uint64_t)(uintptr_t)&gt_feed_new);
    feed->resource = strdup(feed->spec.resource ? feed->spec.resource : "metax-tech.com/gpu");
    if (!feed->resource)
        return gt_fail_sys(err, ENOMEM, "feed");
    int r = gt_cluster_new(&feed->cluster, err);
    if (r >= 0)
        r = gt_class_cache_new(FEED_CLASSES_MAX, &feed->classes, err);
    if (r < 0)
        return r;
    *ret = gt_steal(feed);
    return 0;
}

static void free_pods(struct gt_feed *feed)
{
    for (struct feed_pod *next = gt_feed_table_after(&feed->pods, 0, NULL), *pod; (pod = next);) {
        next = gt_feed_table_after(&feed->pods, pod->hash, pod);
        gt_feed_leave_job(pod);
        gt_feed_free_pod(feed, pod);
    }
}

static void free_nodes(struct gt_feed *feed)
{
    for (struct feed_node *next = gt_feed_table_after(&feed->nodes, 0, NULL), *node; (node = next);) {
        next = gt_feed_table_after(&feed->nodes, node->hash, node);
        gt_feed_forget_topology(feed, node);
        gt_feed_forget_labels(feed, node);
        gt_feed_text_drop(feed, node->name);
        gt_feed_release(&feed->bytes, node);
    }
}

void gt_feed_free(struct gt_feed *feed)
{
    if (!feed)
        return;
    free_pods(feed);
    gt_feed_supernodes_done(feed);
    free_nodes(feed);
    struct feed_table *const tables[] = {&feed->pods,  &feed->jobs,   &feed->nodes,
                                         &feed->suits, &feed->taints, &feed->texts};
    for (size_t i = 0; i < GT_COUNT(tables); i++)
        gt_feed_table_done(tables[i], &feed->bytes);
    gt_feed_release(&feed->bytes, feed->by_id);
    gt_cluster_free(feed->cluster);
    gt_class_cache_free(feed->classes);
    free(feed->resource);
    free(feed);
}

struct gt_cluster *gt_feed_cluster(struct gt_feed *feed)
{
    return feed->cluster;
}

/* ---- telling ---- */

void gt_feed_changed(struct gt_feed *feed, struct feed_pod *pod)
{
    if (pod->changed || pod == feed->silent)
        return;
    pod->changed = true;
    pod->next_changed = NULL;
    if (feed->last_changed)
        feed->last_changed->next_changed = pod;
    else
        feed->first_changed = pod;
    feed->last_changed = pod;
}

void gt_feed_deliver(struct gt_feed *feed)
{
    for (struct feed_pod *pod; (pod = feed->first_changed);) {
        feed->first_changed = pod->next_changed;
        if (!feed->first_changed)
            feed->last_changed = NULL;
        pod->changed = false;
        if (feed->spec.on_pod)
            feed->spec.on_pod(feed->spec.arg, &pod->pub);
    }
    if (feed->room) {
        feed->room = false;
        if (feed->spec.on_room)
            feed->spec.on_room(feed->spec.arg);
    }
}

void gt_feed_tick(struct gt_feed *feed, uint64_t now_ms)
{
    if (now_ms > feed->now_ms)
        feed->now_ms = now_ms;
    bool expired = gt_cluster_expire(feed->cluster, feed->now_ms);
    for (struct feed_node *node = gt_feed_table_after(&feed->nodes, 0, NULL); node;
         node = gt_feed_table_after(&feed->nodes, node->hash, node)) {
        if (!node->has_topology)
            continue;
        bool stale = feed->now_ms - node->heard_ms > feed->spec.stale_ms;
        if (stale == node->stale && !node->is_shared) /* callers may have ended what they assumed there */
            continue;
        node->stale = stale;
        gt_feed_settle(feed, node);
    }
    feed->room |= expired;
    gt_feed_deliver(feed);
}

/* ---- questions ---- */

const char *gt_feed_device_id(const struct gt_feed *feed, uint32_t node_id, unsigned gpu)
{
    const struct feed_node *node = gt_feed_node_of(feed, node_id);
    return node && gpu < gt_class_gpus(node->class) ? node->device_ids[gpu] : NULL;
}

const struct gt_feed_pod *gt_feed_gpu_user(const struct gt_feed *feed, uint32_t node_id, unsigned gpu)
{
    const struct feed_node *node = gt_feed_node_of(feed, node_id);
    if (!node || gpu >= gt_class_gpus(node->class))
        return NULL;
    uint64_t bit = UINT64_C(1) << gpu;
    for (uint32_t i = 0; i < node->owner_count; i++)
        if (node->owners[i].mask & bit) {
            struct feed_pod *pod = gt_feed_pod_named(feed, node->owners[i].namespace_, node->owners[i].pod);
            return pod && pod->seat == node && gt_feed_may_be_named(node, pod) ? &pod->pub : NULL;
        }
    for (const struct feed_pod *pod = node->seats; pod; pod = pod->seat_next)
        if (pod->hold & bit)
            return &pod->pub;
    return NULL;
}

bool gt_feed_get_node(const struct gt_feed *feed, uint32_t node_id, struct gt_feed_node *ret)
{
    const struct feed_node *node = gt_feed_node_of(feed, node_id);
    if (!node)
        return false;
    *ret = (struct gt_feed_node){.has_node = node->has_node,
                                 .ready = node->ready,
                                 .cordoned = node->cordoned,
                                 .stale = node->stale,
                                 .links_down = node->links_down,
                                 .left_alone = node->left_alone,
                                 .health_unknown = node->health_unknown,
                                 .heard_ms = node->heard_ms,
                                 .product = node->product};
    return true;
}

void gt_feed_counters(const struct gt_feed *feed, struct gt_feed_counters *ret)
{
    struct gt_feed_counters counters = {
        .jobs = feed->jobs.count, .refused = feed->refused, .pods_beyond = feed->pods_beyond};
    memcpy(counters.pods, feed->pods_in, sizeof(counters.pods));
    for (const struct feed_node *node = gt_feed_table_after(&feed->nodes, 0, NULL); node;
         node = gt_feed_table_after(&feed->nodes, node->hash, node)) {
        counters.nodes += node->id != GT_NONE;
        counters.nodes_without_topology += node->has_node && node->has_gpus && !node->has_topology;
        counters.nodes_stale += node->stale;
    }
    for (const struct feed_supernode *at = gt_feed_table_after(&feed->supernodes, 0, NULL); at;
         at = gt_feed_table_after(&feed->supernodes, at->hash, at))
        counters.supernodes += at->known;
    *ret = counters;
}

size_t gt_feed_bytes(const struct gt_feed *feed)
{
    return sizeof(*feed) + feed->bytes + gt_cluster_bytes(feed->cluster);
}
