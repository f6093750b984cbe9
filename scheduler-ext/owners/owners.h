/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_OWNERS_OWNERS_H
#define GPUTOPO_OWNERS_OWNERS_H

#include "api/owner.h"
#include "scheduler-ext/jobs/job.h"

/*
 * The owners of the cluster's pods, by kind and name. A job can so be planned when its first pod is there,
 * and a pod without the annotation is known to belong to a job that has it on another template. Only owners
 * whose templates ask for GPUs are kept. No I/O.
 */
enum { GT_OWNERS_MAX = 1 << 17 };

struct gt_owners;

/* `resource` lives as long as the owners do. */
int gt_owners_new(const char *resource, struct gt_owners **ret, struct gt_err **err);
void gt_owners_free(struct gt_owners *owners); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_owners *, gt_owners_free)
#define gt_auto_owners GT_CLEANUP(gt_owners_free)

/* The whole job as the owner makes it, without units where it asks for no groups; -EINVAL with the sentence
 * where it breaks a rule of the annotations. */
int gt_owner_check(const struct gt_owner *owner, struct gt_job **ret, struct gt_err **err);

/* An object was added or has changed, or is gone. One that is invalid counts as gone. */
void gt_owners_put(struct gt_owners *owners, enum gt_owner_kind kind, const cJSON *object);
void gt_owners_remove(struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_,
                      const char *name);
/* It said at that Unix time that it cannot make a pod. False where that is nothing new, or it is not known.
 */
bool gt_owners_failed(struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_,
                      const char *name, const char *uid, uint64_t at_s);

/* Which object speaks for a pod's job: its kind, and its name; GT_OWNER_KINDS where none can. */
enum gt_owner_kind gt_owner_of_pod(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity,
                                   const char *owner_api_version, const char **ret_name);
const struct gt_owner *gt_owners_find(const struct gt_owners *owners, enum gt_owner_kind kind,
                                      const char *namespace_, const char *name);
/* What gt_owner_check() says of it; NULL: it breaks no rule, or is not known. */
const char *gt_owners_broken(const struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_,
                             const char *name);

/* The keys of the jobs that an owner may have made (jobs/identity.h): call with number 0, 1... until false.
 */
bool gt_owner_job_key(enum gt_owner_kind kind, const char *namespace_, const char *name, unsigned number,
                      struct gt_buf *to);

struct gt_owners_counters {
    uint32_t owners;
    uint64_t refused; /* made no sense, or beyond GT_OWNERS_MAX */
};
void gt_owners_counters(const struct gt_owners *owners, struct gt_owners_counters *ret);

#endif
