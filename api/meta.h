/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_META_H
#define GPUTOPO_API_META_H

#include <cjson/cJSON.h>
#include <stdbool.h>

/* The metadata of objects of any kind. Texts belong to the object; "" if there is none. */
const char *gt_meta_namespace(const cJSON *object);
const char *gt_meta_name(const cJSON *object);
const char *gt_meta_uid(const cJSON *object);
const char *gt_meta_version(const cJSON *object); /* resourceVersion */

/* Whether it is being deleted. */
bool gt_meta_is_deleting(const cJSON *object);

/* Whether the companion manages it, by GT_LABEL_MANAGED_BY. */
bool gt_meta_is_companions(const cJSON *object);

/* Whether a field manager has applied a part of it. */
bool gt_meta_is_applied_by(const cJSON *object, const char *manager);

#endif
