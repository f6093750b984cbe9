/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/clock.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/serve/explain.h"
#include "scheduler-ext/serve/model_json.h"

/* The part "ui": /ui, /debug/model, /debug/decisions and /explain for people, on every replica. */

/* The model of a large cluster is written in pieces, so that pages do not delay the requests of schedulers,
 * and the result is served again for a while, or until the next one is written. */
enum { FIRST_MS = 4, PIECE_MS = 2, SHOWN_MS = 2000, KEPT_MS = 60000, MODEL_MAX = 32 << 20 };

/* There are two variants of the model, which may be requested at the same time. */
enum variant { WITHOUT_PODS, WITH_PODS, VARIANTS };

struct snapshot {
    struct gt_buf text;         /* the last one that is complete */
    uint64_t made_ms, asked_ms; /* time of the last request */
    bool wanted;                /* a new one is requested */
};

struct ui_part {
    const struct gt_part_env *env;
    struct gt_source *timer; /* the next piece, or the end of a snapshot */
    struct gt_model *making; /* NULL: none */
    enum variant making_variant;
    struct snapshot snapshots[VARIANTS];
    bool leads;
};

static struct gt_debug_view view_of(const struct ui_part *part)
{
    return (struct gt_debug_view){.cache = gt_informers_cache(part->env->informers),
                                  .placement = part->env->placement,
                                  .weights = part->env->options->weights,
                                  .leads = part->leads,
                                  .synced = gt_informers_is_synced(part->env->informers, NULL),
                                  .now_ms = gt_clock_ms(),
                                  .wall_ms = gt_clock_wall_ms()};
}

static void take_model(struct ui_part *part)
{
    struct snapshot *snapshot = &part->snapshots[part->making_variant];
    gt_buf_done(&snapshot->text);
    snapshot->text = *gt_model_text(part->making);
    *gt_model_text(part->making) = (struct gt_buf){0};
    if (snapshot->text.failed) /* no memory: an incomplete model is not served */
        gt_buf_done(&snapshot->text);
    snapshot->made_ms = gt_clock_ms();
    gt_model_free(gt_steal(part->making));
}

/* Continues to write the requested model; true when one is complete. */
static bool go_on(struct ui_part *part, uint64_t ms)
{
    const struct gt_debug_view view = view_of(part);
    for (unsigned i = 0; i < VARIANTS && !part->making; i++) {
        struct snapshot *snapshot = &part->snapshots[i];
        if (!snapshot->wanted)
            continue;
        snapshot->wanted = false;
        part->making_variant = (enum variant)i;
        gt_model_new(&view, i == WITH_PODS, MODEL_MAX, &part->making, NULL);
    }
    if (!part->making || !gt_model_write(part->making, ms * UINT64_C(1000000)))
        return false;
    take_model(part);
    return true;
}

/* Frees a snapshot that was not requested for a while. */
static void ui_part_forget(struct ui_part *part)
{
    uint64_t now = gt_clock_ms();
    bool kept = false;
    for (unsigned i = 0; i < VARIANTS; i++) {
        struct snapshot *snapshot = &part->snapshots[i];
        if (snapshot->text.len && now - snapshot->asked_ms >= KEPT_MS)
            gt_buf_done(&snapshot->text);
        kept = kept || snapshot->text.len;
    }
    if (kept)
        gt_source_arm(part->timer, KEPT_MS);
}

static void ui_part_on_timer(void *arg)
{
    struct ui_part *part = arg;
    go_on(part, PIECE_MS);
    if (part->making || part->snapshots[WITHOUT_PODS].wanted || part->snapshots[WITH_PODS].wanted)
        gt_source_arm(part->timer, 0);
    else
        ui_part_forget(part);
}

static void ui_part_free(void *self)
{
    struct ui_part *part = self;
    if (!part)
        return;
    gt_source_free(part->timer);
    gt_model_free(part->making);
    for (unsigned i = 0; i < VARIANTS; i++)
        gt_buf_done(&part->snapshots[i].text);
    free(part);
}

static int ui_part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    struct ui_part *part = calloc(1, sizeof(*part));
    if (!part)
        return gt_fail(err, ENOMEM, "no memory for the cluster page");
    part->env = env;
    int r = gt_loop_add_timer(env->loop, ui_part_on_timer, part, &part->timer, err);
    if (r < 0)
        free(part);
    else
        *ret = part;
    return r;
}

static void ui_part_lead(void *self, bool leads)
{
    struct ui_part *part = self;
    part->leads = leads;
}

static void serve_model(struct ui_part *part, enum variant variant, struct gt_http_response *response)
{
    struct snapshot *snapshot = &part->snapshots[variant];
    uint64_t now = gt_clock_ms();
    snapshot->asked_ms = now;
    bool idle = !part->making, being_made = !idle && part->making_variant == variant;
    if (!being_made && (!snapshot->text.len || now - snapshot->made_ms >= SHOWN_MS)) {
        snapshot->wanted = true;
        if (idle && go_on(part, FIRST_MS) && part->making_variant == variant)
            snapshot->made_ms = 0; /* a small one is written for each request */
        gt_source_arm(part->timer, 0);
    }
    if (snapshot->text.len) {
        gt_buf_add(&response->body, snapshot->text.data, snapshot->text.len);
        return;
    }
    response->status = 503;
    response->content_type = "text/plain; charset=utf-8";
    gt_buf_puts(&response->body, "the model of a large cluster is being written: ask again in a second\n");
}

static bool ui_part_serve(void *self, const struct gt_http_request *request,
                          struct gt_http_response *response)
{
    struct ui_part *part = self;
    bool model = strcmp(request->path, "/debug/model") == 0, explain = strcmp(request->path, "/explain") == 0;
    bool decisions = strcmp(request->path, "/debug/decisions") == 0;
    if (!model && !explain && !decisions && !gt_ui_serve(request->path, response))
        return false;
    if (request->method != GT_HTTP_GET) {
        gt_buf_done(&response->body);
        response->status = 405;
        response->content_type = "text/plain; charset=utf-8";
        gt_buf_puts(&response->body, "this is asked with GET\n");
        return true;
    }
    if (model) {
        char pods[8];
        gt_query_get(request->query, "pods", pods, sizeof(pods));
        response->content_type = "application/json";
        serve_model(part, strcmp(pods, "no") == 0 ? WITHOUT_PODS : WITH_PODS, response);
    } else if (decisions) {
        gt_decisions_serve(part->env->placement, request->query, response);
    } else if (explain) {
        const struct gt_debug_view view = view_of(part);
        if (view.synced) {
            gt_explain(&view, request->query, response);
        } else {
            response->status = 503;
            gt_buf_puts(&response->body, "gputopo-scheduler has not read the cluster yet\n");
        }
    }
    return true;
}

const struct gt_part gt_ui_part = {
    .name = "ui",
    .help = "answers people: the page /ui, /debug/model, /debug/decisions and /explain",
    .kinds = GT_INFORMER_CLUSTER,
    .new = ui_part_new,
    .free = ui_part_free,
    .lead = ui_part_lead,
    .serve = ui_part_serve,
};
