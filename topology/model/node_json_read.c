/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "base/text.h"
#include "base/time_text.h"
#include "topology/model/node_internal.h"
#include "topology/model/node_json.h"

/*
 * GPUs may be in any order in the file, their `index` (else their position) is what links and localities
 * mean. They are sorted by BDF and everything is renumbered; derived values (zone, weight) are not read.
 */
struct node_reader {
    struct gt_node *node;
    unsigned bit_of[GT_GPUS_MAX];                     /* file index -> index in the node */
    bool linked[GT_GPUS_MAX * (GT_GPUS_MAX - 1) / 2]; /* the pairs whose link was read */
};

/* Reads the member `i` of a list, an object at this place. */
typedef int node_member_reader(struct node_reader *reader, const struct gt_at *at, unsigned i,
                               const cJSON *json);

static int read_kind(const struct gt_at *at, const char *key, const cJSON *value, enum gt_link_kind *ret)
{
    char name[32] = "";
    GT_TRY(gt_read_text(at, key, value, name, sizeof(name)));
    enum gt_link_kind kind;
    if (!gt_link_kind_by_name(name, &kind) || kind == GT_LINK_SELF)
        return gt_at_fail(at, key, "\"%s\" is none of MX, PIX, PXB, PHB, NODE, SYS, NA", name);
    *ret = kind;
    return 0;
}

static int get_kind(const struct gt_at *at, const cJSON *object, const char *key, enum gt_link_kind *ret)
{
    const cJSON *value = gt_get(object, key);
    return value ? read_kind(at, key, value, ret) : 0;
}

int gt_get_bdf(const struct gt_at *at, const cJSON *object, const char *key, char ret[static GT_BDF_SIZE])
{
    char text[64] = "";
    int r = gt_get_text(at, object, key, text, sizeof(text));
    if (r < 0 || !text[0])
        return r;
    if (!gt_bdf_normalise(text, ret))
        return gt_at_fail(at, key, "\"%s\" is no PCI address such as 0000:0e:00.0", text);
    return 0;
}

static int need_object(const struct gt_at *at, const cJSON *json)
{
    return cJSON_IsObject(json) ? 0 : gt_at_fail(at, "", "expected an object, is %s", gt_json_type(json));
}

static int read_members(struct node_reader *reader, const struct gt_at *at, const cJSON *object,
                        const char *key, unsigned max, node_member_reader *read)
{
    const cJSON *array;
    unsigned count, i = 0;
    GT_TRY(gt_get_array(at, object, key, max, &array, &count));
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        char path[32];
        snprintf(path, sizeof(path), "%s[%u]", key, i);
        const struct gt_at below = {at->source, path, at->err};
        GT_TRY(need_object(&below, item));
        GT_TRY(read(reader, &below, i, item));
    }
    return 0;
}

/* One of these words, as its place in the list, which ends with NULL. */
static int node_json_read_word(const struct gt_at *at, const cJSON *object, const char *key,
                               const char *const *words, const char *among, unsigned *ret)
{
    char text[32] = "";
    GT_TRY(gt_get_text(at, object, key, text, sizeof(text)));
    for (unsigned i = 0; text[0] && words[i]; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = i;
            return 0;
        }
    return text[0] ? gt_at_fail(at, key, "\"%s\" is none of %s", text, among) : 0;
}

static int read_path(const struct gt_at *at, const cJSON *object, struct gt_pcie_path *ret)
{
    const cJSON *array;
    unsigned count;
    GT_TRY(gt_get_array(at, object, "path", GT_PATH_MAX_DEPTH, &array, &count));
    unsigned i = 0;
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, i++) {
        char key[32], text[64];
        snprintf(key, sizeof(key), "path[%u]", i);
        GT_TRY(gt_read_text(at, key, item, text, sizeof(text)));
        if (!gt_bdf_normalise(text, ret->bridges[i]))
            return gt_at_fail(at, key, "\"%s\" is no PCI address such as 0000:0e:00.0", text);
    }
    ret->depth = count;
    GT_TRY(gt_get_text(at, object, "root", ret->root, sizeof(ret->root)));
    return 0;
}

