/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_TOLD_H
#define GPUTOPO_COMPANION_TOLD_H

#include "kube/event.h"

/*
 * What is wrong, told once: each round all troubles of the moment are handed in; those that the round before
 * did not have are logged and become Events about their culprit.
 */
struct gt_news;

enum { GT_TOLD_MAX = 1 << 13 }; /* of a round; more are counted only */

int gt_news_new(struct gt_kube_recorder *recorder, struct gt_news **ret, struct gt_err **err);
void gt_news_free(struct gt_news *told);
GT_DEFINE_CLEANUP(struct gt_news *, gt_news_free)

void gt_news_begin(struct gt_news *told);
/* `event` may be without a name: then there is nothing to put an Event on. */
void gt_news_add(struct gt_news *told, const struct gt_kube_event *event);
void gt_news_end(struct gt_news *told);
/* Forgets what has been told: somebody who begins to lead tells it all. */
void gt_news_forget(struct gt_news *told);

#endif
