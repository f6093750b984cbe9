/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/text.h"
#include "kube/base64.h"
#include "kube/yaml.h"

enum { KUBECONFIG_MAX = 1 << 20, FILES_MAX = 16 };

struct file {
    char *path;
    cJSON *root; /* a mapping, or null */
};

struct files {
    struct file files[FILES_MAX];
    unsigned count;
};

/* A node together with the file that it stands in: paths are relative to that. */
struct config_place {
    struct file *file;
    const cJSON *node;
};

static void files_done(struct files *files)
{
    for (unsigned i = 0; i < files->count; i++) {
        cJSON_Delete(files->files[i].root);
        free(files->files[i].path);
    }
}
#define gt_auto_files __attribute__((cleanup(files_done)))

/* The text of a member; NULL where it is absent, null or empty. */
static const char *text(struct config_place in, const char *key)
{
    const char *value = cJSON_GetStringValue(gt_get(in.node, key));
    return value && *value ? value : NULL;
}

static int parse(const char *path, struct files *files, struct gt_err **err)
{
    gt_auto_free char *data = NULL;
    size_t len;
    GT_TRY_WRAP(gt_file_read(AT_FDCWD, path, KUBECONFIG_MAX, &data, &len, err), err, "kubeconfig");
    struct file *file = &files->files[files->count];
    GT_TRY_WRAP(gt_yaml_read(data, len, &file->root, err), err, "kubeconfig %s", path);
    files->count++;
    file->path = strdup(path);
    GT_NEED(file->path, err, "kubeconfig %s", path);
    if (!cJSON_IsObject(file->root) && !cJSON_IsNull(file->root))
        return gt_fail(err, EINVAL, "kubeconfig %s: not a mapping", path);
    return 0;
}

static int parse_all(const char *paths, struct files *files, struct gt_err **err)
{
    gt_auto_err struct gt_err *missing = NULL;
    for (const char *p = paths; *p;) {
        size_t len = strcspn(p, ":");
        gt_auto_free char *path = strndup(p, len);
        GT_NEED(path, err, "kubeconfig");
        p += len + (p[len] == ':');
        if (!len)
            continue;
        if (files->count == FILES_MAX)
            return gt_fail(err, E2BIG, "kubeconfig: more than %d files", FILES_MAX);
        gt_auto_err struct gt_err *error = NULL;
        int r = parse(path, files, &error);
        if (r == -ENOENT && !missing)
            missing = gt_steal(error);
        else if (r < 0 && r != -ENOENT)
            return gt_err_pass(err, &error);
    }
    if (files->count)
        return 0;
    return missing ? gt_err_pass(err, &missing)
                   : gt_fail(err, EINVAL, "kubeconfig: '%s' names no file", paths);
}

/* The mapping `inner` of the first entry called `name` in the lists `list` of all files. */
static int kubeconfig_find(struct files *files, const char *list, const char *inner, const char *name,
                           struct config_place *ret, struct gt_err **err)
{
    for (unsigned i = 0; i < files->count; i++) {
        struct file *file = &files->files[i];
        for (const cJSON *entry = gt_first(gt_get(file->root, list)); entry; entry = entry->next) {
            const char *its = text((struct config_place){file, entry}, "name");
            if (!its || strcmp(its, name) != 0)
                continue;
            const cJSON *node = gt_get(entry, inner);
            if (!cJSON_IsObject(node))
                return gt_fail(err, EINVAL, "kubeconfig %s: %s '%s' is empty", file->path, inner, name);
            *ret = (struct config_place){file, node};
            return 0;
        }
    }
    return gt_fail(err, EINVAL, "kubeconfig %s: there is no %s '%s'", files->files[0].path, inner, name);
}

static int kubeconfig_refuse(struct config_place in, const char *what, const char *const *keys,
                             struct gt_err **err)
{
    for (; *keys; keys++) {
        const char *value = text(in, *keys);
        const cJSON *node = gt_get(in.node, *keys);
        bool set = value ? strcmp(value, "false") != 0 : cJSON_IsObject(node) || cJSON_IsArray(node);
        if (set)
            return gt_fail(err, EOPNOTSUPP, "kubeconfig %s: %s: %s is not supported", in.file->path, what,
                           *keys);
    }
    return 0;
}

