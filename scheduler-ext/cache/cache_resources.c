/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/names.h"
#include "scheduler-ext/cache/cache_internal.h"

/*
 * Amounts of resources, one column for each, so that a loop over all nodes reads little memory. Each record
 * of a node has a row. A column exists while a node has this resource or a pod asks for it.
 */
struct gt_cache_request {
    uint32_t refs, hash;
    bool has_gpus; /* the pods that share it ask for GPUs, too */
    uint8_t count;
    struct request_part {
        uint8_t column;
        int64_t amount; /* above 0 */
    } parts[];
};

/* ---- columns ---- */

/* What a node has of a standard resource that it does not report. Whether it offers GPUs to limits at all is
 * for gt_cache_set_offered(). */
static int64_t default_amount(const char *name)
{
    static const char *const names[] = {GT_RESOURCE_CPU, GT_RESOURCE_MEMORY, GT_RESOURCE_PODS,
                                        "ephemeral-storage", GT_RESOURCE_GPU};
    return GT_HAS_TEXT(names, GT_COUNT(names), name) ? INT64_MAX / 2 : 0;
}

void *gt_cache_grown(void *array, size_t size, uint32_t old, uint32_t new)
{
    void *bytes = calloc(1, size * new);
    if (!bytes)
        return NULL;
    if (array)
        memcpy(bytes, array, size * old);
    free(array);
    return bytes;
}

static bool grow_column(struct cache_column *column, uint32_t old, uint32_t new)
{
    void *new_;
    return CACHE_GROW(column->allocatable, old, new) && CACHE_GROW(column->left, old, new) &&
           CACHE_GROW(column->emptied, old, new);
}

static void free_column(struct gt_cache *cache, struct cache_column *column)
{
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        if (cache->mix_column[r] == column - cache->columns + 1)
            cache->mix_column[r] = 0;
    gt_cache_string_drop(cache, column->name);
    free(column->allocatable);
    free(column->left);
    free(column->emptied);
    *column = (struct cache_column){0};
}

static const char *const mix_names[GT_MIX_RESOURCES] = {GT_RESOURCE_CPU, GT_RESOURCE_MEMORY};

static unsigned find_column(const struct gt_cache *cache, const char *name)
{
    unsigned at = 0;
    while (at < CACHE_COLUMNS_MAX && (!cache->columns[at].name || strcmp(cache->columns[at].name, name) != 0))
        at++;
    return at;
}

/* A resource without a free column is ignored: CACHE_COLUMNS_MAX. Pods may ask for any name, so resources
 * that only pods name may use half of the columns. */
static unsigned make_column(struct gt_cache *cache, const char *name, bool is_asked)
{
    unsigned at = find_column(cache, name);
    if (at < CACHE_COLUMNS_MAX)
        return at;
    at = is_asked && !default_amount(name) ? CACHE_COLUMNS_MAX / 2 : CACHE_COLUMNS_MAX;
    while (at && cache->columns[at - 1].name)
        at--;
    if (!at--)
        return CACHE_COLUMNS_MAX;
    struct cache_column *column = &cache->columns[at];
    column->name = gt_cache_string(cache, name);
    if (column->name && grow_column(column, 0, cache->row_capacity ? cache->row_capacity : 1)) {
        int64_t amount = default_amount(name);
        for (uint32_t row = 0; amount && row < cache->row_count; row++)
            column->allocatable[row] = column->left[row] = column->emptied[row] = amount;
        for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
            if (strcmp(name, mix_names[r]) == 0)
                cache->mix_column[r] = (uint8_t)(at + 1);
        return at;
    }
    free_column(cache, column);
    return CACHE_COLUMNS_MAX;
}

/* ---- rows ---- */

uint32_t gt_cache_take_row(struct gt_cache *cache)
{
    uint32_t row = cache->row_free;
    if (row) {
        cache->row_free = cache->row_next[--row];
        return row;
    }
    if (cache->row_count == cache->row_capacity) {
        uint32_t old = cache->row_capacity, new = old ? old * 2 : 64;
        void *new_;
        for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++)
            if (cache->columns[i].name && !grow_column(&cache->columns[i], old, new))
                return GT_NONE;
        if (!CACHE_GROW(cache->row_next, old, new) || !CACHE_GROW(cache->row_short, old, new))
            return GT_NONE;
        cache->row_capacity = new;
    }
    row = cache->row_count++;
    for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++)
        if (cache->columns[i].name)
            cache->columns[i].allocatable[row] = cache->columns[i].left[row] =
                cache->columns[i].emptied[row] = default_amount(cache->columns[i].name);
    return row;
}

