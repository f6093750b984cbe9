/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/json_get.h"
#include "scheduler-ext/cache/constraints.h"

/* Node selectors, required node affinity and tolerations are compiled once for all pods that say the same. */

enum {
    TEXT_MAX = 1 << 16, /* of the three as JSON */
    PARTS_MAX = 4096,   /* terms, expressions, values, tolerations: each */
};

struct parts { /* of a spec */
    const cJSON *selector, *terms, *tolerations;
    bool has_terms;
};

/* Counts at first, then fills what was counted. */
struct constraints_builder {
    struct pod_constraints *constraints; /* NULL: counting */
    char *text;
    size_t text_size;
    uint32_t expressions, values, terms, tolerations;
    bool bad;
};

static const char *keep(struct constraints_builder *builder, const char *text)
{
    size_t size = strlen(text) + 1;
    builder->text_size += size;
    if (!builder->constraints)
        return NULL;
    char *start = memcpy(builder->text, text, size);
    builder->text += size;
    return start;
}

static void add_value(struct constraints_builder *builder, const char *text)
{
    const char *kept = keep(builder, text);
    if (builder->constraints)
        builder->constraints->values[builder->values] = kept;
    builder->values++;
}

static enum constraint_operator how_of(const char *name)
{
    static const char *const names[] = {"In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"};
    for (unsigned i = 0; name && i < GT_COUNT(names); i++)
        if (strcmp(name, names[i]) == 0)
            return (enum constraint_operator)i;
    return CONSTRAINT_NEVER;
}

/* NULL where it is missing or empty, which is one to the API. */
static const char *text_of(struct constraints_builder *builder, const cJSON *item, const char *key)
{
    const cJSON *value = gt_get(item, key);
    const char *text = cJSON_GetStringValue(value);
    builder->bad |= value && !text;
    return text && *text ? text : NULL;
}

static void add_expression(struct constraints_builder *builder, const cJSON *item, bool is_name)
{
    const char *key = text_of(builder, item, "key");
    const char *name = text_of(builder, item, "operator");
    const cJSON *values = gt_get(item, "values");
    struct constraint_expression made = {
        .how = how_of(name), .is_name = is_name, .first_value = builder->values};
    if (is_name && (!key || strcmp(key, "metadata.name") != 0))
        made.how = CONSTRAINT_NEVER;
    made.key = keep(builder, key ? key : "");
    for (const cJSON *value = cJSON_IsArray(values) ? values->child : NULL; value; value = value->next) {
        if (!cJSON_IsString(value) || !value->valuestring)
            builder->bad = true;
        else
            add_value(builder, value->valuestring);
    }
    made.value_count = builder->values - made.first_value;
    if (builder->constraints)
        builder->constraints->expressions[builder->expressions] = made;
    builder->expressions++;
}

static void add_selector(struct constraints_builder *builder, const cJSON *selector)
{
    for (const cJSON *item = selector ? selector->child : NULL; item; item = item->next) {
        if (!cJSON_IsString(item) || !item->valuestring || !item->string) {
            builder->bad = true;
            return;
        }
        struct constraint_expression made = {
            .how = CONSTRAINT_IN, .first_value = builder->values, .value_count = 1};
        made.key = keep(builder, item->string);
        add_value(builder, item->valuestring);
        if (builder->constraints)
            builder->constraints->expressions[builder->expressions] = made;
        builder->expressions++;
    }
    if (builder->constraints)
        builder->constraints->selector_count = builder->expressions;
}

static void add_terms(struct constraints_builder *builder, const struct parts *parts)
{
    for (const cJSON *term = parts->terms ? parts->terms->child : NULL; term; term = term->next) {
        const cJSON *labels = gt_get(term, "matchExpressions"), *fields = gt_get(term, "matchFields");
        uint32_t first = builder->expressions;
        for (const cJSON *item = cJSON_IsArray(labels) ? labels->child : NULL; item; item = item->next)
            add_expression(builder, item, false);
        for (const cJSON *item = cJSON_IsArray(fields) ? fields->child : NULL; item; item = item->next)
            add_expression(builder, item, true);
        if (builder->constraints)
            builder->constraints->terms[builder->terms] =
                (struct constraint_term){first, builder->expressions - first};
        builder->terms++;
    }
    if (builder->constraints)
        builder->constraints->has_terms = parts->has_terms;
}

static void add_tolerations(struct constraints_builder *builder, const cJSON *tolerations)
{
    for (const cJSON *item = tolerations ? tolerations->child : NULL; item; item = item->next) {
        const char *key = text_of(builder, item, "key");
        const char *name = text_of(builder, item, "operator");
        const char *value = text_of(builder, item, "value");
        const char *effect = text_of(builder, item, "effect");
        bool exists = name && strcmp(name, "Exists") == 0;
        if (!exists && name && strcmp(name, "Equal") != 0)
            continue; /* tolerates nothing that is known here */
        if (!key && !exists)
            continue; /* the API server lets no such one pass */
        /* The two that every pod gets say nothing: a node that is not ready takes no pods. */
        if (key && (strcmp(key, GT_TAINT_KEY_NOT_READY) == 0 || strcmp(key, GT_TAINT_KEY_UNREACHABLE) == 0))
            continue;
        struct constraint_toleration made = {.exists = exists};
        made.key = key ? keep(builder, key) : NULL;
        made.value = keep(builder, value ? value : "");
        made.effect = effect ? keep(builder, effect) : NULL;
        if (builder->constraints)
            builder->constraints->tolerations[builder->tolerations] = made;
        builder->tolerations++;
    }
}

