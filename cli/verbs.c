/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

const struct cli_verb *const cli_verbs[] = {
    &cli_show,       &cli_record,  &cli_loss,     &cli_plan,       &cli_simulate, &cli_try,   &cli_cluster,
    &cli_supernodes, &cli_explain, &cli_isolate,  &cli_release,    &cli_isolated, &cli_drain, &cli_check_node,
    &cli_bundle,     &cli_replay,  &cli_withdraw, &cli_apply_crds, NULL};
