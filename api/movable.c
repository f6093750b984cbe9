/* SPDX-License-Identifier: Apache-2.0 */
#include "api/movable.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"
#include "base/cleanup.h"
#include "base/json_get.h"
#include "base/text.h"
#include "base/time_text.h"
enum { MINUTES_A_DAY = 1440, DAYS_MAX = 365 };

/* "6h" */
static bool read_span(const char *text, uint64_t *ret_s)
{
    static const struct {
        char unit;
        uint32_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char number[16];
    uint64_t count;
    size_t len = strlen(text);
    if (len < 2 || len > sizeof(number))
        return false;
    memcpy(number, text, len - 1);
    number[len - 1] = '\0';
    for (size_t i = 0; i < GT_COUNT(units); i++)
        if (text[len - 1] == units[i].unit)
            return gt_text_to_unsigned(number, (uint64_t)DAYS_MAX * 86400 / units[i].seconds, &count) &&
                   (*ret_s = count * units[i].seconds);
    return false;
}

/* "22:00" */
static bool read_minute(const char *text, uint32_t *ret)
{
    char hours[3] = {text[0], text[0] ? text[1] : '\0'}, minutes[3] = {0};
    uint64_t hour, minute;
    if (strnlen(text, 5) < 5 || text[2] != ':')
        return false;
    memcpy(minutes, text + 3, 2);
    if (!gt_text_to_unsigned(hours, 23, &hour) || !gt_text_to_unsigned(minutes, 59, &minute))
        return false;
    *ret = (uint32_t)(hour * 60 + minute);
    return true;
}

bool gt_movable_read(const char *text, struct gt_movable *ret)
{
    struct gt_movable movable = {.never = strcmp(text, "false") == 0,
                                 .after_checkpoint = strcmp(text, "after-checkpoint") == 0};
    bool window = strlen(text) == 11 && text[5] == '-' && read_minute(text, &movable.from) &&
                  read_minute(text + 6, &movable.until) && movable.from != movable.until;
    if (!movable.never && !movable.after_checkpoint && strcmp(text, "true") != 0 && !window &&
        !read_span(text, &movable.after_s))
        return false;
    *ret = movable;
    return true;
}

bool gt_movable_is_due(const struct gt_movable *movable, uint64_t created_s, uint64_t now_s)
{
    uint32_t minute = (uint32_t)(now_s / 60 % MINUTES_A_DAY);
    bool in_window = movable->from == movable->until  ? true
                     : movable->from < movable->until ? minute >= movable->from && minute < movable->until
                                                      : minute >= movable->from || minute < movable->until;
    return !movable->never && in_window && now_s >= created_s + movable->after_s;
}

static int64_t read_time(const char *text, size_t len)
{
    char time[GT_TIME_TEXT_SIZE + 16];
    if (len >= sizeof(time))
        return 0;
    memcpy(time, text, len);
    time[len] = '\0';
    return gt_time_of_text(time);
}

bool gt_reserved_read(const char *text, struct gt_reserved *ret)
{
    size_t len = strcspn(text, " ");
    struct gt_reserved reserved = {.until_s = read_time(text, len)};
    if (reserved.until_s <= 0)
        return false;
    for (text += len; *text; text += len) {
        text += strspn(text, " ");
        len = strcspn(text, " ");
        if (strncmp(text, "from=", 5) == 0 && !reserved.from_s)
            reserved.from_s = read_time(text + 5, len - 5);
        else if (strncmp(text, "for=", 4) == 0 && !reserved.for_ && len > 4) {
            reserved.for_ = text + 4;
            reserved.for_len = len - 4;
            continue;
        } else if (len)
            return false;
        if (len && (reserved.from_s <= 0 || reserved.from_s >= reserved.until_s))
            return false;
    }
    *ret = reserved;
    return true;
}

bool gt_reserved_keeps_off(const struct gt_reserved *reserved, const char *job, int64_t now_s)
{
    size_t len = reserved->for_len;
    bool is_for = job && len && strncmp(job, reserved->for_, len) == 0 && (!job[len] || job[len] == '/');
    return now_s >= reserved->from_s && now_s < reserved->until_s && !is_for;
}

enum { WALK_DEPTH = 12, VALUE_SIZE = 64 };

/* The first ones are also those of templates and of the objects that have them. */
enum { TEMPLATE_KEYS = 8 };
static const char *const user_keys[] = {
    GT_ANNOTATION_GROUP,          GT_ANNOTATION_ATOMIC,         GT_ANNOTATION_LOSS,
    GT_ANNOTATION_UNPLACED,       GT_ANNOTATION_SPREAD,         GT_ANNOTATION_JOB_TOPOLOGY,
    GT_ANNOTATION_GROUP_TOPOLOGY, GT_ANNOTATION_SLOW,           GT_ANNOTATION_JOB_NAME,
    GT_ANNOTATION_JOB_PODS,       GT_ANNOTATION_MOVABLE,        GT_ANNOTATION_COST,
    GT_ANNOTATION_MOVE_TO,        GT_ANNOTATION_CHECKPOINT_DONE};

void gt_key_warnings_add(struct gt_key_warnings *warnings, const char *format, ...)
{
    char text[GT_KEY_WARNING_SIZE];
    GT_TEXT_OF_ARGS(text, format);
    for (unsigned i = 0; i < warnings->count; i++)
        if (strcmp(warnings->texts[i], text) == 0)
            return;
    if (warnings->count < GT_KEY_WARNINGS_MAX)
        memcpy(warnings->texts[warnings->count++], text, sizeof(text));
}

static void check_key(const char *key, bool is_label, struct gt_key_warnings *to)
{
    bool below = strncmp(key, GT_USER_PREFIX, sizeof(GT_USER_PREFIX) - 1) == 0;
    const char *meant = below ? gt_text_meant(key, user_keys, GT_COUNT(user_keys)) : NULL;
    if (meant && strcmp(meant, key) != 0)
        gt_key_warnings_add(to, "unknown key %.100s: %s is meant%s", key, meant,
                            is_label ? ", as an annotation" : "");
    else if (meant && is_label)
        gt_key_warnings_add(to, "%s is a label here and does nothing: it has to be an annotation", meant);
    else if (!is_label && strcmp(key, GT_ANNOTATION_SPARES) == 0)
        gt_key_warnings_add(to, "%s does nothing here: it is for Supernodes", key);
    else if (!is_label && strcmp(key, GT_ANNOTATION_RESERVED) == 0)
        gt_key_warnings_add(to, "%s does nothing here: it is for Nodes and Supernodes", key);
}

static void check_movable(const cJSON *annotations, struct gt_key_warnings *to)
{
    const char *text = cJSON_GetStringValue(gt_get(annotations, GT_ANNOTATION_MOVABLE));
    struct gt_movable movable;
    if (text && !gt_movable_read(text, &movable))
        gt_key_warnings_add(
            to,
            "%s %.50s: expected true, false, after-checkpoint, a time such as 6h, or hours such "
            "as 22:00-06:00: it does not move",
            GT_ANNOTATION_MOVABLE, text);
}

static void check_keys(const cJSON *keys, bool is_label, struct gt_key_warnings *to)
{
    const cJSON *item;
    if (cJSON_IsObject(keys))
        cJSON_ArrayForEach(item, keys) check_key(item->string, is_label, to);
    if (!is_label)
        check_movable(keys, to);
}

static void check_metadata(const cJSON *metadata, struct gt_key_warnings *to)
{
    check_keys(gt_get(metadata, "annotations"), false, to);
    check_keys(gt_get(metadata, "labels"), true, to);
}

/* The annotation in some metadata below; `value` given: one with another value. NULL: none. */
static const cJSON *find_below(const cJSON *json, const char *key, const cJSON *value, unsigned depth)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        const cJSON *found = item->string && strcmp(item->string, "metadata") == 0
                                 ? gt_get(gt_get(item, "annotations"), key)
                                 : NULL;
        found = found && value && cJSON_Compare(found, value, true) ? NULL : found;
        if (!found && depth)
            found = find_below(item, key, value, depth - 1);
        if (found)
            return found;
    }
    return NULL;
}

