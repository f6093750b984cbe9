/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"
#include "base/json_get.h"

struct gt_pair { /* a label or annotation */
    const char *key, *value;
};

/* The metadata of objects of any kind. Texts belong to the object; "" if there is none. */
const char *gt_meta_text(const cJSON *object, const char *key);
#define gt_meta_namespace(object) gt_meta_text((object), "namespace")
#define gt_meta_name(object)      gt_meta_text((object), "name")
#define gt_meta_uid(object)       gt_meta_text((object), "uid")
#define gt_meta_version(object)   gt_meta_text((object), "resourceVersion")
const char *gt_meta_label(const cJSON *object, const char *key);

/* Whether it is being deleted. */
bool gt_meta_is_deleting(const cJSON *object);

/* Whether the companion manages it, by GT_LABEL_MANAGED_BY. */
bool gt_meta_is_companions(const cJSON *object);

/* Whether a field manager has applied a part of it. */
bool gt_meta_is_applied_by(const cJSON *object, const char *manager);
/* The same for other requests than applies. */
bool gt_meta_is_updated_by(const cJSON *object, const char *manager);

/* Shared by the readers of objects. */
enum {
    GT_API_NAME_MAX = 253, /* bytes of the name of an object */
    GT_API_TEXT_MAX = 256, /* of other texts */
};

/* A text of at most `max` bytes, printable UTF-8, which belongs to the object; *ret stays unchanged if the
 * member is missing. */
int gt_api_text(const struct gt_at *at, const cJSON *object, const char *key, size_t max, const char **ret);

/* metadata.name, which must exist, and metadata.resourceVersion, "" if it is missing (ret_version NULL: it is
 * not read). -EINVAL otherwise. */
int gt_api_meta(const struct gt_at *at, const cJSON *object, const char **ret_name, const char **ret_version);

/* Request bodies to delete objects and evict pods. The API server refuses them if the object has another uid
 * or version. */

/* Appends DeleteOptions of v1. `version` NULL: any. */
void gt_delete_options_write(const char *uid, const char *version, struct gt_buf *to);

/* Appends an Eviction of policy/v1. */
void gt_eviction_write(const char *namespace_, const char *pod, const char *uid, struct gt_buf *to);
