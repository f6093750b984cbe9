/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/file/cluster_file.h"

#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "base/json.h"
#include "base/json_get.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/core/decision_log.h"
#include "scheduler-ext/core/numa_room.h"

enum { DECISION_TEXT_MAX = 64 << 20 };

/* A decision that is being read, and what it owns. */
struct decision {
    struct gt_cluster *cluster;
    uint32_t nodes;
    bool *exists; /* [node] */
    struct gt_plan_request request;
    struct gt_node_set excluded, loose; /* loose: of the rules */
    struct gt_plan_rules rules;
    struct gt_plan_limit *limits;
    struct gt_err **err;
};

static void decision_done(struct decision *decision)
{
    gt_cluster_free(decision->cluster);
    free(decision->exists);
    free(decision->request.units);
    free(decision->request.pods);
    free(decision->limits);
    gt_node_set_done(&decision->excluded);
    gt_node_set_done(&decision->loose);
    gt_plan_rules_done(&decision->rules);
}

static int decision_is_wrong(const struct decision *decision, const char *what)
{
    return gt_fail(decision->err, EINVAL, "%s: expected as gputopo-scheduler writes it", what);
}

/* ---- lists: `*at` is the next element ---- */

/* A whole number up to `max`; where `none` is allowed, -1 is GT_NONE. */
static bool next_number(const cJSON **at, uint64_t max, bool none, uint64_t *ret)
{
    int64_t number;
    if (!gt_json_is_int(*at, &number) || (number < 0 && !(none && number == -1)) ||
        (number >= 0 && (uint64_t)number > max))
        return false;
    *ret = number < 0 ? GT_NONE : (uint64_t)number;
    *at = (*at)->next;
    return true;
}

static bool next_id(const cJSON **at, uint64_t below, bool none, uint32_t *ret)
{
    uint64_t id;
    if ((!below && !none) || !next_number(at, below ? below - 1 : 0, none, &id) || (!below && id != GT_NONE))
        return false;
    *ret = (uint32_t)id;
    return true;
}

static bool to_bits(const cJSON *value, uint64_t *ret)
{
    const char *text = cJSON_GetStringValue(value);
    if (!text || !*text || strlen(text) > 16 || strspn(text, "0123456789abcdef") != strlen(text))
        return false;
    *ret = strtoull(text, NULL, 16);
    return true;
}

static bool next_bits(const cJSON **at, uint64_t *ret)
{
    if (!to_bits(*at, ret))
        return false;
    *at = (*at)->next;
    return true;
}

static const cJSON *first_of(const cJSON *object, const char *key)
{
    const cJSON *list = gt_get(object, key);
    return cJSON_IsArray(list) ? list->child : NULL;
}

/* Pairs of nodes, the first and the last of a run, in order. */
static int read_nodes(const struct decision *decision, const cJSON *list, struct gt_node_set *to)
{
    const cJSON *at = cJSON_IsArray(list) ? list->child : NULL;
    uint32_t first, last = 0, next = 0;
    for (; at; next = last + 1) {
        if (!next_id(&at, GT_CLUSTER_NODES_MAX, false, &first) ||
            !next_id(&at, GT_CLUSTER_NODES_MAX, false, &last) || first < next || last < first)
            return decision_is_wrong(decision, "a list of nodes");
        for (uint32_t n = first; n <= last; n++)
            GT_TRY(gt_node_set_add(to, n, decision->err));
    }
    return 0;
}

/* As many ids below `below` as `count`. */
static int read_ids(const struct decision *decision, const cJSON *list, uint32_t count, uint64_t below,
                    uint32_t **ret)
{
    const cJSON *at = cJSON_IsArray(list) ? list->child : NULL;
    uint32_t *ids = *ret = calloc((size_t)count + 1, sizeof(*ids));
    GT_NEED(ids, decision->err, "decision");
    for (uint32_t i = 0; i < count; i++)
        if (!next_id(&at, below, true, &ids[i]))
            return decision_is_wrong(decision, "a rule between pods");
    return at ? decision_is_wrong(decision, "a rule between pods") : 0;
}

/* ---- the cluster ---- */

static int read_numa(const struct decision *decision, const cJSON *json, struct gt_numa *ret)
{
    const cJSON *numa = gt_get(json, "numa"), *at = first_of(numa, "gpus");
    ret->single = cJSON_IsTrue(gt_get(numa, "single"));
    ret->by_pod = cJSON_IsTrue(gt_get(numa, "byPod"));
    while (at)
        if (ret->count == GT_NUMA_DOMAINS_MAX || !next_bits(&at, &ret->gpus[ret->count++]))
            return decision_is_wrong(decision, "numa");
    return 0;
}

