/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/text.h"
#include "base/time_text.h"
#include "cli/use.h"
#include "cli/view.h"
#include "topology/model/loss.h"
#include "topology/model/node_json.h"

/* What is kept of a NodeGPUTopology. */

enum { PROBLEMS_TEXT_MAX = 400, PAIRS_SHOWN = 3 };

static void view_node_write_links(const struct gt_node *wired, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf pairs = GT_BUF(128);
    unsigned down = 0;
    for (unsigned i = 0; i < wired->link_count; i++) {
        const struct gt_link *link = &wired->links[i];
        if (link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_DOWN && down++ < PAIRS_SHOWN)
            gt_buf_printf(&pairs, "%s%u-%u", down > 1 ? " " : "", link->a, link->b);
    }
    if (down)
        gt_picture_add_note(to, "link%s %s%s down", down > 1 ? "s" : "", pairs.data ? pairs.data : "",
                            down > PAIRS_SHOWN ? " and more" : "");
}

static void write_conditions(const struct gt_condition *conditions, struct gt_buf *to)
{
    const struct gt_condition *discovered = &conditions[GT_TOPOLOGY_DISCOVERED],
                              *registered = &conditions[GT_TOPOLOGY_REGISTERED];
    if (discovered->status == GT_CONDITION_FALSE)
        gt_picture_add_note(to, "%s",
                            strcmp(discovered->reason, GT_REASON_NO_GPU) == 0     ? "no GPU found"
                            : strcmp(discovered->reason, GT_REASON_GPU_LOST) == 0 ? "GPU lost"
                                                                                  : "scan failed");
    if (conditions[GT_TOPOLOGY_VENDOR_LIBRARY].status == GT_CONDITION_FALSE)
        gt_picture_add_note(to, "no vendor library");
    if (registered->status == GT_CONDITION_FALSE &&
        strcmp(registered->reason, GT_REASON_NO_DEVICE_PLUGIN) != 0 &&
        strcmp(registered->reason, GT_REASON_NO_GPU) != 0)
        gt_picture_add_note(to, "not registered");
}

static void write_gpu(unsigned i, const struct gt_gpu *gpu, bool usable, struct gt_buf *to)
{
    const char *why = usable ? gpu->grade_reason : gpu->unhealthy_reason;
    char text[64];
    gt_text_shorten(text, sizeof(text), why);
    gt_picture_add_note(to, "GPU %u %s%s%s%s", i, usable ? gt_gpu_grade_name(gpu->grade) : "unhealthy",
                        *why ? " (" : "", text, *why ? ")" : "");
}

static void write_problems(const struct gt_node_gpu_topology *topology, int64_t age,
                           const struct gt_picture_node *node, struct gt_buf *to)
{
    const struct gt_node *wired = topology->node;
    for (unsigned i = 0; i < wired->gpu_count; i++)
        if (!gt_gpu_usable(&wired->gpus[i]))
            write_gpu(i, &wired->gpus[i], false, to);
    for (unsigned i = 0; i < wired->gpu_count; i++)
        if (gt_gpu_usable(&wired->gpus[i]) && wired->gpus[i].grade)
            write_gpu(i, &wired->gpus[i], true, to);
    if (node->unknown) {
        gt_auto_buf struct gt_buf list = GT_BUF(PROBLEMS_TEXT_MAX);
        gt_text_add_mask(&list, node->unknown);
        gt_picture_add_note(to, "GPU %s of unknown health", list.data ? list.data : "");
    }
    view_node_write_links(wired, to);
    write_conditions(topology->conditions, to);
    if (!node->use_known)
        gt_picture_add_note(to, "use not known");
    if (age > CLI_STALE_S) {
        char text[GT_TIME_TEXT_SIZE];
        gt_picture_add_note(to, "last seen %s ago", gt_time_span_text(age, text));
    }
}

/* The index of a node's weights among the wirings; *ret_new: they are new. */
static uint32_t find_wiring(struct cli_view *view, const struct gt_node *wired, bool *ret_new)
{
    struct gt_weights weights;
    gt_weights_of(wired, &weights);
    uint64_t digest = gt_digest_mix(gt_digest_keyed("wiring"), weights.n);
    for (unsigned i = 0; i < weights.n * weights.n; i++)
        digest = gt_digest_mix(digest, weights.w[i / weights.n][i % weights.n]);
    const struct gt_numa *numa = &weights.numa; /* the kubelet's policy: others refuse other pods */
    digest = gt_digest_mix(digest, numa->count * 4 + numa->single * 2 + numa->by_pod);
    for (unsigned i = 0; i < numa->count; i++)
        digest = gt_digest_mix(digest, numa->gpus[i]);
    for (uint32_t i = 0; i < view->wiring_count; i++)
        if (view->wirings[i] == digest)
            return i;
    uint64_t *grown = cli_view_grown(view, view->wirings, view->wiring_count, sizeof(*grown));
    if (!grown)
        return GT_NONE;
    view->wirings = grown;
    view->wirings[view->wiring_count] = digest;
    *ret_new = true;
    return view->wiring_count++;
}