static int read_pci_id(const struct gt_at *at, const cJSON *object, const char *key, unsigned *ret)
{
    char text[32] = "";
    GT_TRY(gt_get_text(at, object, key, text, sizeof(text)));
    if (!text[0])
        return 0;
    if (strlen(text) > 4 || strspn(text, "0123456789abcdefABCDEF") != strlen(text))
        return gt_at_fail(at, key, "\"%s\" is no PCI id of up to four hexadecimal digits", text);
    *ret = (unsigned)strtoul(text, NULL, 16);
    return 0;
}

static int node_json_read_pcie(const struct gt_at *at, const cJSON *object, struct gt_gpu *gpu)
{
    char path[64];
    const cJSON *pcie, *drm;
    GT_TRY(gt_get_object(at, object, "pcie", &pcie));
    if (pcie) {
        snprintf(path, sizeof(path), "%s.pcie", at->path);
        const struct gt_at below = {at->source, path, at->err};
        GT_TRY(gt_get_number(&below, pcie, "speedGTs", GT_SPEED_MAX, &gpu->pci.now.speed));
        GT_TRY(gt_get_unsigned(&below, pcie, "width", GT_WIDTH_MAX, &gpu->pci.now.width));
        GT_TRY(gt_get_number(&below, pcie, "maxSpeedGTs", GT_SPEED_MAX, &gpu->pci.max.speed));
        GT_TRY(gt_get_unsigned(&below, pcie, "maxWidth", GT_WIDTH_MAX, &gpu->pci.max.width));
        GT_TRY(read_path(&below, pcie, &gpu->pci.path));
    }
    GT_TRY(gt_get_object(at, object, "drm", &drm));
    if (drm) {
        snprintf(path, sizeof(path), "%s.drm", at->path);
        const struct gt_at below = {at->source, path, at->err};
        GT_TRY(gt_get_int(&below, drm, "card", GT_SMALL_INDEX_MAX, &gpu->drm_card));
        GT_TRY(gt_get_int(&below, drm, "render", GT_SMALL_INDEX_MAX, &gpu->drm_render));
    }
    return 0;
}

/* `healthy` was written before there was `health`: false for unhealthy, true for all else. Either may say
 * that a GPU is unhealthy. */
static int read_health(const struct gt_at *at, const cJSON *object, enum gt_gpu_health *ret)
{
    unsigned health = cJSON_IsTrue(gt_get(object, "healthy")) ? GT_GPU_HEALTHY : GT_GPU_HEALTH_UNKNOWN;
    bool healthy = true;
    GT_TRY(node_json_read_word(at, object, "health", gt_gpu_health_names, "healthy, unhealthy, unknown",
                               &health));
    GT_TRY(gt_get_bool(at, object, "healthy", &healthy));
    *ret = healthy ? (enum gt_gpu_health)health : GT_GPU_UNHEALTHY;
    return 0;
}

static int read_grade(const struct gt_at *at, const cJSON *json, struct gt_gpu *gpu)
{
    char text[16] = "";
    GT_TRY(gt_get_text(at, json, "grade", text, sizeof(text)));
    if (text[0] && !gt_gpu_grade_by_name(text, &gpu->grade))
        return gt_at_fail(at, "grade", "\"%s\" is none of slow, suspect", text);
    return gt_get_text(at, json, "gradeReason", gpu->grade_reason, sizeof(gpu->grade_reason));
}

