/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod_claim.h"

/*
 * ResourceClaimTemplate (resource.k8s.io/v1): what the templates of users ask for. Texts are borrowed: they
 * belong to the object that was read.
 */
struct gt_claim_template {
    const char *namespace_, *name;
    bool asks;           /* it asks for GPUs of the class GT_DRA_CLASS */
    const char *request; /* the name of the request; it asks for `gpus` GPUs, and no other request does */
    unsigned gpus;
    /* Why no GPUs can be planned for it, as the end of a sentence about it (static text); NULL: they can. A
     * plan considers only the number of GPUs. */
    const char *unfit;
};

/* -EINVAL with the path of what is wrong. */
int gt_claim_template_read(const cJSON *object, struct gt_claim_template *ret, struct gt_err **err);
