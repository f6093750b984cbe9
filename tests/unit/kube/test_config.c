/* SPDX-License-Identifier: Apache-2.0 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#include "base/file.h"
#include "kube/base64.h"
#include "kube/config.h"
#include "kube/internal.h"

static char folder[] = "/tmp/gputopo-kube-config-XXXXXX";

static int make_folder(void **state)
{
    (void)state;
    return mkdtemp(folder) ? 0 : -1;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st;
    (void)type;
    (void)ftw;
    return remove(path);
}

static int remove_folder(void **state)
{
    (void)state;
    return nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

static const char *write_file(const char *name, const char *text)
{
    static char path[256];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    assert_int_equal(gt_file_write(path, text, strlen(text), 0600, NULL), 0);
    return path;
}

#define V1      "client.authentication.k8s.io/v1"
#define V1BETA1 "client.authentication.k8s.io/v1beta1"

#define HEAD "apiVersion: v1\nkind: Config\ncurrent-context: one\n"

static const char whole[] =
    HEAD "clusters:\n"
         "- name: c1\n"
         "  cluster: {server: 'https://10.0.0.1:6443/', certificate-authority: pki/ca.crt}\n"
         "- name: c2\n"
         "  cluster:\n"
         "    server: https://[fd00::1]:6443/k8s/clusters/x\n"
         "    certificate-authority-data: cGVt\n"
         "users:\n"
         "- {name: u1, user: {client-certificate: /a/crt, client-key: k/key}}\n"
         "- {name: u2, user: {tokenFile: token, token: static}}\n"
         "- {name: u3, user: {token: static, exec: null}}\n"
         "contexts:\n"
         "- {name: one, context: {cluster: c1, user: u1, namespace: ns}}\n"
         "- {name: two, context: {cluster: c2, user: u2}}\n"
         "- {name: three, context: {cluster: c2, user: u3}}\n"
         "- {name: nobody, context: {cluster: c2}}\n";

static void assert_below(const char *path, const char *name)
{
    assert_non_null(path);
    assert_int_equal(strncmp(path, folder, strlen(folder)), 0);
    assert_string_equal(path + strlen(folder) + 1, name);
}

static void test_kubeconfig(void **state)
{
    (void)state;
    const char *path = write_file("whole", whole);
    gt_auto_kube_config struct gt_kube_config one = {0}, two = {0}, three = {0}, nobody = {0};
    assert_int_equal(gt_kube_config_file(path, NULL, &one, NULL), 0);
    assert_string_equal(one.server, "https://10.0.0.1:6443");
    assert_string_equal(one.namespace_, "ns");
    assert_below(one.ca_file, "pki/ca.crt");
    assert_string_equal(one.certificate_file, "/a/crt");
    assert_below(one.key_file, "k/key");
    assert_null(one.token);
    assert_int_equal(gt_kube_config_file(path, "two", &two, NULL), 0);
    assert_string_equal(two.server, "https://[fd00::1]:6443/k8s/clusters/x");
    assert_string_equal(two.ca_data, "pem");
    assert_null(two.namespace_);
    assert_below(two.token_file, "token");
    assert_null(two.token);
    assert_int_equal(gt_kube_config_file(path, "three", &three, NULL), 0);
    assert_string_equal(three.token, "static");
    assert_int_equal(gt_kube_config_file(path, "nobody", &nobody, NULL), 0);
    assert_null(nobody.token);
}

static void test_several_files(void **state)
{
    (void)state;
    char paths[1024];
    char *first =
        strdup(write_file("first", "current-context: two\nusers: [{name: u2, user: {token: mine}}]\n"));
    snprintf(paths, sizeof(paths), "%s/none:%s:%s", folder, first, write_file("whole", whole));
    free(first);
    gt_auto_kube_config struct gt_kube_config config = {0};
    assert_int_equal(gt_kube_config_file(paths, NULL, &config, NULL), 0);
    assert_string_equal(config.ca_data, "pem");
    assert_string_equal(config.token, "mine");
    snprintf(paths, sizeof(paths), "%s/none:%s/neither", folder, folder);
    assert_int_equal(gt_kube_config_file(paths, NULL, &config, NULL), -ENOENT);
    assert_int_equal(gt_kube_config_file(":::", NULL, &config, NULL), -EINVAL);
}

#define CLUSTER(more)                                                                                        \
    "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"                            \
    "users: [{name: u, user: {token: t}}]\nclusters: [{name: c, cluster: {" more "}}]\n"
#define USER(more)                                                                                           \
    "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"                            \
    "clusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {" more "}}]\n"

static void test_what_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int code;
        const char *says;
    } cases[] = {
        {CLUSTER("server: 'https://a', insecure-skip-tls-verify: true"), EOPNOTSUPP,
         "insecure-skip-tls-verify"},
        {CLUSTER("server: 'https://a', proxy-url: 'http://p'"), EOPNOTSUPP, "proxy-url"},
        {CLUSTER("server: 'http://a'"), EINVAL, "without TLS only this machine is asked"},
        {CLUSTER("server: 'http://128.0.0.1'"), EINVAL, "without TLS only this machine is asked"},
        {CLUSTER("server: 'http://localhost@a'"), EINVAL, "without TLS only this machine is asked"},
        {CLUSTER("server: 'http://127.0.0.1?x'"), EINVAL, "without TLS only this machine is asked"},
        {CLUSTER("server: 'http://127.0.0.1:1@a'"), EINVAL, "'@'"},
        {CLUSTER("server: 'https://me:pw@a'"), EINVAL, "'@'"},
        {CLUSTER("server: 'https://a?x=y'"), EINVAL, "'?'"},
        {CLUSTER("server: 'https://'"), EINVAL, "no host"},
        {CLUSTER("server: 'file:///etc/passwd'"), EINVAL, "not an https"},
        {CLUSTER("certificate-authority: x"), EINVAL, "no server"},
        {CLUSTER("server: 'https://a', certificate-authority-data: '***'"), EINVAL, "base64"},
        {USER("exec: {apiVersion: " V1 "}"), EINVAL, "no command"},
        {USER("exec: aws"), EINVAL, "no command"},
        {USER("exec: {command: a, apiVersion: client.authentication.k8s.io/v1alpha1}"), EOPNOTSUPP,
         "v1alpha1' is not supported: it must be client.authentication.k8s.io/v1 or v1beta1"},
        {USER("exec: {command: a, apiVersion: " V1 "}"), EINVAL, "no interactiveMode"},
        {USER("exec: {command: a, apiVersion: " V1 ", interactiveMode: Maybe}"), EINVAL, "is 'Maybe'"},
        {USER("exec: {command: a, apiVersion: " V1BETA1 ", args: x}"), EINVAL, "args is not a list"},
        {USER("exec: {command: a, apiVersion: " V1BETA1 ", args: [{}]}"), EINVAL, "args: an entry"},
        {USER("exec: {command: a, apiVersion: " V1BETA1 ", env: [{value: x}]}"), EINVAL, "has no name"},
        {USER("exec: {command: a, apiVersion: " V1BETA1 ", env: [{name: a=b}]}"), EINVAL, "has no name"},
        {USER("auth-provider: {name: oidc}"), EOPNOTSUPP, "use exec with a plugin, for OIDC kubelogin"},
        {USER("username: me, password: pw"), EOPNOTSUPP, "username"},
        {USER("as: somebody"), EOPNOTSUPP, "as is not"},
        {USER("client-certificate: x"), EINVAL, "not both"},
        {"current-context: y\n", EINVAL, "there is no context 'y'"},
        {"contexts: []\n", EINVAL, "no current-context"},
        {"current-context: x\ncontexts: [{name: x, context: {cluster: c}}]\n", EINVAL, "no cluster 'c'"},
        {"current-context: x\ncontexts: [{name: x}]\n", EINVAL, "context 'x' is empty"},
        {"[1, 2]", EINVAL, "not a mapping"},
        {"a: [", EINVAL, "not YAML"},
        {"\x01\x02", EINVAL, "not YAML"},
        {"", EINVAL, "no current-context"},
        {"current-context: {a: b}\ncontexts: 3\n", EINVAL, "no current-context"},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_err struct gt_err *error = NULL;
        gt_auto_kube_config struct gt_kube_config config = {0};
        int r = gt_kube_config_file(write_file("bad", cases[i].text), NULL, &config, &error);
        if (r != -cases[i].code || !strstr(gt_err_text(error), cases[i].says))
            fail_msg("case %zu: %d, %s", i, r, gt_err_text(error));
        assert_null(config.server);
    }
}

/* http is for this machine, and gets no credential. */
static void test_without_tls(void **state)
{
    (void)state;
    static const char *const servers[] = {"http://localhost:8001", "http://127.0.0.1",
                                          "http://127.3.2.1:1/path", "http://[::1]:8001"};
    for (size_t i = 0; i < GT_COUNT(servers); i++) {
        char text[512];
        snprintf(text, sizeof(text),
                 "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
                 "clusters: [{name: c, cluster: {server: '%s'}}]\nusers: [{name: u, user: {token: t}}]\n",
                 servers[i]);
        gt_auto_kube_config struct gt_kube_config config = {0};
        assert_int_equal(gt_kube_config_file(write_file("plain", text), NULL, &config, NULL), 0);
        assert_string_equal(config.server, servers[i]);
        assert_true(gt_kube_config_is_plain(&config));
        assert_false(gt_kube_config_has_credential(&config));
    }
}

