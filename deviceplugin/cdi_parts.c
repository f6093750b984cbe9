/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/cdi_parts.h"

#include <errno.h>

#include "base/err.h"

enum { CDI_NAME_MAX = 1024 };

_Static_assert((int)GT_GPUS_MAX <= (int)GT_CDI_DEVICES_MAX, "each GPU is a device");
_Static_assert((int)GT_DEVICE_NODES_MAX <= (int)GT_CDI_NODES_MAX, "the control nodes are common to all");

int gt_cdi_parts_new(const char *dev_root, struct gt_cdi_parts **ret, struct gt_err **err)
{
    struct gt_cdi_parts *parts = calloc(1, sizeof(*parts));
    if (!parts)
        return gt_fail_sys(err, ENOMEM, "CDI spec");
    parts->dev_root = dev_root;
    *ret = parts;
    return 0;
}

void gt_cdi_parts_free(struct gt_cdi_parts *parts)
{
    for (unsigned i = 0; parts && i < parts->device_count; i++)
        gt_buf_done(&parts->names[i]);
    for (unsigned i = 0; parts && i < parts->path_count; i++)
        free(parts->paths[i]);
    free(parts);
}

static const char *cdi_parts_add_path(struct gt_cdi_parts *parts, const char *directory, const char *name)
{
    char *path = NULL;
    if (asprintf(&path, "%s/%s", directory, name) < 0)
        return NULL;
    return parts->paths[parts->path_count++] = path;
}

int gt_cdi_parts_nodes(struct gt_cdi_parts *parts, const struct gt_device_nodes *nodes,
                       struct gt_cdi_edits *ret, struct gt_err **err)
{
    if (nodes->count > GT_COUNT(parts->nodes) - parts->node_count)
        return gt_fail(err, E2BIG, "CDI spec: more than %zu device nodes", GT_COUNT(parts->nodes));
    ret->nodes = &parts->nodes[parts->node_count];
    ret->node_count = nodes->count;
    for (unsigned i = 0; i < nodes->count; i++) {
        struct gt_cdi_node *node = &parts->nodes[parts->node_count++];
        node->permissions = "rw";
        node->path = cdi_parts_add_path(parts, "/dev", nodes->names[i]);
        node->host_path = node->path ? cdi_parts_add_path(parts, parts->dev_root, nodes->names[i]) : NULL;
        if (!node->host_path)
            return gt_fail_sys(err, ENOMEM, "CDI spec");
    }
    return 0;
}

int gt_cdi_parts_device(struct gt_cdi_parts *parts, const char *name, const struct gt_device_nodes *nodes,
                        struct gt_err **err)
{
    if (parts->device_count == GT_CDI_DEVICES_MAX)
        return gt_fail(err, E2BIG, "CDI spec: more than %d devices", GT_CDI_DEVICES_MAX);
    struct gt_cdi_device *to = &parts->devices[parts->device_count];
    struct gt_buf *text = &parts->names[parts->device_count++];
    *text = (struct gt_buf)GT_BUF(CDI_NAME_MAX);
    gt_cdi_name_add(text, name);
    int r = gt_buf_check(text, "name of a CDI device", err);
    if (r < 0)
        return r;
    to->name = text->data;
    return nodes ? gt_cdi_parts_nodes(parts, nodes, &to->edits, err) : 0;
}
