/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "api/job_kind.h"
#include "base/cleanup.h"

struct gt_err;

/* The objects that create the pods of jobs: what their templates say of GPUs and groups. */
struct gt_owner_type {
    const char *group, *version, *plural;
    const char *kind; /* "PyTorchJob" */
};
/* Not for GT_JOB_KINDS and what follows it. NULL: it is one for users, and not described. */
const struct gt_owner_type *gt_owner_type(enum gt_job_kind kind);
/* The kinds whose objects are watched, by number from 0. GT_JOB_KINDS: no more. */
enum gt_job_kind gt_owner_watched(unsigned number);
bool gt_owner_is_watched(enum gt_job_kind kind); /* not for GT_JOB_KINDS and what follows it: false */
/* From an ownerReference, or a request's kind; `api_version` is "group/version" or the group alone. A kind of
 * that group counts even where its version is another one. GT_JOB_KINDS: none of them. */
enum gt_job_kind gt_owner_kind_of(const char *api_version, const char *kind);
/* The same, where a kind whose objects make one of their name counts as what they make: TrainJobs as
 * JobSets. */
enum gt_job_kind gt_owner_made_by(const char *api_version, const char *kind);
/* Whether a pod with such an owner may be of an object of that kind, which made the owner or is it. */
bool gt_owner_makes(enum gt_job_kind kind, const char *api_version, const char *owner_kind);

/* What users say of a job, on one template or pod. */
struct gt_job_texts {
    const char *of[GT_KEY_SIZES]; /* annotations; NULL: none */
    uint32_t subgroup;            /* GPUs of what GT_GROUP_PART means, each subgroup; 0: there is none */
    const char *where;            /* "template Master", "pod demo-worker-3", ""; of a template NULL */
};

/* What the job's object says of its pods. With it a job can be planned as soon as its first pod exists. */
struct gt_job_template {
    const char *role; /* "master", a Volcano task, ""; not case-sensitive */
    uint32_t replicas;
    const unsigned *gpus; /* of each container */
    unsigned containers;
    uint64_t requests; /* struct gt_numa_pod */
    struct gt_job_texts texts;
    uint32_t first;     /* the index of the template's first pod */
    uint32_t per_child; /* pods of each object between the job and the pods; 0: there is none */
    uint32_t minimum;   /* if fewer of its pods can start together, nothing of the job starts; 0: not given */
};

struct gt_job_spec {
    const struct gt_job_template *templates; /* in the order of the object */
    unsigned count;
    const char *master;  /* the role of rank 0 if it is not "master" (--master= of Volcano's plugin) */
    uint32_t minimum;    /* if fewer of its pods can start together, none starts; 0: all pods */
    uint32_t at_once;    /* at most so many pods exist at a time: the lowest that have not ended; 0: all */
    uint32_t step;       /* its controller adds and removes so many pods together, by load; 0: it does not */
    bool in_order;       /* roles have their ranks in the order of the object, also a master */
    bool units_in_roles; /* no unit has pods of two roles */
    bool sizes_of_roles; /* each role has sizes of its own, or none */
    bool groups; /* each of its groups is a job, and a change comes group by group: a group that is there may
                    be of an earlier state of the templates */
};

/* One job of an object. */
struct gt_owner {
    struct gt_job_spec spec;
    const char *role; /* of all its pods, where each role of the object is a job; NULL: it is the only job */
    struct gt_owner *next; /* the object's next job, owned; NULL: none */
    bool sequential;       /* its pods are created one after the other, each when the one before is ready */
    const char *refusal;   /* a sentence why such an owner cannot have groups; NULL: it can */
    uint64_t version;      /* changes with its spec; 0: not known */
    uint64_t uid;          /* digest; 0: not known */
    uint32_t jobs; /* so many jobs, whose names are its own and "-0", "-1" and so on; 0: one, of its name */
    bool stopped;  /* it creates no pods now: it is suspended, has ended, or is being deleted */
    /* Pods that have succeeded or failed for ever: they may be deleted, and are not created again. */
    uint32_t ended;     /* how many */
    uint64_t *ended_at; /* for an Indexed Job also which ones, one bit for each rank; NULL: not known */
    /* How many of its pods may still be evicted before it gives up for good: a Job's backoffLimit.
     * UINT32_MAX: any number. */
    uint32_t failures_left;
    /* Not read from the object. */
    uint64_t failed_s;  /* Unix time of the last Event that it cannot create a pod; 0: none */
    const char *broken; /* the sentence of gt_owner_check(), owned; NULL: it breaks no rule */
};

/* Reads an object, where an annotation of its own metadata counts for all templates, unless one of them has
 * it, too; free *ret with gt_owner_free(). `resource` is the resource of GPUs. -EINVAL if it is invalid. *ret
 * is NULL without an error if its templates ask for no GPUs. Jobs without GPUs are left out. */
int gt_owner_read(enum gt_job_kind kind, const cJSON *object, const char *resource, struct gt_owner **ret,
                  struct gt_err **err);
/* The same for the pod sets of a Workload of Kueue, each with as many pods as Kueue has assigned, made from
 * an object of that kind. */
int gt_owner_read_pod_sets(enum gt_job_kind kind, const cJSON *workload, const char *resource,
                           struct gt_owner **ret, struct gt_err **err);
/* What a Workload does not have, from its object: annotations that stand on that itself, the sizes of its
 * subgroups, and with `pods` also how many there are. */
int gt_owner_complete(struct gt_owner *workload, const struct gt_owner *owner, bool pods,
                      struct gt_err **err);
void gt_owner_free(struct gt_owner *owner);
GT_DEFINE_CLEANUP(struct gt_owner *, gt_owner_free)
#define gt_auto_owner GT_CLEANUP(gt_owner_free)

/* A sentence (static text) for the author of an object with groups; NULL: there is nothing to say. */
const char *gt_owner_warning(enum gt_job_kind kind, const cJSON *object);

/* Calls `visit` with the spec of each template of an owner of any kind, to be changed. */
void gt_owner_each_template(cJSON *object, void (*visit)(void *arg, cJSON *spec), void *arg);

/* Whether the pod of that rank is known to have ended. */
bool gt_owner_has_ended(const struct gt_owner *owner, uint32_t rank);
/* Whether a template of this job has the group annotation. */
bool gt_owner_is_grouped(const struct gt_owner *owner);