void gt_cache_give_row(struct gt_cache *cache, uint32_t row)
{
    cache->row_next[row] = cache->row_free;
    cache->row_free = row + 1;
}

/* Waiting jobs may try again where a node that lacked resources has more now. */
static void cache_resources_change(struct gt_cache *cache, struct cache_column *column, uint32_t row,
                                   int64_t left, int64_t emptied)
{
    column->left[row] += left;
    column->emptied[row] += emptied;
    if (left > 0 && cache->row_short[row]) {
        cache->row_short[row] = false;
        cache->more_room = true;
    }
}

static int64_t reported_amount(const struct gt_resources *resources, const char *name)
{
    uint64_t amount;
    return resources && gt_resources_get(resources, name, &amount) ? (int64_t)amount : default_amount(name);
}

static void set_amount(struct gt_cache *cache, struct cache_column *column, uint32_t row, int64_t new)
{
    int64_t base = default_amount(column->name), old = column->allocatable[row];
    column->refs += (uint32_t)(new != base) - (uint32_t)(old != base);
    column->allocatable[row] = new;
    cache_resources_change(cache, column, row, new - old, new - old);
    if (!column->refs)
        free_column(cache, column);
}

void gt_cache_set_allocatable(struct gt_cache *cache, uint32_t row, const struct gt_resources *resources)
{
    for (unsigned i = 0; resources && i < resources->count; i++)
        if (strcmp(resources->list[i].name, GT_RESOURCE_GPU) != 0)
            make_column(cache, resources->list[i].name, false);
    for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++) {
        struct cache_column *column = &cache->columns[i];
        if (column->name && strcmp(column->name, GT_RESOURCE_GPU) != 0)
            set_amount(cache, column, row, reported_amount(resources, column->name));
    }
}

void gt_cache_set_offered(struct gt_cache *cache, uint32_t row, int64_t gpus)
{
    unsigned at = gpus < 0 ? find_column(cache, GT_RESOURCE_GPU) : make_column(cache, GT_RESOURCE_GPU, false);
    if (at < CACHE_COLUMNS_MAX)
        set_amount(cache, &cache->columns[at], row, gpus < 0 ? default_amount(GT_RESOURCE_GPU) : gpus);
}

/* ---- requests ---- */

static bool cache_resources_is(const void *item, const void *key)
{
    const struct gt_cache_request *a = item, *b = key;
    if (a->count != b->count || a->has_gpus != b->has_gpus)
        return false;
    for (unsigned i = 0; i < a->count; i++)
        if (a->parts[i].column != b->parts[i].column || a->parts[i].amount != b->parts[i].amount)
            return false;
    return true;
}

static uint32_t cache_resources_hash_of(const struct gt_cache *cache, const struct gt_cache_request *request)
{
    uint64_t digest = gt_digest_mix(cache->seed, request->has_gpus);
    for (unsigned i = 0; i < request->count; i++)
        digest = gt_digest_mix(gt_digest_mix(digest, request->parts[i].column),
                               (uint64_t)request->parts[i].amount);
    return gt_digest_hash(digest);
}

/* Writes the parts of a request; resources without a column are left out. */
union request_builder {
    struct gt_cache_request request;
    char bytes[sizeof(struct gt_cache_request) + CACHE_COLUMNS_MAX * sizeof(struct request_part)];
};

static bool cache_resources_fill(struct gt_cache *cache, const struct gt_resources *resources,
                                 struct gt_cache_request *to)
{
    for (unsigned i = 0; i < resources->count; i++) {
        unsigned at =
            resources->list[i].amount ? make_column(cache, resources->list[i].name, true) : CACHE_COLUMNS_MAX;
        if (at == CACHE_COLUMNS_MAX)
            continue;
        to->parts[to->count++] = (struct request_part){(uint8_t)at, (int64_t)resources->list[i].amount};
    }
    return to->count;
}

