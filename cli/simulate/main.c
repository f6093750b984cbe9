/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate.h"

/* The program behind the verb: gputopo runs it, and its messages begin with "gputopo simulate". */
const char *cli_program = "gputopo";

int main(int argc, char **argv)
{
    return cli_simulate_main(argc, argv, gt_group_policies);
}
