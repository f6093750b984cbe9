/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "topology/probe/answers_log.h"

/* The parts of the reader of answers.h; only answers*.c include this. */

/* Larger values of a link are ignored: GT/s of a lane, lanes. */
enum { GT_LINK_SPEED_MAX = 256, GT_LINK_WIDTH_MAX = 64 };

/* A log whose answers are being added to a node. */
struct gt_reading {
    const struct gt_answers *answers;
    struct gt_node *node;
    int gpu_of[GT_VENDOR_DEVICES]; /* vendor number -> index in the node, -1 */
    unsigned unmatched;
};

/* The node's GPU that an answer's first argument names; NULL if it is not known. */
struct gt_gpu *gt_reading_gpu(const struct gt_reading *reading, const struct gt_answer *answer);

void gt_read_identities(struct gt_reading *reading);
void gt_read_devices(struct gt_reading *reading);
/* Evidence about health: what is reported, and devices that do not answer. */
void gt_read_health(struct gt_reading *reading);
void gt_read_silence(struct gt_reading *reading);
void gt_read_links(struct gt_reading *reading);
void gt_read_failures(struct gt_reading *reading);
