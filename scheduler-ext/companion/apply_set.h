/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "kube/client.h"

/*
 * Reconciles objects of one kind in the API server with their desired state: creates, applies and deletes the
 * objects that carry our label, and no others. An object that has a desired name but not our label is left as
 * it is; gt_apply_set_state_of() reports it as foreign. It writes only differences, only after the whole list
 * of existing objects has been seen, and only on the replica that leads.
 *
 * After a write an object is as the watch sends it: nothing more is written to it until the watch has the
 * write, for at most 5 seconds.
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
    bool no_informer;     /* it watches nothing: the caller passes the objects to gt_apply_set_observe*() */
    bool is_optional;     /* the cluster may not have this kind */
    const char *selector; /* label selector of what is watched; NULL: all */
    bool reports_own;     /* on_change is called for our own writes, too */
    /* The existing objects have changed, or are known now: desired states may have to be computed again. */
    void (*on_change)(void *arg);
    void *arg;
};

int gt_apply_set_new(const struct gt_apply_set_spec *spec, struct gt_apply_set **ret, struct gt_err **err);
void gt_apply_set_free(struct gt_apply_set *set);
GT_DEFINE_CLEANUP(struct gt_apply_set *, gt_apply_set_free)

/* With no_informer: an existing object, a deleted one, and the end of the list. */
void gt_apply_set_observe(struct gt_apply_set *set, const cJSON *object);
void gt_apply_set_observe_deleted(struct gt_apply_set *set, const char *name);
void gt_apply_set_observe_all(struct gt_apply_set *set);

/* Whether all existing objects were listed once, and the cluster knows the kind. */
bool gt_apply_set_is_synced(const struct gt_apply_set *set);

/*
 * One round: begin, then everything that is desired, then the end; our objects that are no longer desired are
 * deleted. `desired` is a JSON text, {"labels":{...},"<root>":{...}}; our label is added. False: no memory,
 * or too many; then gt_apply_set_end() must not be called.
 */
void gt_apply_set_begin(struct gt_apply_set *set);
bool gt_apply_set_want(struct gt_apply_set *set, const char *name, const char *desired);
void gt_apply_set_end(struct gt_apply_set *set);

/* Begins or ends writing; at the end, requests in flight are cancelled. */
void gt_apply_set_lead(struct gt_apply_set *set, bool leads);

enum gt_apply_set_state { GT_APPLY_SET_ABSENT, GT_APPLY_SET_OURS, GT_APPLY_SET_FOREIGN };
enum gt_apply_set_state gt_apply_set_state_of(const struct gt_apply_set *set, const char *name);

/* Visits every existing object; `have` is {"labels":{...},"<root>":{...}} as a text, both may be missing. */
typedef void gt_apply_set_visit(void *arg, const char *name, enum gt_apply_set_state state, const char *have);
void gt_apply_set_each(const struct gt_apply_set *set, gt_apply_set_visit *visit, void *arg);

struct gt_apply_set_stats {
    uint64_t created, applied, deleted, failed;
    uint32_t ours, foreign, desired; /* foreign: all that are not ours */
    uint32_t waiting;                /* objects that are not yet as desired */
    bool synced, absent;             /* absent: the cluster does not know the kind */
    char error[256];                 /* of the last write, where it failed; else "" */
};
void gt_apply_set_stats(const struct gt_apply_set *set, struct gt_apply_set_stats *ret);
