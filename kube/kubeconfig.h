/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include "kube/config.h"

/*
 * A kubeconfig: `paths` is one file or several joined by ':', merged as kubectl does (the first file that
 * sets a value is used; missing files are ignored if at least one exists). `context` NULL: the current one.
 * What would make the connection less safe (insecure-skip-tls-verify, http to another machine...) is refused
 * with an error that names it. A program that gives the credential is not run, see kube/exec.h.
 */
int gt_kube_config_file(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err);

/* Reads `paths` if given, else $KUBECONFIG, else the pod's service account if this is a pod, else
 * ~/.kube/config. */
int gt_kube_config_find(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err);
