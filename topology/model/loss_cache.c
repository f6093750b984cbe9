/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "topology/model/loss_internal.h"

/* The classes that were built. They are few, so a search reads all of them. */

enum { CAPACITY_MAX = 65536 };

struct class_entry {
    struct gt_class *class; /* NULL: not used yet */
    uint64_t used;          /* the tick of its last use */
};

struct gt_class_cache {
    pthread_mutex_t lock;
    uint64_t tick;
    unsigned capacity;
    struct class_entry entry[];
};

int gt_class_cache_new(unsigned capacity, struct gt_class_cache **ret, struct gt_err **err)
{
    struct gt_class_cache *cache;

    if (!capacity || capacity > CAPACITY_MAX)
        return gt_fail(err, EINVAL, "a class cache of %u entries, must be from 1 to %d", capacity,
                       CAPACITY_MAX);
    cache = calloc(1, sizeof(*cache) + capacity * sizeof(cache->entry[0]));
    if (!cache)
        return gt_fail(err, ENOMEM, "no memory for a class cache of %u entries", capacity);
    cache->capacity = capacity;
    pthread_mutex_init(&cache->lock, NULL);
    *ret = cache;
    return 0;
}

void gt_class_cache_free(struct gt_class_cache *cache)
{
    if (!cache)
        return;
    for (unsigned i = 0; i < cache->capacity; i++)
        gt_class_unref(cache->entry[i].class);
    pthread_mutex_destroy(&cache->lock);
    free(cache);
}

/* A new reference, or NULL where it is not there. Under the lock. */
static struct gt_class *loss_cache_find(struct gt_class_cache *cache, const struct gt_weights *weights)
{
    for (unsigned i = 0; i < cache->capacity; i++) {
        struct class_entry *entry = &cache->entry[i];

        if (!entry->class)
            break; /* entries fill from the front */
        if (gt_class_is_of(entry->class, weights)) {
            entry->used = ++cache->tick;
            return gt_class_ref(entry->class);
        }
    }
    return NULL;
}

/* Takes the first unused place, else that of the class unused longest, which is returned. Under the lock. */
static struct gt_class *loss_cache_insert(struct gt_class_cache *cache, struct gt_class *class)
{
    struct class_entry *place = &cache->entry[0];
    struct gt_class *leaving;

    for (unsigned i = 0; i < cache->capacity && place->class; i++)
        if (!cache->entry[i].class || cache->entry[i].used < place->used)
            place = &cache->entry[i];
    leaving = place->class;
    *place = (struct class_entry){gt_class_ref(class), ++cache->tick};
    return leaving;
}

int gt_class_cache_get(struct gt_class_cache *cache, const struct gt_weights *weights, struct gt_class **ret,
                       struct gt_err **err)
{
    gt_auto_class struct gt_class *built = NULL;
    struct gt_class *class, *leaving = NULL;
    int r;

    pthread_mutex_lock(&cache->lock);
    class = loss_cache_find(cache, weights);
    pthread_mutex_unlock(&cache->lock);
    if (class) {
        *ret = class;
        return 0;
    }

    /* Built without the lock, so that others need not wait. Two threads may build the same. */
    r = gt_class_new(weights, &built, err);
    if (r < 0)
        return r;
    pthread_mutex_lock(&cache->lock);
    class = loss_cache_find(cache, weights);
    if (!class) {
        leaving = loss_cache_insert(cache, built);
        class = gt_steal(built);
    }
    pthread_mutex_unlock(&cache->lock);
    gt_class_unref(leaving);
    *ret = class;
    return 0;
}

size_t gt_class_cache_bytes(struct gt_class_cache *cache)
{
    size_t bytes = sizeof(*cache) + cache->capacity * sizeof(cache->entry[0]);

    pthread_mutex_lock(&cache->lock);
    for (unsigned i = 0; i < cache->capacity && cache->entry[i].class; i++)
        bytes += gt_class_bytes(cache->entry[i].class);
    pthread_mutex_unlock(&cache->lock);
    return bytes;
}
