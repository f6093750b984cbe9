/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/buf.h"
#include "scheduler-ext/core/cluster.h"

/*
 * The description of a cluster for people, with its words and colours, for `gputopo cluster` and the cluster
 * page. `cli` makes it from custom resources, `serve` from the cache; they own texts and arrays.
 */

/* States of a GPU. The companion uses those up to GT_PICTURE_UNHEALTHY. */
enum gt_picture_state {
    GT_PICTURE_FREE,
    GT_PICTURE_NOT_KNOWN, /* free, and its health is not known */
    GT_PICTURE_USED,
    GT_PICTURE_USED_BY_OTHERS,
    GT_PICTURE_ASSUMED,
    GT_PICTURE_UNHEALTHY,
    GT_PICTURE_UNHEALTHY_AND_USED,
    GT_PICTURE_UNKNOWN,
    GT_PICTURE_STATES,
};

struct gt_picture_style {
    const char *name;          /* in JSON */
    char symbol;               /* in a terminal */
    const char *meaning;       /* in legends */
    const char *screen, *edge; /* colours in SVG; a job's colour replaces the paper */
};
extern const struct gt_picture_style gt_picture_styles[GT_PICTURE_STATES];

/* Colours of the first jobs, by their number; further ones have the colour of the state. */
enum { GT_PICTURE_COLORS = 12 };
extern const char *const gt_picture_job_colors[GT_PICTURE_COLORS];

/* Flags of a node. */
enum {
    GT_PICTURE_ELIGIBLE = 1 << 0,
    GT_PICTURE_READY = 1 << 1,
    GT_PICTURE_CORDONED = 1 << 2,
    GT_PICTURE_STALE = 1 << 3,
    GT_PICTURE_LINKS_DOWN = 1 << 4,
    GT_PICTURE_LEFT_ALONE = 1 << 5,
    GT_PICTURE_RESERVED = 1 << 6,
    GT_PICTURE_SPARE = 1 << 7,
    GT_PICTURE_OUTLIVED = 1 << 8,
};

struct gt_picture_pod {
    const char *namespace_, *name;
    const char *job;       /* its name or key; NULL: not known */
    uint32_t job_number;   /* index in the picture's jobs */
    struct gt_place place; /* node: index in the picture's nodes */
    uint32_t unit, rank;   /* GT_NONE: not planned */
};

struct gt_picture_node {
    const char *name, *product;
    const char *note; /* problems, one line; "": none */
    bool known;       /* false: only its name and the note are known */
    bool use_known;
    unsigned gpus;
    unsigned flags;                    /* only from the companion: `gputopo cluster` does not read Nodes */
    uint64_t free, used, assumed;      /* exclude each other */
    uint64_t unhealthy;                /* may be used, never free */
    uint64_t isolated;                 /* of them: without a fault; only from the companion */
    uint64_t unknown;                  /* GPUs whose health is not known, free or not */
    const struct gt_picture_pod *pods; /* that have GPUs, or for which they are assumed */
    uint32_t pod_count;
    uint32_t source; /* the maker's */
};

struct gt_picture_counts {
    uint32_t nodes, gpus, free, used, unhealthy; /* a GPU that is unhealthy and used counts as unhealthy */
    uint32_t free_unknown;                       /* of the free ones, those whose health is not known */
};

struct gt_picture_supernode {
    const char *name;
    const char *note; /* as of a node */
    unsigned tier;
    bool links_down;
    uint32_t parent;                 /* index in the list; GT_NONE: none */
    uint32_t depth;                  /* 0: without a parent */
    uint32_t first_node, node_count; /* its own */
    struct gt_picture_counts counts; /* with all below it */
    uint32_t source;                 /* the maker's */
};

struct gt_picture_job {
    const char *name;
    uint32_t pods, gpus;
    uint32_t source; /* the maker's */
};

struct gt_picture {
    int64_t now;                             /* Unix time */
    struct gt_picture_node *nodes;           /* by supernode, then by name; those in none last */
    struct gt_picture_supernode *supernodes; /* parents before children, else by name */
    struct gt_picture_pod *pods;             /* by node, then by GPU */
    struct gt_picture_job *jobs;             /* by GPUs, most first */
    uint32_t node_count, supernode_count, tier1_count, pod_count, job_count;
    struct gt_picture_counts counts;
    unsigned domain; /* length of the domain that all nodes' names end with */
};

/* The state of a GPU, and its pod (NULL: none); ret_pod may be NULL. */
enum gt_picture_state gt_picture_gpu(const struct gt_picture_node *node, unsigned gpu,
                                     const struct gt_picture_pod **ret_pod);

/* Which states occur in the picture. */
void gt_picture_states(const struct gt_picture *picture, bool seen[static GT_PICTURE_STATES]);

/* Appends to the note of a node, with a comma between; a text that does not fit is left out. */
void gt_picture_add_note(struct gt_buf *note, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* Appends the words for its flags, and that the health of GPUs is not known. */
void gt_picture_add_flags(struct gt_buf *note, const struct gt_picture_node *node);

/* Adds a node to the numbers. */
void gt_picture_count(struct gt_picture_counts *to, const struct gt_picture_node *node);

/* Writes the name of a node without the domain that all share, at most `characters` long (0: no limit); the
 * middle of a longer one is cut out, since names differ at the end. */
void gt_picture_label(const struct gt_picture *picture, const struct gt_picture_node *node,
                      unsigned characters, char *to, size_t size);

/* A member with an ID, null for GT_NONE. */
void gt_picture_add_id(struct gt_buf *to, const char *key, uint32_t id);

/* Append one object each, as in /debug/model (docs/reference/debug-endpoints.md). `supernode`, `parent`:
 * names, or NULL; `observed`: when its agent published last, RFC 3339, or NULL; `nodes`: names of the
 * node_count of the supernode. */
void gt_picture_node_json(const struct gt_picture_node *node, const char *supernode, const char *observed,
                          struct gt_buf *to);
void gt_picture_supernode_json(const struct gt_picture_supernode *supernode, const char *parent,
                               const char *const nodes[], struct gt_buf *to);

/* Appends the picture as SVG. */
void gt_picture_svg(const struct gt_picture *picture, struct gt_buf *to);
