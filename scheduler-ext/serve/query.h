/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_QUERY_H
#define GPUTOPO_SERVE_QUERY_H

#include <stdbool.h>
#include <stddef.h>

/* The value of a key in the query of a URL, its escapes decoded; the first one counts. False where it has
 * none (ret is "" then), one that is longer than `size` allows, or one that is no text. `query` may be NULL.
 */
bool gt_query_get(const char *query, const char *key, char *ret, size_t size);

#endif