static void user_keys_print_value(const cJSON *value, char to[static VALUE_SIZE])
{
    if (!cJSON_PrintPreallocated((cJSON *)(uintptr_t)value, to, VALUE_SIZE, false))
        snprintf(to, VALUE_SIZE, "(a long one)");
}

/* What is said both of an object and of a template in it. */
static void check_twice(const cJSON *object, struct gt_key_warnings *to)
{
    const cJSON *own = gt_get_at(object, "metadata", "annotations"), *spec = gt_get(object, "spec");
    if (gt_get(spec, "jobTemplate") || gt_get(spec, "runtimeRef"))
        return; /* whatever it is, it counts for none */
    for (size_t i = 0; i < TEMPLATE_KEYS; i++) {
        const cJSON *value = gt_get(own, user_keys[i]),
                    *other = value ? find_below(spec, user_keys[i], value, WALK_DEPTH) : NULL;
        char here[VALUE_SIZE], there[VALUE_SIZE];
        if (!other)
            continue;
        user_keys_print_value(value, here);
        user_keys_print_value(other, there);
        gt_key_warnings_add(to, "%s %s does nothing: a template below it has %s", user_keys[i], here, there);
    }
}

static void check_below(const cJSON *json, unsigned depth, struct gt_key_warnings *to)
{
    const cJSON *item;
    cJSON_ArrayForEach(item, json)
    {
        if (item->string && strcmp(item->string, "metadata") == 0) {
            check_metadata(item, to);
            check_twice(json, to);
        } else if (depth) {
            check_below(item, depth - 1, to);
        }
    }
}

void gt_user_keys_check(const cJSON *object, struct gt_key_warnings *to)
{
    const cJSON *spec = gt_get(object, "spec"), *own = gt_get_at(object, "metadata", "annotations");
    bool makes_jobs = gt_get(spec, "jobTemplate"), is_train_job = gt_get(spec, "runtimeRef");
    check_below(object, WALK_DEPTH, to);
    if (is_train_job) /* these are its JobSet's */
        check_metadata(spec, to);
    for (size_t i = 0; i < TEMPLATE_KEYS; i++) {
        const cJSON *value = gt_get(own, user_keys[i]);
        if (value && makes_jobs)
            gt_key_warnings_add(to, "%s of the CronJob itself does nothing: it belongs into spec.jobTemplate",
                                user_keys[i]);
        else if (value && is_train_job)
            gt_key_warnings_add(
                to, "%s of the TrainJob itself does nothing: it belongs into spec.annotations", user_keys[i]);
    }
}

const char *gt_user_keys_any(const cJSON *object)
{
    for (size_t i = 0; i < TEMPLATE_KEYS; i++)
        if (find_below(object, user_keys[i], NULL, WALK_DEPTH))
            return user_keys[i];
    return NULL;
}
