/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "base/json_get.h"
#include "scheduler-ext/cache/cache_peer_work.h"

/* Rules of a plan by the claims of its pods: volumes, and devices of other drivers than ours. */

int gt_peer_bar(struct peer_work *work, uint64_t sorts, uint32_t node)
{
    for (unsigned s = 0; s < work->rules->sorts && node != GT_NONE; s++)
        if (sorts >> s & 1)
            GT_TRY(gt_node_set_add(&work->rules->barred[s], node, NULL));
    return 0;
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
    for (unsigned s = 0; s < work->rules->sorts; s++) {
        const struct gt_pod_peers *peers = work->sorts[s].peers;
        struct gt_volume_rules found = {0};
        bool spaces = peers && peers->of_namespaces && work->cache->namespaces_known == GT_BEING_READ;
        if (!peers || !(peers->claims || peers->own || peers->devices || spaces))
            continue;
        gt_cache_volume_rules(work->cache, peers, !work->sorts[s].guessed, &found);
        found.unread |= spaces;
        work->volumes_unread |= found.unread;
        work->volumes_unbound |= found.unbound;
        for (uint32_t n = 0; n < gt_peer_nodes(work) && (found.unread || found.unbound || found.count); n++) {
            const struct cache_node *node = gt_cache_node_of(work->cache, n);
            if (node && !gt_cache_volumes_fit(&found, node)) {
                GT_TRY(gt_peer_bar(work, UINT64_C(1) << s, n));
                work->volumes_bar = true;
            }
        }
    }
    return 0;
}

/* ---- how much a node can take ---- */

/*
 * A node holds so many volumes of a driver, and has so many devices of one. A volume counts once, however
 * many pods on the node use it: those of pods that are there or planned, those that pods of the plan share,
 * as if all of them came to each node, and those that each pod of the plan has for itself. Devices count
 * likewise by claims.
 */
enum { ATTACH_DRIVERS_MAX = 8, ATTACH_SHARED_MAX = 64, ATTACH_NAME_MAX = 256 };

struct attached {
    uint32_t node, driver, count;
    const void *volume; /* or claim; NULL: a device that is of no other */
};

struct device_pool {
    const char *name;
    uint32_t driver, node;
};

struct attach_work {
    struct peer_work *of;
    const char *drivers[ATTACH_DRIVERS_MAX], *unlimited; /* unlimited: the last one without limits */
    uint32_t *devices[ATTACH_DRIVERS_MAX]; /* [node] INT32_MAX: not known; NULL: it is a driver of volumes */
    uint64_t who[ATTACH_DRIVERS_MAX];      /* sorts that use one of its volumes */
    uint32_t own[ATTACH_DRIVERS_MAX][GT_PLAN_SORTS_MAX]; /* volumes of each pod alone */
    struct attached shared[ATTACH_SHARED_MAX];           /* volumes of several pods of the plan */
    struct {
        const struct cache_related *claim;
        uint64_t who;
    } together[ATTACH_DRIVERS_MAX]; /* sorts that have to be where their claim gets its devices */
    unsigned driver_count, shared_count, together_count;
    struct attached *list; /* volumes on nodes */
    size_t count, capacity;
    struct device_pool *pools; /* sorted */
    size_t pool_count;
};

static unsigned attach_driver(const struct attach_work *work, const char *name, bool of_devices)
{
    unsigned driver = 0;
    while (driver < work->driver_count &&
           (work->drivers[driver] != name || (work->devices[driver] != NULL) != of_devices))
        driver++;
    return driver;
}

static void share_volume(struct attach_work *work, unsigned driver, const void *volume, uint32_t count)
{
    unsigned at = 0;
    while (at < work->shared_count &&
           (work->shared[at].driver != driver || work->shared[at].volume != volume))
        at++;
    if (at == ATTACH_SHARED_MAX)
        work->of->rules->incomplete = true;
    else if (at == work->shared_count)
        work->shared[work->shared_count++] =
            (struct attached){.driver = driver, .volume = volume, .count = count};
}

/* Most drivers have no limit: then nobody counts their volumes, of all pods there are. */
static bool has_attach_limit(const struct gt_cache *cache, const char *driver)
{
    bool has = false;
    for (uint32_t n = 0; n < gt_cluster_nodes(cache->cluster) && !has; n++) {
        const struct cache_node *node = gt_cache_node_of(cache, n);
        has = node && gt_cache_attach_limit(cache, node, driver) < INT32_MAX;
    }
    return has;
}

