/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/pod_groups.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/digest.h"
#include "base/table.h"

struct gt_pod_groups {
    const char *resource;
    struct gt_table table, queues;
    bool known;
};

struct group_key {
    const char *namespace_, *name;
    enum gt_pod_key key;
};

static bool pod_groups_is_named(const void *item, const void *key)
{
    const struct gt_pod_group *group = item;
    const struct group_key *wanted = key;
    return group->key == wanted->key && strcmp(group->namespace_, wanted->namespace_) == 0 &&
           strcmp(group->name, wanted->name) == 0;
}

const struct gt_pod_group *gt_pod_groups_find(const struct gt_pod_groups *groups, enum gt_pod_key key,
                                              const char *namespace_, const char *name)
{
    return groups ? gt_table_find(&groups->table, gt_digest_hash_of_name(namespace_, name),
                                  pod_groups_is_named, &(struct group_key){namespace_, name, key})
                  : NULL;
}

static bool is_queue_named(const void *item, const void *key)
{
    return strcmp(((const struct gt_volcano_queue *)item)->name, key) == 0;
}

const struct gt_volcano_queue *gt_pod_groups_find_queue(const struct gt_pod_groups *groups, const char *name)
{
    return gt_table_find(&groups->queues, gt_digest_hash_of_name("", name), is_queue_named, name);
}

/* A copy in one block with its texts. */
static struct gt_pod_group *pod_groups_copy(const struct gt_pod_group *from)
{
    const char *const texts[] = {from->namespace_, from->name, from->queue};
    size_t lens[GT_COUNT(texts)], size = sizeof(*from);
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        size += lens[i] = strlen(texts[i]) + 1;
    struct gt_pod_group *to = malloc(size);
    if (!to)
        return NULL;
    char *at = (char *)(to + 1), *copies[GT_COUNT(texts)];
    for (unsigned i = 0; i < GT_COUNT(texts); at += lens[i++])
        copies[i] = memcpy(at, texts[i], lens[i]);
    *to = (struct gt_pod_group){copies[0], copies[1],        from->key,
                                copies[2], from->min_member, from->is_admitted};
    return to;
}

int gt_pod_groups_new(const char *resource, struct gt_pod_groups **ret, struct gt_err **err)
{
    struct gt_pod_groups *groups = calloc(1, sizeof(*groups));
    if (!groups)
        return gt_fail_sys(err, ENOMEM, "PodGroups");
    groups->resource = resource;
    *ret = groups;
    return 0;
}

void gt_pod_groups_free(struct gt_pod_groups *groups)
{
    if (!groups)
        return;
    struct gt_table *tables[] = {&groups->table, &groups->queues};
    for (unsigned t = 0; t < GT_COUNT(tables); t++) {
        for (uint32_t i = 0; i < tables[t]->size; i++)
            free(tables[t]->items[i]);
        gt_table_done(tables[t]);
    }
    free(groups);
}

bool gt_pod_groups_remove(struct gt_pod_groups *groups, unsigned type, const char *namespace_,
                          const char *name)
{
    bool is_queue = type == GT_VOLCANO_QUEUE;
    const void *found = is_queue ? (const void *)gt_pod_groups_find_queue(groups, name)
                                 : gt_pod_groups_find(groups, gt_pod_group_types[type].key, namespace_, name);
    if (found)
        gt_table_remove(is_queue ? &groups->queues : &groups->table,
                        gt_digest_hash_of_name(is_queue ? "" : namespace_, name), found);
    bool is_known = found != NULL;
    free((void *)(uintptr_t)found);
    return is_known;
}

static bool put_queue(struct gt_pod_groups *groups, const cJSON *object)
{
    struct gt_volcano_queue read;
    if (gt_volcano_queue_read(object, groups->resource, &read, NULL) < 0)
        return gt_pod_groups_remove(groups, GT_VOLCANO_QUEUE, "", gt_meta_name(object));
    const struct gt_volcano_queue *old = gt_pod_groups_find_queue(groups, read.name);
    if (old && old->capability == read.capability && old->allocated == read.allocated)
        return false;
    gt_pod_groups_remove(groups, GT_VOLCANO_QUEUE, "", read.name);
    size_t len = strlen(read.name) + 1;
    struct gt_volcano_queue *new =
        groups->queues.count < GT_VOLCANO_QUEUES_MAX ? malloc(sizeof(*new) + len) : NULL;
    if (!new)
        return true;
    *new = (struct gt_volcano_queue){memcpy(new + 1, read.name, len), read.capability, read.allocated};
    if (gt_table_add(&groups->queues, gt_digest_hash_of_name("", new->name), new) < 0)
        free(new);
    return true;
}

bool gt_pod_groups_put(struct gt_pod_groups *groups, unsigned type, const cJSON *object)
{
    const enum gt_pod_key key = gt_pod_group_types[type].key;
    struct gt_pod_group read;
    if (type == GT_VOLCANO_QUEUE)
        return put_queue(groups, object);
    if (gt_pod_group_read(key, object, &read, NULL) < 0)
        return gt_pod_groups_remove(groups, type, gt_meta_namespace(object), gt_meta_name(object));
    const struct gt_pod_group *old = gt_pod_groups_find(groups, key, read.namespace_, read.name);
    if (old && old->is_admitted == read.is_admitted && old->min_member == read.min_member &&
        strcmp(old->queue, read.queue) == 0)
        return false; /* most changes are only counts of pods */
    gt_pod_groups_remove(groups, type, read.namespace_, read.name);
    struct gt_pod_group *new = groups->table.count < GT_POD_GROUPS_MAX ? pod_groups_copy(&read) : NULL;
    if (new &&gt_table_add(&groups->table, gt_digest_hash_of_name(new->namespace_, new->name), new) < 0)
        free(new);
    return true;
}

void gt_pod_groups_set_known(struct gt_pod_groups *groups, bool known)
{
    groups->known = known;
}

bool gt_pod_groups_is_known(const struct gt_pod_groups *groups)
{
    return groups && groups->known;
}