/* gpu->index is the file's index until the GPUs are sorted. */
static int node_json_read_gpu(struct node_reader *reader, const struct gt_at *at, unsigned i,
                              const cJSON *json)
{
    struct gt_gpu *gpu = &reader->node->gpus[i];
    unsigned mode = gpu->mode;
    GT_TRY(gt_get_unsigned(at, json, "index", reader->node->gpu_count - 1, &gpu->index));
    GT_TRY(gt_get_int(at, json, "vendorIndex", GT_SMALL_INDEX_MAX, &gpu->vendor_index));
    GT_TRY(gt_get_text(at, json, "uuid", gpu->uuid, sizeof(gpu->uuid)));
    GT_TRY(gt_get_bdf(at, json, "bdf", gpu->bdf));
    if (!gpu->bdf[0])
        return gt_at_fail(at, "bdf", "is missing");
    GT_TRY(gt_get_text(at, json, "product", gpu->product, sizeof(gpu->product)));
    GT_TRY(gt_get_text(at, json, "serial", gpu->serial, sizeof(gpu->serial)));
    GT_TRY(gt_get_integer(at, json, "memoryBytes", GT_EXACT_MAX, &gpu->memory_bytes));
    GT_TRY(gt_get_int(at, json, "numaNode", GT_NUMA_MAX, &gpu->numa_node));
    GT_TRY(gt_get_text(at, json, "cpuSet", gpu->cpu_set, sizeof(gpu->cpu_set)));
    if (strspn(gpu->cpu_set, "0123456789,-") != strlen(gpu->cpu_set))
        return gt_at_fail(at, "cpuSet", "\"%.40s\" is no list such as 0-31,64-95", gpu->cpu_set);
    GT_TRY(read_pci_id(at, json, "pciVendor", &gpu->pci.vendor));
    GT_TRY(read_pci_id(at, json, "pciDevice", &gpu->pci.device));
    GT_TRY(node_json_read_pcie(at, json, gpu));
    GT_TRY(node_json_read_word(at, json, "mode", gt_gpu_mode_names, "native, sgpu, vf, vfio", &mode));
    gpu->mode = (enum gt_gpu_mode)mode;
    GT_TRY(read_health(at, json, &gpu->health));
    GT_TRY(gt_get_text(at, json, "unhealthyReason", gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason)));
    GT_TRY(read_grade(at, json, gpu));
    if (gpu->health == GT_GPU_HEALTHY)
        gt_evidence_absent(&gpu->evidence, GT_SIGNAL_RECORDED);
    else if (gpu->health == GT_GPU_UNHEALTHY) {
        gt_evidence_seen(&gpu->evidence, GT_SIGNAL_RECORDED, "%s", gpu->unhealthy_reason);
        gpu->cause = GT_SIGNAL_RECORDED;
    }

    for (unsigned j = 0; j < i; j++) {
        const struct gt_gpu *other = &reader->node->gpus[j];
        if (other->index == gpu->index)
            return gt_at_fail(at, "index", "%u is that of gpus[%u] too", gpu->index, j);
        if (!strcmp(other->bdf, gpu->bdf))
            return gt_at_fail(at, "bdf", "%s is that of gpus[%u] too", gpu->bdf, j);
        if (gpu->uuid[0] && !strcmp(other->uuid, gpu->uuid))
            return gt_at_fail(at, "uuid", "%s is that of gpus[%u] too", gpu->uuid, j);
    }
    return 0;
}

static int node_json_read_gpus(struct node_reader *reader, const struct gt_at *at, const cJSON *json)
{
    unsigned i, file_index[GT_GPUS_MAX];
    GT_TRY(read_members(reader, at, json, "gpus", GT_GPUS_MAX, node_json_read_gpu));
    /* Sorting sets the index again: find each GPU again by its BDF, which is unique. */
    char bdfs[GT_GPUS_MAX][GT_BDF_SIZE];
    for (i = 0; i < reader->node->gpu_count; i++) {
        file_index[i] = reader->node->gpus[i].index;
        memcpy(bdfs[i], reader->node->gpus[i].bdf, sizeof(bdfs[i]));
    }
    gt_node_sort(reader->node);
    for (i = 0; i < reader->node->gpu_count; i++)
        for (unsigned j = 0; j < reader->node->gpu_count; j++)
            if (!strcmp(bdfs[i], reader->node->gpus[j].bdf))
                reader->bit_of[file_index[i]] = j;
    return 0;
}

