/* SPDX-License-Identifier: Apache-2.0 */
#include "api/user_keys.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/movable.h"
#include "api/names.h"
#include "base/cleanup.h"
#include "base/json_get.h"
#include "base/text.h"

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
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
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
