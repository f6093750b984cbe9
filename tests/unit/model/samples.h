/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/model/node.h"

/* Finished nodes made by hand, for the tests of the model and for looking at pictures. */
extern const char *const sample_names[]; /* NULL-terminated */

/* NULL for an unknown name. */
struct gt_node *sample_node(const char *name);
