/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_VIEW_H
#define GPUTOPO_CLI_VIEW_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "base/buf.h"
#include "topology/model/node.h"

/*
 * A cluster as its custom resources tell it, for `gputopo cluster` and `gputopo supernodes`. Objects are
 * handed in one by one and not kept: of a node stay some hundred bytes. cli_view_finish() then joins, sorts
 * and counts. What makes no sense is named in `problems` and left out; the rest goes on.
 */
#define CLI_NONE UINT32_MAX

enum { CLI_VIEW_MAX = 1 << 17, CLI_STALE_S = 15 * 60 };

enum cli_node_state {
    CLI_NODE_GOOD,
    CLI_NODE_SILENT,   /* a supernode names it, but it has no NodeGPUTopology or that has no status yet */
    CLI_NODE_NONSENSE, /* its object cannot be read */
};

struct cli_node {
    char *name;
    enum cli_node_state state;
    uint32_t supernode; /* of tier 1, CLI_NONE: in none */
    unsigned gpus;
    uint64_t free, used, ill; /* free and used exclude each other; ill ones may be used, never free */
    uint64_t unsure;          /* GPUs whose health is not known, free or not */
    bool free_known, stale;
    int64_t observed; /* Unix time, 0: not told */
    char *product;    /* of the first GPU */
    char *trouble;    /* what is not as it should be, one line; "" nothing */
    uint32_t first_pod, pod_count;
    uint32_t wiring;
    char *topology; /* its JSON where that is kept, else NULL */
};

struct cli_pod {
    char *name; /* namespace/name */
    uint32_t node, group;
    uint64_t mask;
};

/* Pods that belong together as far as their names show: see cli_job_of_pod(). By GPUs, most first. */
struct cli_group {
    char *name;
    uint32_t pods, gpus;
};

struct cli_counts {
    uint32_t nodes, gpus, free, used, ill; /* a GPU that is ill and used counts as ill */
    uint32_t free_unsure;                  /* of the free ones, those whose health is not known */
};

struct cli_supernode {
    char *name, *parent_name;
    unsigned tier;
    uint32_t parent;                           /* CLI_NONE: none */
    char source[16];                           /* "config", "label", "report"; "" not told */
    int links;                                 /* all up: 1, some down: 0, not known: -1 */
    char *trouble;                             /* its conflict, "" none */
    struct cli_counts counts;                  /* with all below it */
    uint32_t told_nodes, told_gpus, told_free; /* by its own status; CLI_NONE: not told */
    uint32_t first_node, node_count;           /* its own, in the order of the nodes */
    uint32_t depth;                            /* 0: without a parent */
    char **members;
    uint32_t member_count;
};

/* Nodes whose GPUs are wired alike: equal weights. */
struct cli_wiring {
    unsigned n;
    uint64_t hash;
    uint16_t *weights; /* n x n */
};

struct cli_view {
    int64_t now;        /* Unix time */
    bool keep_topology; /* nodes are to keep their JSON, as far as a cluster file has room for it */
    bool shorthand;     /* it had not: only the first node of each wiring keeps it */

    struct cli_node *nodes; /* when finished: by supernode, then by name; those in none last */
    uint32_t node_count;
    struct cli_supernode *supernodes; /* when finished: parents before children, else by name */
    uint32_t supernode_count, tier1_count;
    struct cli_pod *pods; /* when finished: by node, then by GPU */
    uint32_t pod_count;
    struct cli_group *groups;
    uint32_t group_count;
    struct cli_counts counts;
    unsigned domain; /* length of the domain that all nodes' names end with */
    char **problems;
    uint32_t problem_count;

    /* private */
    uint32_t supernode_problems; /* of the problems, those of supernodes, which come first */
    uint32_t node_room, supernode_room, pod_room, problem_room, wiring_count, wiring_room;
    struct cli_wiring *wirings;
    size_t topology_bytes, topology_values;
    bool failed; /* memory, or more than CLI_VIEW_MAX of something */
};

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology);
void cli_view_done(struct cli_view *view);
#define cli_auto_view __attribute__((cleanup(cli_view_done)))

/* Forget what was added so far: a list begins anew. Supernodes are added before nodes. */
void cli_view_clear_nodes(struct cli_view *view);
void cli_view_clear_supernodes(struct cli_view *view);

/* A NodeGPUTopology, a Supernode. */
void cli_view_add_node(struct cli_view *view, const cJSON *object);
void cli_view_add_supernode(struct cli_view *view, const cJSON *object);

/* Once, when all are added. */
int cli_view_finish(struct cli_view *view, struct gt_err **err);

void cli_view_problem(struct cli_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The job that a pod belongs to as far as its name tells: without the number or the random letters that
 * controllers put behind it. Writes into `to` what stands for all its pods. */
void cli_job_of_pod(const char *pod, char *to, size_t size);

/* The name of a node without the domain that all have, at most so many characters long (0: no limit); what is
 * too long loses its middle, since nodes differ at the end. */
void cli_view_label(const struct cli_view *view, const struct cli_node *node, unsigned characters, char *to,
                    size_t size);

/* Adds a node to the numbers. */
void cli_counts_add(struct cli_counts *to, const struct cli_node *node);

/* "3 h ago" of a number of seconds. */
void cli_age_text(int64_t seconds, char *to, size_t size);

/* The other side: what each format makes of a finished view. */
struct cli_paper {
    unsigned width; /* characters of a line, 0: no limit */
    bool color;
};
void cli_view_table(const struct cli_view *view, const struct cli_paper *paper, struct gt_buf *to);
void cli_view_supernodes(const struct cli_view *view, const struct cli_paper *paper, struct gt_buf *to);
void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to);
void cli_view_json(const struct cli_view *view, struct gt_buf *to);
void cli_view_svg(const struct cli_view *view, struct gt_buf *to);

#endif