/* A plugin that is a script of the shell: how it ends, within 200 ms. */
static void test_exec_that_does_not_end(void **state)
{
    (void)state;
    static const struct {
        const char *script;
        int code;
        const char *says;
    } cases[] = {
        {"exec sleep 600", ETIMEDOUT, "it takes too long, and was ended"},
        {"exec >&-; exec sleep 600", EIO, "ended by signal 9"},
        {"kill -TERM $$", EIO, "ended by signal 15"},
        {"exit 7", EIO, "ended with code 7"},
    };
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        char text[512];
        snprintf(
            text, sizeof(text),
            "current-context: x\ncontexts: [{name: x, context: {cluster: c, user: u}}]\n"
            "clusters: [{name: c, cluster: {server: 'https://a'}}]\nusers: [{name: u, user: {exec: {command: "
            "sh, args: ['-c', '%s'], apiVersion: " V1 ", interactiveMode: Never}}}]\n",
            cases[i].script);
        gt_auto_kube_config struct gt_kube_config config = {0};
        gt_auto_err struct gt_err *error = NULL;
        assert_int_equal(gt_kube_config_file(write_file("exec", text), NULL, &config, NULL), 0);
        int r = gt_kube_exec_run(&config, 200, &error);
        if (r != -cases[i].code || !strstr(gt_err_text(error), cases[i].says))
            fail_msg("case %zu: %d, %s", i, r, gt_err_text(error));
        assert_int_equal(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
    }
}

