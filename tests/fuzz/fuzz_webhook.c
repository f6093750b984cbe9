/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "kube/base64.h"
#include "scheduler-ext/webhook/webhook.h"
#include "tests/fuzz/fuzz.h"

/*
 * An AdmissionReview, asked of both questions; a StatefulSet and a PyTorchJob with groups are known, as is a
 * pod. An answer is a review with the uid of the request, and its patch a list of operations.
 */
static const char resource[] = "metax-tech.com/gpu";
#define POD_SPEC                                                                                             \
    "\"spec\":{\"containers\":[{\"name\":\"m\",\"resources\":{\"limits\":{\"metax-tech.com/gpu\":\"8\"}}}]}"
#define TEMPLATE "{\"metadata\":{\"annotations\":{\"metax-tech.com/gpu-group-size\":\"16\"}}," POD_SPEC "}"

static const struct {
    enum gt_job_kind kind;
    const char *object;
} known[] = {
    {GT_JOB_STATEFULSET, "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"set\"},\"spec\":{\"replicas\":4,"
                         "\"podManagementPolicy\":\"Parallel\",\"template\":" TEMPLATE "}}"},
    {GT_JOB_PYTORCH,
     "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"job\"},\"spec\":{\"pytorchReplicaSpecs\":{"
     "\"Master\":{\"template\":" TEMPLATE "},\"Worker\":{\"replicas\":3,\"template\":"
     "{" POD_SPEC "}}}}}"},
};

static void check_patch(const cJSON *answer)
{
    gt_auto_buf struct gt_buf text = GT_BUF(2 << 20);
    if (gt_base64_decode(cJSON_GetStringValue(answer), &text, NULL) < 0)
        abort();
    cJSON *patch = cJSON_ParseWithLength(text.data, text.len);
    const cJSON *step;
    if (!cJSON_IsArray(patch) || !cJSON_GetArraySize(patch))
        abort();
    cJSON_ArrayForEach(step, patch)
    {
        const char *path = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(step, "path"));
        if (!cJSON_IsString(cJSON_GetObjectItemCaseSensitive(step, "op")) || !path || path[0] != '/')
            abort();
    }
    cJSON_Delete(patch);
}

static void check_answer(const struct gt_buf *to, const char *body, size_t len)
{
    cJSON *review = cJSON_ParseWithLength(body, len), *answer = cJSON_ParseWithLength(to->data, to->len);
    const cJSON *request = cJSON_GetObjectItemCaseSensitive(review, "request"),
                *response = cJSON_GetObjectItemCaseSensitive(answer, "response"),
                *uid = cJSON_GetObjectItemCaseSensitive(response, "uid"),
                *allowed = cJSON_GetObjectItemCaseSensitive(response, "allowed"),
                *patch = cJSON_GetObjectItemCaseSensitive(response, "patch");
    if (!answer || !cJSON_IsString(uid) ||
        !cJSON_IsString(cJSON_GetObjectItemCaseSensitive(request, "uid")) || !cJSON_IsBool(allowed) ||
        (patch && !cJSON_IsTrue(allowed)))
        abort();
    if (patch)
        check_patch(patch);
    cJSON_Delete(review);
    cJSON_Delete(answer);
}

typedef int asked(const struct gt_webhook *webhook, const char *body, size_t len, struct gt_buf *answer,
                  struct gt_err **err);

static void ask(asked *what, const struct gt_webhook *webhook, const char *body, size_t len)
{
    gt_auto_buf struct gt_buf answer = GT_BUF(4 << 20);
    gt_auto_err struct gt_err *err = NULL;
    int r = what(webhook, body, len, &answer, &err);
    if ((r < 0) != (err != NULL))
        abort();
    if (r >= 0)
        check_answer(&answer, body, len);
}

static void hand_pod(struct gt_cache *cache, const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_cache_pod(cache, &pod);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1],
        pod[] = "{\"metadata\":{\"namespace\":\"ns\",\"name\":\"set-0\",\"uid\":\"u\"}," POD_SPEC "}";
    static struct gt_owners *owners;
    static struct gt_cache *cache;
    const struct gt_cache_spec spec = {.stale_ms = 1000};
    if (!owners) { /* the questions change nothing: made once */
        if (gt_owners_new(resource, &owners, NULL) < 0 || gt_cache_new(&spec, &cache, NULL) < 0)
            abort();
        for (unsigned i = 0; i < GT_COUNT(known); i++) {
            cJSON *object = cJSON_Parse(known[i].object);
            gt_owners_put(owners, known[i].kind, object);
            cJSON_Delete(object);
        }
        cJSON *object = cJSON_Parse(pod);
        hand_pod(cache, object);
        cJSON_Delete(object);
    }
    const struct gt_webhook webhook = {.resource = resource, .owners = owners, .cache = cache};
    const char *body = size ? (const char *)data : nothing;
    ask(gt_webhook_mutate, &webhook, body, size);
    ask(gt_webhook_validate, &webhook, body, size);
    return 0;
}
