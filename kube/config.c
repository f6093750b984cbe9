/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>

#include "base/file.h"
#include "base/text.h"

enum { NAMESPACE_MAX = 256, PORT_MAX = 65535, SERVER_MAX = 1024 };

static const char http[] = "http://";

void gt_kube_config_done(struct gt_kube_config *config)
{
    free(config->server);
    free(config->namespace_);
    free(config->ca_file);
    free(config->ca_data);
    free(config->certificate_file);
    free(config->certificate_data);
    free(config->key_file);
    free(config->key_data);
    free(config->token);
    free(config->token_file);
    cJSON_Delete(config->exec);
    *config = (struct gt_kube_config){0};
}

bool gt_kube_config_has_credential(const struct gt_kube_config *config)
{
    return config->token || config->token_file || config->certificate_data || config->certificate_file;
}

bool gt_kube_config_is_plain(const struct gt_kube_config *config)
{
    return strncmp(config->server, http, sizeof(http) - 1) == 0;
}

/* Whether what begins with a host is on this machine: localhost, 127.0.0.0/8 or [::1]. */
static bool is_loopback(const char *host)
{
    char name[INET_ADDRSTRLEN];
    struct in_addr address;
    size_t len = strcspn(host, ":/");
    if (strncmp(host, "[::1]", 5) == 0)
        return !host[5] || host[5] == ':' || host[5] == '/';
    if (len >= sizeof(name))
        return false;
    memcpy(name, host, len);
    name[len] = '\0';
    return strcmp(name, "localhost") == 0 ||
           (inet_pton(AF_INET, name, &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
}

int gt_kube_config_check_server(const char *server, struct gt_err **err)
{
    static const char https[] = "https://";
    bool plain = strncmp(server, http, sizeof(http) - 1) == 0;
    if (!plain && strncmp(server, https, sizeof(https) - 1) != 0)
        return gt_fail(err, EINVAL, "server %s: not an https:// address", server);
    if (strlen(server) > SERVER_MAX)
        return gt_fail(err, EINVAL, "server: longer than %d bytes", SERVER_MAX);
    const char *host = server + (plain ? sizeof(http) : sizeof(https)) - 1;
    if (plain && !is_loopback(host))
        return gt_fail(err, EINVAL,
                       "server %s: without TLS only this machine is asked (localhost, 127.0.0.0/8, [::1])",
                       server);
    if (!*host || *host == '/' || *host == ':')
        return gt_fail(err, EINVAL, "server %s: no host in it", server);
    for (const char *c = host; *c; c++)
        if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("@?#\\\"", *c))
            return gt_fail(err, EINVAL, "server %s: '%c' does not belong in it", server, *c);
    return 0;
}

static int pod_server(char **ret, struct gt_err **err)
{
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    const char *port = getenv("KUBERNETES_SERVICE_PORT");
    if (!host || !*host || !port || !*port)
        return gt_fail(err, ENOENT,
                       "not in a pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set");
    uint64_t number;
    if (!gt_text_to_unsigned(port, PORT_MAX, &number) || !number)
        return gt_fail(err, EINVAL, "KUBERNETES_SERVICE_PORT: '%s' is not a port", port);
    bool brackets = strchr(host, ':') && *host != '[';
    gt_auto_free char *server = NULL;
    GT_TRY(gt_text_format("server", &server, err, "https://%s%s%s:%u", brackets ? "[" : "", host,
                          brackets ? "]" : "", (unsigned)number));
    GT_TRY_WRAP(gt_kube_config_check_server(server, err), err, "KUBERNETES_SERVICE_HOST");
    *ret = gt_steal(server);
    return 0;
}

static int file_below(const char *dir, const char *name, char **ret, struct gt_err **err)
{
    gt_auto_free char *path = NULL;
    GT_TRY(gt_text_format(name, &path, err, "%s/%s", dir, name));
    if (access(path, R_OK) < 0)
        return gt_fail_sys(err, errno, "service account: %s", path);
    *ret = gt_steal(path);
    return 0;
}

int gt_kube_config_pod(const char *dir, struct gt_kube_config *ret, struct gt_err **err)
{
    if (!dir)
        dir = GT_KUBE_SERVICE_ACCOUNT;
    gt_auto_kube_config struct gt_kube_config config = {0};
    GT_TRY(pod_server(&config.server, err));
    GT_TRY(file_below(dir, "ca.crt", &config.ca_file, err));
    GT_TRY(file_below(dir, "token", &config.token_file, err));
    gt_auto_close int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    char name[NAMESPACE_MAX];
    if (fd >= 0 && gt_file_read_attribute(fd, "namespace", name, sizeof(name)) > 0) {
        config.namespace_ = strdup(name);
        GT_NEED(config.namespace_, err, "namespace");
    }
    *ret = config;
    config = (struct gt_kube_config){0};
    return 0;
}
