/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/owner_watch.h"

#include <errno.h>

#include "base/clock.h"
#include "kube/status.h"

enum { WITHOUT_MS = 30000 };

struct gt_owner_watch {
    struct gt_owner_watch_spec spec;
    struct follower {
        struct gt_owner_watch *watch;
        enum gt_owner_kind kind;
        struct gt_kube_resource resource;
        uint64_t trouble_ms; /* of the first error before it was known; 0: none */
        struct gt_kube_informer *informer;
    } followers[GT_OWNER_KINDS];
};

static void tell(const struct follower *follower, const char *namespace_, const char *name)
{
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    if (spec->on_owner)
        spec->on_owner(spec->arg, follower->kind, namespace_, name);
}

static void on_object(void *arg, cJSON *object)
{
    struct follower *follower = arg;
    gt_owners_put(follower->watch->spec.owners, follower->kind, object);
    tell(follower, gt_kube_meta(object, "namespace"), gt_kube_meta(object, "name"));
}

static void on_delete(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct follower *follower = arg;
    (void)object;
    gt_owners_remove(follower->watch->spec.owners, follower->kind, namespace_, name);
    tell(follower, namespace_, name);
}

static void on_synced(void *arg)
{
    const struct follower *follower = arg;
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    if (gt_owners_is_synced(spec->owners, follower->kind))
        return;
    gt_owners_set_synced(spec->owners, follower->kind, true);
    if (spec->on_synced)
        spec->on_synced(spec->arg);
}

static void on_error(void *arg, const struct gt_err *error)
{
    struct follower *follower = arg;
    const struct gt_owner_watch_spec *spec = &follower->watch->spec;
    if (gt_err_code(error) == ENOENT)
        on_synced(follower); /* the cluster has no such kind */
    else {
        if (!follower->trouble_ms)
            follower->trouble_ms = gt_clock_ms();
        if (spec->on_error)
            spec->on_error(spec->arg, follower->kind, error);
    }
}

int gt_owner_watch_new(const struct gt_owner_watch_spec *spec, struct gt_owner_watch **ret,
                       struct gt_err **err)
{
    gt_auto_owner_watch struct gt_owner_watch *watch = calloc(1, sizeof(*watch));
    if (!watch)
        return gt_fail_sys(err, ENOMEM, "owners");
    watch->spec = *spec;
    if (!watch->spec.without_ms)
        watch->spec.without_ms = WITHOUT_MS;
    for (unsigned i = 0; i < GT_OWNER_KINDS; i++) {
        struct follower *follower = &watch->followers[i];
        follower->watch = watch;
        follower->kind = (enum gt_owner_kind)i;
        const struct gt_owner_type *type = gt_owner_type(follower->kind);
        follower->resource = (struct gt_kube_resource){type->group, type->version, type->plural, true};
        const struct gt_kube_informer_spec informer = {
            .selection = {.resource = &follower->resource},
            .on_add = on_object,
            .on_update = on_object,
            .on_delete = on_delete,
            .on_synced = on_synced,
            .on_error = on_error,
            .arg = follower,
        };
        int r = gt_kube_informer_start(spec->kube, &informer, &follower->informer, err);
        if (r < 0)
            return r;
    }
    *ret = gt_steal(watch);
    return 0;
}

void gt_owner_watch_free(struct gt_owner_watch *watch)
{
    if (!watch)
        return;
    for (unsigned i = 0; i < GT_OWNER_KINDS; i++)
        gt_kube_informer_free(watch->followers[i].informer);
    free(watch);
}

static bool is_given_up(const struct follower *follower)
{
    return follower->trouble_ms && gt_clock_ms() - follower->trouble_ms >= follower->watch->spec.without_ms;
}

bool gt_owner_watch_is_synced(const struct gt_owner_watch *watch)
{
    for (unsigned i = 0; i < GT_OWNER_KINDS; i++)
        if (!gt_owners_is_synced(watch->spec.owners, (enum gt_owner_kind)i) &&
            !is_given_up(&watch->followers[i]))
            return false;
    return true;
}
