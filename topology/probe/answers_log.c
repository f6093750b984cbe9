/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/digest.h"
#include "base/err.h"
#include "base/json_get.h"
#include "topology/probe/answers.h"
#include "topology/probe/answers_internal.h"
#include "topology/probe/protocol.h"

enum { LOGGED_CALLS_MAX = 32768 };

bool gt_value_text(const cJSON *item, char *to, size_t size)
{
    if (!cJSON_IsString(item))
        return false;
    const char *text = item->valuestring;
    text += strspn(text, " ");
    size_t len = strlen(text);
    while (len && text[len - 1] == ' ')
        len--;
    if (!len || len >= size)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] < 0x20 || text[i] > 0x7e)
            return false;
    memcpy(to, text, len);
    to[len] = '\0';
    return true;
}

static bool read_call(const cJSON *entry, struct gt_answer *to)
{
    const cJSON *call = gt_get(entry, "call"), *args = gt_get(entry, "args"), *arg;
    const cJSON *error = gt_get(entry, "error"), *bad = gt_get(entry, "bad");
    struct gt_answer answer = {.code = -1};
    if (!cJSON_IsString(call) || !cJSON_IsArray(args))
        return false;
    answer.call = call->valuestring;
    cJSON_ArrayForEach(arg, args)
    {
        uint64_t value;
        if (answer.arg_count == GT_ANSWER_ARGS_MAX || !gt_json_is_unsigned(arg, UINT32_MAX, &value))
            return false;
        answer.args[answer.arg_count++] = (unsigned)value;
    }
    uint64_t code;
    if (cJSON_IsString(error))
        answer.why = error->valuestring;
    else if (!gt_json_is_unsigned(gt_get(entry, "rc"), UINT32_MAX, &code))
        return false;
    else
        answer.code = (long)code;
    if (!answer.why && cJSON_IsString(bad))
        answer.why = bad->valuestring;
    if (!answer.why && answer.code == 0)
        /* A null stays a value: the call was answered, with a text that has no end. */
        answer.value = cJSON_GetObjectItemCaseSensitive(entry, "value");
    *to = answer;
    return true;
}

int gt_answers_read(const char *log, size_t len, struct gt_answers *ret, struct gt_err **err)
{
    if (len > GT_PROBE_DOCUMENT_MAX)
        return gt_fail(err, EINVAL, "vendor call log: larger than %d bytes", GT_PROBE_DOCUMENT_MAX);
    gt_auto_answers struct gt_answers answers = {.json = cJSON_ParseWithLength(log, len)};
    const cJSON *calls = gt_get(answers.json, "calls"), *entry;
    const cJSON *library = gt_get(answers.json, "library");
    uint64_t version;
    if (!cJSON_IsObject(answers.json))
        return gt_fail(err, EINVAL, "vendor call log: not a JSON object");
    if (!gt_json_is_unsigned(gt_get(answers.json, "probe"), 1, &version) || version != 1)
        return gt_fail(err, EINVAL, "vendor call log: \"probe\" is not 1, the version that is read here");
    if (!cJSON_IsArray(calls))
        return gt_fail(err, EINVAL, "vendor call log: \"calls\" is not a list");
    if (!cJSON_IsObject(library))
        return gt_fail(err, EINVAL, "vendor call log: \"library\" is not an object");
    int count = cJSON_GetArraySize(calls);
    if (count > LOGGED_CALLS_MAX)
        return gt_fail(err, EINVAL, "vendor call log: %d calls, the limit is %d", count, LOGGED_CALLS_MAX);
    answers.calls = calloc((size_t)count + 1, sizeof(*answers.calls));
    GT_NEED(answers.calls, err, "vendor call log");
    cJSON_ArrayForEach(entry, calls)
    {
        if (read_call(entry, &answers.calls[answers.count]))
            answers.count++;
        else
            answers.malformed++;
    }
    answers.missing = gt_get(answers.json, "missing");
    const cJSON *error = gt_get(library, "error"), *stopped = gt_get(answers.json, "stopped");
    answers.library_error = cJSON_IsString(error) ? error->valuestring : NULL;
    answers.stopped = cJSON_IsString(stopped) ? stopped->valuestring : NULL;
    *ret = answers;
    answers = (struct gt_answers){0};
    return 0;
}

void gt_answers_done(struct gt_answers *answers)
{
    cJSON_Delete(answers->json);
    free(answers->calls);
    *answers = (struct gt_answers){0};
}

bool gt_answer_is(const struct gt_answer *answer, const char *call)
{
    return answer->value && strcmp(answer->call, call) == 0;
}

bool gt_answers_have(const struct gt_answers *answers, const char *call)
{
    for (unsigned i = 0; i < answers->count; i++)
        if (gt_answer_is(&answers->calls[i], call))
            return true;
    return false;
}

bool gt_answer_bdf(const struct gt_answer *answer, char to[static GT_BDF_SIZE])
{
    char text[32];
    return gt_value_text(gt_get(answer->value, "bdfId"), text, sizeof(text)) && gt_bdf_normalise(text, to);
}

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
    GT_TRY(gt_answers_read(log, len, &answers, err));
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