static int read_nic(struct node_reader *reader, const struct gt_at *at, unsigned i, const cJSON *json)
{
    struct gt_nic *nic = &reader->node->nics[i];
    GT_TRY(gt_get_text(at, json, "name", nic->name, sizeof(nic->name)));
    GT_TRY(gt_get_bdf(at, json, "bdf", nic->bdf));
    if (!nic->name[0])
        return gt_at_fail(at, "name", "is missing");
    for (unsigned j = 0; j < i; j++)
        if (!strcmp(reader->node->nics[j].name, nic->name))
            return gt_at_fail(at, "name", "%s is that of nics[%u] too", nic->name, j);
    GT_TRY(gt_get_int(at, json, "numaNode", GT_NUMA_MAX, &nic->numa_node));
    GT_TRY(read_path(at, json, &nic->path));

    const cJSON *array;
    unsigned count, g = 0;
    GT_TRY(gt_get_array(at, json, "locality", GT_GPUS_MAX, &array, &count));
    if (array && count != reader->node->gpu_count)
        return gt_at_fail(at, "locality", "%u members for %u GPUs", count, reader->node->gpu_count);
    for (const cJSON *item = array ? array->child : NULL; item; item = item->next, g++) {
        char key[32];
        enum gt_link_kind kind = GT_LINK_UNKNOWN;
        snprintf(key, sizeof(key), "locality[%u]", g);
        GT_TRY(read_kind(at, key, item, &kind));
        if (kind == GT_LINK_MX)
            return gt_at_fail(at, key, "a NIC has no MX link");
        nic->kind[reader->bit_of[g]] = kind;
    }
    return 0;
}

/* Where the port of a NIC goes. */
static int read_network(struct node_reader *reader, const struct gt_at *at, unsigned i, const cJSON *json)
{
    char name[sizeof(reader->node->nics->name)] = "";
    (void)i;
    GT_TRY(gt_get_text(at, json, "port", name, sizeof(name)));
    struct gt_nic *nic = GT_FIND(reader->node->nics, reader->node->nic_count, name, name);
    if (!nic)
        return gt_at_fail(at, "port", "there is no NIC \"%s\"", name);
    GT_TRY(gt_get_text(at, json, "switch", nic->peer, sizeof(nic->peer)));
    return gt_get_text(at, json, "switchPort", nic->peer_port, sizeof(nic->peer_port));
}

static int node_json_read_link(struct node_reader *reader, const struct gt_at *at, unsigned i,
                               const cJSON *json)
{
    unsigned n = reader->node->gpu_count, a = UINT32_MAX, b = UINT32_MAX, state;
    (void)i;
    if (n < 2)
        return gt_at_fail(at, "", "a link on a node with %u GPUs", n);
    GT_TRY(gt_get_unsigned(at, json, "a", n - 1, &a));
    GT_TRY(gt_get_unsigned(at, json, "b", n - 1, &b));
    if (a == UINT32_MAX || b == UINT32_MAX)
        return gt_at_fail(at, a == UINT32_MAX ? "a" : "b", "is missing");
    if (a >= b)
        return gt_at_fail(at, "", "expected a < b, but a is %u and b is %u", a, b);
    struct gt_link *link = gt_node_link(reader->node, reader->bit_of[a], reader->bit_of[b]);
    if (reader->linked[link - reader->node->links])
        return gt_at_fail(at, "", "the pair %u, %u is there twice", a, b);
    reader->linked[link - reader->node->links] = true;

    GT_TRY(get_kind(at, json, "kind", &link->kind));
    GT_TRY(get_kind(at, json, "pathKind", &link->path_kind));
    if (link->path_kind == GT_LINK_MX)
        return gt_at_fail(at, "pathKind", "MX is no kind of a PCIe path");
    if (link->kind != GT_LINK_MX && link->kind != GT_LINK_UNKNOWN && link->path_kind != GT_LINK_UNKNOWN &&
        link->path_kind != link->kind)
        return gt_at_fail(at, "pathKind", "is %s, but kind is %s", gt_link_kind_name(link->path_kind),
                          gt_link_kind_name(link->kind));
    GT_TRY(gt_get_unsigned(at, json, "ports", GT_PORTS_MAX, &link->ports));
    GT_TRY(gt_get_unsigned(at, json, "width", GT_WIDTH_MAX, &link->width));
    GT_TRY(gt_get_number(at, json, "speedGTs", GT_SPEED_MAX, &link->speed));
    GT_TRY(gt_get_integer(at, json, "bandwidthMBps", GT_EXACT_MAX, &link->bandwidth_mbps));
    GT_TRY(gt_get_integer(at, json, "measuredMBps", GT_EXACT_MAX, &link->measured_mbps));
    GT_TRY(gt_get_bool(at, json, "stale", &link->stale));
    state = link->state;
    GT_TRY(node_json_read_word(at, json, "state", gt_link_state_names, "up, down, unknown", &state));
    link->state = (enum gt_link_state)state;
    return 0;
}

