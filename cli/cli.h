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

/* A verb: its file defines one of these. `run` gets the verb's own arguments from argv[1] on, and returns the
 * exit code. */
struct cli_verb {
    const char *name;
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
    const char *about; /* one line for --help */
};

extern const struct cli_verb cli_show, cli_record, cli_loss, cli_plan, cli_simulate, cli_try, cli_cluster,
    cli_supernodes, cli_explain, cli_isolate, cli_release, cli_isolated, cli_drain, cli_withdraw,
    cli_check_node, cli_apply_crds, cli_bundle, cli_replay;

/* The verbs of this program, in the order of --help, up to NULL: verbs.c, or verbs_client.c in the client
 * alone. */
extern const struct cli_verb *const cli_verbs[];

/* The program as the user calls it: "gputopo", or "kubectl gputopo" as a plugin. */
extern const char *cli_program;

/* Messages, message.c. Each writes exactly one line to stderr, also where the text has line breaks, and
 * returns the exit code. */
int cli_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_failed(const char *verb, const struct gt_err *err);
/* The same for an invalid part of the input that is left out while the rest is processed. */
void cli_warn(const char *verb, const char *text);

/* Output, message.c. */

/* Makes sure that descriptors 0 to 2 are open, so that no file that we open later becomes stdout. */
void cli_keep_standard_streams(void);

/* Writes the buffer to stdout. Returns the exit code, after an error line on stderr where it fails. */
int cli_print(const char *verb, const struct gt_buf *text);

/* Writes a file, whole or not at all, with the permissions that the umask leaves; "-" is stdout. Returns the
 * exit code, after an error line on stderr where it fails. */
int cli_write_file(const char *verb, const char *path, const char *text);

/* Options, options.c. */

/* The first member of each verb's struct of options. */
struct cli_parse {
    const char *verb;
    bool help;
};

/*
 * Reads the options of the verb into the struct that begins with `parse`. True: go on. False: *ret_exit is
 * the exit code, after the help or the line about wrong usage was written. *ret_first is the index of the
 * first argument that is no option; NULL where the verb takes none.
 */
bool cli_parse_options(const struct gt_command *command, int argc, char **argv, struct cli_parse *parse,
                       int *ret_first, int *ret_exit);

/* Prints it. Returns the exit code. */
int cli_print_help(const struct gt_command *command, const char *verb);

#define CLI_HELP_OPTION                                                                                      \
    {                                                                                                        \
        "help", NULL, "print this help", gt_option_last, GT_OPTION_FIELD(struct cli_parse, help)             \
    }

/* -o: these are formats of every verb, its own follow; `type` has a field `format`. */
enum { CLI_TEXT, CLI_JSON, CLI_YAML, CLI_FORMATS };
#define CLI_FORMAT_WORDS "text", "json", "yaml"
extern const char *const cli_formats[];
#define CLI_FORMAT_OPTION(type)                                                                              \
    {                                                                                                        \
        "output", "FORMAT", "text (default), json or yaml", gt_option_word, GT_OPTION_FIELD(type, format),   \
            .words = cli_formats, .letter = 'o'                                                              \
    }

/* Prints the text; for CLI_YAML it is JSON, and printed as YAML. Returns the exit code. */
int cli_print_as(const char *verb, unsigned format, const struct gt_buf *text);

/* --watch: `look` writes what is to be seen, which is printed whenever it is another; a terminal is
 * cleared before. Returns the exit code if `look` fails the first time; a later failure is told. */
#define CLI_WATCH_OPTION(type)                                                                               \
    {                                                                                                        \
        "watch", NULL, "look again every two seconds and print what has changed, until interrupted",         \
            gt_option_set, GT_OPTION_FIELD(type, watch)                                                      \
    }
typedef int cli_look(void *arg, struct gt_buf *to, struct gt_err **err);
int cli_watch(const char *verb, cli_look *look, void *arg);

/* Where a node comes from, source.c. */
struct cli_source {
    const char *verb;
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

/* Whether the options may be combined; where not, false after an error line on stderr. */
bool cli_source_check(const struct cli_source *source);

/* Scans as the options say. The caller frees *ret and *ret_raw; ret_raw may be NULL. */
int cli_source_scan(const struct cli_source *source, struct gt_node **ret, struct gt_raw *ret_raw,
                    struct gt_err **err);

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
