/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

static int message_say(const char *verb, const struct gt_err *err, int code)
{
    char program[64];
    snprintf(program, sizeof(program), "gputopo%s%s", verb ? ": " : "", verb ? verb : "");
    return gt_exit_with(program, err, code);
}

int cli_usage(const char *verb, const char *format, ...)
{
    char text[1000];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    gt_auto_err struct gt_err *err = NULL; /* an error's text is one line without control characters */
    gt_fail(&err, EINVAL, "%s", text);
    return message_say(verb, err, CLI_USAGE);
}

void cli_warn(const char *verb, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_fail(&err, EINVAL, "%s", text);
    message_say(verb, err, CLI_DONE);
}

int cli_failed(const char *verb, const struct gt_err *err)
{
    return message_say(verb, err, CLI_FAILED);
}
