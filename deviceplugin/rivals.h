/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_RIVALS_H
#define GPUTOPO_DEVICEPLUGIN_RIVALS_H

#include "base/mailbox.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/podresources_call.h"

/*
 * Whether another plugin serves what the kubelet offers of a resource. The kubelet's word is not enough:
 * after a Register that failed it offers devices that nobody serves any more. So each other socket of the
 * directory is asked itself, by ListAndWatch: who lists one of the devices serves them. Who does not answer
 * within GT_RIVALS_MS, or lists other devices, does not.
 *
 * A plugin may keep each stream that was ever opened, and tell only one of them what changes: a socket that
 * has answered is not asked again while it and the offer stay what they are. All on the loop's thread.
 */
struct gt_rivals;

enum { GT_RIVALS_MS = 2000 };

/* `name` is the other's socket and `count` how many of the devices it lists; NULL: nobody serves them. */
typedef void gt_rivals_told(void *arg, const char *name, unsigned count);

int gt_rivals_new(struct gt_rpc *rpc, struct gt_mailbox *mailbox, const struct gt_kubelet_dir *dir,
                  gt_rivals_told *told, void *arg, struct gt_rivals **ret, struct gt_err **err);

/* Asks who serves these devices; takes over what `offer` holds. The answer comes once, perhaps before this
 * returns; one that was asked for before comes no more. */
void gt_rivals_ask(struct gt_rivals *rivals, struct gt_pod_answer *offer);
/* No answer is wanted any more. */
void gt_rivals_cancel(struct gt_rivals *rivals);

/* Whether the socket that was told last is still the same one. */
bool gt_rivals_there(const struct gt_rivals *rivals);

/* Letters still in the mailbox must not be delivered afterwards. */
void gt_rivals_free(struct gt_rivals *rivals);

#endif
