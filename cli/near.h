/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_NEAR_H
#define GPUTOPO_CLI_NEAR_H

#include "base/buf.h"
#include "base/text.h"

/* For a message about an unknown name: collects the few existing names that are nearest to it by edit
 * distance. */
enum { CLI_NEAR_KEPT = 3, CLI_NEAR_NAME = GT_TEXT_DISTANCE_MAX + 1 };

struct cli_near {
    char wanted[CLI_NEAR_NAME];
    struct {
        char name[CLI_NEAR_NAME];
        unsigned distance;
    } kept[CLI_NEAR_KEPT]; /* nearest first */
    unsigned kept_count, seen;
};

void cli_near_init(struct cli_near *near, const char *wanted);
void cli_near_add(struct cli_near *near, const char *name);

/* "near are n1 and n2, of 40" or "there are 40, for example n1"; "there is none". */
void cli_near_text(const struct cli_near *near, struct gt_buf *to);

#endif
