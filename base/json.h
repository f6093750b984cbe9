/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <cjson/cJSON.h>

#include "base/buf.h"
#include "base/cleanup.h"

/* Whole JSON documents as trees of cJSON. Reading their members: json_get.h. Writing text without a tree:
 * json_write.h. */

enum { GT_JSON_MAX = 16 << 20, GT_JSON_VALUES_MAX = 1000000 }; /* largest JSON document that is read */

/* Parses a JSON document of at most GT_JSON_MAX bytes. The error names `source`, the line and the column.
 * The caller owns *ret (cJSON_Delete). */
int gt_json_parse(const char *text, size_t len, const char *source, cJSON **ret, struct gt_err **err);

/* The same with other limits than GT_JSON_MAX bytes and GT_JSON_VALUES_MAX values: for files that people read
 * on their own machine. The tree takes at least 64 bytes for each value. */
struct gt_json_limits {
    size_t bytes;
    unsigned values;
};
int gt_json_parse_within(const char *text, size_t len, const char *source,
                         const struct gt_json_limits *limits, cJSON **ret, struct gt_err **err);

/*
 * The line, from 1, on which the value at `path` ("nodes[3].topology.links[2].a") begins in a text that
 * gt_json_parse() has accepted. Where the path does not exist, the line of the last value on it that exists:
 * for a missing key, its object. "" is the document itself.
 */
unsigned gt_json_line(const char *text, size_t len, const char *path);

/* Indented JSON text of any document, with keys in the order they were added and a newline at the end. */
void gt_json_print(const cJSON *json, struct gt_buf *to);
/* The same of a text that base/json_write.h wrote. */
void gt_json_indent(const struct gt_buf *text, struct gt_buf *to);

/* Adds a tree to what base/json_write.h writes; `key` as there. NULL is null. */
void gt_json_add_tree(struct gt_buf *to, const char *key, const cJSON *json);

/* Takes the item over, into an object as member `key`, or at the end of an array (`key` NULL). False: there
 * is no memory, or was none for the item (NULL); it is freed. */
bool gt_json_attach(cJSON *to, const char *key, cJSON *item);

GT_DEFINE_CLEANUP(cJSON *, cJSON_Delete)
#define gt_auto_json GT_CLEANUP(cJSON_Delete)
