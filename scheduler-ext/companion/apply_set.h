/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_APPLY_SET_H
#define GPUTOPO_COMPANION_APPLY_SET_H

#include "api/names.h"
#include "base/loop.h"
#include "kube/client.h"

/*
 * Keeps one kind of object in the API server as it is desired: makes, applies and deletes the objects that
 * carry our label, and nothing else. An object without the label under a desired name is left as it is, and
 * gt_apply_set_state_of() says so. Nothing is written that is there already, nothing before the whole list
 * of what is there has been seen, and nothing by a replica that does not lead.
 *
 * Writes: 8 at a time, 50 a second over time (100 at once), one at a time for an object, with back-off where
 * it fails. What the server says to a write counts at once; what the watch sends is believed from the
 * moment on when it has caught up with that, or after 5 seconds.
 */
struct gt_apply_set;

enum { GT_APPLY_SET_OBJECTS_MAX = 1 << 18, GT_APPLY_SET_BODY_MAX = 2 << 20 };

struct gt_apply_set_spec {
    struct gt_loop *loop;
    struct gt_kube *kube;
    const struct gt_kube_resource *resource;
    const char *api_version, *kind, *namespace_;
    const char *root;     /* "spec" or "status": the member that is kept as desired, beside the labels */
    bool is_status;       /* it is written to the status subresource; its times are filled in (desired.h) */
    bool is_strict;       /* what others put into it is removed */
    bool no_informer;     /* it watches nothing: gt_apply_set_observe() and the like bring the objects */
    bool is_optional;     /* the kind may not be known to the cluster */
    const char *selector; /* label selector of what is watched; NULL: all */
    bool reports_own;     /* on_change is called after our own writes, too */
    /* What is there has changed, or is known now: desired states may have to be made again. */
    void (*on_change)(void *arg);
    void *arg;
};

int gt_apply_set_new(const struct gt_apply_set_spec *spec, struct gt_apply_set **ret, struct gt_err **err);
void gt_apply_set_free(struct gt_apply_set *set);
GT_DEFINE_CLEANUP(struct gt_apply_set *, gt_apply_set_free)
#define gt_auto_apply_set GT_CLEANUP(gt_apply_set_free)

/* An object that is there, one that is gone, and the end of the list. */
void gt_apply_set_observe(struct gt_apply_set *set, const cJSON *object);
void gt_apply_set_observe_deleted(struct gt_apply_set *set, const char *name);
void gt_apply_set_observe_all(struct gt_apply_set *set);

/* Whether all that is there has been seen once, and the cluster knows the kind. */
bool gt_apply_set_is_synced(const struct gt_apply_set *set);

/*
 * One round: everything that is desired, then the end; what was desired before and is not now is deleted.
 * `desired` is a JSON text, {"labels":{...},"<root>":{...}}; the label that makes it ours is added. False: no
 * memory, or too many; then the round must not be ended.
 */
void gt_apply_set_begin(struct gt_apply_set *set);
bool gt_apply_set_want(struct gt_apply_set *set, const char *name, const char *desired);
void gt_apply_set_end(struct gt_apply_set *set);

/* Begins or ends writing; what is on its way is cancelled. */
void gt_apply_set_lead(struct gt_apply_set *set, bool leads);

enum gt_apply_set_state { GT_APPLY_SET_ABSENT, GT_APPLY_SET_OURS, GT_APPLY_SET_FOREIGN };
enum gt_apply_set_state gt_apply_set_state_of(const struct gt_apply_set *set, const char *name);

/* Every object that is there; `have` is {"labels":{...},"<root>":{...}} as a text, both may be missing. */
typedef void gt_apply_set_visit(void *arg, const char *name, enum gt_apply_set_state state, const char *have);
void gt_apply_set_each(const struct gt_apply_set *set, gt_apply_set_visit *visit, void *arg);

struct gt_apply_set_stats {
    uint64_t created, applied, deleted, failed;
    uint32_t ours, foreign, desired; /* foreign: all that are not ours */
    uint32_t waiting;                /* that are not as desired yet */
    bool synced, absent;             /* absent: the cluster does not know the kind */
    char error[256];                 /* of the last write that failed, "" since one did not */
};
void gt_apply_set_stats(const struct gt_apply_set *set, struct gt_apply_set_stats *ret);

#endif
