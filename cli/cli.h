/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/options.h"
#include "topology/discovery/discovery.h"

/* What the verbs of gputopo share. */

/* Exit codes, a contract (docs/reference/cli.md). */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum { CLI_OUTPUT_MAX = 64 << 20 }; /* most bytes of one output */

/* The first member of each verb's struct of options. */
struct cli_parse {
    const char *verb;
    unsigned format;
    bool help, watch;
};

/* One call of a verb. */
struct cli_call {
    const struct cli_verb *verb;
    const void *options; /* the verb's struct */
    char **args;         /* that are no options, up to NULL; of a verb without options all, with its name */
    struct gt_buf *text; /* what it prints in the end, in the format of -o: JSON for YAML */
    bool always_prints;  /* also where it fails, before the error */
    bool is_misuse;      /* the error is one of usage */
    int exit_code;       /* after the text; 0 at first */
    struct gt_err **err;
};

/* A verb: its file defines one of these. */
struct cli_verb {
    const char *name;
    const char *about;         /* one line for --help */
    struct gt_command command; /* without options: the verb reads its arguments itself */
    int least_args, most_args;
    const char *wanted;   /* what is said where there are fewer */
    size_t options_size;  /* of its struct of options, */
    const void *defaults; /* and what is in it at first; NULL: zeros */
    /* 0, or an error. With --watch it is called again and again. */
    int (*run)(struct cli_call *call);
};
#define CLI_OPTIONS(list) .options = (list), .count = GT_COUNT(list)

extern const struct cli_verb cli_show, cli_record, cli_loss, cli_plan, cli_simulate, cli_try, cli_cluster,
    cli_supernodes, cli_explain, cli_isolate, cli_release, cli_isolated, cli_drain, cli_withdraw,
    cli_check_node, cli_apply_crds, cli_bundle, cli_replay;

/* The verbs of this program, in the order of --help, up to NULL: verbs.c, or verbs_client.c in the client
 * alone. */
extern const struct cli_verb *const cli_verbs[];

/* The program as the user calls it: "gputopo", or "kubectl gputopo" as a plugin. */
extern const char *cli_program;

/* Reads the options, runs the verb and prints. Returns the exit code. */
int cli_run(const struct cli_verb *verb, int argc, char **argv);

/* Messages, message.c. Each writes exactly one line to stderr, also where the text has line breaks, and
 * returns the exit code. */
int cli_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for an invalid part of the input that is left out while the rest is processed. */
void cli_warn(const char *verb, const char *text);
/* Makes the error of a verb that is called wrongly. */
int cli_misuse(struct cli_call *call, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Makes sure that descriptors 0 to 2 are open, so that no file that we open later becomes stdout, and that a
 * closed pipe is an error of write(). */
void cli_keep_standard_streams(void);

/* Says on a terminal, on stderr, what is being done: one line without a name from outside. It goes before
 * anything else is written, or with cli_progress_end(). */
void cli_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));
void cli_progress_end(void);

/* Writes a text to stdout. Returns the exit code, after an error line on stderr where it fails. */
int cli_print(const char *verb, const struct gt_buf *text);

/* Writes a file, whole or not at all, with the permissions that the umask leaves; "-": the text is printed.
 */
int cli_write_file(struct cli_call *call, const char *path, const char *text);

/*
 * Reads the options of the verb into the struct that begins with `parse`. True: go on. False: *ret_exit is
 * the exit code, after the help or the line about wrong usage was written. *ret_first is the index of the
 * first argument that is no option.
 */
bool cli_parse_options(const struct gt_command *command, int argc, char **argv, struct cli_parse *parse,
                       int *ret_first, int *ret_exit);

#define CLI_HELP_OPTION                                                                                      \
    {                                                                                                        \
        "help", NULL, "print this help", gt_option_last, GT_OPTION_FIELD(struct cli_parse, help)             \
    }

