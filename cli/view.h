/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>
#include <stdint.h>

#include "api/supernode.h"
#include "scheduler-ext/picture/picture.h"

/*
 * Makes the picture of a cluster from its custom resources, for `gputopo cluster` and `gputopo supernodes`.
 * Objects are added one by one; some hundred bytes are kept of each node. cli_view_finish() then joins, sorts
 * and counts. An invalid object is named in `problems` and left out.
 */
enum { CLI_VIEW_MAX = 1 << 22, CLI_STALE_S = 15 * 60 };

/* What a cluster file has about a node and the picture has not. */
struct cli_view_node {
    uint32_t supernode; /* its index in the picture; GT_NONE: in none */
    uint32_t wiring;    /* index of its wiring in `wirings`; GT_NONE: not known */
    char *topology;     /* its JSON, of the first node of a wiring; else NULL */
    uint64_t slow;      /* GPUs that are slow or suspect */
    int64_t observed;   /* Unix time, 0: not known */
};

struct cli_view_supernode {
    cJSON *json; /* that `object` borrows from */
    struct gt_supernode_object object;
};

struct cli_view {
    struct gt_picture picture;             /* when finished */
    struct cli_view_node *nodes;           /* [source of a node] */
    struct cli_view_supernode *supernodes; /* [source of a supernode] */
    char **problems;
    uint32_t problem_count;
    bool keep_topology; /* for a cluster file */

    /* private */
    uint32_t supernode_problems; /* how many problems are about supernodes; these come first */
    uint32_t wiring_count, text_count;
    uint64_t *wirings; /* digests of nodes' weights; nodes with equal digests are wired alike */
    char **texts;      /* of the picture */
    bool failed;       /* no memory, or more than CLI_VIEW_MAX of something */
};

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology);
void cli_view_done(struct cli_view *view);
#define cli_auto_view __attribute__((cleanup(cli_view_done)))

/* Callbacks for struct cli_api_list; `arg` is the view. Clear: forgets what was added, since the list begins
 * again. Supernodes must be added before nodes. */
void cli_view_clear_nodes(void *arg);
void cli_view_clear_supernodes(void *arg);
void cli_view_add_node(void *arg, cJSON *object); /* a NodeGPUTopology */
void cli_view_add_supernode(void *arg, cJSON *object);
/* Takes over the object, and the JSON that it borrows its texts from; NULL: they live as long as the view. */
void cli_view_add_object(struct cli_view *view, cJSON *json, struct gt_supernode_object *object);

/* Adds a node as it is to be shown; the view takes over `more`. False where the view has failed. */
bool cli_view_append(struct cli_view *view, const struct gt_picture_node *node, struct cli_view_node *more);

/* To be called once, when all objects are added. */
int cli_view_finish(struct cli_view *view, struct gt_err **err);

void cli_view_problem(struct cli_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The job that a pod belongs to, guessed from its name: the name without the number or random letters that
 * controllers append. Writes this name into `to`. */
void cli_job_of_pod(const char *pod, char *to, size_t size);

/* A copy of the text that lives as long as the view; "" without memory. */
const char *cli_view_keep(struct cli_view *view, const char *text);

/* Grows the array so that it has room for one element more. NULL: it stays as it is, and the view has failed.
 */
void *cli_view_grown(struct cli_view *view, void *array, uint32_t count, size_t size);

/* The output formats of a finished view. */
struct cli_screen {
    unsigned width; /* characters of a line, 0: no limit */
    bool color;
};
/* Which nodes the table shows; sums are always of all. */
enum cli_nodes { CLI_NODES_ALL, CLI_NODES_FREE, CLI_NODES_WRONG, CLI_NODES_NONE };
struct cli_table_part {
    enum cli_nodes nodes;
    const char *supernode; /* only this one and those below it; NULL: all */
};
/* -ENOENT: there is no such supernode. */
int cli_view_table(const struct gt_picture *picture, const struct cli_table_part *shown,
                   const struct cli_screen *screen, struct gt_buf *to, struct gt_err **err);
void cli_view_supernodes(const struct cli_view *view, const struct cli_screen *screen, struct gt_buf *to);
void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to);
void cli_view_json(const struct cli_view *view, struct gt_buf *to);
