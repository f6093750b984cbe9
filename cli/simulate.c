/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

/* The verb simulate: the simulator is a separate program, which is not in the packages for nodes. */

static const char program[] = "gputopo-simulate";

static int simulate_run(const struct cli_verb *verb, int argc, char **argv)
{
    char beside[PATH_MAX];
    gt_auto_err struct gt_err *err = NULL;
    (void)argc;
    bool found = gt_file_beside_program(program, beside, sizeof(beside));
    execvp(found ? beside : program, argv);
    if (errno == ENOENT)
        gt_fail(&err, ENOENT, "there is no %s beside this program or on PATH; it has a package of its own",
                program);
    else
        gt_fail_sys(&err, errno, "%s", beside[0] ? beside : program);
    return cli_failed(verb->name, err);
}

const struct cli_verb cli_simulate = {"simulate", simulate_run,
                                      "play jobs through a cluster in simulated time"};
