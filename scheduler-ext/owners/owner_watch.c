/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/owner_watch.h"

#include <errno.h>

#include "api/event.h"
#include "api/meta.h"
#include "base/clock.h"
#include "base/log.h"

enum { WITHOUT_MS = 30000, POD_GROUPS = GT_JOB_KINDS, FOLLOWERS = POD_GROUPS + GT_POD_GROUP_TYPES };

/* Field selectors of the API server have no "or", so there is one informer for each reason. At most so many
 * Events are kept; the API server deletes Events after an hour. */
enum { OWNER_EVENTS_MAX = 20000 };

static const struct gt_kube_resource events_resource = {"", "v1", "events", true};

static const char *const selectors[] = {
    "type=Warning,reason=FailedCreate",    /* of Kubernetes' own controllers, and Volcano's */
    "type=Warning,reason=FailedCreatePod", /* of Kubeflow's */
};

struct gt_owner_watch {
    struct gt_owner_watch_spec spec;
    struct follower {
        struct gt_owner_watch *watch;
        unsigned number; /* its enum gt_job_kind, or that of its PodGroups or Queues and POD_GROUPS */
        const char *kind;
        struct gt_kube_resource resource;
        bool synced;
        uint64_t problem_ms; /* of the first error; 0: none */
        struct gt_kube_informer *informer;
    } followers[FOLLOWERS];
    struct gt_kube_informer *events[GT_COUNT(selectors)]; /* while they are followed */
};

static void owner_watch_read_group(const struct follower *follower, const char *namespace_, const char *name,
                                   const cJSON *object)
{
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    const unsigned type = follower->number - POD_GROUPS;
    bool changed = object ? gt_pod_groups_put(spec->pod_groups, type, object)
                          : gt_pod_groups_remove(spec->pod_groups, type, namespace_, name);
    if (changed && spec->on_pod_group)
        spec->on_pod_group(spec->arg, type == GT_VOLCANO_QUEUE ? NULL : namespace_);
}

/* `object` NULL: it is gone. */
static void owner_watch_update(struct follower *follower, const char *namespace_, const char *name,
                               const cJSON *object)
{
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    enum gt_job_kind kind = (enum gt_job_kind)follower->number;
    if (follower->number >= GT_JOB_KINDS) {
        owner_watch_read_group(follower, namespace_, name, object);
        return;
    }
    if (object)
        gt_owners_put(spec->owners, kind, object);
    else
        gt_owners_remove(spec->owners, kind, namespace_, name);
    if (!object && spec->on_deleted)
        spec->on_deleted(spec->arg, kind, namespace_, name);
    if (spec->on_owner)
        spec->on_owner(spec->arg, kind, namespace_, name);
}

static void owner_watch_on_object(void *arg, cJSON *object)
{
    const struct follower *follower = arg;
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    if (spec->prepare && follower->number < GT_JOB_KINDS)
        spec->prepare(spec->arg, (enum gt_job_kind)follower->number, object);
    owner_watch_update(arg, gt_meta_namespace(object), gt_meta_name(object), object);
}

static void owner_watch_on_delete(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    (void)object;
    owner_watch_update(arg, namespace_, name, NULL);
}

static void set_synced(struct follower *follower, bool is_there)
{
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    if (follower->number == POD_GROUPS && gt_pod_groups_is_known(spec->pod_groups) != is_there) {
        gt_pod_groups_set_known(spec->pod_groups, is_there);
        if (spec->on_pod_group)
            spec->on_pod_group(spec->arg, NULL);
    }
    follower->synced = true;
}

static void owner_watch_on_synced(void *arg)
{
    set_synced(arg, true);
}

static void owner_watch_on_error(void *arg, const struct gt_err *error)
{
    struct follower *follower = arg;
    if (gt_err_code(error) == ENOENT) {
        set_synced(follower, false); /* the cluster has no such kind */
        return;
    }
    gt_log(follower->problem_ms ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot watch",
           GT_STR("kind", follower->kind), GT_STR("error", gt_err_text(error)));
    if (!follower->problem_ms)
        follower->problem_ms = gt_clock_ms();
}

