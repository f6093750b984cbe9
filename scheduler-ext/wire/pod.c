/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/quantity.h"
#include "scheduler-ext/wire/pod_reader.h"

enum pod_id {
    POD_NAMESPACE = GT_POD_ID_FIRST,
    POD_NAME,
    POD_UID,
    POD_INIT_CONTAINERS,
    POD_CONTAINER,
    POD_RESTART_POLICY,
    POD_REQUESTS,
    POD_REQUEST,
    POD_LIMITS,
    POD_LIMIT,
};
_Static_assert((int)POD_LIMIT <= (int)GT_POD_ID_LAST, "ids of a pod");

enum { QUANTITY_MAX = 64, SHORT_MAX = 64 };

#define SHAPE   static const struct gt_scan_shape
#define MEMBERS static const struct gt_scan_member
#define NAME_TEXT(ID)                                                                                        \
    {                                                                                                        \
        .kind = GT_SCAN_TEXT, .id = (ID), .max = GT_WIRE_NAME_MAX                                            \
    }

SHAPE text_namespace = NAME_TEXT(POD_NAMESPACE), text_name = NAME_TEXT(POD_NAME),
      text_uid = NAME_TEXT(POD_UID),
      text_policy = {.kind = GT_SCAN_TEXT, .id = POD_RESTART_POLICY, .max = SHORT_MAX};
MEMBERS metadata_members[] = {{"name", &text_name}, {"namespace", &text_namespace}, {"uid", &text_uid}, {0}};
SHAPE metadata = {.kind = GT_SCAN_OBJECT, .members = metadata_members};

SHAPE request = {.kind = GT_SCAN_AMOUNT, .id = POD_REQUEST, .max = QUANTITY_MAX};
SHAPE requests = {.kind = GT_SCAN_MAP, .id = POD_REQUESTS, .of = &request};
SHAPE limit = {.kind = GT_SCAN_AMOUNT, .id = POD_LIMIT, .max = QUANTITY_MAX};
SHAPE limits = {.kind = GT_SCAN_MAP, .id = POD_LIMITS, .of = &limit};
MEMBERS resources_members[] = {{"requests", &requests}, {"limits", &limits}, {0}};
SHAPE resources = {.kind = GT_SCAN_OBJECT, .members = resources_members};
MEMBERS container_members[] = {{"resources", &resources}, {"restartPolicy", &text_policy}, {0}};
SHAPE container = {.kind = GT_SCAN_OBJECT, .id = POD_CONTAINER, .members = container_members};
SHAPE containers = {.kind = GT_SCAN_ARRAY, .of = &container};
SHAPE init_containers = {.kind = GT_SCAN_ARRAY, .id = POD_INIT_CONTAINERS, .of = &container};
MEMBERS spec_members[] = {{"initContainers", &init_containers}, {"containers", &containers}, {0}};
SHAPE spec = {.kind = GT_SCAN_OBJECT, .members = spec_members};

MEMBERS pod_members[] = {{"metadata", &metadata}, {"spec", &spec}, {0}};
const struct gt_scan_shape gt_pod_shape = {.kind = GT_SCAN_OBJECT, .members = pod_members};

int gt_wire_text_put(struct gt_wire_text *to, const struct gt_scan_event *event, struct gt_err **err)
{
    if (event->len >= sizeof(to->text))
        return gt_fail(err, EMSGSIZE, "a text of more than %zu bytes", sizeof(to->text) - 1);
    memcpy(to->text, event->text, event->len + 1);
    return 0;
}

int gt_wire_choose_resource(bool *taken, const struct gt_scan_event *event, struct gt_err **err)
{
    if (strcmp(event->text, GT_RESOURCE_GPU) != 0)
        return 0;
    if (*taken)
        return gt_fail(err, EINVAL, "%s comes twice", GT_RESOURCE_GPU);
    *taken = true;
    return 1;
}

static int read_gpus(struct gt_pod_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    uint64_t gpus;
    int result = gt_quantity_read(event->text, event->len, GT_POD_GPUS_MAX, GT_RESOURCE_GPU, &gpus, err);
    if (result < 0)
        return result;
    if (event->id == POD_LIMIT || !r->limited) /* the two are equal where both exist */
        r->at.gpus = (unsigned)gpus;
    r->limited = r->limited || event->id == POD_LIMIT;
    return 0;
}

