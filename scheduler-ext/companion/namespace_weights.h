/* SPDX-License-Identifier: Apache-2.0 */
#ifndef GPUTOPO_COMPANION_NAMESPACE_WEIGHTS_H
#define GPUTOPO_COMPANION_NAMESPACE_WEIGHTS_H

#include <stdint.h>

#include "kube/client.h"

/*
 * Weights of namespaces in the order of waiting jobs, from a ConfigMap
 * (docs/reference/placement-controller.md):
 *
 *     data: {ml: "3", default: "1"}
 *
 * A value that is not a number from 1 to 1000 is ignored and logged.
 */
struct gt_namespace_weights;

/* `name` NULL: no ConfigMap: all weights are equal. It and `namespace_` must outlive the weights. */
int gt_namespace_weights_new(struct gt_kube *kube, const char *namespace_, const char *name,
                             void (*on_change)(void *arg), void *arg, struct gt_namespace_weights **ret,
                             struct gt_err **err);
void gt_namespace_weights_free(struct gt_namespace_weights *weights);

/* The weight of a namespace, else that of the key "default", else 1. */
uint32_t gt_namespace_weight(const struct gt_namespace_weights *weights, const char *namespace_);

#endif
