/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "cli/cli.h"

static void say(const char *verb, const struct gt_err *err)
{
    const char *separator = verb ? ": " : "";
    fprintf(stderr, "gputopo%s%s: %s\n", separator, verb ? verb : "", gt_err_text(err));
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
    say(verb, err);
    return CLI_USAGE;
}

void cli_warn(const char *verb, const char *text)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_fail(&err, EINVAL, "%s", text);
    say(verb, err);
}

int cli_failed(const char *verb, const struct gt_err *err)
{
    say(verb, err);
    return CLI_FAILED;
}
