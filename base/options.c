/* SPDX-License-Identifier: Apache-2.0 */
#include "base/options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/err.h"
#include "base/file.h"
#include "base/text.h"
#include "base/version.h"

enum { ARGUMENT_MAX = 4096, OPTIONS_MAX = 64, FIRST_KEY = 256, HELP_MAX = 16 << 10 };
enum { HELP_WIDTH = 79, HELP_COLUMN = 29 };

/* ---- reading ---- */

static int argument_of(const struct gt_option *option)
{
    if (!option->value)
        return no_argument;
    return *option->value == '=' ? optional_argument : required_argument;
}

static const struct gt_option *options_find_name(const struct gt_command *command, const char *name)
{
    return GT_FIND(command->options, command->count, name, name);
}

static bool has_letter(const struct gt_command *command, char letter)
{
    for (size_t i = 0; i < command->count; i++)
        if (command->options[i].letter == letter)
            return true;
    return false;
}

static const struct gt_option *options_find_key(const struct gt_command *command, int key)
{
    if (key >= FIRST_KEY)
        return &command->options[key - FIRST_KEY];
    for (size_t i = 0; i < command->count; i++)
        if (key && command->options[i].letter == key)
            return &command->options[i];
    return key == 'h' ? options_find_name(command, "help") : NULL;
}

/* Which option a name probably means; NULL: none. */
static const char *options_meant(const struct gt_command *command, const char *typed)
{
    const char *names[OPTIONS_MAX];
    char name[64];
    for (size_t i = 0; i < command->count; i++)
        names[i] = command->options[i].name;
    snprintf(name, sizeof(name), "%.*s", (int)strcspn(typed, "="), typed);
    return strlen(name) > 3 ? gt_text_meant(name, names, command->count) : NULL;
}

/* "help" or "version" as the only argument, for those who type that. */
static const struct gt_option *options_asked(const struct gt_command *command, int argc, char **argv)
{
    bool asked = argc == 2 && (strcmp(argv[1], "help") == 0 || strcmp(argv[1], "version") == 0);
    return asked ? options_find_name(command, argv[1]) : NULL;
}

/* `argument` is the one that getopt has read last; a letter in it is in optopt. */
static int fail_unread(const struct gt_command *command, int key, const char *argument, struct gt_err **err)
{
    char letter[] = {'-', (char)optopt, '\0'};
    const char *culprit = optopt && optopt < FIRST_KEY ? letter : argument;
    if (key == ':')
        return gt_fail(err, EINVAL, "option '%.100s' requires an argument", culprit);
    if (optopt >= FIRST_KEY)
        return gt_fail(err, EINVAL, "option '%.100s' doesn't allow an argument", culprit);
    size_t len = optopt ? 0 : strcspn(argument + 2, "=");
    for (size_t i = 0; len && i < command->count; i++)
        if (strncmp(command->options[i].name, argument + 2, len) == 0)
            return gt_fail(err, EINVAL, "option '%.100s' is ambiguous, see --help", culprit);
    const char *meant = optopt ? NULL : options_meant(command, argument + 2);
    if (meant)
        return gt_fail(err, EINVAL, "unrecognized option '%.100s', did you mean --%s? See --help", culprit,
                       meant);
    return gt_fail(err, EINVAL, "unrecognized option '%.100s', see --help", culprit);
}

int gt_option_read_value(const struct gt_option *option, const char *value, void *to, struct gt_err **err)
{
    return option->read(option, value, (char *)to + option->at, err);
}

