/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/json_get.h"
#include "base/text.h"

struct cli_check *cli_check_add(struct cli_checks *to, const char *name, const char *assumed)
{
    static struct cli_check spare; /* never used: a test runs all checks */
    struct cli_check *check = to->count < GT_COUNT(to->list) ? &to->list[to->count++] : &spare;
    *check = (struct cli_check){.name = name, .assumed = assumed, .verdict = CLI_UNCHECKED};
    return check;
}

/* Texts from a recording or a library may have any characters, and are printed to a terminal. */
static void make_plain(char *text)
{
    for (; *text; text++)
        if ((unsigned char)*text < 0x20 || (unsigned char)*text > 0x7e)
            *text = '?';
}

void cli_check_found(struct cli_check *check, const char *format, ...)
{
    size_t len = strlen(check->found);
    va_list args;
    if (len && len + 3 < sizeof(check->found))
        len += (size_t)snprintf(check->found + len, sizeof(check->found) - len, "; ");
    va_start(args, format);
    vsnprintf(check->found + len, sizeof(check->found) - len, format, args);
    va_end(args);
    make_plain(check->found);
}

void cli_check_evaluate(struct cli_check *check, bool passed)
{
    check->verdict = passed ? CLI_PASSED : CLI_BROKEN;
}

void cli_check_cannot(struct cli_check *check, const char *format, ...)
{
    GT_TEXT_OF_ARGS(check->why, format);
    make_plain(check->why);
}

const struct gt_answer *cli_check_next(const struct cli_checked *checked, const char *call, unsigned *at)
{
    while (checked->answers && *at < checked->answers->count) {
        const struct gt_answer *answer = &checked->answers->calls[(*at)++];
        if (strcmp(answer->call, call) == 0)
            return answer;
    }
    return NULL;
}

const struct gt_answer *cli_check_value(const struct cli_checked *checked, const char *call, unsigned *at)
{
    const struct gt_answer *answer = cli_check_next(checked, call, at);
    while (answer && !answer->value)
        answer = cli_check_next(checked, call, at);
    return answer;
}

static bool check_lacks(const struct gt_answers *answers, const char *call)
{
    for (const cJSON *name = gt_first(answers->missing); name; name = name->next)
        if (cJSON_IsString(name) && strcmp(name->valuestring, call) == 0)
            return true;
    return false;
}

bool cli_check_answered(const struct cli_checked *checked, const char *call, struct cli_check *check)
{
    unsigned at = 0, first_at = 0;
    if (!checked->answers) {
        cli_check_cannot(check, "%s", checked->no_answers);
        return false;
    }
    if (cli_check_value(checked, call, &at))
        return true;
    const struct gt_answer *first = cli_check_next(checked, call, &first_at);
    if (checked->answers->library_error)
        cli_check_cannot(check, "there is no vendor library");
    else if (check_lacks(checked->answers, call))
        cli_check_cannot(check, "the library lacks %s", call);
    else if (!first)
        cli_check_cannot(check, "%s was not asked", call);
    else if (first->why)
        cli_check_cannot(check, "%s: %s", call, first->why);
    else
        cli_check_cannot(check, "%s: code %ld", call, first->code);
    return false;
}

bool cli_check_has_gpus(const struct cli_checked *checked, struct cli_check *check)
{
    if (!checked->node->gpu_count)
        cli_check_cannot(check, "no GPU");
    return checked->node->gpu_count;
}

int cli_check_gpu(const struct cli_checked *checked, unsigned vendor_number)
{
    for (unsigned i = 0; i < checked->node->gpu_count; i++)
        if (checked->node->gpus[i].vendor_index == (int)vendor_number)
            return (int)i;
    return -1;
}

void cli_tally_add(struct cli_tally *tally, const char *format, ...)
{
    char text[sizeof(tally->of[0].text)];
    GT_TEXT_OF_ARGS(text, format);
    unsigned i = 0;
    while (i < tally->count && strcmp(tally->of[i].text, text) != 0)
        i++;
    if (i == GT_COUNT(tally->of)) {
        tally->others++;
        return;
    }
    if (i == tally->count)
        memcpy(tally->of[tally->count++].text, text, sizeof(text));
    tally->of[i].times++;
}

void cli_check_found_tally(struct cli_check *check, const char *before, const struct cli_tally *tally)
{
    gt_auto_buf struct gt_buf text = GT_BUF(2048);
    for (unsigned i = 0; i < tally->count; i++) {
        gt_buf_printf(&text, "%s%s", i ? ", " : "", tally->of[i].text);
        if (tally->of[i].times > 1)
            gt_buf_printf(&text, " (%u times)", tally->of[i].times);
    }
    if (tally->others)
        gt_buf_printf(&text, " and %u others", tally->others);
    if (text.len)
        cli_check_found(check, "%s%s", before, text.data);
}
