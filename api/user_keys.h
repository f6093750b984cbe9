/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

/*
 * Warnings about annotations of ours that do nothing as they are: a key that is nearly one of ours, a label
 * in place of an annotation, or one that stands where it is not read. The API server shows them to the
 * client.
 */
enum {
    GT_KEY_WARNINGS_MAX = 5,   /* of one object; further ones are left out */
    GT_KEY_WARNING_SIZE = 256, /* the API server cuts longer ones */
};

struct gt_key_warnings {
    unsigned count;
    char texts[GT_KEY_WARNINGS_MAX][GT_KEY_WARNING_SIZE];
};

/* Each text once. */
void gt_key_warnings_add(struct gt_key_warnings *warnings, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Checks the keys of an object and of all pod templates in it. */
void gt_user_keys_check(const cJSON *object, struct gt_key_warnings *to);

/* A key that users write for jobs, as an annotation of its own metadata or of a pod template's; NULL: it has
 * none. */
const char *gt_user_keys_any(const cJSON *object);
