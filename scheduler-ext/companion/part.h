/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "base/loop.h"
#include "http/http.h"
#include "kube/event.h"
#include "scheduler-ext/companion/informers.h"
#include "scheduler-ext/companion/options.h"

struct gt_placement;

/* What every part of the companion gets; outlives the part. */
struct gt_part_env {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_kube_recorder *recorder;
    const struct gt_companion_options *options;
    const char *namespace_;               /* where its own objects are */
    const char *instance;                 /* this process among its replicas */
    struct gt_informers *informers;       /* for a part that needs the cache, else NULL */
    const struct gt_placement *placement; /* of the part that places; NULL: off, or not yet there */
    /* Whether this replica leads by the clock; called before each write that must not be late. */
    bool (*is_leading)(void *arg);
    void *leading_arg;
    /* For people: the replica that leads ("": none is known), and what is wrong with the certificate. With
     * leading_arg. */
    const char *(*describe)(void *arg, struct gt_buf *certificate);
};

/*
 * A part of the companion, selected by its name in --only, and listed in parts.c. Functions that are not
 * needed are NULL. Everything runs on the loop's thread.
 */
struct gt_part {
    const char *name, *help;
    unsigned kinds; /* the kinds that it needs, 1 << GT_INFORMER_NODES...; 0: none, and no cache */
    bool reports;   /* it asks for gt_cache_reports() */
    bool on_demand; /* it is off unless --only names it */
    int (*new)(const struct gt_part_env *env, void **ret, struct gt_err **err);
    void (*free)(void *self);
    /* Whether it is ready; otherwise appends one line that says why not. */
    bool (*ready)(const void *self, struct gt_buf *why);
    /* This replica begins, or stops, to lead. After `false` no request may be in flight. */
    void (*lead)(void *self, bool leads);
    void (*metrics)(const void *self, struct gt_buf *to);
    /* False: the path does not belong to it. */
    bool (*serve)(void *self, const struct gt_http_request *request, struct gt_http_response *response);
    /* As gt_http_on_body; false: the path does not belong to it, or the body is to be collected. */
    bool (*on_body)(void *self, const struct gt_http_request *request, struct gt_http_consumer *ret);
    /* The placement that later parts of parts.c may read. */
    struct gt_placement *(*placement)(void *self);
};

enum { GT_PARTS_MAX = 8 };
extern const struct gt_part *const gt_parts[];
extern const unsigned gt_part_count;

extern const struct gt_part gt_supernodes_part, gt_placement_part, gt_extender_part, gt_ui_part,
    gt_kueue_part;
