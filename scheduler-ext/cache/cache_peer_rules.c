/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/pod_peers.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/cache/cache_peer_work.h"

/* Rules between the pods of a plan, and the nodes that pods which are there leave to them. */

static const char hostname[] = "kubernetes.io/hostname"; /* each node has its own */

/* ---- domains ---- */

static int by_pointer(const void *a, const void *b)
{
    uintptr_t x = (uintptr_t) * (const char *const *)a, y = (uintptr_t) * (const char *const *)b;
    return x < y ? -1 : x > y;
}

/* NULL without memory. */
static struct peer_key *key_for(struct peer_work *work, const char *name, bool by_node)
{
    for (unsigned i = 0; i < work->key_count; i++)
        if (work->keys[i].by_node == by_node && strcmp(work->keys[i].key, name) == 0)
            return &work->keys[i];
    struct peer_key *key = &work->keys[work->key_count]; /* there is room for one more */
    *key = (struct peer_key){.key = name, .by_node = by_node, .count = gt_peer_nodes(work)};
    if (!by_node) {
        uint32_t count = 0;
        key->values = malloc(((size_t)work->cache->nodes.count + 1) * sizeof(*key->values));
        if (!key->values)
            return NULL;
        for (struct cache_node *node = NULL; (node = gt_cache_next_node(work->cache, node));) {
            const char *value = node->has_node ? gt_cache_node_label(node, name) : NULL;
            if (value)
                key->values[count++] = value;
        }
        qsort(key->values, count, sizeof(*key->values), by_pointer);
        key->count = 0;
        for (uint32_t i = 0; i < count; i++)
            if (!i || key->values[i] != key->values[i - 1])
                key->values[key->count++] = key->values[i];
    }
    work->key_count++;
    return key;
}

static uint32_t domain_of(const struct peer_key *key, const struct cache_node *node)
{
    if (key->by_node)
        return node->id;
    const char *value = node->has_node ? gt_cache_node_label(node, key->key) : NULL;
    const char **found = value ? bsearch(&value, key->values, key->count, sizeof(value), by_pointer) : NULL;
    return found ? (uint32_t)(found - key->values) : GT_NONE;
}

/* ---- terms ---- */

static bool is_spread(const struct peer_term *term)
{
    return term->term->kind == GT_PEER_TERM_SPREAD;
}

/* Plans are written as a required affinity to one node. To the scheduler a constraint that honours it then
 * has one domain, the node, and the least one counts as empty. */
static bool is_limited_by_node(const struct peer_term *term)
{
    return is_spread(term) && !term->term->any_node && term->term->fewest > 1;
}

/* Whether the node counts for a spread constraint of the set's pods. */
static bool counts_for(const struct peer_work *work, unsigned set, const struct peer_term *term,
                       const struct cache_node *node)
{
    const struct cache_pod *pod = work->of[set];
    const char *named = pod->plan ? pod->plan->node->name : NULL;
    for (unsigned i = 0; i < work->sets[set]->term_count; i++) {
        const struct gt_peer_term *other = &work->sets[set]->terms[i];
        if (other->kind == GT_PEER_TERM_SPREAD && !gt_cache_node_label(node, other->key))
            return false;
    }
    return node->has_node && (term->term->any_node || gt_cache_labels_fit(pod->constraints, node, named)) &&
           (!term->term->untainted || gt_cache_taints_fit(pod->constraints, node));
}

static unsigned set_of(const struct peer_work *work, const struct gt_pod_peers *peers)
{
    unsigned set = 0;
    while (set < work->set_count && work->sets[set] != peers)
        set++;
    return set;
}

