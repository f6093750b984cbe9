/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/cache/cache_peer_work.h"

/* Rules of a plan by the volumes of its pods. */

int gt_peer_bar(struct peer_work *work, uint64_t sorts, uint32_t node)
{
    int r = 0;
    for (unsigned s = 0; s < work->rules->sorts && r >= 0 && node != GT_NONE; s++)
        if (sorts >> s & 1)
            r = gt_node_set_add(&work->rules->barred[s], node, NULL);
    return r;
}

struct gt_plan_rule *gt_peer_add_rule(struct peer_work *work, enum gt_peer_kind kind, uint64_t who,
                                      uint64_t with)
{
    struct gt_plan_rules *rules = work->rules;
    if (rules->count == GT_PLAN_RULES_MAX) {
        rules->incomplete = true;
        return NULL;
    }
    struct gt_plan_rule *rule = &rules->rules[rules->count++];
    *rule = (struct gt_plan_rule){.kind = kind, .who = who, .with = with};
    return rule;
}

/* Nodes where the volumes of its pods cannot be used. */
static int bar_volumes(struct peer_work *work)
{
    int r = 0;
    for (unsigned s = 0; s < work->rules->sorts && r >= 0; s++) {
        const struct gt_pod_peers *peers = work->sorts[s].peers;
        struct gt_volume_rules found = {0};
        bool spaces = peers && peers->of_namespaces && work->cache->namespaces_known == GT_BEING_READ;
        if (!peers || !(peers->claims || peers->own || spaces))
            continue;
        gt_cache_volume_rules(work->cache, peers, !work->sorts[s].guessed, &found);
        found.unread |= spaces;
        work->volumes_unread |= found.unread;
        work->volumes_unbound |= found.unbound;
        for (uint32_t n = 0;
             n < gt_peer_nodes(work) && r >= 0 && (found.unread || found.unbound || found.count); n++) {
            const struct cache_node *node = gt_cache_node_of(work->cache, n);
            if (node && !gt_cache_volumes_fit(&found, node)) {
                r = gt_peer_bar(work, UINT64_C(1) << s, n);
                work->volumes_bar = true;
            }
        }
    }
    return r;
}

/* ---- how many can be attached ---- */

/*
 * A node holds so many volumes of a driver. Each counts once, however many pods on the node use it: those of
 * pods that are there or planned, those that pods of the plan share, as if all of them came to each node, and
 * those that each pod of the plan has for itself.
 */
enum { ATTACH_DRIVERS_MAX = 8, ATTACH_SHARED_MAX = 64, ATTACH_NAME_MAX = 256 };

struct attached {
    uint32_t node, driver;
    const void *volume;
};

struct attach_work {
    struct peer_work *of;
    const char *drivers[ATTACH_DRIVERS_MAX];
    uint64_t who[ATTACH_DRIVERS_MAX];                    /* sorts that use one of its volumes */
    uint32_t own[ATTACH_DRIVERS_MAX][GT_PLAN_SORTS_MAX]; /* volumes of each pod alone */
    struct attached shared[ATTACH_SHARED_MAX];           /* volumes of several pods of the plan */
    unsigned driver_count, shared_count;
    struct attached *list; /* volumes on nodes */
    size_t count, capacity;
};

static unsigned attach_driver(const struct attach_work *work, const char *name)
{
    unsigned driver = 0;
    while (driver < work->driver_count && work->drivers[driver] != name)
        driver++;
    return driver;
}

static void share_volume(struct attach_work *work, unsigned driver, const void *volume)
{
    unsigned at = 0;
    while (at < work->shared_count &&
           (work->shared[at].driver != driver || work->shared[at].volume != volume))
        at++;
    if (at == ATTACH_SHARED_MAX)
        work->of->rules->incomplete = true;
    else if (at == work->shared_count)
        work->shared[work->shared_count++] = (struct attached){.driver = driver, .volume = volume};
}

static void use_claims(struct attach_work *work, unsigned sort, const cJSON *names, bool own)
{
    const struct gt_cache *cache = work->of->cache;
    const char *namespace_ = work->of->sorts[sort].peers->of, *name;
    for (const cJSON *item = names ? names->child : NULL; item; item = item->next) {
        const void *volume;
        if (!gt_cache_attached(cache, namespace_, cJSON_GetStringValue(item), &name, &volume))
            continue;
        unsigned driver = attach_driver(work, name);
        if (driver == ATTACH_DRIVERS_MAX) {
            work->of->rules->incomplete = true;
            continue;
        }
        work->drivers[driver] = name;
        work->driver_count += driver == work->driver_count;
        work->who[driver] |= UINT64_C(1) << sort;
        work->own[driver][sort] += own;
        if (!own)
            share_volume(work, driver, volume);
    }
}

static int note_attached(struct attach_work *work, uint32_t node, unsigned driver, const void *volume)
{
    if (work->count == work->capacity) {
        size_t capacity = work->capacity ? 2 * work->capacity : 256;
        struct attached *list = realloc(work->list, capacity * sizeof(*list));
        if (!list)
            return -ENOMEM;
        work->list = list;
        work->capacity = capacity;
    }
    work->list[work->count++] = (struct attached){node, driver, volume};
    return 0;
}

