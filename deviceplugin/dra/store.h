/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
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