int gt_options_read(const struct gt_command *command, int argc, char **argv, void *to, int *ret_first,
                    struct gt_err **err)
{
    struct option longs[OPTIONS_MAX + 1] = {0};
    char letters[2 * OPTIONS_MAX + 4], *end = letters;
    if (command->count > OPTIONS_MAX)
        return gt_fail(err, E2BIG, "options");
    if (command->has_verbs)
        *end++ = '+';
    *end++ = ':';
    for (size_t i = 0; i < command->count; i++) {
        const struct gt_option *option = &command->options[i];
        longs[i] = (struct option){option->name, argument_of(option), NULL, FIRST_KEY + (int)i};
        if (option->letter)
            *end++ = option->letter;
        if (option->letter && option->value)
            *end++ = ':';
    }
    if (!has_letter(command, 'h'))
        *end++ = 'h';
    *end = '\0';
    const struct gt_option *asked = options_asked(command, argc, argv);
    if (asked)
        return gt_option_read_value(asked, "", to, err) < 0 ? -EINVAL : 0;
    optind = 0; /* glibc: 0 resets getopt */
    for (;;) {
        int key = getopt_long(argc, argv, letters, longs, NULL);
        if (key == -1)
            break;
        const struct gt_option *option = key == ':' || key == '?' ? NULL : options_find_key(command, key);
        if (!option)
            return fail_unread(command, key, argv[optind - 1], err);
        struct gt_option typed = *option; /* errors name it as it was typed */
        if (key >= FIRST_KEY)
            typed.letter = '\0';
        int r = gt_option_read_value(&typed, optarg ? optarg : "", to, err);
        if (r != 0)
            return r < 0 ? r : 0;
    }
    if (optind < argc && !command->arguments)
        return gt_fail(err, EINVAL, "unexpected argument '%.100s'", argv[optind]);
    if (ret_first)
        *ret_first = optind;
    return 0;
}

/* ---- --help ---- */

/* Lines that are too long are broken at blanks, and go on at the column `indent`. */
static void add_wrapped(struct gt_buf *to, const char *text, size_t column, size_t indent)
{
    while (*text) {
        size_t blanks = strspn(text, " "), word = strcspn(text + blanks, " \n");
        if (column > indent && column + blanks + word > HELP_WIDTH) {
            gt_buf_printf(to, "\n%*s", (int)indent, "");
            text += blanks;
            blanks = 0;
            column = indent;
        }
        gt_buf_add(to, text, blanks + word);
        column += blanks + word;
        text += blanks + word;
        if (*text == '\n') {
            gt_buf_printf(to, "\n%*s", (int)indent, "");
            column = indent;
            text++;
        }
    }
    gt_buf_puts(to, "\n");
}

void gt_options_help(const struct gt_command *command, struct gt_buf *to)
{
    bool letters = false;
    for (size_t i = 0; i < command->count; i++)
        letters |= command->options[i].letter != '\0';
    gt_buf_printf(to, "Usage: %s [OPTION]...%s%s\n", command->name, command->arguments ? " " : "",
                  command->arguments ? command->arguments : "");
    add_wrapped(to, command->about, 0, 0);
    gt_buf_puts(to, "\n");
    for (size_t i = 0; i < command->count; i++) {
        const struct gt_option *option = &command->options[i];
        const char *value = option->value ? option->value : "";
        if (!option->help)
            continue;
        char left[80], letter[8] = "";
        if (letters)
            snprintf(letter, sizeof(letter), option->letter ? "-%c, " : "    ", option->letter);
        snprintf(left, sizeof(left), "  %s--%s%s%s", letter, option->name, *value && *value != '=' ? " " : "",
                 value);
        bool fits = strlen(left) < HELP_COLUMN;
        gt_buf_printf(to, "%s%s%*s", left, fits ? "" : "\n", HELP_COLUMN - (fits ? (int)strlen(left) : 0),
                      "");
        add_wrapped(to, option->help, HELP_COLUMN, HELP_COLUMN);
    }
    if (command->more) {
        gt_buf_puts(to, "\n");
        add_wrapped(to, command->more, 0, 0);
    }
}

/* ---- exits ---- */

int gt_exit_with(const char *program, const struct gt_err *err, int code)
{
    fprintf(stderr, "%s: %s\n", program, gt_err_text(err));
    return gt_err_code(err) == ENOMEM ? GT_EXIT_FAILED : code; /* not a usage error */
}

int gt_exit_with_text(const char *program, const struct gt_buf *text)
{
    gt_auto_err struct gt_err *err = NULL;
    if (gt_buf_check(text, "the output", &err) < 0)
        return gt_exit_with(program, err, GT_EXIT_FAILED);
    int r = gt_file_write_all(STDOUT_FILENO, text->data, text->len);
    if (r < 0 && r != -EPIPE) { /* else: the reader has closed the pipe, no error */
        gt_fail_sys(&err, -r, "standard output");
        return gt_exit_with(program, err, GT_EXIT_FAILED);
    }
    return r < 0 ? GT_EXIT_FAILED : 0;
}

