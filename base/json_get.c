/* SPDX-License-Identifier: Apache-2.0 */
#include "base/json_get.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"

enum { KEY_MAX = 32 };
#define EXACT_MAX 9007199254740992.0 /* 2^53 */

int gt_at_fail(const struct gt_at *at, const char *key, const char *format, ...)
{
    char text[256];
    GT_TEXT_OF_ARGS(text, format);
    gt_text_make_printable(text); /* a text from outside may have been cut inside a character */
    const char *dot = at->path[0] && key[0] && key[0] != '[' ? "." : "";
    return gt_fail(at->err, EINVAL, "%s: %s%s%s%s%s", at->source, at->path, dot, key,
                   at->path[0] || key[0] ? ": " : "", text);
}

const char *gt_json_type(const cJSON *json)
{
    return !json || cJSON_IsNull(json) ? "null"
           : cJSON_IsString(json)      ? "a string"
           : cJSON_IsNumber(json)      ? "a number"
           : cJSON_IsBool(json)        ? "a boolean"
           : cJSON_IsArray(json)       ? "an array"
           : cJSON_IsObject(json)      ? "an object"
                                       : "no value";
}

const cJSON *gt_get(const cJSON *object, const char *key)
{
    const cJSON *value = cJSON_GetObjectItemCaseSensitive(object, key);
    return !value || cJSON_IsNull(value) ? NULL : value;
}

const cJSON *gt_get_at_(const cJSON *object, const char *const *keys)
{
    for (; object && *keys; keys++)
        object = gt_get(object, *keys);
    return object;
}

const cJSON *gt_first(const cJSON *array)
{
    return cJSON_IsArray(array) ? array->child : NULL;
}

const char *gt_get_string(const cJSON *object, const char *key)
{
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(object, key));
    return text ? text : "";
}

int gt_get_only_known(const struct gt_at *at, const cJSON *object, const char *known)
{
    for (const cJSON *member = object->child; member; member = member->next) {
        char name[KEY_MAX + 1];
        const char *left =
            gt_text_is_listed(member->string, known) || strlen(member->string) > KEY_MAX ? NULL : known;
        while (left && gt_text_next_listed(&left, name, sizeof(name)))
            if (strlen(name) > 3 && !gt_get(object, name) && gt_text_distance(member->string, name) <= 1)
                return gt_at_fail(at, "", "there is no key \"%s\", did you mean \"%s\"?", member->string,
                                  name);
    }
    return 0;
}

bool gt_json_is_int(const cJSON *value, int64_t *ret)
{
    if (!cJSON_IsNumber(value) || !(fabs(value->valuedouble) <= EXACT_MAX) ||
        trunc(value->valuedouble) != value->valuedouble)
        return false;
    *ret = (int64_t)value->valuedouble;
    return true;
}

bool gt_json_is_unsigned(const cJSON *value, uint64_t max, uint64_t *ret)
{
    int64_t number;
    if (!gt_json_is_int(value, &number) || number < 0 || (uint64_t)number > max)
        return false;
    *ret = (uint64_t)number;
    return true;
}

int gt_read_text(const struct gt_at *at, const char *key, const cJSON *value, char *ret, size_t size)
{
    if (!cJSON_IsString(value) || !value->valuestring)
        return gt_at_fail(at, key, "expected a string, is %s", gt_json_type(value));
    const char *text = value->valuestring;
    size_t len = strlen(text);
    if (len >= size)
        return gt_at_fail(at, key, "%zu bytes long, the limit is %zu", len, size - 1);
    if (!gt_text_is_printable(text))
        return gt_at_fail(at, key, "holds a control character or bytes that are no UTF-8");
    memcpy(ret, text, len + 1);
    return 0;
}

int gt_get_text(const struct gt_at *at, const cJSON *object, const char *key, char *ret, size_t size)
{
    const cJSON *value = gt_get(object, key);
    return value ? gt_read_text(at, key, value, ret, size) : 0;
}

int gt_get_number(const struct gt_at *at, const cJSON *object, const char *key, double max, double *ret)
{
    const cJSON *value = gt_get(object, key);
    if (!value)
        return 0;
    if (!cJSON_IsNumber(value))
        return gt_at_fail(at, key, "expected a number, is %s", gt_json_type(value));
    if (!(value->valuedouble >= 0 && value->valuedouble <= max))
        return gt_at_fail(at, key, "expected 0 to %.16g, is %g", max, value->valuedouble);
    *ret = value->valuedouble;
    return 0;
}

int gt_get_integer(const struct gt_at *at, const cJSON *object, const char *key, uint64_t max, uint64_t *ret)
{
    double number = -1;
    int r = gt_get_number(at, object, key, (double)max, &number);
    if (r < 0 || number < 0)
        return r;
    if (number != floor(number))
        return gt_at_fail(at, key, "expected a whole number, is %g", number);
    *ret = (uint64_t)number;
    return 0;
}

int gt_get_int(const struct gt_at *at, const cJSON *object, const char *key, int max, int *ret)
{
    uint64_t number = UINT64_MAX;
    GT_TRY(gt_get_integer(at, object, key, (uint64_t)max, &number));
    if (number != UINT64_MAX)
        *ret = (int)number;
    return 0;
}

int gt_get_unsigned(const struct gt_at *at, const cJSON *object, const char *key, unsigned max, unsigned *ret)
{
    uint64_t number = *ret;
    GT_TRY(gt_get_integer(at, object, key, max, &number));
    *ret = (unsigned)number;
    return 0;
}

int gt_get_bool(const struct gt_at *at, const cJSON *object, const char *key, bool *ret)
{
    const cJSON *value = gt_get(object, key);
    if (!value)
        return 0;
    if (!cJSON_IsBool(value))
        return gt_at_fail(at, key, "expected true or false, is %s", gt_json_type(value));
    *ret = cJSON_IsTrue(value);
    return 0;
}

int gt_get_array(const struct gt_at *at, const cJSON *object, const char *key, unsigned max,
                 const cJSON **ret, unsigned *ret_count)
{
    const cJSON *value = gt_get(object, key);
    if (value && !cJSON_IsArray(value))
        return gt_at_fail(at, key, "expected an array, is %s", gt_json_type(value));
    unsigned count = 0;
    for (const cJSON *child = value ? value->child : NULL; child; child = child->next)
        count++;
    if (count > max)
        return gt_at_fail(at, key, "%u members, the limit is %u", count, max);
    *ret = value;
    *ret_count = count;
    return 0;
}

int gt_get_object(const struct gt_at *at, const cJSON *object, const char *key, const cJSON **ret)
{
    const cJSON *value = gt_get(object, key);
    if (value && !cJSON_IsObject(value))
        return gt_at_fail(at, key, "expected an object, is %s", gt_json_type(value));
    *ret = value;
    return 0;
}
