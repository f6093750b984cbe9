/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/core/decision_log.h"

#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/time_text.h"
#include "scheduler-ext/core/internal.h"

/*
 * What is kept of a decision. A cluster of 10,000 nodes is planned on in a tenth of a millisecond: so what
 * has a value for each node is copied as it is, shared with the last decision where it is the same, and
 * written as text only when somebody asks.
 */
struct kept_bytes {
    uint32_t users;
    size_t len;
    char data[];
};

enum kept_column {
    KEPT_FREE,
    KEPT_HEALTHY,
    KEPT_SLOW,
    KEPT_ELIGIBLE,
    KEPT_LIMITS,
    KEPT_EXCLUDED,
    KEPT_CLUSTER, /* its line of JSON: it changes seldom */
    KEPT_COLUMNS
};

struct kept {
    uint64_t number, wall_ms, shape;
    uint32_t nodes;
    struct kept_bytes *columns[KEPT_COLUMNS];
    char *job, *text; /* text: the beginning of its JSON */
    size_t len;
    bool placed;
};

/* Numbers in order, of which -1 is GT_NONE; masks are hexadecimal texts, since JSON numbers end at 2^53. */

static void decision_add_id(struct gt_buf *to, const char *key, uint32_t id)
{
    gt_json_add_int(to, key, id == GT_NONE ? -1 : (int64_t)id);
}

static void add_ids(struct gt_buf *to, const char *key, const uint32_t *ids, uint32_t count)
{
    gt_json_begin(to, key, '[');
    for (uint32_t i = 0; i < count; i++)
        decision_add_id(to, NULL, ids[i]);
    gt_json_end(to, ']');
}

static void add_bits(struct gt_buf *to, const char *key, uint64_t mask)
{
    char text[17], *first = &text[16];
    *first = 0;
    do
        *--first = "0123456789abcdef"[mask & 15];
    while (mask >>= 4);
    gt_json_add_text(to, key, first);
}

/* Pairs: the first node of a run, the last one. */
static void decision_add_nodes(struct gt_buf *to, const char *key, const struct gt_node_set *set)
{
    gt_json_begin(to, key, '[');
    for (uint32_t n = gt_node_set_next(set, 0), last; n != UINT32_MAX; n = gt_node_set_next(set, last + 1)) {
        for (last = n; gt_node_set_has(set, last + 1);)
            last++;
        gt_json_add_unsigned(to, NULL, n);
        gt_json_add_unsigned(to, NULL, last);
    }
    gt_json_end(to, ']');
}

/* ---- the cluster without its state ---- */

static void add_class(struct gt_buf *to, const struct gt_class *class)
{
    const struct gt_numa *numa = gt_class_numa(class);
    unsigned n = gt_class_gpus(class);
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "gpus", n);
    gt_json_begin(to, "weights", '[');
    for (unsigned i = 0; i < n; i++)
        for (unsigned j = i + 1; j < n; j++)
            gt_json_add_unsigned(to, NULL, gt_class_sum(class, UINT64_C(1) << i | UINT64_C(1) << j));
    gt_json_end(to, ']');
    if (numa->count) {
        gt_json_begin(to, "numa", '{');
        gt_json_add_bool(to, "single", numa->single);
        gt_json_add_bool(to, "byPod", numa->by_pod);
        gt_json_begin(to, "gpus", '[');
        for (unsigned i = 0; i < numa->count; i++)
            add_bits(to, NULL, numa->gpus[i]);
        gt_json_ends(to, "]}");
    }
    gt_json_end(to, '}');
}

/* Those that were added, parents first. */
static void add_supernodes(struct gt_buf *to, const struct gt_cluster *cluster)
{
    gt_json_begin(to, "supernodes", '[');
    for (unsigned tier = GT_TIERS_MAX; tier > 0; tier--)
        for (uint32_t s = 0; s < cluster->super_count; s++) {
            const struct super *super = &cluster->supers[s];
            if (super->tier != tier || super->self != GT_NONE)
                continue;
            gt_json_begin(to, NULL, '[');
            gt_json_add_unsigned(to, NULL, s);
            gt_json_add_text(to, NULL, cluster->super_names.text[s]);
            gt_json_add_unsigned(to, NULL, tier);
            decision_add_id(to, NULL, super->parent);
            gt_json_end(to, ']');
        }
    gt_json_end(to, ']');
}