static int read_missing(struct node_reader *reader, const struct gt_at *at, unsigned i, const cJSON *json)
{
    struct gt_missing *entry = &reader->node->missing[i];
    GT_TRY(gt_get_text(at, json, "what", entry->what, sizeof(entry->what)));
    GT_TRY(gt_get_text(at, json, "why", entry->why, sizeof(entry->why)));
    reader->node->missing_count = i + 1;
    return 0;
}

static int node_json_read_lists(struct node_reader *reader, const struct gt_at *at, const cJSON *json)
{
    const cJSON *array, *supernode;
    unsigned count;
    GT_TRY(read_members(reader, at, json, "links", GT_COUNT(reader->linked), node_json_read_link));
    GT_TRY(gt_get_object(at, json, "supernode", &supernode));
    if (supernode) {
        const struct gt_at below = {at->source, "supernode", at->err};
        GT_TRY(gt_get_text(&below, supernode, "uuid", reader->node->server_uuid,
                           sizeof(reader->node->server_uuid)));
        GT_TRY(gt_get_array(&below, supernode, "remote", GT_REMOTES_MAX, &array, &count));
        for (const cJSON *item = array ? array->child : NULL; item; item = item->next) {
            char key[32];
            snprintf(key, sizeof(key), "remote[%u]", reader->node->remote_count);
            GT_TRY(gt_read_text(&below, key, item, reader->node->remotes[reader->node->remote_count],
                                GT_ID_SIZE));
            reader->node->remote_count++;
        }
    }
    return read_members(reader, at, json, "missing", GT_MISSING_MAX, read_missing);
}

static int read_numa_node(struct node_reader *reader, const struct gt_at *at, unsigned i, const cJSON *json)
{
    struct gt_numa_node *to = &reader->node->numa_nodes[i];
    reader->node->numa_node_count = i + 1;
    GT_TRY(gt_get_unsigned(at, json, "id", GT_NUMA_MAX, &to->id));
    GT_TRY(gt_get_text(at, json, "cpus", to->cpus, sizeof(to->cpus)));
    return gt_get_integer(at, json, "memoryBytes", GT_EXACT_MAX, &to->memory_bytes);
}

static int node_json_read_kubelet(struct node_reader *reader, const struct gt_at *at, const cJSON *json)
{
    const cJSON *object;
    GT_TRY(gt_get_object(at, json, "kubelet", &object));
    if (object) {
        const struct gt_at below = {at->source, "kubelet", at->err};
        struct gt_kubelet *to = &reader->node->kubelet;
        GT_TRY(gt_get_text(&below, object, "topologyManagerPolicy", to->policy, sizeof(to->policy)));
        GT_TRY(gt_get_text(&below, object, "topologyManagerScope", to->scope, sizeof(to->scope)));
        GT_TRY(gt_get_text(&below, object, "cpuManagerPolicy", to->cpu_policy, sizeof(to->cpu_policy)));
        GT_TRY(gt_get_text(&below, object, "source", to->source, sizeof(to->source)));
        GT_TRY(gt_get_text(&below, object, "unknown", to->unknown, sizeof(to->unknown)));
    }
    return read_members(reader, at, json, "numaNodes", GT_NUMA_NODES_MAX, read_numa_node);
}

static int read_reported_time(const struct gt_at *at, const cJSON *json, int64_t *ret)
{
    char text[GT_TIME_TEXT_SIZE] = "";
    GT_TRY(gt_get_text(at, json, "linksReportedAt", text, sizeof(text)));
    if (!text[0])
        return 0;
    int64_t time_s = gt_time_of_text(text);
    if (!time_s)
        return gt_at_fail(at, "linksReportedAt", "\"%s\" is no time such as 2026-01-31T12:00:00Z", text);
    *ret = time_s;
    return 0;
}

