/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_GROUPS_SOURCE_H
#define GPUTOPO_COMPANION_GROUPS_SOURCE_H

#include "base/loop.h"
#include "kube/client.h"
#include "scheduler-ext/companion/groups.h"

/*
 * Where the operator's groups come from: the key GT_GROUPS_KEY of a ConfigMap, which is followed, or a file,
 * which is read every 10 seconds. What cannot be read as a whole changes nothing: the groups before it stay,
 * and gt_groups_source_error() says what is wrong. A ConfigMap that is not there says that there are no
 * groups, and so does a file that is not there.
 */
struct gt_groups_source;

#define GT_GROUPS_KEY "supernodes.yaml"

/* `what`: the name of a ConfigMap in `namespace_`, a path where it has a slash, NULL: no groups, ever. Both
 * live as long as the source. `on_change`: groups, error or knowledge of them. */
int gt_groups_source_new(struct gt_loop *loop, struct gt_kube *kube, const char *namespace_, const char *what,
                         void (*on_change)(void *arg), void *arg, struct gt_groups_source **ret,
                         struct gt_err **err);
void gt_groups_source_free(struct gt_groups_source *source);
GT_DEFINE_CLEANUP(struct gt_groups_source *, gt_groups_source_free)

/* Whether it has been looked at once, with whatever result. */
bool gt_groups_source_is_known(const struct gt_groups_source *source);
/* NULL: none, or none that could be read so far (then there is an error). */
const struct gt_groups *gt_groups_source_get(const struct gt_groups_source *source);
/* "" where all is well. */
const char *gt_groups_source_error(const struct gt_groups_source *source);
bool gt_groups_source_is_configmap(const struct gt_groups_source *source);

#endif
