/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_MIRROR_H
#define GPUTOPO_COMPANION_MIRROR_H

#include "base/loop.h"
#include "kube/client.h"

/*
 * Keeps one kind of object in the API server as it is wished: makes, applies and deletes the objects that
 * carry our label, and nothing else. An object without the label under a wished name is left as it is, and
 * gt_mirror_look() tells so. Nothing is written that is there already, nothing before the whole list of what
 * is there has been seen, and nothing by a replica that does not lead.
 *
 * Writes: 8 at a time, 50 a second over time (100 at once), one at a time for an object, with back-off where
 * it fails. What the server says to a write counts at once; what the watch tells is believed from the
 * moment on when it has caught up with that, or after 5 seconds.
 */
struct gt_mirror;

#define GT_MIRROR_LABEL   "app.kubernetes.io/managed-by"
#define GT_MIRROR_MANAGER "gputopo-scheduler" /* the label's value, and the field manager */

enum { GT_MIRROR_OBJECTS_MAX = 1 << 18, GT_MIRROR_BODY_MAX = 2 << 20 };

struct gt_mirror_spec {
    struct gt_loop *loop;
    struct gt_kube *kube;
    const struct gt_kube_resource *resource;
    const char *api_version, *kind, *namespace_;
    const char *root;     /* "spec" or "status": the member that is kept as wished, beside the labels */
    bool is_status;       /* it is written to the status subresource; its times are filled in (wish.h) */
    bool is_strict;       /* what others put into it is removed */
    bool is_optional;     /* the kind may not be known to the cluster */
    const char *selector; /* label selector of what is looked at; NULL: all */
    bool tells_own;       /* on_change is called after our own writes, too */
    /* What is there has changed, or is known now: wishes may have to be made anew. */
    void (*on_change)(void *arg);
    void *arg;
};

int gt_mirror_new(const struct gt_mirror_spec *spec, struct gt_mirror **ret, struct gt_err **err);
void gt_mirror_free(struct gt_mirror *mirror);
GT_DEFINE_CLEANUP(struct gt_mirror *, gt_mirror_free)
#define gt_auto_mirror GT_CLEANUP(gt_mirror_free)

/* Whether all that is there has been seen once, and the cluster knows the kind. */
bool gt_mirror_is_synced(const struct gt_mirror *mirror);

/*
 * One round: everything that is wished, then the end; what was wished before and is not now is deleted.
 * `wish` is a JSON text, {"labels":{...},"<root>":{...}}; the label that makes it ours is added. False: no
 * memory, or too many; then the round must not be ended.
 */
void gt_mirror_begin(struct gt_mirror *mirror);
bool gt_mirror_want(struct gt_mirror *mirror, const char *name, const char *wish);
void gt_mirror_end(struct gt_mirror *mirror);

/* Begins or ends writing; what is on its way is cancelled. */
void gt_mirror_lead(struct gt_mirror *mirror, bool leads);

enum gt_mirror_state { GT_MIRROR_ABSENT, GT_MIRROR_OURS, GT_MIRROR_FOREIGN };
enum gt_mirror_state gt_mirror_look(const struct gt_mirror *mirror, const char *name);

/* Every object that is there; `have` is {"labels":{...},"<root>":{...}} as a text, both may be missing. */
typedef void gt_mirror_visit(void *arg, const char *name, enum gt_mirror_state state, const char *have);
void gt_mirror_each(const struct gt_mirror *mirror, gt_mirror_visit *visit, void *arg);

struct gt_mirror_stats {
    uint64_t created, applied, deleted, failed;
    uint32_t ours, foreign, wished; /* foreign: all that are not ours */
    uint32_t waiting;               /* that are not as wished yet */
    bool synced, absent;            /* absent: the cluster does not know the kind */
    char error[256];                /* of the last write that failed, "" since one did not */
};
void gt_mirror_stats(const struct gt_mirror *mirror, struct gt_mirror_stats *ret);

#endif