/* Each is in a supernode that was added, or (four values) it is one by itself, below another or none. */
static void add_nodes_of(struct gt_buf *to, const struct gt_cluster *cluster)
{
    gt_json_begin(to, "nodes", '[');
    for (uint32_t n = 0; n < cluster->node_count; n++) {
        const char *name = cluster->node_names.text[n];
        if (!name) {
            gt_json_add_null(to, NULL);
            continue;
        }
        const struct super *super = &cluster->supers[cluster->super[n]];
        gt_json_begin(to, NULL, '[');
        gt_json_add_text(to, NULL, name);
        gt_json_add_unsigned(to, NULL, cluster->class[n]);
        gt_json_add_unsigned(to, NULL, cluster->super[n]);
        if (super->self != GT_NONE)
            decision_add_id(to, NULL, super->parent);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

static void kept_cluster_json(const struct gt_cluster *cluster, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "cluster", cluster->shape);
    gt_json_begin(to, "classes", '[');
    for (uint32_t c = 0; c < cluster->class_count; c++)
        add_class(to, cluster->classes[c]);
    gt_json_end(to, ']');
    gt_json_add_unsigned(to, "supernodeIds", cluster->super_count);
    add_supernodes(to, cluster);
    add_nodes_of(to, cluster);
    gt_json_end(to, '}');
    gt_buf_puts(to, "\n");
}

/* ---- what is small: written at once ---- */

/* GPUs that are not available to others, whoever has the promise. */
static void add_promises(struct gt_buf *to, const struct gt_cluster *cluster)
{
    gt_json_begin(to, "promises", '[');
    for (uint32_t i = 0; i < cluster->promise_count; i++) {
        const struct promise *promise = &cluster->promises[i];
        if (promise->told.place.node == GT_NONE || !promise->taken)
            continue;
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, promise->told.place.node);
        gt_json_add_unsigned(to, NULL, promise->told.kind);
        add_bits(to, NULL, promise->taken);
        if (promise->told.requests)
            add_bits(to, NULL, promise->told.requests);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

static void add_passed(struct gt_buf *to, const struct gt_cluster *cluster)
{
    gt_json_begin(to, "passed", '[');
    for (uint32_t i = 0; i < cluster->passed_count; i++) {
        gt_json_begin(to, NULL, '{');
        gt_json_add_unsigned(to, "gpus", cluster->passed[i].pod.gpus);
        if (cluster->passed[i].pod.requests)
            add_bits(to, "requests", cluster->passed[i].pod.requests);
        decision_add_nodes(to, "nodes", &cluster->passed[i].nodes);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

static void add_chain(struct gt_buf *to, const struct chain *chain)
{
    gt_json_begin(to, chain->fixed ? "chain" : "seen", '[');
    for (unsigned i = 0; chain->fixed && i < chain->sizes.count; i++)
        gt_json_add_unsigned(to, NULL, chain->sizes.size[i]);
    for (unsigned i = 0; !chain->fixed && i < chain->seen_count; i++) {
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, chain->seen[i].size);
        gt_json_add_unsigned(to, NULL, chain->seen[i].present);
        gt_json_add_real(to, NULL, chain->seen[i].past, 17);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

/* How many of each: pods, GPUs of a pod, pods of an atom, tier. Equal ones that follow each other are one
 * entry. */
static void add_units(struct gt_buf *to, const struct gt_plan_request *request)
{
    gt_json_begin(to, "units", '[');
    for (uint32_t u = 0, end; u < request->unit_count; u = end) {
        const struct gt_plan_unit *unit = &request->units[u], *other = unit;
        for (end = u + 1; end < request->unit_count; end++) {
            other = &request->units[end];
            if (other->pods != unit->pods || other->gpus != unit->gpus || other->atom != unit->atom ||
                other->within != unit->within)
                break;
        }
        const uint32_t numbers[] = {end - u, unit->pods, unit->gpus, unit->atom, unit->within};
        add_ids(to, NULL, numbers, GT_COUNT(numbers));
    }
    gt_json_end(to, ']');
}

/* Pods that have their place. */
static void add_running(struct gt_buf *to, const struct gt_plan_request *request)
{
    gt_json_begin(to, "running", '[');
    for (uint32_t i = 0; i < request->pod_count; i++) {
        const struct gt_plan_pod *pod = &request->pods[i];
        if (!pod->running)
            continue;
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, i);
        decision_add_id(to, NULL, pod->place.node);
        add_bits(to, NULL, pod->place.mask);
        gt_json_add_bool(to, NULL, pod->left_out);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

/* Of pods with several containers: each entry is also that of the pods after it. */
static void decision_json_add_requests(struct gt_buf *to, const struct gt_plan_request *request)
{
    uint64_t last = 0;
    gt_json_begin(to, "requests", '[');
    for (uint32_t i = 0; i < request->pod_count; i++) {
        if (request->pods[i].requests == last)
            continue;
        last = request->pods[i].requests;
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, i);
        add_bits(to, NULL, last);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

static void add_rule(struct gt_buf *to, const struct gt_plan_rules *rules, const struct gt_plan_rule *rule,
                     uint32_t nodes)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_unsigned(to, "kind", rule->kind);
    gt_json_add_unsigned(to, "domains", rule->domains);
    if (rule->domain)
        add_ids(to, "domain", rule->domain, nodes);
    add_bits(to, "who", rule->who);
    add_bits(to, "with", rule->with);
    if (rule->there)
        add_ids(to, "there", rule->there, rule->domain ? rule->domains : nodes);
    if (rule->take)
        add_ids(to, "take", rule->take, rules->sorts);
    gt_json_add_unsigned(to, "skew", rule->skew);
    gt_json_add_unsigned(to, "fewest", rule->fewest);
    gt_json_end(to, '}');
}

static void decision_add_rules(struct gt_buf *to, const struct gt_plan_rules *rules, uint32_t pods,
                               uint32_t nodes)
{
    gt_json_begin(to, "rules", '{');
    gt_json_begin(to, "sort", '[');
    for (uint32_t i = 0; i < pods; i++)
        gt_json_add_unsigned(to, NULL, rules->sort[i]);
    gt_json_end(to, ']');
    gt_json_begin(to, "barred", '[');
    for (unsigned i = 0; i < rules->sorts; i++)
        decision_add_nodes(to, NULL, &rules->barred[i]);
    gt_json_end(to, ']');
    gt_json_begin(to, "rules", '[');
    for (unsigned i = 0; i < rules->count; i++)
        add_rule(to, rules, &rules->rules[i], nodes);
    gt_json_end(to, ']');
    if (rules->excluded)
        decision_add_nodes(to, "excluded", rules->excluded);
    gt_json_add_bool(to, "incomplete", rules->incomplete);
    gt_json_end(to, '}');
}

static void kept_decision_json(struct gt_cluster *cluster, const struct gt_decided *decided,
                               struct gt_buf *to)
{
    const struct gt_plan_request *request = decided->request;
    gt_auto_buf struct gt_buf result = GT_BUF(to->max);
    gt_plan_result_text(cluster, request, decided->placed ? NULL : decided->failure, &result);
    to->failed |= result.failed;
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "job", decided->job);
    gt_json_add_text(to, "text", result.data ? result.data : "");
    gt_json_add_bool(to, "static", cluster->rule == GT_RULE_STATIC);
    gt_json_add_bool(to, "crowded", cluster->crowded);
    gt_json_add_bool(to, "close", cluster->prefers_close);
    add_chain(to, &cluster->chain);
    add_promises(to, cluster);
    add_passed(to, cluster);
    gt_json_add_unsigned(to, "pods", request->pod_count);
    add_units(to, request);
    add_running(to, request);
    if (request->rules)
        decision_add_rules(to, request->rules, request->pod_count, cluster->node_count);
    decision_json_add_requests(to, request);
    gt_json_add_bool(to, "flat", request->flat);
    gt_json_add_unsigned(to, "slow", request->slow);
    gt_json_add_unsigned(to, "within", request->within);
}

/* ---- the rest, when somebody asks ---- */

static uint64_t mask_of(const struct kept *kept, enum kept_column column, uint32_t node)
{
    uint64_t mask;
    memcpy(&mask, kept->columns[column]->data + node * sizeof(mask), sizeof(mask));
    return mask;
}

/* Of each node that differs from the one before: its id, masks of free, healthy and slow GPUs, and whether it
 * is eligible. */
static void add_masks(struct gt_buf *to, const struct kept *kept)
{
    const char *eligible = kept->columns[KEPT_ELIGIBLE]->data;
    uint64_t last[KEPT_ELIGIBLE] = {0};
    gt_json_begin(to, "masks", '[');
    for (uint32_t n = 0; n < kept->nodes; n++) {
        bool same = n && eligible[n] == eligible[n - 1];
        for (enum kept_column c = KEPT_FREE; c < KEPT_ELIGIBLE; c++) {
            uint64_t mask = mask_of(kept, c, n);
            same = same && mask == last[c];
            last[c] = mask;
        }
        if (same)
            continue;
        gt_json_begin(to, NULL, '[');
        gt_json_add_unsigned(to, NULL, n);
        for (enum kept_column c = KEPT_FREE; c < KEPT_ELIGIBLE; c++)
            add_bits(to, NULL, last[c]);
        gt_json_add_bool(to, NULL, eligible[n]);
        gt_json_end(to, ']');
    }
    gt_json_end(to, ']');
}

static void kept_json(const struct kept *kept, struct gt_buf *to)
{
    const struct kept_bytes *limits = kept->columns[KEPT_LIMITS], *excluded = kept->columns[KEPT_EXCLUDED];
    char time[GT_TIME_TEXT_SIZE];
    const struct timespec when = {.tv_sec = (time_t)(kept->wall_ms / 1000),
                                  .tv_nsec = (long)(kept->wall_ms % 1000) * 1000000};
    gt_time_text_fine(&when, 3, time);
    gt_buf_add(to, kept->text, kept->len);
    gt_json_add_unsigned(to, "decision", kept->number);
    gt_json_add_unsigned(to, "cluster", kept->shape);
    gt_json_add_text(to, "time", time);
    add_masks(to, kept);
    gt_json_begin(to, "limits", '[');
    for (size_t i = 0; i < limits->len; i += sizeof(struct gt_plan_limit)) {
        struct gt_plan_limit limit;
        memcpy(&limit, limits->data + i, sizeof(limit));
        gt_json_add_unsigned(to, NULL, limit.node);
        gt_json_add_unsigned(to, NULL, limit.gpus);
    }
    gt_json_end(to, ']');
    gt_auto_free uint64_t *bits = malloc(excluded->len + 1);
    if (bits)
        memcpy(bits, excluded->data, excluded->len);
    to->failed |= !bits;
    decision_add_nodes(to, "excluded", &(struct gt_node_set){bits, bits ? (uint32_t)(8 * excluded->len) : 0});
    gt_json_end(to, '}');
    gt_buf_puts(to, "\n");
}

enum { KEPT_TEXT_MAX = GT_DECISIONS_BYTES };

struct gt_decision_log {
    struct kept list[GT_DECISIONS_MAX]; /* oldest first */
    uint32_t count;
    uint64_t number, left_out, wall_ms;
    size_t bytes;
};

int gt_decision_log_new(struct gt_decision_log **ret, struct gt_err **err)
{
    struct gt_decision_log *log = calloc(1, sizeof(*log));
    GT_NEED(log, err, "decisions");
    *ret = log;
    return 0;
}

static void kept_done(struct gt_decision_log *log, struct kept *kept)
{
    for (unsigned i = 0; i < KEPT_COLUMNS; i++)
        if (kept->columns[i] && --kept->columns[i]->users == 0) {
            log->bytes -= kept->columns[i]->len;
            free(kept->columns[i]);
        }
    log->bytes -= kept->len;
    free(kept->job);
    free(kept->text);
}

static void drop(struct gt_decision_log *log, uint32_t at)
{
    struct kept *kept = &log->list[at];
    kept_done(log, kept);
    log->count--;
    memmove(kept, kept + 1, (log->count - at) * sizeof(*kept));
}

void gt_decision_log_free(struct gt_decision_log *log)
{
    while (log && log->count)
        drop(log, log->count - 1);
    free(log);
}

void gt_decision_log_set_time(struct gt_decision_log *log, uint64_t wall_ms)
{
    log->wall_ms = wall_ms;
}

/* Takes over what the last decision has if it is the same. False without memory. */
static bool keep_column(struct gt_decision_log *log, struct kept *kept, enum kept_column column,
                        const void *data, size_t len)
{
    struct kept_bytes *last = log->count ? log->list[log->count - 1].columns[column] : NULL;
    if (last && last->len == len && (!len || memcmp(last->data, data, len) == 0)) {
        last->users++;
        kept->columns[column] = last;
        return true;
    }
    struct kept_bytes *made = kept->columns[column] = malloc(sizeof(*made) + len);
    if (!made)
        return false;
    made->users = 1;
    made->len = len;
    if (len)
        memcpy(made->data, data, len);
    log->bytes += len;
    return true;
}

static bool keep_cluster(struct gt_decision_log *log, struct kept *kept, const struct gt_cluster *cluster)
{
    const struct kept *last = log->count ? &log->list[log->count - 1] : NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(KEPT_TEXT_MAX);
    kept->shape = cluster->shape;
    kept->nodes = cluster->node_count;
    if (last && last->shape == cluster->shape) {
        kept->columns[KEPT_CLUSTER] = last->columns[KEPT_CLUSTER];
        kept->columns[KEPT_CLUSTER]->users++;
        return true;
    }
    kept_cluster_json(cluster, &text);
    return !text.failed && keep_column(log, kept, KEPT_CLUSTER, text.data, text.len);
}

static bool keep_all(struct gt_decision_log *log, struct kept *kept, struct gt_cluster *cluster,
                     const struct gt_decided *decided)
{
    const struct gt_plan_request *request = decided->request;
    const struct gt_node_set *excluded = request->excluded;
    size_t masks = cluster->node_count * sizeof(uint64_t);
    gt_auto_buf struct gt_buf text = GT_BUF(KEPT_TEXT_MAX);
    kept_decision_json(cluster, decided, &text);
    kept->job = strdup(decided->job);
    kept->len = text.failed ? 0 : text.len;
    kept->text = gt_buf_take(&text);
    log->bytes += kept->len;
    return kept->job && kept->text && keep_cluster(log, kept, cluster) &&
           keep_column(log, kept, KEPT_FREE, cluster->free, masks) &&
           keep_column(log, kept, KEPT_HEALTHY, cluster->healthy, masks) &&
           keep_column(log, kept, KEPT_SLOW, cluster->slow, masks) &&
           keep_column(log, kept, KEPT_ELIGIBLE, cluster->eligible,
                       cluster->node_count * sizeof(*cluster->eligible)) &&
           keep_column(log, kept, KEPT_LIMITS, request->limits,
                       request->limit_count * sizeof(*request->limits)) &&
           keep_column(log, kept, KEPT_EXCLUDED, excluded ? excluded->bits : NULL,
                       excluded ? gt_core_words(excluded->nodes) * sizeof(uint64_t) : 0);
}

static void drop_waiting(struct gt_decision_log *log, const char *job)
{
    for (uint32_t i = log->count; i > 0; i--)
        if (!log->list[i - 1].placed && strcmp(log->list[i - 1].job, job) == 0)
            drop(log, i - 1);
}

void gt_decision_log_add(struct gt_decision_log *log, struct gt_cluster *cluster,
                         const struct gt_decided *decided)
{
    if (!log)
        return;
    struct kept kept = {.number = log->number + 1, .wall_ms = log->wall_ms, .placed = decided->placed};
    if (!keep_all(log, &kept, cluster, decided)) {
        log->left_out++;
        kept_done(log, &kept);
        return;
    }
    log->number++;
    drop_waiting(log, decided->job);
    while (log->count == GT_DECISIONS_MAX || (log->count && log->bytes > GT_DECISIONS_BYTES))
        drop(log, 0);
    log->list[log->count++] = kept;
}

void gt_decision_log_write(const struct gt_decision_log *log, uint64_t after, size_t max, struct gt_buf *to)
{
    const struct kept_bytes *told = NULL;
    size_t begun = to->len;
    for (uint32_t i = 0; i < log->count && (to->len == begun || to->len - begun < max); i++) {
        const struct kept *kept = &log->list[i];
        const struct kept_bytes *cluster = kept->columns[KEPT_CLUSTER];
        if (kept->number <= after)
            continue;
        if (cluster != told)
            gt_buf_add(to, cluster->data, cluster->len);
        told = cluster;
        kept_json(kept, to);
    }
}

struct gt_decision_log_size gt_decision_log_size(const struct gt_decision_log *log)
{
    return (struct gt_decision_log_size){log->count, log->left_out, log->bytes};
}
