/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "scheduler-ext/companion/part.h"

/*
 * Where the part "placement" is off, nobody would remove our gates from pods that have one: of jobs that
 * waited when it was switched off, or set by users. While this replica leads, it removes them, and says so in
 * the pod's condition and in Events about pod and owner.
 */
struct gt_gate_release;

/* `env` must outlive it. */
int gt_gate_release_new(const struct gt_part_env *env, struct gt_gate_release **ret, struct gt_err **err);
/* NULL is allowed. */
void gt_gate_release_free(struct gt_gate_release *gates);
void gt_gate_release_lead(struct gt_gate_release *gates, bool leads);
