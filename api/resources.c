/* SPDX-License-Identifier: Apache-2.0 */
#include "api/resources.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json_get.h"
/* NULL where it is not there. */
static struct gt_amount *api_resources_find(struct gt_resources *resources, const char *name)
{
    return GT_FIND(resources->list, resources->count, name, name);
}

bool gt_resources_get(const struct gt_resources *resources, const char *name, uint64_t *ret)
{
    const struct gt_amount *found = GT_FIND(resources->list, resources->count, name, name);
    if (found)
        *ret = found->amount;
    return found;
}

/* NULL: there is no place for one more. */
static struct gt_amount *api_resources_make(struct gt_resources *resources, const char *name)
{
    struct gt_amount *amount = api_resources_find(resources, name);
    if (!amount && resources->count < GT_RESOURCES_MAX) {
        amount = &resources->list[resources->count++];
        *amount = (struct gt_amount){name, 0};
    }
    return amount;
}

static void api_resources_add(struct gt_resources *to, const struct gt_resources *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        struct gt_amount *amount = api_resources_make(to, from->list[i].name);
        uint64_t more = from->list[i].amount;
        if (amount)
            amount->amount = amount->amount < GT_AMOUNT_MAX - more ? amount->amount + more : GT_AMOUNT_MAX;
    }
}

static void raise_to(struct gt_resources *to, const struct gt_resources *from)
{
    for (unsigned i = 0; i < from->count; i++) {
        struct gt_amount *amount = api_resources_make(to, from->list[i].name);
        if (amount && amount->amount < from->list[i].amount)
            amount->amount = from->list[i].amount;
    }
}

static bool read_quantity(const cJSON *json, const char *name, uint64_t *ret)
{
    int ten = strcmp(name, GT_RESOURCE_CPU) == 0 ? 3 : 0;
    if (cJSON_IsNumber(json)) { /* as written by hand */
        double value = json->valuedouble * (ten ? 1000 : 1);
        if (!(value >= 0))
            return false;
        *ret = value < (double)GT_AMOUNT_MAX ? (uint64_t)value : GT_AMOUNT_MAX;
        *ret += *ret < GT_AMOUNT_MAX && (double)*ret < value;
        return true;
    }
    const char *text = cJSON_GetStringValue(json);
    return text && gt_quantity_ceil(text, strlen(text), ten, GT_AMOUNT_MAX, ret);
}

/* Those that `to` has not. */
static void read_more(const cJSON *json, struct gt_resources *to)
{
    for (const cJSON *item = cJSON_IsObject(json) ? json->child : NULL; item; item = item->next) {
        uint64_t amount;
        if (!item->string || api_resources_find(to, item->string) ||
            !read_quantity(item, item->string, &amount))
            continue;
        struct gt_amount *made = api_resources_make(to, item->string);
        if (made)
            made->amount = amount;
    }
}

void gt_resources_read(const cJSON *json, struct gt_resources *ret)
{
    ret->count = 0;
    read_more(json, ret);
}

/* Of a container. */
static void api_resources_read_asked(const cJSON *container, struct gt_resources *ret)
{
    const cJSON *resources = gt_get(container, "resources");
    gt_resources_read(gt_get(resources, "requests"), ret);
    read_more(gt_get(resources, "limits"), ret);
}

void gt_pod_resources_read(const cJSON *spec, struct gt_resources *ret)
{
    struct gt_resources one, sidecars, most;
    const char *policy;
    ret->count = sidecars.count = most.count = 0;
    for (const cJSON *item = gt_first(gt_get(spec, "initContainers")); item; item = item->next) {
        api_resources_read_asked(item, &one);
        policy = cJSON_GetStringValue(gt_get(item, "restartPolicy"));
        if (policy && strcmp(policy, "Always") == 0) {
            api_resources_add(&sidecars, &one);
        } else {
            api_resources_add(&one, &sidecars);
            raise_to(&most, &one);
        }
    }
    for (const cJSON *item = gt_first(gt_get(spec, "containers")); item; item = item->next) {
        api_resources_read_asked(item, &one);
        api_resources_add(ret, &one);
    }
    api_resources_add(ret, &sidecars);
    raise_to(ret, &most);
    gt_resources_read(gt_get(gt_get(spec, "resources"), "requests"), &one);
    for (unsigned i = 0; i < one.count; i++) {
        struct gt_amount *amount = api_resources_make(ret, one.list[i].name);
        if (amount)
            amount->amount = one.list[i].amount;
    }
    gt_resources_read(gt_get(spec, "overhead"), &one);
    api_resources_add(ret, &one);
    one = (struct gt_resources){1, {{GT_RESOURCE_PODS, 1}}};
    api_resources_add(ret, &one);
}

enum { DIGITS_MAX = 17, EXPONENT_MAX = 100000 };

/* digits x 10^ten x 2^two, and a bit more where `more` */
struct decimal {
    uint64_t digits;
    int ten, two;
    bool more;
};

static const char *read_mantissa(const char *p, const char *end, struct decimal *to)
{
    unsigned kept = 0, seen = 0;
    bool point = false;
    for (; p < end; p++) {
        if (*p == '.' && !point) {
            point = true;
            continue;
        }
        if (*p < '0' || *p > '9')
            break;
        seen++;
        if (kept < DIGITS_MAX) {
            to->digits = to->digits * 10 + (uint64_t)(*p - '0');
            kept += to->digits != 0;
            to->ten -= point;
        } else {
            to->more |= *p != '0';
            to->ten += !point;
        }
    }
    return seen ? p : NULL;
}

