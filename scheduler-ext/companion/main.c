/* SPDX-License-Identifier: Apache-2.0 */
#include <malloc.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/version.h"
#include "scheduler-ext/companion/companion.h"

enum { EXIT_FAILED = 1, EXIT_USAGE_WRONG = 2 };

/* What a list of many objects has used goes back. */
static void keep_small(void)
{
    mallopt(M_ARENA_MAX, 1);
    mallopt(M_MMAP_THRESHOLD, 128 << 10);
    mallopt(M_TRIM_THRESHOLD, 128 << 10);
}

static int complain(const struct gt_err *err, int code)
{
    fprintf(stderr, "gputopo-scheduler: %s\n", gt_err_text(err));
    return code;
}

static int print(const char *text)
{
    return fputs(text, stdout) < 0 || fflush(stdout) != 0 ? EXIT_FAILED : 0;
}

static int run(const struct gt_companion_options *options)
{
    gt_auto_err struct gt_err *err = NULL;
    if (options->help) {
        gt_auto_buf struct gt_buf text = GT_BUF(16 << 10);
        gt_companion_options_help(&text);
        return print(text.data ? text.data : "");
    }
    if (options->version) {
        printf("gputopo-scheduler %s (%s)\n", gt_version, gt_commit);
        return fflush(stdout) != 0 ? EXIT_FAILED : 0;
    }
    gt_log_setup(options->log_level, options->log_format);
    return gt_companion_run(options, &err) < 0 ? complain(err, EXIT_FAILED) : 0;
}

int main(int argc, char **argv)
{
    struct gt_companion_options options;
    gt_auto_err struct gt_err *err = NULL;
    keep_small();
    if (gt_companion_options_read(argc, argv, &options, &err) < 0)
        return complain(err, EXIT_USAGE_WRONG);
    int code = run(&options);
    gt_companion_options_done(&options);
    return code;
}
