/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/jobs/rules.h"

struct gt_job_texts gt_job_template_texts(const struct gt_job_template *template, const char *where)
{
    struct gt_job_texts texts = template->texts;
    texts.where = where;
    return texts;
}

struct gt_job_texts gt_job_pod_texts(const struct gt_pod_meta *pod, const char *where)
{
    struct gt_job_texts texts = {.where = where};
    for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++)
        texts.of[k] = gt_pod_annotation(pod, k);
    return texts;
}

void gt_job_texts_keep(struct gt_job_texts *texts, uint32_t templates, uint32_t count)
{
    for (enum gt_pod_key k = 0; k < GT_KEY_SIZES; k++) {
        uint32_t pod = templates;
        while (pod < count && !texts[pod].of[k])
            pod++;
        for (uint32_t i = 0; pod < count && i < templates; i++)
            texts[i].of[k] = NULL;
    }
}

/* Annotations are shown without their common prefix, to keep sentences short. */
static const char *short_name(enum gt_pod_key key)
{
    return strchr(gt_pod_key_text(key), '/') + 1;
}

/* `also` says what else it may be. */
static int read_size(enum gt_pod_key key, const struct gt_job_texts *texts, const char *text,
                     const char *also, uint32_t *ret, struct gt_err **err)
{
    const char *of = texts->where[0] ? " of " : "";
    uint64_t number;
    bool digits = text[0] && strspn(text, "0123456789") == strlen(text);
    if (!digits)
        return gt_fail(err, EINVAL, "%s%s%s: \"%.60s\" is not a number of GPUs%s", short_name(key), of,
                       texts->where, text, also);
    if (!gt_text_to_unsigned(text, GT_GROUP_MAX, &number))
        return gt_fail(err, EINVAL, "%s%s%s: %.60s GPUs are more than any cluster has, the limit is %d",
                       short_name(key), of, texts->where, text, GT_GROUP_MAX);
    if (!number)
        return gt_fail(err, EINVAL, "%s%s%s: 0 is not a size, expected 1 or more GPUs", short_name(key), of,
                       texts->where);
    *ret = (uint32_t)number;
    return 0;
}

/* The job's object says how large a subgroup is. */
static int read_subgroup(const struct gt_job_texts *texts, uint32_t count, uint32_t at, uint32_t *ret,
                         struct gt_err **err)
{
    for (uint32_t i = 0; i < count && !*ret; i++)
        *ret = texts[i].subgroup;
    if (*ret > GT_GROUP_MAX)
        return gt_fail(err, EINVAL, "gpu-group-size " GT_GROUP_PART ": the limit is %d GPUs", GT_GROUP_MAX);
    return *ret ? 0
                : gt_fail(err, EINVAL,
                          "gpu-group-size%s%s: \"" GT_GROUP_PART
                          "\" is for a LeaderWorkerSet with a subGroupPolicy",
                          texts[at].where[0] ? " of " : "", texts[at].where);
}

/* The value of `key` on which all templates agree. `ret_whole` NULL: it must be a number. */
static int read_key(enum gt_pod_key key, const struct gt_job_texts *texts, uint32_t count, uint32_t *ret,
                    bool *ret_whole, struct gt_err **err)
{
    const char *agreed = NULL, *also = ret_whole ? ", nor the word " GT_GROUP_WHOLE " or " GT_GROUP_PART : "";
    uint32_t first = 0, sizes = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[i].of[key];
        bool whole = text && ret_whole && strcmp(text, GT_GROUP_WHOLE) == 0;
        bool part = text && ret_whole && strcmp(text, GT_GROUP_PART) == 0;
        uint32_t size = 0;
        if (!text)
            continue;
        GT_TRY(whole  ? 0
               : part ? read_subgroup(texts, count, i, &size, err)
                      : read_size(key, &texts[i], text, also, &size, err));
        if (agreed && size != sizes)
            return gt_fail(err, EINVAL, "%s differs within the job: %.20s on %s, %.20s on %s",
                           short_name(key), agreed, texts[first].where, text, texts[i].where);
        first = agreed ? first : i;
        agreed = text;
        sizes = size;
    }
    if (ret_whole)
        *ret_whole = agreed && !sizes;
    *ret = sizes;
    return 0;
}

/* An annotation that is one of a few words; without it the first one counts. */
struct word_rule {
    enum gt_pod_key key;
    const char *words[3], *list;
};

static int sizes_read_word(const struct word_rule *rule, const struct gt_job_texts *texts, uint32_t count,
                           unsigned *ret, struct gt_err **err)
{
    const struct gt_job_texts *first = NULL;
    *ret = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[i].of[rule->key];
        unsigned word = 0;
        if (!text)
            continue;
        while (word < GT_COUNT(rule->words) && !(rule->words[word] && strcmp(text, rule->words[word]) == 0))
            word++;
        if (word == GT_COUNT(rule->words)) {
            const char *meant = gt_text_meant(text, rule->words, rule->words[2] ? 3 : 2);
            return gt_fail(err, EINVAL, "%s%s%s: \"%.60s\" is none of %s%s%s%s", short_name(rule->key),
                           texts[i].where[0] ? " of " : "", texts[i].where, text, rule->list,
                           meant ? "; " : "", meant ? meant : "", meant ? " is meant" : "");
        }
        if (first && word != *ret)
            return gt_fail(err, EINVAL, "%s differs within the job: %s on %s, %s on %s",
                           short_name(rule->key), rule->words[*ret], first->where, rule->words[word],
                           texts[i].where);
        first = first ? first : &texts[i];
        *ret = word;
    }
    return 0;
}

