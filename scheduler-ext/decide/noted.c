/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/decide/noted.h"

#include "api/lease.h"

void gt_noted_write(const struct gt_cluster *cluster, struct gt_buf *to)
{
    struct gt_cluster_node node;
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++)
        if (gt_cluster_promised(cluster, id, GT_PROMISE_NODE) && gt_cluster_get_node(cluster, id, &node))
            gt_lease_note_add(to, node.name, 0);
    for (uint32_t id = 0; id < gt_cluster_nodes(cluster); id++) {
        uint64_t mask = gt_cluster_promised(cluster, id, GT_PROMISE_RESERVED) |
                        gt_cluster_promised(cluster, id, GT_PROMISE_VACATED);
        if (mask && gt_cluster_get_node(cluster, id, &node))
            gt_lease_note_add(to, node.name, mask);
    }
}

void gt_noted_read(struct gt_cluster *cluster, const char *note)
{
    struct gt_lease_note_word word;
    gt_cluster_end_promises(cluster, GT_PROMISE_NOTED, 0);
    gt_cluster_end_promises(cluster, GT_PROMISE_NOTED_NODE, 0);
    while (gt_lease_note_next(&note, &word)) {
        struct gt_promise_id id;
        gt_cluster_promise(
            cluster,
            &(struct gt_promise){.kind = word.is_whole ? GT_PROMISE_NOTED_NODE : GT_PROMISE_NOTED,
                                 .place = {gt_cluster_find_node(cluster, word.node), word.mask}},
            &id, NULL);
    }
}

void gt_noted_read_foreign(struct gt_cache *cache, const cJSON *object, uint64_t now_ms)
{
    struct gt_lease lease;
    if (!object || gt_lease_read(object, &lease, NULL) < 0) {
        gt_cache_set_foreign(cache, "", 0);
        return;
    }
    /* Clocks of other machines are never compared: it has changed, so it counts as renewed now. */
    unsigned s = lease.duration_s < GT_LEASE_DURATION_MAX_S ? lease.duration_s : GT_LEASE_DURATION_MAX_S;
    gt_cache_set_foreign(cache, s ? gt_lease_note(object) : "", now_ms + (uint64_t)s * 1000);
}
