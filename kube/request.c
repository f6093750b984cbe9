/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "base/clock.h"
#include "base/text.h"
#include "kube/internal.h"
#include "kube/status.h"

/*
 * Requests and their tries. A call is in line, running, or waits for its next try; one timer of the client
 * serves all that wait. A call that could not even be started waits too: callers are never called back from
 * within gt_kube_start().
 */

enum { RUNNING_MAX = 16, CALLS_MAX = 1024, REQUEST_PATH_MAX = 16 << 10, HEADER_MAX = 256 };

struct gt_kube_call {
    struct gt_kube *kube;
    struct gt_kube_call *previous, *next; /* newest first */
    enum { CALL_QUEUED, CALL_RUNNING, CALL_WAITING } state;
    uint64_t due; /* while it waits */
    struct gt_transfer *transfer;
    struct {
        const char *method, *content_type, *accept;
        char *path, *body;
        size_t response_max;
        uint64_t try_ms;
        bool no_object, once;
    } request;
    uint64_t deadline; /* a time of gt_clock_ms(); GT_KUBE_FOREVER: none */
    struct gt_backoff own_backoff, *backoff;
    unsigned tries;
    bool refreshed;
    struct gt_err *failed;  /* to be answered with this when due */
    struct gt_err *earlier; /* why a try before this one failed, other than for its time */
    bool in_callback;
    gt_kube_done *done;
    gt_kube_raw_done *raw_done;
    void *arg;
};

static void run_call(struct gt_kube_call *call);

