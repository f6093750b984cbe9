/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

/* getopt shows an option that it does not know as it is: one that would break the line is refused before. */
static bool has_clean_options(const char *verb, int argc, char **argv)
{
    for (int i = 1; i < argc; i++) {
        if (argv[i][0] != '-')
            continue;
        for (const char *p = argv[i]; *p && *p != '='; p++)
            if ((unsigned char)*p < 0x20 || *p == 0x7f) {
                cli_usage(verb, "unrecognized option '%.100s'", argv[i]);
                return false;
            }
    }
    return true;
}

static int print_help(const struct argp *argp, const char *verb)
{
    gt_auto_free char *text = NULL;
    size_t size = 0;
    FILE *stream = open_memstream(&text, &size);
    char name[64];
    snprintf(name, sizeof(name), "%s%s%s", cli_program, verb ? " " : "", verb ? verb : "");
    gt_auto_buf struct gt_buf help = GT_BUF(CLI_OUTPUT_MAX);
    if (stream) {
        argp_help(argp, stream, ARGP_HELP_STD_HELP, name);
        if (fclose(stream) == 0)
            gt_buf_add(&help, text, size);
    }
    if (!help.len)
        help.failed = true;
    return cli_print(verb, &help);
}

bool cli_parse_options(const struct argp *argp, int argc, char **argv, struct cli_parse *parse, int *ret_exit)
{
    if (!has_clean_options(parse->verb, argc, argv)) {
        *ret_exit = CLI_USAGE;
        return false;
    }
    /* In order at the top, where the first argument is the verb and what follows is the verb's. */
    unsigned flags = ARGP_NO_HELP | ARGP_NO_EXIT | (parse->verb ? 0 : ARGP_IN_ORDER);
    if (argp_parse(argp, argc, argv, flags, NULL, parse) != 0) {
        *ret_exit = CLI_USAGE;
        return false;
    }
    if (parse->help) {
        *ret_exit = print_help(argp, parse->verb);
        return false;
    }
    return true;
}

error_t cli_parse_rest(int key, char *arg, struct argp_state *state)
{
    struct cli_parse *parse = state->input;
    switch (key) {
    case ARGP_KEY_INIT:
        /* Keeps argp from adding "Try ... --help" behind the one line that getopt wrote. */
        state->err_stream = NULL;
        return 0;
    case CLI_KEY_HELP:
        parse->help = true;
        state->next = state->argc;
        return 0;
    case ARGP_KEY_ARG:
        cli_usage(parse->verb, "unexpected argument '%.100s'", arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

error_t cli_refuse(const struct cli_parse *parse, const char *option, const char *what, const char *arg)
{
    cli_usage(parse->verb, "%s: expected %s, is '%.100s'", option, what, arg);
    return EINVAL;
}

error_t cli_parse_word(const struct cli_parse *parse, const char *option, const char *const *words,
                       const char *arg, unsigned *ret)
{
    for (unsigned i = 0; words[i]; i++)
        if (strcmp(arg, words[i]) == 0) {
            *ret = i;
            return 0;
        }
    gt_auto_buf struct gt_buf list = GT_BUF(256);
    for (unsigned i = 0; words[i]; i++)
        gt_buf_printf(&list, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    return cli_refuse(parse, option, list.data ? list.data : "", arg);
}

error_t cli_parse_number(const struct cli_parse *parse, const char *option, const char *what, uint64_t min,
                         uint64_t max, const char *arg, uint64_t *ret)
{
    uint64_t number;
    if (!gt_text_to_unsigned(arg, max, &number) || number < min)
        return cli_refuse(parse, option, what, arg);
    *ret = number;
    return 0;
}
