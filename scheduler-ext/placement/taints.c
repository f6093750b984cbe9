/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "api/node.h"
#include "base/bits.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "scheduler-ext/placement/state.h"

/*
 * With --taint-unhealthy: a Node of which more than a share of the GPUs is bad gets a taint, which is taken
 * back when it is not so any more. One Node after the other, within the brake, for which a tainted Node
 * counts. Nobody else's taint is touched: the list is read and written with its version.
 */

enum { TAINT_BODY_MAX = 64 << 10 };

static const char *taint_effect(enum gt_node_taints taints)
{
    return taints == GT_NODE_TAINT_HARD   ? "NoSchedule"
           : taints == GT_NODE_TAINT_SOFT ? "PreferNoSchedule"
                                          : NULL;
}

static void taint_tell(struct gt_placement *placement, const char *node, const char *reason, const char *text)
{
    const struct gt_event_object event = {.api_version = "v1",
                                          .kind = "Node",
                                          .name = node,
                                          .uid = node, /* as the kubelet does: kubectl looks for that */
                                          .warning = true,
                                          .reason = reason,
                                          .action = "Report",
                                          .note = text};
    if (placement->spec.on_note)
        placement->spec.on_note(placement->spec.arg, true, node, text);
    if (placement->spec.recorder)
        gt_kube_record(placement->spec.recorder, &event);
}

static void taint_fails(struct gt_placement *placement, const struct gt_err *why)
{
    gt_log(placement->taints.failing ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot write the taints of a node",
           GT_STR("node", placement->taints.name), GT_STR("why", gt_err_text(why)));
    placement->taints.failing = true;
}

/* ---- one Node ---- */

/* What failed is not repeated: the Node is looked at again. */
static bool on_node_tainted(struct gt_write_key *key, enum gt_write_outcome outcome,
                            struct gt_kube_answer *answer)
{
    struct gt_placement *placement = key->line->arg;
    struct placement_taints *taints = &placement->taints;
    char text[128];
    if (outcome != GT_WRITE_DONE) {
        taint_fails(placement, answer->error);
        return false;
    }
    taints->failing = false;
    snprintf(text, sizeof(text),
             taints->puts ? "%u of %u GPUs cannot be used" : "%u of %u GPUs cannot be used any more",
             taints->bad, taints->all);
    taint_tell(placement, taints->name, taints->puts ? "NodeTainted" : "TaintTaken", text);
    return false;
}

void gt_placement_taint_open(struct gt_placement *placement)
{
    placement->lines[PLACEMENT_TAINTS] = (struct gt_write_line){.name = "taints",
                                                                .order = GT_WRITE_LAST,
                                                                .running_max = 1,
                                                                .body_max = TAINT_BODY_MAX,
                                                                .retry_ms = placement->times.retry_ms,
                                                                .answered = on_node_tainted};
}

static void on_node_read(void *arg, struct gt_kube_answer *answer)
{
    struct gt_placement *placement = arg;
    struct placement_taints *taints = &placement->taints;
    gt_auto_buf struct gt_buf body = GT_BUF(TAINT_BODY_MAX);
    taints->call = NULL;
    if (answer->error)
        taint_fails(placement, answer->error);
    if (answer->error ||
        !gt_node_taint_write(answer->object, GT_TAINT_KEY_GPUS,
                             taints->puts ? taint_effect(placement->spec.options.taints) : NULL, &body) ||
        gt_buf_check(&body, "taints", NULL) < 0)
        return; /* it is as it should be, or is looked at again */
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_nodes,
                                            .name = taints->name,
                                            .body = body.data,
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .metadata_only = true};
    gt_write_post(&placement->lines[PLACEMENT_TAINTS], &request,
                  NULL); /* without memory the Node is looked at again */
}

static void taint_begin(struct gt_placement *placement, uint32_t id, const struct gt_cluster_node *node,
                        bool puts)
{
    struct placement_taints *taints = &placement->taints;
    const struct gt_kube_request request = {
        .verb = GT_KUBE_GET, .resource = &gt_kube_nodes, .name = node->name};
    taints->node = id;
    gt_text_copy(taints->name, sizeof(taints->name), node->name);
    taints->puts = puts;
    taints->all = gt_bit_count(node->all);
    taints->bad = gt_bit_count(node->all & ~node->healthy);
    if (gt_kube_start(placement->spec.kube, &request, on_node_read, placement, &taints->call, NULL) < 0)
        taints->call = NULL; /* it is looked at again */
}

/* ---- all of them ---- */

/* The brake lets it go; what it says is said once, until it lets one go. */
static bool taint_is_let(struct gt_placement *placement, uint32_t id, const char *name)
{
    char why[GT_BRAKE_WHY_SIZE], text[GT_BRAKE_WHY_SIZE + 64];
    struct placement_nodes *nodes = &placement->nodes;
    gt_node_set_clear(&nodes->leaving);
    bool lets = gt_node_set_add(&nodes->leaving, id, NULL) >= 0 &&
                gt_brake_lets_taint(&nodes->brake, &nodes->leaving, gt_clock_ms(), why);
    if (lets)
        gt_brake_take(&nodes->brake, &nodes->leaving, true, gt_clock_ms());
    if (!lets && !placement->taints.is_braked) {
        snprintf(text, sizeof(text), "most of its GPUs are bad, and it gets no taint: %s", why);
        taint_tell(placement, name, "TaintHeld", text);
    }
    placement->taints.is_braked = !lets;
    return lets;
}

void gt_placement_taint(struct gt_placement *placement)
{
    const struct gt_placement_options *options = &placement->spec.options;
    const struct gt_cluster *cluster = gt_cache_cluster(placement->spec.cache);
    uint32_t nodes = gt_cluster_nodes(cluster), after = placement->taints.node;
    bool braked = false;
    for (uint32_t i = 1; options->taints && !placement->taints.call &&
                         !gt_write_count(&placement->lines[PLACEMENT_TAINTS]) && i <= nodes;
         i++) {
        uint32_t id = (uint32_t)(((uint64_t)after + i) % nodes);
        struct gt_cluster_node node;
        struct gt_cache_node cached;
        if (!gt_cluster_get_node(cluster, id, &node) ||
            !gt_cache_get_node(placement->spec.cache, id, &cached) || !cached.has_node || cached.stale ||
            cached.outlived)
            continue;
        unsigned all = gt_bit_count(node.all), bad = gt_bit_count(node.all & ~node.healthy);
        bool wants = bad && 2 * bad >= all;
        if ((wants ? options->taints : GT_NODE_TAINT_NONE) == cached.taint)
            continue;
        if (wants && !cached.taint && (braked || !taint_is_let(placement, id, node.name)))
            braked = true;
        else
            taint_begin(placement, id, &node, wants);
    }
}

void gt_placement_taint_stop(struct gt_placement *placement)
{
    gt_kube_cancel(gt_steal(placement->taints.call));
    gt_write_clear(&placement->lines[PLACEMENT_TAINTS]);
    placement->taints = (struct placement_taints){0};
}
