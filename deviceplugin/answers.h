/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "deviceplugin/cdi.h"
#include "deviceplugin/rpc.h"

/*
 * The messages of the device plugin API v1beta1: makes a reply's bytes from an inventory and a request's
 * bytes. It does not send or receive; safe from any thread.
 */
#define GT_PATH_REGISTER  "/v1beta1.Registration/Register"
#define GT_PATH_OPTIONS   "/v1beta1.DevicePlugin/GetDevicePluginOptions"
#define GT_PATH_LIST      "/v1beta1.DevicePlugin/ListAndWatch"
#define GT_PATH_PREFERRED "/v1beta1.DevicePlugin/GetPreferredAllocation"
#define GT_PATH_ALLOCATE  "/v1beta1.DevicePlugin/Allocate"
#define GT_PATH_PRESTART  "/v1beta1.DevicePlugin/PreStartContainer"

/* The request of Register; `endpoint` is the name of the plugin's socket. `prefers`: the kubelet shall call
 * GetPreferredAllocation. */
void gt_answer_register(const char *endpoint, const char *resource, bool prefers, struct gt_buf *to);

/* GetDevicePluginOptions, the same as in Register. PreStartContainer is never requested; its handler does
 * nothing. */
gt_rpc_handler gt_handle_options_preferring, gt_handle_options_plain, gt_handle_prestart;

/* One message of ListAndWatch: the whole list. */
void gt_answer_list(const struct gt_inventory *inventory, struct gt_buf *to);
/* The same with one device, without a NUMA node. */
void gt_answer_list_one(const char *id, bool healthy, struct gt_buf *to);

/* *ret: how many of these devices (`ids` must be sorted) such a message of another plugin lists. False, with
 * *ret untouched, if the bytes are not such a message. */
bool gt_answer_list_shares(const uint8_t *message, size_t len, const char *const *ids, unsigned count,
                           unsigned *ret);

/*
 * GetPreferredAllocation, one response for each container of the request, of at most GT_DEVICES_MAX IDs.
 * Fails only if the bytes are not such a request, or if it has more containers than
 * GT_REQUEST_CONTAINERS_MAX; without memory the answer is empty, and the kubelet chooses by itself.
 */
struct gt_preferred_callbacks { /* both functions may be NULL */
    /* True: there is a planned choice, and ret_ids then has `size` of the available IDs, each once. Not
     * called if the request has IDs that must be included, or several containers. */
    bool (*planned)(void *arg, const char *const *available, unsigned available_count, unsigned size,
                    const char **ret_ids);
    /* Reports the answer for a container: which IDs out of which available ones. The choice has mask 0 if the
     * loss table was not used. */
    void (*chosen)(void *arg, const char *const *available, unsigned available_count, const char *const *ids,
                   unsigned count, const struct gt_choice *choice);
    void *arg;
};
enum gt_rpc_status gt_answer_preferred(const struct gt_inventory *inventory,
                                       const struct gt_preferred_callbacks *callbacks, const uint8_t *request,
                                       size_t len, struct gt_buf *to, struct gt_err **err);

/*
 * Allocate, one response for each container: the device nodes of its GPUs, or their names as CDI devices, or
 * both, and gt_variables about them. CDI names are given only while the CDI spec
 * that defines them exists; without it the answer has device nodes only, or is an error for GT_STRATEGY_CDI.
 * Refuses the whole request, with a text for the pod's event, for an ID that was never served, a GPU that is
 * lost, or a device node that the host does not have. A GPU that is present but Unhealthy is given: the
 * kubelet offers healthy ones only, and a GPU that became unhealthy since then is noticed by the container
 * anyway.
 */
struct gt_allocate_options {
    const char *dev_root;
    enum gt_device_strategy strategy;
    struct gt_cdi *cdi; /* not NULL except for GT_STRATEGY_DEVICES */
    /* Called for each ID of the inventory before it is given; false: the ID is retired. */
    bool (*claim)(void *arg, const char *id); /* NULL: all are given */
    /* Called for each container, in order; `error` is NULL if the devices were given. May be NULL. */
    void (*allocated)(void *arg, const char *const *ids, unsigned count, const char *error);
    void *arg;
};
enum gt_rpc_status gt_answer_allocate(const struct gt_inventory *inventory,
                                      const struct gt_allocate_options *options, const uint8_t *request,
                                      size_t len, struct gt_buf *to, struct gt_err **err);

/*
 * Allocate of the one device `id`, which stands for all GPUs of the node: each container gets all device
 * nodes of them that the host has (gt_device_nodes_all). Refuses any other ID. *ret_nodes is the number of
 * device nodes.
 */
enum gt_rpc_status gt_answer_allocate_all(const struct gt_node *node, const char *dev_root, const char *id,
                                          const uint8_t *request, size_t len, unsigned *ret_nodes,
                                          struct gt_buf *to, struct gt_err **err);

/* A container's environment variables about its GPUs. */
enum { GT_VARIABLES = 4, GT_NICS_PER_GPU = 8, GT_VARIABLE_MAX = 32 << 10 };

struct gt_variable {
    const char *name;
    /* `devices` must all be GPUs of the node. Nothing: the variable is not set. */
    void (*write)(const struct gt_node *node, const struct gt_device *const *devices, unsigned count,
                  struct gt_buf *to);
};

extern const struct gt_variable gt_variables[GT_VARIABLES];