static void use_claims(struct attach_work *work, unsigned sort, const cJSON *names, bool own)
{
    const struct gt_cache *cache = work->of->cache;
    const char *namespace_ = work->of->sorts[sort].peers->of, *name;
    for (const cJSON *item = names ? names->child : NULL; item; item = item->next) {
        const void *volume;
        if (!gt_cache_attached(cache, namespace_, cJSON_GetStringValue(item), &name, &volume))
            continue;
        unsigned driver = attach_driver(work, name, false);
        if (driver == work->driver_count && (name == work->unlimited || !has_attach_limit(cache, name))) {
            work->unlimited = name;
            continue;
        }
        if (driver == ATTACH_DRIVERS_MAX) {
            work->of->rules->incomplete = true;
            continue;
        }
        work->drivers[driver] = name;
        work->driver_count += driver == work->driver_count;
        work->who[driver] |= UINT64_C(1) << sort;
        work->own[driver][sort] += own;
        if (!own)
            share_volume(work, driver, volume, 1);
    }
}

static int note_attached(struct attach_work *work, uint32_t node, unsigned driver, const void *volume,
                         uint32_t count)
{
    if (!GT_GROW(work->list, work->count, work->capacity, 256))
        return -ENOMEM;
    work->list[work->count++] = (struct attached){node, driver, count, volume};
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
            unsigned driver = attach_driver(work, driver_name, false);
            r = driver < work->driver_count ? note_attached(work, node, driver, volume, 1) : 0;
        }
        line += len + 1;
    }
    return r;
}

/* ---- devices ---- */

/* The next "NAME=NUMBER\n" of a list, for a class whose devices are of one known driver; NULL: there is none.
 */
static const char *next_request(const struct gt_cache *cache, const char *list, const char **ret_driver,
                                uint32_t *ret_count)
{
    char name[ATTACH_NAME_MAX];
    for (; *list; list += strcspn(list, "\n") + 1) {
        size_t len = strcspn(list, "=");
        if (len >= sizeof(name))
            continue;
        memcpy(name, list, len);
        name[len] = '\0';
        const struct cache_related *class = gt_cache_find_related(cache, GT_RELATED_DEVICE_CLASS, "", name);
        if (!class || !*class->driver || strcmp(class->driver, GT_DRA_DRIVER) == 0)
            continue;
        *ret_driver = class->driver;
        *ret_count = (uint32_t)strtoul(list + len + 1, NULL, 10);
        return list + strcspn(list, "\n") + 1;
    }
    return NULL;
}

/* How many devices of the driver a claim asks for. */
static uint32_t asked_devices(const struct gt_cache *cache, const struct cache_related *claim,
                              const char *driver)
{
    uint32_t all = 0, count;
    const char *name;
    for (const char *at = claim->of; (at = next_request(cache, at, &name, &count));)
        all += name == driver ? count : 0;
    return all;
}

/* What a pod's entry asks for; NULL: nothing, or it has its devices. */
static const struct cache_related *asking_claim(const struct gt_cache *cache, const char *namespace_,
                                                const cJSON *item, bool *ret_own)
{
    const char *name = gt_get_string(item, "claim");
    *ret_own = !*name;
    const struct cache_related *claim =
        gt_cache_find_related(cache, *ret_own ? GT_RELATED_DEVICE_TEMPLATE : GT_RELATED_DEVICE_CLAIM,
                              namespace_, *ret_own ? gt_get_string(item, "template") : name);
    return claim && !claim->is_bound ? claim : NULL;
}

/* Devices that nobody has are on one node: so are then all pods of the claim. */
static void bind_together(struct attach_work *work, unsigned sort, const struct cache_related *claim)
{
    unsigned at = 0;
    while (at < work->together_count && work->together[at].claim != claim)
        at++;
    if (at == ATTACH_DRIVERS_MAX) {
        work->of->rules->incomplete = true;
        return;
    }
    work->together[at].claim = claim;
    work->together[at].who |= UINT64_C(1) << sort;
    work->together_count += at == work->together_count;
}

static int use_devices(struct attach_work *work, unsigned sort, const struct gt_pod_peers *peers)
{
    const struct gt_cache *cache = work->of->cache;
    for (const cJSON *item = peers->devices ? peers->devices->child : NULL; item; item = item->next) {
        bool own;
        uint32_t count;
        const char *name;
        const struct cache_related *claim = asking_claim(cache, peers->of, item, &own);
        for (const char *at = claim ? claim->of : NULL;
             at && (at = next_request(cache, at, &name, &count));) {
            unsigned driver = attach_driver(work, name, true);
            if (driver == ATTACH_DRIVERS_MAX) {
                work->of->rules->incomplete = true;
                continue;
            }
            if (!work->devices[driver])
                work->devices[driver] = calloc((size_t)gt_peer_nodes(work->of) + 1, sizeof(uint32_t));
            if (!work->devices[driver])
                return -ENOMEM;
            work->drivers[driver] = name;
            work->driver_count += driver == work->driver_count;
            work->who[driver] |= UINT64_C(1) << sort;
            work->own[driver][sort] += own ? count : 0;
            if (!own) {
                share_volume(work, driver, claim, asked_devices(cache, claim, name));
                bind_together(work, sort, claim);
            }
        }
    }
    return 0;
}

