/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_VENDOR_DIGEST_H
#define GPUTOPO_AGENT_VENDOR_DIGEST_H

#include "topology/model/node.h"

/*
 * What a vendor call log says about health, identity, wiring and supernode of the GPUs of `node`, as one
 * number, without what changes all the time (temperatures, counters, reasons). Equal numbers: a whole scan
 * would find nothing new in the library. -EINVAL for a log that is not one.
 */
int gt_vendor_digest(const char *log, const struct gt_node *node, uint64_t *ret, struct gt_err **err);

#endif
