/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/event.h"
#include "kube/client.h"

/*
 * Writes Events (events.k8s.io/v1) for human readers: nothing waits for them, and failures are only counted.
 * Limits: the same event about the same object once in ten minutes; events with one reason about one object
 * 25 times at once, then once in five minutes; all events together `per_minute` times at once, then as many
 * in a minute. At most 8 are being written; the others wait.
 */
struct gt_kube_recorder;

struct gt_kube_recorder_counters {
    uint64_t written, failed, repeated, dropped; /* dropped: because of a limit, or without memory */
};

/* `controller`: "metax-tech.com/gputopo-agent"; `instance`: the name of its pod or node. */
int gt_kube_recorder_new(struct gt_kube *kube, const char *controller, const char *instance,
                         unsigned per_minute, struct gt_kube_recorder **ret, struct gt_err **err);
void gt_kube_record(struct gt_kube_recorder *recorder, const struct gt_event_object *event);
/*
 * The last of them for people who look at this process, also those that a limit kept from the API server.
 * gt_kube_recorder_note() only adds one here. gt_kube_recorder_kept() appends those behind number `after` as
 * JSON objects, oldest first (`namespace_` not NULL: only of objects there); what an event says of a pod and
 * of its owner is there once, for the owner. Returns the number of the last one, from 1 up; 0: there was
 * none.
 */
enum { GT_EVENTS_KEPT = 200 }; /* of Nodes, and as many of others */
void gt_kube_recorder_note(struct gt_kube_recorder *recorder, const struct gt_event_object *event);
uint64_t gt_kube_recorder_kept(const struct gt_kube_recorder *recorder, uint64_t after,
                               const char *namespace_, struct gt_buf *to);
void gt_kube_recorder_counters(const struct gt_kube_recorder *recorder,
                               struct gt_kube_recorder_counters *ret);
void gt_kube_recorder_metrics(const struct gt_kube_recorder_counters *counters, struct gt_buf *to);

/* Call it before the client is freed. */
void gt_kube_recorder_free(struct gt_kube_recorder *recorder);
GT_DEFINE_CLEANUP(struct gt_kube_recorder *, gt_kube_recorder_free)
