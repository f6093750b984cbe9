/* SPDX-License-Identifier: Apache-2.0 */
#include "api/review.h"

#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"

void gt_token_review_write(struct gt_buf *to, const char *token)
{
    gt_json_printf(to,
                   "{'apiVersion': 'authentication.k8s.io/v1', 'kind': 'TokenReview', 'spec': {'token': %s}}",
                   token);
}

cJSON *gt_token_review_read(cJSON *answer)
{
    cJSON *status = cJSON_GetObjectItemCaseSensitive(answer, "status");
    const cJSON *user = gt_get(status, "user");
    if (!cJSON_IsTrue(gt_get(status, "authenticated")) || !*gt_get_string(user, "username"))
        return NULL;
    return cJSON_DetachItemFromObjectCaseSensitive(status, "user");
}

/* His groups and the rest go on as they came; a review calls him "user", not "username". */
void gt_access_review_write(struct gt_buf *to, const cJSON *user, const char *resource,
                            const char *namespace_)
{
    const cJSON *group, *extra = gt_get(user, "extra");
    gt_json_printf(to,
                   "{'apiVersion': 'authorization.k8s.io/v1', 'kind': 'SubjectAccessReview',"
                   "'spec': {'user': %s, 'uid': %s, 'groups': [",
                   gt_get_string(user, "username"), gt_get_string(user, "uid"));
    cJSON_ArrayForEach(group, gt_get(user, "groups")) if (cJSON_IsString(group))
        gt_json_add_text(to, NULL, group->valuestring);
    gt_json_end(to, ']');
    if (extra)
        gt_json_add_tree(to, "extra", extra);
    gt_json_printf(to, "'resourceAttributes': {'verb': 'list', 'resource': %s, ?'namespace': %s}}}", resource,
                   namespace_);
}

bool gt_access_review_read(const cJSON *answer)
{
    const cJSON *status = gt_get(answer, "status");
    return cJSON_IsTrue(gt_get(status, "allowed")) && !cJSON_IsTrue(gt_get(status, "denied"));
}
