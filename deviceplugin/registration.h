/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/mailbox.h"
#include "deviceplugin/kubelet_dir.h"
#include "deviceplugin/podresources_call.h"
#include "deviceplugin/rpc.h"

/*
 * Registers the plugin, and again when needed. One attempt: end the earlier server, serve on a socket with a
 * new name, call Register, wait until the kubelet opens ListAndWatch. A new attempt is made
 *   - at once, when kubelet.sock is another one (the kubelet was restarted), when our own socket is gone, or
 *     when ListAndWatch ends for the first time in a while;
 *   - after a pause that doubles from 100 ms to 30 s, with jitter, when anything fails or ends early.
 * Without kubelet.sock it waits for it. An attempt fails if another plugin serves the resource already: the
 * kubelet has healthy devices of it, and another socket in the directory lists one of them (other_plugins.h).
 * While registered it checks every half minute whether the kubelet still has our devices: if the kubelet gave
 * the resource to another plugin, and that one ended, it has no devices and does not report it. All on the
 * loop's thread.
 */
struct gt_registration;
struct gt_device_uses; /* deviceplugin/podresources.h */

struct gt_registration_options {
    const char *kubelet_dir, *resource;
    bool prefers;                 /* the plugin answers GetPreferredAllocation */
    unsigned register_timeout_ms; /* 0: 20 s; the kubelet connects back during Register and takes up to 10 s
                                     for that */
    unsigned stream_timeout_ms;   /* 0: 10 s; ListAndWatch must come within this time after Register */
    unsigned check_ms;            /* 0: 30 s; how often the kubelet is asked for our devices */
    /* Returns whether a device that we serve as healthy is missing in what the kubelet offers; `arg` is that
     * of the service. */
    bool (*lacks)(void *arg, const struct gt_device_uses *offered);
};

struct gt_registration_events { /* any may be NULL */
    void (*registered)(void *arg);
    void (*failed)(void *arg, const char *why, unsigned retry_ms);
    void (*stream_ended)(void *arg);
    void *arg;
};

/* The plugin is `service`: its methods, `unknown` and `arg`. Texts are borrowed. */
int gt_registration_new(struct gt_loop *loop, const struct gt_rpc_service *service,
                        const struct gt_registration_options *options,
                        const struct gt_registration_events *events, struct gt_registration **ret,
                        struct gt_err **err);

/* Begins; call it when there is something to serve. Further calls do nothing. */
void gt_registration_start(struct gt_registration *registration);

/* The list that is served has changed. */
void gt_registration_changed(struct gt_registration *registration);

struct gt_registration_stats {
    bool registered, streaming; /* streaming: the kubelet's ListAndWatch is open */
    uint64_t registrations, registration_failures;
};
void gt_registration_stats(const struct gt_registration *registration, struct gt_registration_stats *ret);

/* For messages to the loop's thread, until the registration is freed. */
struct gt_mailbox *gt_registration_mailbox(const struct gt_registration *registration);
/* As gt_rpc_busy_ms(). */
uint64_t gt_registration_busy_ms(const struct gt_registration *registration);

/* Ends the server; no handler runs afterwards. */
void gt_registration_free(struct gt_registration *registration);
GT_DEFINE_CLEANUP(struct gt_registration *, gt_registration_free)

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

/* Queries who serves these devices; takes over what `answer` holds. The result comes once, perhaps before
 * this returns. It cancels an earlier query. */
void gt_other_plugins_query(struct gt_other_plugins *others, struct gt_pod_answer *answer);
/* Ends a query without a result. */
void gt_other_plugins_cancel(struct gt_other_plugins *others);

/* Whether the socket of the last result is still the same one. */
bool gt_other_plugins_unchanged(const struct gt_other_plugins *others);

/* Messages that are still in the mailbox must not be delivered afterwards. */
void gt_other_plugins_free(struct gt_other_plugins *others);
