/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "base/json_get.h"
#include "cli/check.h"

/* The vendor library as a whole: its path, its functions, its answers, and who may call it. */

static void check_library_place(const struct cli_checked *checked, struct cli_check *check)
{
    static const char *const places[] = {"/opt/mxdriver/lib/", "/opt/maca/lib/", "/opt/mxn100/lib/"};
    if (!checked->answers) {
        cli_check_cannot(check, "%s", checked->no_answers);
        return;
    }
    if (checked->answers->library_error && !checked->node->gpu_count) {
        cli_check_cannot(check, "no GPU, and no library");
        return;
    }
    const cJSON *path = gt_get(gt_get(checked->answers->json, "library"), "path");
    bool usual = false;
    for (unsigned i = 0; cJSON_IsString(path) && i < GT_COUNT(places); i++)
        usual = usual || strncmp(path->valuestring, places[i], strlen(places[i])) == 0;
    cli_check_found(check, "%s",
                    checked->answers->library_error ? checked->answers->library_error
                    : cJSON_IsString(path)          ? path->valuestring
                                                    : "no path is given");
    cli_check_evaluate(check, usual);
}

static void check_functions(const struct cli_checked *checked, struct cli_check *check)
{
    static const char *const later[] = {"mxSmlGetMetaXLinkInfo_v2", "mxSmlGetDeviceBoardId",
                                        "mxSmlEventSetCreate",      "mxSmlDeviceRegisterEvents",
                                        "mxSmlEventSetWait",        "mxSmlEventSetFree"};
    struct cli_tally missing = {0};
    bool all = true;
    if (!checked->answers || checked->answers->library_error) {
        cli_check_cannot(check, "%s", checked->answers ? "there is no library" : checked->no_answers);
        return;
    }
    for (const cJSON *name = gt_first(checked->answers->missing); name; name = name->next) {
        if (!cJSON_IsString(name))
            continue;
        cli_tally_add(&missing, "%s", name->valuestring);
        all = all && GT_HAS_TEXT(later, GT_COUNT(later), name->valuestring);
    }
    if (!missing.count)
        cli_check_found(check, "it has all");
    cli_check_found_tally(check, "it lacks ", &missing);
    cli_check_evaluate(check, all);
}

static void check_versions(const struct cli_checked *checked, struct cli_check *check)
{
    cli_check_found(check, "library %s",
                    checked->node->library_version[0] ? checked->node->library_version : "not reported");
    cli_check_found(check, "driver %s",
                    checked->node->driver_version[0] ? checked->node->driver_version : "not reported");
    cli_check_evaluate(check, checked->node->library_version[0] && checked->node->driver_version[0]);
}

/* Return codes that are not errors. */
static bool is_expected(const struct gt_answer *answer)
{
    bool remote = strcmp(answer->call, "mxSmlGetMetaXLinkRemoteInfo") == 0;
    return answer->code == 0 || answer->code == 3 || (answer->code == 2 && remote) ||
           ((answer->code == 6 || answer->code == 9) && remote);
}

static void check_calls(const struct cli_checked *checked, struct cli_check *check)
{
    struct cli_tally problems = {0};
    if (!checked->answers || !checked->answers->count) {
        cli_check_cannot(check, "%s", checked->answers ? "no call was made" : checked->no_answers);
        return;
    }
    for (unsigned i = 0; i < checked->answers->count; i++) {
        const struct gt_answer *answer = &checked->answers->calls[i];
        if (answer->why)
            cli_tally_add(&problems, "%.44s: %s", answer->call, answer->why);
        else if (!is_expected(answer))
            cli_tally_add(&problems, "%.44s: code %ld", answer->call, answer->code);
    }
    cli_check_found(check, "%u calls", checked->answers->count);
    cli_check_found_tally(check, "", &problems);
    if (checked->answers->stopped)
        cli_check_found(check, "stopped early: %s", checked->answers->stopped);
    cli_check_evaluate(check, !problems.count && !checked->answers->stopped && !checked->answers->malformed);
}

static void check_library_count(const struct cli_checked *checked, struct cli_check *check)
{
    unsigned at = 0;
    uint64_t count = 0;
    const struct gt_answer *answer = cli_check_next(checked, "mxSmlGetDeviceCount", &at);
    bool sane = gt_json_is_unsigned(answer->value, UINT32_MAX, &count);
    cli_check_found(check, "it says %llu", (unsigned long long)count);
    cli_check_found(check, "%u are on the bus", checked->node->gpu_count);
    cli_check_evaluate(check, sane && count == checked->node->gpu_count);
}

static void check_privileges(const struct cli_checked *checked, struct cli_check *check)
{
    bool answered = cli_check_answered(checked, "mxSmlGetDeviceInfo", check);
    if (!checked->answers || checked->answers->library_error)
        return;
    if (!checked->unprivileged)
        cli_check_cannot(check, "it was not asked by a process of this machine without capabilities");
    else if (!checked->node->gpu_count)
        cli_check_cannot(check, "no GPU");
    else {
        cli_check_found(check, "without capabilities it gives %s", answered ? "answers" : check->why);
        cli_check_evaluate(check, answered);
    }
}

const struct cli_check_rule cli_check_library[] = {
    {"library-place", "libmxsml.so lies in /opt/mxdriver/lib, /opt/maca/lib or /opt/mxn100/lib",
     .judge = check_library_place},
    {"library-functions", "it has every function that is asked; those of later versions may be missing",
     .judge = check_functions},
    {"library-version", "library and driver give their versions as short texts", .judge = check_versions,
     .call = "mxSmlGetMacaVersion"},
    {"library-calls",
     "every call ends in time, stays within its structure and succeeds, or says \"not supported\" (3)",
     .judge = check_calls},
    {"device-count", "mxSmlGetDeviceCount returns the number itself, as many as there are GPUs on the bus",
     .judge = check_library_count, .call = "mxSmlGetDeviceCount"},
    {"privileges",
     "the library answers a process that has the device nodes and no privilege, as the probe's container",
     .judge = check_privileges},
    {.name = NULL},
};
