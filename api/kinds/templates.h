/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/owner.h"
#include "api/pod_key.h"

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

/* What a user says of the job there; the text of a key below GT_KEY_SIZES. */
const char **gt_template_text(const struct gt_job_template *template, enum gt_pod_key key);
/* Copies an annotation, cut where it is longer: no size then. Custom resources may hold annotations as
 * numbers, which the pods then have as texts. */
int gt_template_copy_text(const cJSON *metadata, enum gt_pod_key key, const struct gt_job_template *template,
                          struct gt_err **err);

/* Its numbers contradict each other; the first sentence of it stays. `role` "": it is about all of them. */
void gt_template_refuse(struct gt_owner *owner, const char *what, const char *role, uint32_t number,
                        uint32_t limit, const char *of_what);
/* So many pods have to start together; `what` says so. */
void gt_template_set_minimum(struct gt_owner *owner, const char *what, uint32_t minimum);
/* `what` says that so many of the workers alone are enough. `most` 0: not given. */
void gt_template_set_least_workers(struct gt_template_reader *reader, const char *what, uint32_t least,
                                   uint32_t most);
