/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/status.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

#include "base/json_get.h"

enum { REASON_SHOWN = 64, MESSAGE_SHOWN = 512 };

static const char *reason_of(const cJSON *status)
{
    return gt_get_string(status, "reason");
}

bool gt_kube_is_field_conflict(const cJSON *status)
{
    for (const cJSON *cause = gt_first(gt_get_at(status, "details", "causes")); cause; cause = cause->next) {
        if (strcmp(reason_of(cause), "FieldManagerConflict") == 0)
            return true;
    }
    return strstr(gt_get_string(status, "message"), "conflict with ") != NULL;
}

/* A key ends where its text does, or before a character that cannot be part of it. */
static bool names(const char *text, const char *key)
{
    const char *at = strstr(text, key);
    char after = at ? at[strlen(key)] : 'x';
    return !isalnum((unsigned char)after) && after != '-' && after != '_';
}

bool gt_kube_is_about(const cJSON *status, const char *key)
{
    for (const cJSON *cause = gt_first(gt_get_at(status, "details", "causes")); cause; cause = cause->next) {
        if (names(gt_get_string(cause, "field"), key))
            return true;
    }
    return names(gt_get_string(status, "message"), key);
}

bool gt_kube_is_passing(unsigned code)
{
    return code == 429 || code == 500 || code == 502 || code == 503 || code == 504;
}

static int errno_of(unsigned code, const cJSON *status)
{
    switch (code) {
    case 401:
        return EPERM;
    case 403:
        return EACCES;
    case 404:
        return ENOENT;
    case 409:
        return strcmp(reason_of(status), "AlreadyExists") == 0 ? EEXIST : EBUSY;
    case 410:
        return ESTALE;
    case 429:
        return EAGAIN;
    default:
        return code >= 400 && code < 500 ? EINVAL : EIO;
    }
}

int gt_kube_fail(struct gt_err **err, unsigned code, const cJSON *status)
{
    const char *reason = reason_of(status), *message = gt_get_string(status, "message");
    return gt_fail(err, errno_of(code, status), "%u%s%.*s%s%.*s", code, *reason ? " " : "", REASON_SHOWN,
                   reason, *message ? ": " : "", MESSAGE_SHOWN, message);
}
