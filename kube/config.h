/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

#include <stdbool.h>
#include <stdint.h>

#include <cjson/cJSON.h>

#include "base/err.h"
/*
 * The address of the API server, and how to authenticate. All texts are owned; NULL if there is none. At most
 * one of token and token_file is set. A *_data text is a PEM text in place of the *_file beside it. The
 * server's certificate is always verified: against ca_data or ca_file, else against the system's authorities.
 * A server without TLS is on this machine, and gets no credential.
 */
struct gt_kube_config {
    char *server;     /* "https://10.96.0.1:443", no slash at the end; may have a path */
    char *namespace_; /* of the pod or of the context; NULL if there is none */
    char *ca_file, *ca_data;
    char *certificate_file, *certificate_data;
    char *key_file, *key_data;
    char *token, *token_file;
    /* The program that gives the token or certificate and key, as in the kubeconfig; NULL: none. */
    cJSON *exec;
    int64_t expires_s; /* Unix time at which what it gave expires; 0: not known */
};

#define GT_KUBE_SERVICE_ACCOUNT "/var/run/secrets/kubernetes.io/serviceaccount"

/*
 * The configuration of a pod: $KUBERNETES_SERVICE_HOST and _PORT, and ca.crt, token and namespace in `dir`
 * (NULL: GT_KUBE_SERVICE_ACCOUNT). -ENOENT if this is not a pod.
 */
int gt_kube_config_pod(const char *dir, struct gt_kube_config *ret, struct gt_err **err);

void gt_kube_config_done(struct gt_kube_config *config);
#define gt_auto_kube_config __attribute__((cleanup(gt_kube_config_done)))

bool gt_kube_config_has_credential(const struct gt_kube_config *config);

/* Whether the server is asked without TLS. */
bool gt_kube_config_is_plain(const struct gt_kube_config *config);

/* Checks a server's URL: https (http to an address of this machine only), a host, no user, query or fragment.
 * -EINVAL otherwise. */
int gt_kube_config_check_server(const char *server, struct gt_err **err);

/*
 * A kubeconfig: `paths` is one file or several joined by ':', merged as kubectl does (the first file that
 * sets a value is used; missing files are ignored if at least one exists). `context` NULL: the current one.
 * What would make the connection less safe (insecure-skip-tls-verify, http to another machine...) is refused
 * with an error that names it. A program that gives the credential is not run, see gt_kube_exec_run().
 */
int gt_kube_config_file(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err);

/* Reads `paths` if given, else $KUBECONFIG, else the pod's service account if this is a pod, else
 * ~/.kube/config. */
int gt_kube_config_find(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err);

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
