/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_API_POD_RULES_H
#define GPUTOPO_API_POD_RULES_H

#include "api/pod.h"

/* Where a pod may run, as its spec says it: node selector, required node affinity and tolerations, compiled.
 * Everything lies in one block, with the texts at its end. */

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
    enum gt_rule_operator how; /* GT_RULE_NEVER: one that makes no sense, and holds nowhere */
    bool is_name;              /* of a field: the node's name */
    uint32_t first_value, value_count;
};

struct gt_rule_term { /* all its expressions must hold; one without any holds nowhere */
    uint32_t first, count;
};

struct gt_rule_toleration {
    const char *key, *value, *effect; /* NULL: any */
    bool exists;                      /* whatever the value */
};

struct gt_pod_rules {
    uint32_t refs, hash; /* its holder's */
    const char *text;    /* of what it was made: gt_pod_where_text() */
    struct gt_rule_expression *expressions;
    const char **values;
    struct gt_rule_term *terms;
    struct gt_rule_toleration *tolerations;
    uint32_t selector_count; /* the first expressions: nodeSelector */
    uint32_t term_count, toleration_count;
    bool has_terms; /* one of them must hold */
};

/*
 * The three as one text, the caller's (free); pods with the same text may run on the same nodes. NULL: they
 * say nothing. -EINVAL where one has a wrong form, or the text would be longer than 64 KiB.
 */
int gt_pod_where_text(const struct gt_pod_where *where, char **ret);

/* Compiles them. NULL: they rule nothing out. -EINVAL where they make no sense, or are too many. The caller
 * frees it (free). */
int gt_pod_rules_read(const struct gt_pod_where *where, const char *text, struct gt_pod_rules **ret);

#endif