static int read_classes(const struct decision *decision, const cJSON *json)
{
    for (const cJSON *item = first_of(json, "classes"); item; item = item->next) {
        struct gt_weights weights = {0};
        uint64_t n, weight;
        uint32_t id;
        const cJSON *at = first_of(item, "weights");
        gt_auto_class struct gt_class *class = NULL;
        if (!gt_json_is_unsigned(gt_get(item, "gpus"), GT_GPUS_MAX, &n))
            return decision_is_wrong(decision, "gpus");
        weights.n = (unsigned)n;
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = i + 1; j < n; j++) {
                if (!next_number(&at, UINT16_MAX, false, &weight))
                    return decision_is_wrong(decision, "weights");
                weights.w[i][j] = weights.w[j][i] = (uint16_t)weight;
            }
        GT_TRY(read_numa(decision, item, &weights.numa));
        GT_TRY(gt_class_new(&weights, &class, decision->err));
        GT_TRY(gt_cluster_add_class(decision->cluster, class, &id, decision->err));
    }
    return 0;
}

/* The ids of supernodes and nodes, in the order in which they are added. */
static int read_cluster_ids(struct decision *decision, const cJSON *json)
{
    const cJSON *supernodes = gt_get(json, "supernodes"), *nodes = gt_get(json, "nodes");
    uint64_t ids, most = GT_CLUSTER_SUPERNODES_MAX + GT_CLUSTER_NODES_MAX;
    int super_count = cJSON_GetArraySize(supernodes), node_count = cJSON_GetArraySize(nodes);
    struct gt_cluster_ids of = {.node_ids = (uint32_t)node_count};
    if (!gt_json_is_unsigned(gt_get(json, "supernodeIds"), most, &ids) || node_count > GT_CLUSTER_NODES_MAX ||
        (uint64_t)super_count > ids)
        return decision_is_wrong(decision, "a cluster");
    gt_auto_free uint32_t *supers = calloc(ids + 1, sizeof(*supers));
    gt_auto_free uint32_t *own = calloc((size_t)node_count + 1, sizeof(*own));
    gt_auto_free bool *seen = calloc(ids + 1, sizeof(*seen));
    decision->exists = calloc((size_t)node_count + 1, sizeof(*decision->exists));
    GT_NEED(supers && own && seen && decision->exists, decision->err, "decision");
    of.supernode_ids = (uint32_t)ids;
    decision->nodes = of.node_ids;
    for (const cJSON *item = supernodes ? supernodes->child : NULL; item; item = item->next) {
        const cJSON *at = item->child;
        if (!next_id(&at, ids, false, &supers[of.supernode_count]) || seen[supers[of.supernode_count]])
            return decision_is_wrong(decision, "supernodes");
        seen[supers[of.supernode_count++]] = true;
    }
    uint32_t node = 0;
    for (const cJSON *item = nodes ? nodes->child : NULL; item; item = item->next, node++) {
        uint32_t super;
        const cJSON *at = cJSON_GetArrayItem(item, 2);
        if (!item->child)
            continue;
        decision->exists[node] = true;
        own[of.node_count++] = node;
        if (!next_id(&at, ids, false, &super) || (at && seen[super]) || (!at && !seen[super]))
            return decision_is_wrong(decision, "nodes");
        if (at) { /* a supernode by itself */
            seen[super] = true;
            supers[of.supernode_count++] = super;
        }
    }
    of.nodes = own;
    of.supernodes = supers;
    return gt_cluster_set_ids(decision->cluster, &of, decision->err);
}

static int read_supernodes(const struct decision *decision, const cJSON *json)
{
    uint64_t most = GT_CLUSTER_SUPERNODES_MAX + GT_CLUSTER_NODES_MAX, tier;
    for (const cJSON *item = first_of(json, "supernodes"); item; item = item->next) {
        const cJSON *at = item->child ? item->child->next : NULL;
        const char *name = cJSON_GetStringValue(at);
        uint32_t parent, id;
        at = name ? at->next : NULL;
        if (!next_number(&at, GT_TIERS_MAX, false, &tier) || !next_id(&at, most, true, &parent))
            return decision_is_wrong(decision, "supernodes");
        GT_TRY(gt_cluster_add_supernode(decision->cluster, name, (unsigned)tier, parent, &id, decision->err));
    }
    return 0;
}

