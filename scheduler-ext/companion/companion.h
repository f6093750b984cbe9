/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/options.h"

/* Runs the daemon on the calling thread until a signal ends it. An error means that it could not start. */
int gt_companion_run(const struct gt_companion_options *options, struct gt_err **err);
