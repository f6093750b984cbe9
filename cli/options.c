/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "cli/cli.h"

const char *const cli_text_or_json[] = {[CLI_TEXT] = "text", [CLI_JSON] = "json", NULL};

static int print_help(const struct gt_command *command, const char *verb)
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
    *ret_exit = r < 0 ? cli_usage(parse->verb, "%s", gt_err_text(err)) : print_help(command, parse->verb);
    return false;
}
