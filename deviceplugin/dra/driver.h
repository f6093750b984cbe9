/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_DEVICEPLUGIN_DRA_DRIVER_H
#define GPUTOPO_DEVICEPLUGIN_DRA_DRIVER_H

#include "base/loop.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "deviceplugin/dra/prepare.h"

/*
 * The driver of the kubelet's Dynamic Resource Allocation: gives the containers of a pod the GPUs that were
 * allocated to the pod's claims, and is the last guard against an allocation that contradicts another. Claims
 * are read through a callback. What is prepared is on disk (store.h), so that it is answered the same again
 * after a restart, and a device is held until its claim is unprepared or forgotten. A claim whose device
 * somebody else holds waits a while for its turn, since a pod that was deleted by force leaves the API before
 * the kubelet has ended it. All on the loop's thread.
 */
struct gt_dra;

/* A claim that is being read. */
struct gt_dra_read;
/* The `arg` of the driver's events. */
void *gt_dra_read_arg(const struct gt_dra_read *read);
/* Answers it, exactly once, also at once. `error`: one sentence, NULL for none; then `allocation` is what it
 * was given. Both are copied. */
void gt_dra_read_done(struct gt_dra_read *read, const struct gt_dra_allocation *allocation,
                      const char *error);

struct gt_dra_events { /* none may free the driver */
    /* Reads this claim from the API server, within GT_DRA_READ_MS. */
    void (*read_claim)(void *arg, const struct gt_dra_claim_id *claim, struct gt_dra_read *read);
    void (*registered)(void *arg);
    void (*registration_failed)(void *arg, const char *why); /* also several times in a row */
    /* A claim was prepared (`device_count` devices), or refused for a reason. Not where it was prepared
     * already. */
    void (*prepared)(void *arg, const struct gt_dra_claim_id *claim, unsigned device_count,
                     const char *error);
    void (*unprepared)(void *arg, const struct gt_dra_claim_id *claim, const char *error);
    /* Whether each prepared claim has its CDI spec, reported every few seconds: NULL, or a sentence why one
     * cannot be written. Containers of that claim that restart may fail. */
    void (*specs)(void *arg, const char *error);
    /* Who holds what is another thing now. */
    void (*changed)(void *arg);
    /* The file of prepared claims could not be read, and was put aside. */
    void (*state_lost)(void *arg, const char *why);
    void *arg;
};

enum {
    GT_DRA_READ_MS = 15000, /* a kubelet gives a call 45 s */
    GT_DRA_WAIT_MS = 20000, /* for a device that somebody holds */
};

struct gt_dra_options {
    const char *driver;    /* "gpu.metax-tech.com" */
    const char *node_name; /* the pool */
    const char *kubelet_dir;
    struct gt_dra_cdi_options cdi;
    unsigned wait_ms; /* 0: GT_DRA_WAIT_MS */
};

/* All texts are copied. */
int gt_dra_new(struct gt_loop *loop, const struct gt_dra_options *options, const struct gt_dra_events *events,
               struct gt_dra **ret, struct gt_err **err);
/* Calls that wait are answered UNAVAILABLE. No claim may be on its way from the API server. */
void gt_dra_free(struct gt_dra *dra);
GT_DEFINE_CLEANUP(struct gt_dra *, gt_dra_free)
#define gt_auto_dra GT_CLEANUP(gt_dra_free)

/* Whether claims were served on this node, so that some may be prepared still, and a ResourceSlice may be
 * there. */
bool gt_dra_is_left(const char *kubelet_dir, const char *driver);

/* The GPUs as they are now (takes its own reference); CDI specs follow, and are looked after every few
 * seconds. */
void gt_dra_publish(struct gt_dra *dra, const struct gt_inventory *inventory);
/* GPUs of that inventory's node that containers hold without a claim of ours. */
void gt_dra_others(struct gt_dra *dra, uint64_t others);
/* NULL: claims are prepared. Else none is but those that are already, and this sentence says why. It is
 * borrowed. */
void gt_dra_refuse(struct gt_dra *dra, const char *why);

/* The prepared claims; valid until the loop goes on. */
const struct gt_dra_claims *gt_dra_claims(struct gt_dra *dra);
/* The GPUs of the inventory's node that they hold. */
uint64_t gt_dra_held(struct gt_dra *dra);

/* As if the kubelet had unprepared it: its claim is gone, and no container of it runs. */
void gt_dra_forget(struct gt_dra *dra, const char *uid);

/* Where it refuses claims, and none is left: the next start finds nothing of it (gt_dra_is_left). */
void gt_dra_retire(struct gt_dra *dra);

struct gt_dra_stats {
    bool registered;
    uint64_t prepared, refused, unprepared; /* claims */
    uint64_t again;                         /* prepares of claims that were prepared */
    unsigned waiting;                       /* claims that are read, or wait for a device */
};
void gt_dra_stats(const struct gt_dra *dra, struct gt_dra_stats *ret);

/* As gt_plugin_busy_ms(). */
uint64_t gt_dra_busy_ms(const struct gt_dra *dra);

#endif
