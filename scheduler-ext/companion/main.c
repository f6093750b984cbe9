/* SPDX-License-Identifier: Apache-2.0 */
#include "api/names.h"
#include "base/options.h"
#include "base/process.h"
#include "scheduler-ext/companion/companion.h"
#include "scheduler-ext/owners/kinds_file.h"

static const char program[] = GT_COMPANION_NAME;

/* The endpoints use at most a quarter of the file descriptors for connections. */
enum { COMPANION_DESCRIPTORS = 128 };

static int companion_main_run(const void *arg, struct gt_err **err)
{
    const struct gt_companion_options *options = arg;
    GT_TRY(options->kinds ? gt_kinds_file_read(options->kinds, err) : 0);
    return gt_companion_run(options, err);
}

int main(int argc, char **argv)
{
    static struct gt_companion_options options;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_companion_options_read(argc, argv, &options, &err) < 0)
        return gt_exit_with(program, err, GT_EXIT_USAGE);
    if (options.help) {
        gt_auto_buf struct gt_buf text = GT_BUF(16 << 10);
        gt_companion_options_help(&text);
        return gt_exit_with_text(program, &text);
    }
    if (options.version)
        return gt_exit_with_version(program);
    gt_log_setup(options.log_level, options.log_format);
    return gt_process_run(program, COMPANION_DESCRIPTORS, companion_main_run, &options);
}
