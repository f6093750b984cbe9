/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "agent/usage.h"
#include "api/node_gpu_topology.h"
#include "base/time_text.h"
#include "deviceplugin/inventory.h"

/* The conditions of a NodeGPUTopology. */
struct gt_agent_condition {
    enum gt_condition_status status;
    const char *reason; /* a literal, one word */
    char message[1024];
    char since[GT_TIME_TEXT_SIZE]; /* when the status last changed, RFC 3339; "" not known yet */
};

/* The data that they are computed from. */
struct gt_condition_facts {
    const struct gt_inventory *inventory; /* not NULL */
    const char *scan_error;               /* why the last scan failed, "": it did not */
    bool has_plugin, registered;
    bool by_claims;                 /* the driver of claims is registered, not the device plugin */
    const char *registration_error; /* "" none since the last registration */
    const char *shared_why;         /* a sign that the vendor's plugin shares the GPUs, NULL: there is none */
    bool usage_known, usage_stale;  /* as in agent/usage.h */
    const char *usage_error;        /* why the kubelet did not answer the last time, "": it did */
    const char *usage_at;           /* when it last answered, RFC 3339; "" never */
};

/* The body of the Node's condition, which is the object's GPUsHealthy. */
void gt_publish_write_condition(const char *node_name, const char *uid,
                                const struct gt_agent_condition *condition, struct gt_buf *to);

/* Computes them again; if a status is different than before, it has changed at `now`. */
void gt_conditions_update(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                          const struct gt_condition_facts *facts, const char *now);

/* Takes lastTransitionTime of each from the object that an earlier agent wrote. Conditions that have been
 * computed already stay unchanged. */
void gt_conditions_adopt(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                         const cJSON *object);

/*
 * The bodies of what is published: complete server-side apply requests as JSON. `usage` says which GPUs are
 * in use; if that is not known, all healthy GPUs count as free. See docs/reference/publishing.md.
 */

/* Scores and losses of one class and one free mask. They are computed once, since above 16 GPUs a search with
 * a time limit may find another result the second time. Begin with {0}; end with gt_publish_scores_done(). */
struct gt_publish_scores {
    struct gt_class *class;
    uint64_t free;
    unsigned count;                                         /* of free GPUs */
    uint32_t score[GT_GPUS_MAX + 1], loss[GT_GPUS_MAX + 1]; /* [k] */
    struct gt_hami_maps maps;
};
void gt_publish_scores_update(struct gt_publish_scores *scores, const struct gt_inventory *inventory,
                              const struct gt_usage *usage);
void gt_publish_scores_done(struct gt_publish_scores *scores);

/* `at` NULL: without observedAt. */
void gt_publish_write_wiring(const char *node_name, const struct gt_node *node,
                             const struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                             const char *at, struct gt_buf *to);

/* False, with nothing written, if it is not known which GPUs are in use. */
bool gt_publish_write_usage(const char *node_name, const struct gt_usage *usage,
                            const struct gt_publish_scores *scores, struct gt_buf *to);

/* Losses and scores for every number of GPUs up to `capacity`; an empty set of annotations if that is 0. */
void gt_publish_write_annotations(const char *node_name, const char *uid,
                                  const struct gt_publish_scores *scores, unsigned capacity,
                                  struct gt_buf *to);

enum gt_publish_label { GT_LABEL_FAMILY, GT_LABEL_MEMORY, GT_LABEL_PRODUCT, GT_PUBLISH_LABELS_COUNT };

/* "metax-tech.com/gpu.product"... */
const char *gt_publish_label_key(enum gt_publish_label label);

/* Labels whose value is the same for all GPUs of the node, without those in the mask `left_out`. */
void gt_publish_write_labels(const char *node_name, const char *uid, const struct gt_node *node,
                             unsigned left_out, struct gt_buf *to);

/* Which labels a refusal (409) names, as a mask. */
unsigned gt_publish_labels_in_conflict(const cJSON *status);
