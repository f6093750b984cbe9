/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DRA_STORE_H
#define GPUTOPO_DEVICEPLUGIN_DRA_STORE_H

#include "deviceplugin/dra/claims.h"

/*
 * The prepared claims on disk, <dir>/claims.json, so that they outlive restarts of this program and of the
 * machine. Two programs may share it, as in a rolling update: a program that changes the file holds a lock,
 * and first reads what the other has written. For use by one thread.
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

/* Adds or removes one claim, both on disk and in memory; on failure in neither. -EBUSY if a device of the
 * claim now has another holder, -EEXIST if the UID is there already. Removing a claim that does not exist is
 * no error. */
int gt_dra_store_add(struct gt_dra_store *store, const struct gt_dra_claim *claim, struct gt_err **err);
int gt_dra_store_remove(struct gt_dra_store *store, const char *uid, struct gt_err **err);

/* Creates the file if it does not exist, as a sign that claims were served here. */
int gt_dra_store_mark(struct gt_dra_store *store, struct gt_err **err);
/* Removes the file if it has no claims. */
void gt_dra_store_unmark(struct gt_dra_store *store);
/* Whether the file exists. */
bool gt_dra_store_is_used(const char *dir);

#endif