/* A path in a kubeconfig is relative to the folder of the kubeconfig. */
static int kubeconfig_copy_path(struct config_place in, const char *key, char **ret, struct gt_err **err)
{
    const char *value = text(in, key);
    const char *slash = strrchr(in.file->path, '/');
    if (!value || *value == '/' || !slash)
        return gt_text_dup(value, "kubeconfig", ret, err);
    return gt_text_format("kubeconfig", ret, err, "%.*s/%s", (int)(slash - in.file->path), in.file->path,
                          value);
}

/* KEY-data (base64) where it is there, else the file KEY. */
static int copy_pem(struct config_place in, const char *key, char **ret_file, char **ret_data,
                    struct gt_err **err)
{
    gt_auto_free char *data_key = NULL;
    GT_TRY(gt_text_format("kubeconfig", &data_key, err, "%s-data", key));
    const char *encoded = text(in, data_key);
    if (!encoded)
        return kubeconfig_copy_path(in, key, ret_file, err);
    gt_auto_buf struct gt_buf decoded = GT_BUF(KUBECONFIG_MAX);
    GT_TRY_WRAP(gt_base64_decode(encoded, &decoded, err), err, "kubeconfig %s: %s", in.file->path, data_key);
    char *data = gt_buf_take(&decoded);
    GT_NEED(data, err, "kubeconfig");
    *ret_data = data;
    return 0;
}

static int kubeconfig_read_cluster(struct config_place in, struct gt_kube_config *to, struct gt_err **err)
{
    static const char *const refused[] = {"insecure-skip-tls-verify", "proxy-url", "tls-server-name", NULL};
    GT_TRY(kubeconfig_refuse(in, "cluster", refused, err));
    if (!text(in, "server"))
        return gt_fail(err, EINVAL, "kubeconfig %s: the cluster has no server", in.file->path);
    GT_TRY(gt_text_dup(text(in, "server"), "kubeconfig", &to->server, err));
    GT_TRY_WRAP(gt_kube_config_check_server(to->server, err), err, "kubeconfig %s", in.file->path);
    for (size_t n = strlen(to->server); to->server[n - 1] == '/'; n--)
        to->server[n - 1] = '\0';
    return copy_pem(in, "certificate-authority", &to->ca_file, &to->ca_data, err);
}

/* What the cluster wants its exec plugins to know. */
static const cJSON *exec_extension(struct config_place cluster)
{
    for (const cJSON *entry = gt_first(gt_get(cluster.node, "extensions")); entry; entry = entry->next) {
        if (strcmp(gt_get_string(entry, "name"), "client.authentication.k8s.io/exec") == 0)
            return gt_get(entry, "extension");
    }
    return NULL;
}

/* A command with a slash is relative to the folder of the kubeconfig; others are looked for in $PATH. */
static int read_exec(struct config_place in, struct config_place cluster, struct gt_kube_config *to,
                     struct gt_err **err)
{
    struct config_place exec = {in.file, gt_get(in.node, "exec")};
    const char *command = text(exec, "command");
    if (!exec.node)
        return 0;
    GT_TRY_WRAP(gt_kube_exec_check(exec.node, err), err, "kubeconfig %s: exec", in.file->path);
    gt_auto_free char *path = NULL;
    GT_TRY(strchr(command, '/') ? kubeconfig_copy_path(exec, "command", &path, err)
                                : gt_text_dup(command, "kubeconfig", &path, err));
    gt_auto_json cJSON *all = cJSON_Duplicate(exec.node, true);
    gt_auto_json cJSON *resolved = cJSON_CreateString(path);
    const cJSON *extension = exec_extension(cluster);
    GT_NEED(all && resolved, err, "kubeconfig");
    cJSON_ReplaceItemInObjectCaseSensitive(all, "command", gt_steal(resolved));
    cJSON_DeleteItemFromObjectCaseSensitive(all, "config");
    GT_NEED(gt_json_attach(all, "config", extension ? cJSON_Duplicate(extension, true) : cJSON_CreateNull()),
            err, "kubeconfig");
    to->exec = gt_steal(all);
    return 0;
}

