/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/leader.h"
#include "scheduler-ext/companion/part.h"

/* The daemon's state; only for the loop's thread. */
struct gt_companion {
    const struct gt_companion_options *options;
    struct gt_loop *loop;
    struct gt_http *http, *https, *health;
    struct gt_http_budget budget; /* of the first two */
    struct gt_kube *kube;
    struct gt_kube_recorder *recorder;
    struct gt_elect *elect; /* NULL: --leader-elect=false */
    char lease_error[256];  /* the last one, "" none in this term */
    struct gt_source *end_timer;
    struct gt_shutdown *end;
    struct gt_part_env env;
    struct gt_informers *informers; /* NULL: no part needs the cache */
    void *parts[GT_PARTS_MAX];      /* NULL: not selected */
    struct gt_placement *placement; /* that of a part; NULL: off */
    char instance[192];
    bool leads, ending;
};

/* As `describe` of struct gt_part_env. */
const char *gt_companion_describe(void *arg, struct gt_buf *certificate);

/* serve.c: /healthz, /readyz, /metrics, and what the parts serve. */
int gt_companion_serve(struct gt_companion *companion, struct gt_err **err);
