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
