/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "base/file.h"
#include "cli/cli.h"

/* The verb simulate: the simulator is a separate program, which is not in the packages for nodes. */

static const char program[] = "gputopo-simulate";

static int simulate_run(struct cli_call *call)
{
    char beside[PATH_MAX];
    bool found = gt_file_beside_program(program, beside, sizeof(beside));
    execvp(found ? beside : program, call->args);
    if (errno == ENOENT)
        return gt_fail(call->err, ENOENT,
                       "there is no %s beside this program or on PATH; it has a package of its own", program);
    return gt_fail_sys(call->err, errno, "%s", beside[0] ? beside : program);
}

const struct cli_verb cli_simulate = {
    .name = "simulate", .about = "play jobs through a cluster in simulated time", .run = simulate_run};
