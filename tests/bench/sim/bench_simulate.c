/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/simulate/simulate.h"
#include "tests/bench/sim/peers.h"

/* gputopo simulate with the rules of other schedulers, too: docs/placement-benchmarks.md. */
const char *cli_program = "bench_simulate";

int main(int argc, char **argv)
{
    return cli_simulate_main(argc, argv, peer_policies);
}
