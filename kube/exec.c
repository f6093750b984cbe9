/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/config.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "base/json.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/process.h"
#include "base/text.h"
#include "base/time_text.h"
#include "kube/base64.h"
#include "kube/internal.h"

enum {
    LOGIN_MS = 60000,
    LOGIN_BY_PERSON_MS = 300000, /* in a browser, with a second factor */
    EXEC_INFO_MAX = 4 << 20,
    HINT_SHOWN = 500,
};

#define EXEC_INFO "KUBERNETES_EXEC_INFO"

/* ---- what the kubeconfig says ---- */

static int exec_check_texts(const cJSON *list, const char *what, const char *member, struct gt_err **err)
{
    if (list && !cJSON_IsArray(list))
        return gt_fail(err, EINVAL, "%s is not a list", what);
    if (cJSON_GetArraySize(list) > GT_KUBE_EXEC_TEXTS_MAX)
        return gt_fail(err, E2BIG, "more than %d %s", GT_KUBE_EXEC_TEXTS_MAX, what);
    for (const cJSON *entry = gt_first(list); entry; entry = entry->next) {
        const char *name = cJSON_GetStringValue(member ? gt_get(entry, member) : entry);
        if (!name || (member && (!*name || strchr(name, '='))))
            return gt_fail(err, EINVAL, "%s: an entry has no %s", what, member ? member : "text");
    }
    return 0;
}

int gt_kube_exec_check(const cJSON *exec, struct gt_err **err)
{
    static const char group[] = "client.authentication.k8s.io/";
    const char *version = gt_get_string(exec, "apiVersion"), *mode = gt_get_string(exec, "interactiveMode");
    bool v1 = strcmp(version, "client.authentication.k8s.io/v1") == 0;
    if (!*gt_get_string(exec, "command"))
        return gt_fail(err, EINVAL, "there is no command");
    if (!v1 && strcmp(version, "client.authentication.k8s.io/v1beta1") != 0)
        return gt_fail(err, EOPNOTSUPP, "apiVersion '%.64s' is not supported: it must be %sv1 or v1beta1",
                       version, group);
    if (v1 && !*mode)
        return gt_fail(err, EINVAL, "there is no interactiveMode, which v1 needs");
    if (*mode && strcmp(mode, "Never") != 0 && strcmp(mode, "IfAvailable") != 0 &&
        strcmp(mode, "Always") != 0)
        return gt_fail(err, EINVAL, "interactiveMode: expected Never, IfAvailable or Always, is '%.64s'",
                       mode);
    GT_TRY(exec_check_texts(gt_get(exec, "args"), "args", NULL, err));
    return exec_check_texts(gt_get(exec, "env"), "env", "name", err);
}

static int is_interactive(const cJSON *exec, struct gt_err **err)
{
    const char *mode = gt_get_string(exec, "interactiveMode");
    bool terminal = isatty(STDIN_FILENO);
    if (strcmp(mode, "Always") == 0 && !terminal)
        return gt_fail(err, ENOTTY, "it needs a terminal as standard input (interactiveMode: Always)");
    return terminal && strcmp(mode, "Never") != 0;
}

/* ---- what the plugin gets ---- */

static int add_cluster(const struct gt_kube_config *config, struct gt_buf *to, struct gt_err **err)
{
    gt_auto_free char *read = NULL;
    const char *ca = config->ca_data;
    if (!ca && config->ca_file) {
        GT_TRY(gt_file_read(AT_FDCWD, config->ca_file, EXEC_INFO_MAX / 4, &read, NULL, err));
        ca = read;
    }
    gt_json_printf(to, "'cluster': {'server': %s", config->server);
    if (ca) {
        gt_auto_buf struct gt_buf encoded = GT_BUF(EXEC_INFO_MAX);
        gt_base64_encode(ca, strlen(ca), &encoded);
        to->failed |= encoded.failed;
        gt_json_add_text_if(to, "certificate-authority-data", encoded.data);
    }
    if (gt_get(config->exec, "config"))
        gt_json_add_tree(to, "config", gt_get(config->exec, "config"));
    gt_json_end(to, '}');
    return 0;
}

