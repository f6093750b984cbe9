/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "deviceplugin/dra/claim_cdi.h"
#include "deviceplugin/dra/claims.h"

/*
 * The driver of the kubelet's Dynamic Resource Allocation: gives the containers of a pod the GPUs that were
 * allocated to the pod's claims, and makes the last check that no two allocations have the same GPU. Claims
 * are read through a callback. Prepared claims are on disk (store.h), so that the answers are the same after
 * a restart; a device is held until its claim is unprepared or forgotten. If another claim or container holds
 * a device of a claim, the claim waits for a while: a pod that was deleted by force is removed from the API
 * before the kubelet has ended it. All on the loop's thread.
 */
struct gt_dra;

/* The reading of one claim. */
struct gt_dra_claim_request;
/* The `arg` of the driver's events. */
void *gt_dra_claim_request_arg(const struct gt_dra_claim_request *request);
/* Ends the reading. Call it exactly once; also allowed within read_claim(). `error`: one sentence, or NULL;
 * then `allocation` is what the claim was given. Both are copied. */
void gt_dra_claim_was_read(struct gt_dra_claim_request *request, const struct gt_dra_allocation *allocation,
                           const char *error);

struct gt_dra_events { /* none may free the driver */
    /* Reads this claim from the API server, within GT_DRA_READ_MS. */
    void (*read_claim)(void *arg, const struct gt_dra_claim_id *claim, struct gt_dra_claim_request *request);
    void (*registered)(void *arg);
    void (*registration_failed)(void *arg, const char *why); /* may come several times in a row */
    /* A claim was prepared (`device_count` devices), or refused (`error` says why). Not called if it was
     * prepared already. */
    void (*prepared)(void *arg, const struct gt_dra_claim_id *claim, unsigned device_count,
                     const char *error);
    void (*unprepared)(void *arg, const struct gt_dra_claim_id *claim, const char *error);
    /* Called every few seconds: `error` is NULL if each prepared claim has its CDI spec, else a sentence why
     * one cannot be written. Containers of that claim may then fail to restart. */
    void (*specs)(void *arg, const char *error);
    /* The held devices have changed. */
    void (*changed)(void *arg);
    /* The file of prepared claims could not be read, and was renamed (store.h). */
    void (*state_lost)(void *arg, const char *why);
    void *arg;
};

enum {
    GT_DRA_READ_MS = 15000, /* the kubelet waits 45 s for a call */
    GT_DRA_WAIT_MS = 20000, /* for a device that another holder has */
};

struct gt_dra_options {
    const char *driver;    /* "gpu.metax-tech.com" */
    const char *node_name; /* the pool */
    const char *kubelet_dir;
    struct gt_cdi_options cdi;
    unsigned wait_ms; /* 0: GT_DRA_WAIT_MS */
};

/* All texts are borrowed. */
int gt_dra_new(struct gt_loop *loop, const struct gt_dra_options *options, const struct gt_dra_events *events,
               struct gt_dra **ret, struct gt_err **err);
/* Waiting calls are answered with UNAVAILABLE. No reading of a claim may be in progress. */
void gt_dra_free(struct gt_dra *dra);
GT_DEFINE_CLEANUP(struct gt_dra *, gt_dra_free)

/* Whether claims were served on this node: some may still be prepared, and a ResourceSlice may exist. */
bool gt_dra_is_left(const char *kubelet_dir, const char *driver);

/* Sets the current GPUs (takes its own reference). CDI specs are updated, and checked every few seconds from
 * then on. */
void gt_dra_publish(struct gt_dra *dra, const struct gt_inventory *inventory);
/* Sets which GPUs of that inventory's node, as a mask, containers hold without a claim of this driver. */
void gt_dra_others(struct gt_dra *dra, uint64_t others);
/* `why` NULL: claims are prepared. Otherwise no further claim is prepared, and this sentence says why. It is
 * borrowed. */
void gt_dra_refuse(struct gt_dra *dra, const char *why);

/* The prepared claims; valid until the callback of the loop returns. */
const struct gt_dra_claims *gt_dra_claims(struct gt_dra *dra);
/* The GPUs of the inventory's node that prepared claims hold, as a mask. */
uint64_t gt_dra_prepared_gpus(struct gt_dra *dra);

/* Unprepares a claim without the kubelet: the claim was deleted, and no container of it runs. */
void gt_dra_forget(struct gt_dra *dra, const char *uid);

/* If it refuses claims and none is left, it removes its file, so that gt_dra_is_left() is false at the next
 * start. */
void gt_dra_retire(struct gt_dra *dra);

struct gt_dra_stats {
    bool registered;
    uint64_t prepared, refused, unprepared; /* claims */
    uint64_t again;                         /* calls for claims that were prepared already */
    unsigned waiting;                       /* claims that are being read, or that wait for a device */
};
void gt_dra_stats(const struct gt_dra *dra, struct gt_dra_stats *ret);

/* As gt_plugin_busy_ms(). */
uint64_t gt_dra_busy_ms(const struct gt_dra *dra);
