/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DOORS_EXPLAIN_WRITE_H
#define GPUTOPO_DOORS_EXPLAIN_WRITE_H

#include "scheduler-ext/doors/nodes_judged.h"

/* The words of an explanation. */
void gt_explain_job_text(const struct gt_window *window, const struct gt_feed_job *job, struct gt_buf *to);
/* `judged` NULL: it has its place. */
void gt_explain_pod_text(const struct gt_window *window, const struct gt_feed_pod *pod,
                         const struct gt_nodes_judged *judged, struct gt_buf *to);
void gt_explain_nodes_text(const struct gt_window *window, const struct gt_feed_pod *pod,
                           const struct gt_nodes_judged *judged, struct gt_buf *to);

#endif
