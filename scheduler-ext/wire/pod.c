/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/quantity.h"
#include "scheduler-ext/wire/pod_reader.h"

enum id {
    NAMESPACE = GT_POD_ID_FIRST,
    NAME,
    UID,
    ANNOTATIONS,
    ANNOTATION,
    LABELS,
    LABEL,
    OWNER,
    OWNER_KIND,
    OWNER_NAME,
    OWNER_UID,
    OWNER_CONTROLS,
    NODE_NAME,
    GATE,
    GATE_NAME,
    INIT_CONTAINERS,
    CONTAINER,
    CONTAINER_NAME,
    RESTART_POLICY,
    REQUESTS,
    REQUEST,
    LIMITS,
    LIMIT,
};
_Static_assert((int)LIMIT <= (int)GT_POD_ID_LAST, "ids of a pod");

enum { QUANTITY_MAX = 64, SHORT_MAX = 64 };

#define SHAPE   static const struct gt_scan_shape
#define MEMBERS static const struct gt_scan_member
#define NAME_TEXT(ID)                                                                                        \
    {                                                                                                        \
        .kind = GT_SCAN_TEXT, .id = (ID), .max = GT_WIRE_NAME_MAX                                            \
    }

SHAPE text_namespace = NAME_TEXT(NAMESPACE), text_name = NAME_TEXT(NAME), text_uid = NAME_TEXT(UID),
      text_node = NAME_TEXT(NODE_NAME), text_owner_kind = NAME_TEXT(OWNER_KIND),
      text_owner_name = NAME_TEXT(OWNER_NAME), text_owner_uid = NAME_TEXT(OWNER_UID),
      text_container = NAME_TEXT(CONTAINER_NAME),
      text_gate = {.kind = GT_SCAN_TEXT, .id = GATE_NAME, .max = 512},
      text_policy = {.kind = GT_SCAN_TEXT, .id = RESTART_POLICY, .max = SHORT_MAX};
SHAPE yes_controls = {.kind = GT_SCAN_BOOL, .id = OWNER_CONTROLS};

SHAPE annotation = {.kind = GT_SCAN_TEXT, .id = ANNOTATION, .max = GT_WIRE_WANTED_VALUE_MAX};
SHAPE annotations = {.kind = GT_SCAN_MAP, .id = ANNOTATIONS, .of = &annotation};
SHAPE label = {.kind = GT_SCAN_TEXT, .id = LABEL, .max = SHORT_MAX};
SHAPE labels = {.kind = GT_SCAN_MAP, .id = LABELS, .of = &label};

MEMBERS owner_members[] = {{"kind", &text_owner_kind},
                           {"name", &text_owner_name},
                           {"uid", &text_owner_uid},
                           {"controller", &yes_controls},
                           {0}};
SHAPE owner = {.kind = GT_SCAN_OBJECT, .id = OWNER, .members = owner_members};
SHAPE owners = {.kind = GT_SCAN_ARRAY, .of = &owner};

MEMBERS metadata_members[] = {{"name", &text_name},
                              {"namespace", &text_namespace},
                              {"uid", &text_uid},
                              {"annotations", &annotations},
                              {"labels", &labels},
                              {"ownerReferences", &owners},
                              {0}};
SHAPE metadata = {.kind = GT_SCAN_OBJECT, .members = metadata_members};

SHAPE request = {.kind = GT_SCAN_AMOUNT, .id = REQUEST, .max = QUANTITY_MAX};
SHAPE requests = {.kind = GT_SCAN_MAP, .id = REQUESTS, .of = &request};
SHAPE limit = {.kind = GT_SCAN_AMOUNT, .id = LIMIT, .max = QUANTITY_MAX};
SHAPE limits = {.kind = GT_SCAN_MAP, .id = LIMITS, .of = &limit};
MEMBERS resources_members[] = {{"requests", &requests}, {"limits", &limits}, {0}};
SHAPE resources = {.kind = GT_SCAN_OBJECT, .members = resources_members};
MEMBERS container_members[] = {
    {"name", &text_container}, {"resources", &resources}, {"restartPolicy", &text_policy}, {0}};
SHAPE container = {.kind = GT_SCAN_OBJECT, .id = CONTAINER, .members = container_members};
SHAPE containers = {.kind = GT_SCAN_ARRAY, .of = &container};
SHAPE init_containers = {.kind = GT_SCAN_ARRAY, .id = INIT_CONTAINERS, .of = &container};

MEMBERS gate_members[] = {{"name", &text_gate}, {0}};
SHAPE gate = {.kind = GT_SCAN_OBJECT, .id = GATE, .members = gate_members};
SHAPE gates = {.kind = GT_SCAN_ARRAY, .of = &gate};
MEMBERS spec_members[] = {{"nodeName", &text_node},
                          {"initContainers", &init_containers},
                          {"containers", &containers},
                          {"schedulingGates", &gates},
                          {0}};
