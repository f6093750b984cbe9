/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/owner.h"
#include "scheduler-ext/jobs/job.h"

/*
 * The owners of the cluster's pods, by kind and name. With its owner a job can be planned as soon as its
 * first pod exists, and annotations on other templates of the job are known. Only owners whose templates ask
 * for GPUs are kept. No I/O.
 */
enum { GT_OWNERS_MAX = 1 << 17 };

struct gt_owners;

/* `resource` must outlive the owners. */
int gt_owners_new(const char *resource, struct gt_owners **ret, struct gt_err **err);
void gt_owners_free(struct gt_owners *owners); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_owners *, gt_owners_free)
#define gt_auto_owners GT_CLEANUP(gt_owners_free)

/* The whole job as described by its owner, without units where it asks for no groups; -EINVAL with a sentence
 * where it breaks a rule of the annotations. The caller frees *ret. */
int gt_owner_check(const struct gt_owner *owner, struct gt_job **ret, struct gt_err **err);

/* An object was added, changed, or deleted. An invalid one counts as deleted. */
void gt_owners_put(struct gt_owners *owners, enum gt_job_kind kind, const cJSON *object);
void gt_owners_remove(struct gt_owners *owners, enum gt_job_kind kind, const char *namespace_,
                      const char *name);
/* Its controller reported at Unix time `at_s` that it cannot create a pod. False where that is not new, or
 * the owner is not known. */
bool gt_owners_failed(struct gt_owners *owners, enum gt_job_kind kind, const char *namespace_,
                      const char *name, const char *uid, uint64_t at_s);

/* The owner object that describes a pod's job: its kind and name; GT_JOB_KINDS: there is none. */
enum gt_job_kind gt_owner_of_pod(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity,
                                 const char *owner_api_version, const char **ret_name);
/* The job of that role; NULL: the first of the object. */
const struct gt_owner *gt_owners_find(const struct gt_owners *owners, enum gt_job_kind kind,
                                      const char *namespace_, const char *name, const char *role);
/* Fills in what the owner of a pod says of the job, where `texts` has it not yet. They are borrowed until an
 * owner is added. */
void gt_owners_add_texts(const struct gt_owners *owners, const struct gt_pod_meta *pod,
                         const struct gt_pod_identity *identity, const char *owner_api_version,
                         struct gt_job_texts *texts);
/* The keys of the jobs that an owner may have made (api/identity.h): call it with number 0, 1... until it
 * returns false. `owner` NULL: it is not known. */
bool gt_owner_job_key(enum gt_job_kind kind, const struct gt_owner *owner, const char *namespace_,
                      const char *name, unsigned number, struct gt_buf *to);

/* Reads the file with kinds of jobs that users describe (api/custom_kinds.h). */
int gt_kinds_file_read(const char *path, struct gt_err **err);
