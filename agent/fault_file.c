/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/fault_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "kube/yaml.h"

enum { FAULT_FILE_MAX = 64 << 10, THRESHOLD_MAX = 1000000000 };

/* A key with a number: where it goes and between which limits. */
struct number_key {
    const char *name;
    size_t offset; /* of an unsigned */
    unsigned min, max;
};

static const struct number_key rule_keys[] = {
    {"times", offsetof(struct gt_fault_rule, times), 1, GT_FAULT_TIMES_MAX},
    {"withinSeconds", offsetof(struct gt_fault_rule, within_s), 1, GT_FAULT_SECONDS_MAX},
    {"limitSeconds", offsetof(struct gt_fault_rule, limit_s), 0, GT_FAULT_SECONDS_MAX},
    {"threshold", offsetof(struct gt_fault_rule, threshold), 1, THRESHOLD_MAX},
    {"recoverChecks", offsetof(struct gt_fault_rule, recover_checks), 1, GT_FAULT_CHECKS_MAX},
    {"recoverSeconds", offsetof(struct gt_fault_rule, recover_s), 0, GT_FAULT_SECONDS_MAX},
};
static const struct number_key flapping_keys[] = {
    {"falls", offsetof(struct gt_flapping_rule, falls), 0, GT_FAULT_FALLS_MAX},
    {"withinSeconds", offsetof(struct gt_flapping_rule, within_s), 1, GT_FAULT_SECONDS_MAX},
    {"holdSeconds", offsetof(struct gt_flapping_rule, hold_s), 1, GT_FAULT_SECONDS_MAX},
    {"holdMaxSeconds", offsetof(struct gt_flapping_rule, hold_max_s), 1, GT_FAULT_SECONDS_MAX},
};

/* The keys that have an effect for this kind of signal and rule; a written table has only these. */
static bool is_of_use(const char *key, enum gt_signal signal, const struct gt_fault_rule *rule)
{
    if (strcmp(key, "threshold") == 0)
        return gt_signal_kind(signal) == GT_SIGNAL_LEVEL;
    if (strcmp(key, "limitSeconds") == 0 && signal != GT_SIGNAL_LEFT_OVER && !rule->limit_s)
        return false;
    if (strcmp(key, "times") == 0 || strcmp(key, "withinSeconds") == 0)
        return rule->when == GT_FAULT_AFTER;
    return rule->when != GT_FAULT_REPORT;
}

struct fault_place {
    const char *path;
    char where[80]; /* "signals.temperature" */
};

static int fault_file_read_number(const struct fault_place *place, const struct number_key *key,
                                  const cJSON *item, void *to, struct gt_err **err)
{
    uint64_t value;
    if (!cJSON_IsString(item) || !gt_text_to_unsigned(item->valuestring, key->max, &value) ||
        value < key->min)
        return gt_fail(err, EINVAL, "%s: %s.%s: \"%.40s\" is no number from %u to %u", place->path,
                       place->where, key->name, cJSON_IsString(item) ? item->valuestring : "", key->min,
                       key->max);
    *(unsigned *)((char *)to + key->offset) = (unsigned)value;
    return 0;
}

static int read_when(const struct fault_place *place, const cJSON *item, enum gt_fault_when *to,
                     struct gt_err **err)
{
    for (enum gt_fault_when when = GT_FAULT_AT_ONCE; when <= GT_FAULT_REPORT; when++)
        if (cJSON_IsString(item) && strcmp(item->valuestring, gt_fault_when_name(when)) == 0) {
            *to = when;
            return 0;
        }
    return gt_fail(err, EINVAL, "%s: %s.when: \"%.40s\" is none of atOnce, after, reportOnly", place->path,
                   place->where, cJSON_IsString(item) ? item->valuestring : "");
}

static int expect_mapping(const struct fault_place *place, const cJSON *item, struct gt_err **err)
{
    return cJSON_IsObject(item)
               ? 0
               : gt_fail(err, EINVAL, "%s: %s: must be a mapping", place->path, place->where);
}

static int read_rule(const struct fault_place *place, enum gt_signal signal, const cJSON *json,
                     struct gt_fault_rule *rule, struct gt_err **err)
{
    const cJSON *item;
    GT_TRY(expect_mapping(place, json, err));
    cJSON_ArrayForEach(item, json)
    {
        const struct number_key *key = GT_FIND(rule_keys, GT_COUNT(rule_keys), name, item->string);
        if (strcmp(item->string, "when") == 0)
            GT_TRY(read_when(place, item, &rule->when, err));
        else if (key)
            GT_TRY(fault_file_read_number(place, key, item, rule, err));
        else
            return gt_fail(
                err, EINVAL,
                "%s: %s.%.40s: unknown, there are when, times, withinSeconds, limitSeconds, threshold, "
                "recoverChecks and recoverSeconds",
                place->path, place->where, item->string);
    }
    if (gt_signal_kind(signal) == GT_SIGNAL_COUNTER && rule->when == GT_FAULT_AT_ONCE) {
        rule->when = GT_FAULT_AFTER; /* a counter is never "present": one increase counts instead */
        rule->times = 1;
    }
    return 0;
}