/* The variable with the ExecCredential that asks. */
static int write_info(const struct gt_kube_config *config, bool interactive, struct gt_buf *to,
                      struct gt_err **err)
{
    int r = 0;
    gt_buf_puts(to, EXEC_INFO "={");
    gt_json_printf(to, "'kind': 'ExecCredential', 'apiVersion': %s, 'spec': {'interactive': !%d",
                   gt_get_string(config->exec, "apiVersion"), interactive);
    if (strcmp(gt_get_string(config->exec, "provideClusterInfo"), "true") == 0)
        r = add_cluster(config, to, err);
    gt_json_ends(to, "}}");
    return r < 0 ? r : gt_buf_check(to, EXEC_INFO, err);
}

/* Texts for execve(); the buffer is an array of pointers. */
static void add_pointer(struct gt_buf *to, const char *text)
{
    gt_buf_add(to, &text, sizeof(text));
}

static void make_argv(const cJSON *exec, struct gt_buf *to)
{
    const cJSON *entry;
    add_pointer(to, gt_get_string(exec, "command"));
    cJSON_ArrayForEach(entry, gt_get(exec, "args")) add_pointer(to, entry->valuestring);
    add_pointer(to, NULL);
}

static bool is_variable(const char *text, const char *name)
{
    size_t len = strlen(name);
    return strncmp(text, name, len) == 0 && text[len] == '=';
}

/* Whether a variable is set by the kubeconfig, in an entry after `entry`, or is ours. */
static bool is_replaced(const char *name_and_value, const cJSON *entry)
{
    for (; entry; entry = entry->next)
        if (is_variable(name_and_value, gt_get_string(entry, "name")))
            return true;
    return is_variable(name_and_value, EXEC_INFO);
}

/* This process's variables, those of the kubeconfig in their place, and `info`. Owns what `texts` has. */
static int make_env(const cJSON *exec, const char *info, cJSON *texts, struct gt_buf *to, struct gt_err **err)
{
    const cJSON *first = gt_first(gt_get(exec, "env"));
    for (const cJSON *entry = first; entry; entry = entry->next) {
        gt_auto_free char *text = NULL;
        GT_TRY(gt_text_format("env", &text, err, "%s=%s", gt_get_string(entry, "name"),
                              gt_get_string(entry, "value")));
        cJSON *kept = cJSON_CreateString(text);
        GT_NEED(gt_json_attach(texts, NULL, kept), err, "env");
        if (!is_replaced(text, entry->next))
            add_pointer(to, kept->valuestring);
    }
    for (char **variable = environ; *variable; variable++)
        if (!is_replaced(*variable, first))
            add_pointer(to, *variable);
    add_pointer(to, info);
    add_pointer(to, NULL);
    return gt_buf_check(to, "env", err);
}

/* ---- running it ---- */

static int exec_start(const cJSON *exec, bool interactive, unsigned limit_ms, const char *info,
                      struct gt_buf *output, int *ret_status, struct gt_err **err)
{
    gt_auto_buf struct gt_buf argv = GT_BUF(1 << 20), env = GT_BUF(8 << 20);
    gt_auto_json cJSON *texts = cJSON_CreateArray();
    GT_NEED(texts, err, "env");
    make_argv(exec, &argv);
    GT_TRY(make_env(exec, info, texts, &env, err));
    GT_TRY(gt_buf_check(&argv, "args", err));
    const struct gt_child_spec spec = {.program = gt_get_string(exec, "command"),
                                       .search = true,
                                       .argv = (const char *const *)(void *)argv.data,
                                       .env = (const char *const *)(void *)env.data};
    int r = gt_child_run(&spec, interactive, limit_ms, output, ret_status, err);
    const char *hint = gt_get_string(exec, "installHint");
    if (r == -ENOENT && *hint) {
        gt_auto_err struct gt_err *missing = err ? gt_steal(*err) : NULL;
        return gt_fail(err, ENOENT, "%s: %.*s", gt_err_text(missing), HINT_SHOWN, hint);
    }
    return r;
}

