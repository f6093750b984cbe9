/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "topology/probe/answers_internal.h"

/* What the vendor library reports about the health of GPUs, as evidence; topology/model/health.c evaluates
 * it. */

enum { CENTIDEGREES = 100, COLDEST = -10000, HOTTEST = 30000 };

static void answers_health_read_state(struct gt_reading *reading, struct gt_evidence *evidence,
                                      const struct gt_answer *answer)
{
    uint64_t state;
    if (!gt_json_is_unsigned(answer->value, 1, &state))
        gt_node_missing(reading->node, "vendor library, device state", "GPU %u: neither 0 nor 1",
                        answer->args[0]);
    else if (state)
        gt_evidence_absent(evidence, GT_SIGNAL_UNAVAILABLE);
    else
        gt_evidence_seen(evidence, GT_SIGNAL_UNAVAILABLE, "%s", gt_signal_text(GT_SIGNAL_UNAVAILABLE));
}

/* Asked only for those that are not available; a log may say otherwise. */
static void read_reason(struct gt_evidence *evidence, const struct gt_answer *answer)
{
    int64_t code = 0;
    char text[64];
    if (!(evidence->seen >> GT_SIGNAL_UNAVAILABLE & 1))
        return;
    if (gt_value_text(gt_get(answer->value, "text"), text, sizeof(text)))
        gt_evidence_seen(evidence, GT_SIGNAL_UNAVAILABLE, "not available: %s", text);
    else if (gt_json_is_int(gt_get(answer->value, "code"), &code))
        gt_evidence_seen(evidence, GT_SIGNAL_UNAVAILABLE, "not available (reason code %lld)",
                         (long long)code);
}

/* All bits set is what a counter reads as where there is none. */
static bool answers_health_read_count(const struct gt_answer *answer, const char *key, uint64_t *ret)
{
    return gt_json_is_unsigned(gt_get(answer->value, key), UINT32_MAX - 1, ret);
}

static void read_ecc(struct gt_reading *reading, struct gt_evidence *evidence, const struct gt_answer *answer)
{
    uint64_t dram, sram = 0;
    bool has_sram = gt_get(answer->value, "sramUE") != NULL;
    if (!answers_health_read_count(answer, "dramUE", &dram) ||
        (has_sram && !answers_health_read_count(answer, "sramUE", &sram))) {
        gt_node_missing(reading->node, "vendor library, ECC errors", "GPU %u: nonsense", answer->args[0]);
        return;
    }
    gt_evidence_value(evidence, GT_SIGNAL_ECC_DRAM, (uint32_t)dram);
    if (has_sram)
        gt_evidence_value(evidence, GT_SIGNAL_ECC_SRAM, (uint32_t)sram);
}

static void read_temperature(struct gt_evidence *evidence, const struct gt_answer *answer)
{
    int64_t value;
    if (gt_json_is_int(answer->value, &value) && value >= COLDEST && value <= HOTTEST)
        gt_evidence_value(evidence, GT_SIGNAL_TEMPERATURE, value > 0 ? (uint32_t)(value / CENTIDEGREES) : 0);
}

/* One kind of events; all kinds that were asked for make one counter. */
static void read_pci_events(struct gt_evidence *evidence, const struct gt_answer *answer)
{
    const cJSON *event;
    uint32_t sum = evidence->value[GT_SIGNAL_PCI_EVENT];
    cJSON_ArrayForEach(event, answer->value)
    {
        uint64_t count;
        if (gt_json_is_unsigned(gt_get(event, "count"), INT32_MAX, &count) && count <= UINT32_MAX - sum)
            sum += (uint32_t)count;
    }
    gt_evidence_value(evidence, GT_SIGNAL_PCI_EVENT, sum);
}

