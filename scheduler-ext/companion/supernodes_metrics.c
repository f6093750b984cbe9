/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "base/prometheus.h"
#include "scheduler-ext/companion/supernodes_private.h"

enum { KINDS = 3 };

static unsigned mirrors_of(const struct gt_supernodes *supernodes, struct gt_apply_set_stats stats[KINDS],
                           const char *names[KINDS])
{
    const struct gt_apply_set *sets[KINDS] = {supernodes->set, supernodes->hypernodes,
                                              supernodes->nodefeatures};
    static const char *const kinds[KINDS] = {"Supernode", "HyperNode", "NodeFeature"};
    unsigned count = 0;
    for (unsigned i = 0; i < KINDS; i++)
        if (sets[i]) {
            gt_apply_set_stats(sets[i], &stats[count]);
            names[count++] = kinds[i];
        }
    return count;
}

static void write_apply_set(const struct gt_supernodes *supernodes, struct gt_buf *to)
{
    struct gt_apply_set_stats stats[KINDS] = {0};
    const char *names[KINDS] = {0};
    unsigned count = mirrors_of(supernodes, stats, names);
    gt_prom_head(to, "gputopo_objects", "Objects in the API server by kind: made by us, and others.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to,
                      "gputopo_objects{kind=\"%s\",owner=\"ours\"} %u\n"
                      "gputopo_objects{kind=\"%s\",owner=\"others\"} %u\n",
                      names[i], stats[i].ours, names[i], stats[i].foreign);
    gt_prom_head(to, "gputopo_objects_waiting", "Objects that are not yet as they shall be.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "gputopo_objects_waiting{kind=\"%s\"} %u\n", names[i], stats[i].waiting);
    gt_prom_head(to, "gputopo_object_writes_total", "Writes by kind and by what was done.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to,
                      "gputopo_object_writes_total{kind=\"%s\",verb=\"create\"} %" PRIu64 "\n"
                      "gputopo_object_writes_total{kind=\"%s\",verb=\"apply\"} %" PRIu64 "\n"
                      "gputopo_object_writes_total{kind=\"%s\",verb=\"delete\"} %" PRIu64 "\n",
                      names[i], stats[i].created, names[i], stats[i].applied, names[i], stats[i].deleted);
    gt_prom_head(to, "gputopo_object_write_failures_total", "Writes that failed.");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "gputopo_object_write_failures_total{kind=\"%s\"} %" PRIu64 "\n", names[i],
                      stats[i].failed);
}

void gt_supernodes_metrics(const void *arg, struct gt_buf *to)
{
    const struct gt_supernodes *self = arg;
    const struct gt_supernodes_stats *stats = &self->stats;
    gt_prom_head(to, "gputopo_supernodes", "Supernodes by tier.");
    for (unsigned tier = 1; tier <= GT_JOIN_TIERS_MAX; tier++)
        if (tier == 1 || stats->supernodes[tier])
            gt_buf_printf(to, "gputopo_supernodes{tier=\"%u\"} %u\n", tier, stats->supernodes[tier]);
    gt_prom_head(to, "gputopo_supernode_problems", "What contradicts itself, by its kind.");
    for (unsigned kind = 0; kind < GT_COUNT(stats->problems); kind++)
        gt_buf_printf(to, "gputopo_supernode_problems{kind=\"%s\"} %u\n",
                      gt_join_problem_name((enum gt_join_problem_kind)kind), stats->problems[kind]);
    gt_prom_number(to, "gputopo_supernode_config_error",
                   "1 while the operator's configuration of supernodes cannot be read.",
                   gt_config_source_error(self->source)[0] || gt_config_source_error(self->network)[0]);
    gt_prom_head(to, "gputopo_nodes",
                 "Nodes: in a supernode, alone, and of both those that have reported no GPUs.");
    gt_buf_printf(to,
                  "gputopo_nodes{state=\"placed\"} %u\ngputopo_nodes{state=\"alone\"} %u\n"
                  "gputopo_nodes{state=\"silent\"} %u\n",
                  stats->nodes_placed, stats->nodes - stats->nodes_placed, stats->nodes_silent);
    gt_prom_number(to, "gputopo_joins_total", "How often supernodes were worked out.", stats->joins);
    gt_prom_real(to, "gputopo_joins_seconds_total", "Time that this has taken.", stats->seconds);
    write_apply_set(self, to);
}
