/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mailbox.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/podresources_call.h"

/*
 * Whether another plugin serves the devices that the kubelet offers of a resource. The kubelet's answer is
 * not enough: after a Register that failed it offers devices that no plugin serves any more. So each other
 * socket of the directory is queried by ListAndWatch. A plugin that lists one of the devices serves them; one
 * that does not answer within GT_OTHER_PLUGINS_MS, or lists other devices, does not.
 *
 * Some plugins remember each stream that was ever opened, and send changes to only one of them. Therefore a
 * socket that has answered is not queried again until it or the offer changes. All on the loop's thread.
 */
struct gt_other_plugins;

enum { GT_OTHER_PLUGINS_MS = 2000 };

/* `name` is the socket of the other plugin, and `count` says how many of the devices it lists; NULL: nobody
 * serves them. */
typedef void gt_other_plugins_result(void *arg, const char *name, unsigned count);

int gt_other_plugins_new(struct gt_rpc *rpc, struct gt_mailbox *mailbox, const struct gt_kubelet_dir *dir,
                         gt_other_plugins_result *on_result, void *arg, struct gt_other_plugins **ret,
                         struct gt_err **err);

/* Queries who serves these devices; takes over what `offer` holds. The result comes once, perhaps before this
 * returns. It cancels an earlier query. */
void gt_other_plugins_query(struct gt_other_plugins *others, struct gt_pod_answer *offer);
/* Ends a query without a result. */
void gt_other_plugins_cancel(struct gt_other_plugins *others);

/* Whether the socket of the last result is still the same one. */
bool gt_other_plugins_unchanged(const struct gt_other_plugins *others);

/* Messages that are still in the mailbox must not be delivered afterwards. */
void gt_other_plugins_free(struct gt_other_plugins *others);
