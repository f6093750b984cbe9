/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/config.h"

/*
 * Exec plugins: programs that give the credential of a kubeconfig's user, by the protocol
 * client.authentication.k8s.io v1 and v1beta1.
 */
enum { GT_KUBE_EXEC_OUTPUT_MAX = 1 << 20, GT_KUBE_EXEC_TEXTS_MAX = 1024 };

/* Checks the member `exec` of a user. -EINVAL, or -EOPNOTSUPP for another version of the protocol. */
int gt_kube_exec_check(const cJSON *exec, struct gt_err **err);

/*
 * Runs config->exec and puts what it gives into the configuration, in place of what it gave before. Blocks
 * until it ends, at most `limit_ms` (0: one minute, or five where it may ask a person): only for programs
 * that have nothing else to do. It gets standard error, and standard input if that is a terminal.
 */
int gt_kube_exec_run(struct gt_kube_config *config, unsigned limit_ms, struct gt_err **err);

/* Reads what a plugin of this version wrote. */
int gt_kube_exec_read(const char *text, size_t len, const char *api_version, struct gt_kube_config *to,
                      struct gt_err **err);
