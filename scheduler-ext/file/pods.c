/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "scheduler-ext/core/chain.h"
#include "scheduler-ext/file/reader.h"

static int file_pods_read(struct cluster_reader *reader, uint32_t i, const cJSON *json, uint64_t *used)
{
    struct gt_cluster_file *file = reader->file;
    struct gt_cluster_pod *pod = &file->pods[i];
    unsigned group = 0, atomic = 0;
    char path[READER_PATH_SIZE], name[READER_NAME_SIZE], job[READER_NAME_SIZE] = "", node[READER_NAME_SIZE];
    snprintf(path, sizeof(path), "pods[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    TRY(gt_reader_object(&at, json));
    TRY(gt_reader_name(&at, json, "name", name));
    TRY(gt_get_text(&at, json, "job", job, sizeof(job)));
    pod->name = strdup(name);
    pod->job = strdup(job);
    if (!pod->name || !pod->job)
        return gt_fail_sys(reader->err, ENOMEM, "pods");
    TRY(gt_get_bool(&at, json, "movable", &pod->movable));
    TRY(gt_get_unsigned(&at, json, "groupSize", GT_CHAIN_SIZE_MAX, &group));
    TRY(gt_get_unsigned(&at, json, "atomicGroupSize", GT_CHAIN_SIZE_MAX, &atomic));
    TRY(gt_reader_name(&at, json, "node", node));
    pod->node = gt_cluster_find_node(file->cluster, node);
    if (pod->node == GT_NONE)
        return gt_at_fail(&at, "node", "there is no node \"%.100s\"", node);
    struct gt_cluster_node n;
    gt_cluster_get_node(file->cluster, pod->node, &n);
    TRY(gt_reader_gpus(&at, json, "gpus", gt_class_gpus(n.class), &pod->mask));
    if (!pod->mask)
        return gt_at_fail(&at, "gpus", "expected the GPUs that the pod uses, there are none");
    if (pod->mask & used[pod->node])
        return gt_at_fail(&at, "gpus", "GPU %d of \"%.100s\" is used by another pod",
                          gt_bit_first(pod->mask & used[pod->node]), node);
    if (reader->free_given[pod->node] && pod->mask & n.free)
        return gt_at_fail(&at, "gpus", "GPU %d of \"%.100s\" is free, its node says",
                          gt_bit_first(pod->mask & n.free), node);
    used[pod->node] |= pod->mask;
    pod->together = atomic ? atomic : group;
    if (!reader->sizes_given) {
        gt_chain_came(file->cluster, group, gt_bit_count(pod->mask));
        gt_chain_came(file->cluster, atomic, gt_bit_count(pod->mask));
    }
    return 0;
}

static int check_names(struct cluster_reader *reader)
{
    const struct gt_cluster_file *file = reader->file;
    gt_auto_free struct named *names = calloc((size_t)file->pod_count + 1, sizeof(*names));
    if (!names)
        return gt_fail_sys(reader->err, ENOMEM, "pods");
    for (uint32_t i = 0; i < file->pod_count; i++)
        names[i] = (struct named){file->pods[i].name, i};
    gt_named_sort(names, file->pod_count);
    uint32_t first, twice = gt_named_twice(names, file->pod_count, &first);
    if (twice == GT_NONE)
        return 0;
    char path[READER_PATH_SIZE];
    snprintf(path, sizeof(path), "pods[%u]", twice);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    return gt_at_fail(&at, "name", "\"%.100s\" is the name of pods[%u] already", file->pods[twice].name,
                      first);
}

int gt_reader_pods(struct cluster_reader *reader, const cJSON *array, uint32_t count)
{
    struct gt_cluster_file *file = reader->file;
    gt_auto_free uint64_t *used = calloc((size_t)reader->node_count + 1, sizeof(*used));
    file->pods = calloc((size_t)count + 1, sizeof(*file->pods));
    if (!used || !file->pods)
        return gt_fail_sys(reader->err, ENOMEM, "pods");
    file->pod_count = count;
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next)
        TRY(file_pods_read(reader, i++, item, used));
    TRY(check_names(reader));
    for (uint32_t node = 0; node < reader->node_count; node++)
        if (used[node] && !reader->free_given[node])
            gt_cluster_set_free(file->cluster, node, ~used[node]);
    return 0;
}
