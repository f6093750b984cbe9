/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/bits.h"
#include "base/json_get.h"
#include "topology/probe/answers_internal.h"

/*
 * Evidence from what a library does not answer. Only what it answers for another GPU counts against one: a
 * function that fails for all, or a library that is away as a whole, says nothing about a single GPU.
 */

/* Calls about one device that a working library answers for all devices, or refuses as not supported for all.
 */
static const char *const watched[] = {
    "mxSmlGetDeviceState",     "mxSmlGetTotalEccErrors", "mxSmlGetEccState",
    "mxSmlGetTemperatureInfo", "mxSmlGetMemoryInfo",
};
enum { WATCHED = GT_COUNT(watched), NOT_SUPPORTED = 3 };

enum result { NOT_QUERIED, ANSWERED, REFUSED, FAILED, HUNG };

struct silence {
    enum result results[GT_GPUS_MAX][WATCHED];
    const struct gt_answer *answers[GT_GPUS_MAX][WATCHED];
};

static bool is_hang(const char *why)
{
    return strncmp(why, "timeout", 7) == 0 || strncmp(why, "crashed", 7) == 0 ||
           strncmp(why, "exited", 6) == 0 || strcmp(why, "ended") == 0;
}

static enum result result_of(const struct gt_answer *answer)
{
    if (answer->why)
        return is_hang(answer->why) ? HUNG : REFUSED;
    if (answer->code == 0)
        return ANSWERED;
    return answer->code == NOT_SUPPORTED ? REFUSED : FAILED;
}

static void answers_silence_collect(const struct gt_reading *reading, struct silence *to)
{
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        const struct gt_gpu *gpu = gt_reading_gpu(reading, answer);
        for (unsigned c = 0; gpu && c < WATCHED; c++)
            if (strcmp(answer->call, watched[c]) == 0) {
                to->results[gpu - reading->node->gpus][c] = result_of(answer);
                to->answers[gpu - reading->node->gpus][c] = answer;
            }
    }
}

static bool others_answer(const struct silence *silence, unsigned gpus, unsigned gpu, unsigned call)
{
    for (unsigned i = 0; i < gpus; i++)
        if (i != gpu && silence->results[i][call] == ANSWERED)
            return true;
    return false;
}

static void answers_silence_add_failure(struct gt_evidence *evidence, enum gt_signal signal,
                                        const struct gt_answer *answer)
{
    if (answer->why)
        gt_evidence_seen(evidence, signal, "%s for it: %s", answer->call, answer->why);
    else
        gt_evidence_seen(evidence, signal, "%s for it: code %ld", answer->call, answer->code);
}

/* A GPU that the library names. */
static void evaluate_named(const struct silence *silence, unsigned gpus, unsigned g,
                           struct gt_evidence *evidence)
{
    unsigned comparable = 0, answered = 0, asked = 0, bad = 0;
    const struct gt_answer *hang = NULL, *error = NULL;
    for (unsigned c = 0; c < WATCHED; c++) {
        enum result result = silence->results[g][c];
        answered += result == ANSWERED;
        bad += result == FAILED || result == HUNG;
        if (!others_answer(silence, gpus, g, c))
            continue;
        comparable++;
        asked += result != NOT_QUERIED;
        if (result == HUNG && !hang)
            hang = silence->answers[g][c];
        if (result == FAILED && !error)
            error = silence->answers[g][c];
    }
    if (hang)
        answers_silence_add_failure(evidence, GT_SIGNAL_CALL_HANG, hang);
    if (error)
        answers_silence_add_failure(evidence, GT_SIGNAL_CALL_ERROR, error);
    /* A single device cannot be compared with others: it counts as healthy if no call fails. */
    if (comparable ? asked == comparable : answered && !bad) {
        gt_evidence_absent(evidence, GT_SIGNAL_CALL_HANG);
        gt_evidence_absent(evidence, GT_SIGNAL_CALL_ERROR);
    }
    if (comparable && !answered && (hang || error))
        gt_evidence_seen(evidence, GT_SIGNAL_LIBRARY,
                         "the vendor library answers nothing for it (%s), but for others",
                         (hang ? hang : error)->call);
    else if (answered)
        gt_evidence_absent(evidence, GT_SIGNAL_LIBRARY);
}

/* Whether each device that the library counts was asked who it is. *ret_failed is one that did not say. */
static bool all_were_queried(const struct gt_reading *reading, const struct gt_answer **ret_failed)
{
    uint64_t count = 0, asked = 0;
    bool counted = false;
    for (unsigned i = 0; i < reading->answers->count; i++) {
        const struct gt_answer *answer = &reading->answers->calls[i];
        if (gt_answer_is(answer, "mxSmlGetDeviceCount"))
            counted = gt_json_is_unsigned(answer->value, GT_VENDOR_DEVICES, &count);
        if (strcmp(answer->call, "mxSmlGetDeviceInfo") != 0 || answer->arg_count != 1 ||
            answer->args[0] >= GT_VENDOR_DEVICES)
            continue;
        asked |= UINT64_C(1) << answer->args[0];
        if (!answer->value)
            *ret_failed = answer;
    }
    return counted && gt_bit_count(asked) >= count;
}

void gt_read_silence(struct gt_reading *reading)
{
    struct gt_node *node = reading->node;
    struct silence silence = {0};
    const struct gt_answer *failed = NULL;
    unsigned named = 0;
    if (reading->answers->stopped) /* it is not known which devices would have answered */
        return;
    answers_silence_collect(reading, &silence);
    for (unsigned i = 0; i < node->gpu_count; i++)
        named += node->gpus[i].vendor_index >= 0;
    bool asked = all_were_queried(reading, &failed);
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        if (gpu->vendor_index >= 0)
            evaluate_named(&silence, node->gpu_count, i, &gpu->evidence);
        else if (named && asked && failed && failed->why)
            gt_evidence_seen(&gpu->evidence, GT_SIGNAL_LIBRARY,
                             "the vendor library knows %u of %u GPUs, and not it (device %u: %s)", named,
                             node->gpu_count, failed->args[0], failed->why);
        else if (named && asked && failed)
            gt_evidence_seen(&gpu->evidence, GT_SIGNAL_LIBRARY,
                             "the vendor library knows %u of %u GPUs, and not it (device %u: code %ld)",
                             named, node->gpu_count, failed->args[0], failed->code);
        else if (named && asked)
            gt_evidence_seen(&gpu->evidence, GT_SIGNAL_LIBRARY,
                             "the vendor library knows %u of %u GPUs, and not it", named, node->gpu_count);
    }
}

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
