/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <time.h>

#include "base/buf.h"
#include "base/time_text.h"

enum { GT_LEASE_HOLDER_MAX = 256, GT_LEASE_VERSION_MAX = 128 };

/*
 * A Lease of coordination.k8s.io/v1. It is read, created and updated with gt_kube_start() on gt_kube_leases;
 * an update with the resourceVersion that was read is refused with 409 if the object has changed since.
 */
struct gt_lease {
    char holder[GT_LEASE_HOLDER_MAX]; /* "": nobody */
    unsigned duration_s;              /* 0: not said */
    unsigned transitions;             /* how often the holder changed */
    char acquired[GT_TIME_TEXT_SIZE]; /* as it was read; "" if missing */
    char renewed[GT_TIME_TEXT_SIZE];
    char resource_version[GT_LEASE_VERSION_MAX]; /* "" for a create */
    const char *note; /* written as GT_ANNOTATION_LEASE_NOTE, borrowed; NULL, and after a read: none */
};

/* -EBADMSG if the object is not a Lease. */
int gt_lease_read(const cJSON *object, struct gt_lease *ret, struct gt_err **err);

/* The annotation GT_ANNOTATION_LEASE_NOTE; "" if there is none. It belongs to the object. */
const char *gt_lease_note(const cJSON *object);

/* Appends the object as JSON. */
void gt_lease_write(struct gt_buf *to, const char *namespace_, const char *name,
                    const struct gt_lease *lease);
