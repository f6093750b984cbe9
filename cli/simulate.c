/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"

/* The verb simulate: the simulator is a program of its own, which the packages for a node do not carry. */

static const char program[] = "gputopo-simulate";

/* The one in the directory of this very program; "" where there is none. */
static void find_beside(char *to, size_t size)
{
    ssize_t len = readlink("/proc/self/exe", to, size - sizeof(program));
    char *slash = len > 0 ? memrchr(to, '/', (size_t)len) : NULL;
    if (slash)
        memcpy(slash + 1, program, sizeof(program));
    if (!slash || access(to, X_OK) < 0)
        to[0] = '\0';
}

static int run(const struct cli_verb *verb, int argc, char **argv)
{
    char beside[PATH_MAX];
    gt_auto_err struct gt_err *err = NULL;
    (void)argc;
    find_beside(beside, sizeof(beside));
    execvp(beside[0] ? beside : program, argv);
    if (errno == ENOENT)
        gt_fail(&err, ENOENT, "there is no %s beside this program or on PATH; it has a package of its own",
                program);
    else
        gt_fail_sys(&err, errno, "%s", beside[0] ? beside : program);
    return cli_failed(verb->name, err);
}

const struct cli_verb cli_simulate = {"simulate", run};