SHAPE spec = {.kind = GT_SCAN_OBJECT, .members = spec_members};

MEMBERS pod_members[] = {{"metadata", &metadata}, {"spec", &spec}, {0}};
const struct gt_scan_shape gt_pod_shape = {.kind = GT_SCAN_OBJECT, .members = pod_members};

int gt_pod_reader_store(struct gt_pod_reader *r, const struct gt_scan_event *event, gt_pod_text *to,
                        struct gt_err **err)
{
    size_t at = r->text.len;
    gt_buf_add(&r->text, event->text, event->len);
    gt_buf_add(&r->text, "", 1);
    if (r->text.failed)
        return gt_fail(err, EMSGSIZE, "texts of more than %zu bytes in one pod", r->text.max);
    *to = (gt_pod_text)at + 1;
    return 0;
}

const char *gt_pod_reader_text(const struct gt_pod_reader *r, gt_pod_text text)
{
    return text ? r->text.data + text - 1 : "";
}

/* 1 where the key is one that the caller wants. */
static int choose(struct gt_pod_reader *r, const char *const *keys, const gt_pod_text *values,
                  const struct gt_scan_event *event, struct gt_err **err)
{
    for (unsigned i = 0; keys && i < GT_WIRE_WANTED_MAX && keys[i]; i++) {
        if (strcmp(keys[i], event->text) != 0)
            continue;
        if (values[i])
            return gt_fail(err, EINVAL, "%s comes twice", keys[i]);
        r->wanted = i;
        return 1;
    }
    return 0;
}

int gt_pod_reader_choose_resource(struct gt_pod_reader *r, const struct gt_scan_event *event,
                                  struct gt_err **err)
{
    if (strcmp(event->text, r->resource) != 0)
        return 0;
    if (r->taken)
        return gt_fail(err, EINVAL, "%s comes twice", r->resource);
    r->taken = true;
    return 1;
}

static int read_gpus(const struct gt_pod_reader *r, const struct gt_scan_event *event, uint64_t *to,
                     struct gt_err **err)
{
    return gt_quantity_read(event->text, event->len, GT_POD_GPUS_MAX, r->resource, to, err);
}

static int container_ends(struct gt_pod_reader *r, struct gt_err **err)
{
    struct gt_pod_container *at = &r->at;
    at->init = r->in_init;
    at->sidecar &= r->in_init;
    at->index = r->in_init ? r->init_containers++ : r->containers++;
    if (!(at->has_request ? at->request : at->limit))
        return 0;
    if (r->count == GT_WIRE_CONTAINERS_MAX)
        return gt_fail(err, EMSGSIZE, "more than %d containers that ask for %s", GT_WIRE_CONTAINERS_MAX,
                       r->resource);
    r->list[r->count++] = *at;
    return 0;
}

static void owner_ends(struct gt_pod_reader *r)
{
    if (r->an_owner_controls || !r->has_owner) {
        r->owner_kind = r->an_owner_kind;
        r->owner_name = r->an_owner_name;
        r->owner_uid = r->an_owner_uid;
    }
    r->has_owner = true;
}

static int read_value(struct gt_pod_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    switch ((enum id)event->id) {
    case NAMESPACE:
        return gt_pod_reader_store(r, event, &r->namespace_, err);
    case NAME:
        return gt_pod_reader_store(r, event, &r->name, err);
    case UID:
        return gt_pod_reader_store(r, event, &r->uid, err);
    case NODE_NAME:
        return gt_pod_reader_store(r, event, &r->node_name, err);
    case OWNER_KIND:
        return gt_pod_reader_store(r, event, &r->an_owner_kind, err);
    case OWNER_NAME:
        return gt_pod_reader_store(r, event, &r->an_owner_name, err);
    case OWNER_UID:
        return gt_pod_reader_store(r, event, &r->an_owner_uid, err);
    case OWNER_CONTROLS:
        r->an_owner_controls = event->yes;
        return 0;
    case ANNOTATION:
        return gt_pod_reader_store(r, event, &r->annotations[r->wanted], err);
    case LABEL:
        return gt_pod_reader_store(r, event, &r->labels[r->wanted], err);
    case GATE_NAME:
        return r->gates_seen <= GT_WIRE_GATES_MAX
                   ? gt_pod_reader_store(r, event, &r->gates[r->gates_seen - 1], err)
                   : 0;
    case CONTAINER_NAME:
        return gt_pod_reader_store(r, event, &r->at.name, err);
    case RESTART_POLICY:
        r->at.sidecar = strcmp(event->text, "Always") == 0;
        return 0;
    case REQUEST:
        r->at.has_request = true;
        return read_gpus(r, event, &r->at.request, err);
    case LIMIT:
        return read_gpus(r, event, &r->at.limit, err);
    default:
        return 0;
    }
}

