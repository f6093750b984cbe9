/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "scheduler-ext/volcano/volcano.h"
#include "tests/unit/cache/cache_world.h"

/* Objects and sessions for the tests of the plugins in Volcano's scheduler: racks of nodes of 8 GPUs. */

enum { RACKS = 3, NODES_EACH = 4, NODES = RACKS * NODES_EACH, TASKS_MAX = 32, TEXT_MAX = 4096 };

extern char volcano_error[GT_VOLCANO_TEXT_SIZE]; /* of the last call that failed */

struct pod {
    const char *job;
    unsigned index, gpus;
    const char *group; /* its annotation; NULL: none */
    unsigned node;     /* as number + 1; 0: it waits */
    bool gated, deleting;
    const char *plan_node, *uid;
    int priority;
};

struct session {
    char texts[TEXT_MAX];
    size_t size;
    uint32_t nodes[NODES];
    struct gt_volcano_group groups[6];
    struct gt_volcano_task tasks[TASKS_MAX];
    uint32_t group_count, task_count;
};

unsigned number_of(const char *plural);
void put(struct gt_volcano *volcano, const char *plural, cJSON *object);
const char *node_name(unsigned node);
void put_node(struct gt_volcano *volcano, unsigned node, uint64_t taken);
struct gt_volcano *new_world(void);
struct gt_volcano *new_world_beside(const char *namespace_); /* of the companion */
void fill_world(struct gt_volcano *volcano);                 /* with the racks and their nodes */
void put_pod(struct gt_volcano *volcano, const struct pod *pod);
/* Its kubelet has refused it; as gt_volcano_put(). */
int refuse_pod(struct gt_volcano *volcano, const struct pod *pod);
void put_job(struct gt_volcano *volcano, const char *job, unsigned pods, unsigned gpus, const char *group);
/* A node whose GPUs are all used by that pod; NULL: they are free. */
void put_user(struct gt_volcano *volcano, unsigned node, const char *pod);
uint32_t add_text(struct session *session, const char *text);
void begin(struct session *session);
/* A PodGroup without tasks; its number. */
uint32_t new_group(struct session *session, const char *name, unsigned minimum);
/* A pod of the last PodGroup; GT_VOLCANO_NO_NODE: it waits. */
uint32_t add_task(struct session *session, const char *pod, uint32_t node);
/* A PodGroup of pods JOB-0, JOB-1...; `nodes` NULL: all wait. Returns the number of its first task. */
uint32_t add_group(struct session *session, const char *job, unsigned pods, unsigned minimum,
                   const uint32_t *nodes);
void open_session(struct gt_volcano *volcano, const struct session *session);
uint32_t place(struct gt_volcano *volcano, uint32_t task);
/* Asserts that each run of `pods` tasks is in one rack, and that no node has more than its GPUs. */
void check_units(const uint32_t *nodes, unsigned count, unsigned pods, unsigned gpus);
void place_all(struct gt_volcano *volcano, uint32_t first, unsigned count, uint32_t *ret);
/* The note to write, which the caller frees; NULL: there is none. */
char *published(struct gt_volcano *volcano);
void assert_published(struct gt_volcano *volcano, const char *note);
/* The Lease of gputopo-scheduler, with a note of its places. */
void put_lease(struct gt_volcano *volcano, unsigned seconds, const char *note);
void put_lease_in(struct gt_volcano *volcano, const char *namespace_, unsigned seconds, const char *note);
#define PUT_POD(volcano, ...) put_pod(volcano, &(struct pod){__VA_ARGS__})
