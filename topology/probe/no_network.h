/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/err.h"

/* From now on this process, and all that it starts, can make unix sockets only and gain no privileges. This
 * cannot be undone. Unlike a network namespace it needs no capability. -ENOTSUP on unknown processors. */
int gt_no_network(struct gt_err **err);
