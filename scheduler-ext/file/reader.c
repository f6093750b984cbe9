/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/file/reader.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "scheduler-ext/core/chain.h"
#include "topology/model/node_json.h"

static int reader_by_name(const void *a, const void *b)
{
    const struct named *x = a, *y = b;
    int order = strcmp(x->name, y->name);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static uint32_t named_find(const struct named *list, uint32_t count, const char *name)
{
    size_t at = GT_LOWER_BOUND(i, count, strcmp(list[i].name, name) < 0);
    return at < count && strcmp(list[at].name, name) == 0 ? list[at].index : GT_NONE;
}

/* Sorts the names of a list of the file, which are to differ. */
static int named_sort(struct cluster_reader *reader, const char *list, struct named *names, uint32_t count)
{
    const struct named *twice = NULL;
    qsort(names, count, sizeof(*names), reader_by_name);
    for (uint32_t i = 1; i < count; i++)
        if ((!twice || names[i].index < twice->index) && strcmp(names[i - 1].name, names[i].name) == 0)
            twice = &names[i];
    if (!twice)
        return 0;
    char path[READER_PATH_SIZE];
    snprintf(path, sizeof(path), "%s[%u]", list, twice->index);
    const struct gt_at at = {READER_SOURCE, path, reader->err};
    return gt_at_fail(&at, "name", "\"%.100s\" is the name of %s[%u] already", twice->name, list,
                      twice[-1].index);
}

static const struct {
    const char *path; /* its beginning */
    const char *keys;
} reader_keys[] = {
    {"supernodes[", "name,tier,parent"},
    {"nodes[", "name,supernode,gpus,free,like,topology,slow,unhealthy"},
    {"pods[", "name,job,node,gpus,movable,groupSize,atomicGroupSize,unit,restartCost"},
    {"unitSizes[", "gpus,present,past"},
    {"tiers[", "tier,bandwidthGBps"},
    {"", "supernodes,nodes,pods,unitSizes,tiers"},
};

int gt_reader_object(const struct gt_at *at, const cJSON *json)
{
    if (!cJSON_IsObject(json))
        return gt_at_fail(at, "", "expected an object, is %s", gt_json_type(json));
    unsigned kind = 0;
    while (strncmp(at->path, reader_keys[kind].path, strlen(reader_keys[kind].path)) != 0)
        kind++;
    return gt_get_only_known(at, json, reader_keys[kind].keys);
}

/* Reads a required member: a name of 1 to 253 bytes. */
static int reader_name(const struct gt_at *at, const cJSON *object, const char *key,
                       char ret[static READER_NAME_SIZE])
{
    ret[0] = '\0';
    GT_TRY(gt_get_text(at, object, key, ret, READER_NAME_SIZE));
    if (!gt_get(object, key))
        return gt_at_fail(at, key, "is missing");
    return ret[0] ? 0 : gt_at_fail(at, key, "is empty");
}

/* Reads a list of different GPU numbers below n as a mask. */
static int reader_gpus(const struct gt_at *at, const cJSON *object, const char *key, unsigned n,
                       uint64_t *ret)
{
    const cJSON *array;
    unsigned count, i = 0;
    uint64_t mask = 0;
    GT_TRY(gt_get_array(at, object, key, GT_GPUS_MAX, &array, &count));
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        char place[32];
        snprintf(place, sizeof(place), "%s[%u]", key, i);
        if (!cJSON_IsNumber(item))
            return gt_at_fail(at, place, "expected a number, is %s", gt_json_type(item));
        double number = item->valuedouble;
        if (!(number >= 0 && number < n))
            return gt_at_fail(at, place, "there is no GPU %g, the node has %u", number, n);
        unsigned gpu = (unsigned)number;
        if (gpu != number)
            return gt_at_fail(at, place, "expected a whole number, is %g", number);
        if (mask >> gpu & 1)
            return gt_at_fail(at, place, "GPU %u is there twice", gpu);
        mask |= UINT64_C(1) << gpu;
    }
    *ret = mask;
    return 0;
}

struct supernode_entry {
    const char *name, *parent; /* texts of the JSON; parent NULL: none */
    uint32_t above;            /* the parent's place in the list, GT_NONE */
    uint32_t id;               /* in the cluster */
    unsigned tier;
};

