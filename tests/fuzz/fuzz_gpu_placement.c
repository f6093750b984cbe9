/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/gpu_placement.h"
#include "base/err.h"
#include "tests/fuzz/fuzz.h"

/* A GPUPlacement as JSON: it is refused, or it is the same after writing and reading it, and its slices
 * together are its plan. */

static void check(const struct gt_gpu_placement *placement)
{
    for (uint32_t i = 0; i < placement->pod_count; i++) {
        const struct gt_gpu_placement_pod *pod = &placement->pods[i];
        if (pod->unit >= placement->unit_count || pod->node >= placement->node_count || !pod->gpus ||
            (i && pod->rank <= pod[-1].rank))
            abort();
    }
}

static void check_slices(const struct gt_gpu_placement *placement)
{
    enum { PODS = 64, OF_SLICE = 3 };
    struct gt_gpu_placement_slice slice;
    gt_gpu_placement_is_part(placement);
    for (uint32_t first = 0; first < placement->pod_count && first < PODS; first += slice.pod_count) {
        if (!gt_gpu_placement_slice(placement, first, OF_SLICE, &slice) || !slice.pod_count)
            abort();
        for (uint32_t i = 0; i < slice.pod_count; i++) {
            const struct gt_gpu_placement_pod *pod = &slice.pods[i], *whole = &placement->pods[first + i];
            if (pod->rank != whole->rank || slice.nodes[pod->node] != placement->nodes[whole->node] ||
                slice.units[pod->unit] != placement->units[whole->unit])
                abort();
        }
        gt_gpu_placement_slice_done(&slice);
    }
}

static void write_whole(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_gpu_placement_write(placement, to);
    if (to->failed)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    gt_auto_free struct gt_gpu_placement *placement = NULL, *again = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(16 * size + 4096), same = GT_BUF(16 * size + 4096);
    gt_auto_err struct gt_err *err = NULL;
    cJSON *json = cJSON_ParseWithLength((const char *)data, size);
    int r = gt_gpu_placement_read(json, &placement, &err);
    cJSON_Delete(json);
    if ((r < 0) != (err != NULL) || (r < 0) != (placement == NULL))
        abort();
    if (r < 0)
        return 0;
    check(placement);
    check_slices(placement);
    write_whole(placement, &text);
    json = cJSON_Parse(text.data);
    if (gt_gpu_placement_read(json, &again, NULL) < 0)
        abort();
    cJSON_Delete(json);
    write_whole(again, &same);
    if (strcmp(text.data, same.data) != 0)
        abort();
    gt_buf_consume(&same, same.len);
    gt_gpu_placement_write_patch(placement, true, &same);
    json = cJSON_Parse(same.data);
    if (!json)
        abort();
    cJSON_Delete(json);
    return 0;
}