/* CPU in thousandths, memory in bytes. The API server has refused invalid quantities before. */
static void read_amount(struct gt_pod_reader *r, const struct gt_scan_event *event)
{
    uint64_t amount;
    if (gt_quantity_ceil(event->text, event->len, r->which == GT_POD_CPU ? 3 : 0, GT_AMOUNT_MAX, &amount))
        r->amount[r->which] = amount;
}

static uint64_t with(uint64_t sum, uint64_t amount)
{
    return amount < GT_AMOUNT_MAX - sum ? sum + amount : GT_AMOUNT_MAX;
}

/* An ordinary init container runs beside the sidecars before it, before all others. */
static void container_ends(struct gt_pod_reader *r)
{
    for (unsigned i = 0; i < GT_POD_AMOUNTS; i++) {
        uint64_t amount = r->amount[i], first = with(r->sidecars[i], amount);
        if (r->at.init && !r->at.sidecar) {
            r->most[i] = first > r->most[i] ? first : r->most[i];
            continue;
        }
        r->sum[i] = with(r->sum[i], amount);
        if (r->at.sidecar)
            r->sidecars[i] = first;
    }
}

static int read_value(struct gt_pod_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    switch ((enum pod_id)event->id) {
    case POD_NAMESPACE:
        return gt_wire_text_put(&r->namespace_, event, err);
    case POD_NAME:
        return gt_wire_text_put(&r->name, event, err);
    case POD_UID:
        return gt_wire_text_put(&r->uid, event, err);
    case POD_RESTART_POLICY:
        r->at.sidecar = r->at.init && strcmp(event->text, "Always") == 0;
        return 0;
    case POD_REQUEST:
        if (r->which != GT_POD_AMOUNTS) {
            read_amount(r, event);
            return 0;
        }
        return read_gpus(r, event, err);
    case POD_LIMIT:
        return read_gpus(r, event, err);
    default:
        return 0;
    }
}

int gt_pod_reader_event(struct gt_pod_reader *r, const struct gt_scan_event *event, struct gt_err **err)
{
    bool opens = event->what == GT_SCAN_OPEN;
    if (event->what == GT_SCAN_VALUE)
        return read_value(r, event, err);
    if (event->what == GT_SCAN_KEY) {
        r->which = event->id == POD_LIMITS                        ? GT_POD_AMOUNTS
                   : strcmp(event->text, GT_RESOURCE_CPU) == 0    ? GT_POD_CPU
                   : strcmp(event->text, GT_RESOURCE_MEMORY) == 0 ? GT_POD_MEMORY
                                                                  : GT_POD_AMOUNTS;
        return r->which != GT_POD_AMOUNTS ? 1 : gt_wire_choose_resource(&r->taken, event, err);
    }
    if (event->id == POD_REQUESTS || event->id == POD_LIMITS) {
        r->taken = false;
    } else if (event->id == POD_INIT_CONTAINERS) {
        r->in_init = opens;
    } else if (event->id == POD_CONTAINER && opens) {
        r->at = (struct gt_pod_container){.name = "", .init = r->in_init};
        r->limited = false;
        memset(r->amount, 0, sizeof(r->amount));
    } else if (event->id == POD_CONTAINER) {
        container_ends(r);
        return gt_pod_containers_add(&r->containers, &r->at, err);
    }
    return 0;
}

int gt_pod_reader_result(const struct gt_pod_reader *r, struct gt_wire_pod *ret, struct gt_err **err)
{
    int result = gt_pod_gpus_count(&r->containers, &ret->gpus, err);
    if (result < 0)
        return gt_wrap(err, "Pod.spec");
    ret->namespace_ = r->namespace_.text;
    ret->name = r->name.text;
    ret->uid = r->uid.text;
    int64_t *const amounts[GT_POD_AMOUNTS] = {&ret->cpu_milli, &ret->memory};
    for (unsigned i = 0; i < GT_POD_AMOUNTS; i++)
        *amounts[i] = (int64_t)(r->most[i] > r->sum[i] ? r->most[i] : r->sum[i]);
    return 0;
}

void gt_pod_reader_reset(struct gt_pod_reader *r)
{
    r->namespace_.text[0] = r->name.text[0] = r->uid.text[0] = '\0';
    r->containers.count = 0;
    r->in_init = r->taken = false;
    memset(r->sum, 0, sizeof(r->sum));
    memset(r->sidecars, 0, sizeof(r->sidecars));
    memset(r->most, 0, sizeof(r->most));
}