static bool read_exponent(const char *p, const char *end, struct decimal *to)
{
    bool negative = p < end && *p == '-';
    int value = 0;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p == end)
        return false;
    for (; p < end; p++) {
        if (*p < '0' || *p > '9')
            return false;
        if (value < EXPONENT_MAX)
            value = value * 10 + (*p - '0');
    }
    to->ten += negative ? -value : value;
    return true;
}

static bool read_suffix(const char *p, const char *end, struct decimal *to)
{
    static const char decimals[] = "numkMGTPE", binaries[] = "KMGTPE";
    static const int tens[] = {-9, -6, -3, 3, 6, 9, 12, 15, 18};
    const char *at;
    if (p == end)
        return true;
    if (end - p == 1 && (at = strchr(decimals, *p)) && *p) {
        to->ten += tens[at - decimals];
        return true;
    }
    if (end - p == 2 && p[1] == 'i' && (at = strchr(binaries, *p)) && *p) {
        to->two += 10 * (int)(at - binaries + 1);
        return true;
    }
    return (*p == 'e' || *p == 'E') && read_exponent(p + 1, end, to);
}

static enum gt_quantity whole(struct decimal decimal, uint64_t max, uint64_t *ret)
{
    uint64_t value = decimal.digits;
    if (decimal.more) /* it has more than 17 digits that count: above any maximum, or with a fraction */
        return decimal.ten >= 1 ? GT_QUANTITY_TOO_LARGE : GT_QUANTITY_FRACTION;
    for (; value && decimal.ten < 0; decimal.ten++, decimal.two--) {
        if (value % 5)
            return GT_QUANTITY_FRACTION;
        value /= 5;
    }
    for (; value && decimal.two < 0; decimal.two++) {
        if (value & 1)
            return GT_QUANTITY_FRACTION;
        value >>= 1;
    }
    for (; value && value <= max && decimal.two > 0; decimal.two--)
        value <<= 1;
    for (; value && value <= max && decimal.ten > 0; decimal.ten--)
        value *= 10;
    if (value > max)
        return GT_QUANTITY_TOO_LARGE;
    *ret = value;
    return GT_QUANTITY_OK;
}

/* Adds to what *to is at first. */
static bool read_decimal(const char *text, size_t len, struct decimal *to, bool *ret_negative)
{
    const char *p = text, *end = text + len;
    *ret_negative = p < end && *p == '-';
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    p = read_mantissa(p, end, to);
    return p && read_suffix(p, end, to);
}

enum gt_quantity gt_quantity_parse(const char *text, size_t len, uint64_t max, bool *ret_negative,
                                   uint64_t *ret)
{
    struct decimal d = {0};
    bool negative;
    if (!read_decimal(text, len, &d, &negative))
        return GT_QUANTITY_BAD;
    uint64_t value;
    enum gt_quantity result = whole(d, max, &value);
    if (result == GT_QUANTITY_OK) {
        *ret_negative = negative && value;
        *ret = value;
    }
    return result;
}

/* At most 17 digits and 60 binary places: they fit. */
static uint64_t rounded_up(struct decimal decimal, uint64_t max)
{
    bool more = decimal.more;
    __extension__ unsigned __int128 value = decimal.digits;
    value <<= decimal.two;
    for (; value && decimal.ten < 0; decimal.ten++) {
        more = more || value % 10;
        value /= 10;
    }
    value += more;
    for (; value && value <= max && decimal.ten > 0; decimal.ten--)
        value *= 10;
    return value > max ? max : (uint64_t)value;
}

bool gt_quantity_ceil(const char *text, size_t len, int ten, uint64_t max, uint64_t *ret)
{
    struct decimal d = {.ten = ten};
    bool negative;
    if (!read_decimal(text, len, &d, &negative) || (negative && d.digits))
        return false;
    *ret = rounded_up(d, max);
    return true;
}

int gt_quantity_read(const char *text, size_t len, uint64_t max, const char *what, uint64_t *ret,
                     struct gt_err **err)
{
    static const char *const texts[] = {
        [GT_QUANTITY_OK] = "is negative",
        [GT_QUANTITY_BAD] = "is no quantity",
        [GT_QUANTITY_FRACTION] = "is not a whole number",
        [GT_QUANTITY_TOO_LARGE] = "is too large",
    };
    bool negative = false;
    uint64_t value = 0;
    enum gt_quantity result = gt_quantity_parse(text, len, max, &negative, &value);
    if (result != GT_QUANTITY_OK || negative)
        return gt_fail(err, EINVAL, "%s: \"%.*s%s\" %s, expected 0 to %llu", what, (int)(len < 40 ? len : 40),
                       text, len > 40 ? "..." : "", texts[result], (unsigned long long)max);
    *ret = value;
    return 0;
}

int gt_quantity_from_json(const cJSON *json, unsigned max, const char *what, unsigned *ret,
                          struct gt_err **err)
{
    uint64_t value;
    if (cJSON_IsNumber(json)) {
        if (!gt_json_is_unsigned(json, max, &value))
            return gt_fail(err, EINVAL, "%s: %g is no whole number from 0 to %u", what, json->valuedouble,
                           max);
    } else if (cJSON_IsString(json) && json->valuestring) {
        GT_TRY(gt_quantity_read(json->valuestring, strlen(json->valuestring), max, what, &value, err));
    } else
        return gt_fail(err, EINVAL, "%s: is %s, expected a number from 0 to %u", what, gt_json_type(json),
                       max);
    *ret = (unsigned)value;
    return 0;
}