static bool add_peer_term(struct peer_work *work, const struct gt_pod_peers *peers,
                          const struct gt_peer_term *term)
{
    if (work->term_count == PEER_TERMS_MAX || work->key_count == PEER_KEYS_MAX) {
        work->rules->incomplete = true;
        return true;
    }
    bool apart = term->kind == GT_PEER_TERM_APART;
    struct peer_term made = {.peers = peers,
                             .term = term,
                             .key = key_for(work, term->key, apart && strcmp(term->key, hostname) == 0)};
    if (!made.key)
        return false;
    size_t domains = (size_t)made.key->count + 1;
    made.meant = apart ? calloc(2 * domains, sizeof(*made.meant)) : NULL;
    made.has = apart && made.meant ? made.meant + domains : NULL;
    made.there = apart ? NULL : calloc(domains, sizeof(*made.there));
    made.by_node =
        is_limited_by_node(&made) ? calloc((size_t)gt_peer_nodes(work) + 1, sizeof(*made.by_node)) : NULL;
    bool whole = (made.meant || made.there) && (made.by_node || !is_limited_by_node(&made));
    if (whole && is_spread(&made)) {
        unsigned set = set_of(work, peers);
        memset(made.there, 0xff, domains * sizeof(*made.there));
        for (struct cache_node *node = NULL; (node = gt_cache_next_node(work->cache, node));)
            if (counts_for(work, set, &made, node))
                made.there[domain_of(made.key, node)] = 0;
    }
    work->terms[work->term_count++] = made;
    return whole;
}
_Static_assert(GT_NONE == UINT32_MAX, "bytes of ones");

static bool add_all_terms(struct peer_work *work, uint32_t count)
{
    for (unsigned i = 0; i < work->set_count; i++)
        for (unsigned t = 0; t < work->sets[i]->term_count; t++)
            if (!add_peer_term(work, work->sets[i], &work->sets[i]->terms[t]))
                return false;
    work->own_terms = work->term_count;
    if (!work->cache->peers_apart)
        return true;
    for (const struct gt_pod_peers *peers = gt_table_after(&work->cache->peers, 0, NULL); peers;
         peers = gt_table_after(&work->cache->peers, peers->hash, peers))
        for (unsigned t = 0; t < peers->term_count && set_of(work, peers) == work->set_count; t++)
            if (peers->terms[t].kind == GT_PEER_TERM_APART &&
                gt_cache_means_member(work->cache, peers, &peers->terms[t], work->members, count) &&
                !add_peer_term(work, peers, &peers->terms[t]))
                return false;
    return true;
}

/* ---- members ---- */

static bool collect_sets(struct peer_work *work, uint32_t count)
{
    bool any = false;
    for (uint32_t i = 0; i < count; i++) {
        const struct cache_pod *pod = (const struct cache_pod *)work->members[i].pod;
        any |= pod != NULL;
        if (!pod || !pod->peers.rules || set_of(work, pod->peers.rules) < work->set_count)
            continue;
        if (work->set_count == PEER_SETS_MAX) {
            work->rules->incomplete = true;
            continue;
        }
        work->of[work->set_count] = pod;
        work->sets[work->set_count++] = pod->peers.rules;
    }
    return work->set_count || (any && (work->cache->peers_apart || work->cache->ordered_plans));
}

static struct peer_sort sort_like(const struct peer_work *work, const struct cache_pod *pod, bool guessed)
{
    struct peer_sort sort = {.peers =
                                 set_of(work, pod->peers.rules) < work->set_count ? pod->peers.rules : NULL};
    for (unsigned t = 0; t < work->term_count; t++)
        if (gt_cache_term_matches(work->cache, work->terms[t].peers, work->terms[t].term, pod->peers.labels))
            sort.meant |= UINT64_C(1) << t;
    sort.guessed = guessed && sort.peers && sort.peers->own;
    return sort;
}

static void give_sorts(struct peer_work *work, uint32_t count)
{
    struct gt_plan_rules *rules = work->rules;
    for (uint32_t i = 0; i < count; i++) {
        const struct cache_pod *pod = (const struct cache_pod *)work->members[i].pod;
        rules->sort[i] = GT_PLAN_SORT_NONE;
        if (!pod || work->members[i].counted)
            continue;
        struct peer_sort sort = sort_like(work, pod, work->members[i].guessed);
        unsigned at = 0;
        while (at < rules->sorts &&
               (work->sorts[at].peers != sort.peers || work->sorts[at].meant != sort.meant ||
                work->sorts[at].guessed != sort.guessed))
            at++;
        if (at == GT_PLAN_SORTS_MAX) {
            rules->incomplete = true;
            work->sorts[--at].guessed = true; /* its claims are not those of the others */
        } else if (at == rules->sorts)
            work->sorts[rules->sorts++] = sort;
        rules->sort[i] = (uint8_t)at;
    }
}

/* Sorts with these rules; sorts that a term means. */
static uint64_t sorts_with(const struct peer_work *work, const struct gt_pod_peers *peers)
{
    uint64_t sorts = 0;
    for (unsigned s = 0; s < work->rules->sorts; s++)
        sorts |= work->sorts[s].peers == peers ? UINT64_C(1) << s : 0;
    return sorts;
}

