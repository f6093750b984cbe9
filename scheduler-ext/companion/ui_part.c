/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/doors/explain.h"
#include "scheduler-ext/doors/model_json.h"
#include "scheduler-ext/doors/query.h"
#include "scheduler-ext/doors/ui.h"

/* The part "ui": what people look at. /ui, /debug/model and /explain, on every replica. */

/* A model of a large cluster is written in pieces, so that pages do not take the loop's time from schedulers,
 * and shown again: for a while as it is, and longer while the next one is written. */
enum { FIRST_MS = 4, PIECE_MS = 2, SHOWN_MS = 2000, KEPT_MS = 60000 };

struct ui_part {
    const struct gt_part_env *env;
    struct gt_source *timer; /* the next piece, or the end of the last model */
    struct gt_model *making; /* NULL: none */
    struct gt_buf model;     /* the last one */
    uint64_t made_ms;        /* when */
    bool making_has_pods, model_has_pods;
    bool leads;
};

static void take_model(struct ui_part *part)
{
    gt_buf_done(&part->model);
    part->model = *gt_model_text(part->making);
    *gt_model_text(part->making) = (struct gt_buf){0};
    if (part->model.failed) /* no memory: half of it is no model */
        gt_buf_done(&part->model);
    part->model_has_pods = part->making_has_pods;
    part->made_ms = gt_clock_ms();
    gt_model_free(gt_steal(part->making));
    gt_source_arm(part->timer, KEPT_MS);
}

static void on_timer(void *arg)
{
    struct ui_part *part = arg;
    if (!part->making)
        gt_buf_done(&part->model);
    else if (gt_model_write(part->making, PIECE_MS * UINT64_C(1000000)))
        take_model(part);
    else
        gt_source_arm(part->timer, 0);
}

static void part_free(void *self)
{
    struct ui_part *part = self;
    if (!part)
        return;
    gt_source_free(part->timer);
    gt_model_free(part->making);
    gt_buf_done(&part->model);
    free(part);
}

static int part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    struct ui_part *part = calloc(1, sizeof(*part));
    if (!part)
        return gt_fail(err, ENOMEM, "no memory for the cluster page");
    part->env = env;
    int r = gt_loop_add_timer(env->loop, on_timer, part, &part->timer, err);
    if (r < 0)
        free(part);
    else
        *ret = part;
    return r;
}

static void part_lead(void *self, bool leads)
{
    struct ui_part *part = self;
    part->leads = leads;
}

static uint64_t wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Begins one; a small one is done at once, and not kept. */
static void make_model(struct ui_part *part, const struct gt_window *window, bool pods, struct gt_buf *to)
{
    if (part->making || gt_model_new(window, pods, to->max, &part->making, NULL) < 0)
        return;
    part->making_has_pods = pods;
    if (!gt_model_write(part->making, FIRST_MS * UINT64_C(1000000))) {
        gt_source_arm(part->timer, 0);
        return;
    }
    *to = *gt_model_text(part->making);
    *gt_model_text(part->making) = (struct gt_buf){0};
    gt_model_free(gt_steal(part->making));
}

static void serve_model(struct ui_part *part, const struct gt_window *window, bool pods,
                        struct gt_http_response *response)
{
    bool has = part->model.len && part->model_has_pods == pods;
    if (!has || window->now_ms - part->made_ms >= SHOWN_MS)
        make_model(part, window, pods, &response->body);
    if (response->body.len || response->body.failed)
        return;
    if (has) {
        gt_buf_add(&response->body, part->model.data, part->model.len);
        return;
    }
    response->status = 503;
    response->content_type = "text/plain; charset=utf-8";
    gt_buf_puts(&response->body, "the model of a large cluster is being written: ask again in a second\n");
}

static bool part_serve(void *self, const struct gt_http_request *request, struct gt_http_response *response)
{
    struct ui_part *part = self;
    bool model = strcmp(request->path, "/debug/model") == 0, explain = strcmp(request->path, "/explain") == 0;
    if (!model && !explain && !gt_ui_serve(request->path, response))
        return false;
    if (request->method != GT_HTTP_GET) {
        gt_buf_done(&response->body);
        response->status = 405;
        response->content_type = "text/plain; charset=utf-8";
        gt_buf_puts(&response->body, "this is asked with GET\n");
        return true;
    }
    const struct gt_window window = {.feed = gt_follow_feed(part->env->follow),
                                     .placement = part->env->placement,
                                     .weights = part->env->options->weights,
                                     .leads = part->leads,
                                     .synced = gt_follow_is_synced(part->env->follow, NULL),
                                     .now_ms = gt_clock_ms(),
                                     .wall_ms = wall_ms()};
    if (model) {
        char pods[8];
        gt_query_get(request->query, "pods", pods, sizeof(pods));
        response->content_type = "application/json";
        serve_model(part, &window, strcmp(pods, "no") != 0, response);
    } else if (explain && !window.synced) {
        response->status = 503;
        gt_buf_puts(&response->body, "gputopo-scheduler has not read the cluster yet\n");
    } else if (explain) {
        gt_explain(&window, request->query, response);
    }
    return true;
}

const struct gt_part gt_ui_part = {
    .name = "ui",
    .help = "answers people: the page /ui, /debug/model and /explain",
    .follows = true,
    .new = part_new,
    .free = part_free,
    .lead = part_lead,
    .serve = part_serve,
};
