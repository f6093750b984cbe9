/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "base/json_get.h"
#include "cli/check.h"

/* The library's names of GPUs, and whether they agree with PCI. */

enum { KUBELET_ID_MAX = 63, UUID_CHARACTERS = 36 };

static const char info_call[] = "mxSmlGetDeviceInfo";

static void check_address(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally problems = {0};
    char bdf[GT_BDF_SIZE], text[32];
    unsigned at = 0, good = 0, all = 0;
    while ((answer = cli_check_value(checked, info_call, &at))) {
        if (!answer->arg_count)
            continue;
        all++;
        bool is_text = gt_value_text(gt_get(answer->value, "bdfId"), text, sizeof(text));
        if (!is_text || !gt_bdf_normalise(text, bdf))
            cli_tally_add(&problems, "device %u: no PCI address", answer->args[0]);
        else if (cli_check_gpu(checked, answer->args[0]) < 0)
            cli_tally_add(&problems, "device %u: %s is not on the bus, or is claimed twice", answer->args[0],
                          text);
        else if (strcmp(bdf, text) != 0)
            cli_tally_add(&problems, "device %u: written %s", answer->args[0], text);
        else
            good++;
    }
    cli_check_found(check, "%u of %u are so", good, all);
    cli_check_found_tally(check, "", &problems);
    cli_check_evaluate(check, good == all);
}

static void check_identity_order(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    unsigned at = 0, all = 0, repeated = 0, ascending = 0;
    while ((answer = cli_check_value(checked, info_call, &at))) {
        uint64_t id;
        if (!answer->arg_count)
            continue;
        all++;
        repeated +=
            gt_json_is_unsigned(gt_get(answer->value, "deviceId"), UINT32_MAX, &id) && id == answer->args[0];
        ascending += cli_check_gpu(checked, answer->args[0]) == (int)answer->args[0];
    }
    cli_check_found(check, "%u of %u repeat it; %u stand in the order of their addresses", repeated, all,
                    ascending);
    cli_check_evaluate(check, repeated == all && ascending == all);
}

static bool is_usual_uuid(const char *uuid)
{
    if (strncmp(uuid, "GPU-", 4) != 0 || strlen(uuid) != 4 + UUID_CHARACTERS)
        return false;
    for (unsigned i = 0; i < UUID_CHARACTERS; i++) {
        bool dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (dash ? uuid[4 + i] != '-' : !isxdigit((unsigned char)uuid[4 + i]))
            return false;
    }
    return true;
}

static void check_uuid(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned usual = 0, longest = 0;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        const char *uuid = checked->node->gpus[i].uuid; /* one that two GPUs have was removed from both */
        unsigned len = (unsigned)strlen(uuid);
        usual += is_usual_uuid(uuid);
        longest = len > longest ? len : longest;
    }
    cli_check_found(check, "%u of %u GPUs have such a one; the longest has %u characters", usual,
                    checked->node->gpu_count, longest);
    cli_check_evaluate(check, usual == checked->node->gpu_count);
}

static void check_device_id(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned fits = 0;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        const struct gt_gpu *gpu = &checked->node->gpus[i];
        char id[GT_ID_SIZE];
        gt_gpu_device_id(gpu, id);
        fits += gpu->uuid[0] && strcmp(id, gpu->uuid) == 0;
    }
    cli_check_found(check, "%u of %u can; the limit is %d characters", fits, checked->node->gpu_count,
                    KUBELET_ID_MAX);
    cli_check_evaluate(check, fits == checked->node->gpu_count);
}

static void check_identity_check_kind(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally modes = {0}, names = {0};
    unsigned at = 0;
    bool known = true;
    while ((answer = cli_check_value(checked, info_call, &at))) {
        uint64_t mode = 0, brand = 0;
        char name[64];
        known = gt_json_is_unsigned(gt_get(answer->value, "mode"), 2, &mode) && known;
        known = gt_json_is_unsigned(gt_get(answer->value, "brand"), UINT32_MAX, &brand) && known;
        cli_tally_add(&modes, "mode %llu brand %llu", (unsigned long long)mode, (unsigned long long)brand);
        cli_tally_add(&names, "%s",
                      gt_value_text(gt_get(answer->value, "deviceName"), name, sizeof(name)) ? name
                                                                                             : "no name");
    }
    cli_check_found_tally(check, "", &modes);
    cli_check_found_tally(check, "", &names);
    cli_check_evaluate(check, known);
}

static void check_memory(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally sizes = {0};
    bool sane = true;
    for (unsigned i = 0; i < checked->node->gpu_count; i++) {
        uint64_t gib = checked->node->gpus[i].memory_bytes >> 30;
        cli_tally_add(&sizes, "%llu GiB", (unsigned long long)gib);
        sane = sane && gib >= 16 && gib <= 1024;
    }
    cli_check_found_tally(check, "", &sizes);
    cli_check_evaluate(check, sane && checked->node->gpu_count);
}

const struct cli_check_rule cli_check_identity[] = {
    {"bdf", "bdfId is the whole PCI address, as 0000:0e:00.0, of a GPU on the bus, and each GPU has its own",
     .judge = check_address, .call = info_call},
    {"device-numbers",
     "devices are numbered from 0, deviceId repeats the number, and PCI addresses ascend with it",
     .judge = check_identity_order, .call = info_call},
    {"uuid", "a UUID is GPU- and 36 characters, and no two GPUs share one", .judge = check_uuid,
     .call = info_call},
    {"device-id", "the UUID can be the kubelet's device ID: 63 printable characters at most",
     .judge = check_device_id, .call = info_call},
    {"mode", "mode is 0 (none) or 1 (physical function) for a whole card, 2 for a virtual function",
     .judge = check_identity_check_kind, .call = info_call},
    {"memory-unit", "vramTotal is in KiB: 16 GiB to 1 TiB for a card", .judge = check_memory,
     .call = "mxSmlGetMemoryInfo"},
    {.name = NULL},
};
