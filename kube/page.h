/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "base/json_arena.h"

/* The metadata of one page of a list. */
struct gt_kube_page {
    char *resource_version;
    char *next; /* the `continue` token; NULL at the last page */
    size_t items;
};

/* An object of the page, freed after the call. Returning false stops the reading. */
typedef bool gt_kube_page_item(void *arg, cJSON *item);

/*
 * Reads a list object by object, so that only one of them is in memory as a tree. 0; -EBADMSG if it is not a
 * valid list (objects before the error were reported); -ECANCELED if the callback returned false.
 */
int gt_kube_page_read(struct gt_json_arena *arena, const char *text, size_t len, gt_kube_page_item *item,
                      void *arg, struct gt_kube_page *ret, struct gt_err **err);

void gt_kube_page_done(struct gt_kube_page *page);