static void test_exec_credential(void **state)
{
    (void)state;
    gt_auto_kube_config struct gt_kube_config config = {0};
#define ANSWER(status) "{\"kind\": \"ExecCredential\", \"apiVersion\": \"" V1 "\", \"status\": {" status "}}"
    static const char first[] = ANSWER("\"token\": \"t\", \"expirationTimestamp\": \"1970-01-01T00:01:40Z\"");
    static const char second[] =
        ANSWER("\"clientCertificateData\": \"c\", \"clientKeyData\": \"k\", \"x\": 1");
    static const char wrong[] = ANSWER("\"token\": 3");
    assert_int_equal(gt_kube_exec_read(first, strlen(first), V1, &config, NULL), 0);
    assert_string_equal(config.token, "t");
    assert_int_equal(config.expires_s, 100);
    assert_int_equal(gt_kube_exec_read(wrong, strlen(wrong), V1, &config, NULL), -EINVAL);
    assert_string_equal(config.token, "t");
    assert_int_equal(gt_kube_exec_read(second, strlen(second), V1, &config, NULL), 0);
    assert_null(config.token);
    assert_string_equal(config.certificate_data, "c");
    assert_string_equal(config.key_data, "k");
    assert_int_equal(config.expires_s, 0);
}

static void test_pod(void **state)
{
    (void)state;
    gt_auto_kube_config struct gt_kube_config config = {0};
    unsetenv("KUBERNETES_SERVICE_HOST");
    assert_int_equal(gt_kube_config_pod(folder, &config, NULL), -ENOENT);
    setenv("KUBERNETES_SERVICE_HOST", "fd00::1", 1);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    assert_int_equal(gt_kube_config_pod(folder, &config, NULL), -ENOENT); /* no ca.crt */
    write_file("ca.crt", "x");
    write_file("token", "t");
    write_file("namespace", "gputopo\n");
    assert_int_equal(gt_kube_config_pod(folder, &config, NULL), 0);
    assert_string_equal(config.server, "https://[fd00::1]:443");
    assert_string_equal(config.namespace_, "gputopo");
    assert_below(config.token_file, "token");
    setenv("KUBERNETES_SERVICE_PORT", "65536", 1);
    gt_auto_kube_config struct gt_kube_config other = {0};
    assert_int_equal(gt_kube_config_pod(folder, &other, NULL), -EINVAL);
    setenv("KUBERNETES_SERVICE_PORT", "443", 1);
    setenv("KUBERNETES_SERVICE_HOST", "a/b@c", 1);
    assert_int_equal(gt_kube_config_pod(folder, &other, NULL), -EINVAL);
    unsetenv("KUBERNETES_SERVICE_HOST");
}

