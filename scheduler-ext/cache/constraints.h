/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_CACHE_CONSTRAINTS_H
#define GPUTOPO_CACHE_CONSTRAINTS_H

#include "scheduler-ext/cache/cache_internal.h"

/* Where a pod may run, as its spec says it: everything in one block, texts at its end. */

enum constraint_operator {
    CONSTRAINT_IN,
    CONSTRAINT_NOT_IN,
    CONSTRAINT_EXISTS,
    CONSTRAINT_DOES_NOT_EXIST,
    CONSTRAINT_GT,
    CONSTRAINT_LT,
    CONSTRAINT_NEVER
};

struct constraint_expression {
    const char *key;
    enum constraint_operator how; /* CONSTRAINT_NEVER: one that makes no sense, and holds nowhere */
    bool is_name;                 /* of a field: the node's name */
    uint32_t first_value, value_count;
};

struct constraint_term { /* all its expressions must hold; one without any holds nowhere */
    uint32_t first, count;
};

struct constraint_toleration {
    const char *key, *value, *effect; /* NULL: any */
    bool exists;                      /* whatever the value */
};

struct pod_constraints {
    uint32_t refs, hash;
    const char *text; /* what it was made of: equal texts share one */
    struct constraint_expression *expressions;
    const char **values;
    struct constraint_term *terms;
    struct constraint_toleration *tolerations;
    uint32_t selector_count; /* the first expressions: nodeSelector */
    uint32_t term_count, toleration_count;
    bool has_terms; /* one of them must hold */
};

bool gt_cache_tolerates(const struct pod_constraints *constraints, const struct cache_taint *taint);

#endif
