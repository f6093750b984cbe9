/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_PLACEMENT_OWNERS_H
#define GPUTOPO_PLACEMENT_OWNERS_H

#include <cjson/cJSON.h>

#include "kube/resource.h"
#include "scheduler-ext/jobs/job.h"

/*
 * The objects that make pods: what their templates say of GPUs and groups. A job can so be planned when its
 * first pod is there, and a pod without the annotation is known to belong to a job that has it on another
 * template. Only owners whose templates ask for GPUs are kept. No I/O.
 */
enum gt_owner_kind {
    GT_OWNER_PYTORCH,
    GT_OWNER_VOLCANO,
    GT_OWNER_ELASTIC,
    GT_OWNER_JOB,
    GT_OWNER_STATEFULSET,
    GT_OWNER_REPLICASET,
    GT_OWNER_KINDS,
};

struct gt_owner {
    struct gt_job_spec spec;
    bool sequential;     /* its pods come one after the other, each when the one before is ready */
    const char *refusal; /* a sentence where such an owner cannot have groups; NULL: it can */
    const char *broken;  /* of those in gt_owners: what gt_owner_check() says; NULL: it breaks no rule */
    uint64_t version;    /* likewise: another where its spec is another; 0: not known */
    /* Pods that have succeeded, or failed for good: the pods at hand do not tell, and nobody makes them
     * again. */
    uint32_t ended;     /* how many */
    uint64_t *ended_at; /* of an Indexed Job also which, one bit for each rank; NULL: not told */
};

enum { GT_OWNERS_MAX = 1 << 17 };

struct gt_owners;

/* `resource` lives as long as the owners do. */
int gt_owners_new(const char *resource, struct gt_owners **ret, struct gt_err **err);
void gt_owners_free(struct gt_owners *owners); /* NULL is allowed */
GT_DEFINE_CLEANUP(struct gt_owners *, gt_owners_free)
#define gt_auto_owners GT_CLEANUP(gt_owners_free)

const char *gt_owners_resource(const struct gt_owners *owners); /* "metax-tech.com/gpu" */
const struct gt_kube_resource *gt_owner_resource(enum gt_owner_kind kind);
const char *gt_owner_kind_name(enum gt_owner_kind kind); /* "PyTorchJob" */
/* From an ownerReference, or a request's kind; `api_version` is "group/version" or the group alone.
 * GT_OWNER_KINDS: none of them. */
enum gt_owner_kind gt_owner_kind_of(const char *api_version, const char *kind);

/* Reads an object; gt_owner_free() it. -EINVAL where it makes no sense. NULL without an error: its templates
 * ask for no GPUs. */
int gt_owner_read(enum gt_owner_kind kind, const cJSON *object, const char *resource, struct gt_owner **ret,
                  struct gt_err **err);
void gt_owner_free(struct gt_owner *owner);
GT_DEFINE_CLEANUP(struct gt_owner *, gt_owner_free)
#define gt_auto_owner GT_CLEANUP(gt_owner_free)

/* The whole job as the owner makes it, without units where it asks for no groups; -EINVAL with the sentence
 * where it breaks a rule of the annotations. */
int gt_owner_check(const struct gt_owner *owner, struct gt_job **ret, struct gt_err **err);
/* Whether the pod of that rank is known to have ended. */
bool gt_owner_has_ended(const struct gt_owner *owner, uint32_t rank);
/* Whether a template has the group annotation. */
bool gt_owner_is_grouped(const struct gt_owner *owner);

/* An object was added or has changed, or is gone. One that makes no sense counts as gone. */
void gt_owners_put(struct gt_owners *owners, enum gt_owner_kind kind, const cJSON *object);
void gt_owners_remove(struct gt_owners *owners, enum gt_owner_kind kind, const char *namespace_,
                      const char *name);
/* All that a kind has are known: who is not among them asks for no GPUs, or was made just now. */
void gt_owners_set_synced(struct gt_owners *owners, enum gt_owner_kind kind, bool synced);
bool gt_owners_is_synced(const struct gt_owners *owners, enum gt_owner_kind kind);

/* Which object speaks for a pod's job: its kind, and its name; GT_OWNER_KINDS where none can. */
enum gt_owner_kind gt_owner_of_pod(const struct gt_pod_meta *pod, const struct gt_pod_identity *identity,
                                   const char *owner_api_version, const char **ret_name);
const struct gt_owner *gt_owners_find(const struct gt_owners *owners, enum gt_owner_kind kind,
                                      const char *namespace_, const char *name);

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
