/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/owner_events.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/event.h"

/* Field selectors of the API server have no "or", so there is one informer for each reason. At most so many
 * Events are kept; the API server deletes Events after an hour. */
enum { OWNER_EVENTS_MAX = 20000 };

static const struct gt_kube_resource resource = {"", "v1", "events", true};

static const char *const selectors[] = {
    "type=Warning,reason=FailedCreate",    /* of Kubernetes' own controllers, and Volcano's */
    "type=Warning,reason=FailedCreatePod", /* of Kubeflow's */
};

struct gt_owner_events {
    struct gt_owner_events_spec spec;
    struct gt_kube_informer *informers[GT_COUNT(selectors)];
};

static void owner_events_on_event(void *arg, cJSON *object)
{
    struct gt_owner_events *events = arg;
    const struct gt_owner_events_spec *spec = &events->spec;
    struct gt_event_object event;
    uint64_t last_s;
    gt_event_read(object, &event, &last_s);
    enum gt_job_kind kind = gt_owner_kind_of(event.api_version, event.kind);
    if (kind < GT_JOB_KINDS &&
        gt_owners_failed(spec->owners, kind, event.namespace_, event.name, event.uid, last_s) &&
        spec->on_owner)
        spec->on_owner(spec->arg, kind, event.namespace_, event.name);
}

int gt_owner_events_new(const struct gt_owner_events_spec *spec, struct gt_owner_events **ret,
                        struct gt_err **err)
{
    GT_CLEANUP(gt_owner_events_free) struct gt_owner_events *events = calloc(1, sizeof(*events));
    if (!events)
        return gt_fail_sys(err, ENOMEM, "events");
    events->spec = *spec;
    for (unsigned i = 0; i < GT_COUNT(selectors); i++) {
        const struct gt_kube_informer_spec informer = {
            .selection = {.resource = &resource, .field_selector = selectors[i]},
            .objects_max = OWNER_EVENTS_MAX,
            .on_add = owner_events_on_event,
            .on_update = owner_events_on_event,
            .arg = events,
        };
        GT_TRY(gt_kube_informer_start(spec->kube, &informer, &events->informers[i], err));
    }
    *ret = gt_steal(events);
    return 0;
}

void gt_owner_events_free(struct gt_owner_events *events)
{
    if (!events)
        return;
    for (unsigned i = 0; i < GT_COUNT(selectors); i++)
        gt_kube_informer_free(events->informers[i]);
    free(events);
}
