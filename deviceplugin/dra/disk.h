/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "deviceplugin/dra/store.h"

/*
 * The thread that does the driver's work on the disk: the store of prepared claims and their CDI specs. A
 * slow disk, or another process that holds the store's lock, makes claims wait, but not the event loop. All
 * changes that wait when a write begins are written together. Functions and callbacks are for the loop's
 * thread.
 */
struct gt_dra_disk;

enum { GT_DRA_LOCK_MS = 30000 }; /* how long a change waits for the store's lock; the kubelet waits 45 s */

/* A change of one claim. It belongs to the disk until its callback. */
struct gt_dra_change {
    enum { GT_DRA_HOLD, GT_DRA_RELEASE } kind;
    /* GT_DRA_HOLD: with its devices, expanded; without devices it is only looked up. GT_DRA_RELEASE: only the
     * UID is used. */
    struct gt_dra_claim claim;

    /* The result, and then the disk's own. */
    bool found;         /* it was prepared before */
    struct gt_err *err; /* owned by the receiver; as code -EAGAIN: a device has another holder now, -ENOENT:
                           it was only looked up, and is not there */
    bool applied;
    uint64_t since_ms;
    struct gt_dra_change *next;
};

enum gt_dra_disk_task {
    GT_DRA_READ = 1,   /* what another process has written; part of every other task and change */
    GT_DRA_SPECS = 2,  /* write CDI specs that are not up to date */
    GT_DRA_MARK = 4,   /* create the store's file if it does not exist */
    GT_DRA_UNMARK = 8, /* remove it if it has no claims */
};

struct gt_dra_disk_events {
    void (*changed)(void *arg);                     /* gt_dra_disk_claims() has changed */
    void (*state_lost)(void *arg, const char *why); /* the file was put aside (store.h) */
    void (*specs)(void *arg, const char *error);    /* GT_DRA_SPECS was done; NULL: each claim has its spec */
    void (*done)(void *arg, struct gt_dra_change *change); /* written durably, or refused */
    /* After all of those: these tasks were done. `error`: why the store could not be read or created. */
    void (*passed)(void *arg, unsigned tasks, const char *error);
    void *arg;
};

/* Reads the claims once before it returns, so that none is unknown. `cdi` is borrowed. */
int gt_dra_disk_new(struct gt_loop *loop, const char *dir, const struct gt_dra_cdi_options *cdi,
                    const struct gt_dra_disk_events *events, struct gt_dra_disk **ret, struct gt_err **err);
/* Waits for a write that has begun. Changes that wait are given up without a callback. */
void gt_dra_disk_free(struct gt_dra_disk *disk);
GT_DEFINE_CLEANUP(struct gt_dra_disk *, gt_dra_disk_free)
#define gt_auto_dra_disk GT_CLEANUP(gt_dra_disk_free)

/* The claims as last read or written; valid until the callback of the loop returns. */
const struct gt_dra_claims *gt_dra_disk_claims(const struct gt_dra_disk *disk);
/* Sets the inventory that specs are made from (takes its own reference). None may be held before. */
void gt_dra_disk_inventory(struct gt_dra_disk *disk, const struct gt_inventory *inventory);
/* Asks for tasks, as a mask. */
void gt_dra_disk_ask(struct gt_dra_disk *disk, unsigned tasks);
/* Changes are applied in the order in which they came. */
void gt_dra_disk_change(struct gt_dra_disk *disk, struct gt_dra_change *change);
