/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "scheduler-ext/feed/feed_suits.h"

/* ---- taints, shared by the nodes that have them ---- */

struct taint_key {
    const char *key, *value, *effect;
};

static bool is(const void *item, const void *wanted)
{
    const struct feed_taint *taint = item;
    const struct taint_key *key = wanted;
    return strcmp(taint->key, key->key) == 0 && strcmp(taint->value, key->value) == 0 &&
           strcmp(taint->effect, key->effect) == 0;
}

struct feed_taint *gt_feed_taint(struct gt_feed *feed, const char *key, const char *value, const char *effect)
{
    struct taint_key wanted = {key, value, effect};
    uint64_t digest = gt_feed_mix_text(gt_feed_mix_text(gt_feed_mix_text(feed->seed, key), value), effect);
    uint32_t hash = gt_feed_hash(digest);
    struct feed_taint *taint = gt_feed_table_find(&feed->taints, hash, is, &wanted);
    if (taint) {
        taint->refs++;
        return taint;
    }
    size_t sizes[] = {strlen(key) + 1, strlen(value) + 1, strlen(effect) + 1};
    taint = gt_feed_alloc(&feed->bytes, sizeof(*taint) + sizes[0] + sizes[1] + sizes[2]);
    if (!taint)
        return NULL;
    char *text = (char *)(taint + 1);
    taint->key = memcpy(text, key, sizes[0]);
    taint->value = memcpy(text + sizes[0], value, sizes[1]);
    taint->effect = memcpy(text + sizes[0] + sizes[1], effect, sizes[2]);
    taint->hash = hash;
    taint->refs = 1;
    if (gt_feed_table_add(&feed->taints, &feed->bytes, hash, taint) < 0) {
        gt_feed_release(&feed->bytes, taint);
        return NULL;
    }
    return taint;
}

void gt_feed_taint_drop(struct gt_feed *feed, struct feed_taint *taint)
{
    if (--taint->refs)
        return;
    gt_feed_table_remove(&feed->taints, taint->hash, taint);
    gt_feed_release(&feed->bytes, taint);
}

static bool tolerates(const struct feed_suit *suit, const struct feed_taint *taint)
{
    for (uint32_t i = 0; suit && i < suit->toleration_count; i++) {
        const struct feed_toleration *by = &suit->tolerations[i];
        if ((!by->key || strcmp(by->key, taint->key) == 0) &&
            (!by->effect || strcmp(by->effect, taint->effect) == 0) &&
            (by->exists || strcmp(by->value, taint->value) == 0))
            return true;
    }
    return false;
}

/* ---- labels ---- */

static const char *label_of(const struct feed_node *node, const char *key)
{
    uint32_t low = 0, high = node->label_count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        int order = strcmp(key, node->labels[middle].key);
        if (order == 0)
            return node->labels[middle].value;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

static bool to_integer(const char *text, int64_t *ret)
{
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (errno || end == text || *end || strchr(" \t\n\v\f\r", text[0]))
        return false;
    *ret = value;
    return true;
}

static bool is_among(const struct feed_suit *suit, const struct feed_expression *expression, const char *text)
{
    for (uint32_t i = 0; i < expression->value_count; i++)
        if (strcmp(suit->values[expression->first_value + i], text) == 0)
            return true;
    return false;
}

static bool holds(const struct feed_suit *suit, const struct feed_expression *expression,
                  const struct feed_node *node)
{
    const char *value = expression->is_name ? node->name : label_of(node, expression->key);
    int64_t is, limit;
    switch (expression->how) {
    case FEED_IN:
        return value && is_among(suit, expression, value);
    case FEED_NOT_IN:
        return !value || !is_among(suit, expression, value);
    case FEED_EXISTS:
        return value;
    case FEED_DOES_NOT_EXIST:
        return !value;
    case FEED_GT:
    case FEED_LT:
        if (!value || expression->value_count != 1 || !to_integer(value, &is) ||
            !to_integer(suit->values[expression->first_value], &limit))
            return false;
        return expression->how == FEED_GT ? is > limit : is < limit;
    case FEED_NEVER:
        break;
    }
    return false;
}

static bool matches(const struct feed_suit *suit, const struct feed_node *node)
{
    for (uint32_t i = 0; i < suit->selector_count; i++)
        if (!holds(suit, &suit->expressions[i], node))
            return false;
    for (uint32_t t = 0; t < suit->term_count; t++) {
        uint32_t held = 0;
        while (held < suit->terms[t].count &&
               holds(suit, &suit->expressions[suit->terms[t].first + held], node))
            held++;
        if (held && held == suit->terms[t].count)
            return true;
    }
    return !suit->has_terms;
}

/* ---- questions ---- */

bool gt_feed_pod_suits(const struct gt_feed *feed, const struct gt_feed_pod *pub, uint32_t node_id)
{
    const struct feed_pod *pod = (const struct feed_pod *)pub;
    const struct feed_node *node = gt_feed_node_of(feed, node_id);
    if (!node || !node->has_node)
        return false;
    if (pod->at)
        return pod->at == node;
    for (uint32_t i = 0; i < node->taint_count; i++)
        if (!tolerates(pod->suit, node->taints[i]))
            return false;
    return !pod->suit || matches(pod->suit, node);
}

bool gt_feed_pod_is_choosy(const struct gt_feed *feed, const struct gt_feed_pod *pub)
{
    const struct feed_pod *pod = (const struct feed_pod *)pub;
    if (pod->at || (pod->suit && (pod->suit->selector_count || pod->suit->has_terms)))
        return true;
    for (const struct feed_taint *taint = gt_feed_table_after(&feed->taints, 0, NULL); taint;
         taint = gt_feed_table_after(&feed->taints, taint->hash, taint))
        if (taint->ready_nodes && !tolerates(pod->suit, taint))
            return true;
    return false;
}