int gt_exit_with_help(const struct gt_command *command)
{
    gt_auto_buf struct gt_buf text = GT_BUF(HELP_MAX);
    gt_options_help(command, &text);
    return gt_exit_with_text(command->name, &text);
}

int gt_exit_with_version(const char *program)
{
    gt_auto_buf struct gt_buf text = GT_BUF(HELP_MAX);
    gt_buf_printf(&text, "%s %s (%s)\n", program, gt_version, gt_commit);
    return gt_exit_with_text(program, &text);
}

/* ---- readers ---- */

const char *const gt_option_log_levels[] = {"error", "warning", "info", "debug", NULL};
const char *const gt_option_log_formats[] = {"text", "json", NULL};

int gt_option_refuse(const struct gt_option *option, const char *what, const char *value, struct gt_err **err)
{
    if (option->letter)
        return gt_fail(err, EINVAL, "-%c: expected %s, is '%.100s'", option->letter, what, value);
    return gt_fail(err, EINVAL, "--%s: expected %s, is '%.100s'", option->name, what, value);
}

static void store(const struct gt_option *option, void *field, uint64_t value)
{
    if (option->size == sizeof(bool))
        *(bool *)field = value;
    else if (option->size == sizeof(uint64_t))
        *(uint64_t *)field = value;
    else
        *(unsigned *)field = (unsigned)value;
}

int gt_option_set(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    (void)value, (void)err;
    store(option, field, 1);
    return 0;
}

int gt_option_clear(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    (void)value, (void)err;
    store(option, field, 0);
    return 0;
}

int gt_option_last(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    gt_option_set(option, value, field, err);
    return 1;
}

int gt_option_find_word(const struct gt_option *option, const char *const *words, const char *value,
                        unsigned *ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf list = GT_BUF(1024);
    for (unsigned i = 0; words[i]; i++) {
        if (strcmp(value, words[i]) == 0) {
            *ret = i;
            return 0;
        }
        gt_buf_printf(&list, "%s%s", i == 0 ? "" : words[i + 1] ? ", " : " or ", words[i]);
    }
    return gt_option_refuse(option, list.data ? list.data : "", value, err);
}

int gt_option_word(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    unsigned word;
    GT_TRY(gt_option_find_word(option, option->words, value, &word, err));
    store(option, field, word);
    return 0;
}

int gt_option_bool(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    static const char *const words[] = {"false", "true", NULL};
    unsigned word = 1;
    bool left_out = *option->value == '=' && !*value;
    int r = left_out ? 0 : gt_option_find_word(option, words, value, &word, err);
    if (r >= 0)
        *(bool *)field = word;
    return r;
}

int gt_option_text(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    char what[80];
    snprintf(what, sizeof(what), "%s of 1 to %d bytes", option->value, ARGUMENT_MAX - 1);
    if (!*value || strlen(value) >= ARGUMENT_MAX)
        return gt_option_refuse(option, what, value, err);
    *(const char **)field = value;
    return 0;
}

int gt_option_any_text(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    (void)option, (void)err;
    *(const char **)field = value;
    return 0;
}

static int refuse_number(const struct gt_option *option, const char *value, struct gt_err **err)
{
    char what[80];
    snprintf(what, sizeof(what), "a number from %.10g to %.10g", option->min, option->max);
    return gt_option_refuse(option, what, value, err);
}

int gt_option_number(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    uint64_t number;
    if (!gt_text_to_unsigned(value, (uint64_t)option->max, &number) || (double)number < option->min)
        return refuse_number(option, value, err);
    store(option, field, number);
    return 0;
}

int gt_option_real(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    double number;
    if (!gt_text_to_real(value, &number) || !(number >= option->min && number <= option->max))
        return refuse_number(option, value, err);
    *(double *)field = number;
    return 0;
}

int gt_option_vendor(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    const char *digits = strncasecmp(value, "0x", 2) == 0 ? value + 2 : value;
    size_t len = strlen(digits);
    bool whole = len >= 1 && len <= 4 && strspn(digits, "0123456789abcdefABCDEF") == len;
    unsigned id = whole ? (unsigned)strtoul(digits, NULL, 16) : 0;
    if (!id || id == 0xffff) /* neither is an id; the bus returns ffff if there is no device */
        return gt_option_refuse(option, "a PCI vendor id such as 9999 or 0x10de", value, err);
    *(unsigned *)field = id;
    return 0;
}

/* ---- names ---- */

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
