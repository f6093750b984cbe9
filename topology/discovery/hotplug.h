/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"

struct gt_err;

/*
 * PCI and DRM hotplug through libudev. It receives the kernel's own uevents, since those of udevd do not
 * reach a pod's network namespace.
 */
struct gt_hotplug;

int gt_hotplug_new(struct gt_hotplug **ret, struct gt_err **err);
void gt_hotplug_free(struct gt_hotplug *hotplug);
GT_DEFINE_CLEANUP(struct gt_hotplug *, gt_hotplug_free)

/* Readable when an event waits; the descriptor belongs to `hotplug`. */
int gt_hotplug_fd(const struct gt_hotplug *hotplug);

/* Reads all waiting events (at most 1,024 at once). Returns how many need a rescan: those of PCI devices of
 * `vendor` (0: 0x9999, MetaX), of network and of InfiniBand devices. If the socket has overflowed, that
 * counts as one. */
unsigned gt_hotplug_drain(struct gt_hotplug *hotplug, unsigned vendor);