static int read_cluster(struct decision *decision, const cJSON *json)
{
    uint64_t most = GT_CLUSTER_SUPERNODES_MAX + GT_CLUSTER_NODES_MAX;
    GT_TRY(gt_cluster_new(&decision->cluster, decision->err));
    GT_TRY(read_classes(decision, json));
    GT_TRY(read_cluster_ids(decision, json));
    GT_TRY(read_supernodes(decision, json));
    for (const cJSON *item = first_of(json, "nodes"); item; item = item->next) {
        const cJSON *at = item->child;
        const char *name = cJSON_GetStringValue(at);
        uint32_t class, super, id;
        if (!at)
            continue;
        at = at->next;
        if (!name || !next_id(&at, GT_CLUSTER_CLASSES_MAX, false, &class) ||
            !next_id(&at, most, false, &super) || (at && !next_id(&at, most, true, &super)))
            return decision_is_wrong(decision, "nodes");
        GT_TRY(gt_cluster_add_node(decision->cluster, name, class, super, &id, decision->err));
    }
    return 0;
}

/* ---- its state ---- */

static int read_chain(const struct decision *decision, const cJSON *state)
{
    struct gt_chain_sizes sizes = {0};
    uint64_t size;
    const cJSON *at = first_of(state, "chain");
    while (at) {
        if (sizes.count == GT_CHAIN_MAX || !next_number(&at, GT_CHAIN_SIZE_MAX, false, &size))
            return decision_is_wrong(decision, "chain");
        sizes.size[sizes.count++] = (unsigned)size;
    }
    for (const cJSON *item = first_of(state, "seen"); item; item = item->next) {
        struct gt_chain_seen seen = {0};
        at = item->child;
        if (!next_number(&at, GT_CHAIN_SIZE_MAX, false, &size) || !size ||
            !next_number(&at, INT64_MAX, false, &seen.present) || !cJSON_IsNumber(at))
            return decision_is_wrong(decision, "seen");
        seen.size = (uint32_t)size;
        seen.past = at->valuedouble;
        gt_chain_adopt(decision->cluster, &seen);
    }
    return gt_get(state, "chain") ? gt_chain_set(decision->cluster, &sizes, decision->err) : 0;
}

static int read_promises(const struct decision *decision, const cJSON *state)
{
    for (const cJSON *item = first_of(state, "promises"); item; item = item->next) {
        struct gt_promise promise = {0};
        struct gt_promise_id id;
        const cJSON *at = item->child;
        uint32_t kind;
        if (!next_id(&at, decision->nodes, false, &promise.place.node) ||
            !next_id(&at, GT_PROMISE_NODE, false, &kind) || !next_bits(&at, &promise.place.mask) ||
            (at && !next_bits(&at, &promise.requests)))
            return decision_is_wrong(decision, "promises");
        promise.kind = (enum gt_promise_kind)kind;
        GT_TRY(gt_cluster_promise(decision->cluster, &promise, &id, decision->err));
    }
    return 0;
}

/* The nodes' masks: each entry is also that of the nodes after it. */
static int read_masks(const struct decision *decision, const cJSON *state)
{
    uint64_t free = 0, healthy = 0, slow = 0;
    bool eligible = false;
    uint32_t next;
    const cJSON *item = first_of(state, "masks");
    for (uint32_t node = 0; node < decision->nodes; node++) {
        const cJSON *at = item ? item->child : NULL;
        if (item && !next_id(&at, decision->nodes, false, &next))
            return decision_is_wrong(decision, "masks");
        if (item && next == node) {
            if (!next_bits(&at, &free) || !next_bits(&at, &healthy) || !next_bits(&at, &slow) ||
                !cJSON_IsBool(at))
                return decision_is_wrong(decision, "masks");
            eligible = cJSON_IsTrue(at);
            item = item->next;
        }
        if (!decision->exists[node])
            continue;
        gt_cluster_set_free(decision->cluster, node, free);
        gt_cluster_set_healthy(decision->cluster, node, healthy);
        gt_cluster_set_slow(decision->cluster, node, slow);
        gt_cluster_set_eligible(decision->cluster, node, eligible);
    }
    return item ? decision_is_wrong(decision, "masks") : 0;
}

