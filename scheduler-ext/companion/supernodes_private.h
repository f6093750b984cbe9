/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/cleanup.h"
#include "base/loop.h"
#include "kube/client.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "scheduler-ext/cache/cache.h"
#include "scheduler-ext/companion/apply_set.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/view.h"
#include "scheduler-ext/supernodes/join.h"

/*
 * The source of something that the operator configures: a key of a ConfigMap, which is watched, or a file,
 * which is read every 10 seconds. Where the text cannot be read as a whole the last value stays, and
 * gt_config_source_error() says what is wrong. A missing ConfigMap or file means that there is none.
 */
struct gt_config_source;

#define GT_GROUPS_KEY "supernodes.yaml"

struct gt_config_kind {
    const char *what;        /* for the log */
    const char *const *keys; /* of the ConfigMap, the first that is there; ends with NULL */
    size_t text_max;         /* of a file */
    int (*read)(const char *text, void **ret, struct gt_err **err);
    void (*free)(void *value);
    void (*on_change)(void *arg); /* the value or the error change, or become known */
};

/* `what`: the name of a ConfigMap in the companion's namespace, or a path if it has a slash, which must
 * outlive the source; NULL: there is never a value. */
int gt_config_source_new(const struct gt_part_env *env, const char *what, const struct gt_config_kind *kind,
                         void *arg, struct gt_config_source **ret, struct gt_err **err);
void gt_config_source_free(struct gt_config_source *source);
GT_DEFINE_CLEANUP(struct gt_config_source *, gt_config_source_free)

/* Whether it was read once, with any result. */
bool gt_config_source_is_known(const struct gt_config_source *source);
/* NULL: none, or none that could be read so far (then there is an error). */
const void *gt_config_source_get(const struct gt_config_source *source);
/* "" where all is well. */
const char *gt_config_source_error(const struct gt_config_source *source);
bool gt_config_source_is_configmap(const struct gt_config_source *source);

struct gt_supernodes_stats {
    uint64_t joins;
    double seconds; /* of all joins */
    uint32_t supernodes[GT_JOIN_TIERS_MAX + 1];
    uint32_t problems[GT_JOIN_PROBLEM_KINDS];
    uint32_t nodes, nodes_silent, nodes_placed;
};

enum { GT_PROBLEMS_MAX = 1 << 13 }; /* of a round; more are counted only */

/* The part's state. */
struct gt_supernodes {
    const struct gt_part_env *env;
    struct gt_config_source *source, *network;
    struct gt_view_network kept;
    struct gt_apply_set *set, *hypernodes, *nodefeatures; /* the last two are NULL where not wanted */
    struct gt_servers *servers;
    bool knows_servers; /* it has learned the holders that were published before this replica led */
    /* Digests of the problems of the last round, sorted, and of this one: each is reported once. */
    uint64_t before[GT_PROBLEMS_MAX], now[GT_PROBLEMS_MAX];
    uint32_t before_count, now_count;
    struct gt_source *timer;
    uint64_t last_ms;
    bool is_due, leads;
    bool reported_old_label;
    struct gt_supernodes_stats stats;
};

/* supernodes_events.c: logs the present problems that the last round did not have, and makes Events of them.
 * `view` NULL: of the configuration alone. */
void gt_supernodes_events(struct gt_supernodes *supernodes, const struct gt_view *view,
                          const struct gt_projected *projected);

/* supernodes_metrics.c */
void gt_supernodes_metrics(const void *self, struct gt_buf *to);