static uint64_t sorts_meant(const struct peer_work *work, unsigned term)
{
    uint64_t sorts = 0;
    for (unsigned s = 0; s < work->rules->sorts; s++)
        sorts |= (work->sorts[s].meant >> term & 1) << s;
    return sorts;
}

/* ---- pods that are there ---- */

static void mark_domain(bool *domains, uint32_t domain)
{
    if (domain != GT_NONE)
        domains[domain] = true;
}

/* Whether all terms of affinity with the same rules mean the pod: only then it counts for any of them. */
static bool is_affine(const struct gt_cache *cache, const struct gt_pod_peers *peers, const char *labels)
{
    for (unsigned i = 0; i < peers->term_count; i++)
        if (peers->terms[i].kind == GT_PEER_TERM_TOGETHER &&
            !gt_cache_term_matches(cache, peers, &peers->terms[i], labels))
            return false;
    return true;
}

static void meet_term(struct peer_work *work, unsigned t, const struct cache_peers *pod,
                      const struct cache_node *node)
{
    struct peer_term *term = &work->terms[t];
    enum gt_peer_term_kind kind = term->term->kind;
    if (kind == GT_PEER_TERM_APART && pod->rules == term->peers)
        mark_domain(term->has, domain_of(term->key, node));
    if (t >= work->own_terms || !gt_cache_term_matches(work->cache, term->peers, term->term, pod->labels))
        return;
    uint32_t domain = domain_of(term->key, node);
    bool counts = kind == GT_PEER_TERM_TOGETHER ? is_affine(work->cache, term->peers, pod->labels)
                  : kind == GT_PEER_TERM_SPREAD ? counts_for(work, set_of(work, term->peers), term, node)
                                                : false;
    if (kind == GT_PEER_TERM_APART)
        mark_domain(term->meant, domain);
    if (!counts || domain == GT_NONE)
        return;
    term->there[domain]++;
    if (term->by_node && node->id != GT_NONE)
        term->by_node[node->id]++;
}

/* A pod on a node, or planned for it. */
static int meet_pod(struct peer_work *work, const struct cache_peers *pod, const struct cache_node *node)
{
    for (unsigned i = 0; pod->rules && pod->rules->port_count && i < work->set_count; i++)
        if (node->id != GT_NONE && gt_peer_ports_conflict(work->sets[i], pod->rules)) {
            uint64_t sorts = sorts_with(work, work->sets[i]);
            for (unsigned s = 0; s < work->rules->sorts; s++) /* nothing but ports has barred nodes yet */
                if (sorts >> s & 1) {
                    work->ports_taken[i] += !gt_node_set_has(&work->rules->barred[s], node->id);
                    break;
                }
            GT_TRY(gt_peer_bar(work, sorts, node->id));
        }
    for (unsigned t = 0; (pod->rules || work->own_terms) && t < work->term_count; t++)
        meet_term(work, t, pod, node);
    return 0;
}

static int meet_bound(struct peer_work *work, const struct cache_bound_table *table)
{
    for (uint32_t i = 0; i < table->size; i++)
        if (table->list[i].digest)
            GT_TRY(meet_pod(work, &table->list[i].peers, table->list[i].node));
    return 0;
}

/* Of members that are not counted here, the plan has the place. */
static int meet_all(struct peer_work *work)
{
    const struct gt_cache *cache = work->cache;
    GT_TRY(meet_bound(work, &cache->bound[CACHE_BOUND_RULED]));
    if (work->own_terms)
        GT_TRY(meet_bound(work, &cache->bound[CACHE_BOUND_PLAIN]));
    for (const struct cache_pod *pod = cache->charged; pod; pod = pod->charged_next)
        GT_TRY(meet_pod(work, &pod->peers, pod->charged));
    return 0;
}

/* Until those are bound that would be refused once its pods are there. */
static int bar_all(struct peer_work *work)
{
    for (uint32_t n = 0; work->awaited && n < gt_peer_nodes(work); n++)
        GT_TRY(gt_peer_bar(work, UINT64_MAX, n));
    return 0;
}

/* ---- rules ---- */

