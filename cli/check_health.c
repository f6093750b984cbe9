/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "cli/check.h"

/* The inputs of a GPU's health: states, ECC, temperature, events. */

static void check_reason(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally reasons = {0};
    unsigned at = 0;
    bool away = false;
    while ((answer = cli_check_value(checked, "mxSmlGetDeviceState", &at))) {
        int64_t state = -1;
        away = (gt_json_is_int(answer->value, &state) && !state) || away;
    }
    if (!away) {
        cli_check_cannot(check, "every device is available, so no reason was asked for");
        return;
    }
    if (!cli_check_answered(checked, "mxSmlGetDeviceUnavailableReason", check))
        return;
    for (at = 0; (answer = cli_check_next(checked, "mxSmlGetDeviceUnavailableReason", &at));) {
        int64_t code = 0;
        char text[64];
        if (answer->value && gt_json_is_int(gt_get(answer->value, "code"), &code))
            cli_tally_add(&reasons, "code %lld: %.40s", (long long)code,
                          gt_value_text(gt_get(answer->value, "text"), text, sizeof(text)) ? text
                                                                                           : "no text");
    }
    cli_check_found_tally(check, "", &reasons);
    cli_check_evaluate(check, reasons.count > 0);
}

static void check_ecc(const struct cli_checked *checked, struct cli_check *check)
{
    static const char *const counters[] = {"sramCE", "sramUE", "dramCE", "dramUE", "retiredPage"};
    const struct gt_answer *answer;
    struct cli_tally errors = {0};
    unsigned at = 0, all = 0;
    bool sane = true;
    while ((answer = cli_check_value(checked, "mxSmlGetTotalEccErrors", &at))) {
        all++;
        for (unsigned i = 0; i < GT_COUNT(counters); i++) {
            uint64_t count = 0;
            bool number = gt_json_is_unsigned(gt_get(answer->value, counters[i]), UINT32_MAX, &count);
            bool uncorrectable = i == 1 || i == 3;
            sane = sane && number && !(uncorrectable && count);
            if (count == UINT32_MAX)
                cli_tally_add(&errors, "%s all bits set", counters[i]);
            else if (!number || count)
                cli_tally_add(&errors, "%s %llu", number ? counters[i] : "no number",
                              (unsigned long long)count);
        }
    }
    cli_check_found(check, "given for %u GPUs", all);
    if (!errors.count)
        cli_check_found(check, "all are 0");
    cli_check_found_tally(check, "", &errors);
    cli_check_evaluate(check, sane);
}

static void check_ecc_since(const struct cli_checked *checked, struct cli_check *check)
{
    (void)checked;
    cli_check_cannot(
        check,
        "only a second recording after the driver was loaded again shows it, on a GPU that has counted some");
}

static void check_limited(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned at = 0;
    uint64_t number = 0;
    const struct gt_answer *answer = cli_check_next(checked, "mxSmlGetAllLimitedDevices", &at);
    if (!gt_json_is_unsigned(gt_get(answer->value, "number"), UINT32_MAX, &number)) {
        cli_check_found(check, "their number is nonsense");
        cli_check_evaluate(check, false);
        return;
    }
    cli_check_found(check, "%llu are listed", (unsigned long long)number);
    cli_check_cannot(check, "%s",
                     number ? "whether they can be used shows only when somebody tries" : "none is listed");
}

static void check_events(const struct cli_checked *checked, struct cli_check *check)
{
    static const char *const needed[] = {"mxSmlEventSetCreate", "mxSmlDeviceRegisterEvents",
                                         "mxSmlEventSetWait"};
    if (!checked->answers || checked->answers->library_error) {
        cli_check_cannot(check, "%s", checked->answers ? "there is no library" : checked->no_answers);
        return;
    }
    for (const cJSON *name = gt_first(checked->answers->missing); name; name = name->next) {
        for (unsigned i = 0; cJSON_IsString(name) && i < GT_COUNT(needed); i++) {
            if (strcmp(name->valuestring, needed[i]) != 0)
                continue;
            cli_check_found(check, "it lacks %s", needed[i]);
            cli_check_evaluate(check, false);
        }
    }
    if (check->verdict == CLI_UNCHECKED) {
        cli_check_found(check, "it lacks none of the functions");
        cli_check_cannot(check,
                         "no event can be made to happen here; the probe logs why where it gets no set");
    }
}

static void check_locality(const struct cli_checked *checked, struct cli_check *check)
{
    const struct gt_answer *answer;
    struct cli_tally differ = {0};
    unsigned at = 0, same = 0;
    while ((answer = cli_check_next(checked, "mxSmlGetNodeAffinity", &at))) {
        int gpu = answer->value && answer->arg_count ? cli_check_gpu(checked, answer->args[0]) : -1;
        const struct gt_fact *fact =
            gpu < 0 ? NULL : gt_facts_find(checked->facts, checked->node->gpus[gpu].bdf);
        uint64_t word = 0;
        if (!fact || fact->numa_node < 0)
            continue;
        const cJSON *item = cJSON_GetArrayItem(answer->value, fact->numa_node / 32);
        if (gt_json_is_unsigned(item, UINT32_MAX, &word) && word == UINT64_C(1) << fact->numa_node % 32)
            same++;
        else
            cli_tally_add(&differ, "another than node %d", fact->numa_node);
    }
    cli_check_found(check, "the same for %u", same);
    cli_check_found_tally(check, "", &differ);
    if (same || differ.count)
        cli_check_evaluate(check, !differ.count);
    else
        cli_check_cannot(check, "the kernel gives no NUMA node");
}

const struct cli_check_rule cli_check_health[] = {
    {"device-state", "the state of a device is 1 (available) or 0 (not)", .call = "mxSmlGetDeviceState",
     .high = 1, .word = "state "},
    {"unavailable-reason", "a device that is not available gives a code and a text", .judge = check_reason,
     .call = "mxSmlGetDeviceState"},
    {"ecc-state", "the ECC state is 0 (off) or 1 (on)", .call = "mxSmlGetEccState", .high = 1,
     .word = "state "},
    {"ecc-counters", "sramUE and dramUE are numbers, 0 on a sound GPU; a counter with all bits set is none",
     .judge = check_ecc, .call = "mxSmlGetTotalEccErrors"},
    {"ecc-counters-since", "the counters count from when the driver was loaded", .judge = check_ecc_since},
    {"temperature-unit", "temperatures are in hundredths of a degree Celsius: 500 to 12000",
     .call = "mxSmlGetTemperatureInfo", .low = 500, .high = 12000, .word = ""},
    {"limited-devices", "a device listed as limited is present and cannot be used", .judge = check_limited,
     .call = "mxSmlGetAllLimitedDevices"},
    {"events", "an event set can be made, and reports when a GPU becomes unhealthy", .judge = check_events},
    {"locality", "the library's NUMA node of a GPU is the kernel's", .judge = check_locality,
     .call = "mxSmlGetNodeAffinity"},
    {.name = NULL},
};