/* What a planned pod will get. */
static int meet_asked_devices(struct attach_work *work, const struct cache_pod *pod)
{
    const struct gt_cache *cache = work->of->cache;
    const cJSON *devices = pod->peers.rules ? pod->peers.rules->devices : NULL;
    for (const cJSON *item = devices ? devices->child : NULL; item; item = item->next) {
        bool own;
        uint32_t count;
        const char *name;
        const struct cache_related *claim = asking_claim(cache, pod->peers.rules->of, item, &own);
        for (const char *at = claim ? claim->of : NULL;
             at && (at = next_request(cache, at, &name, &count));) {
            unsigned driver = attach_driver(work, name, true);
            if (driver < work->driver_count)
                GT_TRY(own ? note_attached(work, pod->charged->id, driver, NULL, count)
                           : note_attached(work, pod->charged->id, driver, claim,
                                           asked_devices(cache, claim, name)));
        }
    }
    return 0;
}

static int pool_compare(const void *x, const void *y)
{
    const struct device_pool *a = x, *b = y;
    return a->driver != b->driver ? (a->driver < b->driver ? -1 : 1) : strcmp(a->name, b->name);
}

/* Where a device may be on one of several nodes, or be given several times, nothing is known of its driver.
 */
static void count_slice(struct attach_work *work, const struct cache_related *slice, unsigned driver)
{
    const struct cache_node *node = gt_cache_find_node(work->of->cache, slice->handle);
    uint32_t *devices = work->devices[driver];
    if (!*slice->handle || slice->is_many)
        for (uint32_t n = 0; n < gt_peer_nodes(work->of); n++)
            devices[n] = INT32_MAX;
    if (!node || node->id == GT_NONE)
        return;
    devices[node->id] += devices[node->id] < INT32_MAX ? slice->count : 0;
    work->pools[work->pool_count++] = (struct device_pool){slice->of, driver, node->id};
}

static const struct cache_related *next_related(const struct gt_cache *cache, enum gt_related_kind kind,
                                                const struct cache_related *after)
{
    do
        after = gt_table_after(&cache->related, after ? after->hash : 0, after);
    while (after && after->kind != kind);
    return after;
}

/* The devices that a ResourceClaim has. */
static int meet_device_claim(struct attach_work *work, const struct cache_related *claim)
{
    char name[2 * ATTACH_NAME_MAX];
    for (const char *line = claim->of; *line; line += strcspn(line, "\n") + 1) {
        size_t len = strcspn(line, "\n");
        if (len >= sizeof(name))
            continue;
        memcpy(name, line, len);
        name[len] = '\0';
        char *pool = strchr(name, '=');
        for (unsigned driver = 0; pool && driver < work->driver_count; driver++) {
            size_t size = (size_t)(pool - name);
            if (!work->devices[driver] || strlen(work->drivers[driver]) != size ||
                memcmp(work->drivers[driver], name, size) != 0)
                continue;
            const struct device_pool wanted = {.name = pool + 1, .driver = driver},
                                     *at = work->pool_count ? bsearch(&wanted, work->pools, work->pool_count,
                                                                      sizeof(wanted), pool_compare)
                                                            : NULL;
            if (at)
                GT_TRY(note_attached(work, at->node, driver, NULL, 1));
        }
    }
    return 0;
}

static int count_devices(struct attach_work *work)
{
    const struct gt_cache *cache = work->of->cache;
    int r = 0;
    work->pools = malloc(((size_t)cache->related.count + 1) * sizeof(*work->pools));
    if (!work->pools)
        return -ENOMEM;
    for (const struct cache_related *slice = NULL;
         (slice = next_related(cache, GT_RELATED_DEVICE_SLICE, slice));) {
        unsigned driver = attach_driver(work, slice->driver, true);
        if (driver < work->driver_count)
            count_slice(work, slice, driver);
    }
    qsort(work->pools, work->pool_count, sizeof(*work->pools), pool_compare);
    for (const struct cache_related *claim = NULL;
         r >= 0 && (claim = next_related(cache, GT_RELATED_DEVICE_CLAIM, claim));)
        if (claim->is_bound)
            r = meet_device_claim(work, claim);
    return r;
}

/* ---- together ---- */