/* The volumes of a pod that is on the node or planned for it. */
static int meet_volumes(struct attach_work *work, const char *uses, uint32_t node)
{
    char namespace_[ATTACH_NAME_MAX] = "", name[ATTACH_NAME_MAX];
    int r = 0;
    for (const char *line = uses; node != GT_NONE && line && *line && r >= 0;) {
        size_t len = strcspn(line, "\n");
        const char *driver_name;
        const void *volume;
        char *to = line == uses ? namespace_ : name;
        if (len >= ATTACH_NAME_MAX)
            return 0; /* no object has such a name */
        memcpy(to, line, len);
        to[len] = '\0';
        if (line != uses && gt_cache_attached(work->of->cache, namespace_, name, &driver_name, &volume)) {
            unsigned driver = attach_driver(work, driver_name);
            r = driver < work->driver_count ? note_attached(work, node, driver, volume) : 0;
        }
        line += len + 1;
    }
    return r;
}

static int meet_all_volumes(struct attach_work *work)
{
    const struct gt_cache *cache = work->of->cache;
    int r = 0;
    for (uint32_t i = 0; i < cache->bound.size && r >= 0; i++)
        if (cache->bound.list[i].digest)
            r = meet_volumes(work, cache->bound.list[i].peers.uses, cache->bound.list[i].node->id);
    for (const struct cache_pod *pod = gt_table_after(&cache->pods, 0, NULL); pod && r >= 0;
         pod = gt_table_after(&cache->pods, pod->hash, pod))
        if (!pod->at && pod->plan && pod->pub.plan == GT_CACHE_PLAN_ASSUMED)
            r = meet_volumes(work, pod->peers.uses, pod->plan->node->id);
    return r;
}

static int attached_compare(const void *x, const void *y)
{
    const struct attached *a = x, *b = y;
    if (a->node != b->node)
        return a->node < b->node ? -1 : 1;
    if (a->driver != b->driver)
        return a->driver < b->driver ? -1 : 1;
    return (uintptr_t)a->volume < (uintptr_t)b->volume ? -1 : a->volume != b->volume;
}

static bool is_shared(const struct attach_work *work, const struct attached *volume)
{
    for (unsigned i = 0; i < work->shared_count; i++)
        if (work->shared[i].driver == volume->driver && work->shared[i].volume == volume->volume)
            return true;
    return false;
}

/* What is left on each node for volumes that a pod has for itself; bars nodes that lack room for one pod. */
static int attach_left(struct attach_work *work, unsigned driver, uint32_t *left)
{
    struct peer_work *of = work->of;
    uint32_t shared = 0;
    size_t at = 0;
    int r = 0;
    for (unsigned i = 0; i < work->shared_count; i++)
        shared += work->shared[i].driver == driver;
    for (uint32_t n = 0; n < gt_peer_nodes(of) && r >= 0; n++) {
        const struct cache_node *node = gt_cache_node_of(of->cache, n);
        uint64_t barred = 0, taken = shared; /* those of the plan that are there already are in both */
        for (; at < work->count && work->list[at].node == n; at++)
            if (work->list[at].driver == driver &&
                (!at || attached_compare(&work->list[at - 1], &work->list[at]) != 0))
                taken += !is_shared(work, &work->list[at]);
        uint32_t limit = node ? gt_cache_attach_limit(of->cache, node, work->drivers[driver]) : INT32_MAX;
        left[n] = limit == INT32_MAX ? limit : taken < limit ? limit - (uint32_t)taken : 0;
        for (unsigned s = 0; s < of->rules->sorts && limit < INT32_MAX; s++)
            if (work->who[driver] >> s & 1 && (taken > limit || work->own[driver][s] > left[n]))
                barred |= UINT64_C(1) << s;
        if (barred)
            r = gt_peer_bar(of, barred, n);
        of->attach_full += barred != 0;
        of->attach_driver = barred ? work->drivers[driver] : of->attach_driver;
    }
    return r;
}

static int add_attach_rule(struct attach_work *work, unsigned driver)
{
    uint32_t *left = malloc(((size_t)gt_peer_nodes(work->of) + 1) * sizeof(*left));
    uint32_t *take = malloc(sizeof(work->own[driver]));
    uint64_t who = 0;
    for (unsigned s = 0; s < GT_PLAN_SORTS_MAX; s++)
        who |= work->own[driver][s] ? UINT64_C(1) << s : 0;
    int r = left && take ? attach_left(work, driver, left) : -ENOMEM;
    struct gt_plan_rule *rule = who && r >= 0 ? gt_peer_add_rule(work->of, GT_PEER_TAKE, who, who) : NULL;
    if (rule) {
        memcpy(take, work->own[driver], sizeof(work->own[driver]));
        rule->there = left;
        rule->take = take;
        return 0;
    }
    free(left);
    free(take);
    return r;
}

static int count_volumes(struct peer_work *of)
{
    struct attach_work *work = calloc(1, sizeof(*work));
    int r = work ? 0 : -ENOMEM;
    for (unsigned s = 0; s < of->rules->sorts && r >= 0; s++) {
        work->of = of;
        if (of->sorts[s].peers) {
            use_claims(work, s, of->sorts[s].peers->claims, false);
            use_claims(work, s, of->sorts[s].peers->own, true);
        }
    }
    if (r >= 0 && work->driver_count)
        r = meet_all_volumes(work);
    if (r >= 0 && work->count)
        qsort(work->list, work->count, sizeof(*work->list), attached_compare);
    for (unsigned driver = 0; r >= 0 && driver < work->driver_count; driver++)
        r = add_attach_rule(work, driver);
    if (work)
        free(work->list);
    free(work);
    return r;
}

int gt_cache_peer_volumes(struct peer_work *work)
{
    const struct gt_cache *cache = work->cache;
    int r = bar_volumes(work);
    return r >= 0 && cache->attach_limits && cache->volumes_known == GT_IS_READ ? count_volumes(work) : r;
}