int gt_node_from_json_numbered(const struct cJSON *json, const char *source, struct gt_node **ret,
                               uint8_t ret_index[static GT_GPUS_MAX], struct gt_err **err)
{
    const struct gt_at place = {source, "", err}, *at = &place;
    GT_TRY(need_object(at, json));
    const cJSON *gpus, *nics;
    unsigned gpu_count, nic_count;
    GT_TRY(gt_get_array(at, json, "gpus", GT_GPUS_MAX, &gpus, &gpu_count));
    GT_TRY(gt_get_array(at, json, "nics", GT_NICS_MAX, &nics, &nic_count));
    if (!gpus)
        return gt_at_fail(at, "gpus", "is missing; this is no node");

    gt_auto_node struct gt_node *node = NULL;
    if (gt_node_new(gpu_count, nic_count, &node, err) < 0)
        return gt_wrap(err, "%s", source);
    struct node_reader reader = {.node = node};
    GT_TRY(gt_get_text(at, json, "name", node->name, sizeof(node->name)));
    GT_TRY(gt_get_text(at, json, "driverVersion", node->driver_version, sizeof(node->driver_version)));
    GT_TRY(gt_get_text(at, json, "libraryVersion", node->library_version, sizeof(node->library_version)));
    GT_TRY(read_reported_time(at, json, &node->links_reported_s));
    GT_TRY(node_json_read_kubelet(&reader, at, json));
    GT_TRY(node_json_read_gpus(&reader, at, json));
    GT_TRY(read_members(&reader, at, json, "nics", GT_NICS_MAX, read_nic));
    GT_TRY(read_members(&reader, at, json, "network", GT_NICS_MAX, read_network));
    gt_node_sort(node);
    GT_TRY(node_json_read_lists(&reader, at, json));
    if (gt_node_finish(node, err) < 0)
        return gt_wrap(err, "%s", source);
    for (unsigned i = 0; i < gpu_count; i++)
        ret_index[i] = (uint8_t)reader.bit_of[i];
    *ret = gt_steal(node);
    return 0;
}

/* The members of each object, by the name of the member that it or its list is. */
static const char *node_keys_of(const char *kind)
{
    static const char *const keys[][2] = {
        {"", "name,driverVersion,libraryVersion,linksReportedAt,kubelet,numaNodes,gpus,nics,network,links,"
             "supernode,missing"},
        {"gpus", "index,vendorIndex,uuid,bdf,product,serial,memoryBytes,numaNode,cpuSet,pciVendor,pciDevice,"
                 "pcie,drm,mode,health,healthy,unhealthyReason,grade,gradeReason"},
        {"pcie", "speedGTs,width,maxSpeedGTs,maxWidth,path,root"},
        {"drm", "card,render"},
        {"nics", "name,bdf,numaNode,path,root,locality"},
        {"network", "port,switch,switchPort"},
        {"links", "a,b,kind,pathKind,ports,width,speedGTs,bandwidthMBps,measuredMBps,stale,state"},
        {"supernode", "uuid,remote"},
        {"missing", "what,why"},
        {"kubelet", "topologyManagerPolicy,topologyManagerScope,cpuManagerPolicy,source,unknown"},
        {"numaNodes", "id,cpus,memoryBytes"},
    };
    for (size_t i = 0; i < GT_COUNT(keys); i++)
        if (strcmp(keys[i][0], kind) == 0)
            return keys[i][1];
    return NULL;
}

/* Of a file, which people write: objects of the API server have a schema, and may be of a newer version. */
static int check_keys_below(const struct gt_at *at, const char *kind, const cJSON *value)
{
    const char *keys = node_keys_of(kind);
    bool list = cJSON_IsArray(value);
    if (!keys || (!list && !cJSON_IsObject(value)))
        return 0;
    if (!list)
        GT_TRY(gt_get_only_known(at, value, keys));
    unsigned i = 0;
    for (const cJSON *item = value->child; item; item = item->next) {
        char path[96];
        if (list)
            snprintf(path, sizeof(path), "%s[%u]", at->path, i++);
        else
            snprintf(path, sizeof(path), "%s%s%.32s", at->path, at->path[0] ? "." : "", item->string);
        GT_TRY(
            check_keys_below(&(struct gt_at){at->source, path, at->err}, list ? kind : item->string, item));
    }
    return 0;
}

int gt_node_from_json(const struct cJSON *json, const char *source, struct gt_node **ret, struct gt_err **err)
{
    uint8_t index[GT_GPUS_MAX];
    GT_TRY(check_keys_below(&(struct gt_at){source, "", err}, "", json));
    return gt_node_from_json_numbered(json, source, ret, index, err);
}
