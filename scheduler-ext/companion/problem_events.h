/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/event.h"

/*
 * Reports each problem once: in each round all present problems are added; those that the last round did not
 * have are logged and become Events about their object.
 */
struct gt_problem_events;

enum { GT_PROBLEM_EVENTS_MAX = 1 << 13 }; /* of a round; more are counted only */

int gt_problem_events_new(struct gt_kube_recorder *recorder, struct gt_problem_events **ret,
                          struct gt_err **err);
void gt_problem_events_free(struct gt_problem_events *events);
GT_DEFINE_CLEANUP(struct gt_problem_events *, gt_problem_events_free)

void gt_problem_events_begin(struct gt_problem_events *events);
/* `event` may be without a name: then it is only logged. */
void gt_problem_events_add(struct gt_problem_events *events, const struct gt_event_object *event);
void gt_problem_events_end(struct gt_problem_events *events);
/* Forgets what was reported: a new leader reports everything. */
void gt_problem_events_forget(struct gt_problem_events *events);
