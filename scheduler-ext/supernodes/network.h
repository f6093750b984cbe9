/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "base/table.h"

struct gt_err;

/*
 * The network between nodes as somebody described it: nodes and switches, and the cables between them. All
 * sources come to this one form; gt_network_place() makes tiers of it. No I/O.
 *
 * A switch has a tier where its source says so: 1 for what joins nodes into a supernode (a block of Slurm, a
 * column "supernode"), 2 for the switches that nodes are connected to, and so on. Otherwise (0) the cables
 * say it.
 */
enum {
    GT_NETWORK_TEXT_MAX = 32 << 20,
    GT_NETWORK_POINTS_MAX = 1 << 18,
    GT_NETWORK_CABLES_MAX = 1 << 19,
    GT_NETWORK_NAME_MAX = 253,
    GT_NETWORK_NOTES_MAX = 64,
    GT_NETWORK_TIERS_MAX = 8,
    GT_NETWORK_LEAF_TIER = 2,
};

#define GT_NETWORK_NONE UINT32_MAX

struct gt_network_point {
    const char *key;  /* unique among nodes, and among the switches of a tier */
    const char *name; /* what people call it: the key, where it has no other */
    bool is_switch;
    unsigned tier;
    uint32_t number;
};

struct gt_network_cable {
    uint32_t low, high; /* points; `high` is a switch, `low` a node or a switch */
    const char *port;   /* of `low`; "" not known */
    const char *high_port;
};

struct gt_network {
    struct gt_network_point *points;
    uint32_t point_count, point_capacity;
    struct gt_network_cable *cables;
    uint32_t cable_count, cable_capacity;
    struct gt_table index; /* of points, by key */
    struct gt_network_text *texts;
    char *notes[GT_NETWORK_NOTES_MAX]; /* a sentence for each part that cannot be used; more are dropped */
    uint32_t note_count;
};

int gt_network_new(struct gt_network **ret, struct gt_err **err);
void gt_network_free(struct gt_network *network);
GT_DEFINE_CLEANUP(struct gt_network *, gt_network_free)
#define gt_auto_network GT_CLEANUP(gt_network_free)

/* The point of that key, which is added where there is none; *ret is its number. A point keeps the first
 * name. -E2BIG beyond the limits, here and for cables. */
int gt_network_node(struct gt_network *network, const char *key, uint32_t *ret, struct gt_err **err);
int gt_network_switch(struct gt_network *network, unsigned tier, const char *key, const char *name,
                      uint32_t *ret, struct gt_err **err);
/* GT_NETWORK_NONE: there is none. */
uint32_t gt_network_find(const struct gt_network *network, bool is_switch, unsigned tier, const char *key);
/* Texts are copied. The same cable may be added twice. */
int gt_network_connect(struct gt_network *network, uint32_t low, const char *port, uint32_t high,
                       const char *high_port, struct gt_err **err);
void gt_network_note(struct gt_network *network, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* Adds the points and cables of another one. */
int gt_network_add(struct gt_network *network, const struct gt_network *other, struct gt_err **err);

/*
 * Adds what a text says. The form is seen from its first line:
 *
 *     node,leaf,spine,hall           a table (network_table.c)
 *     Switch 41 "S-b8ce..." # ...    what ibnetdiscover prints (network_ib.c)
 *     SwitchName=... Nodes=...       Slurm's topology.conf, tree or block (network_slurm.c)
 *     - topology: ...                Slurm's topology.yaml (network_slurm.c)
 *
 * What cannot be used is noted and left out. -EINVAL: no known form; -E2BIG.
 */
int gt_network_read(struct gt_network *network, const char *text, size_t len, struct gt_err **err);
int gt_network_read_ib(struct gt_network *network, char *text, struct gt_err **err);
int gt_network_read_slurm(struct gt_network *network, char *text, struct gt_err **err);
int gt_network_read_slurm_yaml(struct gt_network *network, char *text, struct gt_err **err);

/* Takes the next line from *text, without its end, and moves *text behind it; NULL: there are no more.
 * Changes the text. */
char *gt_network_line(char **text);

/* The domains that the cables make: sets of nodes that are connected alike. */
struct gt_network_domain {
    const char *name; /* of its first switch by name; borrowed from the network */
    const char *key;
    unsigned tier;
    uint32_t parent; /* domain, GT_NETWORK_NONE */
};

struct gt_network_problem {
    uint32_t node; /* GT_NETWORK_NONE: none */
    char text[256];
};

enum { GT_NETWORK_PROBLEMS_MAX = 1024 };

struct gt_network_places {
    struct gt_network_domain *domains;
    uint32_t domain_count;
    uint32_t *domain_of; /* [node]: the lowest domain, GT_NETWORK_NONE */
    struct gt_network_problem *problems;
    uint32_t problem_count; /* more are dropped */
};

/*
 * Nodes are joined whose ports are at the same switches: with one switch for each port (a rail-optimised
 * network) these switches are one domain. A node whose ports are at switches of several domains is in that
 * of more than half of them, or in none. Domains are joined in the same way by the switches above.
 *
 * `names`: the cluster's nodes. A node of the network is one of them where the names are equal, or equal up
 * to the first dot and nothing else is. Others are left out.
 */
int gt_network_place(const struct gt_network *network, const char *const *names, uint32_t name_count,
                     struct gt_network_places **ret, struct gt_err **err);
void gt_network_places_free(struct gt_network_places *places);
GT_DEFINE_CLEANUP(struct gt_network_places *, gt_network_places_free)
#define gt_auto_network_places GT_CLEANUP(gt_network_places_free)