struct gt_cache_request *gt_cache_request_make(struct gt_cache *cache, const struct gt_resources *resources,
                                               bool has_gpus)
{
    union request_builder builder = {.request.has_gpus = has_gpus};
    if (!cache_resources_fill(cache, resources, &builder.request))
        return NULL;
    size_t parts = builder.request.count * sizeof(struct request_part);
    uint32_t hash = builder.request.hash = cache_resources_hash_of(cache, &builder.request);
    struct gt_cache_request *request =
        gt_table_find(&cache->requests, hash, cache_resources_is, &builder.request);
    if (!request && (request = calloc(1, sizeof(*request) + parts))) {
        memcpy(request, &builder.request, sizeof(*request) + parts);
        if (gt_table_add(&cache->requests, hash, request) < 0) {
            free(request);
            request = NULL;
        }
        for (unsigned i = 0; request && i < request->count; i++)
            cache->columns[request->parts[i].column].refs++;
    }
    if (!request) {
        cache->refused++;
        for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++)
            if (cache->columns[i].name && !cache->columns[i].refs)
                free_column(cache, &cache->columns[i]);
        return NULL;
    }
    request->refs++;
    return request;
}

struct gt_cache_request *gt_cache_request_ref(const struct gt_cache_request *request)
{
    struct gt_cache_request *ours = (struct gt_cache_request *)(uintptr_t)request;
    if (ours)
        ours->refs++;
    return ours;
}

void gt_cache_request_drop(struct gt_cache *cache, struct gt_cache_request *request)
{
    if (!request || --request->refs)
        return;
    gt_table_remove(&cache->requests, request->hash, request);
    for (unsigned i = 0; i < request->count; i++) {
        struct cache_column *column = &cache->columns[request->parts[i].column];
        if (--column->refs == 0)
            free_column(cache, column);
    }
    free(request);
}

bool gt_cache_request_is_above(const struct gt_cache_request *request, const struct gt_cache_request *than)
{
    for (unsigned i = 0; than && i < than->count && i < request->count; i++) {
        if (request->parts[i].column != than->parts[i].column)
            break;
        if (request->parts[i].amount != than->parts[i].amount)
            return request->parts[i].amount > than->parts[i].amount;
    }
    return !than || request->count > than->count;
}

void gt_cache_charge(struct gt_cache *cache, uint32_t row, const struct gt_cache_request *request, int sign)
{
    for (unsigned i = 0; i < request->count; i++) {
        int64_t amount = -sign * request->parts[i].amount;
        cache_resources_change(cache, &cache->columns[request->parts[i].column], row, amount,
                               request->has_gpus ? 0 : amount);
    }
}

/* ---- questions ---- */

static bool has_row(const struct gt_cache *cache, uint32_t node_id)
{
    return node_id < cache->by_id_size && cache->by_id[node_id];
}

static int64_t left_of(const struct gt_cache *cache, unsigned column, uint32_t row, enum gt_cache_room room)
{
    const struct cache_column *of = &cache->columns[column];
    switch (room) {
    case GT_CACHE_ROOM_NOW:
        return of->left[row];
    case GT_CACHE_ROOM_EMPTIED:
        return of->emptied[row];
    case GT_CACHE_ROOM_EMPTY: /* a plugin that is not registered now will be */
        return strcmp(of->name, GT_RESOURCE_GPU) == 0 ? default_amount(of->name) : of->allocatable[row];
    }
    return 0;
}

/* How many such pods fit into a row, at most `most`. */
static uint32_t cache_resources_fit(const struct gt_cache *cache, uint32_t row,
                                    const struct gt_cache_request *request, enum gt_cache_room room,
                                    uint32_t most)
{
    for (unsigned i = 0; i < request->count && most; i++) {
        int64_t left = left_of(cache, request->parts[i].column, row, room), amount = request->parts[i].amount;
        if (left < amount)
            most = 0;
        else if (left / most < amount)
            most = (uint32_t)(left / amount);
    }
    return most;
}

