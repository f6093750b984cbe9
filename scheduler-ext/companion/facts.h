/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_FACTS_H
#define GPUTOPO_COMPANION_FACTS_H

#include <cjson/cJSON.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

/*
 * What is kept of Nodes and NodeGPUTopologies: what supernodes are made from, and no more. Objects may say
 * anything, also nonsense that a hand has put there: what is of a wrong type or out of range counts as not
 * told. Names are unique; a fact goes when both its objects are gone.
 */
enum { GT_FACT_REMOTES_MAX = 128, GT_FACT_TEXT_MAX = 256, GT_FACT_GPUS_MAX = 64 };

enum gt_fact_links { GT_FACT_LINKS_UNKNOWN, GT_FACT_LINKS_DOWN, GT_FACT_LINKS_UP };

struct gt_fact {
    char *name;
    bool has_node, has_topology;
    /* of the Node */
    char *uid, *label; /* NULL: none */
    /* of the NodeGPUTopology */
    char *server_uuid; /* NULL: not told */
    char **remotes;
    uint32_t remote_count;
    int gpus, free; /* -1: not told */
    enum gt_fact_links links;
    char *gpu_text; /* JSON: [{"attributes":{"index":"0",...}},...]; NULL: not kept */
};

/* Keys of labels stand in one text, with commas between them: the first that a node has counts. */
enum { GT_LABEL_KEY_SIZE = 320 };

/* Takes the next key off `*keys`, which is NULL after the last. False: it is longer than a key may be. */
bool gt_label_key_next(const char **keys, char ret[static GT_LABEL_KEY_SIZE]);

struct gt_facts;

/* `label_keys` NULL: labels are not read; borrowed. `with_gpus`: gpu_text is kept. */
int gt_facts_new(const char *label_keys, bool with_gpus, struct gt_facts **ret, struct gt_err **err);
void gt_facts_free(struct gt_facts *facts);
GT_DEFINE_CLEANUP(struct gt_facts *, gt_facts_free)
#define gt_auto_facts GT_CLEANUP(gt_facts_free)

/* An object as it is now, or the name of one that is gone. True: something that is kept is another now.
 * Without memory nothing changes. */
bool gt_facts_node(struct gt_facts *facts, const cJSON *object);
bool gt_facts_node_gone(struct gt_facts *facts, const char *name);
bool gt_facts_topology(struct gt_facts *facts, const cJSON *object);
bool gt_facts_topology_gone(struct gt_facts *facts, const char *name);

/* The nodes that have a Node object, by name; the array is the caller's to free(), what it points to is not.
 * NULL without memory. */
const struct gt_fact **gt_facts_list(const struct gt_facts *facts, uint32_t *ret_count);

#endif
