/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PROBE_NO_NETWORK_H
#define GPUTOPO_PROBE_NO_NETWORK_H

#include "base/err.h"

/* From now on this process and those that it starts make unix sockets only, for good; and no new privileges.
 * It takes no capability, unlike a network namespace. -ENOTSUP on processors that it does not know. */
int gt_no_network(struct gt_err **err);

#endif
