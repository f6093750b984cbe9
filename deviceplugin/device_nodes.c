/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/device_nodes.h"

#include <errno.h>
#include <string.h>

#include "base/file.h"

/* It uses paths and no descriptors: Allocate must not fail when many connections use up all descriptors. */

static const char control_node[] = GT_CONTROL_NODE;
static const char further_messages[] = "0123456789abcdefghijklmnopqrstuvwxyz"; /* of mx?d */
_Static_assert(sizeof(further_messages) - 1 <= GT_DEVICE_NODES_MAX, "room for every mx?d");

static void device_nodes_add(struct gt_device_nodes *nodes, const char *name)
{
    snprintf(nodes->names[nodes->count++], sizeof(nodes->names[0]), "%s", name);
}

static int add_required(const char *dev_root, const char *name, struct gt_device_nodes *nodes,
                        struct gt_err **err)
{
    if (nodes->count == GT_COUNT(nodes->names))
        return gt_fail(err, E2BIG, "more than %zu device nodes", GT_COUNT(nodes->names));
    if (gt_file_check(dev_root, name, err) < 0)
        return gt_wrap(err, "device node");
    device_nodes_add(nodes, name);
    return 0;
}

/* Adds a device node if it exists. */
static void add_if_there(const char *dev_root, const char *name, struct gt_device_nodes *nodes)
{
    if (nodes->count < GT_COUNT(nodes->names) && gt_file_check(dev_root, name, NULL) == 0)
        device_nodes_add(nodes, name);
}

/* The vendor's other control nodes, in alphabetical order. */
static void add_further(const char *dev_root, struct gt_device_nodes *nodes)
{
    for (const char *message = further_messages; *message; message++) {
        const char name[] = {'m', 'x', *message, 'd', '\0'};
        if (strcmp(name, control_node) != 0)
            add_if_there(dev_root, name, nodes);
    }
}

static int add_drm(const char *dev_root, const struct gt_device *device, struct gt_device_nodes *nodes,
                   struct gt_err **err)
{
    char names[2][GT_DEVICE_NAME_SIZE];
    gt_drm_node_names(device->drm_card, device->drm_render, names);
    if (!names[0][0] && !names[1][0])
        return gt_fail(err, ENOENT, "no DRM device node is known for GPU %s at %s", device->id, device->bdf);
    for (unsigned i = 0; i < GT_COUNT(names); i++)
        if (names[i][0] && add_required(dev_root, names[i], nodes, err) < 0)
            return gt_wrap(err, "GPU %s", device->id);
    return 0;
}

int gt_device_nodes_find(const char *dev_root, const struct gt_device *const *devices, unsigned count,
                         struct gt_device_nodes *ret, struct gt_err **err)
{
    struct gt_device_nodes nodes;
    nodes.count = 0;
    GT_TRY(add_required(dev_root, control_node, &nodes, err));
    add_further(dev_root, &nodes);
    for (unsigned i = 0; i < count; i++)
        GT_TRY(add_drm(dev_root, devices[i], &nodes, err));
    *ret = nodes;
    return 0;
}

int gt_device_nodes_drm(const char *dev_root, const struct gt_device *device, struct gt_device_nodes *ret,
                        struct gt_err **err)
{
    struct gt_device_nodes nodes;
    nodes.count = 0;
    GT_TRY(add_drm(dev_root, device, &nodes, err));
    *ret = nodes;
    return 0;
}

void gt_device_nodes_all(const char *dev_root, const struct gt_node *node, struct gt_device_nodes *ret)
{
    char names[2][GT_DEVICE_NAME_SIZE];
    ret->count = 0;
    add_if_there(dev_root, control_node, ret);
    add_further(dev_root, ret);
    for (unsigned i = 0; node && i < node->gpu_count; i++) {
        gt_drm_node_names(node->gpus[i].drm_card, node->gpus[i].drm_render, names);
        for (unsigned k = 0; k < GT_COUNT(names); k++)
            if (names[k][0])
                add_if_there(dev_root, names[k], ret);
    }
}