static int meet_all_volumes(struct attach_work *work)
{
    const struct gt_cache *cache = work->of->cache;
    const struct cache_bound_table *table = &cache->bound[CACHE_BOUND_RULED];
    for (uint32_t i = 0; i < table->size; i++)
        if (table->list[i].digest)
            GT_TRY(meet_volumes(work, table->list[i].peers.uses, table->list[i].node->id));
    for (const struct cache_pod *pod = cache->charged; pod; pod = pod->charged_next) {
        GT_TRY(meet_volumes(work, pod->peers.uses, pod->charged->id));
        if (pod->charged->id != GT_NONE)
            GT_TRY(meet_asked_devices(work, pod));
    }
    return 0;
}

static int attached_compare(const void *x, const void *y)
{
    const struct attached *a = x, *b = y;
    GT_BY(a->node, b->node);
    GT_BY(a->driver, b->driver);
    return (uintptr_t)a->volume < (uintptr_t)b->volume ? -1 : a->volume != b->volume;
}

static bool is_shared(const struct attach_work *work, const struct attached *attached)
{
    for (unsigned i = 0; i < work->shared_count; i++)
        if (work->shared[i].driver == attached->driver && work->shared[i].volume == attached->volume)
            return true;
    return false;
}

/* What is left on each node for volumes that a pod has for itself; bars nodes that lack room for one pod. */
static int attach_left(struct attach_work *work, unsigned driver, uint32_t *left)
{
    struct peer_work *of = work->of;
    uint32_t shared = 0;
    size_t at = 0;
    for (unsigned i = 0; i < work->shared_count; i++)
        shared += work->shared[i].driver == driver ? work->shared[i].count : 0;
    for (uint32_t n = 0; n < gt_peer_nodes(of); n++) {
        const struct cache_node *node = gt_cache_node_of(of->cache, n);
        uint64_t barred = 0, taken = shared; /* those of the plan that are there already are in both */
        for (; at < work->count && work->list[at].node == n; at++)
            if (work->list[at].driver == driver &&
                (!work->list[at].volume || !at ||
                 attached_compare(&work->list[at - 1], &work->list[at]) != 0))
                taken += is_shared(work, &work->list[at]) ? 0 : work->list[at].count;
        uint32_t limit = work->devices[driver] ? work->devices[driver][n]
                         : node                ? gt_cache_attach_limit(of->cache, node, work->drivers[driver])
                                               : INT32_MAX;
        left[n] = limit == INT32_MAX ? limit : taken < limit ? limit - (uint32_t)taken : 0;
        for (unsigned s = 0; s < of->rules->sorts && limit < INT32_MAX; s++)
            if (work->who[driver] >> s & 1 && (taken > limit || work->own[driver][s] > left[n]))
                barred |= UINT64_C(1) << s;
        if (barred)
            GT_TRY(gt_peer_bar(of, barred, n));
        of->attach_full += barred != 0;
        of->attach_driver = barred ? work->drivers[driver] : of->attach_driver;
    }
    return 0;
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

static void attach_done(struct attach_work *work)
{
    for (unsigned driver = 0; driver < ATTACH_DRIVERS_MAX; driver++)
        free(work->devices[driver]);
    free(work->list);
    free(work->pools);
    free(work);
}

static int count_claims(struct attach_work *work, bool volumes, bool devices)
{
    struct peer_work *of = work->of;
    int r = 0;
    for (unsigned s = 0; s < of->rules->sorts && r >= 0; s++) {
        const struct gt_pod_peers *peers = of->sorts[s].peers;
        if (peers && volumes) {
            use_claims(work, s, peers->claims, false);
            use_claims(work, s, peers->own, true);
        }
        r = peers && devices ? use_devices(work, s, peers) : 0;
    }
    if (r < 0 || !work->driver_count)
        return r;
    r = devices ? count_devices(work) : 0;
    r = r < 0 ? r : meet_all_volumes(work);
    if (work->count)
        qsort(work->list, work->count, sizeof(*work->list), attached_compare);
    for (unsigned driver = 0; r >= 0 && driver < work->driver_count; driver++)
        r = add_attach_rule(work, driver);
    for (unsigned i = 0; i < work->together_count; i++)
        gt_peer_add_rule(of, GT_PEER_TOGETHER, work->together[i].who, work->together[i].who);
    return r;
}

int gt_cache_peer_claims(struct peer_work *work)
{
    const struct gt_cache *cache = work->cache;
    bool volumes = cache->attach_limits && cache->volumes_known == GT_IS_READ,
         devices = cache->devices_known == GT_IS_READ;
    int r = bar_volumes(work);
    if (r < 0 || !(volumes || devices))
        return r;
    struct attach_work *counts = calloc(1, sizeof(*counts));
    if (!counts)
        return -ENOMEM;
    counts->of = work;
    r = count_claims(counts, volumes, devices);
    attach_done(counts);
    return r;
}
