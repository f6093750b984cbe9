/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "scheduler-ext/file/reader.h"
#include "topology/model/node_json.h"

/* The id of the class with these weights, known or new. */
static int file_nodes_add_class(struct cluster_reader *reader, const struct gt_at *at,
                                const struct gt_weights *weights, uint32_t *ret)
{
    gt_auto_class struct gt_class *class = NULL;
    TRY(gt_reader_wrap(at, gt_class_cache_get(reader->classes, weights, &class, reader->err)));
    return gt_reader_wrap(at, gt_cluster_add_class(reader->file->cluster, class, ret, reader->err));
}

static int class_of_count(struct cluster_reader *reader, const struct gt_at *at, unsigned n, uint32_t *ret)
{
    if (reader->count_class[n] == GT_NONE) {
        struct gt_weights weights = {.n = n};
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < n; j++)
                weights.w[i][j] = i == j ? 0 : GT_CLUSTER_GPU_WEIGHT;
        TRY(file_nodes_add_class(reader, at, &weights, &reader->count_class[n]));
    }
    *ret = reader->count_class[n];
    return 0;
}

/* GPUs are numbered by PCI address everywhere. With a topology in another order the numbers in `free` would
 * be ambiguous. */
static int file_nodes_check_order(const struct gt_at *at, const cJSON *gpus, const struct gt_node *node)
{
    unsigned i = 0;
    for (const cJSON *item = gpus->child; item && i < node->gpu_count; item = item->next, i++) {
        char bdf[GT_BDF_SIZE] = "", key[48];
        snprintf(key, sizeof(key), "topology.gpus[%u]", i);
        unsigned index = i;
        TRY(gt_get_bdf(at, item, "bdf", bdf));
        TRY(gt_get_unsigned(at, item, "index", UINT32_MAX, &index));
        if (strcmp(bdf, node->gpus[i].bdf) != 0 || index != i)
            return gt_at_fail(at, key,
                              "the GPUs of a cluster's node must stand in the order of their PCI "
                              "addresses and be numbered so");
    }
    return 0;
}

/* The node has the wiring of an earlier node of the file; only the unhealthy GPUs may differ. */
static int read_like(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                     uint32_t *ret_class, unsigned *ret_count, uint64_t *ret_healthy)
{
    struct gt_cluster *cluster = reader->file->cluster;
    char name[READER_NAME_SIZE];
    if (gt_get(json, "gpus") || gt_get(json, "topology"))
        return gt_at_fail(at, "like", "there is %s too, expected one of them",
                          gt_get(json, "gpus") ? "gpus" : "a topology");
    TRY(gt_reader_name(at, json, "like", name));
    struct gt_cluster_node other;
    uint32_t id = gt_cluster_find_node(cluster, name);
    if (id == GT_NONE || !gt_cluster_get_node(cluster, id, &other))
        return gt_at_fail(at, "like", "there is no node \"%.100s\" before this one", name);
    *ret_count = gt_class_gpus(other.class);
    uint64_t unhealthy;
    TRY(gt_reader_gpus(at, json, "unhealthy", *ret_count, &unhealthy));
    *ret_healthy = ~unhealthy;
    return gt_reader_wrap(at, gt_cluster_add_class(cluster, other.class, ret_class, reader->err));
}

/* The hardware of a node: its class, how many GPUs, which are healthy. */
static int read_hardware(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                         uint32_t *ret_class, unsigned *ret_count, uint64_t *ret_healthy)
{
    const cJSON *topology;
    if (gt_get(json, "like"))
        return read_like(reader, at, json, ret_class, ret_count, ret_healthy);
    TRY(gt_get_object(at, json, "topology", &topology));
    if (topology && gt_get(json, "gpus"))
        return gt_at_fail(at, "gpus", "there is a topology too, expected one of them");
    if (!topology) {
        unsigned n = UINT32_MAX;
        TRY(gt_get_unsigned(at, json, "gpus", GT_GPUS_MAX, &n));
        if (n == UINT32_MAX)
            return gt_at_fail(at, "", "expected gpus (a number), topology (a node) or like (a name)");
        *ret_count = n;
        *ret_healthy = ~UINT64_C(0);
        return class_of_count(reader, at, n, ret_class);
    }
    char source[READER_PATH_SIZE + 32];
    snprintf(source, sizeof(source), READER_SOURCE ": %s.topology", at->path);
    gt_auto_node struct gt_node *node = NULL;
    TRY(gt_node_from_json(topology, source, &node, reader->err));
    TRY(file_nodes_check_order(at, gt_get(topology, "gpus"), node));
    struct gt_weights weights;
    gt_weights_of(node, &weights);
    *ret_count = node->gpu_count;
    *ret_healthy = gt_node_usable(node);
    return file_nodes_add_class(reader, at, &weights, ret_class);
}

static int read_supernode(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                          uint32_t *ret)
{
    struct gt_cluster *cluster = reader->file->cluster;
    *ret = GT_NONE;
    if (!gt_get(json, "supernode"))
        return 0;
    char name[READER_NAME_SIZE];
    TRY(gt_reader_name(at, json, "supernode", name));
    *ret = gt_cluster_find_supernode(cluster, name);
    if (*ret != GT_NONE)
        return 0;
    if (reader->supernodes_given)
        return gt_at_fail(at, "supernode", "there is no supernode \"%.100s\"", name);
    return gt_reader_wrap(at, gt_cluster_add_supernode(cluster, name, 1, GT_NONE, ret, reader->err));
}

static int file_nodes_read(struct cluster_reader *reader, const cJSON *json)
{
    struct gt_cluster *cluster = reader->file->cluster;
    char path[READER_PATH_SIZE], name[READER_NAME_SIZE];
    snprintf(path, sizeof(path), "nodes[%u]", reader->node_count);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    TRY(gt_reader_object(&at, json));
    TRY(gt_reader_name(&at, json, "name", name));
    uint32_t twice = gt_cluster_find_node(cluster, name);
    if (twice != GT_NONE)
        return gt_at_fail(&at, "name", "\"%.100s\" is the name of nodes[%u] already", name, twice);
    uint32_t supernode, class, id;
    unsigned count;
    uint64_t healthy, free;
    TRY(read_supernode(reader, &at, json, &supernode));
    TRY(read_hardware(reader, &at, json, &class, &count, &healthy));
    reader->free_given[reader->node_count] = gt_get(json, "free");
    TRY(gt_reader_gpus(&at, json, "free", count, &free));
    TRY(gt_reader_wrap(&at, gt_cluster_add_node(cluster, name, class, supernode, &id, reader->err)));
    if (reader->free_given[reader->node_count])
        gt_cluster_set_free(cluster, id, free);
    gt_cluster_set_healthy(cluster, id, healthy);
    reader->node_count++;
    return 0;
}

int gt_reader_nodes(struct cluster_reader *reader, const cJSON *array)
{
    for (const cJSON *item = array->child; item; item = item->next)
        TRY(file_nodes_read(reader, item));
    return 0;
}
