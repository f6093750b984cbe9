/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/cli.h"

void cli_keep_standard_streams(void)
{
    /* The lowest free descriptor is used for each open. A closed stdout is replaced by one that cannot be
     * written, so that the loss of the output is still noticed. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
}

int cli_print(const char *verb, const struct gt_buf *text)
{
    char program[64];
    snprintf(program, sizeof(program), "gputopo%s%s", verb ? ": " : "", verb ? verb : "");
    return gt_exit_with_text(program, text);
}

int cli_write_file(const char *verb, const char *path, const char *text)
{
    if (strcmp(path, "-") == 0) {
        gt_auto_buf struct gt_buf buf = GT_BUF(CLI_OUTPUT_MAX);
        gt_buf_puts(&buf, text);
        return cli_print(verb, &buf);
    }
    mode_t mask = umask(0);
    umask(mask);
    gt_auto_err struct gt_err *err = NULL;
    if (gt_file_write_durable(path, text, strlen(text), 0666 & ~mask, &err) < 0)
        return cli_failed(verb, err);
    return CLI_DONE;
}

const char *const cli_text_or_json[] = {[CLI_TEXT] = "text", [CLI_JSON] = "json", NULL};

int cli_print_help(const struct gt_command *command, const char *verb)
{
    char name[64];
    struct gt_command named = *command;
    gt_auto_buf struct gt_buf help = GT_BUF(CLI_OUTPUT_MAX);
    snprintf(name, sizeof(name), "%s%s%s", cli_program, verb ? " " : "", verb ? verb : "");
    named.name = name;
    gt_options_help(&named, &help);
    return cli_print(verb, &help);
}

bool cli_parse_options(const struct gt_command *command, int argc, char **argv, struct cli_parse *parse,
                       int *ret_first, int *ret_exit)
{
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_options_read(command, argc, argv, parse, ret_first, &err);
    if (r >= 0 && !parse->help)
        return true;
    *ret_exit = r < 0 ? cli_usage(parse->verb, "%s", gt_err_text(err)) : cli_print_help(command, parse->verb);
    return false;
}

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
