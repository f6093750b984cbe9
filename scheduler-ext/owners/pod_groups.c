/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/owners/pod_groups.h"

#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "base/err.h"
#include "kube/index.h"

struct gt_pod_groups {
    const char *resource;
    struct gt_index types[GT_POD_GROUP_TYPES]; /* an entry's item is a struct gt_pod_group, or a Queue */
    bool known;
};

const struct gt_pod_group *gt_pod_groups_find(const struct gt_pod_groups *groups, enum gt_pod_key key,
                                              const char *namespace_, const char *name)
{
    const struct gt_pod_group *found = NULL;
    for (unsigned i = 0; groups && !found && i < GT_POD_GROUP_TYPES; i++)
        if (gt_pod_group_types[i].key == key)
            found = gt_index_item(&groups->types[i], namespace_, name);
    return found;
}

const struct gt_volcano_queue *gt_pod_groups_find_queue(const struct gt_pod_groups *groups, const char *name)
{
    return gt_index_item(&groups->types[GT_VOLCANO_QUEUE], "", name);
}

int gt_pod_groups_new(const char *resource, struct gt_pod_groups **ret, struct gt_err **err)
{
    struct gt_pod_groups *groups = calloc(1, sizeof(*groups));
    GT_NEED(groups, err, "PodGroups");
    groups->resource = resource;
    for (unsigned i = 0; i < GT_POD_GROUP_TYPES; i++)
        groups->types[i].max = i == GT_VOLCANO_QUEUE ? GT_VOLCANO_QUEUES_MAX : GT_POD_GROUPS_MAX;
    *ret = groups;
    return 0;
}

void gt_pod_groups_free(struct gt_pod_groups *groups)
{
    for (unsigned i = 0; groups && i < GT_POD_GROUP_TYPES; i++) {
        size_t slot = 0;
        for (void *item; (item = gt_index_next(&groups->types[i], &slot));)
            free(item);
        gt_index_done(&groups->types[i]);
    }
    free(groups);
}

bool gt_pod_groups_remove(struct gt_pod_groups *groups, unsigned type, const char *namespace_,
                          const char *name)
{
    gt_auto_free struct gt_index_entry *entry =
        gt_index_take(&groups->types[type], type == GT_VOLCANO_QUEUE ? "" : namespace_, name);
    if (entry)
        free(entry->item);
    return entry;
}

/* A new item, whose entry has the names, in place of an old one; NULL without memory, or beyond the limit. */
static void *pod_groups_replace(struct gt_pod_groups *groups, unsigned type, const char *namespace_,
                                const char *name, size_t size, const struct gt_index_entry **ret)
{
    gt_pod_groups_remove(groups, type, namespace_, name);
    void *item = malloc(size);
    struct gt_index_entry *entry = item ? gt_index_add(&groups->types[type], namespace_, name) : NULL;
    if (!entry) {
        free(item);
        return NULL;
    }
    *ret = entry;
    return entry->item = item;
}

static bool put_queue(struct gt_pod_groups *groups, const cJSON *object)
{
    const struct gt_index_entry *entry;
    struct gt_volcano_queue read;
    if (gt_volcano_queue_read(object, groups->resource, &read, NULL) < 0)
        return gt_pod_groups_remove(groups, GT_VOLCANO_QUEUE, "", gt_meta_name(object));
    const struct gt_volcano_queue *old = gt_pod_groups_find_queue(groups, read.name);
    if (old && old->capability == read.capability && old->allocated == read.allocated)
        return false;
    struct gt_volcano_queue *new =
        pod_groups_replace(groups, GT_VOLCANO_QUEUE, "", read.name, sizeof(*new), &entry);
    if (new)
        *new = (struct gt_volcano_queue){gt_index_name(entry), read.capability, read.allocated};
    return true;
}

bool gt_pod_groups_put(struct gt_pod_groups *groups, unsigned type, const cJSON *object)
{
    const enum gt_pod_key key = gt_pod_group_types[type].key;
    const struct gt_index_entry *entry;
    struct gt_pod_group read;
    if (type == GT_VOLCANO_QUEUE)
        return put_queue(groups, object);
    if (gt_pod_group_read(key, object, &read, NULL) < 0)
        return gt_pod_groups_remove(groups, type, gt_meta_namespace(object), gt_meta_name(object));
    const struct gt_pod_group *old = gt_index_item(&groups->types[type], read.namespace_, read.name);
    if (old && old->is_admitted == read.is_admitted && old->min_member == read.min_member &&
        strcmp(old->queue, read.queue) == 0)
        return false; /* most changes are only counts of pods */
    size_t size = strlen(read.queue) + 1;
    struct gt_pod_group *new =
        pod_groups_replace(groups, type, read.namespace_, read.name, sizeof(*new) + size, &entry);
    if (!new)
        return true;
    *new = read;
    new->namespace_ = entry->key;
    new->name = gt_index_name(entry);
    new->queue = memcpy(new + 1, read.queue, size);
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
