/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "topology/probe/answers_internal.h"

/* What failed, one note a function, however many devices it failed for. */

/* Functions that something is read from, and the one that can stand in for them. What PCI gives anyway, and
 * what is asked for the record only, is not missed. */
static const struct used_call {
    const char *call, *instead;
} used[] = {
    {"mxSmlInit", NULL},
    {"mxSmlGetDeviceCount", NULL},
    {"mxSmlGetDeviceInfo", NULL},
    {"mxSmlGetDeviceState", NULL},
    {"mxSmlGetDeviceUnavailableReason", NULL},
    {"mxSmlGetAllLimitedDevices", NULL},
    {"mxSmlGetLimitedDeviceInfo", NULL},
    {"mxSmlGetDeviceTopology", NULL},
    {"mxSmlGetMetaXLinkRemoteInfo", NULL},
    {"mxSmlGetMetaXLinkPortState", NULL},
    {"mxSmlGetMetaXLinkState", NULL},
    {"mxSmlGetMetaXLinkInfo", "mxSmlGetMetaXLinkInfo_v2"},
    {"mxSmlGetMetaXLinkInfo_v2", "mxSmlGetMetaXLinkInfo"},
    {"mxSmlGetLocalAndMultipleRemoteUuid", "mxSmlGetLocalAndRemoteUuid"},
    {"mxSmlGetLocalAndRemoteUuid", "mxSmlGetLocalAndMultipleRemoteUuid"},
    {"mxSmlGetTotalEccErrors", NULL},
    {"mxSmlGetMemoryInfo", NULL},
    {"mxSmlGetBoardSerial", "mxSmlGetChipSerial"},
    {"mxSmlGetChipSerial", "mxSmlGetBoardSerial"},
    {"mxSmlGetMacaVersion", NULL},
    {"mxSmlGetDeviceVersion", NULL},
};

static const char *const code_texts[] = {
    [1] = "failure",
    [2] = "no device",
    [3] = "not supported",
    [4] = "sysfs error",
    [5] = "sysfs write error",
    [6] = "unknown device",
    [7] = "unknown die",
    [8] = "permission denied",
    [9] = "bad input",
    [10] = "insufficient size",
    [12] = "ioctl failed",
    [13] = "mmap failed",
    [14] = "munmap failed",
    [15] = "bad mmap input",
    [18] = "virtual function not found",
    [19] = "bad frequency",
    [20] = "reset not finished",
    [21] = "cannot open device file",
    [22] = "cannot close device file",
    [23] = "busy",
    [24] = "not enough register space",
    [25] = "PCI bridge",
    [26] = "cannot load a library",
};

/* Whether each of `used` is missed: looked up once, for a log may hold thousands of calls. */
struct missed {
    bool call[GT_COUNT(used)];
};

static void find_missed(const struct gt_answers *answers, struct missed *ret)
{
    for (unsigned i = 0; i < GT_COUNT(used); i++)
        ret->call[i] = !used[i].instead || !gt_answers_have(answers, used[i].instead);
}

static bool is_missed(const struct missed *missed, const char *call)
{
    const struct used_call *found = GT_FIND(used, GT_COUNT(used), call, call);
    return found && missed->call[found - used];
}

static bool is_failure(const struct missed *missed, const struct gt_answer *answer)
{
    if (answer->why)
        return true;
    if (answer->code == 0) {
        static const char init[] = "mxSmlInit";
        return !answer->value && strcmp(answer->call, init) != 0;
    }
    if (answer->code == 2 && strcmp(answer->call, "mxSmlGetMetaXLinkRemoteInfo") == 0)
        return false; /* nothing on that port */
    if (answer->arg_count == 2 && (answer->code == 9 || answer->code == 6) &&
        (!answer->args[1] || answer->args[1] == 7) &&
        strcmp(answer->call, "mxSmlGetMetaXLinkRemoteInfo") == 0)
        return false; /* a number before the first or behind the last link */
    return is_missed(missed, answer->call);
}

static void answers_failures_describe(const struct gt_answer *answer, char *to, size_t size)
{
    char device[32] = "";
    if (answer->arg_count)
        snprintf(device, sizeof(device), "GPU %u: ", answer->args[0]);
    if (answer->why && strcmp(answer->why, "timeout") == 0)
        snprintf(to, size, "%sdid not answer in time and was stopped", device);
    else if (answer->why)
        snprintf(to, size, "%s%s", device, answer->why);
    else if (answer->code == 0)
        snprintf(to, size, "%san answer without a value", device);
    else if (answer->code > 0 && (size_t)answer->code < GT_COUNT(code_texts) && code_texts[answer->code])
        snprintf(to, size, "%s%s (code %ld)", device, code_texts[answer->code], answer->code);
    else
        snprintf(to, size, "%scode %ld", device, answer->code);
}

static void note_calls(struct gt_reading *reading, const struct missed *missed)
{
    const struct gt_answers *answers = reading->answers;
    const char *noted[GT_MISSING_MAX];
    unsigned noted_count = 0;
    for (unsigned i = 0; i < answers->count; i++) {
        const struct gt_answer *first = &answers->calls[i];
        unsigned more = 0;
        if (!is_failure(missed, first) || GT_HAS_TEXT(noted, noted_count, first->call))
            continue;
        if (reading->node->missing_count >= GT_MISSING_MAX || noted_count == GT_COUNT(noted))
            return;
        noted[noted_count++] = first->call;
        for (unsigned j = i + 1; j < answers->count; j++)
            more +=
                strcmp(answers->calls[j].call, first->call) == 0 && is_failure(missed, &answers->calls[j]);
        char why[160], what[64];
        answers_failures_describe(first, why, sizeof(why));
        snprintf(what, sizeof(what), "vendor library, %.44s", first->call);
        if (more)
            gt_node_missing(reading->node, what, "%s; %u more calls failed", why, more);
        else
            gt_node_missing(reading->node, what, "%s", why);
    }
}

static void note_symbols(struct gt_reading *reading, const struct missed *missed)
{
    const cJSON *name;
    gt_auto_buf struct gt_buf names = GT_BUF(150);
    unsigned more = 0;
    cJSON_ArrayForEach(name, reading->answers->missing)
    {
        if (!cJSON_IsString(name) || !is_missed(missed, name->valuestring))
            continue;
        size_t len = strlen(name->valuestring);
        if (names.len + len + 2 > 120)
            more++;
        else
            gt_buf_printf(&names, "%s%s", names.len ? ", " : "", name->valuestring);
    }
    if (more)
        gt_buf_printf(&names, " and %u more", more);
    if (names.len)
        gt_node_missing(reading->node, "vendor library, functions", "it lacks %s", names.data);
}

void gt_read_failures(struct gt_reading *reading)
{
    const struct gt_answers *answers = reading->answers;
    if (answers->library_error)
        gt_node_missing(reading->node, "vendor library", "%s", answers->library_error);
    if (answers->stopped)
        gt_node_missing(reading->node, "vendor library", "not everything was asked: %s", answers->stopped);
    if (answers->malformed)
        gt_node_missing(reading->node, "vendor library", "%u entries of its call log have no known form",
                        answers->malformed);
    struct missed missed;
    find_missed(answers, &missed);
    note_symbols(reading, &missed);
    note_calls(reading, &missed);
}
