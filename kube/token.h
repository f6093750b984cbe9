/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_KUBE_TOKEN_H
#define GPUTOPO_KUBE_TOKEN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A bearer token in a file that somebody else renews. The file is opened by its path at most once a minute,
 * and at once when the server refused the token. What is empty, cut off or no token at all is passed over:
 * the last good one stays in use.
 */
struct gt_kube_token;

enum { GT_KUBE_TOKEN_MAX = 64 << 10, GT_KUBE_TOKEN_INTERVAL_MS = 60000 };

/* Reads the file for the first time: that must succeed. */
int gt_kube_token_new(const char *path, uint64_t now_ms, struct gt_kube_token **ret, struct gt_err **err);

/* The token to use now, good until the next call of this kind. */
const char *gt_kube_token_get(struct gt_kube_token *token, uint64_t now_ms);

/* After a 401: reads the file whatever its age. True where it holds another token now. */
bool gt_kube_token_refresh(struct gt_kube_token *token, uint64_t now_ms);

void gt_kube_token_free(struct gt_kube_token *token);
GT_DEFINE_CLEANUP(struct gt_kube_token *, gt_kube_token_free)
#define gt_auto_kube_token GT_CLEANUP(gt_kube_token_free)

/* Whether `text`, read while `old` was in use (NULL: none was), can be a whole token. */
bool gt_kube_token_is_whole(const char *text, const char *old);

#endif
