/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_PAIR_H
#define GPUTOPO_API_PAIR_H

struct gt_pair { /* a label or annotation */
    const char *key, *value;
};

#endif
