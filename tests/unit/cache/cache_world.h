/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "scheduler-ext/cache/cache.h"

/* Makes objects as the API server sends them from a short description, and passes them to a cache. */

/* What the process has allocated; 0 with a sanitizer. */
static inline size_t heap_bytes(void)
{
    struct mallinfo2 info = mallinfo2();
    return info.uordblks + info.hblkhd;
}

enum { WORLD_OWNERS = 8 };

struct world_owner {
    const char *pod; /* in namespace "ns" */
    uint64_t mask;
};

struct world_topology {
    const char *name;
    unsigned gpus;               /* in one mesh of direct links */
    uint64_t unhealthy, unknown; /* unknown: of unknown health */
    uint64_t slow;               /* graded as that */
    uint64_t isolated;           /* unhealthy by that alone */
    uint64_t unnamed;            /* in use without a known owner */
    struct world_owner owners[WORLD_OWNERS];
    bool silent_on_usage; /* no `free`, no owners */
    bool shared;          /* GPUs are in the vendor's sGPU mode */
    bool link_down;       /* the link of GPUs 0 and 1 */
    bool reversed;        /* GPUs are in descending order */
    bool single_numa;     /* four GPUs on each NUMA node, which its kubelet never mixes */
    const char *version, *owners_since;
    const char *server, *remotes;             /* remotes: JSON, NULL none */
    const char *registered;                   /* the reason of that condition, NULL: there is none */
    const char *node_uid, *created, *written; /* of the owner; written: the GPUs */
};

struct world_node {
    const char *name;
    bool not_ready, cordoned;
    const char *ready_since;     /* when its condition Ready last changed */
    const char *labels, *taints; /* JSON, NULL none */
    const char *allocatable;     /* likewise */
    const char *uid, *created;
};

struct world_supernode {
    const char *name, *parent;
    unsigned tier;
    double gbps; /* 0: not given */
    const char *members[16];
};

struct world_pod { /* in namespace "ns" */
    const char *name;
    const char *uid; /* NULL: its name */
    unsigned gpus;
    const char *node, *job, *phase, *created; /* job: a ReplicaSet's name */
    const char *owner;                        /* the JSON of another owner, NULL: none */
    bool gated, other_gate, deleting;
    const char *plan_node;
    uint64_t plan_mask;
    const char *spec; /* more of it, "\"key\":...," */
    const char *annotations, *labels;
};

cJSON *world_topology(const struct world_topology *topology);
cJSON *world_node(const struct world_node *node);
cJSON *world_supernode(const struct world_supernode *supernode);
cJSON *world_pod(const struct world_pod *pod);

/* Pass an object to the cache and check the cluster afterwards. */
void give_topology(struct gt_cache *cache, const struct world_topology *topology, uint64_t now_ms);
void give_node(struct gt_cache *cache, const struct world_node *node);
void give_supernode(struct gt_cache *cache, const struct world_supernode *supernode);
void give_pod(struct gt_cache *cache, const struct world_pod *pod);
void give_json_pod(struct gt_cache *cache, const cJSON *object);
void check_cache(const struct gt_cache *cache);

/* A node of 8 free GPUs that is Ready. */
void give_plain_node(struct gt_cache *cache, const char *name);

struct gt_cache *new_cache(const struct gt_cache_spec *spec);
struct gt_cluster_node cluster_node(struct gt_cache *cache, const char *name);
struct gt_cache_pod *pod_of(struct gt_cache *cache, const char *name);
/* The GPUs that are in use by the pod, or assumed for it, on a node. */
uint64_t gpus_of(struct gt_cache *cache, const char *node, const char *pod);
uint64_t refused(struct gt_cache *cache);

#define TOPOLOGY(...)  (&(struct world_topology){__VA_ARGS__})
#define NODE(...)      (&(struct world_node){__VA_ARGS__})
#define SUPERNODE(...) (&(struct world_supernode){__VA_ARGS__})
#define POD(...)       (&(struct world_pod){__VA_ARGS__})