uint32_t gt_cache_room_for(const struct gt_cache *cache, uint32_t node_id,
                           const struct gt_cache_request *request, enum gt_cache_room room)
{
    if (!request || !has_row(cache, node_id))
        return UINT32_MAX;
    return cache_resources_fit(cache, cache->row_of[node_id], request, room, UINT32_MAX);
}

bool gt_cache_has_room(const struct gt_cache *cache, uint32_t node_id,
                       const struct gt_cache_request *const *requests, const uint32_t *pods, unsigned count)
{
    int64_t asked[CACHE_COLUMNS_MAX] = {0};
    if (!has_row(cache, node_id))
        return true;
    for (unsigned k = 0; k < count; k++)
        for (unsigned i = 0; pods[k] && requests[k] && i < requests[k]->count; i++)
            asked[requests[k]->parts[i].column] += pods[k] * requests[k]->parts[i].amount;
    for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++)
        if (asked[i] && asked[i] > cache->columns[i].left[cache->row_of[node_id]])
            return false;
    return true;
}

const char *gt_cache_scarcest(const struct gt_cache *cache, uint32_t node_id,
                              const struct gt_cache_request *request, uint64_t *ret_asked, uint64_t *ret_left)
{
    uint32_t least = UINT32_MAX;
    const char *name = NULL;
    if (!request || !has_row(cache, node_id))
        return NULL;
    for (unsigned i = 0; i < request->count; i++) {
        const struct request_part *part = &request->parts[i];
        int64_t left = cache->columns[part->column].left[cache->row_of[node_id]], pods = left / part->amount;
        if (left >= 0 && pods >= least)
            continue;
        least = left < 0 ? 0 : (uint32_t)pods;
        name = cache->columns[part->column].name;
        *ret_asked = (uint64_t)part->amount;
        *ret_left = left < 0 ? 0 : (uint64_t)left;
    }
    return name;
}

uint32_t gt_cache_gpus_left(const struct gt_cache *cache, uint32_t node_id)
{
    unsigned at = find_column(cache, GT_RESOURCE_GPU);
    if (at == CACHE_COLUMNS_MAX || !has_row(cache, node_id))
        return UINT32_MAX;
    int64_t left = cache->columns[at].left[cache->row_of[node_id]];
    return left < 0 ? 0 : left < UINT32_MAX ? (uint32_t)left : UINT32_MAX;
}

const char *gt_cache_never_enough(const struct gt_cache *cache, const struct gt_node_set *excluded,
                                  const struct gt_cache_request *request, uint64_t *ret_asked,
                                  uint64_t *ret_most)
{
    for (unsigned i = 0; request && i < request->count; i++) {
        const struct request_part *part = &request->parts[i];
        const struct cache_column *column = &cache->columns[part->column];
        int64_t most = 0;
        if (strcmp(column->name, GT_RESOURCE_GPU) == 0)
            continue; /* as above, in left_of() */
        for (uint32_t n = 0; n < gt_cluster_nodes(cache->cluster) && most < part->amount; n++)
            if (has_row(cache, n) && !gt_node_set_has(excluded, n) &&
                column->allocatable[cache->row_of[n]] > most)
                most = column->allocatable[cache->row_of[n]];
        if (most >= part->amount)
            continue;
        *ret_asked = (uint64_t)part->amount;
        *ret_most = (uint64_t)most;
        return column->name;
    }
    return NULL;
}

/* ---- CPU and memory, for scores ---- */

struct gt_mix *gt_cache_mix(struct gt_cache *cache)
{
    return cache->mix;
}

void gt_cache_request_amounts(const struct gt_cache *cache, const struct gt_cache_request *request,
                              struct gt_mix_amounts *ret)
{
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        for (unsigned i = 0; request && i < request->count; i++)
            if (request->parts[i].column + 1 == cache->mix_column[r])
                ret->of[r] = request->parts[i].amount;
}

void gt_cache_left(const struct gt_cache *cache, uint32_t node_id, struct gt_mix_amounts *ret)
{
    *ret = (struct gt_mix_amounts){.of = {[GT_MIX_CPU] = INT64_MAX, [GT_MIX_MEMORY] = INT64_MAX}};
    if (!has_row(cache, node_id))
        return;
    ret->gpus = gt_cluster_available(cache->cluster)[node_id];
    for (unsigned r = 0; r < GT_MIX_RESOURCES; r++)
        if (cache->mix_column[r])
            ret->of[r] = cache->columns[cache->mix_column[r] - 1].left[cache->row_of[node_id]];
}

