/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "base/text.h"
#include "topology/probe/answers_internal.h"

enum { CPUS_MAX = 4096, NODES_MAX = 1024, MODE_VF = 2 };

struct gt_gpu *gt_reading_gpu(const struct gt_reading *reading, const struct gt_answer *answer)
{
    if (!answer->arg_count || answer->args[0] >= GT_VENDOR_DEVICES || reading->gpu_of[answer->args[0]] < 0)
        return NULL;
    return &reading->node->gpus[reading->gpu_of[answer->args[0]]];
}

/* Which GPU each vendor number is. A BDF that two numbers have is ignored. */
void gt_read_identities(struct gt_reading *reading)
{
    char bdfs[GT_VENDOR_DEVICES][GT_BDF_SIZE] = {0};
    struct gt_node *node = reading->node;
    for (unsigned i = 0; i < GT_VENDOR_DEVICES; i++)
        reading->gpu_of[i] = -1;
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        if (!gt_answer_is(answer, "mxSmlGetDeviceInfo") || answer->arg_count != 1 ||
            answer->args[0] >= GT_VENDOR_DEVICES)
            continue;
        if (!gt_answer_bdf(answer, bdfs[answer->args[0]]))
            gt_node_missing(node, "vendor library, BDF", "GPU %u: not a PCI address", answer->args[0]);
    }
    for (unsigned i = 0; i < GT_VENDOR_DEVICES; i++) {
        unsigned claims = 0;
        if (!bdfs[i][0])
            continue;
        for (unsigned j = 0; j < GT_VENDOR_DEVICES; j++)
            claims += strcmp(bdfs[i], bdfs[j]) == 0;
        if (claims > 1) {
            gt_node_missing(node, "vendor library, BDF", "%s is claimed by %u GPUs, none is believed",
                            bdfs[i], claims);
            continue;
        }
        reading->gpu_of[i] = gt_node_gpu_at(node, bdfs[i]);
        if (reading->gpu_of[i] < 0) {
            reading->unmatched++; /* the caller says so */
        } else {
            node->gpus[reading->gpu_of[i]].vendor_index = (int)i;
        }
    }
}

static void read_info(struct gt_reading *reading, struct gt_gpu *gpu, const struct gt_answer *answer)
{
    uint64_t mode;
    char text[sizeof(gpu->product)];
    if (gt_value_text(gt_get(answer->value, "deviceName"), text, sizeof(text)))
        gt_text_copy(gpu->product, sizeof(gpu->product), text);
    if (!gt_json_is_unsigned(gt_get(answer->value, "mode"), MODE_VF, &mode))
        gt_node_missing(reading->node, "vendor library, mode", "GPU %u: nonsense", answer->args[0]);
    else if (mode == MODE_VF)
        gpu->mode = GT_GPU_VF;
    if (!gt_value_text(gt_get(answer->value, "uuid"), gpu->uuid, sizeof(gpu->uuid)))
        gt_node_missing(reading->node, "vendor library, UUID", "GPU %u: not a printable text",
                        answer->args[0]);
    else if (strchr(gpu->uuid, ' ') || strchr(gpu->uuid, '"') || strchr(gpu->uuid, '\\')) {
        gpu->uuid[0] = '\0';
        gt_node_missing(reading->node, "vendor library, UUID", "GPU %u: odd characters in it",
                        answer->args[0]);
    }
}

static void drop_double_uuids(struct gt_node *node)
{
    bool twice[GT_GPUS_MAX] = {false};
    for (unsigned i = 0; i < node->gpu_count; i++)
        for (unsigned j = 0; j < node->gpu_count; j++)
            if (i != j && node->gpus[i].uuid[0] && strcmp(node->gpus[i].uuid, node->gpus[j].uuid) == 0)
                twice[i] = true;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        if (!twice[i])
            continue;
        gt_node_missing(node, "vendor library, UUID", "%s belongs to several GPUs, it is not used",
                        node->gpus[i].uuid);
        node->gpus[i].uuid[0] = '\0';
    }
}

static void read_memory(struct gt_reading *reading, struct gt_gpu *gpu, const struct gt_answer *answer)
{
    uint64_t kib, used;
    if (gt_json_is_unsigned(gt_get(answer->value, "vramTotal"), UINT64_C(1) << 40, &kib) && kib)
        gpu->memory_bytes = kib << 10;
    else
        gt_node_missing(reading->node, "vendor library, memory", "GPU %u: nonsense", answer->args[0]);
    gpu->evidence.knows_memory = gpu->memory_bytes && gt_json_is_unsigned(gt_get(answer->value, "vramUse"),
                                                                          gpu->memory_bytes >> 10, &used);
    if (gpu->evidence.knows_memory)
        gpu->evidence.memory_mib = (uint32_t)(used >> 10);
}

