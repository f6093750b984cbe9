/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/digest.h"
#include "topology/probe/answers.h"
#include "topology/probe/answers_internal.h"

static uint64_t mix_number(uint64_t digest, int64_t number)
{
    return gt_digest_bytes(digest, &number, sizeof(number));
}

/* The library may name servers in another order each time. */
static bool is_unordered(const cJSON *value)
{
    return value->string && strcmp(value->string, "remotes") == 0;
}

static uint64_t sum_values(const cJSON *values);

/* The numbers and texts of a value, however deep: it is small, and its depth has been limited by the reader.
 */
static uint64_t mix_value(uint64_t digest, const cJSON *value)
{
    const cJSON *child;
    if (cJSON_IsString(value))
        return gt_digest_bytes(digest, value->valuestring, strlen(value->valuestring) + 1);
    if (cJSON_IsNumber(value))
        return gt_digest_bytes(digest, &value->valuedouble, sizeof(value->valuedouble));
    cJSON_ArrayForEach(child, value) digest =
        is_unordered(child) ? gt_digest_number(digest, sum_values(child)) : mix_value(digest, child);
    return digest;
}

static uint64_t sum_values(const cJSON *values)
{
    const cJSON *value;
    uint64_t sum = 0;
    cJSON_ArrayForEach(value, values) sum += mix_value(GT_DIGEST_EMPTY, value);
    return sum;
}

int gt_answers_digest(const char *log, size_t len, uint64_t *ret, struct gt_err **err)
{
    static const char *const calls[] = {"mxSmlGetDeviceInfo", "mxSmlGetMetaXLinkPortState",
                                        "mxSmlGetMetaXLinkState", "mxSmlGetLocalAndMultipleRemoteUuid",
                                        "mxSmlGetLocalAndRemoteUuid"};
    gt_auto_answers struct gt_answers answers = {0};
    uint64_t digest = GT_DIGEST_EMPTY;
    int r = gt_answers_read(log, len, &answers, err);
    if (r < 0)
        return r;
    for (unsigned i = 0; i < answers.count; i++) {
        const struct gt_answer *answer = &answers.calls[i];
        for (unsigned c = 0; c < GT_COUNT(calls); c++) {
            if (!gt_answer_is(answer, calls[c]))
                continue;
            /* In whatever order they were asked. */
            int64_t device = answer->arg_count ? (int64_t)answer->args[0] : -1;
            digest ^= mix_value(mix_number(mix_number(GT_DIGEST_EMPTY, c), device), answer->value);
        }
    }
    *ret = digest;
    return 0;
}
