/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "base/err.h"
#include "base/file.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/bundle.h"
#include "cli/cli.h"
#include "scheduler-ext/file/cluster_file.h"

/* Makes the decisions of a bundle again. */

struct replay_options {
    struct cli_parse parse;
    const char *page;
};

static const struct gt_option own_options[] = {
    {"page", "FILE", "write the page with the cluster as it was to FILE, as HTML for a browser",
     gt_option_any_text, GT_OPTION_FIELD(struct replay_options, page)},
    CLI_FORMAT_OPTION,
    CLI_HELP_OPTION,
};

struct replay {
    uint64_t same, otherwise;
    struct gt_buf *text, *json; /* json NULL: not asked for */
};

/* It comes from somebody else's file, and goes to a terminal. */
static void replay_add(struct gt_buf *to, const char *text, size_t len)
{
    gt_auto_free char *shown = strndup(text, len);
    if (shown)
        gt_text_make_printable(shown);
    to->failed |= !shown;
    gt_buf_puts(to, shown ? shown : "");
}

static void replay_add_indented(struct gt_buf *to, const char *title, const char *text)
{
    gt_buf_printf(to, "  %s:\n", title);
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        gt_buf_puts(to, "    ");
        replay_add(to, line, len);
        gt_buf_puts(to, "\n");
        line += len + (line[len] != 0);
    }
}

static void replay_on_decision(void *arg, const struct gt_decision_again *again)
{
    struct replay *replay = arg;
    cli_progress("%" PRIu64 " decisions made again", replay->same + replay->otherwise);
    if (strcmp(again->recorded, again->made) == 0) {
        replay->same++;
        return;
    }
    replay->otherwise++;
    if (replay->json) {
        gt_json_printf(replay->json, "{'number': %" PRIu64 ", 'time': %s, 'job': %s, 'then': %s, 'now': %s}",
                       again->number, again->time, again->job, again->recorded, again->made);
        return;
    }
    gt_buf_printf(replay->text, "decision %" PRIu64 ", ", again->number);
    replay_add(replay->text, again->time, strlen(again->time));
    gt_buf_puts(replay->text, ", ");
    replay_add(replay->text, again->job, strlen(again->job));
    gt_buf_puts(replay->text, ": decided otherwise\n");
    replay_add_indented(replay->text, "then", again->recorded);
    replay_add_indented(replay->text, "now", again->made);
}

static int replay_all(const char *data, size_t len, struct replay *replay, struct gt_err **err)
{
    const struct gt_decision_file decisions = {replay_on_decision, replay};
    struct bundle_file file;
    size_t at = 0;
    bool any = false;
    for (int r; (r = bundle_tar_next(data, len, &at, &file, err));) {
        if (r < 0)
            return r;
        if (!strstr(file.name, BUNDLE_DECISIONS))
            continue;
        any = true;
        GT_TRY(gt_decision_file_run(file.data, file.len, file.name, &decisions, err));
    }
    if (!any)
        return gt_fail(err, ENODATA, "there are no decisions in it, missing.txt in it says why");
    if (replay->json) {
        gt_json_end(replay->json, ']');
        gt_json_printf(replay->json, "'same': %" PRIu64 ", 'otherwise': %" PRIu64 "}", replay->same,
                       replay->otherwise);
        gt_json_indent(replay->json, replay->text);
        return 0;
    }
    gt_buf_printf(replay->text, "%" PRIu64 " decision%s made again, %" PRIu64 " otherwise than then\n",
                  replay->same + replay->otherwise, replay->same + replay->otherwise == 1 ? "" : "s",
                  replay->otherwise);
    return 0;
}

static int replay_run(struct cli_call *call)
{
    const struct replay_options *options = call->options;
    gt_auto_free char *data = NULL;
    size_t len;
    gt_auto_buf struct gt_buf page = GT_BUF(CLI_OUTPUT_MAX), json = GT_BUF(CLI_OUTPUT_MAX);
    struct replay replay = {.text = call->text, .json = options->parse.format == CLI_TEXT ? NULL : &json};
    if (options->page && replay.json)
        return cli_misuse(call, "--page: not together with -o");
    gt_json_printf(&json, "{'decisions': [");
    cli_progress("reading the bundle");
    GT_TRY(gt_file_read(AT_FDCWD, call->args[0], BUNDLE_MAX, &data, &len, call->err));
    GT_TRY_WRAP(options->page ? bundle_page(data, len, &page, call->err)
                              : replay_all(data, len, &replay, call->err),
                call->err, "%s", call->args[0]);
    call->exit_code = replay.otherwise ? CLI_FAILED : CLI_DONE;
    return options->page ? cli_write_file(call, options->page, page.data) : 0;
}

const struct cli_verb cli_replay = {.name = "replay",
                                    .about = "make the decisions of a bundle again",
                                    .command = {.arguments = "FILE",
                                                .about = "Make the decisions of a bundle again, and say "
                                                         "where this version decides otherwise. FILE is the "
                                                         "archive of gputopo bundle.",
                                                .more = "Example: gputopo replay --page page.html bundle.tar",
                                                CLI_OPTIONS(own_options)},
                                    .least_args = 1,
                                    .most_args = 1,
                                    .wanted = "expected one file, that of gputopo bundle",
                                    .options_size = sizeof(struct replay_options),
                                    .run = replay_run};
