/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_AGENT_USAGE_H
#define GPUTOPO_AGENT_USAGE_H

#include "base/buf.h"
#include "deviceplugin/inventory.h"
#include "deviceplugin/podresources.h"

/*
 * Who uses which GPU: the kubelet's book (deviceplugin/podresources.h) laid over the node. No clock, no
 * socket; all of it the loop's thread's.
 */
struct gt_usage_owner {
    char id[GT_ID_SIZE]; /* by which the container holds it */
    char namespace[64];
    char pod[254];
    char container[64];
};

/* One state of it, never changed once made. Masks are of the GPUs of the inventory's node. */
struct gt_usage {
    uint64_t generation; /* another one with every change, from 1 */
    bool known; /* false: the kubelet has not told yet, or there was no scan; nothing below is right */
    bool stale; /* true: it was told, but the kubelet has not answered for a while */
    unsigned gpu_count;
    uint64_t used;  /* somebody holds it */
    uint64_t free;  /* nobody does, it is served and healthy: what a new container may get */
    uint64_t twice; /* more than one container holds it, which must not be; the owner is one of them */
    /* Containers that hold devices which are no GPU of this node: those of lost GPUs, and others' IDs. */
    unsigned strangers;
    struct gt_usage_owner owners[]; /* gpu_count of them, empty where not used; then the strangers */
};

struct gt_usage_book;

/* Another state than before; the old one is valid until this returns. */
typedef void gt_usage_changed(void *arg, const struct gt_usage *before, const struct gt_usage *now);

enum { GT_STRANGERS_MAX = 64 };

int gt_usage_book_new(gt_usage_changed *changed, void *arg, struct gt_usage_book **ret, struct gt_err **err);
void gt_usage_book_free(struct gt_usage_book *book);
GT_DEFINE_CLEANUP(struct gt_usage_book *, gt_usage_book_free)

/* The state, valid until the next call that changes it. Never NULL. */
const struct gt_usage *gt_usage_now(const struct gt_usage_book *book);

/*
 * The kubelet has told. While its answers settle, whoever was known to hold a device goes on holding it, and
 * what was not known does not become known: too few are in such an answer, never too many.
 */
void gt_usage_listed(struct gt_usage_book *book, const struct gt_holdings *holdings);

/* The node, or what is served of it, has changed. Takes its own reference. */
void gt_usage_inventory(struct gt_usage_book *book, const struct gt_inventory *inventory);

void gt_usage_stale(struct gt_usage_book *book, bool stale);

/* The IDs in use, as gt_inventory_next() takes them. */
void gt_usage_in_use(const struct gt_usage_book *book, struct gt_in_use *ret);

/* The state as JSON (docs/reference/agent.md). */
void gt_usage_json(const struct gt_usage_book *book, const char *node_name, double asked_s,
                   struct gt_buf *to);

#endif
