/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"
#include "scheduler-ext/cache/cache.h"

/*
 * Back-off: jobs whose pods were preempted, or evicted to be placed again, and nodes on which a scheduler
 * refused a job's pod, are not tried again for a while. All are found by a digest of the job's key, since all
 * pods of the job may be deleted meanwhile. No I/O, no clock.
 */
enum { BACKOFF_JOBS_MAX = 256, BACKOFF_NODES_MAX = 256 }; /* with more at a time, the oldest is forgotten */
enum { BACKOFF_RULE_SIZE = 160, BACKOFF_ALIKE = 3 };
enum {
    BACKOFF_REFUSALS = 3,
    BACKOFF_REFUSALS_MS = 600000,
    BACKOFF_REFUSED_MS = 3600000, /* how long it is known that there were some */
    BACKOFF_TEXT_SIZE = 640,
};

struct backoffs {
    struct backoff_job {
        uint64_t key, last_ms; /* last_ms: the latest time of all; 0: there is none */
        uint64_t until_ms;     /* it is not planned until then; 0: it was not evicted */
        unsigned replans;      /* how often in a row its plan failed before any of its pods ran */
        unsigned alike;        /* of them, the last ones for the same rule */
        char rule[BACKOFF_RULE_SIZE];
        uint64_t recreated_ms, leave_before_s; /* see gt_backoff_set_recreated() */
        struct backoff_pod {                   /* refused by kubelets, the last ones, newest first */
            uint64_t ms, uid;                  /* ms: when, 0: none; uid: a digest */
        } refused[BACKOFF_REFUSALS];
    } jobs[BACKOFF_JOBS_MAX];
    struct refused_node {
        uint64_t key, until_ms; /* 0: none */
        uint32_t node;
        uint64_t node_digest;
    } nodes[BACKOFF_NODES_MAX];
};

/* The job is not planned until then, or longer where that was said before. */
void gt_backoff_job(struct backoffs *backoffs, const char *key, uint64_t until_ms);
/* Its plan failed before any of its pods ran: it is planned again after a pause, from `first_ms` up, which
 * doubles each time. `rule`: for which the scheduler refused the node, "" unknown. Once it was the same
 * BACKOFF_ALIKE times in a row, the pause is the longest one. Returns the number of times. */
unsigned gt_backoff_replan(struct backoffs *backoffs, const char *key, const char *rule, uint64_t now_ms,
                           uint64_t first_ms);
/* The rule for which it failed BACKOFF_ALIKE times or more; NULL: there is none. */
const char *gt_backoff_rule(const struct backoffs *backoffs, const char *key);
unsigned gt_backoff_replans(const struct backoffs *backoffs, const char *key);
/* Its pods run: the next pause is short again. */
void gt_backoff_forget_replans(struct backoffs *backoffs, const char *key);
/* Until when the job is not planned and has no reservations; 0: it was not preempted. */
uint64_t gt_backoff_job_until(const struct backoffs *backoffs, const char *key);

struct backoff_refusal {
    const struct gt_cache_job *job; /* NULL: the cache has none of its pods */
    char text[BACKOFF_TEXT_SIZE];   /* what to tell */
};
/* The object of a pod has come that a kubelet refused (gt_pod_is_refused_by_kubelet()): its node is left out
 * as after gt_backoff_node(). `known`: what the cache knew of it before. NULL: only a list has it, perhaps
 * not for the first time; then its object says when it was. False: it was counted before, or is too old. */
bool gt_backoff_refusal(struct backoffs *backoffs, struct gt_cache *cache, const struct gt_cache_pod *known,
                        const struct gt_pod *pod, const struct gt_cache_moment *moment,
                        struct backoff_refusal *ret);
/* How many within BACKOFF_REFUSALS_MS, at most BACKOFF_REFUSALS; *ret_last: when the last one of
 * BACKOFF_REFUSED_MS was, 0 none. */
unsigned gt_backoff_refusals(const struct backoffs *backoffs, const char *key, uint64_t now_ms,
                             uint64_t *ret_last);
/* After BACKOFF_REFUSALS the job is not planned until the first of them is BACKOFF_REFUSALS_MS ago; 0: it may
 * be planned. */
uint64_t gt_backoff_refused_until(const struct backoffs *backoffs, const char *key, uint64_t now_ms);
/* Why it is not, with that time (Unix). */
void gt_backoff_refused_text(int64_t until_s, char text[static BACKOFF_TEXT_SIZE]);

/* All pods of the job that were created until then (Unix time) are evicted to place it again; this is not
 * done again before `until_ms`. */
void gt_backoff_set_recreated(struct backoffs *backoffs, const char *key, uint64_t leave_before_s,
                              uint64_t until_ms);
/* Which pods have to leave; 0: none has. */
uint64_t gt_backoff_recreated(const struct backoffs *backoffs, const char *key, uint64_t now_ms);

/* The scheduler refused the node that a pod of the job is planned for. */
void gt_backoff_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                     uint32_t node, uint64_t now_ms);
/* A pod of the job `key` has left the node, so the scheduler may accept it now for other jobs. What the pods
 * of one job cannot share, they will not share next time either. */
void gt_backoff_forget_node(struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                            uint32_t node);
/* Adds the nodes where the job is not to be planned. */
void gt_backoff_nodes(const struct backoffs *backoffs, const struct gt_cluster *cluster, const char *key,
                      uint64_t now_ms, struct gt_node_set *to);
