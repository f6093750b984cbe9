/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

/* The file of `gputopo bundle`, which `gputopo replay` reads (docs/reference/bundle.md): a tar archive. */
enum { BUNDLE_MAX = 50 * 1000 * 1000, BUNDLE_NAME_SIZE = 256 };

#define BUNDLE_DECISIONS "/decisions.jsonl" /* of each companion's pod, below companion/POD */
#define BUNDLE_MODEL     "companion/model.json"
#define BUNDLE_STATE     "companion/state.json" /* of the page */
#define BUNDLE_PAGE      "page/"

/* Appends a file; false where its name is too long. The archive ends with bundle_tar_end(). */
bool bundle_tar_add(struct gt_buf *to, const char *name, const char *data, size_t len, uint64_t unix_s);
void bundle_tar_end(struct gt_buf *to);

struct bundle_file {
    char name[BUNDLE_NAME_SIZE];
    const char *data; /* within the archive */
    size_t len;
};
/* The next file; *at is 0 at first. 0: no more. -EINVAL: it is no such archive. */
int bundle_tar_next(const char *data, size_t len, size_t *at, struct bundle_file *ret, struct gt_err **err);

/* Names and addresses that are replaced by numbers, anonymous.c. */
struct bundle_names;
int bundle_names_new(struct bundle_names **ret, struct gt_err **err);
void bundle_names_free(struct bundle_names *names);
/* Learns the names in JSON documents, a line each. */
int bundle_names_learn(struct bundle_names *names, const char *text, size_t len, struct gt_err **err);
/* To be called when all are known. */
void bundle_names_sort(struct bundle_names *names);
/* `json`: keys stay as they are. */
void bundle_names_replace(const struct bundle_names *names, bool json, const char *text, size_t len,
                          struct gt_buf *to);
/* The same of decisions, so that they are made again in the same words. */
void bundle_names_replace_decisions(const struct bundle_names *names, const char *text, size_t len,
                                    struct gt_buf *to);

/* One HTML file of the page's files and its state that are in the archive; replay_page.c. */
int bundle_page(const char *data, size_t len, struct gt_buf *to, struct gt_err **err);