static int read_state(const struct decision *decision, const cJSON *state)
{
    struct gt_cluster *cluster = decision->cluster;
    uint64_t owner = 0, gpus;
    gt_cluster_set_rule(cluster, cJSON_IsTrue(gt_get(state, "static")) ? GT_RULE_STATIC : GT_RULE_CHURN);
    gt_cluster_set_crowded(cluster, cJSON_IsTrue(gt_get(state, "crowded")));
    gt_cluster_set_prefers_close(cluster, cJSON_IsTrue(gt_get(state, "close")));
    GT_TRY(read_chain(decision, state));
    GT_TRY(read_promises(decision, state)); /* while all GPUs are free */
    GT_TRY(read_masks(decision, state));
    for (const cJSON *item = first_of(state, "passed"); item; item = item->next) {
        owner++;
        struct gt_passed_pod pod = {.owner = owner, .until_ms = UINT64_MAX};
        const cJSON *at = gt_get(item, "requests");
        if (!gt_json_is_unsigned(gt_get(item, "gpus"), GT_GPUS_MAX, &gpus) ||
            (at && !next_bits(&at, &pod.pod.requests)))
            return decision_is_wrong(decision, "passed");
        pod.pod.gpus = (unsigned)gpus;
        int r = read_nodes(decision, gt_get(item, "nodes"), &pod.nodes);
        if (r < 0) {
            gt_node_set_done(&pod.nodes);
            return r;
        }
        gt_numa_pass(cluster, &pod);
    }
    return 0;
}

/* ---- the request ---- */

static int add_decided_units(struct decision *decision, uint64_t count, const struct gt_plan_unit *unit)
{
    struct gt_plan_request *request = &decision->request;
    uint64_t all = request->unit_count + count;
    if (!count || !unit->pods || !unit->gpus || all * unit->pods > GT_PLAN_PODS_MAX ||
        (unit->atom && unit->pods % unit->atom))
        return decision_is_wrong(decision, "units");
    struct gt_plan_unit *units = reallocarray(request->units, all, sizeof(*units));
    GT_NEED(units, decision->err, "decision");
    request->units = units;
    for (uint64_t i = 0; i < count; i++) {
        units[request->unit_count] = *unit;
        units[request->unit_count++].first = request->pod_count;
        request->pod_count += unit->pods;
    }
    return request->pod_count > GT_PLAN_PODS_MAX ? decision_is_wrong(decision, "units") : 0;
}

static int read_units(struct decision *decision, const cJSON *json)
{
    for (const cJSON *item = first_of(json, "units"); item; item = item->next) {
        uint64_t numbers[5]; /* as in decision_json.c */
        const cJSON *at = item->child;
        for (unsigned i = 0; i < GT_COUNT(numbers); i++)
            if (!next_number(&at, GT_PLAN_PODS_MAX, false, &numbers[i]))
                return decision_is_wrong(decision, "units");
        const struct gt_plan_unit like = {.pods = (uint32_t)numbers[1],
                                          .gpus = (unsigned)numbers[2],
                                          .atom = (uint32_t)numbers[3],
                                          .within = (unsigned)numbers[4]};
        if (like.gpus > UINT16_MAX || like.within > GT_TIERS_MAX)
            return decision_is_wrong(decision, "units");
        GT_TRY(add_decided_units(decision, numbers[0], &like));
    }
    decision->request.pods = calloc((size_t)decision->request.pod_count + 1, sizeof(struct gt_plan_pod));
    GT_NEED(decision->request.pods, decision->err, "decision");
    for (uint32_t i = 0; i < decision->request.pod_count; i++)
        decision->request.pods[i].place.node = GT_NONE;
    return 0;
}

static int read_running(const struct decision *decision, const cJSON *json)
{
    for (const cJSON *item = first_of(json, "running"); item; item = item->next) {
        struct gt_plan_pod pod = {.running = true};
        const cJSON *at = item->child;
        uint32_t number;
        if (!next_id(&at, decision->request.pod_count, false, &number) ||
            !next_id(&at, decision->nodes, true, &pod.place.node) || !next_bits(&at, &pod.place.mask) ||
            !cJSON_IsBool(at) || (pod.place.node != GT_NONE && !decision->exists[pod.place.node]))
            return decision_is_wrong(decision, "running");
        pod.left_out = cJSON_IsTrue(at);
        decision->request.pods[number] = pod;
    }
    return 0;
}

