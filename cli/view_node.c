/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"
#include "base/text.h"
#include "base/time_text.h"
#include "cli/use.h"
#include "cli/view.h"
#include "kube/status.h"
#include "topology/model/loss.h"
#include "topology/model/node_json.h"

/* From a NodeGPUTopology to what stays of it. */

/*
 * A cluster file may have 16 MiB and a million values (base/json_parse.c): so much of it is for
 * topologies, the rest for the nodes around them and their pods.
 */
enum { TOPOLOGY_BYTES_MAX = 11 << 20, TOPOLOGY_VALUES_MAX = 600000, TROUBLE_MAX = 400, PAIRS_SHOWN = 3 };

static void add_trouble(struct gt_buf *to, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add_trouble(struct gt_buf *to, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    if (to->len + strlen(text) + 2 > to->max)
        return;
    gt_buf_printf(to, "%s%s", to->len ? ", " : "", text);
}

static void tell_links(const struct gt_node *wired, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf pairs = GT_BUF(128);
    unsigned down = 0;
    for (unsigned i = 0; i < wired->link_count; i++) {
        const struct gt_link *link = &wired->links[i];
        if (link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_DOWN && down++ < PAIRS_SHOWN)
            gt_buf_printf(&pairs, "%s%u-%u", down > 1 ? " " : "", link->a, link->b);
    }
    if (down)
        add_trouble(to, "link%s %s%s down", down > 1 ? "s" : "", pairs.data ? pairs.data : "",
                    down > PAIRS_SHOWN ? " and more" : "");
}

static void tell_conditions(const struct gt_condition *conditions, struct gt_buf *to)
{
    const struct gt_condition *discovered = &conditions[GT_TOPOLOGY_DISCOVERED],
                              *registered = &conditions[GT_TOPOLOGY_REGISTERED];
    if (discovered->status == GT_CONDITION_FALSE)
        add_trouble(to, "%s",
                    strcmp(discovered->reason, GT_REASON_NO_GPU) == 0     ? "no GPU found"
                    : strcmp(discovered->reason, GT_REASON_GPU_LOST) == 0 ? "GPU lost"
                                                                          : "scan failed");
    if (conditions[GT_TOPOLOGY_VENDOR_LIBRARY].status == GT_CONDITION_FALSE)
        add_trouble(to, "no vendor library");
    if (registered->status == GT_CONDITION_FALSE &&
        strcmp(registered->reason, GT_REASON_NO_DEVICE_PLUGIN) != 0 &&
        strcmp(registered->reason, GT_REASON_NO_GPU) != 0)
        add_trouble(to, "not registered");
}

static void tell_trouble(const struct gt_node_gpu_topology *topology, const struct cli_view *view,
                         struct cli_node *node, struct gt_buf *to)
{
    const struct gt_node *wired = topology->node;
    for (unsigned i = 0; i < wired->gpu_count; i++)
        if (!gt_gpu_usable(&wired->gpus[i]))
            add_trouble(to, "GPU %u ill%s%.60s%s", i, wired->gpus[i].unhealthy_reason[0] ? " (" : "",
                        wired->gpus[i].unhealthy_reason, wired->gpus[i].unhealthy_reason[0] ? ")" : "");
    if (node->unsure) {
        gt_auto_buf struct gt_buf list = GT_BUF(TROUBLE_MAX);
        gt_text_add_mask(&list, node->unsure);
        add_trouble(to, "GPU %s of unknown health", list.data ? list.data : "");
    }
    tell_links(wired, to);
    tell_conditions(topology->conditions, to);
    if (!node->free_known)
        add_trouble(to, "use not known");
    node->observed = gt_time_of_text(topology->observed_at);
    node->stale = node->observed && view->now - node->observed > CLI_STALE_S;
    if (node->stale) {
        char age[32];
        cli_age_text(view->now - node->observed, age, sizeof(age));
        add_trouble(to, "last seen %s", age);
    }
}

/* The place of these weights among the view's wirings; *ret_new: it was not there before. */
static uint32_t find_wiring(struct cli_view *view, const struct gt_node *wired, bool *ret_new)
{
    struct gt_weights weights;
    gt_weights_of(wired, &weights);
    unsigned n = weights.n;
    size_t size = (size_t)n * n * sizeof(uint16_t);
    gt_auto_free uint16_t *packed = malloc(size + 1);
    if (!packed) {
        view->failed = true;
        return CLI_NONE;
    }
    for (unsigned i = 0; i < n; i++)
        memcpy(packed + (size_t)i * n, weights.w[i], n * sizeof(uint16_t));
    uint64_t hash = gt_digest_bytes(GT_DIGEST_EMPTY, packed, size);
    for (uint32_t i = 0; i < view->wiring_count; i++) {
        const struct cli_wiring *wiring = &view->wirings[i];
        if (wiring->hash == hash && wiring->n == n && memcmp(wiring->weights, packed, size) == 0) {
            *ret_new = false;
            return i;
        }
    }
    if (view->wiring_count == view->wiring_room) {
        uint32_t room = view->wiring_room ? 2 * view->wiring_room : 16;
        struct cli_wiring *grown = reallocarray(view->wirings, room, sizeof(*grown));
        if (!grown) {
            view->failed = true;
            return CLI_NONE;
        }
        view->wirings = grown;
        view->wiring_room = room;
    }
    view->wirings[view->wiring_count] = (struct cli_wiring){n, hash, gt_steal(packed)};
    *ret_new = true;
    return view->wiring_count++;
}

static size_t count_values(const cJSON *json)
{
    size_t count = 1;
    for (const cJSON *child = json->child; child; child = child->next)
        count += count_values(child);
    return count;
}

/* There is no room for all: only what is needed to say the others are wired alike stays. */
static void begin_shorthand(struct cli_view *view)
{
    view->shorthand = true;
    gt_auto_free bool *seen = calloc((size_t)view->wiring_count + 1, sizeof(*seen));
    if (!seen) {
        view->failed = true;
        return;
    }
    for (uint32_t i = 0; i < view->node_count; i++) {
        struct cli_node *node = &view->nodes[i];
        if (node->wiring == CLI_NONE)
            continue;
        if (seen[node->wiring])
            free(gt_steal(node->topology));
        seen[node->wiring] = true;
    }
}

static void keep_topology(struct cli_view *view, const struct gt_node *wired, struct cli_node *node)
{
    bool fresh = false;
    node->wiring = find_wiring(view, wired, &fresh);
    if (view->shorthand && !fresh)
        return;
    cJSON *json = gt_node_to_json(wired);
    gt_auto_buf struct gt_buf text = GT_BUF(GT_JSON_MAX);
    if (!json || node->wiring == CLI_NONE) {
        view->failed = true;
        cJSON_Delete(json);
        return;
    }
    gt_json_print(json, &text);
    view->topology_bytes += text.len;
    view->topology_values += count_values(json);
    cJSON_Delete(json);
    if (!view->shorthand &&
        (view->topology_bytes > TOPOLOGY_BYTES_MAX || view->topology_values > TOPOLOGY_VALUES_MAX))
        begin_shorthand(view);
    if (view->shorthand && !fresh)
        return;
    node->topology = gt_buf_take(&text);
    view->failed |= !node->topology;
}

static void add_pod(struct cli_view *view, uint32_t node, const char *name, uint64_t mask)
{
    for (uint32_t i = view->pod_count; i > 0 && view->pods[i - 1].node == node; i--)
        if (strcmp(view->pods[i - 1].name, name) == 0) { /* another container of it */
            view->pods[i - 1].mask |= mask;
            return;
        }
    if (view->pod_count == view->pod_room) {
        uint32_t room = view->pod_room ? 2 * view->pod_room : 64;
        struct cli_pod *grown =
            room > 8 * CLI_VIEW_MAX ? NULL : reallocarray(view->pods, room, sizeof(*grown));
        if (!grown) {
            view->failed = true;
            return;
        }
        view->pods = grown;
        view->pod_room = room;
    }
    char *copy = strdup(name);
    if (copy)
        view->pods[view->pod_count++] = (struct cli_pod){copy, node, CLI_NONE, mask};
    else
        view->failed = true;
}

static void add_use(struct cli_view *view, const struct gt_node_gpu_topology *topology, struct cli_node *node)
{
    struct cli_use use;
    cli_use_from_topology(topology, &use);
    node->free_known = use.known;
    node->free = use.free & ~node->ill;
    node->used = use.used;
    for (unsigned i = 0; i < use.owner_count; i++) {
        char name[512];
        snprintf(name, sizeof(name), "%s/%s", use.owners[i].namespace_, use.owners[i].pod);
        add_pod(view, view->node_count, name, use.owners[i].mask);
    }
}

static void fill_node(struct cli_view *view, const struct gt_node_gpu_topology *topology,
                      struct cli_node *node)
{
    const struct gt_node *wired = topology->node;
    node->gpus = wired->gpu_count;
    node->ill = gt_node_with_health(wired, GT_GPU_UNHEALTHY);
    node->unsure = gt_node_with_health(wired, GT_GPU_HEALTH_UNKNOWN);
    node->product = strdup(wired->gpu_count ? wired->gpus[0].product : "");
    view->failed |= !node->product;
    add_use(view, topology, node);
    gt_auto_buf struct gt_buf trouble = GT_BUF(TROUBLE_MAX);
    tell_trouble(topology, view, node, &trouble);
    node->trouble = gt_buf_take(&trouble);
    if (view->keep_topology)
        keep_topology(view, wired, node);
}

void cli_view_add_node(struct cli_view *view, const cJSON *object)
{
    const char *name = gt_kube_meta(object, "name");
    gt_auto_node_gpu_topology struct gt_node_gpu_topology topology = {0};
    gt_auto_err struct gt_err *err = NULL, *problem = NULL;
    struct cli_node node = {.supernode = CLI_NONE, .wiring = CLI_NONE};
    if (!*name || view->failed)
        return;
    if (view->node_count == view->node_room) {
        uint32_t room = view->node_room ? 2 * view->node_room : 64;
        struct cli_node *grown = room > CLI_VIEW_MAX ? NULL : reallocarray(view->nodes, room, sizeof(*grown));
        if (!grown) {
            view->failed = true;
            return;
        }
        view->nodes = grown;
        view->node_room = room;
    }
    if (cli_use_read_topology(object, &topology, &problem, &err) < 0) {
        node.state = CLI_NODE_NONSENSE;
        cli_view_problem(view, "%s; this node is left out", gt_err_text(err));
        node.trouble = strdup("cannot be read");
    } else if (!topology.node) {
        node.state = CLI_NODE_SILENT;
        node.trouble = strdup("nothing reported yet");
    } else {
        if (problem)
            cli_view_problem(view, "%s; its use counts as not known", gt_err_text(problem));
        fill_node(view, &topology, &node);
    }
    node.name = strdup(name);
    if (!node.product)
        node.product = strdup("");
    view->failed |= !node.name || !node.product || !node.trouble;
    view->nodes[view->node_count++] = node;
}
