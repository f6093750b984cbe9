/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
#include "base/loop.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "deviceplugin/dra/claims.h"

/*
 * The prepared claims on disk, <dir>/claims.json, so that they outlive restarts of this program and of the
 * machine. Two programs may share it, as in a rolling update: a program that changes the file holds a lock,
 * and first reads what the other has written. All functions may take as long as the disk does. For use by one
 * thread at a time.
 */
struct gt_dra_store;

/* Makes the directory (not its parents) when it is written for the first time. Reads nothing yet. */
int gt_dra_store_new(const char *dir, struct gt_dra_store **ret, struct gt_err **err);
void gt_dra_store_free(struct gt_dra_store *store);
GT_DEFINE_CLEANUP(struct gt_dra_store *, gt_dra_store_free)
#define gt_auto_dra_store GT_CLEANUP(gt_dra_store_free)

/* The claims as last read or written; valid until the next call. */
const struct gt_dra_claims *gt_dra_store_claims(const struct gt_dra_store *store);

/*
 * Reads what another program has written since. *ret_changed (ret_changed may be NULL): the claims have
 * changed. An invalid file is renamed to claims.json.unreadable, and the claims stay as they were known;
 * *ret_why (ret_why may be NULL) is then the reason, which the caller frees. A file of a newer release is
 * -EPROTONOSUPPORT and stays.
 */
int gt_dra_store_read(struct gt_dra_store *store, bool *ret_changed, char **ret_why, struct gt_err **err);

/* Takes the lock, without waiting: -EBUSY while another program has it. Returns a descriptor: closing it
 * ends the lock. */
int gt_dra_store_lock(struct gt_dra_store *store, struct gt_err **err);

/* The rest only with the lock, after reading. */

/* Replaces the claims, on disk and in memory, and takes what they own; on failure neither changes. */
int gt_dra_store_write(struct gt_dra_store *store, struct gt_dra_claims *claims, struct gt_err **err);
/* Removes temporary files of programs that were killed while they wrote. */
void gt_dra_store_sweep(struct gt_dra_store *store);
/* Removes the file if it has no claims. */
void gt_dra_store_unmark(struct gt_dra_store *store);

/* Whether the file exists, a sign that claims were served here. Without the lock. */
bool gt_dra_store_is_there(const struct gt_dra_store *store);
bool gt_dra_store_is_used(const char *dir);

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
    enum { GT_DRA_RECORD, GT_DRA_RELEASE } kind;
    /* GT_DRA_RECORD: with its devices, expanded; without devices it is only looked up. GT_DRA_RELEASE: only
     * the UID is used. */
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
    /* These are the driver's own (driver.h). */
    void (*changed)(void *told);                     /* gt_dra_disk_claims() has changed */
    void (*state_lost)(void *told, const char *why); /* the file was put aside (store.h) */
    void (*specs)(void *told, const char *error); /* GT_DRA_SPECS was done; NULL: each claim has its spec */
    void *told;

    void (*done)(void *arg, struct gt_dra_change *change); /* written durably, or refused */
    /* After all of those: these tasks were done. `error`: why the store could not be read or created. */
    void (*passed)(void *arg, unsigned tasks, const char *error);
    void *arg;
};

/* Reads the claims once before it returns, so that none is unknown. `cdi` is borrowed. */
int gt_dra_disk_new(struct gt_loop *loop, const char *dir, const struct gt_cdi_options *cdi,
                    const struct gt_dra_disk_events *events, struct gt_dra_disk **ret, struct gt_err **err);
/* Waits for a write that has begun. Changes that wait are given up without a callback. */
void gt_dra_disk_free(struct gt_dra_disk *disk);
GT_DEFINE_CLEANUP(struct gt_dra_disk *, gt_dra_disk_free)

/* The claims as last read or written; valid until the callback of the loop returns. */
const struct gt_dra_claims *gt_dra_disk_claims(const struct gt_dra_disk *disk);
/* Sets the inventory that specs are made from (takes its own reference). None may be held before. */
void gt_dra_disk_inventory(struct gt_dra_disk *disk, const struct gt_inventory *inventory);
/* Asks for tasks, as a mask. */
void gt_dra_disk_ask(struct gt_dra_disk *disk, unsigned tasks);
/* Changes are applied in the order in which they came. */
void gt_dra_disk_change(struct gt_dra_disk *disk, struct gt_dra_change *change);
