/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"

/*
 * The client of the kubelet's pod-resources API v1, on <kubelet_dir>/pod-resources/kubelet.sock: the list of
 * which container holds which device. It calls
 *   - every `poll_ms` while nothing happens; after every second List it also asks for the devices that the
 *     kubelet offers, if `other` is set;
 *   - `settle_quiet_ms` after the last handler of our own plugin has ended, if gt_podresources_soon() was
 *     called. Never while a handler runs: until the kubelet has stored the allocation, a List can make it
 *     forget the devices, and they may be given twice (kubernetes/kubernetes issue 137534). A List that was
 *     sent before a handler begins cannot be stopped;
 *   - after an error with a pause that doubles from 1 s to 30 s, with jitter. The kubelet allows 100 requests
 *     a second to all its clients together: if it refuses one because of that limit, the pause begins at
 *     5 s, doubles up to 60 s, and gt_podresources_soon() does not shorten it.
 * A connection is made for each call. Large answers are unpacked on the loop's thread, with a limit, and
 * never on the thread that answers Allocate.
 */
struct gt_podresources;
struct gt_plugin;

/* A device that a container holds. */
struct gt_device_user {
    const char *namespace, *pod, *container;
    const char *id;                      /* for a claim: the device's name in the driver's pool */
    const char *claim, *claim_namespace; /* the claim that holds it; NULL: the device plugin does */
};

enum { GT_DEVICE_USERS_MAX = 4096 };

struct gt_device_uses {
    const struct gt_device_user *users; /* in the kubelet's order, which has no meaning */
    unsigned count;
    unsigned others; /* devices of gt_podresources_options.other that containers hold */
    /* The kubelet has started less than GT_PODRESOURCES_SETTLE_MS ago: for about a second, until it has read
     * its checkpoint, its list is empty, so a device that is missing here may be in use. It is asked again
     * every second until that time is over. */
    bool settling;
};

enum { GT_PODRESOURCES_SETTLE_MS = 10000 };

struct gt_podresources_events { /* on the loop's thread; none may free the client */
    void (*listed)(void *arg, const struct gt_device_uses *uses);
    /* The call failed; `why` is one line. */
    void (*failed)(void *arg, const char *why, unsigned retry_ms);
    /* Called after `listed` if an `other` resource is set: how many healthy devices of it the kubelet has,
     * from any plugin; -1: it does not say. */
    void (*offered)(void *arg, int others);
    void *arg;
};

struct gt_podresources_options {        /* its texts are borrowed */
    const char *kubelet_dir, *resource; /* only this resource's devices are reported */
    const char *other;                  /* devices of this one are counted; NULL: none are */
    const char *driver;                 /* devices of this driver's claims are reported, too; NULL: none */
    struct gt_plugin *plugin;           /* no List while its handlers run; NULL: there is no plugin of ours */
    unsigned poll_ms;                   /* 0: 5 s */
    unsigned settle_quiet_ms;           /* 0: 300 ms */
    unsigned timeout_ms;                /* 0: 10 s; of one call */
};

struct gt_podresources_stats {
    uint64_t done, failed, limited; /* Lists by result; limited: RESOURCE_EXHAUSTED */
    double last_s;                  /* Unix time of the last one that was done, 0: none */
};

/* The first List is sent at once. gRPC is started with the first call, so a missing socket costs nothing.
 * Free the client before the plugin and the loop. */
int gt_podresources_new(struct gt_loop *loop, const struct gt_podresources_options *options,
                        const struct gt_podresources_events *events, struct gt_podresources **ret,
                        struct gt_err **err);

/* Something was allocated, or the kubelet has just registered the plugin: sends a List soon. Several calls in
 * a row cause one List. */
void gt_podresources_soon(struct gt_podresources *client);

/* The kubelet seems to have restarted: `settling` begins again. A new socket is noticed without this. */
void gt_podresources_restarted(struct gt_podresources *client);

void gt_podresources_stats(const struct gt_podresources *client, struct gt_podresources_stats *ret);

void gt_podresources_free(struct gt_podresources *client);
GT_DEFINE_CLEANUP(struct gt_podresources *, gt_podresources_free)
