/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_rules.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/json.h"
#include "base/json_get.h"

enum {
    WHERE_TEXT_MAX = 1 << 16, /* of the three as JSON */
    PARTS_MAX = 4096,         /* terms, expressions, values, tolerations: each */
};

/* Counts at first, then fills what was counted. */
struct rules_maker {
    struct gt_pod_rules *rules; /* NULL: counting */
    char *text;
    size_t text_size;
    uint32_t expressions, values, terms, tolerations;
    bool bad;
};

static const char *pod_rules_keep(struct rules_maker *maker, const char *text)
{
    size_t size = strlen(text) + 1;
    maker->text_size += size;
    if (!maker->rules)
        return NULL;
    char *start = memcpy(maker->text, text, size);
    maker->text += size;
    return start;
}

static void pod_rules_add_value(struct rules_maker *maker, const char *text)
{
    const char *kept = pod_rules_keep(maker, text);
    if (maker->rules)
        maker->rules->values[maker->values] = kept;
    maker->values++;
}

static enum gt_rule_operator how_of(const char *name)
{
    static const char *const names[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
    size_t i = name ? GT_PLACE_OF_TEXT(names, GT_COUNT(names), name) : GT_COUNT(names);
    return i < GT_COUNT(names) ? (enum gt_rule_operator)i : GT_RULE_NEVER;
}

/* NULL where it is missing or empty, which is one to the API. */
static const char *pod_rules_text_of(struct rules_maker *maker, const cJSON *item, const char *key)
{
    const cJSON *value = gt_get(item, key);
    const char *text = cJSON_GetStringValue(value);
    maker->bad |= value && !text;
    return text && *text ? text : NULL;
}

static void add_expression(struct rules_maker *maker, const cJSON *item, bool is_name)
{
    const char *key = pod_rules_text_of(maker, item, "key");
    const char *name = pod_rules_text_of(maker, item, "operator");
    const cJSON *values = gt_get(item, "values");
    struct gt_rule_expression made = {.how = how_of(name), .is_name = is_name, .first_value = maker->values};
    if (is_name && (!key || strcmp(key, "metadata.name") != 0))
        made.how = GT_RULE_NEVER;
    made.key = pod_rules_keep(maker, key ? key : "");
    for (const cJSON *value = gt_first(values); value; value = value->next) {
        if (!cJSON_IsString(value) || !value->valuestring)
            maker->bad = true;
        else
            pod_rules_add_value(maker, value->valuestring);
    }
    made.value_count = maker->values - made.first_value;
    if (maker->rules)
        maker->rules->expressions[maker->expressions] = made;
    maker->expressions++;
}

static void add_selector(struct rules_maker *maker, const cJSON *selector)
{
    for (const cJSON *item = selector ? selector->child : NULL; item; item = item->next) {
        if (!cJSON_IsString(item) || !item->valuestring || !item->string) {
            maker->bad = true;
            return;
        }
        struct gt_rule_expression made = {.how = GT_RULE_IN, .first_value = maker->values, .value_count = 1};
        made.key = pod_rules_keep(maker, item->string);
        pod_rules_add_value(maker, item->valuestring);
        if (maker->rules)
            maker->rules->expressions[maker->expressions] = made;
        maker->expressions++;
    }
    if (maker->rules)
        maker->rules->selector_count = maker->expressions;
}

static void add_terms(struct rules_maker *maker, const struct gt_pod_where *where)
{
    for (const cJSON *term = where->terms ? where->terms->child : NULL; term; term = term->next) {
        uint32_t first = maker->expressions;
        for (const cJSON *item = gt_first(gt_get(term, "matchExpressions")); item; item = item->next)
            add_expression(maker, item, false);
        for (const cJSON *item = gt_first(gt_get(term, "matchFields")); item; item = item->next)
            add_expression(maker, item, true);
        if (maker->rules)
            maker->rules->terms[maker->terms] = (struct gt_rule_term){first, maker->expressions - first};
        maker->terms++;
    }
    if (maker->rules)
        maker->rules->has_terms = where->has_terms;
}

static void add_tolerations(struct rules_maker *maker, const cJSON *tolerations)
{
    for (const cJSON *item = tolerations ? tolerations->child : NULL; item; item = item->next) {
        const char *key = pod_rules_text_of(maker, item, "key");
        const char *name = pod_rules_text_of(maker, item, "operator");
        const char *value = pod_rules_text_of(maker, item, "value");
        const char *effect = pod_rules_text_of(maker, item, "effect");
        bool exists = name && strcmp(name, "Exists") == 0;
        if (!exists && name && strcmp(name, "Equal") != 0)
            continue; /* tolerates nothing that is known here */
        if (!key && !exists)
            continue; /* the API server lets no such one pass */
        /* The two that every pod gets say nothing: a node that is not ready takes no pods. */
        if (key && (strcmp(key, GT_TAINT_KEY_NOT_READY) == 0 || strcmp(key, GT_TAINT_KEY_UNREACHABLE) == 0))
            continue;
        struct gt_rule_toleration made = {.exists = exists};
        made.key = key ? pod_rules_keep(maker, key) : NULL;
        made.value = pod_rules_keep(maker, value ? value : "");
        made.effect = effect ? pod_rules_keep(maker, effect) : NULL;
        if (maker->rules)
            maker->rules->tolerations[maker->tolerations] = made;
        maker->tolerations++;
    }
}

static void compile(struct rules_maker *maker, const struct gt_pod_where *where)
{
    add_selector(maker, where->selector);
    add_terms(maker, where);
    add_tolerations(maker, where->tolerations);
}

static struct gt_pod_rules *allocate(const struct rules_maker *counted, const char *text)
{
    size_t text_size = strlen(text) + 1;
    struct gt_pod_rules *rules =
        calloc(1, sizeof(*rules) + counted->expressions * sizeof(*rules->expressions) +
                      counted->values * sizeof(*rules->values) + counted->terms * sizeof(*rules->terms) +
                      counted->tolerations * sizeof(*rules->tolerations) + counted->text_size + text_size);
    if (!rules)
        return NULL;
    rules->expressions = (struct gt_rule_expression *)(rules + 1);
    rules->values = (const char **)(rules->expressions + counted->expressions);
    rules->tolerations = (struct gt_rule_toleration *)(rules->values + counted->values);
    rules->terms = (struct gt_rule_term *)(rules->tolerations + counted->tolerations);
    rules->term_count = counted->terms;
    rules->toleration_count = counted->tolerations;
    char *texts = (char *)(rules->terms + counted->terms);
    rules->text = memcpy(texts + counted->text_size, text, text_size);
    return rules;
}

int gt_pod_rules_read(const struct gt_pod_where *where, const char *text, struct gt_pod_rules **ret)
{
    struct rules_maker maker = {0};
    compile(&maker, where);
    if (maker.bad || maker.expressions > PARTS_MAX || maker.values > PARTS_MAX || maker.terms > PARTS_MAX ||
        maker.tolerations > PARTS_MAX)
        return -EINVAL;
    struct gt_pod_rules *rules = NULL;
    if (maker.expressions || where->has_terms || maker.tolerations) {
        rules = allocate(&maker, text);
        if (!rules)
            return -ENOMEM;
        maker = (struct rules_maker){.rules = rules, .text = (char *)(rules->terms + maker.terms)};
        compile(&maker, where);
    }
    *ret = rules;
    return 0;
}

int gt_pod_where_text(const struct gt_pod_where *where, char **ret)
{
    const cJSON *const given[] = {where->selector, where->terms, where->tolerations};
    if ((where->selector && !cJSON_IsObject(where->selector)) ||
        (where->terms && !cJSON_IsArray(where->terms)) ||
        (where->tolerations && !cJSON_IsArray(where->tolerations)))
        return -EINVAL;
    *ret = NULL;
    if (!where->selector && !where->has_terms && !where->tolerations)
        return 0;
    cJSON *all = cJSON_CreateArray();
    bool whole = all;
    for (size_t i = 0; whole && i < GT_COUNT(given); i++) {
        whole = gt_json_attach(all, NULL, given[i] ? cJSON_Duplicate(given[i], true) : cJSON_CreateNull());
    }
    char *text = whole ? cJSON_PrintUnformatted(all) : NULL;
    cJSON_Delete(all);
    if (!text)
        return -ENOMEM;
    if (strnlen(text, WHERE_TEXT_MAX + 1) > WHERE_TEXT_MAX) {
        cJSON_free(text);
        return -EINVAL;
    }
    *ret = text;
    return 0;
}
