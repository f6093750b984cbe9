/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_FEED_SUITS_H
#define GPUTOPO_FEED_SUITS_H

#include "scheduler-ext/feed/feed_internal.h"

/* Where a pod may run, as its spec says it: everything in one block, texts at its end. */

enum feed_operator { FEED_IN, FEED_NOT_IN, FEED_EXISTS, FEED_DOES_NOT_EXIST, FEED_GT, FEED_LT, FEED_NEVER };

struct feed_expression {
    const char *key;
    enum feed_operator how; /* FEED_NEVER: one that makes no sense, and holds nowhere */
    bool is_name;           /* of a field: the node's name */
    uint32_t first_value, value_count;
};

struct feed_term { /* all its expressions must hold; one without any holds nowhere */
    uint32_t first, count;
};

struct feed_toleration {
    const char *key, *value, *effect; /* NULL: any */
    bool exists;                      /* whatever the value */
};

struct feed_suit {
    uint32_t refs, hash;
    const char *text; /* what it was made of: equal texts share one */
    struct feed_expression *expressions;
    const char **values;
    struct feed_term *terms;
    struct feed_toleration *tolerations;
    uint32_t selector_count; /* the first expressions: nodeSelector */
    uint32_t term_count, toleration_count;
    bool has_terms; /* one of them must hold */
};

#endif