static int fault_file_read_signals(const char *path, const cJSON *json, struct gt_fault_table *table,
                                   struct gt_err **err)
{
    struct fault_place place = {path, "signals"};
    const cJSON *item;
    GT_TRY(expect_mapping(&place, json, err));
    cJSON_ArrayForEach(item, json)
    {
        enum gt_signal signal = 0;
        while (signal < GT_SIGNALS && strcmp(item->string, gt_signal_name(signal)) != 0)
            signal++;
        snprintf(place.where, sizeof(place.where), "signals.%.40s", item->string);
        if (signal == GT_SIGNALS)
            return gt_fail(err, EINVAL,
                           "%s: %s: there is no such signal; gputopo-agent --print-fault-table names them",
                           path, place.where);
        GT_TRY(read_rule(&place, signal, item, &table->rules[signal], err));
    }
    return 0;
}

static int read_flapping(const char *path, const cJSON *json, struct gt_flapping_rule *rule,
                         struct gt_err **err)
{
    const struct fault_place place = {path, "flapping"};
    const cJSON *item;
    GT_TRY(expect_mapping(&place, json, err));
    cJSON_ArrayForEach(item, json)
    {
        const struct number_key *key = GT_FIND(flapping_keys, GT_COUNT(flapping_keys), name, item->string);
        if (!key)
            return gt_fail(err, EINVAL,
                           "%s: flapping.%.40s: unknown, there are falls, withinSeconds, holdSeconds and "
                           "holdMaxSeconds",
                           path, item->string);
        GT_TRY(fault_file_read_number(&place, key, item, rule, err));
    }
    if (rule->hold_max_s < rule->hold_s)
        return gt_fail(err, EINVAL, "%s: flapping.holdMaxSeconds: %u is less than holdSeconds, %u", path,
                       rule->hold_max_s, rule->hold_s);
    return 0;
}

int gt_fault_text_read(const char *text, size_t len, const char *path, struct gt_fault_table *ret,
                       struct gt_err **err)
{
    struct gt_fault_table table = gt_fault_table_default;
    gt_auto_json cJSON *json = NULL;
    const cJSON *item;
    if (gt_yaml_read(text, len, &json, err) < 0)
        return gt_wrap(err, "%s", path);
    if (!cJSON_IsObject(json) && !cJSON_IsNull(json))
        return gt_fail(err, EINVAL, "%s: must be a mapping with the keys signals and flapping", path);
    cJSON_ArrayForEach(item, json)
    {
        if (strcmp(item->string, "signals") == 0)
            GT_TRY(fault_file_read_signals(path, item, &table, err));
        else if (strcmp(item->string, "flapping") == 0)
            GT_TRY(read_flapping(path, item, &table.flapping, err));
        else
            return gt_fail(err, EINVAL, "%s: %.40s: unknown, there are signals and flapping", path,
                           item->string);
    }
    *ret = table;
    return 0;
}

int gt_fault_file_read(const char *path, struct gt_fault_table *ret, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len = 0;
    GT_TRY(gt_file_read(AT_FDCWD, path, FAULT_FILE_MAX, &text, &len, err));
    return gt_fault_text_read(text, len, path, ret, err);
}

static unsigned fault_file_value_of(const void *from, const struct number_key *key)
{
    return *(const unsigned *)((const char *)from + key->offset);
}

void gt_fault_text_write(const struct gt_fault_table *table, struct gt_buf *to)
{
    gt_buf_puts(to, "signals:\n");
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++) {
        const struct gt_fault_rule *rule = &table->rules[signal];
        gt_buf_printf(to, "  %s: # %s\n    when: %s\n", gt_signal_name(signal), gt_signal_text(signal),
                      gt_fault_when_name(rule->when));
        for (size_t i = 0; i < GT_COUNT(rule_keys); i++)
            if (is_of_use(rule_keys[i].name, signal, rule))
                gt_buf_printf(to, "    %s: %u\n", rule_keys[i].name,
                              fault_file_value_of(rule, &rule_keys[i]));
    }
    gt_buf_puts(
        to,
        "flapping: # a GPU that becomes unhealthy so often in this time has to be healthy so long; twice as "
        "long each time\n");
    for (size_t i = 0; i < GT_COUNT(flapping_keys); i++)
        gt_buf_printf(to, "  %s: %u\n", flapping_keys[i].name,
                      fault_file_value_of(&table->flapping, &flapping_keys[i]));
}
