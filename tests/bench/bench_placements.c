/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "scheduler-ext/placement/objects.h"

/*
 * What GPUPlacements cost: 12,500 jobs of 8 pods (all pods of a cluster of 10,000 nodes and 100,000 pods),
 * and the largest object that there is. Prints measures in the form that loss.sh describes. Bytes are those
 * of our request; the API server adds its own fields.
 */
enum { JOBS = 12500, PODS = 8, LARGEST = GT_GPU_PLACEMENT_PODS_MAX, NAME = 64 };

static void measure(const char *name, double value, const char *unit, const char *goal)
{
    printf("%s\t%.*f\t%s\t%s\n", name, value < 100 ? 2 : 0, value, unit, goal);
}

static void stop(const char *what)
{
    fprintf(stderr, "bench_placements: %s\n", what);
    exit(2);
}

struct tables {
    char names[LARGEST][NAME];
    const char *nodes[LARGEST];
    const char *units[LARGEST];
    struct gt_gpu_placement_pod pods[LARGEST];
};

/* A job of `count` pods of 8 GPUs, each on a node of its own, in units of 8 pods. */
static void fill(struct tables *tables, unsigned first, unsigned count, int name_width,
                 struct gt_gpu_placement *to)
{
    static const struct gt_gpu_placement_template worker = {"worker", PODS, 8, 64, 0, ""};
    for (unsigned i = 0; i < count; i++) {
        snprintf(tables->names[i], NAME, "node-%0*u", name_width, (first + i) % 1000000);
        tables->nodes[i] = tables->names[i];
        tables->units[i / PODS] = "supernode-0017";
        tables->pods[i] = (struct gt_gpu_placement_pod){.rank = i, .unit = i / PODS, .node = i, .gpus = 0xff};
    }
    *to = (struct gt_gpu_placement){
        .namespace_ = "team-a",
        .uid = "",
        .resource_version = "",
        .owner_api_version = "kubeflow.org/v1",
        .owner_kind = "PyTorchJob",
        .owner_name = "train",
        .owner_uid = "0d4f2b6e-6a3c-4c1e-9d52-7b0a8f3c1e55",
        .part_of = "",
        .job = "team-a/PyTorchJob/train",
        .templates = &worker,
        .template_count = 1,
        .on_lost_plan = "Report",
        .phase = GT_GPU_PLACEMENT_PLACED,
        .reason = "Planned",
        .message = "",
        .behind = "",
        .where = "supernode-0017",
        .epoch = 1,
        .nodes = tables->nodes,
        .node_count = count,
        .units = tables->units,
        .unit_count = (count + PODS - 1) / PODS,
        .pods = tables->pods,
        .pod_count = count,
        .promised_until = "",
        .waiting_since = "",
        .planned_at = "2026-01-30T12:00:02Z",
        .reserved_until = "",
        .moving = "",
        .moving_before = "",
        .moves = "",
    };
}

static struct gt_gpu_placement *read_back(const struct gt_buf *text, uint64_t *ns)
{
    struct gt_gpu_placement *content = NULL;
    cJSON *json = text->failed ? NULL : cJSON_ParseWithLength(text->data, text->len);
    uint64_t start = gt_clock_ns();
    if (!json || gt_gpu_placement_read(json, &content, NULL) < 0)
        stop("an object cannot be read");
    *ns += gt_clock_ns() - start;
    cJSON_Delete(json);
    return content;
}

static void many(struct tables *tables)
{
    struct placement_objects objects = {0};
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
    uint64_t bytes = 0, write_ns = 0, read_ns = 0;
    size_t before = mallinfo2().uordblks;
    for (unsigned i = 0; i < JOBS; i++) {
        struct gt_gpu_placement placement;
        char name[32];
        snprintf(name, sizeof(name), "pytorchjob-train-%05u", i);
        fill(tables, i * PODS, PODS, 5, &placement);
        placement.name = name;
        gt_buf_consume(&text, text.len);
        uint64_t start = gt_clock_ns();
        gt_gpu_placement_write(&placement, &text);
        write_ns += gt_clock_ns() - start;
        bytes += text.len;
        struct placement_object *object = gt_placement_object_get(&objects, placement.namespace_, name);
        struct gt_gpu_placement *content = read_back(&text, &read_ns);
        if (!object || !gt_placement_object_observe(object, content, 0))
            stop("an object cannot be kept");
    }
    size_t held = mallinfo2().uordblks - before - text.capacity;
    measure("12,500 GPUPlacements of 8 pods", (double)bytes / (1 << 20), "MiB", "-");
    measure("  one", (double)bytes / JOBS, "bytes", "-");
    measure("  known to the companion", (double)held / (1 << 20), "MiB", "<20");
    measure("  one is written", (double)write_ns / JOBS / 1000, "us", "-");
    measure("  one is read", (double)read_ns / JOBS / 1000, "us", "-");
    gt_placement_objects_done(&objects);
}

static void largest(struct tables *tables)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4 << 20);
    struct gt_gpu_placement placement;
    fill(tables, 0, LARGEST, 58, &placement);
    placement.name = "pytorchjob-train";
    gt_gpu_placement_write(&placement, &text);
    if (text.failed)
        stop("no memory");
    char goal[32];
    snprintf(goal, sizeof(goal), "<%d", GT_GPU_PLACEMENT_TEXT_MAX);
    measure("one of 16,384 pods, on nodes with names of 63 bytes", (double)text.len, "bytes", goal);
}

int main(void)
{
    struct tables *tables = calloc(1, sizeof(*tables));
    if (!tables)
        stop("no memory");
    printf("# placements\n");
    many(tables);
    largest(tables);
    free(tables);
    return 0;
}
