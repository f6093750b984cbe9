/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_SERVE_QUERY_H
#define GPUTOPO_SERVE_QUERY_H

#include <stdbool.h>
#include <stddef.h>

/* Gets the first value of a key in the query of a URL, with decoded escapes. False (and ret is "") where
 * there is none, where it is longer than `size` allows, or is not valid text. `query` may be NULL. */
bool gt_query_get(const char *query, const char *key, char *ret, size_t size);

#endif