/* Only the first node of each wiring keeps its topology: a cluster file has a limit, and others refer to it.
 */
static void keep_topology(struct cli_view *view, const struct gt_node *wired, struct cli_view_node *node)
{
    bool fresh = false;
    node->wiring = find_wiring(view, wired, &fresh);
    node->slow = gt_node_graded(wired);
    if (!fresh)
        return;
    gt_auto_json cJSON *json = gt_node_to_json(wired);
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    if (json)
        gt_json_print(json, &text);
    node->topology = gt_buf_take(&text);
    view->failed |= !node->topology;
}

/* A pod is listed once, even if several of its containers have GPUs. */
static void view_node_add_owner(struct cli_view *view, const struct gt_gpu_owner *owner)
{
    struct gt_picture *picture = &view->picture;
    for (uint32_t i = picture->pod_count; i > 0 && picture->pods[i - 1].place.node == picture->node_count;
         i--) {
        struct gt_picture_pod *pod = &picture->pods[i - 1];
        if (strcmp(pod->name, owner->pod) == 0 && strcmp(pod->namespace_, owner->namespace_) == 0) {
            pod->place.mask |= UINT64_C(1) << owner->gpu;
            return;
        }
    }
    struct gt_picture_pod *grown = cli_view_grown(view, picture->pods, picture->pod_count, sizeof(*grown));
    if (!grown)
        return;
    picture->pods = grown;
    picture->pods[picture->pod_count++] =
        (struct gt_picture_pod){.namespace_ = cli_view_keep(view, owner->namespace_),
                                .name = cli_view_keep(view, owner->pod),
                                .place = {picture->node_count, UINT64_C(1) << owner->gpu},
                                .unit = GT_NONE,
                                .rank = GT_NONE};
}

static void fill_node(struct cli_view *view, const struct gt_node_gpu_topology *topology,
                      struct gt_picture_node *node, struct cli_view_node *more)
{
    const struct gt_node *wired = topology->node;
    gt_auto_buf struct gt_buf note = GT_BUF(PROBLEMS_TEXT_MAX);
    node->known = true;
    node->gpus = wired->gpu_count;
    node->unhealthy = gt_node_with_health(wired, GT_GPU_UNHEALTHY);
    node->unknown = gt_node_with_health(wired, GT_GPU_HEALTH_UNKNOWN);
    node->product = cli_view_keep(view, wired->gpu_count ? wired->gpus[0].product : "");
    node->use_known = topology->use_known;
    node->free = topology->free & ~topology->owned & ~node->unhealthy;
    node->used = topology->owned;
    for (unsigned i = 0; i < topology->owner_count; i++)
        view_node_add_owner(view, &topology->owners[i]);
    more->observed = gt_time_of_text(topology->observed_at);
    write_problems(topology, more->observed ? view->picture.now - more->observed : 0, node, &note);
    node->note = cli_view_keep(view, note.data ? note.data : "");
    if (view->keep_topology)
        keep_topology(view, wired, more);
}

void cli_view_add_node(void *arg, cJSON *object)
{
    struct cli_view *view = arg;
    const char *name = gt_meta_name(object);
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    gt_auto_err struct gt_err *err = NULL, *problem = NULL;
    struct cli_view_node more = {.supernode = GT_NONE, .wiring = GT_NONE};
    if (!*name || view->failed)
        return;
    struct gt_picture_node node = {.name = cli_view_keep(view, name), .product = ""};
    if (cli_use_read_topology(object, &topology, &problem, &err) < 0) {
        cli_view_problem(view, "%s; this node is left out", gt_err_text(err));
        node.note = "cannot be read";
    } else if (!topology.node) {
        node.note = "nothing reported yet";
    } else {
        if (problem)
            cli_view_problem(view, "%s; its use counts as not known", gt_err_text(problem));
        fill_node(view, &topology, &node, &more);
    }
    cli_view_append(view, &node, &more);
}