static void test_base64(void **state)
{
    (void)state;
    static const struct {
        const char *text, *decoded; /* NULL: refused */
    } cases[] = {{"", ""},          {"aGVsbG8=", "hello"}, {"aGVs\n bG8=", "hello"}, {"aA==", "h"},
                 {"aGVsbG8", NULL}, {"a===", NULL},        {"aG=s", NULL},           {"aGV\x80", NULL},
                 {"====", NULL},    {"aA==aA==", NULL}};
    for (size_t i = 0; i < GT_COUNT(cases); i++) {
        gt_auto_buf struct gt_buf to = GT_BUF(64);
        int r = gt_base64_decode(cases[i].text, &to, NULL);
        assert_int_equal(r, cases[i].decoded ? 0 : -EINVAL);
        if (cases[i].decoded)
            assert_string_equal(to.data ? to.data : "", cases[i].decoded);
    }
    gt_auto_buf struct gt_buf small = GT_BUF(2);
    assert_int_equal(gt_base64_decode("aGVsbG8=", &small, NULL), -ENOBUFS);
}

static void test_whole_tokens(void **state)
{
    (void)state;
    static const char old[] = "header.claims.signature";
    assert_true(gt_kube_token_is_whole("x", NULL));
    assert_false(gt_kube_token_is_whole("", NULL));
    assert_false(gt_kube_token_is_whole("a b", NULL));
    assert_false(gt_kube_token_is_whole("a\nb", NULL));
    assert_false(gt_kube_token_is_whole("\xc3\xa4", NULL));
    assert_true(gt_kube_token_is_whole("header.other-claims.signATURE", old));
    assert_false(gt_kube_token_is_whole("header.other-claims.signat", old));
    assert_false(gt_kube_token_is_whole("header.other-cl", old));
    assert_false(gt_kube_token_is_whole("header", old));
    assert_true(gt_kube_token_is_whole("newkey.claims.sig", old));
    assert_true(gt_kube_token_is_whole("b", "a"));
}

static void test_token_is_read_once_a_minute(void **state)
{
    (void)state;
    enum { START = 1000000 };
    char *path = strdup(write_file("token", "h.c.s1\n"));
    gt_auto_kube_token struct gt_kube_token *token = NULL;
    assert_int_equal(gt_kube_token_new(path, START, &token, NULL), 0);
    write_file("token", "h.d.s2");
    assert_string_equal(gt_kube_token_get(token, START + 59999), "h.c.s1");
    assert_string_equal(gt_kube_token_get(token, START + 60000), "h.d.s2");
    write_file("token", "h.e");
    assert_string_equal(gt_kube_token_get(token, START + 120000), "h.d.s2");
    write_file("token", "h.f.s3");
    assert_string_equal(gt_kube_token_get(token, START + 120001), "h.d.s2");
    assert_true(gt_kube_token_refresh(token, START + 120001));
    assert_false(gt_kube_token_refresh(token, START + 120002));
    assert_string_equal(gt_kube_token_get(token, START + 120002), "h.f.s3");
    unlink(path);
    assert_string_equal(gt_kube_token_get(token, START + 999999), "h.f.s3");
    struct gt_kube_token *none = NULL;
    assert_int_equal(gt_kube_token_new(path, START, &none, NULL), -ENOENT);
    write_file("token", "  ");
    assert_int_equal(gt_kube_token_new(path, START, &none, NULL), -EINVAL);
    free(path);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kubeconfig),
        cmocka_unit_test(test_several_files),
        cmocka_unit_test(test_what_is_refused),
        cmocka_unit_test(test_without_tls),
        cmocka_unit_test(test_exec_that_does_not_end),
        cmocka_unit_test(test_exec_credential),
        cmocka_unit_test(test_pod),
        cmocka_unit_test(test_base64),
        cmocka_unit_test(test_whole_tokens),
        cmocka_unit_test(test_token_is_read_once_a_minute),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