/* The tiers by name; the lowest is 1. */
static const char *const tier_names[] = {"supernode", "leaf", "spine", "hall"};
static const char tier_required[] = "required=";

/* The tier that a text asks for; 0: it is none. */
static unsigned sizes_tier_of(const char *text)
{
    uint64_t tier = 0;
    if (gt_text_to_unsigned(text, GT_TIERS_MAX, &tier) && tier)
        return (unsigned)tier;
    for (unsigned i = 0; i < GT_COUNT(tier_names); i++)
        tier = strcmp(text, tier_names[i]) == 0 ? i + 1 : tier;
    return (unsigned)tier;
}

/* "required=TIER", or one of `words`: then *ret is 0, and *ret_word which. Without it the first one counts.
 */
static int sizes_read_tier(enum gt_pod_key key, const char *const *words, unsigned word_count,
                           const struct gt_job_texts *texts, uint32_t count, unsigned *ret,
                           unsigned *ret_word, struct gt_err **err)
{
    const struct gt_job_texts *first = NULL;
    const size_t prefix = sizeof(tier_required) - 1;
    *ret = *ret_word = 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *text = texts[i].of[key];
        unsigned word = 0, tier = 0;
        if (!text)
            continue;
        while (word < word_count && strcmp(text, words[word]) != 0)
            word++;
        if (word == word_count) {
            bool required = strncmp(text, tier_required, prefix) == 0;
            tier = required ? sizes_tier_of(text + prefix) : 0;
            word = 0;
            if (!tier) {
                const char *meant = required ? gt_text_meant(text + prefix, tier_names, GT_COUNT(tier_names))
                                             : gt_text_meant(text, words, word_count);
                return gt_fail(err, EINVAL,
                               "%s%s%s: \"%.60s\" is none of %srequired=TIER, where TIER is supernode, leaf, "
                               "spine, hall or a number from 1 to %d%s%s%s%s",
                               short_name(key), texts[i].where[0] ? " of " : "", texts[i].where, text,
                               word_count ? "preferred, none and " : "", GT_TIERS_MAX, meant ? "; " : "",
                               meant && required ? tier_required : "", meant ? meant : "",
                               meant ? " is meant" : "");
            }
        }
        if (first && (tier != *ret || word != *ret_word))
            return gt_fail(err, EINVAL, "%s differs within the job: %.40s on %s, %.40s on %s",
                           short_name(key), first->of[key], first->where, text, texts[i].where);
        first = first ? first : &texts[i];
        *ret = tier;
        *ret_word = word;
    }
    return 0;
}

static const struct word_rule slow_rule = {
    GT_KEY_SLOW,
    {[GT_SLOW_AVOID] = "avoid", [GT_SLOW_NEVER] = "never", [GT_SLOW_ANY] = "any"},
    "avoid, never, any"};

enum gt_slow_use gt_job_slow_use(const char *text)
{
    unsigned use = 0;
    while (text && use < GT_COUNT(slow_rule.words) && strcmp(text, slow_rule.words[use]) != 0)
        use++;
    return use < GT_COUNT(slow_rule.words) ? (enum gt_slow_use)use : GT_SLOW_AVOID;
}

int gt_job_sizes_read(const struct gt_job_texts *texts, uint32_t count, struct gt_job_sizes *ret,
                      struct gt_err **err)
{
    static const struct word_rule losses = {
        GT_KEY_LOSS,
        {[GT_ON_NODE_LOSS_WAIT] = "wait", [GT_ON_NODE_LOSS_UNIT] = "unit", [GT_ON_NODE_LOSS_JOB] = "job"},
        "wait, unit, job"};
    static const struct word_rule unplaced = {GT_KEY_UNPLACED, {"report", "recreate"}, "report, recreate"};
    static const struct word_rule spreads = {GT_KEY_SPREAD, {"none", "supernode"}, "none, supernode"};
    static const char *const closeness[] = {"preferred", "none"};
    struct gt_job_sizes sizes = {0};
    unsigned loss = 0, again = 0, spread = 0, flat = 0, slow = 0, none;
    GT_TRY(read_key(GT_KEY_GROUP, texts, count, &sizes.group, &sizes.whole, err));
    GT_TRY(read_key(GT_KEY_ATOMIC, texts, count, &sizes.atomic, NULL, err));
    GT_TRY(sizes_read_word(&losses, texts, count, &loss, err));
    GT_TRY(sizes_read_word(&unplaced, texts, count, &again, err));
    GT_TRY(sizes_read_word(&spreads, texts, count, &spread, err));
    GT_TRY(sizes_read_tier(GT_KEY_JOB_TOPOLOGY, closeness, GT_COUNT(closeness), texts, count, &sizes.within,
                           &flat, err));
    GT_TRY(sizes_read_tier(GT_KEY_GROUP_TOPOLOGY, NULL, 0, texts, count, &sizes.unit_within, &none, err));
    GT_TRY(sizes_read_word(&slow_rule, texts, count, &slow, err));
    sizes.slow = (enum gt_slow_use)slow;
    sizes.flat = flat;
    sizes.loss = (enum gt_on_node_loss)loss;
    sizes.recreate = again;
    sizes.spread = spread;
    *ret = sizes;
    return 0;
}
