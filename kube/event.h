/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_EVENT_H
#define GPUTOPO_KUBE_EVENT_H

#include "api/event.h"
#include "kube/client.h"

/*
 * Writes Events (events.k8s.io/v1), as a courtesy to people: nothing waits for them, what fails is counted
 * and forgotten. The same event about the same object is written once in ten minutes; events with one reason
 * about one object 25 times at once and then once in five minutes; all together `per_minute` times at once
 * and as often in a minute. 8 are on their way at most, the others wait.
 */
struct gt_kube_recorder;

struct gt_kube_recorder_counters {
    uint64_t written, failed, repeated, dropped; /* dropped: for a limit, or without memory */
};

/* `controller`: "metax-tech.com/gputopo-agent"; `instance`: who of them, the pod's or node's name. */
int gt_kube_recorder_new(struct gt_kube *kube, const char *controller, const char *instance,
                         unsigned per_minute, struct gt_kube_recorder **ret, struct gt_err **err);
void gt_kube_record(struct gt_kube_recorder *recorder, const struct gt_event_object *event);
void gt_kube_recorder_counters(const struct gt_kube_recorder *recorder,
                               struct gt_kube_recorder_counters *ret);

/* Before the client. */
void gt_kube_recorder_free(struct gt_kube_recorder *recorder);
GT_DEFINE_CLEANUP(struct gt_kube_recorder *, gt_kube_recorder_free)
#define gt_auto_kube_recorder GT_CLEANUP(gt_kube_recorder_free)

#endif
