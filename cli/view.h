/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CLI_VIEW_H
#define GPUTOPO_CLI_VIEW_H

#include <cjson/cJSON.h>
#include <stdint.h>

#include "api/supernode.h"
#include "scheduler-ext/picture/picture.h"

/*
 * Makes the picture of a cluster from its custom resources, for `gputopo cluster` and `gputopo supernodes`.
 * Objects are handed in one by one; of a node stay some hundred bytes. cli_view_finish() then joins, sorts
 * and counts. What is invalid is named in `problems` and left out; the rest goes on.
 */
enum { CLI_VIEW_MAX = 1 << 22, CLI_STALE_S = 15 * 60 };

/* What a cluster file has of a node, and the picture does not. */
struct cli_view_node {
    uint32_t supernode; /* in the picture, GT_NONE: in none */
    uint32_t wiring;    /* GT_NONE: not known */
    char *topology;     /* its JSON where that is kept, else NULL */
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
    bool keep_topology; /* nodes are to keep their JSON, as far as a cluster file has room for it */
    bool shorthand;     /* it had not: only the first node of each wiring keeps it */

    /* private */
    uint32_t supernode_problems; /* of the problems, those of supernodes, which come first */
    uint32_t wiring_count, text_count;
    uint64_t *wirings; /* digests of the weights of nodes: those of equal ones are wired alike */
    char **texts;      /* of the picture */
    size_t topology_bytes, topology_values;
    bool failed; /* memory, or more than CLI_VIEW_MAX of something */
};

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology);
void cli_view_done(struct cli_view *view);
#define cli_auto_view __attribute__((cleanup(cli_view_done)))

/* Of a struct cli_view, as a list calls them. Clear: forget what was added so far, since a list begins again.
 * Supernodes are added before nodes. */
void cli_view_clear_nodes(void *arg);
void cli_view_clear_supernodes(void *arg);
void cli_view_add_node(void *arg, cJSON *object); /* a NodeGPUTopology */
void cli_view_add_supernode(void *arg, cJSON *object);

/* A node as it is to be shown; `more` is the view's then. False where the view has failed. */
bool cli_view_append(struct cli_view *view, const struct gt_picture_node *node, struct cli_view_node *more);

/* Once, when all are added. */
int cli_view_finish(struct cli_view *view, struct gt_err **err);

void cli_view_problem(struct cli_view *view, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The job that a pod belongs to, guessed from its name: without the number or the random letters that
 * controllers put behind it. Writes into `to` what stands for all its pods. */
void cli_job_of_pod(const char *pod, char *to, size_t size);

/* A text that stays as long as the view does; "" without memory. */
const char *cli_view_keep(struct cli_view *view, const char *text);

/* The array with room for one element more than it has; NULL: it stays as it is, and the view has failed. */
void *cli_view_grown(struct cli_view *view, void *array, uint32_t count, size_t size);

/* The other side: what each format makes of a finished view. */
struct cli_screen {
    unsigned width; /* characters of a line, 0: no limit */
    bool color;
};
void cli_view_table(const struct gt_picture *picture, const struct cli_screen *screen, struct gt_buf *to);
void cli_view_supernodes(const struct cli_view *view, const struct cli_screen *screen, struct gt_buf *to);
void cli_view_supernodes_json(const struct cli_view *view, struct gt_buf *to);
void cli_view_json(const struct cli_view *view, struct gt_buf *to);

#endif
