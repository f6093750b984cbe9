/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/nodes_plugin.h"

#include <pthread.h>
#include <string.h>

#include "base/file.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/device_nodes.h"
#include "deviceplugin/podresources.h"
#include "deviceplugin/registration.h"

struct gt_nodes_plugin {
    const char *dev_root; /* borrowed */
    struct gt_nodes_plugin_events events;
    struct gt_registration *registration;

    pthread_mutex_t lock;
    struct gt_node *node; /* under lock, as the next */
    bool ready;           /* device nodes can be given now */
};

struct nodes_message {
    struct gt_message message;
    const struct gt_nodes_plugin *plugin;
    unsigned nodes;
    char error[256]; /* "": none */
};

static void nodes_plugin_deliver_allocated(void *owner, struct gt_message *base)
{
    const struct nodes_message *message = (const struct nodes_message *)base;
    const struct gt_nodes_plugin *plugin = message->plugin;
    (void)owner;
    plugin->events.allocated(plugin->events.arg, message->nodes, message->error[0] ? message->error : NULL);
}

static void report_allocated(struct gt_nodes_plugin *plugin, unsigned nodes, const char *error)
{
    struct nodes_message *message = calloc(1, sizeof(*message));
    if (!message)
        return;
    message->message.deliver = nodes_plugin_deliver_allocated;
    message->plugin = plugin;
    message->nodes = nodes;
    snprintf(message->error, sizeof(message->error), "%s", error);
    gt_mailbox_send(gt_registration_mailbox(plugin->registration), &message->message);
}

static bool nodes_plugin_is_ready(struct gt_nodes_plugin *plugin)
{
    pthread_mutex_lock(&plugin->lock);
    bool ready = plugin->ready;
    pthread_mutex_unlock(&plugin->lock);
    return ready;
}

/* ---- the handlers, on gRPC's thread ---- */

static enum gt_rpc_status nodes_plugin_handle_list(void *arg, const uint8_t *request, size_t len,
                                                   struct gt_buf *reply, struct gt_err **err)
{
    (void)request, (void)len, (void)err;
    gt_answer_list_one(GT_NODES_PLUGIN_ID, nodes_plugin_is_ready(arg), reply);
    return GT_RPC_OK;
}

static enum gt_rpc_status nodes_plugin_handle_allocate(void *arg, const uint8_t *request, size_t len,
                                                       struct gt_buf *reply, struct gt_err **err)
{
    struct gt_nodes_plugin *plugin = arg;
    gt_auto_err struct gt_err *why = NULL;
    unsigned nodes = 0;
    pthread_mutex_lock(&plugin->lock);
    gt_auto_node struct gt_node *node = plugin->node ? gt_node_ref(plugin->node) : NULL;
    pthread_mutex_unlock(&plugin->lock);
    enum gt_rpc_status status =
        gt_answer_allocate_all(node, plugin->dev_root, GT_NODES_PLUGIN_ID, request, len, &nodes, reply, &why);
    report_allocated(plugin, nodes, status == GT_RPC_OK ? "" : gt_err_text(why));
    if (err)
        *err = gt_steal(why);
    return status;
}

/* No GetPreferredAllocation: there is nothing to choose. */
static const struct gt_rpc_method methods[] = {
    {.path = GT_PATH_OPTIONS, .handler = gt_handle_options_plain},
    {.path = GT_PATH_LIST, .handler = nodes_plugin_handle_list, .streams = true},
    {.path = GT_PATH_ALLOCATE, .handler = nodes_plugin_handle_allocate},
    {.path = GT_PATH_PRESTART, .handler = gt_handle_prestart},
};

/* ---- on the loop's thread ---- */

static bool nodes_plugin_lacks(void *arg, const struct gt_device_uses *uses)
{
    return nodes_plugin_is_ready(arg) && !GT_FIND(uses->users, uses->count, id, GT_NODES_PLUGIN_ID);
}

int gt_nodes_plugin_new(struct gt_loop *loop, const struct gt_nodes_plugin_options *options,
                        const struct gt_nodes_plugin_events *events, struct gt_nodes_plugin **ret,
                        struct gt_err **err)
{
    GT_CLEANUP(gt_nodes_plugin_free) struct gt_nodes_plugin *plugin = calloc(1, sizeof(*plugin));
    GT_NEED(plugin, err, "device plugin");
    pthread_mutex_init(&plugin->lock, NULL);
    plugin->events = *events;
    plugin->dev_root = options->dev_root;
    const struct gt_rpc_service service = {.methods = methods, .count = GT_COUNT(methods), .arg = plugin};
    const struct gt_registration_options registration = {
        .kubelet_dir = options->kubelet_dir, .resource = options->resource, .lacks = nodes_plugin_lacks};
    const struct gt_registration_events callbacks = {events->registered, events->registration_failed, NULL,
                                                     events->arg};
    GT_TRY(gt_registration_new(loop, &service, &registration, &callbacks, &plugin->registration, err));
    *ret = gt_steal(plugin);
    return 0;
}

void gt_nodes_plugin_set(struct gt_nodes_plugin *plugin, const struct gt_node *node)
{
    struct gt_node *next = node ? gt_node_ref(node) : NULL;
    bool has_driver = gt_file_check(plugin->dev_root, GT_CONTROL_NODE, NULL) == 0;
    bool ready = node && (has_driver || gt_node_not_advertised(node) || node->gpu_count == 0);
    pthread_mutex_lock(&plugin->lock);
    struct gt_node *before = plugin->node;
    bool changed = plugin->ready != ready;
    plugin->node = next;
    plugin->ready = ready;
    pthread_mutex_unlock(&plugin->lock);
    gt_node_unref(before);
    if (changed)
        gt_registration_changed(plugin->registration);
    gt_registration_start(plugin->registration);
}

bool gt_nodes_plugin_registered(const struct gt_nodes_plugin *plugin)
{
    struct gt_registration_stats stats;
    gt_registration_stats(plugin->registration, &stats);
    return stats.registered && stats.streaming;
}

uint64_t gt_nodes_plugin_busy_ms(const struct gt_nodes_plugin *plugin)
{
    return gt_registration_busy_ms(plugin->registration);
}

void gt_nodes_plugin_free(struct gt_nodes_plugin *plugin)
{
    if (!plugin)
        return;
    gt_registration_free(plugin->registration); /* no messages are sent any more */
    gt_node_unref(plugin->node);
    pthread_mutex_destroy(&plugin->lock);
    free(plugin);
}
