/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/extender_args.h"

#include <errno.h>

#include "scheduler-ext/wire/pod_reader.h"

enum extender_id {
    ARGS_NODES = GT_POD_ID_LAST + 1,
    ARGS_NODE,
    ARGS_NODE_NAME,
    ARGS_NODE_NAMES,
    ARGS_A_NODE_NAME
};

#define SHAPE   static const struct gt_scan_shape
#define MEMBERS static const struct gt_scan_member

SHAPE node_name = {.kind = GT_SCAN_TEXT, .id = ARGS_NODE_NAME, .max = GT_WIRE_NAME_MAX};
MEMBERS metadata_members[] = {{"name", &node_name}, {0}};
SHAPE metadata = {.kind = GT_SCAN_OBJECT, .members = metadata_members};
MEMBERS node_members[] = {{"metadata", &metadata}, {0}};
SHAPE node = {.kind = GT_SCAN_OBJECT, .id = ARGS_NODE, .members = node_members};
SHAPE items = {.kind = GT_SCAN_ARRAY, .of = &node};
MEMBERS list_members[] = {{"items", &items}, {0}};
SHAPE list = {.kind = GT_SCAN_OBJECT, .id = ARGS_NODES, .members = list_members};
SHAPE a_node_name = {.kind = GT_SCAN_TEXT, .id = ARGS_A_NODE_NAME, .max = GT_WIRE_NAME_MAX};
SHAPE node_names = {.kind = GT_SCAN_ARRAY, .id = ARGS_NODE_NAMES, .of = &a_node_name};
MEMBERS args_members[] = {{"Pod", &gt_pod_shape}, {"Nodes", &list}, {"NodeNames", &node_names}, {0}};
SHAPE args_shape = {.kind = GT_SCAN_OBJECT, .members = args_members, .any_case = true};

struct gt_extender_reader {
    struct gt_scan *scan;
    struct gt_pod_reader pod;
    struct gt_extender_args args;
    bool keep, has_nodes, has_names, node_named;
    struct gt_buf kept;
    uint32_t *kept_offsets;
    uint32_t kept_capacity;
};

static int node_ends(struct gt_extender_reader *r, struct gt_err **err)
{
    if (!r->node_named)
        return gt_fail(err, EINVAL, "a node without a name");
    if (!r->keep)
        return 0;
    uint32_t count = r->args.nodes.count;
    if (count + 1 > r->kept_capacity) {
        uint32_t capacity = r->kept_capacity ? r->kept_capacity * 2 : 256;
        uint32_t *grown = realloc(r->kept_offsets, capacity * sizeof(*grown));
        if (!grown)
            return gt_fail(err, ENOMEM, "no memory for %u nodes", capacity);
        r->kept_offsets = grown;
        r->kept_capacity = capacity;
    }
    r->kept_offsets[0] = 0;
    r->kept_offsets[count] = (uint32_t)r->kept.len;
    return 0;
}

static int on_event(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct gt_extender_reader *r = arg;
    if (gt_pod_has_event(event))
        return gt_pod_reader_event(&r->pod, event, err);
    switch ((enum extender_id)event->id) {
    case ARGS_NODES:
        r->has_nodes = true;
        return 0;
    case ARGS_NODE_NAMES:
        r->has_names = true;
        return 0;
    case ARGS_NODE:
        if (event->what == GT_SCAN_CLOSE)
            return node_ends(r, err);
        r->node_named = false;
        if (r->keep)
            gt_scan_keep(r->scan, &r->kept);
        return 0;
    case ARGS_NODE_NAME:
        r->node_named = true;
        return gt_wire_names_add(&r->args.nodes, event->text, event->len, err);
    case ARGS_A_NODE_NAME:
        return gt_wire_names_add(&r->args.nodes, event->text, event->len, err);
    default:
        return 0;
    }
}

struct gt_extender_reader *gt_extender_reader_new(bool keep_nodes)
{
    gt_auto_extender_reader struct gt_extender_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->keep = keep_nodes;
    r->kept.max = GT_WIRE_KEPT_MAX;
    r->scan = gt_scan_new(&args_shape, on_event, r);
    return r->scan ? gt_steal(r) : NULL;
}

int gt_extender_reader_feed(struct gt_extender_reader *r, const void *bytes, size_t len, struct gt_err **err)
{
    return gt_scan_feed(r->scan, bytes, len, err);
}

int gt_extender_reader_finish(struct gt_extender_reader *r, const struct gt_extender_args **ret,
                              struct gt_err **err)
{
    int result = gt_scan_finish(r->scan, err);
    if (result < 0)
        return result;
    struct gt_extender_args *args = &r->args;
    result = gt_pod_reader_result(&r->pod, &args->pod, err);
    if (result < 0)
        return result;
    if (!args->pod.name[0])
        return gt_fail(err, EINVAL, "Pod.metadata.name: missing");
    if (r->has_nodes && r->has_names)
        return gt_fail(err, EINVAL, "both Nodes and NodeNames are given, expected one of them");
    if (!r->has_nodes && !r->has_names)
        return gt_fail(err, EINVAL, "neither Nodes nor NodeNames is given");
    args->by_name = r->has_names;
    args->kept = r->keep && r->has_nodes && args->nodes.count ? r->kept.data : NULL;
    args->kept_offsets = args->kept ? r->kept_offsets : NULL;
    *ret = args;
    return 0;
}

size_t gt_extender_reader_held(const struct gt_extender_reader *r)
{
    return sizeof(*r) + gt_scan_held(r->scan) + gt_wire_names_held(&r->args.nodes) + r->kept.len +
           r->kept_capacity * sizeof(*r->kept_offsets);
}

void gt_extender_reader_reset(struct gt_extender_reader *r)
{
    enum { ARGS_KEPT_BYTES = 256 << 10, ARGS_KEPT_COUNT = 16384 };
    gt_scan_reset(r->scan);
    gt_pod_reader_reset(&r->pod);
    gt_wire_names_reset(&r->args.nodes);
    if (r->kept.capacity > ARGS_KEPT_BYTES)
        gt_buf_done(&r->kept);
    if (r->kept_capacity > ARGS_KEPT_COUNT) {
        free(r->kept_offsets);
        r->kept_offsets = NULL;
        r->kept_capacity = 0;
    }
    r->kept.len = 0;
    r->kept.failed = false;
    r->has_nodes = r->has_names = false;
}

void gt_extender_reader_free(struct gt_extender_reader *r)
{
    if (!r)
        return;
    gt_scan_free(r->scan);
    gt_wire_names_done(&r->args.nodes);
    gt_buf_done(&r->kept);
    free(r->kept_offsets);
    free(r);
}