/* -o: these are formats of every verb, its own follow. */
enum { CLI_TEXT, CLI_JSON, CLI_YAML, CLI_FORMATS };
#define CLI_FORMAT_WORDS "text", "json", "yaml"
extern const char *const cli_formats[];
/* As gt_option_word(); "table" and "matrix" are names that "text" had. */
int cli_read_format(const struct gt_option *option, const char *value, void *field, struct gt_err **err);
#define CLI_OWN_FORMAT_OPTION(help, list)                                                                    \
    {                                                                                                        \
        "output", "FORMAT", (help), cli_read_format, GT_OPTION_FIELD(struct cli_parse, format),              \
            .words = (list), .letter = 'o'                                                                   \
    }
#define CLI_FORMAT_OPTION CLI_OWN_FORMAT_OPTION("text (default), json or yaml", cli_formats)

/* --watch: what the verb writes is printed whenever it is another; a terminal is cleared before. Only the
 * first failure ends it; a later one is told. */
#define CLI_WATCH_OPTION                                                                                     \
    {                                                                                                        \
        "watch", NULL,                                                                                       \
            "look again every two seconds and print the text where it has changed, until interrupted",       \
            gt_option_set, GT_OPTION_FIELD(struct cli_parse, watch)                                          \
    }

/* Where a node comes from, source.c. */
struct cli_source {
    const char *from, *root, *probe; /* NULL: not given */
    unsigned vendor;                 /* 0: not given; then MetaX, or the vendor of the recording */
};

/* The options of a source; `type` has a field `source`. */
#define CLI_LIVE_SOURCE_OPTIONS(type)                                                                        \
    {"root", "DIR", "read sys/, proc/ and opt/ below DIR", gt_option_any_text,                               \
     GT_OPTION_FIELD(type, source.root)},                                                                    \
        {"vendor", "ID",                                                                                     \
         "PCI vendor id of the GPUs, hexadecimal (default: 9999, MetaX, or that of the recording)",          \
         gt_option_vendor, GT_OPTION_FIELD(type, source.vendor)},                                            \
    {                                                                                                        \
        "probe", "PROGRAM|SOCKET|none",                                                                      \
            "how the vendor library is asked (default: the gputopo-probe beside this program, if it is "     \
            "there)",                                                                                        \
            gt_option_any_text, GT_OPTION_FIELD(type, source.probe)                                          \
    }
#define CLI_SOURCE_OPTIONS(type)                                                                             \
    {"from", "FILE",                                                                                         \
     "read FILE (-: standard input) instead of this machine: a recording, the JSON of a node, an hwloc "     \
     "XML file, the text of mx-smi topo -m, or a directory with a recorded sysfs tree",                      \
     gt_option_any_text, GT_OPTION_FIELD(type, source.from)},                                                \
        CLI_LIVE_SOURCE_OPTIONS(type)

/* Scans as the options say, or refuses their combination. The caller frees *ret and *ret_raw; ret_raw may be
 * NULL. */
int cli_source_scan(struct cli_call *call, const struct cli_source *source, struct gt_node **ret,
                    struct gt_raw *ret_raw);

/* Makes the error -ENODEV: where no GPUs were found, and the first thing that could not be read. */
int cli_source_no_gpus(const struct cli_source *source, const struct gt_node *node, struct gt_err **err);

/* Reads a list of GPUs, gpulist.c: indices and ranges ("0,5-7"), UUIDs, device IDs and BDFs, separated by
 * commas. *ret is their mask. -EINVAL where one is unknown. */
int cli_gpu_list(const struct gt_node *node, const char *text, uint64_t *ret, struct gt_err **err);

/*
 * Asks one of our own daemons over plain HTTP: "GET path" at "ADDRESS:PORT" ("127.0.0.1:9400", "[::1]:9400",
 * "localhost:9400", a name). The body of an answer with status 200 is appended to `body`, up to its limit;
 * another status is -EBADMSG, with the first line of its body. -ETIMEDOUT where connecting and reading
 * together take longer than `timeout_ms`.
 */
int cli_http_get(const char *address, const char *path, unsigned timeout_ms, struct gt_buf *body,
                 struct gt_err **err);
