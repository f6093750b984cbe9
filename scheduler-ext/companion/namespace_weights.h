/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdint.h>

#include "kube/client.h"

/*
 * Weights of namespaces in the order of waiting jobs, from the ConfigMap gputopo-namespace-weights
 * (docs/reference/placement-controller.md):
 *
 *     data: {ml: "3", default: "1"}
 *
 * A value that is not a number from 1 to 1000 is ignored and logged.
 */
struct gt_namespace_weights;

/* `namespace_` must outlive the weights. Without the ConfigMap all are equal. */
int gt_namespace_weights_new(struct gt_kube *kube, const char *namespace_, void (*on_change)(void *arg),
                             void *arg, struct gt_namespace_weights **ret, struct gt_err **err);
void gt_namespace_weights_free(struct gt_namespace_weights *weights);

/* The weight of a namespace, else that of the key "default", else 1. */
uint32_t gt_namespace_weight(const struct gt_namespace_weights *weights, const char *namespace_);
