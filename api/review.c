/* SPDX-License-Identifier: Apache-2.0 */
#include "api/review.h"

#include "base/json_get.h"
#include "base/json_write.h"

void gt_token_review_write(struct gt_buf *to, const char *token)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "authentication.k8s.io/v1");
    gt_json_add_text(to, "kind", "TokenReview");
    gt_json_begin(to, "spec", '{');
    gt_json_add_text(to, "token", token);
    gt_json_ends(to, "}}");
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
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", "authorization.k8s.io/v1");
    gt_json_add_text(to, "kind", "SubjectAccessReview");
    gt_json_begin(to, "spec", '{');
    gt_json_add_text(to, "user", gt_get_string(user, "username"));
    gt_json_add_text(to, "uid", gt_get_string(user, "uid"));
    gt_json_begin(to, "groups", '[');
    cJSON_ArrayForEach(group, gt_get(user, "groups")) if (cJSON_IsString(group))
        gt_json_add_text(to, NULL, group->valuestring);
    gt_json_end(to, ']');
    char *printed = extra ? cJSON_PrintUnformatted(extra) : NULL;
    if (printed)
        gt_json_add_raw(to, "extra", printed);
    cJSON_free(printed);
    to->failed = to->failed || (extra && !printed); /* without his limits he could be given more */
    gt_json_begin(to, "resourceAttributes", '{');
    gt_json_add_text(to, "verb", "list");
    gt_json_add_text(to, "resource", resource);
    gt_json_add_text_if(to, "namespace", namespace_);
    gt_json_ends(to, "}}}");
}

bool gt_access_review_read(const cJSON *answer)
{
    const cJSON *status = gt_get(answer, "status");
    return cJSON_IsTrue(gt_get(status, "allowed")) && !cJSON_IsTrue(gt_get(status, "denied"));
}
