/* SPDX-License-Identifier: Apache-2.0 */
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "base/file.h"
#include "cli/cli.h"

void cli_keep_standard_streams(void)
{
    /* The lowest free descriptor is used for each open. A closed stdout is replaced by one that cannot be
     * written, so that the loss of the output is still noticed. */
    for (int fd = 0; fd <= 2; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd == 2 ? O_WRONLY : O_RDONLY) < 0)
            _exit(CLI_FAILED);
}

int cli_print(const char *verb, const struct gt_buf *text)
{
    char program[64];
    snprintf(program, sizeof(program), "gputopo%s%s", verb ? ": " : "", verb ? verb : "");
    return gt_exit_with_text(program, text);
}

int cli_write_file(const char *verb, const char *path, const char *text)
{
    if (strcmp(path, "-") == 0) {
        gt_auto_buf struct gt_buf buf = GT_BUF(CLI_OUTPUT_MAX);
        gt_buf_puts(&buf, text);
        return cli_print(verb, &buf);
    }
    mode_t mask = umask(0);
    umask(mask);
    gt_auto_err struct gt_err *err = NULL;
    if (gt_file_write_durable(path, text, strlen(text), 0666 & ~mask, &err) < 0)
        return cli_failed(verb, err);
    return CLI_DONE;
}
