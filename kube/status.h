/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/err.h"

/*
 * Makes an error from an answer that is not 2xx: "403 Forbidden: nodes is forbidden: ...". `status` is the
 * answer's object of kind Status, or NULL. Its code: 401 EPERM, 403 EACCES, 404 ENOENT, 409 EEXIST (reason
 * AlreadyExists) or EBUSY, 410 ESTALE, 429 EAGAIN, other 4xx EINVAL, else EIO.
 */
int gt_kube_fail(struct gt_err **err, unsigned code, const cJSON *status);

/* Whether an apply was refused because another manager owns one of its fields. */
bool gt_kube_is_field_conflict(const cJSON *status);

/* Whether its message or one of its causes names this annotation or label. */
bool gt_kube_is_about(const cJSON *status, const char *key);

/* Whether another try may help: 429, 500, 502, 503, 504. */
bool gt_kube_is_passing(unsigned code);
