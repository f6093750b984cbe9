/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_READ_H
#define GPUTOPO_API_READ_H

#include "base/json_get.h"

/* Shared by the readers of objects. */
enum {
    GT_API_NAME_MAX = 253, /* bytes of the name of an object */
    GT_API_TEXT_MAX = 256, /* of other texts */
};

/* A text of at most `max` bytes, printable UTF-8, which belongs to the object; *ret stays unchanged if the
 * member is missing. */
int gt_api_text(const struct gt_at *at, const cJSON *object, const char *key, size_t max, const char **ret);

/* metadata.name, which must exist, and metadata.resourceVersion, "" if it is missing. -EINVAL otherwise. */
int gt_api_meta(const struct gt_at *at, const cJSON *object, const char **ret_name, const char **ret_version);

#endif