static int run_plugin(const struct gt_kube_config *config, unsigned limit_ms, struct gt_buf *output,
                      struct gt_err **err)
{
    gt_auto_buf struct gt_buf info = GT_BUF(EXEC_INFO_MAX);
    int interactive = is_interactive(config->exec, err), status = 0;
    if (interactive < 0)
        return interactive;
    GT_TRY(write_info(config, interactive, &info, err));
    limit_ms = limit_ms ? limit_ms : interactive ? LOGIN_BY_PERSON_MS : LOGIN_MS;
    GT_TRY(exec_start(config->exec, interactive, limit_ms, info.data, output, &status, err));
    if (WIFSIGNALED(status))
        return gt_fail(err, EIO, "it was ended by signal %d", WTERMSIG(status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        return gt_fail(err, EIO, "it ended with code %d", WEXITSTATUS(status));
    return 0;
}

/* ---- what it gives ---- */

static void swap_text(char **a, char **b)
{
    char *kept = *a;
    *a = *b;
    *b = kept;
}

int gt_kube_exec_read(const char *text, size_t len, const char *api_version, struct gt_kube_config *to,
                      struct gt_err **err)
{
    gt_auto_json cJSON *root = NULL;
    GT_TRY(gt_json_parse(text, len, "its output", &root, err));
    const cJSON *status = gt_get(root, "status");
    const char *kind = gt_get_string(root, "kind"), *version = gt_get_string(root, "apiVersion");
    if (strcmp(kind, "ExecCredential") != 0 || strcmp(version, api_version) != 0)
        return gt_fail(err, EINVAL, "it gives '%.64s' of '%.64s' in place of ExecCredential of '%s'", kind,
                       version, api_version);
    const char *token = gt_get_string(status, "token");
    const char *certificate = gt_get_string(status, "clientCertificateData");
    const char *key = gt_get_string(status, "clientKeyData");
    if (!*certificate != !*key)
        return gt_fail(err, EINVAL, "it gives a certificate or a key, but not both");
    if (!*token && !*key)
        return gt_fail(err, EINVAL, "it gives neither a token nor a certificate");
    if (*token && !gt_kube_token_is_whole(token, NULL))
        return gt_fail(err, EINVAL, "its token has white space or control characters in it");
    gt_auto_free char *new_token = *token ? strdup(token) : NULL;
    gt_auto_free char *new_certificate = *certificate ? strdup(certificate) : NULL;
    gt_auto_free char *new_key = *key ? strdup(key) : NULL;
    if ((*token && !new_token) || (*key && (!new_certificate || !new_key)))
        return gt_fail_sys(err, ENOMEM, "its output");
    swap_text(&to->token, &new_token);
    swap_text(&to->certificate_data, &new_certificate);
    swap_text(&to->key_data, &new_key);
    to->expires_s = gt_time_of_text(gt_get_string(status, "expirationTimestamp"));
    return 0;
}

int gt_kube_exec_run(struct gt_kube_config *config, unsigned limit_ms, struct gt_err **err)
{
    gt_auto_buf struct gt_buf output = GT_BUF(GT_KUBE_EXEC_OUTPUT_MAX);
    int r = run_plugin(config, limit_ms, &output, err);
    if (r >= 0)
        r = gt_kube_exec_read(output.data ? output.data : "", output.len,
                              gt_get_string(config->exec, "apiVersion"), config, err);
    return r < 0 ? gt_wrap(err, "exec plugin %s", gt_get_string(config->exec, "command")) : 0;
}
