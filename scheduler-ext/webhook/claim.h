/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_WEBHOOK_CLAIM_H
#define GPUTOPO_WEBHOOK_CLAIM_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "base/buf.h"

/* Adds the operations that turn a new pod's limits of `resource` into one claim (api/pod_claim.h). True: the
 * pod has its GPUs by a claim then, or had so before. False, and nothing is added: it asks for more than a
 * claim may have. */
bool gt_webhook_add_claim(const cJSON *spec, const char *resource, struct gt_buf *to);

#endif