static int decision_read_rule(const struct decision *decision, const cJSON *json, struct gt_plan_rule *ret)
{
    uint64_t kind, domains, skew, fewest;
    if (!gt_json_is_unsigned(gt_get(json, "kind"), GT_PEER_TAKE, &kind) ||
        !gt_json_is_unsigned(gt_get(json, "domains"), GT_CLUSTER_NODES_MAX, &domains) ||
        !gt_json_is_unsigned(gt_get(json, "skew"), UINT32_MAX, &skew) ||
        !gt_json_is_unsigned(gt_get(json, "fewest"), UINT32_MAX, &fewest) ||
        !to_bits(gt_get(json, "who"), &ret->who) || !to_bits(gt_get(json, "with"), &ret->with) ||
        (kind == GT_PEER_TAKE && (!gt_get(json, "take") || !gt_get(json, "there"))))
        return decision_is_wrong(decision, "a rule between pods");
    ret->kind = (enum gt_peer_kind)kind;
    ret->domains = (uint32_t)domains;
    ret->skew = (uint32_t)skew;
    ret->fewest = (uint32_t)fewest;
    if (gt_get(json, "domain"))
        GT_TRY(read_ids(decision, gt_get(json, "domain"), decision->nodes, domains, &ret->domain));
    if (gt_get(json, "there"))
        GT_TRY(read_ids(decision, gt_get(json, "there"), ret->domain ? ret->domains : decision->nodes,
                        UINT32_MAX, &ret->there));
    if (gt_get(json, "take"))
        GT_TRY(read_ids(decision, gt_get(json, "take"), decision->rules.sorts, UINT32_MAX, &ret->take));
    return 0;
}

static int read_rules(struct decision *decision, const cJSON *json)
{
    struct gt_plan_rules *rules = &decision->rules;
    const cJSON *at = first_of(json, "sort");
    uint64_t sort;
    rules->sort = malloc((size_t)decision->request.pod_count + 1);
    GT_NEED(rules->sort, decision->err, "decision");
    for (const cJSON *item = first_of(json, "barred"); item; item = item->next) {
        if (rules->sorts == GT_PLAN_SORTS_MAX)
            return decision_is_wrong(decision, "barred");
        GT_TRY(read_nodes(decision, item, &rules->barred[rules->sorts++]));
    }
    for (uint32_t i = 0; i < decision->request.pod_count; i++) {
        if (!next_number(&at, GT_PLAN_SORT_NONE, false, &sort) ||
            (sort >= rules->sorts && sort != GT_PLAN_SORT_NONE))
            return decision_is_wrong(decision, "sort");
        rules->sort[i] = (uint8_t)sort;
    }
    for (const cJSON *item = first_of(json, "rules"); item; item = item->next) {
        if (rules->count == GT_PLAN_RULES_MAX)
            return decision_is_wrong(decision, "rules");
        GT_TRY(decision_read_rule(decision, item, &rules->rules[rules->count++]));
    }
    GT_TRY(read_nodes(decision, gt_get(json, "excluded"), &decision->loose));
    rules->excluded = gt_get(json, "excluded") ? &decision->loose : NULL;
    rules->incomplete = cJSON_IsTrue(gt_get(json, "incomplete"));
    decision->request.rules = rules;
    return 0;
}

static int read_limits(struct decision *decision, const cJSON *json)
{
    const cJSON *at = first_of(json, "limits");
    struct gt_plan_request *request = &decision->request;
    uint64_t gpus;
    decision->limits =
        calloc((size_t)cJSON_GetArraySize(gt_get(json, "limits")) / 2 + 1, sizeof(*decision->limits));
    GT_NEED(decision->limits, decision->err, "decision");
    for (; at; request->limit_count++) {
        struct gt_plan_limit *limit = &decision->limits[request->limit_count];
        if (!next_id(&at, decision->nodes, false, &limit->node) ||
            !next_number(&at, GT_GPUS_MAX, false, &gpus) || !decision->exists[limit->node])
            return decision_is_wrong(decision, "limits");
        limit->gpus = (unsigned)gpus;
    }
    request->limits = decision->limits;
    return 0;
}