static int file_supernodes_read_entry(struct cluster_reader *reader, uint32_t i, const cJSON *json,
                                      struct supernode_entry *ret)
{
    char path[READER_PATH_SIZE], text[READER_NAME_SIZE];
    snprintf(path, sizeof(path), "supernodes[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    GT_TRY(gt_reader_object(&at, json));
    GT_TRY(reader_name(&at, json, "name", text));
    *ret = (struct supernode_entry){.name = gt_get(json, "name")->valuestring, .above = GT_NONE, .tier = 1};
    const cJSON *tier = gt_get(json, "tier");
    if (cJSON_IsNumber(tier) && (tier->valuedouble < 1 || tier->valuedouble > GT_TIERS_MAX))
        return gt_at_fail(&at, "tier", "expected 1 (best performance) to %d, is %g", GT_TIERS_MAX,
                          tier->valuedouble);
    GT_TRY(gt_get_unsigned(&at, json, "tier", GT_TIERS_MAX, &ret->tier));
    if (gt_get(json, "parent")) {
        GT_TRY(reader_name(&at, json, "parent", text));
        ret->parent = gt_get(json, "parent")->valuestring;
    }
    return 0;
}

/* Whether the chain of parents of i leads back to i. A chain longer than the list has a cycle further up. */
static bool is_in_cycle(const struct supernode_entry *entries, uint32_t count, uint32_t i)
{
    uint32_t at = entries[i].above;
    for (uint32_t step = 0; step < count && at != GT_NONE; step++, at = entries[at].above)
        if (at == i)
            return true;
    return false;
}

static int check_parent(struct cluster_reader *reader, const struct supernode_entry *entries, uint32_t count,
                        uint32_t i)
{
    const struct supernode_entry *entry = &entries[i];
    if (entry->above == GT_NONE || entries[entry->above].tier > entry->tier)
        return 0;
    char path[READER_PATH_SIZE];
    snprintf(path, sizeof(path), "supernodes[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    if (is_in_cycle(entries, count, i))
        return gt_at_fail(&at, "parent", "the parents of \"%.100s\" form a cycle", entry->name);
    return gt_at_fail(&at, "parent", "\"%.100s\" has tier %u, a parent of tier %u must have a higher one",
                      entry->parent, entries[entry->above].tier, entry->tier);
}

static int file_supernodes_find_parents(struct cluster_reader *reader, struct supernode_entry *entries,
                                        uint32_t count)
{
    gt_auto_free struct named *names = calloc((size_t)count + 1, sizeof(*names));
    if (!names)
        return gt_fail_sys(reader->err, ENOMEM, "supernodes");
    for (uint32_t i = 0; i < count; i++)
        names[i] = (struct named){entries[i].name, i};
    GT_TRY(named_sort(reader, "supernodes", names, count));
    char path[READER_PATH_SIZE];
    struct gt_at at = {READER_SOURCE, path, reader->err};
    for (uint32_t i = 0; i < count; i++) {
        if (!entries[i].parent)
            continue;
        entries[i].above = named_find(names, count, entries[i].parent);
        snprintf(path, sizeof(path), "supernodes[%u]", i);
        if (entries[i].above == GT_NONE)
            return gt_at_fail(&at, "parent", "there is no supernode \"%.100s\"", entries[i].parent);
    }
    for (uint32_t i = 0; i < count; i++)
        GT_TRY(check_parent(reader, entries, count, i));
    return 0;
}

int gt_reader_supernodes(struct cluster_reader *reader, const cJSON *array, uint32_t count)
{
    gt_auto_free struct supernode_entry *entries = calloc((size_t)count + 1, sizeof(*entries));
    if (!entries)
        return gt_fail_sys(reader->err, ENOMEM, "supernodes");
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++)
        GT_TRY(file_supernodes_read_entry(reader, i, item, &entries[i]));
    GT_TRY(file_supernodes_find_parents(reader, entries, count));
    for (unsigned tier = GT_TIERS_MAX; tier; tier--) /* parents first */
        for (i = 0; i < count; i++) {
            struct supernode_entry *entry = &entries[i];
            if (entry->tier == tier)
                GT_TRY(gt_cluster_add_supernode(reader->file->cluster, entry->name, tier,
                                                entry->above == GT_NONE ? GT_NONE : entries[entry->above].id,
                                                &entry->id, reader->err));
        }
    return 0;
}

/* The id of the class with these weights, known or new. */
static int file_nodes_add_class(struct cluster_reader *reader, const struct gt_at *at,
                                const struct gt_weights *weights, uint32_t *ret)
{
    gt_auto_class struct gt_class *class = NULL;
    GT_TRY(gt_reader_wrap(at, gt_class_cache_get(reader->classes, weights, &class, reader->err)));
    return gt_reader_wrap(at, gt_cluster_add_class(reader->file->cluster, class, ret, reader->err));
}

static int class_of_count(struct cluster_reader *reader, const struct gt_at *at, unsigned n, uint32_t *ret)
{
    if (reader->count_class[n] == GT_NONE) {
        struct gt_weights weights = {.n = n};
        for (unsigned i = 0; i < n; i++)
            for (unsigned j = 0; j < n; j++)
                weights.w[i][j] = i == j ? 0 : GT_CLUSTER_GPU_WEIGHT;
        GT_TRY(file_nodes_add_class(reader, at, &weights, &reader->count_class[n]));
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
        GT_TRY(gt_get_bdf(at, item, "bdf", bdf));
        GT_TRY(gt_get_unsigned(at, item, "index", UINT32_MAX, &index));
        if (strcmp(bdf, node->gpus[i].bdf) != 0 || index != i)
            return gt_at_fail(at, key,
                              "the GPUs of a cluster's node must stand in the order of their PCI "
                              "addresses and be numbered so");
    }
    return 0;
}

/* Of a node. */
struct reader_hardware {
    uint32_t class;
    unsigned gpus;
    uint64_t healthy, slow;
};

/* The node has the wiring of an earlier node of the file; only the unhealthy GPUs may differ. */
static int read_like(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                     struct reader_hardware *ret)
{
    struct gt_cluster *cluster = reader->file->cluster;
    char name[READER_NAME_SIZE];
    if (gt_get(json, "gpus") || gt_get(json, "topology"))
        return gt_at_fail(at, "like", "there is %s too, expected one of them",
                          gt_get(json, "gpus") ? "gpus" : "a topology");
    GT_TRY(reader_name(at, json, "like", name));
    struct gt_cluster_node other;
    uint32_t id = gt_cluster_find_node(cluster, name);
    if (id == GT_NONE || !gt_cluster_get_node(cluster, id, &other))
        return gt_at_fail(at, "like", "there is no node \"%.100s\" before this one", name);
    ret->gpus = gt_class_gpus(other.class);
    uint64_t unhealthy;
    GT_TRY(reader_gpus(at, json, "unhealthy", ret->gpus, &unhealthy));
    GT_TRY(reader_gpus(at, json, "slow", ret->gpus, &ret->slow));
    ret->healthy = ~unhealthy;
    return gt_reader_wrap(at, gt_cluster_add_class(cluster, other.class, &ret->class, reader->err));
}

static int read_hardware(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                         struct reader_hardware *ret)
{
    const cJSON *topology;
    if (gt_get(json, "like"))
        return read_like(reader, at, json, ret);
    GT_TRY(gt_get_object(at, json, "topology", &topology));
    if (topology && gt_get(json, "gpus"))
        return gt_at_fail(at, "gpus", "there is a topology too, expected one of them");
    if (!topology) {
        unsigned n = UINT32_MAX;
        GT_TRY(gt_get_unsigned(at, json, "gpus", GT_GPUS_MAX, &n));
        if (n == UINT32_MAX)
            return gt_at_fail(at, "", "expected gpus (a number), topology (a node) or like (a name)");
        ret->gpus = n;
        ret->healthy = ~UINT64_C(0);
        GT_TRY(reader_gpus(at, json, "slow", n, &ret->slow));
        return class_of_count(reader, at, n, &ret->class);
    }
    char source[READER_PATH_SIZE + 32];
    snprintf(source, sizeof(source), READER_SOURCE ": %s.topology", at->path);
    gt_auto_node struct gt_node *node = NULL;
    GT_TRY(gt_node_from_json(topology, source, &node, reader->err));
    GT_TRY(file_nodes_check_order(at, gt_get(topology, "gpus"), node));
    struct gt_weights weights;
    gt_weights_of(node, &weights);
    ret->gpus = node->gpu_count;
    ret->healthy = gt_node_usable(node);
    ret->slow = gt_node_graded(node);
    return file_nodes_add_class(reader, at, &weights, &ret->class);
}

static int read_supernode(struct cluster_reader *reader, const struct gt_at *at, const cJSON *json,
                          uint32_t *ret)
{
    struct gt_cluster *cluster = reader->file->cluster;
    *ret = GT_NONE;
    if (!gt_get(json, "supernode"))
        return 0;
    char name[READER_NAME_SIZE];
    GT_TRY(reader_name(at, json, "supernode", name));
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
    GT_TRY(gt_reader_object(&at, json));
    GT_TRY(reader_name(&at, json, "name", name));
    uint32_t twice = gt_cluster_find_node(cluster, name);
    if (twice != GT_NONE)
        return gt_at_fail(&at, "name", "\"%.100s\" is the name of nodes[%u] already", name, twice);
    struct reader_hardware hardware;
    uint32_t supernode, id;
    uint64_t free;
    GT_TRY(read_supernode(reader, &at, json, &supernode));
    GT_TRY(read_hardware(reader, &at, json, &hardware));
    reader->free_given[reader->node_count] = gt_get(json, "free");
    GT_TRY(reader_gpus(&at, json, "free", hardware.gpus, &free));
    GT_TRY(
        gt_reader_wrap(&at, gt_cluster_add_node(cluster, name, hardware.class, supernode, &id, reader->err)));
    if (reader->free_given[reader->node_count])
        gt_cluster_set_free(cluster, id, free);
    gt_cluster_set_healthy(cluster, id, hardware.healthy);
    gt_cluster_set_slow(cluster, id, hardware.slow);
    reader->node_count++;
    return 0;
}

int gt_reader_nodes(struct cluster_reader *reader, const cJSON *array)
{
    for (const cJSON *item = array->child; item; item = item->next)
        GT_TRY(file_nodes_read(reader, item));
    return 0;
}

static int file_pods_read(struct cluster_reader *reader, uint32_t i, const cJSON *json, uint64_t *used)
{
    struct gt_cluster_file *file = reader->file;
    struct gt_cluster_pod *named = &file->pods[i];
    struct gt_running_pod *pod = &file->running[i];
    unsigned group = 0, atomic = 0, unit = 0, cost = 1;
    char path[READER_PATH_SIZE], name[READER_NAME_SIZE], job[READER_NAME_SIZE] = "", node[READER_NAME_SIZE];
    snprintf(path, sizeof(path), "pods[%u]", i);
    struct gt_at at = {READER_SOURCE, path, reader->err};
    GT_TRY(gt_reader_object(&at, json));
    GT_TRY(reader_name(&at, json, "name", name));
    GT_TRY(gt_get_text(&at, json, "job", job, sizeof(job)));
    named->name = strdup(name);
    named->job = strdup(job);
    if (!named->name || !named->job)
        return gt_fail_sys(reader->err, ENOMEM, "pods");
    GT_TRY(gt_get_bool(&at, json, "movable", &pod->movable));
    GT_TRY(gt_get_unsigned(&at, json, "groupSize", GT_CHAIN_SIZE_MAX, &group));
    GT_TRY(gt_get_unsigned(&at, json, "atomicGroupSize", GT_CHAIN_SIZE_MAX, &atomic));
    GT_TRY(gt_get_unsigned(&at, json, "unit", GT_CLUSTER_PODS_MAX, &unit));
    GT_TRY(gt_get_unsigned(&at, json, "restartCost", GT_MOVE_COST_MAX, &cost));
    GT_TRY(reader_name(&at, json, "node", node));
    pod->place.node = gt_cluster_find_node(file->cluster, node);
    if (pod->place.node == GT_NONE)
        return gt_at_fail(&at, "node", "there is no node \"%.100s\"", node);
    struct gt_cluster_node n;
    gt_cluster_get_node(file->cluster, pod->place.node, &n);
    GT_TRY(reader_gpus(&at, json, "gpus", gt_class_gpus(n.class), &pod->place.mask));
    if (!pod->place.mask)
        return gt_at_fail(&at, "gpus", "expected the GPUs that the pod uses, there are none");
    if (pod->place.mask & used[pod->place.node])
        return gt_at_fail(&at, "gpus", "GPU %d of \"%.100s\" is used by another pod",
                          gt_bit_first(pod->place.mask & used[pod->place.node]), node);
    if (reader->free_given[pod->place.node] && pod->place.mask & n.free)
        return gt_at_fail(&at, "gpus", "GPU %d of \"%.100s\" is free, its node says",
                          gt_bit_first(pod->place.mask & n.free), node);
    used[pod->place.node] |= pod->place.mask;
    pod->cost = cost;
    pod->unit = unit;
    named->unit_gpus = atomic ? atomic : group;
    if (named->unit_gpus <= gt_bit_count(pod->place.mask))
        pod->unit = GT_NONE;
    if (!reader->sizes_given) {
        gt_chain_came(file->cluster, group, gt_bit_count(pod->place.mask));
        gt_chain_came(file->cluster, atomic, gt_bit_count(pod->place.mask));
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
    return named_sort(reader, "pods", names, file->pod_count);
}

int gt_reader_pods(struct cluster_reader *reader, const cJSON *array, uint32_t count)
{
    struct gt_cluster_file *file = reader->file;
    gt_auto_free uint64_t *used = calloc((size_t)reader->node_count + 1, sizeof(*used));
    file->pods = calloc((size_t)count + 1, sizeof(*file->pods));
    file->running = calloc((size_t)count + 1, sizeof(*file->running));
    if (!used || !file->pods || !file->running)
        return gt_fail_sys(reader->err, ENOMEM, "pods");
    file->pod_count = count;
    uint32_t i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next)
        GT_TRY(file_pods_read(reader, i++, item, used));
    GT_TRY(check_names(reader));
    for (uint32_t node = 0; node < reader->node_count; node++)
        if (used[node] && !reader->free_given[node])
            gt_cluster_set_free(file->cluster, node, ~used[node]);
    return 0;
}