/* With ECC off its counters do not change: they are no evidence. */
static void drop_ecc(const struct gt_reading *reading)
{
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        struct gt_gpu *gpu = gt_reading_gpu(reading, answer);
        uint64_t on;
        if (gpu && gt_answer_is(answer, "mxSmlGetEccState") && gt_json_is_unsigned(answer->value, 1, &on) &&
            !on)
            gpu->evidence.known &= ~(1U << GT_SIGNAL_ECC_DRAM | 1U << GT_SIGNAL_ECC_SRAM);
    }
}

/* If one kind did not answer, the sum would fall, and rise with the next check. */
static void drop_pci_events(const struct gt_reading *reading)
{
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        struct gt_gpu *gpu = gt_reading_gpu(reading, answer);
        if (gpu && answer->why && strcmp(answer->call, "mxSmlGetPciEventInfo") == 0)
            gpu->evidence.known &= ~(1U << GT_SIGNAL_PCI_EVENT);
    }
}

static void read_limited(struct gt_reading *reading)
{
    uint64_t listed = 0, described = 0;
    bool known = false;
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        char bdf[GT_BDF_SIZE];
        if (gt_answer_is(answer, "mxSmlGetAllLimitedDevices"))
            known = gt_json_is_unsigned(gt_get(answer->value, "number"), UINT32_MAX, &listed);
        if (!gt_answer_is(answer, "mxSmlGetLimitedDeviceInfo") || !gt_answer_bdf(answer, bdf))
            continue;
        described++;
        int gpu = gt_node_gpu_at(reading->node, bdf);
        if (gpu >= 0)
            gt_evidence_seen(&reading->node->gpus[gpu].evidence, GT_SIGNAL_LIMITED, "%s",
                             gt_signal_text(GT_SIGNAL_LIMITED));
    }
    /* Each one that is listed must be known: else any GPU could be meant. */
    for (unsigned i = 0; known && listed <= described && i < reading->node->gpu_count; i++)
        gt_evidence_absent(&reading->node->gpus[i].evidence, GT_SIGNAL_LIMITED);
}

/* How many events the library has reported of each device since the probe was started; of those it lists. */
static void read_events(struct gt_reading *reading)
{
    const cJSON *events = gt_get(reading->answers->json, "events"), *event;
    for (unsigned i = 0; i < reading->node->gpu_count; i++)
        if (reading->node->gpus[i].vendor_index >= 0)
            gt_evidence_value(&reading->node->gpus[i].evidence, GT_SIGNAL_VENDOR_EVENT, 0);
    cJSON_ArrayForEach(event, events)
    {
        uint64_t device, count;
        if (!gt_json_is_unsigned(gt_get(event, "device"), GT_VENDOR_DEVICES - 1, &device) ||
            !gt_json_is_unsigned(gt_get(event, "count"), UINT32_MAX, &count) || reading->gpu_of[device] < 0)
            continue;
        gt_evidence_value(&reading->node->gpus[reading->gpu_of[device]].evidence, GT_SIGNAL_VENDOR_EVENT,
                          (uint32_t)count);
    }
}

void gt_read_health(struct gt_reading *reading)
{
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        struct gt_gpu *gpu = gt_reading_gpu(reading, answer);
        if (!gpu)
            continue;
        if (gt_answer_is(answer, "mxSmlGetDeviceState"))
            answers_health_read_state(reading, &gpu->evidence, answer);
        else if (gt_answer_is(answer, "mxSmlGetDeviceUnavailableReason"))
            read_reason(&gpu->evidence, answer);
        else if (gt_answer_is(answer, "mxSmlGetTotalEccErrors"))
            read_ecc(reading, &gpu->evidence, answer);
        else if (gt_answer_is(answer, "mxSmlGetTemperatureInfo"))
            read_temperature(&gpu->evidence, answer);
        else if (gt_answer_is(answer, "mxSmlGetPciEventInfo"))
            read_pci_events(&gpu->evidence, answer);
    }
    drop_ecc(reading);
    drop_pci_events(reading);
    read_limited(reading);
    read_events(reading);
}
