/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DRA_STORE_H
#define GPUTOPO_DEVICEPLUGIN_DRA_STORE_H

#include "deviceplugin/dra/claims.h"

/*
 * The prepared claims on disk, <dir>/claims.json, so that they outlive restarts of this program and of the
 * machine. Two programs may share it, as in a rolling update: whoever changes it holds a lock, and reads it
 * before where the other has written. By one thread.
 */
struct gt_dra_store;

/* Makes the directory (not its parents) when it is written for the first time. Reads nothing yet. */
int gt_dra_store_new(const char *dir, struct gt_dra_store **ret, struct gt_err **err);
void gt_dra_store_free(struct gt_dra_store *store);
GT_DEFINE_CLEANUP(struct gt_dra_store *, gt_dra_store_free)
#define gt_auto_dra_store GT_CLEANUP(gt_dra_store_free)

/* What is known now; valid until the next call. */
const struct gt_dra_claims *gt_dra_store_claims(const struct gt_dra_store *store);

/*
 * Reads what another program has written since. *ret_changed (may be NULL): the claims are others now. A file
 * that is none is put aside as claims.json.unreadable, and the claims are those that were known; *ret_why
 * (may be NULL) is then the reason, which the caller frees. One of a newer release is -EPROTONOSUPPORT and
 * stays.
 */
int gt_dra_store_read(struct gt_dra_store *store, bool *ret_changed, char **ret_why, struct gt_err **err);

/* Adds or removes one claim, on disk and here, or does neither. -EBUSY where the claim's device got another
 * holder meanwhile, -EEXIST where the UID is there. Removing one that is not there is no error. */
int gt_dra_store_add(struct gt_dra_store *store, const struct gt_dra_claim *claim, struct gt_err **err);
int gt_dra_store_remove(struct gt_dra_store *store, const char *uid, struct gt_err **err);

/* Makes the file where it is not there, so that somebody else knows that claims were served here. */
int gt_dra_store_mark(struct gt_dra_store *store, struct gt_err **err);
/* Removes it where it has no claims. */
void gt_dra_store_unmark(struct gt_dra_store *store);
/* Whether it is there. */
bool gt_dra_store_is_used(const char *dir);

#endif