static void make_parts(struct constraints_builder *builder, const struct parts *parts)
{
    add_selector(builder, parts->selector);
    add_terms(builder, parts);
    add_tolerations(builder, parts->tolerations);
}

/* The parts as one text; NULL without memory. The caller frees it (cJSON_free). */
static char *print(const struct parts *parts)
{
    cJSON *all = cJSON_CreateArray();
    const cJSON *const given[] = {parts->selector, parts->terms, parts->tolerations};
    bool whole = all;
    for (size_t i = 0; whole && i < GT_COUNT(given); i++) {
        cJSON *part = given[i] ? cJSON_Duplicate(given[i], true) : cJSON_CreateNull();
        whole = part && cJSON_AddItemToArray(all, part);
    }
    char *text = whole ? cJSON_PrintUnformatted(all) : NULL;
    cJSON_Delete(all);
    return text;
}

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct pod_constraints *)item)->text, key) == 0;
}

static struct pod_constraints *allocate(struct gt_cache *cache, const struct constraints_builder *counted,
                                        const char *text)
{
    size_t text_size = strlen(text) + 1;
    struct pod_constraints *constraints = gt_cache_alloc(
        &cache->bytes,
        sizeof(*constraints) + counted->expressions * sizeof(*constraints->expressions) +
            counted->values * sizeof(*constraints->values) + counted->terms * sizeof(*constraints->terms) +
            counted->tolerations * sizeof(*constraints->tolerations) + counted->text_size + text_size);
    if (!constraints)
        return NULL;
    constraints->expressions = (struct constraint_expression *)(constraints + 1);
    constraints->values = (const char **)(constraints->expressions + counted->expressions);
    constraints->tolerations = (struct constraint_toleration *)(constraints->values + counted->values);
    constraints->terms = (struct constraint_term *)(constraints->tolerations + counted->tolerations);
    constraints->term_count = counted->terms;
    constraints->toleration_count = counted->tolerations;
    char *texts = (char *)(constraints->terms + counted->terms);
    constraints->text = memcpy(texts + counted->text_size, text, text_size);
    return constraints;
}

static int make(struct gt_cache *cache, const struct parts *parts, const char *text,
                struct pod_constraints **ret)
{
    struct constraints_builder builder = {0};
    make_parts(&builder, parts);
    if (builder.bad || builder.expressions > PARTS_MAX || builder.values > PARTS_MAX ||
        builder.terms > PARTS_MAX || builder.tolerations > PARTS_MAX)
        return -EINVAL;
    if (!builder.expressions && !parts->has_terms && !builder.tolerations) {
        *ret = NULL;
        return 0;
    }
    struct pod_constraints *constraints = allocate(cache, &builder, text);
    if (!constraints)
        return -ENOMEM;
    builder = (struct constraints_builder){.constraints = constraints,
                                           .text = (char *)(constraints->terms + builder.terms)};
    make_parts(&builder, parts);
    constraints->hash = gt_digest_hash(gt_digest_mix_text(cache->seed, text));
    if (gt_table_add(&cache->constraints, constraints->hash, constraints) < 0) {
        gt_cache_release(&cache->bytes, constraints);
        return -ENOMEM;
    }
    constraints->refs = 1;
    *ret = constraints;
    return 0;
}

/* Finds the parts; false where one has a wrong form. */
static bool find_parts(const struct gt_pod *pod, struct parts *ret)
{
    *ret = (struct parts){.selector = pod->node_selector,
                          .terms = pod->required_terms,
                          .tolerations = pod->tolerations,
                          .has_terms = pod->has_required_affinity};
    return (!ret->selector || cJSON_IsObject(ret->selector)) && (!ret->terms || cJSON_IsArray(ret->terms)) &&
           (!ret->tolerations || cJSON_IsArray(ret->tolerations));
}

int gt_cache_constraints_of(struct gt_cache *cache, const struct gt_pod *pod, struct pod_constraints **ret)
{
    struct parts parts;
    if (!find_parts(pod, &parts))
        return -EINVAL;
    *ret = NULL;
    if (!parts.selector && !parts.has_terms && !parts.tolerations)
        return 0;
    char *text = print(&parts);
    if (!text)
        return -ENOMEM;
    int r = 0;
    struct pod_constraints *constraints = NULL;
    if (strnlen(text, TEXT_MAX + 1) > TEXT_MAX)
        r = -EINVAL;
    else
        constraints = gt_table_find(&cache->constraints,
                                    gt_digest_hash(gt_digest_mix_text(cache->seed, text)), is, text);
    if (constraints) {
        constraints->refs++;
        *ret = constraints;
    } else if (r == 0)
        r = make(cache, &parts, text, ret);
    cJSON_free(text);
    return r;
}

void gt_cache_constraints_drop(struct gt_cache *cache, struct pod_constraints *constraints)
{
    if (!constraints || --constraints->refs)
        return;
    gt_table_remove(&cache->constraints, constraints->hash, constraints);
    gt_cache_release(&cache->bytes, constraints);
}