static int decision_file_read_requests(const struct decision *decision, const cJSON *json)
{
    const struct gt_plan_request *request = &decision->request;
    /* of 0.2.0: some pods have several containers, and it is not known how many GPUs each has */
    for (uint32_t i = 0; i < request->pod_count && cJSON_IsTrue(gt_get(json, "several")); i++)
        request->pods[i].requests = GT_NUMA_TOO_MANY;
    for (const cJSON *item = first_of(json, "requests"); item; item = item->next) {
        const cJSON *at = item->child;
        uint64_t requests;
        uint32_t pod;
        if (!next_id(&at, request->pod_count, false, &pod) || !next_bits(&at, &requests))
            return decision_is_wrong(decision, "requests");
        for (; pod < request->pod_count; pod++)
            request->pods[pod].requests = requests;
    }
    return 0;
}

static int read_request(struct decision *decision, const cJSON *json)
{
    struct gt_plan_request *request = &decision->request;
    uint64_t slow, within;
    GT_TRY(read_units(decision, json));
    GT_TRY(read_running(decision, json));
    GT_TRY(decision_file_read_requests(decision, json));
    GT_TRY(read_nodes(decision, gt_get(json, "excluded"), &decision->excluded));
    GT_TRY(read_limits(decision, json));
    if (!gt_json_is_unsigned(gt_get(json, "slow"), GT_SLOW_ANY, &slow) ||
        !gt_json_is_unsigned(gt_get(json, "within"), GT_TIERS_MAX, &within))
        return decision_is_wrong(decision, "request");
    request->excluded = &decision->excluded;
    request->slow = (enum gt_slow_use)slow;
    request->within = (unsigned)within;
    request->flat = cJSON_IsTrue(gt_get(json, "flat"));
    return gt_get(json, "rules") ? read_rules(decision, gt_get(json, "rules")) : 0;
}

/* ---- a line ---- */

static const char *const cluster_lists[] = {"classes", "supernodes", "nodes"};
static const char *const decision_lists[] = {"units", "running", "promises", "passed",
                                             "masks", "limits",  "excluded"};

static bool has_lists(const cJSON *json, const char *const *lists, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (!cJSON_IsArray(gt_get(json, lists[i])))
            return false;
    return true;
}

static int decide_again(const cJSON *cluster, const cJSON *json, const struct gt_decision_file *file,
                        struct gt_err **err)
{
    __attribute__((cleanup(decision_done))) struct decision decision = {.err = err};
    gt_auto_buf struct gt_buf made = GT_BUF(DECISION_TEXT_MAX);
    struct gt_plan_failure failure;
    struct gt_decision_again again = {.job = gt_get_string(json, "job"),
                                      .time = gt_get_string(json, "time"),
                                      .recorded = gt_get_string(json, "text")};
    if (!cluster || !cJSON_Compare(gt_get(cluster, "cluster"), gt_get(json, "cluster"), true) ||
        !gt_json_is_unsigned(gt_get(json, "decision"), UINT64_MAX, &again.number))
        return gt_fail(err, EINVAL, "expected a decision on the cluster of an earlier line");
    if (!has_lists(cluster, cluster_lists, GT_COUNT(cluster_lists)) ||
        !has_lists(json, decision_lists, GT_COUNT(decision_lists)))
        return decision_is_wrong(&decision, "a list");
    GT_TRY(read_cluster(&decision, cluster));
    GT_TRY(read_request(&decision, json));
    GT_TRY(read_state(&decision, json));
    bool placed = gt_plan_ruled(decision.cluster, &decision.request, &failure);
    gt_plan_result_text(decision.cluster, &decision.request, placed ? NULL : &failure, &made);
    GT_TRY(gt_buf_check(&made, "the decision", err));
    again.made = made.data ? made.data : "";
    file->on_decision(file->arg, &again);
    return 0;
}

int gt_decision_file_run(const char *text, size_t len, const char *source,
                         const struct gt_decision_file *file, struct gt_err **err)
{
    const struct gt_json_limits limits = {GT_DECISION_LINE_MAX, GT_JSON_VALUES_MAX};
    gt_auto_json cJSON *cluster = NULL;
    unsigned number = 1;
    for (const char *line = text, *end = text + len; line < end; number++) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((next ? next : end) - line);
        gt_auto_json cJSON *json = NULL;
        int r = gt_json_parse_within(line, size, "decision", &limits, &json, err);
        if (r >= 0 && gt_get(json, "nodes")) {
            cJSON_Delete(cluster);
            cluster = gt_steal(json);
        } else if (r >= 0)
            r = decide_again(cluster, json, file, err);
        if (r < 0)
            return gt_wrap(err, "%s: line %u", source, number);
        line += size + 1;
    }
    return 0;
}
