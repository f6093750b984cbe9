/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

struct gt_pair { /* a label or annotation */
    const char *key, *value;
};