bool gt_cache_is_covered(const struct gt_cache *cache, uint32_t row, const struct gt_cache_request *request)
{
    for (unsigned i = 0; i < request->count; i++)
        if (cache->columns[request->parts[i].column].left[row] < 0)
            return false;
    return true;
}

/* ---- temporary reservations ---- */

bool gt_cache_assume_room(struct gt_cache *cache, uint32_t node_id, const struct gt_cache_request *request)
{
    if (!gt_cache_room_for(cache, node_id, request, GT_CACHE_ROOM_NOW))
        return false;
    for (unsigned i = 0; request && has_row(cache, node_id) && i < request->count; i++)
        cache->columns[request->parts[i].column].left[cache->row_of[node_id]] -= request->parts[i].amount;
    return true;
}

void gt_cache_forget_room(struct gt_cache *cache, uint32_t node_id, const struct gt_cache_request *request)
{
    for (unsigned i = 0; request && has_row(cache, node_id) && i < request->count; i++)
        cache->columns[request->parts[i].column].left[cache->row_of[node_id]] += request->parts[i].amount;
}

/* ---- limits for plans ---- */

/* How many of `most` GPUs pods of this demand can use, given the row's other resources. */
static unsigned cache_resources_usable(const struct gt_cache *cache, uint32_t row,
                                       const struct gt_cache_demand *demand, enum gt_cache_room room,
                                       unsigned most)
{
    return demand->request
               ? cache_resources_fit(cache, row, demand->request, room, most / demand->gpus) * demand->gpus
               : most / demand->gpus * demand->gpus;
}

/* GPUs that any mix of the demands can use: for each resource, the demand that takes most of it for each GPU
 * counts. */
static unsigned usable_worst(const struct gt_cache *cache, uint32_t row,
                             const struct gt_cache_demand *demands, unsigned count, enum gt_cache_room room,
                             unsigned most)
{
    for (unsigned k = 0; k < count; k++)
        for (unsigned i = 0; demands[k].request && i < demands[k].request->count; i++) {
            const struct request_part *part = &demands[k].request->parts[i];
            int64_t left = left_of(cache, part->column, row, room);
            while (most && left < (most * part->amount + demands[k].gpus - 1) / demands[k].gpus)
                most--;
        }
    return most;
}

uint32_t gt_cache_limits(struct gt_cache *cache, const struct gt_cache_demand *demands, unsigned count,
                         enum gt_cache_room room, bool worst, struct gt_plan_limit *to)
{
    const uint8_t *available = gt_cluster_available(cache->cluster);
    uint32_t nodes = gt_cluster_nodes(cache->cluster), limits = 0;
    unsigned asking = 0;
    for (unsigned k = 0; k < count; k++)
        asking += demands[k].request != NULL;
    if (!asking)
        return 0;
    for (uint32_t n = 0; n < nodes; n++) {
        unsigned all = room == GT_CACHE_ROOM_EMPTIED ? GT_GPUS_MAX : available[n], most = 0, wanted = 0;
        if (!all || !cache->by_id[n])
            continue;
        for (unsigned k = 0; k < count; k++) {
            unsigned gpus = cache_resources_usable(cache, cache->row_of[n], &demands[k], room, all);
            unsigned whole = all / demands[k].gpus * demands[k].gpus;
            most = gpus > most ? gpus : most;
            wanted = whole > wanted ? whole : wanted;
        }
        if (worst && most)
            most = usable_worst(cache, cache->row_of[n], demands, count, room, most);
        if (most >= wanted)
            continue;
        cache->row_short[cache->row_of[n]] = true;
        to[limits++] = (struct gt_plan_limit){n, most};
    }
    return limits;
}

void gt_cache_resources_done(struct gt_cache *cache)
{
    for (unsigned i = 0; i < CACHE_COLUMNS_MAX; i++)
        if (cache->columns[i].name)
            free_column(cache, &cache->columns[i]);
    free(cache->row_of);
    free(cache->row_next);
    free(cache->row_short);
}
