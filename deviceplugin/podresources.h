/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_PODRESOURCES_H
#define GPUTOPO_DEVICEPLUGIN_PODRESOURCES_H

#include "base/loop.h"
#include "deviceplugin/plugin.h"

/*
 * The kubelet's list of which container holds which device: its pod-resources API v1, on
 * <kubelet_dir>/pod-resources/ kubelet.sock. The client, and when it may call:
 *   - every `poll_ms` while nothing happens; after every second one also what it has to offer, where that is
 *     wanted;
 *   - `settle_quiet_ms` after the last handler of our own plugin has ended, where gt_podresources_soon() asks
 *     for it. Never while one runs: until the kubelet has written down what it is about to give, a List can
 *     make it forget the devices, and they may be given twice (kubernetes/kubernetes issue 137534). One that
 *     is already with the kubelet when a handler begins cannot be called back;
 *   - after an error with a pause that doubles from 1 s to 30 s, with jitter. The kubelet allows 100 requests
 * a second to all its clients together: where it refuses one for that, the pause begins at 5 s, doubles to 60
 * s, and nobody shortens it. A connection is made for each call. Large answers are unpacked on the loop's
 * thread, with a limit, and never on the one that answers Allocate.
 */
struct gt_podresources;

/* A device that a container holds. */
struct gt_holder {
    const char *namespace, *pod, *container;
    const char *id;                      /* of a claim: the device's name in the driver's pool */
    const char *claim, *claim_namespace; /* by which it is held; NULL: by the device plugin */
};

enum { GT_HOLDERS_MAX = 4096 };

struct gt_holdings {
    const struct gt_holder *holders; /* in the kubelet's order, which means nothing */
    unsigned count;
    unsigned pods;   /* all that the kubelet listed, also those without such devices */
    unsigned others; /* devices of gt_podresources_options.other that containers hold */
    /* The kubelet has started less than GT_PODRESOURCES_SETTLE_MS ago: for about a second it answers an empty
     * list before it has read its checkpoint, so that a device that is missing here may well be in use. It
     * will be asked again every second until this is over. */
    bool settling;
};

enum { GT_PODRESOURCES_SETTLE_MS = 10000 };

struct gt_podresources_events { /* on the loop's thread; none may free the client */
    void (*listed)(void *arg, const struct gt_holdings *holdings);
    /* Nothing new is known; `why` is one line. */
    void (*failed)(void *arg, const char *why, unsigned retry_ms);
    /* After `listed`, where an `other` resource is asked about: healthy devices of it that the kubelet has,
     * whoever serves them; -1: it does not say. */
    void (*offered)(void *arg, int others);
    void *arg;
};

struct gt_podresources_options {
    const char *kubelet_dir, *resource; /* only this resource's devices are reported */
    const char *other;                  /* devices of this one are counted; NULL: none are */
    const char *driver;                 /* devices of claims of this one are reported, too; NULL: none */
    struct gt_plugin *plugin;           /* whose handlers must not run meanwhile; NULL: none of ours do */
    unsigned poll_ms;                   /* 0: 5 s */
    unsigned settle_quiet_ms;           /* 0: 300 ms */
    unsigned timeout_ms;                /* 0: 10 s; of one call */
};

struct gt_podresources_stats {
    uint64_t done, failed, limited; /* Lists by result; limited: RESOURCE_EXHAUSTED */
    double last_s;                  /* Unix time of the last one that was done, 0: none */
};

/* Asks for the first time at once. gRPC is begun with the first call, so an absent socket costs nothing. Free
 * it before the plugin and the loop. */
int gt_podresources_new(struct gt_loop *loop, const struct gt_podresources_options *options,
                        const struct gt_podresources_events *events, struct gt_podresources **ret,
                        struct gt_err **err);

/* Something was allocated, or the kubelet has just taken us in: ask soon. Calls in a row become one. */
void gt_podresources_soon(struct gt_podresources *client);

/* The kubelet seems to have restarted: its answers settle again. A new socket is noticed without this. */
void gt_podresources_restarted(struct gt_podresources *client);

void gt_podresources_stats(const struct gt_podresources *client, struct gt_podresources_stats *ret);

void gt_podresources_free(struct gt_podresources *client);
GT_DEFINE_CLEANUP(struct gt_podresources *, gt_podresources_free)
#define gt_auto_podresources GT_CLEANUP(gt_podresources_free)

#endif
