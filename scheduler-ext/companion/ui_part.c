/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "scheduler-ext/companion/part.h"
#include "scheduler-ext/companion/reviews.h"
#include "scheduler-ext/serve/debug_view.h"
#include "scheduler-ext/serve/explain.h"
#include "scheduler-ext/serve/page_state.h"

/* The part "ui": /ui, /debug/model, /debug/decisions and /explain for people, on every replica. */

/* How often the page's state is made: while somebody looks, and for the history of health. A round of a large
 * cluster takes longer, so that it takes at most a tenth of the time. */
enum { LOOK_MS = 400, LOOKED_MS = 10000, WATCH_MS = 10000, ROUND_PART = 10, NAMESPACE_SIZE = 64 };

enum { FIRST_MS = 4, PIECE_MS = 2, MODEL_MAX = 32 << 20 };

struct ui_part {
    const struct gt_part_env *env;
    struct gt_page *page;
    struct gt_source *page_timer;
    struct gt_reviews *reviews; /* NULL: everybody may look */
    uint64_t round_began_ms, round_ended_ms, looked_ms;
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

/* ---- the page's state ---- */

static void go_round(struct ui_part *part, uint64_t ms)
{
    const struct gt_debug_view view = view_of(part);
    if (!gt_page_is_scanning(part->page))
        part->round_began_ms = view.now_ms;
    if (!gt_page_scan(part->page, &view, ms * UINT64_C(1000000))) {
        gt_source_arm(part->page_timer, 0);
        return;
    }
    part->round_ended_ms = gt_clock_ms();
    uint64_t rest = (part->round_ended_ms - part->round_began_ms) * ROUND_PART;
    bool looked_at = part->looked_ms && part->round_ended_ms - part->looked_ms < LOOKED_MS;
    uint64_t wait = looked_at ? LOOK_MS : WATCH_MS;
    gt_source_arm(part->page_timer, rest > wait ? rest : wait);
}

static void ui_part_on_page_timer(void *arg)
{
    go_round(arg, PIECE_MS);
}

static void on_health(void *arg, const char *node, bool worse, const char *reason, const char *text)
{
    struct ui_part *part = arg;
    const struct gt_event_object event = {
        .kind = "Node", .name = node, .warning = worse, .reason = reason, .note = text};
    gt_kube_recorder_note(part->env->recorder, &event);
}

static void serve_state(struct ui_part *part, const char *query, const char *only,
                        struct gt_http_response *response)
{
    const struct gt_debug_view view = view_of(part);
    gt_auto_buf struct gt_buf certificate = GT_BUF(1024);
    bool first = !part->looked_ms || view.now_ms - part->looked_ms >= LOOKED_MS;
    part->looked_ms = view.now_ms;
    if (!gt_page_is_scanning(part->page) && (first || view.now_ms - part->round_ended_ms >= LOOK_MS / 2))
        go_round(part, FIRST_MS);
    const char *leader = part->env->describe(part->env->leading_arg, &certificate);
    const struct gt_page_around around = {
        leader, certificate.len && !certificate.failed ? certificate.data : "", part->env->recorder, only};
    gt_page_state(part->page, &view, &around, query, response);
}

static void serve_node(struct ui_part *part, const char *query, struct gt_http_response *response)
{
    const struct gt_debug_view view = view_of(part);
    char name[GT_CLUSTER_NAME_MAX + 1];
    gt_query_get(query, "name", name, sizeof(name));
    response->content_type = "application/json";
    if (gt_page_node_json(&view, name, &response->body))
        return;
    response->status = 404;
    response->content_type = "text/plain; charset=utf-8";
    gt_buf_puts(&response->body, "there is no such node with GPUs\n");
}

static void ui_part_free(void *self)
{
    struct ui_part *part = self;
    if (!part)
        return;
    gt_source_free(part->page_timer);
    gt_page_free(part->page);
    gt_reviews_free(part->reviews);
    free(part);
}
GT_DEFINE_CLEANUP(struct ui_part *, ui_part_free)

static int ui_part_new(const struct gt_part_env *env, void **ret, struct gt_err **err)
{
    GT_CLEANUP(ui_part_free) struct ui_part *part = calloc(1, sizeof(*part));
    if (!part)
        return gt_fail(err, ENOMEM, "no memory for the cluster page");
    part->env = env;
    const struct gt_page_spec page = {on_health, part};
    GT_TRY(gt_loop_add_timer(env->loop, ui_part_on_page_timer, part, &part->page_timer, err));
    GT_TRY(gt_page_new(&page, &part->page, err));
    if (env->options->serve.ui_access)
        GT_TRY(gt_reviews_new(env->kube, &part->reviews, err));
    gt_source_arm(part->page_timer, WATCH_MS);
    *ret = gt_steal(part);
    return 0;
}

static void ui_part_lead(void *self, bool leads)
{
    struct ui_part *part = self;
    part->leads = leads;
}

static void serve_model(struct ui_part *part, struct gt_http_response *response)
{
    const struct gt_debug_view view = view_of(part);
    gt_auto_buf struct gt_buf model = GT_BUF(MODEL_MAX);
    gt_model_json(&view, &model);
    response->content_type = "application/json";
    response->compressed = true;
    response->body.failed |= model.failed; /* no memory: an incomplete model is not served */
    gt_buf_add(&response->body, model.data, model.len);
}

/* ---- who may look ---- */

static void refuse_viewer(enum gt_verdict verdict, struct gt_http_response *response)
{
    static const struct {
        unsigned status;
        const char *text;
    } answers[] = {
        [GT_VERDICT_PENDING] = {503, "the API server is asked who you are: ask again in a second\n"},
        [GT_VERDICT_FAILED] = {503, "the API server cannot be asked who you are: ask again later\n"},
        [GT_VERDICT_UNKNOWN] = {401, "a bearer token that the API server knows is needed here\n"},
        [GT_VERDICT_FORBIDDEN] = {403, "you may neither list nodes nor the pods of this namespace\n"},
        [GT_VERDICT_NAMESPACE] = {403, "only who may list nodes may ask this\n"},
    };
    response->status = answers[verdict].status;
    response->content_type = "text/plain; charset=utf-8";
    gt_buf_puts(&response->body, answers[verdict].text);
}

/* `only` is set to the namespace where he may see no more. */
static enum gt_verdict verdict_of(struct ui_part *part, const struct gt_http_request *request,
                                  char only[static NAMESPACE_SIZE])
{
    static const char scheme[] = "Bearer ";
    const char *given = request->authorization;
    if (!part->reviews)
        return GT_VERDICT_ALL;
    if (*part->env->options->serve.ui_clients &&
        gt_http_client_is(request, part->env->options->serve.ui_clients))
        return GT_VERDICT_ALL;
    gt_query_get(request->query, "namespace", only, NAMESPACE_SIZE);
    if (!given || strncasecmp(given, scheme, sizeof(scheme) - 1) != 0)
        return GT_VERDICT_UNKNOWN;
    return gt_reviews_ask(part->reviews, given + sizeof(scheme) - 1, only, gt_clock_ms());
}

static void serve_explain(struct ui_part *part, const char *query, struct gt_http_response *response)
{
    const struct gt_debug_view view = view_of(part);
    if (view.synced) {
        gt_explain(&view, query, response);
        return;
    }
    response->status = 503;
    gt_buf_puts(&response->body, "gputopo-scheduler has not read the cluster yet\n");
}

enum asked { ASKED_NOTHING, ASKED_MODEL, ASKED_DECISIONS, ASKED_EXPLAIN, ASKED_STATE, ASKED_NODE };

static enum asked what_is_asked(const char *path)
{
    static const char *const paths[] = {
        [ASKED_MODEL] = "/debug/model", "/debug/decisions", "/explain", "/ui/state", "/ui/node"};
    for (unsigned i = ASKED_MODEL; i < GT_COUNT(paths); i++)
        if (strcmp(path, paths[i]) == 0)
            return (enum asked)i;
    return ASKED_NOTHING;
}

static void serve_data(struct ui_part *part, enum asked asked, const struct gt_http_request *request,
                       struct gt_http_response *response)
{
    char only[NAMESPACE_SIZE] = "";
    enum gt_verdict verdict = verdict_of(part, request, only);
    if (verdict != GT_VERDICT_ALL && !(asked == ASKED_STATE && verdict == GT_VERDICT_NAMESPACE)) {
        refuse_viewer(verdict, response);
        return;
    }
    switch (asked) {
    case ASKED_MODEL:
        serve_model(part, response);
        return;
    case ASKED_DECISIONS:
        gt_decisions_serve(part->env->placement, request->query, response);
        return;
    case ASKED_EXPLAIN:
        serve_explain(part, request->query, response);
        return;
    case ASKED_STATE:
        serve_state(part, request->query, verdict == GT_VERDICT_NAMESPACE ? only : NULL, response);
        return;
    case ASKED_NODE:
        serve_node(part, request->query, response);
        return;
    case ASKED_NOTHING:
        return;
    }
}

static bool ui_part_serve(void *self, const struct gt_http_request *request,
                          struct gt_http_response *response)
{
    struct ui_part *part = self;
    enum asked asked = what_is_asked(request->path);
    if (!asked && !gt_ui_serve(request->path, response))
        return false;
    if (request->method != GT_HTTP_GET) {
        gt_buf_done(&response->body);
        response->status = 405;
        response->content_type = "text/plain; charset=utf-8";
        gt_buf_puts(&response->body, "this is asked with GET\n");
        return true;
    }
    if (asked) /* the page itself has no secrets */
        serve_data(part, asked, request, response);
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
