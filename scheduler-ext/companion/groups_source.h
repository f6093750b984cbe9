/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "base/loop.h"
#include "kube/client.h"
#include "scheduler-ext/companion/groups.h"

/*
 * The source of the operator's groups: the key GT_GROUPS_KEY of a ConfigMap, which is watched, or a file,
 * which is read every 10 seconds. Where the text cannot be read as a whole the last groups stay, and
 * gt_groups_source_error() says what is wrong. A missing ConfigMap or file means that there are no groups.
 */
struct gt_groups_source;

#define GT_GROUPS_KEY "supernodes.yaml"

/* `what`: the name of a ConfigMap in `namespace_`, or a path if it has a slash; NULL: there are never groups.
 * Both texts must outlive the source. `on_change` is called when the groups or the error change, and when
 * they become known. */
int gt_groups_source_new(struct gt_loop *loop, struct gt_kube *kube, const char *namespace_, const char *what,
                         void (*on_change)(void *arg), void *arg, struct gt_groups_source **ret,
                         struct gt_err **err);
void gt_groups_source_free(struct gt_groups_source *source);
GT_DEFINE_CLEANUP(struct gt_groups_source *, gt_groups_source_free)

/* Whether it was read once, with any result. */
bool gt_groups_source_is_known(const struct gt_groups_source *source);
/* NULL: none, or none that could be read so far (then there is an error). */
const struct gt_groups *gt_groups_source_get(const struct gt_groups_source *source);
/* "" where all is well. */
const char *gt_groups_source_error(const struct gt_groups_source *source);
bool gt_groups_source_is_configmap(const struct gt_groups_source *source);