static uint32_t *node_domains(const struct peer_work *work, const struct peer_key *key)
{
    uint32_t *domain = malloc(((size_t)gt_peer_nodes(work) + 1) * sizeof(*domain));
    for (uint32_t n = 0; domain && n < gt_peer_nodes(work); n++) {
        const struct cache_node *node = gt_cache_node_of(work->cache, n);
        domain[n] = node ? domain_of(key, node) : GT_NONE;
    }
    return domain;
}

static int bar_marked(struct peer_work *work, const struct peer_term *term, uint64_t who, uint64_t meant)
{
    for (uint32_t n = 0; n < gt_peer_nodes(work); n++) {
        const struct cache_node *node = gt_cache_node_of(work->cache, n);
        uint32_t domain = node ? domain_of(term->key, node) : GT_NONE;
        if (domain != GT_NONE && (term->meant[domain] || term->has[domain]))
            GT_TRY(gt_peer_bar(work, (term->meant[domain] ? who : 0) | (term->has[domain] ? meant : 0), n));
    }
    return 0;
}

static int add_rules_of_term(struct peer_work *work, unsigned t)
{
    static const enum gt_peer_kind kinds[] = {[GT_PEER_TERM_APART] = GT_PEER_APART,
                                              [GT_PEER_TERM_TOGETHER] = GT_PEER_TOGETHER,
                                              [GT_PEER_TERM_SPREAD] = GT_PEER_SPREAD};
    struct peer_term *term = &work->terms[t];
    uint64_t who = sorts_with(work, term->peers), with = sorts_meant(work, t);
    enum gt_peer_kind kind = kinds[term->term->kind];
    if (kind == GT_PEER_TOGETHER) /* as for pods that are there: all of its terms */
        for (unsigned i = 0; i < work->own_terms; i++)
            if (work->terms[i].peers == term->peers && work->terms[i].term->kind == GT_PEER_TERM_TOGETHER)
                with &= sorts_meant(work, i);
    if (kind == GT_PEER_APART && bar_marked(work, term, who, with) < 0)
        return -ENOMEM;
    if (kind == GT_PEER_APART && !(who && with))
        return 0;
    struct gt_plan_rule *rule = gt_peer_add_rule(work, kind, who, with);
    if (!rule)
        return 0;
    rule->domains = term->key->count;
    rule->domain = term->key->by_node ? NULL : node_domains(work, term->key);
    rule->skew = term->term->skew;
    rule->fewest = term->term->fewest;
    rule->there = term->there;
    term->there = NULL;
    if (!rule->domain && !term->key->by_node)
        return -ENOMEM;
    rule = term->by_node ? gt_peer_add_rule(work, kind, who, with) : NULL;
    if (rule) {
        rule->skew = term->term->skew;
        rule->fewest = UINT32_MAX;
        rule->there = term->by_node;
        term->by_node = NULL;
    }
    return 0;
}

static int add_rules(struct peer_work *work)
{
    for (unsigned i = 0; i < work->set_count; i++) {
        uint64_t with = 0;
        for (unsigned k = 0; k < work->set_count; k++)
            if (gt_peer_ports_conflict(work->sets[i], work->sets[k]))
                with |= sorts_with(work, work->sets[k]);
        if (with)
            gt_peer_add_rule(work, GT_PEER_APART, sorts_with(work, work->sets[i]), with);
    }
    for (unsigned t = 0; t < work->term_count; t++)
        if (add_rules_of_term(work, t) < 0)
            return -ENOMEM;
    return 0;
}

/* ---- the sentence ---- */

static void say_term(const struct peer_term *term, struct gt_buf *to)
{
    const char *key = term->term->key;
    uint32_t barred = 0;
    switch (term->term->kind) {
    case GT_PEER_TERM_APART:
        for (uint32_t d = 0; d < term->key->count; d++)
            barred += term->meant[d] || term->has[d];
        gt_buf_printf(to, "; anti-affinity of pods keeps them apart by %s", key);
        if (barred)
            gt_buf_printf(to, ", from pods in %u of %u places too", barred, term->key->count);
        return;
    case GT_PEER_TERM_TOGETHER:
        gt_buf_printf(to, "; required affinity wants its pods in one place, by %s", key);
        return;
    case GT_PEER_TERM_SPREAD:
        gt_buf_printf(to, "; its pods must be spread by %s (maxSkew %u", key, term->term->skew);
        if (term->term->fewest)
            gt_buf_printf(to, ", minDomains %u", term->term->fewest);
        gt_buf_puts(to, ")");
        return;
    }
}

