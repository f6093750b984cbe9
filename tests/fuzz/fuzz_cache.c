/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/err.h"
#include "scheduler-ext/cache/peers.h"
#include "scheduler-ext/cache/resources.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/core/core_checks.h"

/*
 * Lines, each a letter and its argument: t, n, s, p, c, v, o add or update an object (NodeGPUTopology, Node,
 * Supernode, Pod, PersistentVolumeClaim, PersistentVolume, StorageClass), T, N, S, P, V (a volume) delete the
 * one of that name, l plans a pod, u removes its plan, k advances the clock. The cluster stays consistent,
 * and every query has a result.
 */
struct line {
    char *text; /* behind the letter */
    size_t len;
};

static void fail_with(const char *what)
{
    fprintf(stderr, "%s\n", what);
    abort();
}

static void plan(struct gt_cache *cache, const char *name)
{
    struct gt_cache_pod *pod = gt_cache_find_pod(cache, "ns", name);
    struct gt_cluster *cluster = gt_cache_cluster(cache);
    struct gt_cluster_node node;
    struct gt_choice choice;
    for (uint32_t id = 0; pod && !pod->node_name && id < gt_cluster_nodes(cluster); id++) {
        if (!gt_cluster_get_node(cluster, id, &node) || !gt_cache_pod_fits_node(cache, pod, id) ||
            !gt_choose(node.class, node.available, 0, pod->gpus, 100, &choice))
            continue;
        if (gt_cache_plan_pod(cache, pod, id, choice.mask, NULL) < 0 || pod->plan != GT_CACHE_PLAN_ASSUMED ||
            pod->planned.mask != choice.mask)
            fail_with("a plan of available GPUs was not held");
        return;
    }
}

static void hand_pod(struct gt_cache *cache, const cJSON *object)
{
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    gt_cache_pod(cache, &pod);
}

static void take(struct gt_cache *cache, char kind, const struct line *line, uint64_t *now)
{
    struct gt_cache_pod *pod;
    cJSON *object = NULL;
    if (strchr("tnspcvoidefg", kind))
        object = cJSON_ParseWithLength(line->text, line->len + 1);
    switch (kind) {
    case 't':
        gt_cache_topology(cache, object, *now);
        break;
    case 'n':
        gt_cache_node(cache, object);
        break;
    case 's':
        gt_cache_supernode(cache, object);
        break;
    case 'p':
        hand_pod(cache, object);
        break;
    case 'c':
    case 'v':
    case 'o':
    case 'i':
    case 'd':
    case 'e':
    case 'f':
    case 'g':
        gt_cache_set_related(cache, GT_RELATED_VOLUME, GT_IS_READ);
        gt_cache_set_related(cache, GT_RELATED_DEVICE_CLAIM, GT_IS_READ);
        gt_cache_related(cache,
                         kind == 'c'   ? GT_RELATED_CLAIM
                         : kind == 'v' ? GT_RELATED_VOLUME
                         : kind == 'i' ? GT_RELATED_CSI_NODE
                         : kind == 'd' ? GT_RELATED_DEVICE_CLAIM
                         : kind == 'e' ? GT_RELATED_DEVICE_TEMPLATE
                         : kind == 'f' ? GT_RELATED_DEVICE_CLASS
                         : kind == 'g' ? GT_RELATED_DEVICE_SLICE
                                       : GT_RELATED_CLASS,
                         object);
        break;
    case 'V':
        gt_cache_related_deleted(cache, GT_RELATED_VOLUME, NULL, line->text);
        break;
    case 'T':
        gt_cache_topology_deleted(cache, line->text);
        break;
    case 'N':
        gt_cache_node_deleted(cache, line->text);
        break;
    case 'S':
        gt_cache_supernode_deleted(cache, line->text);
        break;
    case 'P':
        gt_cache_pod_deleted(cache, "ns", line->text);
        break;
    case 'l':
        plan(cache, line->text);
        break;
    case 'u':
        pod = gt_cache_find_pod(cache, "ns", line->text);
        if (pod)
            gt_cache_unplan_pod(cache, pod);
        break;
    default:
        *now += 400;
        gt_cache_tick(cache, *now);
    }
    cJSON_Delete(object);
}

/* Every pod is of a job that has it, and has an answer for every node. */
static void ask(struct gt_cache *cache)
{
    uint32_t pods = 0, of_jobs = 0, counted = 0, nodes = gt_cluster_nodes(gt_cache_cluster(cache));
    struct gt_cache_counters counters;
    for (struct gt_cache_pod *pod = gt_cache_next_pod(cache, NULL); pod;
         pod = gt_cache_next_pod(cache, pod)) {
        unsigned gpus = 0;
        pods++;
        for (unsigned i = 0; i < pod->meta.containers; i++)
            gpus += pod->container_names[i][0] ? pod->meta.gpus[i] : 0;
        if (!pod->gpus || gpus != pod->gpus || (pod->plan == GT_CACHE_PLAN_ASSUMED && !pod->planned.mask))
            fail_with("a pod's GPUs do not add up");
        bool constrained = gt_cache_pod_is_constrained(cache, pod);
        for (uint32_t id = 0; id < nodes; id++) {
            struct gt_cache_node node;
            if (gt_cache_get_node(cache, id, &node) && node.ready && node.has_node && !node.cordoned &&
                !constrained && !gt_cache_pod_fits_node(cache, pod, id))
                fail_with("a pod that is not choosy does not suit");
            const struct gt_cache_request *request = gt_cache_pod_request(pod);
            const uint32_t one = 1;
            uint32_t now = gt_cache_room_for(cache, id, request, GT_CACHE_ROOM_NOW);
            if (now > gt_cache_room_for(cache, id, request, GT_CACHE_ROOM_EMPTIED))
                fail_with("a node has more room than it has without pods with GPUs");
            gt_cache_peers_bar(cache, pod, id);
            if (request && (now > 0) != gt_cache_has_room(cache, id, &request, &one, 1))
                fail_with("two answers on one node's room");
        }
    }
    for (struct gt_cache_job *job = gt_cache_next_job(cache, NULL); job; job = gt_cache_next_job(cache, job))
        for (struct gt_cache_pod *pod = job->pods; pod; pod = pod->next)
            of_jobs += pod->job == job;
    gt_cache_counters(cache, &counters);
    for (unsigned i = 0; i <= GT_CACHE_RUNNING; i++)
        counted += counters.pods[i];
    if (pods != of_jobs || pods != counted)
        fail_with("pods are lost, or twice");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gt_cache_spec spec = {.stale_ms = 1000};
    gt_auto_cache struct gt_cache *cache = NULL;
    uint64_t now = 1;
    char *text = malloc(size + 1);
    if (!text || gt_cache_new(&spec, &cache, NULL) < 0)
        abort();
    memcpy(text, data, size);
    text[size] = '\0';
    unsigned lines = 0;
    for (char *at = text, *end; at < text + size && lines < 200; at = end + 1, lines++) {
        end = memchr(at, '\n', (size_t)(text + size - at));
        if (!end)
            end = text + size;
        *end = '\0';
        if (end > at)
            take(cache, *at, &(struct line){at + 1, (size_t)(end - at) - 1}, &now);
        gt_auto_err struct gt_err *err = NULL;
        if (gt_cluster_check(gt_cache_cluster(cache), &err) < 0)
            fail_with(gt_err_text(err));
    }
    ask(cache);
    free(text);
    return 0;
}
