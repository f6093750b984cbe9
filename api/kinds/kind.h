/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/identity.h"
#include "api/job_kind.h"
#include "api/owner.h"

/* For the kinds' files: the templates of an owner, and how small it may start. */

enum { GT_TEMPLATES_MAX = 64 };

struct gt_kind;

struct gt_template_reader {
    const struct gt_kind *kind;
    const char *resource;
    unsigned job; /* 0 but where the object has several */
    struct gt_owner *owner;
    struct gt_job_template *templates; /* GT_TEMPLATES_MAX of them */
    bool gpus;                         /* some template asks for them */
    struct gt_err **err;
};

/* Of one pod. */
uint32_t gt_template_gpus(const struct gt_job_template *template);
/* A count or number of pods; `fallback` where it is not given. */
int gt_template_count(const cJSON *json, const char *what, uint32_t fallback, uint32_t *ret,
                      struct gt_err **err);
/* Adds a template; `fallback` where it has no replicas. */
int gt_template_add(struct gt_template_reader *reader, const char *role, const cJSON *replicas,
                    uint32_t fallback, const cJSON *pod);
/* A map of roles, each with replicas and a template; `ignored` is left out. */
int gt_template_add_roles(struct gt_template_reader *reader, const cJSON *roles, const char *ignored);

/* Copies an annotation, cut where it is longer: no size then. Custom resources may hold annotations as
 * numbers, which the pods then have as texts. */
int gt_template_copy_text(const cJSON *metadata, enum gt_pod_key key, struct gt_job_template *template,
                          struct gt_err **err);

/* Its numbers contradict each other; the first sentence of it stays. `role` "": it is about all of them. */
void gt_template_refuse(struct gt_owner *owner, const char *what, const char *role, uint32_t number,
                        uint32_t limit, const char *of_what);
/* So many pods have to start together; `what` says so. */
void gt_template_set_minimum(struct gt_owner *owner, const char *what, uint32_t minimum);
/* `what` says that so many of the workers alone are enough. `most` 0: not given. */
void gt_template_set_least_workers(struct gt_template_reader *reader, const char *what, uint32_t least,
                                   uint32_t most);

/* What a file here says of its kind of job. */
struct gt_kind {
    struct gt_owner_type type;
    const char *name;  /* in keys of jobs and in texts */
    const char *roles; /* Kubeflow's: the member of the spec with the roles */
    /* Where its pods are made by objects of another kind: that kind, and the label by which the objects are
     * known. They are not jobs by themselves. */
    struct {
        const char *kind;
        enum gt_pod_key key;
    } child;
    /* Where objects of another kind make one of this kind, of their name: that kind. */
    struct {
        const char *group, *kind;
    } maker;
    /* Where the pod is of this kind: its job, role and index, and 1; -EINVAL where it is, and something is
     * missing. 0: it is not. NULL: its pods are known by their owner alone, and have no index. */
    int (*identify)(const struct gt_kind *kind, const struct gt_pod_meta *pod, struct gt_pod_identity *ret,
                    struct gt_err **err);
    bool is_also_owned;   /* some of its pods are known by their owner alone */
    bool is_nameless;     /* its pods have no index: the order of their names gives the ranks */
    bool roles_are_jobs;  /* the pods of each role are a job of their own */
    bool is_only_checked; /* its pods are those of an object that it makes: only the webhook reads it */
    bool units_in_roles;  /* no unit has pods of two roles, unless the size is the object's own annotation */
    bool may_grow;        /* its controller may make more pods than the object says */
    bool is_no_gang;      /* its pods come and go one by one, or need not start together */
    /* Of a kind whose roles are jobs: how many an object has. */
    unsigned (*count_jobs)(const struct gt_kind *kind, const cJSON *spec);
    /* The templates of an object, or of its job with the number reader->job, and how many of its pods have to
     * start together. */
    int (*read)(struct gt_template_reader *reader, const cJSON *spec);
    /* A sentence on an object with groups that its controller will not serve well. NULL: there is none. */
    const char *(*warn)(const cJSON *object);
    /* The condition of its status that is True when it has succeeded and makes no pods any more; of "Failed"
     * the same is true. NULL: it has none of the two. */
    const char *ended;
    /* Whether its status says so in another way. NULL: it does not. */
    bool (*has_stopped)(const struct gt_kind *kind, const cJSON *status);
    /* Which pods have ended, besides how many. NULL: it does not say. */
    void (*read_ended)(struct gt_owner *owner, const cJSON *status);
    /* How many pods may be evicted before it gives up. NULL: any number. */
    uint32_t (*failures_left)(const cJSON *spec, const cJSON *status);
};

/* Not for GT_JOB_KINDS and what follows it. NULL: it is one for users, and not described. */
const struct gt_kind *gt_kind_of(enum gt_job_kind kind);
/* Sets one for users; NULL: it is not described any more. */
void gt_kind_describe(unsigned number, const struct gt_kind *kind);

/* For has_stopped(): whether a condition of that type is True. */
bool gt_kind_condition_is_true(const cJSON *status, const char *type);
/* Whether the evictions of its pods do not count as failures of a Job with that spec. */
bool gt_job_ignores_disruption(const cJSON *spec);

/* Where a pod says itself which job it is of: that job, its kind, the pod's index, and how many pods the job
 * has; 1. `ours`: by our own annotations, else by others'. -EINVAL where a number is missing or invalid. */
int gt_pods_identify(const struct gt_pod_meta *pod, bool ours, struct gt_pod_identity *ret,
                     struct gt_err **err);

/* For the kinds' files: the index of a pod. */

/* Many controllers write a key as label and as annotation, older ones only in one place. NULL: none, as
 * of GT_POD_KEYS. */
const char *gt_pod_key_value(const struct gt_pod_meta *pod, enum gt_pod_key key);
bool gt_pod_is_owned_by(const struct gt_pod_meta *pod, const char *kind);
/* 1; -EINVAL where the text of the key is no number. */
int gt_index_read(const struct gt_pod_meta *pod, enum gt_pod_key key, const char *text,
                  struct gt_pod_identity *ret, struct gt_err **err);
/* The index from "<before>-<index>", where the name has that form. */
bool gt_index_of_name(const struct gt_pod_meta *pod, const char *before, struct gt_pod_identity *ret);
/* -EINVAL with a sentence that the key is missing. */
int gt_index_missing(const struct gt_pod_meta *pod, enum gt_pod_key key, struct gt_err **err);
