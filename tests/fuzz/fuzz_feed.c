/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "scheduler-ext/feed/feed.h"
#include "tests/fuzz/fuzz.h"

/*
 * Lines, each a letter and what it is about: t, n, s, p hand in an object (NodeGPUTopology, Node, Supernode,
 * Pod), T, N, S, P say that the one of that name is gone, l plans a pod, u unplans it, k lets time pass. The
 * cluster stays sound, and every question has an answer.
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

static void plan(struct gt_feed *feed, const char *name)
{
    struct gt_feed_pod *pod = gt_feed_find_pod(feed, "ns", name);
    struct gt_cluster *cluster = gt_feed_cluster(feed);
    struct gt_cluster_node node;
    struct gt_choice choice;
    for (uint32_t id = 0; pod && !pod->node_name && id < gt_cluster_nodes(cluster); id++) {
        if (!gt_cluster_get_node(cluster, id, &node) || !gt_feed_pod_suits(feed, pod, id) ||
            !gt_choose(node.class, node.available, 0, pod->gpus, 100, &choice))
            continue;
        if (gt_feed_plan_pod(feed, pod, id, choice.mask, NULL) < 0 || pod->plan != GT_FEED_PLAN_HELD ||
            pod->plan_mask != choice.mask)
            fail_with("a plan of available GPUs was not held");
        return;
    }
}

static void take(struct gt_feed *feed, char kind, const struct line *line, uint64_t *now)
{
    struct gt_feed_pod *pod;
    cJSON *object = NULL;
    if (strchr("tnsp", kind))
        object = cJSON_ParseWithLength(line->text, line->len + 1);
    switch (kind) {
    case 't':
        gt_feed_topology(feed, object, *now);
        break;
    case 'n':
        gt_feed_node(feed, object);
        break;
    case 's':
        gt_feed_supernode(feed, object);
        break;
    case 'p':
        gt_feed_pod(feed, object);
        break;
    case 'T':
        gt_feed_topology_gone(feed, line->text);
        break;
    case 'N':
        gt_feed_node_gone(feed, line->text);
        break;
    case 'S':
        gt_feed_supernode_gone(feed, line->text);
        break;
    case 'P':
        gt_feed_pod_gone(feed, "ns", line->text);
        break;
    case 'l':
        plan(feed, line->text);
        break;
    case 'u':
        pod = gt_feed_find_pod(feed, "ns", line->text);
        if (pod)
            gt_feed_unplan_pod(feed, pod);
        break;
    default:
        *now += 400;
        gt_feed_tick(feed, *now);
    }
    cJSON_Delete(object);
}

/* Every pod is of a job that has it, and has an answer for every node. */
static void ask(struct gt_feed *feed)
{
    uint32_t pods = 0, of_jobs = 0, counted = 0, nodes = gt_cluster_nodes(gt_feed_cluster(feed));
    struct gt_feed_counters counters;
    for (struct gt_feed_pod *pod = gt_feed_next_pod(feed, NULL); pod; pod = gt_feed_next_pod(feed, pod)) {
        unsigned gpus = 0;
        pods++;
        for (unsigned i = 0; i < pod->meta.containers; i++)
            gpus += pod->container_names[i][0] ? pod->meta.gpus[i] : 0;
        if (!pod->gpus || gpus != pod->gpus || (pod->plan == GT_FEED_PLAN_HELD && !pod->plan_mask))
            fail_with("a pod's GPUs do not add up");
        bool choosy = gt_feed_pod_is_choosy(feed, pod);
        for (uint32_t id = 0; id < nodes; id++) {
            struct gt_feed_node node;
            if (gt_feed_get_node(feed, id, &node) && node.ready && node.has_node && !node.cordoned &&
                !choosy && !gt_feed_pod_suits(feed, pod, id))
                fail_with("a pod that is not choosy does not suit");
        }
    }
    for (struct gt_feed_job *job = gt_feed_next_job(feed, NULL); job; job = gt_feed_next_job(feed, job))
        for (struct gt_feed_pod *pod = job->pods; pod; pod = pod->next)
            of_jobs += pod->job == job;
    gt_feed_counters(feed, &counters);
    for (unsigned i = 0; i <= GT_FEED_RUNNING; i++)
        counted += counters.pods[i];
    if (pods != of_jobs || pods != counted)
        fail_with("pods are lost, or twice");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct gt_feed_spec spec = {.stale_ms = 1000};
    gt_auto_feed struct gt_feed *feed = NULL;
    uint64_t now = 1;
    char *text = malloc(size + 1);
    if (!text || gt_feed_new(&spec, &feed, NULL) < 0)
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
            take(feed, *at, &(struct line){at + 1, (size_t)(end - at) - 1}, &now);
        gt_auto_err struct gt_err *err = NULL;
        if (gt_cluster_check(gt_feed_cluster(feed), &err) < 0)
            fail_with(gt_err_text(err));
    }
    ask(feed);
    free(text);
    return 0;
}