static void answers_devices_read_pcie(struct gt_pcie_link *link, const struct gt_answer *answer)
{
    const cJSON *speed = gt_get(answer->value, "speed");
    uint64_t width;
    if (link->speed == 0 && cJSON_IsNumber(speed) && speed->valuedouble > 0 &&
        speed->valuedouble <= GT_LINK_SPEED_MAX)
        link->speed = speed->valuedouble;
    if (link->width == 0 && gt_json_is_unsigned(gt_get(answer->value, "width"), GT_LINK_WIDTH_MAX, &width))
        link->width = (unsigned)width;
}

/* The bits of a list of 32-bit words as text ("0-3,8"); how many there are, -1 where they do not fit. */
static int bits_as_list(const cJSON *words, unsigned limit, char *to, size_t size, unsigned *ret_first)
{
    gt_auto_buf struct gt_buf list = GT_BUF(size - 1);
    const cJSON *word;
    unsigned base = 0;
    int count = 0;
    long start = -1, last = -2;
    bool set[CPUS_MAX] = {false};
    cJSON_ArrayForEach(word, words)
    {
        uint64_t bits;
        if (base >= limit || !gt_json_is_unsigned(word, UINT32_MAX, &bits))
            return -1;
        for (unsigned i = 0; i < 32; i++)
            set[base + i] = bits >> i & 1;
        base += 32;
    }
    for (unsigned i = 0; i <= base; i++) {
        bool here = i < base && set[i];
        if (here && last != (long)i - 1)
            start = i;
        if (here) {
            last = i;
            *ret_first = count++ ? *ret_first : i;
        } else if (last == (long)i - 1 && start >= 0) {
            gt_buf_printf(&list, last > start ? "%s%ld-%ld" : "%s%ld", list.len ? "," : "", start, last);
        }
    }
    if (list.failed)
        return -1;
    gt_text_copy(to, size, list.data ? list.data : "");
    return count;
}

static void read_affinity(struct gt_gpu *gpu, const struct gt_answer *answer, bool cpus)
{
    char text[sizeof(gpu->cpu_set)];
    unsigned first = 0;
    int count = bits_as_list(answer->value, cpus ? CPUS_MAX : NODES_MAX, text, sizeof(text), &first);
    if (cpus && count > 0 && !gpu->cpu_set[0])
        gt_text_copy(gpu->cpu_set, sizeof(gpu->cpu_set), text);
    if (!cpus && count == 1 && gpu->numa_node < 0) /* several nodes are no locality */
        gpu->numa_node = (int)first;
}

static void answers_devices_read_device(struct gt_reading *reading, struct gt_gpu *gpu,
                                        const struct gt_answer *answer)
{
    char serial[sizeof(gpu->serial)];
    if (gt_answer_is(answer, "mxSmlGetDeviceInfo"))
        read_info(reading, gpu, answer);
    else if (gt_answer_is(answer, "mxSmlGetMemoryInfo"))
        read_memory(reading, gpu, answer);
    else if (gt_answer_is(answer, "mxSmlGetPcieInfo"))
        answers_devices_read_pcie(&gpu->pci.now, answer);
    else if (gt_answer_is(answer, "mxSmlGetPcieMaxLinkInfo"))
        answers_devices_read_pcie(&gpu->pci.max, answer);
    else if (gt_answer_is(answer, "mxSmlGetCpuAffinity"))
        read_affinity(gpu, answer, true);
    else if (gt_answer_is(answer, "mxSmlGetNodeAffinity"))
        read_affinity(gpu, answer, false);
    else if ((gt_answer_is(answer, "mxSmlGetBoardSerial") ||
              (gt_answer_is(answer, "mxSmlGetChipSerial") && !gpu->serial[0])) &&
             gt_value_text(gt_get(answer->value, "text"), serial, sizeof(serial)))
        gt_text_copy(gpu->serial, sizeof(gpu->serial), serial);
}

void gt_read_devices(struct gt_reading *reading)
{
    for (unsigned i = 0; i < reading->answers->count; i++) {
        struct gt_gpu *gpu = gt_reading_gpu(reading, &reading->answers->calls[i]);
        if (gpu)
            answers_devices_read_device(reading, gpu, &reading->answers->calls[i]);
    }
    drop_double_uuids(reading->node);
}