int gt_pod_reader_event(struct gt_pod_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    bool opens = event->what == GT_SCAN_OPEN, closes = event->what == GT_SCAN_CLOSE;
    if (event->what == GT_SCAN_VALUE)
        return read_value(r, event, err);
    if (event->what == GT_SCAN_KEY) {
        if (event->id == ANNOTATIONS)
            return choose(r, r->annotation_keys, r->annotations, event, err);
        if (event->id == LABELS)
            return choose(r, r->label_keys, r->labels, event, err);
        return gt_pod_reader_choose_resource(r, event, err);
    }
    if (event->id == REQUESTS || event->id == LIMITS) {
        r->taken = false;
    } else if (event->id == INIT_CONTAINERS) {
        r->in_init = opens;
    } else if (event->id == CONTAINER && opens) {
        r->at = (struct gt_pod_container){0};
    } else if (event->id == CONTAINER && closes) {
        return container_ends(r, err);
    } else if (event->id == OWNER && opens) {
        r->an_owner_kind = r->an_owner_name = r->an_owner_uid = 0;
        r->an_owner_controls = false;
    } else if (event->id == OWNER && closes) {
        owner_ends(r);
    } else if (event->id == GATE && opens && r->gates_seen < UINT32_MAX) {
        r->gates_seen++;
    }
    return 0;
}

/* What Kubernetes counts for a pod. */
static uint32_t pod_gpus(const struct gt_wire_container *list, uint32_t count)
{
    uint32_t together = 0, sidecars = 0, peak = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t beside = sidecars + list[i].gpus;
        if (!list[i].init)
            together += list[i].gpus;
        else if (list[i].sidecar)
            sidecars = beside;
        if (list[i].init && beside > peak)
            peak = beside;
    }
    return together + sidecars > peak ? together + sidecars : peak;
}

static void resolve(const struct gt_pod_reader *r, const gt_pod_text *from, unsigned count, const char **to)
{
    for (unsigned i = 0; i < count; i++)
        to[i] = from[i] ? gt_pod_reader_text(r, from[i]) : NULL;
}

void gt_pod_reader_result(struct gt_pod_reader *r, struct gt_wire_pod *ret)
{
    for (uint32_t i = 0; i < r->count; i++) {
        const struct gt_pod_container *from = &r->list[i];
        r->result_containers[i] = (struct gt_wire_container){
            .name = gt_pod_reader_text(r, from->name),
            .index = from->index,
            .gpus = (uint32_t)(from->has_request ? from->request : from->limit),
            .init = from->init,
            .sidecar = from->sidecar,
        };
    }
    resolve(r, r->annotations, GT_WIRE_WANTED_MAX, r->result_annotations);
    resolve(r, r->labels, GT_WIRE_WANTED_MAX, r->result_labels);
    for (uint32_t i = 0; i < r->gates_seen && i < GT_WIRE_GATES_MAX; i++)
        r->result_gates[i] = gt_pod_reader_text(r, r->gates[i]);
    *ret = (struct gt_wire_pod){
        .namespace_ = gt_pod_reader_text(r, r->namespace_),
        .name = gt_pod_reader_text(r, r->name),
        .uid = gt_pod_reader_text(r, r->uid),
        .node_name = gt_pod_reader_text(r, r->node_name),
        .owner_kind = gt_pod_reader_text(r, r->owner_kind),
        .owner_name = gt_pod_reader_text(r, r->owner_name),
        .owner_uid = gt_pod_reader_text(r, r->owner_uid),
        .annotations = r->result_annotations,
        .labels = r->result_labels,
        .containers = r->result_containers,
        .container_count = r->count,
        .gpus = pod_gpus(r->result_containers, r->count),
        .gate_count = r->gates_seen,
        .gates = r->result_gates,
    };
}

void gt_pod_reader_reset(struct gt_pod_reader *r)
{
    enum { KEPT_BYTES = 64 << 10 };
    struct gt_buf text = r->text;
    const char *resource = r->resource;
    const char *const *annotation_keys = r->annotation_keys, *const *label_keys = r->label_keys;
    if (text.capacity > KEPT_BYTES)
        gt_buf_done(&text);
    text.len = 0;
    text.failed = false;
    text.max = GT_WIRE_POD_TEXT_MAX;
    *r = (struct gt_pod_reader){
        .text = text, .resource = resource, .annotation_keys = annotation_keys, .label_keys = label_keys};
}

void gt_pod_reader_init(struct gt_pod_reader *r, const struct gt_wire_wanted *wanted)
{
    *r = (struct gt_pod_reader){.resource = wanted->resource ? wanted->resource : GT_RESOURCE_GPU,
                                .annotation_keys = wanted->annotations,
                                .label_keys = wanted->labels};
    gt_pod_reader_reset(r);
}

void gt_pod_reader_done(struct gt_pod_reader *r)
{
    gt_buf_done(&r->text);
}
