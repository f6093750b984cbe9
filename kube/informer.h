/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/watch.h"

/*
 * Follows a set of objects: a list, then a watch, and a list again if the watch was lost; it never gives up.
 * Objects are passed to the callbacks and not stored. Only names and uids are stored, to distinguish an
 * addition from an update, and to report after a new list what was deleted meanwhile. A later list reports
 * all objects again: the user may have made a write that a restored etcd has lost. An object that was deleted
 * and created again with the same name meanwhile is reported as deleted and added. If an object becomes too
 * large to be read, nothing is reported until it is deleted or can be read again.
 */
struct gt_kube_informer;

enum { GT_KUBE_OBJECTS_MAX = 200000 };

struct gt_kube_informer_counters {
    uint64_t lists, lists_failed;
    uint64_t added, updated, deleted;
    uint64_t refused; /* objects beyond objects_max, or without a name */
    size_t objects;
    bool synced;
    struct gt_kube_watch_counters watch; /* of all watches together */
};

struct gt_kube_informer_spec {
    struct gt_kube_selection selection;
    unsigned start_jitter_ms; /* the first list waits a random time up to this */
    size_t objects_max;       /* 0: GT_KUBE_OBJECTS_MAX; further ones are ignored and counted */
    unsigned limit;           /* as in gt_kube_list_spec */
    size_t page_max;
    unsigned timeout_s; /* as in gt_kube_watch_spec */
    size_t line_max;
    void (*on_add)(void *arg, cJSON *object); /* freed afterwards, also in on_update */
    void (*on_update)(void *arg, cJSON *object);
    /* `object` is its last state, NULL if a new list has shown the deletion; may be NULL. */
    void (*on_delete)(void *arg, const char *namespace_, const char *name, cJSON *object);
    void (*on_synced)(void *arg);                            /* after every complete list; may be NULL */
    void (*on_error)(void *arg, const struct gt_err *error); /* it goes on; NULL: it is logged */
    void *arg;
};

int gt_kube_informer_start(struct gt_kube *kube, const struct gt_kube_informer_spec *spec,
                           struct gt_kube_informer **ret, struct gt_err **err);

/* It may be called within its callbacks. NULL is allowed. */
void gt_kube_informer_free(struct gt_kube_informer *informer);

void gt_kube_informer_counters(const struct gt_kube_informer *informer,
                               struct gt_kube_informer_counters *ret);
