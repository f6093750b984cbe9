/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_ANSWERS_H
#define GPUTOPO_DEVICEPLUGIN_ANSWERS_H

#include "deviceplugin/cdi.h"
#include "deviceplugin/rpc.h"

/*
 * The contents of the device plugin API v1beta1: from an inventory and a request's bytes to a reply's bytes.
 * Knows the messages, not how they travel; safe from any thread.
 */
#define GT_PATH_REGISTER  "/v1beta1.Registration/Register"
#define GT_PATH_OPTIONS   "/v1beta1.DevicePlugin/GetDevicePluginOptions"
#define GT_PATH_LIST      "/v1beta1.DevicePlugin/ListAndWatch"
#define GT_PATH_PREFERRED "/v1beta1.DevicePlugin/GetPreferredAllocation"
#define GT_PATH_ALLOCATE  "/v1beta1.DevicePlugin/Allocate"
#define GT_PATH_PRESTART  "/v1beta1.DevicePlugin/PreStartContainer"

/* A copy of a text that goes into messages: Go refuses one whose strings are not UTF-8 (-EINVAL). */
int gt_answer_text(const char *what, const char *text, char **ret, struct gt_err **err);

/* The request of Register; `endpoint` is the name of the plugin's socket. `prefers`: it wants to be asked for
 * preferred allocations. */
void gt_answer_register(const char *endpoint, const char *resource, bool prefers, struct gt_buf *to);

/* GetDevicePluginOptions, the same as in Register. PreStartContainer is never wanted, and has nothing to do.
 */
gt_rpc_handler gt_handle_options_preferring, gt_handle_options_plain, gt_handle_prestart;

/* One message of ListAndWatch: the whole list. */
void gt_answer_list(const struct gt_inventory *inventory, struct gt_buf *to);
/* The same with one device, which is on no NUMA node. */
void gt_answer_list_one(const char *id, bool healthy, struct gt_buf *to);

/* How many of these devices, which are sorted, such a message of another plugin lists; false, nothing
 * written, where the bytes are none. */
bool gt_answer_list_shares(const uint8_t *message, size_t len, const char *const *ids, unsigned count,
                           unsigned *ret);

/*
 * GetPreferredAllocation, one response for each container of the request, of at most GT_DEVICES_MAX IDs.
 * Fails only where the bytes are no such request, or one of more containers than a kubelet ever asks for at
 * once; without memory the answer is empty, and the kubelet chooses by itself.
 */
struct gt_preferred_callbacks { /* both may be NULL */
    /* A planned choice: `size` of the available IDs, each once, are in ret_ids then. Not asked
     * where something must be included, nor where there are several containers. */
    bool (*planned)(void *arg, const char *const *available, unsigned available_count, unsigned size,
                    const char **ret_ids);
    /* What was answered for a container, out of which; the choice has mask 0 where the loss table had no say.
     */
    void (*chosen)(void *arg, const char *const *available, unsigned available_count, const char *const *ids,
                   unsigned count, const struct gt_choice *choice);
};
enum gt_rpc_status gt_answer_preferred(const struct gt_inventory *inventory, const uint8_t *request,
                                       size_t len, const struct gt_preferred_callbacks *callbacks, void *arg,
                                       struct gt_buf *to, struct gt_err **err);

/*
 * Allocate, one response for each container: the device nodes of its GPUs, or their names as CDI devices, or
 * both, and the variables with their UUIDs and NICs. A name is given only while the spec that says what it
 * means is in its place: the device nodes alone where it is not, and an error where nothing but names is
 * wanted. Refuses, for the whole request and with a text for the pod's event, an ID that was never served, a
 * GPU that is lost, and a device node that the host does not have. A GPU that is there but Unhealthy is
 * given: the kubelet offers healthy ones only, and what became unhealthy in between is seen by the container
 * anyway.
 */
struct gt_allocate_options {
    const char *dev_root;
    const char *uuid_variable; /* NULL: none */
    const char *nic_variable;  /* the NICs nearest to each GPU, "mlx5_0,mlx5_1;mlx5_2"; NULL: none */
    enum gt_device_strategy strategy;
    struct gt_cdi *cdi; /* not NULL except for GT_STRATEGY_DEVICES */
    /* Asked about each ID of the inventory before it is given; false: it is given to nobody any more. */
    bool (*claim)(void *arg, const char *id); /* NULL: all are given */
};
/* For each container, in order; `error` is NULL where it was answered. */
typedef void gt_answer_allocated_callback(void *arg, const char *const *ids, unsigned count,
                                          const char *error);
enum gt_rpc_status gt_answer_allocate(const struct gt_inventory *inventory,
                                      const struct gt_allocate_options *options, const uint8_t *request,
                                      size_t len, gt_answer_allocated_callback *allocated, void *arg,
                                      struct gt_buf *to, struct gt_err **err);

/*
 * Allocate of the one device `id`, which stands for all GPUs of the node: each container gets every device
 * node that the host has of them (gt_device_nodes_all). Refuses another ID. *ret_nodes: how many that are.
 */
enum gt_rpc_status gt_answer_allocate_all(const struct gt_node *node, const char *dev_root, const char *id,
                                          const uint8_t *request, size_t len, unsigned *ret_nodes,
                                          struct gt_buf *to, struct gt_err **err);

#endif
