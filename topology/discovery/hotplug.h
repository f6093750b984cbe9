/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DISCOVERY_HOTPLUG_H
#define GPUTOPO_DISCOVERY_HOTPLUG_H

#include "base/err.h"

/*
 * PCI and DRM hotplug through libudev. Listens to the kernel's own uevents, since udevd's do not cross into a
 * pod's network namespace.
 */
struct gt_hotplug;

int gt_hotplug_new(struct gt_hotplug **ret, struct gt_err **err);
void gt_hotplug_free(struct gt_hotplug *hotplug);
GT_DEFINE_CLEANUP(struct gt_hotplug *, gt_hotplug_free)

/* Readable when an event waits; owned by the monitor. */
int gt_hotplug_fd(const struct gt_hotplug *hotplug);

/* Takes all waiting events (at most 1,024 at once). Returns how many concern PCI devices of `vendor` (0:
 * 0x9999, MetaX), network or InfiniBand devices, that is, call for a rescan. An overrun of the socket counts
 * as one. */
unsigned gt_hotplug_drain(struct gt_hotplug *hotplug, unsigned vendor);

#endif
