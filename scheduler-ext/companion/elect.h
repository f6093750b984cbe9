/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/names.h"
#include "base/loop.h"
#include "scheduler-ext/companion/leader.h"

/* A leader (leader.h) with the loop's timer, the real clock and a client. */
struct gt_elect;

#define GT_ELECT_LEASE GT_COMPANION_NAME

struct gt_elect_spec {
    const char *namespace_, *identity; /* must outlive it */
    void (*on_lead)(void *arg, bool leads);
    void (*on_released)(void *arg);
    void (*write_note)(void *arg, struct gt_buf *to); /* these three as in struct gt_leader_spec */
    void (*write_last_note)(void *arg, struct gt_buf *to);
    void (*read_note)(void *arg, const char *note);
    void *arg;
};

int gt_elect_new(struct gt_loop *loop, struct gt_kube *kube, const struct gt_elect_spec *spec,
                 struct gt_elect **ret, struct gt_err **err);
/* To be called before the client is freed. */
void gt_elect_free(struct gt_elect *elect);
GT_DEFINE_CLEANUP(struct gt_elect *, gt_elect_free)

void gt_elect_release(struct gt_elect *elect);
bool gt_elect_is_current(const struct gt_elect *elect);
void gt_elect_stats(const struct gt_elect *elect, struct gt_leader_stats *ret);