static int owner_watch_start(struct follower *follower, struct gt_err **err)
{
    const struct gt_kube_informer_spec informer = {
        .selection = {.resource = &follower->resource},
        .on_add = owner_watch_on_object,
        .on_update = owner_watch_on_object,
        .on_delete = owner_watch_on_delete,
        .on_synced = owner_watch_on_synced,
        .on_error = owner_watch_on_error,
        .arg = follower,
    };
    return gt_kube_informer_start(follower->watch->spec.kube, &informer, &follower->informer, err);
}

/* ---- failures to create pods ---- */

static void owner_watch_on_event(void *arg, cJSON *object)
{
    const struct gt_owner_watch_spec *spec = &((const struct gt_owner_watch *)arg)->spec;
    struct gt_event_object event;
    uint64_t last_s;
    gt_event_read(object, &event, &last_s);
    enum gt_job_kind kind = gt_owner_kind_of(event.api_version, event.kind);
    if (kind < GT_JOB_KINDS &&
        gt_owners_failed(spec->owners, kind, event.namespace_, event.name, event.uid, last_s) &&
        spec->on_owner)
        spec->on_owner(spec->arg, kind, event.namespace_, event.name);
}

int gt_owner_watch_events(struct gt_owner_watch *watch, bool follow, struct gt_err **err)
{
    for (unsigned i = 0; i < GT_COUNT(selectors); i++) {
        const struct gt_kube_informer_spec informer = {
            .selection = {.resource = &events_resource, .field_selector = selectors[i]},
            .objects_max = OWNER_EVENTS_MAX,
            .on_add = owner_watch_on_event,
            .on_update = owner_watch_on_event,
            .arg = watch,
        };
        gt_kube_informer_free(gt_steal(watch->events[i]));
        if (follow)
            GT_TRY(gt_kube_informer_start(watch->spec.kube, &informer, &watch->events[i], err));
    }
    return 0;
}

/* ---- creation and end ---- */

int gt_owner_watch_new(const struct gt_owner_watch_spec *spec, struct gt_owner_watch **ret,
                       struct gt_err **err)
{
    GT_CLEANUP(gt_owner_watch_free) struct gt_owner_watch *watch = calloc(1, sizeof(*watch));
    GT_NEED(watch, err, "owners");
    watch->spec = *spec;
    if (!watch->spec.without_ms)
        watch->spec.without_ms = WITHOUT_MS;
    for (unsigned at = 0, i; at < FOLLOWERS; at++) {
        i = at < GT_JOB_KINDS ? gt_owner_watched(at) : at;
        if (i == GT_JOB_KINDS && at < GT_JOB_KINDS)
            continue;
        const struct gt_owner_type *type =
            i < POD_GROUPS ? gt_owner_type((enum gt_job_kind)i) : &gt_pod_group_types[i - POD_GROUPS].type;
        bool in_namespaces = i != POD_GROUPS + GT_VOLCANO_QUEUE;
        watch->followers[i] =
            (struct follower){.watch = watch,
                              .number = i,
                              .kind = type->kind,
                              .resource = {type->group, type->version, type->plural, in_namespaces}};
        GT_TRY(owner_watch_start(&watch->followers[i], err));
    }
    *ret = gt_steal(watch);
    return 0;
}

void gt_owner_watch_free(struct gt_owner_watch *watch)
{
    if (!watch)
        return;
    for (unsigned i = 0; i < FOLLOWERS; i++)
        gt_kube_informer_free(watch->followers[i].informer);
    gt_owner_watch_events(watch, false, NULL);
    free(watch);
}

/* Kinds that are not watched have no informer. */
bool gt_owner_watch_is_synced(const struct gt_owner_watch *watch)
{
    for (const struct follower *one = watch->followers; one < watch->followers + FOLLOWERS; one++)
        if (one->informer && !one->synced &&
            (!one->problem_ms || gt_clock_ms() - one->problem_ms < watch->spec.without_ms))
            return false;
    return true;
}
