/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_CLI_H
#define GPUTOPO_CLI_CLI_H

#include <argp.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "topology/discovery/discovery.h"

/* What the verbs of gputopo share. */

/* Exit codes, a contract (docs/reference/cli.md). */
enum { CLI_DONE = 0, CLI_FAILED = 1, CLI_USAGE = 2 };

enum { CLI_OUTPUT_MAX = 64 << 20 }; /* most bytes of one output */

/* A verb: its file defines one of these. `run` gets the verb's own arguments with argv[0] = "gputopo: VERB",
 * which is how getopt begins a message, and returns the exit code. */
struct cli_verb {
    const char *name;
    int (*run)(const struct cli_verb *verb, int argc, char **argv);
};

extern const struct cli_verb cli_show, cli_record, cli_loss, cli_plan, cli_simulate, cli_cluster,
    cli_supernodes, cli_explain, cli_withdraw, cli_check_node;

/* The program as the user calls it: "gputopo", or "kubectl gputopo" as a plugin. */
extern const char *cli_program;

/* Messages, message.c. Each writes one line on stderr, whatever the text holds, and returns the exit code. */
int cli_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));
int cli_failed(const char *verb, const struct gt_err *err);
/* The same for something that makes no sense while the rest is done. */
void cli_warn(const char *verb, const char *text);

/* Output, output.c. */

/* Makes sure that descriptors 0 to 2 are taken, so that no file we open becomes stdout. */
void cli_keep_standard_streams(void);

/* Writes the buffer to stdout and closes the matter: the exit code, with the line for stderr said. */
int cli_print(const char *verb, const struct gt_buf *text);

/* Writes a file, whole or not at all, with the permissions that the umask leaves; "-" is stdout. The exit
 * code, with the line for stderr said. */
int cli_write_file(const char *verb, const char *path, const char *text);

/* Options, options.c. Parsing prints the one line of a wrong usage itself. */

/* What an argp parser of a verb has as its input; a verb's own struct begins with it. */
struct cli_parse {
    const char *verb;
    bool help;
};

/*
 * Parses with `argp`, whose input is `parse`. True: go on. False: *ret_exit is the exit code, after the help
 * or the line about wrong usage was written.
 */
bool cli_parse_options(const struct argp *argp, int argc, char **argv, struct cli_parse *parse,
                       int *ret_exit);

/* What a verb's parser does with keys that are not its own: --help, and arguments that no verb has. */
error_t cli_parse_rest(int key, char *arg, struct argp_state *state);

/* What a verb's parser does with an argument; each says the line of a wrong one and returns EINVAL then.
 * `option` is how the message names the option, "-o". */

/* "OPTION: expected WHAT, is 'ARG'" */
error_t cli_refuse(const struct cli_parse *parse, const char *option, const char *what, const char *arg);

/* One of `words`, a list that ends with NULL: its place in the list. */
error_t cli_parse_word(const struct cli_parse *parse, const char *option, const char *const *words,
                       const char *arg, unsigned *ret);

/* A decimal number from min to max. */
error_t cli_parse_number(const struct cli_parse *parse, const char *option, const char *what, uint64_t min,
                         uint64_t max, const char *arg, uint64_t *ret);

enum {
    CLI_KEY_HELP = 0x100,
    CLI_KEY_FROM,
    CLI_KEY_ROOT,
    CLI_KEY_VENDOR,
    CLI_KEY_PROBE,
    CLI_KEY_FREE,
    CLI_KEY_KUBECONFIG,
    CLI_KEY_CONTEXT,
    CLI_KEY_OWN, /* keys of one verb begin here */
};

/* The options that every verb has, the end of its list. */
#define CLI_LAST_OPTIONS                                                                                     \
    {.name = "help", .key = CLI_KEY_HELP, .doc = "print this help", .group = -1},                            \
    {                                                                                                        \
        0                                                                                                    \
    }

/* Where a node comes from, source.c. */
struct cli_source {
    const char *verb;
    const char *from, *root, *probe; /* NULL: not given */
    unsigned vendor;                 /* 0: not given, that is MetaX, or what the recording was made for */
};

/* Child parsers with a struct cli_source as input: --root, --vendor, --probe; and the same with --from. */
extern const struct argp cli_live_source_argp, cli_source_argp;

/* Whether the options go together; false after the line on stderr. */
bool cli_source_check(const struct cli_source *source);

/* Scans as the options say. ret_raw may be NULL. */
int cli_source_scan(const struct cli_source *source, struct gt_node **ret, struct gt_raw *ret_raw,
                    struct gt_err **err);

/* -ENODEV with the line that says where no GPUs were found, and the first thing that could not be read. */
int cli_source_no_gpus(const struct cli_source *source, const struct gt_node *node, struct gt_err **err);

/* A list of GPUs, gpulist.c: indices and ranges ("0,5-7"), UUIDs, device IDs and BDFs, separated by commas.
 */
int cli_gpu_list(const struct gt_node *node, const char *text, uint64_t *ret, struct gt_err **err);

#endif
