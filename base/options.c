/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/version.h"

enum { VALUE_MAX = 4096, FIRST_KEY = 256, HELP_MAX = 16 << 10 };

void gt_options_help(const struct gt_option *table, size_t count, int width, struct gt_buf *to)
{
    for (size_t i = 0; i < count; i++) {
        char left[48];
        const char *value = table[i].value ? table[i].value : "";
        snprintf(left, sizeof(left), "--%s%s%s", table[i].name, *value && *value != '=' ? " " : "", value);
        gt_buf_printf(to, "  %-*s %s\n", width, left, table[i].help);
    }
}

static int argument_of(const char *value)
{
    if (!value)
        return no_argument;
    return *value == '=' ? optional_argument : required_argument;
}

int gt_options_read(const struct gt_option *table, size_t count, int argc, char **argv, gt_option_take *take,
                    void *arg, struct gt_err **err)
{
    gt_auto_free struct option *longs = calloc(count + 1, sizeof(*longs));
    if (!longs)
        return gt_fail_sys(err, ENOMEM, "options");
    for (size_t i = 0; i < count; i++)
        longs[i] = (struct option){table[i].name, argument_of(table[i].value), NULL, table[i].key};
    optind = 0; /* glibc: start afresh */
    for (;;) {
        int position = optind ? optind : 1, index = -1;
        int key = getopt_long(argc, argv, ":", longs, &index);
        if (key == -1)
            break;
        if (key == ':')
            return gt_fail(err, EINVAL, "option \"%.80s\" needs a value", argv[position]);
        if (key == '?' && optopt >= FIRST_KEY)
            return gt_fail(err, EINVAL, "option \"%.80s\" takes no value", argv[position]);
        if (key == '?')
            return gt_fail(err, EINVAL, "unknown or ambiguous option \"%.80s\", see --help", argv[position]);
        int r = take(arg, key, longs[index].name, optarg ? optarg : "", err);
        if (r < 0)
            return r;
    }
    if (optind < argc)
        return gt_fail(err, EINVAL, "\"%.80s\": only options are taken, see --help", argv[optind]);
    return 0;
}

int gt_exit_with(const char *program, const struct gt_err *err, int code)
{
    fprintf(stderr, "%s: %s\n", program, gt_err_text(err));
    return gt_err_code(err) == ENOMEM ? GT_EXIT_FAILED : code; /* that is nobody's wrong usage */
}

int gt_exit_with_help(void (*write)(struct gt_buf *to))
{
    gt_auto_buf struct gt_buf text = GT_BUF(HELP_MAX);
    write(&text);
    return fputs(text.data ? text.data : "", stdout) < 0 || fflush(stdout) != 0 ? GT_EXIT_FAILED : 0;
}

int gt_exit_with_version(const char *program)
{
    printf("%s %s (%s)\n", program, gt_version, gt_commit);
    return fflush(stdout) != 0 ? GT_EXIT_FAILED : 0;
}

int gt_option_word(const char *name, const char *value, const char *const *words, unsigned count,
                   const char *expected, unsigned *ret, struct gt_err **err)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(value, words[i]) == 0) {
            *ret = i;
            return 0;
        }
    return gt_fail(err, EINVAL, "--%s: \"%.40s\" is not one of %s", name, value, expected);
}

int gt_option_text(const char *name, const char *value, const char **ret, struct gt_err **err)
{
    if (!*value)
        return gt_fail(err, EINVAL, "--%s: is empty", name);
    if (strlen(value) >= VALUE_MAX)
        return gt_fail(err, EINVAL, "--%s: is longer than a path may be", name);
    *ret = value;
    return 0;
}

int gt_option_bool(const char *name, const char *value, bool *ret, struct gt_err **err)
{
    static const char *const words[] = {"false", "true"};
    unsigned word;
    int r = gt_option_word(name, value, words, GT_COUNT(words), "true, false", &word, err);
    if (r >= 0)
        *ret = word;
    return r;
}

int gt_option_number(const char *name, const char *value, unsigned min, unsigned max, unsigned *ret,
                     struct gt_err **err)
{
    uint64_t number;
    if (!gt_text_to_unsigned(value, max, &number) || number < min)
        return gt_fail(err, EINVAL, "--%s: \"%.40s\" is not a number from %u to %u", name, value, min, max);
    *ret = (unsigned)number;
    return 0;
}

int gt_option_log_level(const char *name, const char *value, enum gt_log_level *ret, struct gt_err **err)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    unsigned word;
    int r = gt_option_word(name, value, levels, GT_COUNT(levels), "error, warning, info, debug", &word, err);
    if (r >= 0)
        *ret = (enum gt_log_level)word;
    return r;
}

int gt_option_log_format(const char *name, const char *value, enum gt_log_format *ret, struct gt_err **err)
{
    static const char *const formats[] = {"text", "json"};
    unsigned word;
    int r = gt_option_word(name, value, formats, GT_COUNT(formats), "text, json", &word, err);
    if (r >= 0)
        *ret = (enum gt_log_format)word;
    return r;
}

bool gt_option_is_name(const char *text, size_t len, const char *more)
{
    for (size_t i = 0; i < len; i++) {
        bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (!letter && !(text[i] >= '0' && text[i] <= '9') && !strchr(more, text[i]))
            return false;
    }
    return len > 0;
}

bool gt_option_is_qualified_name(const char *text)
{
    const char *slash = strchr(text, '/'), *name = slash ? slash + 1 : text;
    size_t len = strlen(name);
    return len <= 63 && strlen(text) <= 253 + 1 + 63 && gt_option_is_name(name, len, "-._") &&
           (!slash || gt_option_is_name(text, (size_t)(slash - text), "-."));
}