static void say_rules(const struct peer_work *work, struct gt_buf *to)
{
    for (unsigned i = 0; i < work->set_count; i++) {
        const struct gt_pod_peers *peers = work->sets[i];
        gt_auto_buf struct gt_buf wrong = GT_BUF(512);
        if (gt_pod_peers_contradict(peers, &wrong))
            gt_buf_printf(to, "; its rules contradict each other: %s", wrong.data ? wrong.data : "");
        if (peers->port_count)
            gt_buf_printf(to, "; its pods have host port %u, so a node holds one of them",
                          peers->ports[0].port);
        if (work->ports_taken[i])
            gt_buf_printf(to, ", and on %u node%s a host port is taken", work->ports_taken[i],
                          gt_plural(work->ports_taken[i]));
    }
    for (unsigned t = 0; t < work->term_count; t++)
        say_term(&work->terms[t], to);
    if (work->volumes_unread)
        gt_buf_puts(to, "; volumes or Namespaces that its pods name have not been read yet");
    else if (work->volumes_unbound)
        gt_buf_puts(to, "; claims of its pods, of volumes or devices, are missing or not bound yet");
    else if (work->volumes_bar)
        gt_buf_puts(to, "; the volumes or devices of its pods can be used on some nodes only");
    if (work->attach_full)
        gt_buf_printf(to, "; %u node%s cannot take what such a pod needs of %s beside what is in use there",
                      work->attach_full, gt_plural(work->attach_full), work->attach_driver);
    if (work->awaited)
        gt_buf_printf(to, "; pod %s, which is planned, has to be bound before: its rules mean these pods",
                      work->awaited->meta.name);
    if (work->rules->incomplete)
        gt_buf_puts(to, "; it has more rules between pods than are looked at");
}

/* ---- together ---- */

static void peer_work_done(struct peer_work *work)
{
    for (unsigned t = 0; t < work->term_count; t++) {
        free(work->terms[t].meant);
        free(work->terms[t].there);
        free(work->terms[t].by_node);
    }
    for (unsigned i = 0; i < work->key_count; i++)
        free(work->keys[i].values);
    if (work->rules)
        gt_plan_rules_done(work->rules);
    free(work->rules);
}

int gt_cache_peer_rules(struct gt_cache *cache, const struct gt_cache_peer_member *members, uint32_t count,
                        struct gt_plan_rules **ret, struct gt_buf *said, struct gt_err **err)
{
    *ret = NULL;
    if (!cache->peers.count)
        return 0;
    __attribute__((cleanup(peer_work_done))) struct peer_work work = {
        .cache = cache, .members = members, .rules = calloc(1, sizeof(*work.rules))};
    if (work.rules)
        work.rules->sort = malloc((size_t)count + 1);
    GT_NEED(work.rules && work.rules->sort, err, "plan");
    if (!collect_sets(&work, count))
        return 0;
    GT_NEED(add_all_terms(&work, count), err, "plan");
    work.awaited = gt_cache_awaited(cache, members, count);
    if (!work.set_count && !work.term_count && !work.awaited)
        return 0;
    give_sorts(&work, count);
    if (meet_all(&work) < 0 || gt_cache_peer_claims(&work) < 0 || bar_all(&work) < 0 || add_rules(&work) < 0)
        return gt_fail_sys(err, ENOMEM, "plan");
    gt_plan_rules_merge(work.rules, count);
    if (said)
        say_rules(&work, said);
    cache->peers_asked = true;
    cache->peers_by_labels |= work.own_terms > 0;
    bool any = work.rules->count || work.rules->incomplete;
    for (unsigned s = 0; s < work.rules->sorts; s++)
        any |= work.rules->barred[s].nodes > 0;
    if (!any) /* such as volumes that can be used everywhere */
        return 0;
    *ret = work.rules;
    work.rules = NULL;
    return 0;
}

bool gt_cache_peers_bar(struct gt_cache *cache, const struct gt_cache_pod *pod, uint32_t node)
{
    const struct gt_cache_peer_member member = {.pod = pod};
    struct gt_plan_rules *rules = NULL;
    if (!gt_cache_pod_has_peers(cache, pod) ||
        gt_cache_peer_rules(cache, &member, 1, &rules, NULL, NULL) < 0 || !rules)
        return false;
    bool barred = rules->sorts && gt_node_set_has(&rules->barred[0], node);
    gt_plan_rules_done(rules);
    free(rules);
    return barred;
}