int gt_kube_exchange(struct gt_kube *kube, const struct gt_kube_exchange *exchange, struct gt_transfer **ret,
                     struct gt_err **err)
{
    gt_auto_free char *url = NULL;
    GT_TRY(gt_text_format("Kubernetes client", &url, err, "%s%s", kube->config.server, exchange->path));
    const char *token = kube->token ? gt_kube_token_get(kube->token, gt_clock_ms()) : kube->config.token;
    gt_auto_free char *authorization = NULL;
    if (token)
        GT_TRY(gt_text_format("Kubernetes client", &authorization, err, "Authorization: Bearer %s", token));
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

static void free_call(struct gt_kube_call *call)
{
    gt_err_free(call->failed);
    gt_err_free(call->earlier);
    free(call->request.path);
    free(call->request.body);
    free(call);
}
GT_DEFINE_CLEANUP(struct gt_kube_call *, free_call)

static void set_state(struct gt_kube_call *call, int state)
{
    GT_ASSERT(call->state != CALL_RUNNING || call->kube->counters.running);
    call->kube->counters.running -= call->state == CALL_RUNNING;
    call->kube->counters.running += state == CALL_RUNNING;
    call->state = (unsigned)state;
}

static void kube_request_unlink_call(struct gt_kube_call *call)
{
    set_state(call, CALL_WAITING);
    if (call->previous)
        call->previous->next = call->next;
    else
        call->kube->calls = call->next;
    if (call->next)
        call->next->previous = call->previous;
    call->kube->call_count--;
}

void gt_kube_cancel(struct gt_kube_call *call)
{
    if (!call || call->in_callback)
        return;
    gt_transfer_cancel(call->transfer);
    kube_request_unlink_call(call);
    gt_source_arm(call->kube->timer, 0);
    free_call(call);
}

/* Wakes the client when the next call is due, or at once where one in line finds a place. */
static void kube_request_schedule(struct gt_kube *kube)
{
    uint64_t now = gt_clock_ms(), wait = UINT64_MAX;
    for (const struct gt_kube_call *call = kube->calls; call; call = call->next) {
        if (call->state == CALL_QUEUED && kube->counters.running < RUNNING_MAX)
            wait = 0;
        else if (call->state == CALL_WAITING && call->due <= now)
            wait = 0;
        else if (call->state == CALL_WAITING && call->due - now < wait)
            wait = call->due - now;
    }
    if (wait == UINT64_MAX)
        gt_source_disarm(kube->timer);
    else
        gt_source_arm(kube->timer, wait);
}

/* Ends a call. The callback may free the client, which must not be used afterwards. */
static void answer_call(struct gt_kube_call *call, unsigned status, cJSON *object, struct gt_err *error,
                        const struct gt_transfer_result *result)
{
    struct gt_kube_answer answer = {.status = status,
                                    .object = object,
                                    .error = error,
                                    .tries = call->tries,
                                    .retry_after_s = result ? result->retry_after : 0};
    call->in_callback = true;
    kube_request_unlink_call(call);
    kube_request_schedule(call->kube);
    if (call->raw_done)
        call->raw_done(call->arg, &answer, result ? result->body : "", result ? result->body_len : 0);
    else
        call->done(call->arg, &answer);
    cJSON_Delete(answer.object);
    gt_err_free(error);
    free_call(call);
}

static void wait_for(struct gt_kube_call *call, uint64_t milliseconds)
{
    set_state(call, CALL_WAITING);
    call->due = gt_clock_ms() + milliseconds;
    kube_request_schedule(call->kube);
}

/* False where the deadline comes before the next try would. */
static bool try_again(struct gt_kube_call *call, unsigned retry_after_s)
{
    uint64_t wait = gt_backoff_next(call->backoff, retry_after_s, &call->kube->jitter);
    if (call->deadline != GT_KUBE_FOREVER && gt_clock_ms() + wait >= call->deadline)
        return false;
    wait_for(call, wait);
    return true;
}

static void answer_success(struct gt_kube_call *call, const struct gt_transfer_result *result)
{
    gt_auto_err struct gt_err *error = NULL;
    cJSON *object = NULL;
    if (!call->raw_done && !call->request.no_object &&
        !(object = cJSON_ParseWithLength(result->body, result->body_len)))
        gt_fail(&error, EBADMSG, "the answer is not JSON (%zu bytes)", result->body_len);
    answer_call(call, result->status, object, gt_steal(error), result);
}

static void kube_request_on_done(void *arg, const struct gt_transfer_result *result)
{
    struct gt_kube_call *call = arg;
    struct gt_kube *kube = call->kube;
    call->transfer = NULL;
    bool refreshed = gt_kube_count(kube, result, !call->refreshed);
    if (!result->error && result->status >= 200 && result->status < 300) {
        answer_success(call, result);
        return;
    }
    bool passing = result->error ? result->error != EFBIG : gt_kube_is_passing(result->status);
    if (refreshed) {
        call->refreshed = true;
        wait_for(call, 0);
        return;
    }
    cJSON *object;
    struct gt_err *error = NULL;
    gt_kube_result(result, &object, &error);
    bool cut_off = result->error == ETIMEDOUT;
    if (passing && !call->request.once && try_again(call, result->retry_after)) {
        if (result->error && !cut_off) {
            gt_err_free(call->earlier);
            call->earlier = gt_steal(error);
        }
        gt_err_free(error);
        cJSON_Delete(object);
        return;
    }
    if (cut_off && call->earlier) { /* the last try had too little time to be meaningful */
        gt_err_free(error);
        error = gt_steal(call->earlier);
    }
    if (passing && call->tries > 1)
        gt_wrap(&error, "after %u tries", call->tries);
    answer_call(call, result->error ? 0 : result->status, object, error, result);
}

static void run_call(struct gt_kube_call *call)
{
    uint64_t now = gt_clock_ms(), left = call->request.try_ms;
    gt_auto_err struct gt_err *error = NULL;
    int r = 0;
    if (call->deadline != GT_KUBE_FOREVER && now >= call->deadline)
        r = gt_fail(&error, ETIMEDOUT, "the deadline passed while it was queued");
    else if (call->deadline != GT_KUBE_FOREVER && call->deadline - now < left)
        left = call->deadline - now;
    const struct gt_kube_exchange exchange = {.method = call->request.method,
                                              .path = call->request.path,
                                              .body = call->request.body,
                                              .content_type = call->request.content_type,
                                              .accept = call->request.accept,
                                              .http2 = !call->raw_done,
                                              .timeout_ms = left,
                                              .body_max = call->request.response_max,
                                              .on_done = kube_request_on_done,
                                              .arg = call};
    if (r == 0)
        r = gt_kube_exchange(call->kube, &exchange, &call->transfer, &error);
    if (r < 0) {
        call->failed = gt_steal(error);
        wait_for(call, 0);
        return;
    }
    set_state(call, CALL_RUNNING);
    call->kube->counters.retries += call->tries > 0;
    call->tries++;
}

/* Calls whose pause is over enter the queue; free places are given to the oldest in the queue. */
void gt_kube_on_timer(void *arg)
{
    struct gt_kube *kube = arg;
    uint64_t now = gt_clock_ms();
    struct gt_kube_call *failed = NULL;
    for (struct gt_kube_call *call = kube->calls; call; call = call->next) {
        if (call->state != CALL_WAITING || call->due > now)
            continue;
        if (call->failed)
            failed = call;
        else
            set_state(call, CALL_QUEUED);
    }
    if (failed) { /* others of this kind go at the next timer */
        answer_call(failed, 0, NULL, gt_steal(failed->failed), NULL);
        return;
    }
    while (kube->counters.running < RUNNING_MAX) {
        struct gt_kube_call *oldest = NULL;
        for (struct gt_kube_call *call = kube->calls; call; call = call->next)
            if (call->state == CALL_QUEUED)
                oldest = call;
        if (!oldest)
            break;
        run_call(oldest);
    }
    kube_request_schedule(kube);
}

/* No other call waits for a place: while one is free, queued calls get it at the next kick. */
static bool is_alone_in_line(const struct gt_kube_call *call)
{
    for (const struct gt_kube_call *other = call->next; other; other = other->next)
        if (other->state == CALL_QUEUED)
            return false;
    return true;
}

static int kube_request_enqueue(struct gt_kube *kube, struct gt_kube_call *call, uint64_t deadline_ms,
                                uint64_t try_ms, struct gt_err **err)
{
    if (kube->call_count >= CALLS_MAX)
        return gt_fail(err, EAGAIN, "more than %d requests wait", CALLS_MAX);
    uint64_t deadline = deadline_ms ? deadline_ms : GT_KUBE_DEADLINE_MS;
    call->kube = kube;
    call->request.try_ms = try_ms ? try_ms : GT_KUBE_TRY_MS;
    call->deadline = deadline == GT_KUBE_FOREVER ? GT_KUBE_FOREVER : gt_clock_ms() + deadline;
    call->next = kube->calls;
    if (call->next)
        call->next->previous = call;
    kube->calls = call;
    kube->call_count++;
    call->state = CALL_QUEUED;
    if (kube->counters.running < RUNNING_MAX && is_alone_in_line(call))
        run_call(call);
    return 0;
}

static int build_path(const struct gt_kube_request *request, char **ret, struct gt_err **err)
{
    gt_auto_buf struct gt_buf path = GT_BUF(REQUEST_PATH_MAX);
    bool collection = request->verb == GT_KUBE_CREATE && !request->subresource;
    if (!collection && !request->name && request->resource->plural)
        return gt_fail(err, EINVAL, "%s: no name is given", request->resource->plural);
    if (collection && request->resource->namespaced && !request->namespace_)
        return gt_fail(err, EINVAL, "%s: no namespace is given", request->resource->plural);
    GT_TRY(gt_kube_path(&path, request->resource, request->namespace_, collection ? NULL : request->name,
                        request->subresource, err));
    if (request->verb != GT_KUBE_GET && request->verb != GT_KUBE_DELETE) {
        gt_kube_query(&path, "fieldManager", request->field_manager);
        /* Else the API server looks for unknown and double members, to warn of them. */
        gt_kube_query(&path, "fieldValidation", request->strict ? "Strict" : "Ignore");
    }
    if (request->dry_run)
        gt_kube_query(&path, "dryRun", "All");
    if (request->verb == GT_KUBE_APPLY && request->force)
        gt_kube_query(&path, "force", "true");
    GT_TRY(gt_buf_check(&path, "path", err));
    *ret = gt_buf_take(&path);
    return *ret ? 0 : gt_fail_sys(err, ENOMEM, "path");
}

int gt_kube_start(struct gt_kube *kube, const struct gt_kube_request *request, gt_kube_done *done, void *arg,
                  struct gt_kube_call **ret, struct gt_err **err)
{
    static const struct {
        const char *method, *type;
    } verbs[] = {
        [GT_KUBE_GET] = {"GET", NULL},
        [GT_KUBE_CREATE] = {"POST", "application/json"},
        [GT_KUBE_UPDATE] = {"PUT", "application/json"},
        [GT_KUBE_APPLY] = {"PATCH", "application/apply-patch+yaml"},
        [GT_KUBE_MERGE_PATCH] = {"PATCH", "application/merge-patch+json"},
        [GT_KUBE_DELETE] = {"DELETE", "application/json"},
    };
    GT_ASSERT(request->resource && done);
    if (request->verb == GT_KUBE_APPLY && !request->field_manager)
        return gt_fail(err, EINVAL, "apply: no field manager is given");
    bool needs_body = request->verb != GT_KUBE_GET && request->verb != GT_KUBE_DELETE;
    if (needs_body && !request->body)
        return gt_fail(err, EINVAL, "%s: no body is given", verbs[request->verb].method);
    GT_CLEANUP(free_call) struct gt_kube_call *call = calloc(1, sizeof(*call));
    GT_NEED(call, err, "Kubernetes client");
    call->request.method = verbs[request->verb].method;
    call->request.content_type = verbs[request->verb].type;
    call->request.accept = request->no_object       ? GT_KUBE_ACCEPT_SHORT
                           : request->metadata_only ? GT_KUBE_ACCEPT_META
                                                    : GT_KUBE_ACCEPT;
    call->request.no_object = request->no_object;
    call->request.once = request->once;
    call->backoff = &call->own_backoff;
    call->request.response_max = request->response_max ? request->response_max : GT_KUBE_RESPONSE_MAX;
    call->done = done;
    call->arg = arg;
    GT_TRY(build_path(request, &call->request.path, err));
    GT_TRY(gt_text_dup(request->body, "Kubernetes client", &call->request.body, err));
    GT_TRY(kube_request_enqueue(kube, call, request->deadline_ms, request->try_ms, err));
    if (ret)
        *ret = call;
    call = NULL;
    return 0;
}

int gt_kube_start_raw(struct gt_kube *kube, const struct gt_kube_get *get, struct gt_kube_call **ret,
                      struct gt_err **err)
{
    GT_CLEANUP(free_call) struct gt_kube_call *call = calloc(1, sizeof(*call));
    GT_NEED(call, err, "Kubernetes client");
    GT_TRY(gt_text_dup(get->path, "Kubernetes client", &call->request.path, err));
    call->request.method = "GET";
    call->request.accept = get->accept;
    call->request.response_max = get->response_max;
    call->backoff = get->backoff ? get->backoff : &call->own_backoff;
    call->raw_done = get->done;
    call->arg = get->arg;
    GT_TRY(kube_request_enqueue(kube, call, get->deadline_ms, get->try_ms, err));
    *ret = gt_steal(call);
    return 0;
}
