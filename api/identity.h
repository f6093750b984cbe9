/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/job_kind.h"
#include "api/pod.h"
#include "base/buf.h"

/* Which job a pod belongs to, and its role and index there (docs/reference/jobs.md). The PodGroup of a pod
 * with an owner is ignored, since some frameworks make one for each pod. */

/* Texts belong to the pod. */
struct gt_pod_identity {
    const char *job;   /* its name */
    const char *owner; /* the name of the object that describes the job, where it is not the job's; or NULL */
    const char *role;  /* "master", "worker", a Volcano task; "" where the kind has none */
    uint32_t index;    /* within the role, or within its child there */
    uint32_t pods;     /* so many has the job, as its pods say; 0: they do not */
    uint32_t child;    /* the number of the object between the job and the pod; 0: there is none, or one */
    enum gt_job_kind kind : 8;
    bool has_index;
    bool ignored; /* dlrover's own master, which takes no part in the training */
};

/* -EINVAL where a label that must be a number is missing or invalid. Texts in *ret point into `pod`. */
int gt_pod_identify(const struct gt_pod_meta *pod, struct gt_pod_identity *ret, struct gt_err **err);

/* Appends a key that is the same for all pods of a job, and for no other: "kubeflow/PyTorchJob/demo". Where
 * each role is a job: "team/RayCluster/demo.workers". */
void gt_job_key(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity, struct gt_buf *to);
/* The job's name in its key: "demo", "demo.workers". */
const char *gt_job_key_name(const char *key);

/* "Owned" for GT_JOB_OWNED. */
const char *gt_job_kind_name(enum gt_job_kind kind);

/* Whether its controller may make more pods than its object says. */
bool gt_job_kind_may_grow(enum gt_job_kind kind);
/* Whether all of its pods come together. */
bool gt_job_kind_is_gang(enum gt_job_kind kind);
/* The kinds of the pods' identities that an owner of this kind may make: how many, at most two. */
unsigned gt_owner_pods_are(enum gt_job_kind owner, enum gt_job_kind ret[static 2]);

/* Whether only the order of the names gives the ranks of its pods. */
bool gt_job_kind_is_nameless(enum gt_job_kind kind);
