/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * A bearer token in a file that somebody else renews. The file is opened by its path at most once a minute,
 * and at once when the server refused the token. If its content is empty, incomplete or not a token, the last
 * valid token stays in use.
 */
struct gt_kube_token;

enum { GT_KUBE_TOKEN_MAX = 64 << 10, GT_KUBE_TOKEN_INTERVAL_MS = 60000 };

/* Reads the file for the first time; an error if that fails. */
int gt_kube_token_new(const char *path, uint64_t now_ms, struct gt_kube_token **ret, struct gt_err **err);

/* The current token, valid until the next call of this function or of gt_kube_token_refresh(). */
const char *gt_kube_token_get(struct gt_kube_token *token, uint64_t now_ms);

/* Call it after a 401: reads the file at once. True if it now has another token. */
bool gt_kube_token_refresh(struct gt_kube_token *token, uint64_t now_ms);

void gt_kube_token_free(struct gt_kube_token *token);
GT_DEFINE_CLEANUP(struct gt_kube_token *, gt_kube_token_free)
#define gt_auto_kube_token GT_CLEANUP(gt_kube_token_free)

/* Whether `text`, read while `old` was in use (NULL: none was), can be a complete token. */
bool gt_kube_token_is_whole(const char *text, const char *old);
