/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/node.h"
#include "api/node_gpu_topology.h"
#include "api/supernode.h"
#include "base/bits.h"
#include "base/text.h"
#include "scheduler-ext/cache/cache_internal.h"

/* Reports of nodes, from which supernodes are built; decisions do not need them. */

static void drop_report(struct gt_cache *cache, struct gt_cache_report *report)
{
    gt_cache_string_drop(cache, report->server_uuid);
    for (uint32_t i = 0; i < report->remote_count; i++)
        gt_cache_string_drop(cache, report->remotes[i]);
    free((void *)(uintptr_t)report->remotes);
    gt_cache_string_drop(cache, report->gpu_attributes);
    gt_cache_string_drop(cache, report->ports);
}

void gt_cache_forget_report(struct gt_cache *cache, struct cache_node *node)
{
    struct gt_cache_report *report = &node->report;
    if (!report->is_filled)
        return;
    drop_report(cache, report);
    *report = (struct gt_cache_report){
        .name = report->name, .label = report->label, .tiers = report->tiers, .gpus = -1, .free = -1};
    cache->reports_changed = true;
}

static char *attributes_of(const struct gt_node *node)
{
    gt_auto_buf struct gt_buf text = GT_BUF(128 << 10);
    gt_node_feature_gpus(node, &text);
    return gt_buf_take(&text);
}

static bool add_remotes(struct gt_cache *cache, const struct gt_node *node, struct gt_cache_report *to)
{
    if (!node->remote_count)
        return true;
    const char **remotes = calloc(1, node->remote_count * sizeof(*remotes));
    to->remotes = remotes;
    for (unsigned i = 0; remotes && i < node->remote_count; i++) {
        remotes[i] = gt_cache_string(cache, node->remotes[i]);
        if (!remotes[i])
            return false;
        to->remote_count++;
    }
    return remotes;
}

/* False without memory. */
static bool cache_report_ports(struct gt_cache *cache, const struct gt_node *node, struct gt_cache_report *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 10);
    for (unsigned i = 0; i < node->nic_count; i++)
        if (node->nics[i].peer[0])
            gt_buf_printf(&text, "%s\n%s\n%s\n", node->nics[i].name, node->nics[i].peer,
                          node->nics[i].peer_port);
    to->ports = text.len ? gt_cache_string(cache, text.data) : NULL;
    return !text.failed && (to->ports || !text.len);
}

/* Whether two texts are equal; equal texts are shared. */
static bool cache_report_is_same(const struct gt_cache_report *a, const struct gt_cache_report *b)
{
    return a->is_filled == b->is_filled && a->gpus == b->gpus && a->usable == b->usable &&
           a->free == b->free && a->links == b->links && a->server_uuid == b->server_uuid &&
           a->gpu_attributes == b->gpu_attributes && a->ports == b->ports &&
           a->remote_count == b->remote_count &&
           (!a->remote_count || memcmp(a->remotes, b->remotes, a->remote_count * sizeof(*a->remotes)) == 0);
}

bool gt_cache_set_report(struct gt_cache *cache, struct cache_node *node,
                         const struct gt_node_gpu_topology *topology)
{
    const struct gt_node *reported = topology->node;
    struct gt_cache_report news = {
        .name = node->report.name,
        .label = node->report.label,
        .tiers = node->report.tiers,
        .is_filled = true,
        .gpus = (int)reported->gpu_count,
        .usable = gt_bit_count(gt_node_usable(reported)),
        .free = topology->use_known ? (int)gt_bit_count(topology->free) : -1,
        .links = topology->conditions[GT_TOPOLOGY_LINKS_HEALTHY].status,
    };
    gt_auto_free char *attributes = cache->spec.gpu_attributes ? attributes_of(reported) : NULL;
    bool whole =
        add_remotes(cache, reported, &news) && cache_report_ports(cache, reported, &news) &&
        (!reported->server_uuid[0] || (news.server_uuid = gt_cache_string(cache, reported->server_uuid))) &&
        (!cache->spec.gpu_attributes ||
         (attributes && (news.gpu_attributes = gt_cache_string(cache, attributes))));
    if (!whole || cache_report_is_same(&news, &node->report)) {
        drop_report(cache, &news);
        return whole;
    }
    drop_report(cache, &node->report);
    node->report = news;
    cache->reports_changed = true;
    return true;
}

/* The values of a list of labels; *whole is false without memory. */
static const char *values_of(struct gt_cache *cache, const struct gt_node_object *object, const char *keys,
                             bool *whole)
{
    gt_auto_buf struct gt_buf values = GT_BUF(GT_CACHE_LABEL_KEY_SIZE * 16);
    char key[GT_CACHE_LABEL_KEY_SIZE];
    bool has_one = false;
    for (const char *at = keys; at;) {
        const char *value =
            gt_text_next_listed(&at, key, sizeof(key)) ? gt_node_object_label(object, key) : NULL;
        has_one |= value && *value;
        gt_buf_printf(&values, "%s%s", value ? value : "", at ? "," : "");
    }
    const char *made = has_one && !values.failed ? gt_cache_string(cache, values.data) : NULL;
    *whole = made || !has_one || values.failed;
    return made;
}

void gt_cache_forget_report_labels(struct gt_cache *cache, struct cache_node *node)
{
    gt_cache_string_drop(cache, node->report.label);
    gt_cache_string_drop(cache, node->report.tiers);
    node->report.label = node->report.tiers = NULL;
}

bool gt_cache_set_supernode_label(struct gt_cache *cache, struct cache_node *node,
                                  const struct gt_node_object *object)
{
    const char *keys = cache->spec.supernode_labels, *value = NULL;
    char key[GT_CACHE_LABEL_KEY_SIZE];
    while (keys && (!value || !*value))
        if (gt_text_next_listed(&keys, key, sizeof(key)))
            value = gt_node_object_label(object, key);
    const char *label = value && *value ? gt_cache_string(cache, value) : NULL;
    cache->reports_changed |= !node->has_node || label != node->report.label;
    gt_cache_string_drop(cache, node->report.label);
    node->report.label = label;
    bool whole;
    const char *tiers = values_of(cache, object, cache->spec.network_labels, &whole);
    cache->reports_changed |= tiers != node->report.tiers;
    gt_cache_string_drop(cache, node->report.tiers);
    node->report.tiers = tiers;
    return whole && (label || !value || !*value);
}

/* ---- for building supernodes ---- */

static int cache_report_by_name(const void *a, const void *b)
{
    return strcmp((*(const struct gt_cache_report *const *)a)->name,
                  (*(const struct gt_cache_report *const *)b)->name);
}

const struct gt_cache_report **gt_cache_reports(const struct gt_cache *cache, uint32_t *ret_count)
{
    const struct gt_cache_report **list = malloc(((size_t)cache->nodes.count + 1) * sizeof(*list));
    uint32_t count = 0;
    if (!list)
        return NULL;
    for (const struct cache_node *node = NULL; (node = gt_cache_next_node(cache, node));)
        if (node->has_node)
            list[count++] = &node->report;
    if (count)
        qsort(list, count, sizeof(*list), cache_report_by_name);
    *ret_count = count;
    return list;
}
