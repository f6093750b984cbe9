/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "api/pod.h"

/* Where a pod may run according to its spec: node selector, required node affinity and tolerations, compiled.
 * Everything is in one block of memory, with the texts at its end. */

enum gt_rule_operator {
    GT_RULE_IN,
    GT_RULE_NOT_IN,
    GT_RULE_EXISTS,
    GT_RULE_DOES_NOT_EXIST,
    GT_RULE_GT,
    GT_RULE_LT,
    GT_RULE_NEVER
};

struct gt_rule_expression {
    const char *key;
    enum gt_rule_operator how; /* GT_RULE_NEVER: it is invalid, and true for no node */
    bool is_name;              /* about the node's name, not about a label */
    uint32_t first_value, value_count;
};

struct gt_rule_term { /* true if all its expressions are; without any it is never true */
    uint32_t first, count;
};

struct gt_rule_toleration {
    const char *key, *value, *effect; /* NULL: any */
    bool exists;                      /* with any value */
};

struct gt_pod_rules {
    uint32_t refs, hash; /* for the user of these rules */
    const char *text;    /* the source: gt_pod_where_text() */
    struct gt_rule_expression *expressions;
    const char **values;
    struct gt_rule_term *terms;
    struct gt_rule_toleration *tolerations;
    uint32_t selector_count; /* number of expressions of nodeSelector, which are the first ones */
    uint32_t term_count, toleration_count;
    bool has_terms; /* one of the terms must be true */
};

/*
 * The three parts as one text, which the caller frees; pods with the same text may run on the same nodes.
 * *ret is NULL if there are none. -EINVAL if one is invalid, or the text would be longer than 64 KiB.
 */
int gt_pod_where_text(const struct gt_pod_where *where, char **ret);

/* Compiles them; the caller frees *ret with free(). *ret is NULL if they exclude no node. -EINVAL if they are
 * invalid or too many. */
int gt_pod_rules_read(const struct gt_pod_where *where, const char *text, struct gt_pod_rules **ret);
