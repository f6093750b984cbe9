/* SPDX-License-Identifier: Apache-2.0 */
#include "api/kinds/indices.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/text.h"

const char *gt_pod_key_value(const struct gt_pod_meta *pod, enum gt_pod_key key)
{
    const char *value = gt_pod_label(pod, key);
    return value ? value : gt_pod_annotation(pod, key);
}

int gt_index_read(const struct gt_pod_meta *pod, enum gt_pod_key key, const char *text,
                  struct gt_pod_identity *ret, struct gt_err **err)
{
    uint64_t number;
    if (!gt_text_to_unsigned(text, GT_OWNER_REPLICAS_MAX - 1, &number))
        return gt_fail(err, EINVAL, "pod %s/%s: %s is \"%.60s\", expected a number from 0 to %d",
                       pod->namespace_, pod->name, gt_pod_key_text(key), text, GT_OWNER_REPLICAS_MAX - 1);
    ret->has_index = true;
    ret->index = (uint32_t)number;
    return 1;
}

int gt_index_missing(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_err **err)
{
    return gt_fail(err, EINVAL, "pod %s/%s: %s is missing, its rank is not known", pod->namespace_, pod->name,
                   gt_pod_key_text(key));
}

bool gt_index_of_name(const struct gt_pod_meta *pod, const char *before, struct gt_pod_identity *ret)
{
    size_t len = strlen(before);
    if (strncmp(pod->name, before, len) != 0 || pod->name[len] != '-')
        return false;
    return gt_index_read(pod, GT_KEY_GROUP, pod->name + len + 1, ret, NULL) > 0;
}

bool gt_pod_is_owned_by(const struct gt_pod_meta *pod, const char *kind)
{
    return pod->owner_kind && strcmp(pod->owner_kind, kind) == 0;
}
