/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/file.h"
#include "base/json.h"
#include "base/text.h"
#include "cli/cli.h"
#include "topology/model/render.h"

enum { PROGRAM_SIZE = 64 };

void cli_keep_standard_streams(void)
{
    /* The lowest free descriptor is used for each open. A closed stdout is replaced by one that cannot be
     * written, so that the loss of the output is still noticed. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
    signal(SIGPIPE, SIG_IGN);
}

/* "gputopo: VERB" */
static const char *message_program(const char *verb, char to[static PROGRAM_SIZE])
{
    snprintf(to, PROGRAM_SIZE, "gputopo%s%s", verb ? ": " : "", verb ? verb : "");
    return to;
}

static int message_progress; /* columns of its line on the terminal */
static bool message_watches; /* and says nothing of what it does every two seconds */

void cli_progress(const char *format, ...)
{
    char text[72];
    if (message_watches || !isatty(STDERR_FILENO))
        return;
    GT_TEXT_OF_ARGS(text, format);
    /* Written over by blanks: where NO_COLOR is set there shall be no escape sequence. */
    fprintf(stderr, "\r%-*s", message_progress, text);
    message_progress = (int)strlen(text);
}

void cli_progress_end(void)
{
    if (message_progress)
        fprintf(stderr, "\r%*s\r", message_progress, "");
    message_progress = 0;
}

int cli_print(const char *verb, const struct gt_buf *text)
{
    char program[PROGRAM_SIZE];
    cli_progress_end();
    return gt_exit_with_text(message_program(verb, program), text);
}

int cli_write_file(struct cli_call *call, const char *path, const char *text)
{
    if (strcmp(path, "-") == 0) {
        gt_buf_puts(call->text, text);
        return 0;
    }
    mode_t mask = umask(0);
    umask(mask);
    return gt_file_write_durable(path, text, strlen(text), 0666 & ~mask, call->err);
}

int cli_read_format(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    bool is_old = strcmp(value, "table") == 0 || strcmp(value, "matrix") == 0;
    return gt_option_word(option, is_old ? "text" : value, field, err);
}

const char *const cli_formats[] = {CLI_FORMAT_WORDS, NULL};

static int message_say(const char *verb, const struct gt_err *err, int code)
{
    char program[PROGRAM_SIZE];
    cli_progress_end();
    return gt_exit_with(message_program(verb, program), err, code);
}

static int print_as(const char *verb, unsigned format, const struct gt_buf *text)
{
    const struct gt_json_limits limits = {CLI_OUTPUT_MAX, 8 * GT_JSON_VALUES_MAX};
    gt_auto_buf struct gt_buf yaml = GT_BUF(CLI_OUTPUT_MAX);
    gt_auto_json cJSON *json = NULL;
    gt_auto_err struct gt_err *err = NULL;
    if (format != CLI_YAML || text->failed)
        return cli_print(verb, text);
    if (gt_json_parse_within(text->data, text->len, "the output", &limits, &json, &err) < 0)
        return message_say(verb, err, CLI_FAILED);
    gt_render_yaml(json, &yaml);
    return cli_print(verb, &yaml);
}

static int message_fail(const struct cli_call *call)
{
    return call->is_misuse ? cli_usage(call->verb->name, "%s", gt_err_text(*call->err))
                           : message_say(call->verb->name, *call->err, CLI_FAILED);
}

/* A large cluster is looked at less often. False: nobody reads the output any more. */
static bool wait_to_look(const struct timespec *begun)
{
    enum { LOOKS_EVERY_S = 2, LOOKS_SHARE = 5 };
    struct pollfd reader = {.fd = STDOUT_FILENO};
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    time_t pause_s = LOOKS_SHARE * (now.tv_sec - begun->tv_sec);
    pause_s = pause_s > LOOKS_EVERY_S ? pause_s : LOOKS_EVERY_S;
    return poll(&reader, 1, (int)(1000 * pause_s)) <= 0;
}

static int message_watch(const struct cli_call *asked)
{
    const char *verb = asked->verb->name;
    gt_auto_buf struct gt_buf last = GT_BUF(CLI_OUTPUT_MAX);
    bool is_told = false; /* that it fails, since it does */
    bool is_terminal = isatty(STDOUT_FILENO);
    message_watches = true;
    for (bool first = true;; first = false) {
        gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
        gt_auto_err struct gt_err *err = NULL;
        struct timespec begun;
        struct cli_call call = *asked;
        call.text = &text;
        call.err = &err;
        clock_gettime(CLOCK_MONOTONIC, &begun);
        int r = call.verb->run(&call);
        if (r < 0 && first)
            return message_fail(&call);
        if (r < 0 && !is_told)
            cli_warn(verb, gt_err_text(err));
        bool is_changed = text.failed || text.len != last.len ||
                          (text.len > 0 && memcmp(text.data, last.data, text.len) != 0);
        bool is_covered = is_told && is_terminal; /* by the warning */
        is_told = r < 0;
        if (r >= 0 && (is_changed || is_covered)) {
            gt_buf_done(&last);
            last = text;
            text = (struct gt_buf)GT_BUF(CLI_OUTPUT_MAX);
            gt_auto_buf struct gt_buf shown = GT_BUF(CLI_OUTPUT_MAX);
            gt_buf_puts(&shown, is_terminal ? "\033[H\033[2J" : first ? "" : "\n");
            gt_buf_add(&shown, last.data, last.len);
            shown.failed |= last.failed;
            int exit_code = cli_print(verb, &shown);
            if (exit_code != CLI_DONE)
                return exit_code;
        }
        if (!wait_to_look(&begun))
            return CLI_FAILED;
    }
}

static int run_once(const struct cli_call *asked, unsigned format)
{
    struct cli_call call = *asked;
    gt_auto_buf struct gt_buf text = GT_BUF(CLI_OUTPUT_MAX);
    gt_auto_err struct gt_err *err = NULL;
    call.text = &text;
    call.err = &err;
    int r = call.verb->run(&call), exit_code = call.exit_code;
    bool prints = (r >= 0 || call.always_prints) && (text.len || text.failed);
    int printed = prints ? print_as(call.verb->name, format, &text) : CLI_DONE;
    if (r < 0)
        return message_fail(&call);
    return printed == CLI_DONE ? exit_code : printed;
}

static bool message_asks_version(int argc, char **argv)
{
    const char *word = argc == 2 ? argv[1] : "";
    return strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0 || strcmp(word, "version") == 0;
}

/* The words that an option takes, one a line: the completion of shells asks VERB --complete OPTION TYPED. Of
 * a list it is the last word that is completed. Fails where the option takes no value. */
static int message_complete(const struct cli_verb *verb, const char *asked, const char *typed)
{
    gt_auto_buf struct gt_buf text = GT_BUF(4096);
    for (size_t i = 0; i < verb->command.count; i++) {
        const struct gt_option *option = &verb->command.options[i];
        char name[64], letter[] = {'-', option->letter, '\0'};
        snprintf(name, sizeof(name), "--%s", option->name);
        if (!option->value || (strcmp(asked, name) != 0 && (!option->letter || strcmp(asked, letter) != 0)))
            continue;
        const char *comma = strchr(option->value, ',') ? strrchr(typed, ',') : NULL;
        for (const char *const *word = option->words; word && *word; word++)
            gt_buf_printf(&text, "%.*s%s\n", comma ? (int)(comma + 1 - typed) : 0, typed, *word);
        return cli_print(verb->name, &text);
    }
    return CLI_FAILED;
}

int cli_run(const struct cli_verb *verb, int argc, char **argv)
{
    gt_auto_free struct cli_parse *parse = calloc(1, sizeof(*parse) + verb->options_size);
    struct cli_call call = {.verb = verb, .options = parse, .args = argv};
    gt_auto_err struct gt_err *err = NULL;
    int first, exit_code;
    if (message_asks_version(argc, argv))
        return gt_exit_with_version("gputopo");
    if (!parse) {
        gt_fail_sys(&err, ENOMEM, "options");
        return message_say(verb->name, err, CLI_FAILED);
    }
    if (!verb->command.options)
        return run_once(&call, CLI_TEXT);
    if (argc == 4 && strcmp(argv[1], "--complete") == 0)
        return message_complete(verb, argv[2], argv[3]);
    if (verb->defaults)
        memcpy(parse, verb->defaults, verb->options_size);
    parse->verb = verb->name;
    if (!cli_parse_options(&verb->command, argc, argv, parse, &first, &exit_code))
        return exit_code;
    call.args += first;
    if (argc - first < verb->least_args)
        return cli_usage(verb->name, "%s", verb->wanted);
    if (argc - first > verb->most_args)
        return cli_usage(verb->name, "unexpected argument '%.100s'", argv[first + verb->most_args]);
    if (parse->watch && parse->format != CLI_TEXT)
        return cli_usage(verb->name, "--watch is for text: other formats are printed once");
    return parse->watch ? message_watch(&call) : run_once(&call, parse->format);
}

static int cli_print_help(const struct gt_command *command, const char *verb)
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

int cli_usage(const char *verb, const char *format, ...)
{
    char text[1000];
    GT_TEXT_OF_ARGS(text, format);
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

int cli_misuse(struct cli_call *call, const char *format, ...)
{
    char text[1000];
    GT_TEXT_OF_ARGS(text, format);
    call->is_misuse = true;
    return gt_fail(call->err, EINVAL, "%s", text);
}
