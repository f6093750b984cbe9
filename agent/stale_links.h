/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/*
 * Copies direct links, and the servers reached, from the earlier node `before` into a finished node if its
 * vendor library gives no answer about both GPUs of a link; they are marked stale. Both GPUs must be the same
 * cards at the same BDFs. The node is finished again; *ret_kept says whether anything was copied.
 */
int gt_stale_links_keep(const struct gt_node *before, struct gt_node *node, bool *ret_kept,
                        struct gt_err **err);
