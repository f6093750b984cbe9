/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "topology/model/node.h"

/*
 * A second resource, of which a node has exactly one: its holder gets the device nodes of all GPUs. It is
 * only for the container of gputopo-probe, which then need not be privileged. It has a server, thread and
 * registration of its own, so that it does not delay the plugin that gives out GPUs, or wait for it. It is
 * offered on a node without GPUs, too, so that the pod can start there. It is not offered while a node has
 * GPUs but their driver is not loaded: a container keeps the device nodes that it started with.
 */
struct gt_nodes_plugin;

#define GT_NODES_PLUGIN_ID "all"

struct gt_nodes_plugin_options {
    const char *resource, *kubelet_dir, *dev_root; /* borrowed */
};

struct gt_nodes_plugin_events { /* all on the loop's thread; none may free the plugin */
    void (*registered)(void *arg);
    void (*registration_failed)(void *arg, const char *why, unsigned retry_ms);
    void (*allocated)(void *arg, unsigned nodes, const char *error); /* error: NULL if it was answered */
    void *arg;
};

/* As gt_plugin_new(). */
int gt_nodes_plugin_new(struct gt_loop *loop, const struct gt_nodes_plugin_options *options,
                        const struct gt_nodes_plugin_events *events, struct gt_nodes_plugin **ret,
                        struct gt_err **err);

/* Sets the node whose GPUs are given (takes its own reference); NULL: it is not known. The first call starts
 * registration. */
void gt_nodes_plugin_set(struct gt_nodes_plugin *plugin, const struct gt_node *node);

/* Whether it is registered and the kubelet's ListAndWatch is open. On the loop's thread. */
bool gt_nodes_plugin_registered(const struct gt_nodes_plugin *plugin);

/* As gt_plugin_busy_ms(). */
uint64_t gt_nodes_plugin_busy_ms(const struct gt_nodes_plugin *plugin);

/* Ends stream and server cleanly and removes its own socket. */
void gt_nodes_plugin_free(struct gt_nodes_plugin *plugin);
GT_DEFINE_CLEANUP(struct gt_nodes_plugin *, gt_nodes_plugin_free)
