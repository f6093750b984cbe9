/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/cli.h"

#include <errno.h>
#include <string.h>

#include "kube/transport.h"

enum { ADDRESS_MAX = 300 };

struct http_get {
    struct gt_loop *loop;
    struct gt_buf *body;
    struct gt_err *failed;
};

static void http_get_on_done(void *arg, const struct gt_transfer_result *result)
{
    struct http_get *get = arg;
    int line = (int)strcspn(result->body, "\r\n"); /* our daemons give the reason in one line */
    bool plain = result->error == ECONNREFUSED || result->error == ETIMEDOUT;
    if (result->error)
        gt_fail(&get->failed, result->error, "%s", plain ? strerror(result->error) : result->text);
    else if (result->status != 200)
        gt_fail(&get->failed, EBADMSG, "the answer is %u%s%.*s", result->status, line ? ": " : "", line,
                result->body);
    else
        gt_buf_add(get->body, result->body, result->body_len);
    gt_loop_stop(get->loop, -gt_err_code(get->failed));
}

static int transfer(const char *server, const char *path, unsigned timeout_ms, struct gt_buf *body,
                    struct gt_err **err)
{
    const char *const headers[] = {NULL};
    gt_auto_loop struct gt_loop *loop = NULL;
    gt_auto_transport struct gt_transport *transport = NULL;
    gt_auto_buf struct gt_buf url = GT_BUF(8192);
    gt_auto_free char *copied = strdup(server);
    const struct gt_kube_config config = {.server = copied};
    gt_buf_printf(&url, "%s%s", server, path);
    GT_TRY(copied ? gt_buf_check(&url, "the address", err) : gt_fail_sys(err, ENOMEM, "the address"));
    GT_TRY(gt_loop_new(&loop, err));
    GT_TRY(gt_transport_new(loop, &config, "gputopo", &transport, err));
    struct http_get get = {.loop = loop, .body = body};
    const struct gt_transfer_spec spec = {.method = "GET",
                                          .url = url.data,
                                          .headers = headers,
                                          .timeout_ms = timeout_ms,
                                          .body_max = body->max,
                                          .on_done = http_get_on_done,
                                          .arg = &get};
    struct gt_transfer *started;
    int r = gt_transfer_start(transport, &spec, &started, err);
    if (r >= 0)
        r = gt_loop_run(loop, err);
    if (get.failed && err)
        *err = gt_steal(get.failed);
    gt_err_free(get.failed);
    return r;
}

int cli_http_get(const char *address, const char *path, unsigned timeout_ms, struct gt_buf *body,
                 struct gt_err **err)
{
    const char *port = strrchr(address, ':');
    if (!port || !port[1] || strspn(port + 1, "0123456789") != strlen(port + 1) ||
        strlen(address) > ADDRESS_MAX || strpbrk(address, "/@?# "))
        return gt_fail(err, EINVAL, "expected ADDRESS:PORT, is '%.100s'", address);
    char server[ADDRESS_MAX + 32];
    snprintf(server, sizeof(server), "http://%s%s", port == address ? "127.0.0.1" : "", address);
    GT_TRY_WRAP(transfer(server, path, timeout_ms, body, err), err, "%s", address);
    return 0;
}
