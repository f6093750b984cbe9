/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/wire/volcano_args.h"

#include <errno.h>

#include "api/quantity.h"
#include "scheduler-ext/wire/pod_reader.h"

enum volcano_id {
    TASK = 1,
    TASK_UID,
    TASK_JOB,
    TASK_NAME,
    TASK_NAMESPACE,
    TASK_NODE,
    TASK_NODE_NAME,
    /* Shapes of a Resource: the object, its map of scalars, and our amount in it. */
    NODE_REQUEST,
    NODE_IDLE = NODE_REQUEST + 3,
    NODE_USED = NODE_IDLE + 3,
    NODE_RELEASING = NODE_USED + 3,
    NODE_PIPELINED = NODE_RELEASING + 3,
};
enum part { PART_OBJECT, PART_MAP, PART_AMOUNT };

#define SHAPE   static const struct gt_scan_shape
#define MEMBERS static const struct gt_scan_member
#define NAME_TEXT(ID)                                                                                        \
    {                                                                                                        \
        .kind = GT_SCAN_TEXT, .id = (ID), .max = GT_WIRE_NAME_MAX                                            \
    }
#define RESOURCE(name, ID)                                                                                   \
    SHAPE name##_amount = {.kind = GT_SCAN_NUMBER, .id = (ID) + PART_AMOUNT};                                \
    SHAPE name##_map = {.kind = GT_SCAN_MAP, .id = (ID) + PART_MAP, .of = &name##_amount};                   \
    MEMBERS name##_members[] = {{"ScalarResources", &name##_map}, {0}};                                      \
    SHAPE name = {.kind = GT_SCAN_OBJECT, .id = (ID) + PART_OBJECT, .members = name##_members}

RESOURCE(request, NODE_REQUEST);
RESOURCE(idle, NODE_IDLE);
RESOURCE(used, NODE_USED);
RESOURCE(releasing, NODE_RELEASING);
RESOURCE(pipelined, NODE_PIPELINED);

SHAPE task_uid = NAME_TEXT(TASK_UID), task_name = NAME_TEXT(TASK_NAME), node_name = NAME_TEXT(TASK_NODE_NAME),
      task_namespace = NAME_TEXT(TASK_NAMESPACE),
      task_job = {.kind = GT_SCAN_TEXT, .id = TASK_JOB, .max = 2 * GT_WIRE_NAME_MAX + 1};
MEMBERS task_members[] = {{"UID", &task_uid},   {"Job", &task_job},
                          {"Name", &task_name}, {"Namespace", &task_namespace},
                          {"Resreq", &request}, {0}};
SHAPE task = {.kind = GT_SCAN_OBJECT, .id = TASK, .members = task_members};
MEMBERS node_members[] = {{"Name", &node_name},      {"Idle", &idle},           {"Used", &used},
                          {"Releasing", &releasing}, {"Pipelined", &pipelined}, {0}};
SHAPE node = {.kind = GT_SCAN_OBJECT, .id = TASK_NODE, .members = node_members};
SHAPE nodes = {.kind = GT_SCAN_ARRAY, .of = &node};

MEMBERS predicate_members[] = {{"task", &task}, {"node", &node}, {0}};
SHAPE predicate = {.kind = GT_SCAN_OBJECT, .members = predicate_members};
MEMBERS prioritize_members[] = {{"task", &task}, {"nodes", &nodes}, {0}};
SHAPE prioritize = {.kind = GT_SCAN_OBJECT, .members = prioritize_members};

struct gt_volcano_reader {
    struct gt_scan *scan;
    enum gt_volcano_verb verb;
    struct gt_volcano_args args;
    bool has_task, node_named, taken; /* taken: the resource was found in the current map */
    struct gt_wire_text task_uid, task_job, task_name, task_namespace;
    struct gt_volcano_node *nodes, at;
    uint32_t capacity;
};

static int node_ends(struct gt_volcano_reader *r, struct gt_err **err)
{
    if (!r->node_named)
        return gt_fail(err, EINVAL, "a node without a name");
    uint32_t count = r->args.nodes.count;
    if (count > r->capacity) {
        uint32_t capacity = r->capacity ? r->capacity * 2 : 256;
        struct gt_volcano_node *grown = realloc(r->nodes, capacity * sizeof(*grown));
        if (!grown)
            return gt_fail(err, ENOMEM, "no memory for %u nodes", capacity);
        r->nodes = grown;
        r->capacity = capacity;
    }
    r->nodes[count - 1] = r->at;
    return 0;
}

static int read_request(struct gt_volcano_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    uint64_t milli;
    int result = gt_quantity_read(event->text, event->len, GT_POD_GPUS_MAX * UINT64_C(1000), GT_RESOURCE_GPU,
                                  &milli, err);
    if (result < 0)
        return result;
    if (milli % 1000)
        return gt_fail(err, EINVAL, "%s: %llu thousandths are not whole GPUs", GT_RESOURCE_GPU,
                       (unsigned long long)milli);
    r->args.gpus = (uint32_t)(milli / 1000);
    return 0;
}

/* There are many nodes, and an invalid one must not affect the others. */
static int64_t read_milli(const struct gt_scan_event *event)
{
    bool negative;
    uint64_t value;
    if (gt_quantity_parse(event->text, event->len, GT_QUANTITY_LIMIT, &negative, &value) != GT_QUANTITY_OK)
        return GT_VOLCANO_UNKNOWN;
    return negative ? -(int64_t)value : (int64_t)value;
}

static int on_resource(struct gt_volcano_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    int64_t *const amounts[] = {NULL, &r->at.idle_milli, &r->at.used_milli, &r->at.releasing_milli,
                                &r->at.pipelined_milli};
    int64_t *amount = amounts[(event->id - NODE_REQUEST) / 3];
    enum part part = (event->id - NODE_REQUEST) % 3;
    if (event->what == GT_SCAN_KEY)
        return gt_wire_choose_resource(&r->taken, event, err);
    if (part == PART_AMOUNT && !amount)
        return read_request(r, event, err);
    if (part == PART_AMOUNT)
        *amount = read_milli(event);
    else if (part == PART_MAP)
        r->taken = false;
    else if (event->what == GT_SCAN_OPEN && amount)
        *amount = 0; /* a scalar that a Resource lacks counts as 0 */
    return 0;
}

static int on_event(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct gt_volcano_reader *r = arg;
    if (event->id >= NODE_REQUEST)
        return on_resource(r, event, err);
    switch ((enum volcano_id)event->id) {
    case TASK:
        r->has_task = true;
        return 0;
    case TASK_UID:
        return gt_wire_text_put(&r->task_uid, event, err);
    case TASK_JOB:
        return gt_wire_text_put(&r->task_job, event, err);
    case TASK_NAME:
        return gt_wire_text_put(&r->task_name, event, err);
    case TASK_NAMESPACE:
        return gt_wire_text_put(&r->task_namespace, event, err);
    case TASK_NODE:
        if (event->what == GT_SCAN_CLOSE)
            return node_ends(r, err);
        r->node_named = false;
        r->at = (struct gt_volcano_node){GT_VOLCANO_UNKNOWN, GT_VOLCANO_UNKNOWN, GT_VOLCANO_UNKNOWN,
                                         GT_VOLCANO_UNKNOWN};
        return 0;
    case TASK_NODE_NAME:
        r->node_named = true;
        return gt_wire_names_add(&r->args.nodes, event->text, event->len, err);
    default:
        return 0;
    }
}

struct gt_volcano_reader *gt_volcano_reader_new(enum gt_volcano_verb verb)
{
    gt_auto_volcano_reader struct gt_volcano_reader *r = calloc(1, sizeof(*r));
    if (!r)
        return NULL;
    r->verb = verb;
    r->scan = gt_scan_new(verb == GT_VOLCANO_PREDICATE ? &predicate : &prioritize, on_event, r);
    return r->scan ? gt_steal(r) : NULL;
}

int gt_volcano_reader_feed(struct gt_volcano_reader *r, const void *bytes, size_t len, struct gt_err **err)
{
    return gt_scan_feed(r->scan, bytes, len, err);
}

int gt_volcano_reader_finish(struct gt_volcano_reader *r, const struct gt_volcano_args **ret,
                             struct gt_err **err)
{
    int result = gt_scan_finish(r->scan, err);
    if (result < 0)
        return result;
    struct gt_volcano_args *args = &r->args;
    if (!r->has_task)
        return gt_fail(err, EINVAL, "task: missing");
    if (r->verb == GT_VOLCANO_PREDICATE && !args->nodes.count)
        return gt_fail(err, EINVAL, "node: missing");
    args->task_uid = r->task_uid.text;
    args->task_job = r->task_job.text;
    args->task_name = r->task_name.text;
    args->task_namespace = r->task_namespace.text;
    args->node = r->nodes;
    *ret = args;
    return 0;
}

size_t gt_volcano_reader_held(const struct gt_volcano_reader *r)
{
    return sizeof(*r) + gt_scan_held(r->scan) + gt_wire_names_held(&r->args.nodes) +
           r->capacity * sizeof(*r->nodes);
}

void gt_volcano_reader_reset(struct gt_volcano_reader *r)
{
    enum { TASK_KEPT_COUNT = 8192 };
    struct gt_wire_names names = r->args.nodes;
    gt_scan_reset(r->scan);
    gt_wire_names_reset(&names);
    r->args = (struct gt_volcano_args){.nodes = names};
    r->has_task = false;
    r->task_uid.text[0] = r->task_job.text[0] = r->task_name.text[0] = r->task_namespace.text[0] = '\0';
    if (r->capacity > TASK_KEPT_COUNT) {
        free(r->nodes);
        r->nodes = NULL;
        r->capacity = 0;
    }
}

void gt_volcano_reader_free(struct gt_volcano_reader *r)
{
    if (!r)
        return;
    gt_scan_free(r->scan);
    gt_wire_names_done(&r->args.nodes);
    free(r->nodes);
    free(r);
}