static int read_user(struct config_place in, struct config_place cluster, struct gt_kube_config *to,
                     struct gt_err **err)
{
    static const char *const refused[] = {"username",  "password",      "as", "as-uid",
                                          "as-groups", "as-user-extra", NULL};
    GT_TRY(kubeconfig_refuse(in, "user", refused, err));
    if (gt_get(in.node, "auth-provider"))
        return gt_fail(
            err, EOPNOTSUPP,
            "kubeconfig %s: user: auth-provider is not supported: use exec with a plugin, for OIDC "
            "kubelogin (kubectl oidc-login get-token)",
            in.file->path);
    GT_TRY(copy_pem(in, "client-certificate", &to->certificate_file, &to->certificate_data, err));
    GT_TRY(copy_pem(in, "client-key", &to->key_file, &to->key_data, err));
    GT_TRY(kubeconfig_copy_path(in, "tokenFile", &to->token_file, err));
    GT_TRY(to->token_file ? 0 : gt_text_dup(text(in, "token"), "kubeconfig", &to->token, err));
    if (!(to->certificate_file || to->certificate_data) != !(to->key_file || to->key_data))
        return gt_fail(err, EINVAL, "kubeconfig %s: the user has a certificate or a key, but not both",
                       in.file->path);
    return gt_kube_config_has_credential(to) ? 0 : read_exec(in, cluster, to, err);
}

int gt_kube_config_file(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err)
{
    gt_auto_files struct files files = {0};
    GT_TRY(parse_all(paths, &files, err));
    for (unsigned i = 0; i < files.count && !context; i++) {
        struct file *file = &files.files[i];
        context = text((struct config_place){file, file->root}, "current-context");
    }
    if (!context)
        return gt_fail(err, EINVAL, "kubeconfig %s: no current-context, and no context was named",
                       files.files[0].path);
    struct config_place in;
    GT_TRY(kubeconfig_find(&files, "contexts", "context", context, &in, err));
    const char *cluster = text(in, "cluster"), *user = text(in, "user");
    if (!cluster)
        return gt_fail(err, EINVAL, "kubeconfig %s: context '%s' names no cluster", in.file->path, context);
    gt_auto_kube_config struct gt_kube_config config = {0};
    struct config_place found_cluster = {0}, found = {0};
    GT_TRY(gt_text_dup(text(in, "namespace"), "kubeconfig", &config.namespace_, err));
    GT_TRY(kubeconfig_find(&files, "clusters", "cluster", cluster, &found_cluster, err));
    GT_TRY(kubeconfig_read_cluster(found_cluster, &config, err));
    GT_TRY(user ? kubeconfig_find(&files, "users", "user", user, &found, err) : 0);
    if (user && !gt_kube_config_is_plain(&config)) /* as kubectl: no credential without TLS */
        GT_TRY(read_user(found, found_cluster, &config, err));
    *ret = config;
    config = (struct gt_kube_config){0};
    return 0;
}

int gt_kube_config_find(const char *paths, const char *context, struct gt_kube_config *ret,
                        struct gt_err **err)
{
    if (!paths || !*paths)
        paths = getenv("KUBECONFIG");
    if (paths && *paths)
        return gt_kube_config_file(paths, context, ret, err);
    const char *host = getenv("KUBERNETES_SERVICE_HOST");
    if (!context && host && *host && access(GT_KUBE_SERVICE_ACCOUNT "/token", R_OK) == 0)
        return gt_kube_config_pod(NULL, ret, err);
    const char *home = getenv("HOME");
    gt_auto_free char *path = NULL;
    GT_TRY(gt_text_format("kubeconfig", &path, err, "%s/.kube/config", home ? home : ""));
    int r = gt_kube_config_file(path, context, ret, err);
    if (r == -ENOENT)
        gt_wrap(err, "no cluster is known: neither --kubeconfig nor $KUBECONFIG is set, this is no pod");
    return r;
}
