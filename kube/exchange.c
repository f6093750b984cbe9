/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "kube/internal.h"
#include "kube/status.h"

/* One exchange with the API server: its headers, and the meaning of its result. */

enum { HEADER_MAX = 256 };

int gt_kube_exchange(struct gt_kube *kube, const struct gt_kube_exchange *exchange, struct gt_transfer **ret,
                     struct gt_err **err)
{
    gt_auto_free char *url = NULL;
    if (asprintf(&url, "%s%s", kube->config.server, exchange->path) < 0) {
        url = NULL;
        return gt_fail_sys(err, ENOMEM, "Kubernetes client");
    }
    const char *token = kube->token ? gt_kube_token_get(kube->token, gt_clock_ms()) : kube->config.token;
    gt_auto_free char *authorization = NULL;
    if (token && asprintf(&authorization, "Authorization: Bearer %s", token) < 0) {
        authorization = NULL;
        return gt_fail_sys(err, ENOMEM, "Kubernetes client");
    }
    char accept[HEADER_MAX], type[HEADER_MAX];
    snprintf(accept, sizeof(accept), "Accept: %s", exchange->accept);
    snprintf(type, sizeof(type), "Content-Type: %s", exchange->body ? exchange->content_type : "");
    /* Empty: libcurl would wait for a 100 before a large body. */
    const char *headers[5] = {accept, "Expect:"};
    unsigned count = 2;
    if (exchange->body)
        headers[count++] = type;
    if (authorization)
        headers[count++] = authorization;
    const struct gt_transfer_spec spec = {.method = exchange->method,
                                          .url = url,
                                          .headers = headers,
                                          .body = exchange->body,
                                          .body_len = exchange->body ? strlen(exchange->body) : 0,
                                          .http2 = exchange->http2,
                                          .timeout_ms = exchange->timeout_ms,
                                          .body_max = exchange->body_max,
                                          .on_data = exchange->on_data,
                                          .on_done = exchange->on_done,
                                          .arg = exchange->arg};
    kube->counters.requests++;
    return gt_transfer_start(kube->transport, &spec, ret, err);
}

bool gt_kube_count(struct gt_kube *kube, const struct gt_transfer_result *result, bool refresh_allowed)
{
    if (result->status >= 200 && result->status < 300 && !result->error)
        return false;
    kube->counters.failures++;
    if (result->status == 429)
        kube->counters.throttled++;
    if (result->status != 401)
        return false;
    kube->counters.unauthorized++;
    if (!kube->token || !refresh_allowed)
        return false;
    gt_kube_token_refresh(kube->token, gt_clock_ms());
    return true;
}

void gt_kube_result(const struct gt_transfer_result *result, cJSON **ret_object, struct gt_err **ret_error)
{
    *ret_object = NULL;
    if (result->error) {
        gt_fail(ret_error, result->error, "%s", result->text);
        return;
    }
    if (result->status >= 200 && result->status < 300)
        return;
    *ret_object = cJSON_ParseWithLength(result->body, result->body_len);
    gt_kube_fail(ret_error, result->status, *ret_object);
}
