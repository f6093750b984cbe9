/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

/* Of the client alone, which reads no machine. */
const struct cli_verb *const cli_verbs[] = {&cli_show,    &cli_loss,       &cli_plan,    &cli_try,
                                            &cli_cluster, &cli_supernodes, &cli_explain, &cli_isolate,
                                            &cli_release, &cli_isolated,   &cli_drain,   &cli_bundle,
                                            &cli_replay,  &cli_withdraw,   NULL};
