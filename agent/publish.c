/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/publish.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "kube/status.h"

enum { BODY_MAX = 1 << 20, UID_SIZE = 64, FAILURES_MAX = 30, STEP_MS = 1000, ANSWER_MAX = 4 << 20 };

const struct gt_kube_resource gt_publish_topologies = {
    .group = "topology.metax-tech.com", .version = "v1alpha1", .plural = "nodegputopologies"};

struct lane {
    bool done;         /* of OWNER and OBJECT: nothing to do */
    bool look;         /* its text may be another one now */
    bool again;        /* to be written whatever its text */
    bool was_sent;     /* `sent` is right */
    uint64_t sent;     /* digest of what the API server has */
    uint64_t sent_ms;  /* when */
    bool ever_tried;   /* sent_ms is right */
    uint64_t retry_ms; /* not before */
    unsigned failures; /* in a row */
    int error;         /* of the last failure, 0: none since the last success */
};

struct gt_publish {
    struct gt_publish_options options;
    struct gt_publish_source source;
    struct gt_publish_port port;
    struct lane lanes[GT_PUBLISH_LANES];
    char uid[UID_SIZE]; /* of the Node */
    bool begun;
    bool exists; /* the object was seen, ours or another's */
    bool gone;
    uint64_t heartbeat_at;

    enum gt_publish_lane busy; /* GT_PUBLISH_LANES: none is */
    bool passive;              /* the busy one goes to an object that may not be there */
    uint64_t digest;           /* of what is on its way */

    unsigned away; /* requests in a row without an answer */
    int away_error;
    uint64_t away_until;
    struct gt_publish_stats stats;
};

static const struct {
    const char *name;
    const char *manager;
} lane_facts[GT_PUBLISH_LANES] = {
    [GT_PUBLISH_OWNER] = {"owner", NULL},
    [GT_PUBLISH_OBJECT] = {"object", "gputopo-agent"},
    [GT_PUBLISH_WIRING] = {"wiring", "gputopo-agent"},
    [GT_PUBLISH_USAGE] = {"usage", "gputopo-agent-usage"},
    [GT_PUBLISH_ANNOTATIONS] = {"annotations", "gputopo-agent"},
    [GT_PUBLISH_LABELS] = {"labels", "gputopo-agent-labels"},
};

const char *gt_publish_lane_name(enum gt_publish_lane lane)
{
    return lane < GT_PUBLISH_LANES ? lane_facts[lane].name : "?";
}

static bool is_step(enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_OWNER || lane == GT_PUBLISH_OBJECT;
}

/* FNV-1a */
static uint64_t digest_of(const struct gt_buf *text)
{
    uint64_t digest = 0xcbf29ce484222325U;
    for (size_t i = 0; i < text->len; i++)
        digest = (digest ^ (unsigned char)text->data[i]) * 0x100000001b3U;
    return digest;
}

static uint64_t now(const struct gt_publish *publish)
{
    return publish->port.now_ms(publish->port.arg);
}

static uint64_t random_below(const struct gt_publish *publish, uint64_t max)
{
    return max ? publish->port.random_below(publish->port.arg, max) : 0;
}

/* Between half of the step and all of it; the step doubles with each failure. */
static uint64_t pause_of(const struct gt_publish *publish, unsigned failures, uint64_t max)
{
    uint64_t step = (uint64_t)STEP_MS << (failures < FAILURES_MAX ? failures : FAILURES_MAX);
    step = step < max ? step : max;
    return step / 2 + random_below(publish, step / 2 + 1);
}

static void arm_heartbeat(struct gt_publish *publish)
{
    uint64_t fifth = publish->options.heartbeat_ms / 5;
    publish->heartbeat_at =
        now(publish) + publish->options.heartbeat_ms - fifth + random_below(publish, 2 * fifth + 1);
}

/* An object is made where there is something to say; where there is not, only one that is there is kept
 * right. */
static bool makes_object(const struct gt_publish *publish)
{
    return publish->exists || publish->source.wanted(publish->source.arg);
}

static bool is_due(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    const struct lane *lanes = publish->lanes;
    if (!makes_object(publish))
        return lane == GT_PUBLISH_WIRING && (lanes[lane].look || lanes[lane].again);
    if (is_step(lane))
        return !lanes[lane].done && (lane == GT_PUBLISH_OWNER || lanes[GT_PUBLISH_OWNER].done);
    if (!lanes[GT_PUBLISH_OWNER].done)
        return false;
    if ((lane == GT_PUBLISH_WIRING || lane == GT_PUBLISH_USAGE) && !lanes[GT_PUBLISH_OBJECT].done)
        return false;
    return lanes[lane].look || lanes[lane].again;
}

static uint64_t time_of(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    const struct lane *state = &publish->lanes[lane];
    uint64_t at = state->ever_tried ? state->sent_ms + GT_PUBLISH_INTERVAL_MS : 0;
    at = at > state->retry_ms ? at : state->retry_ms;
    return at > publish->away_until ? at : publish->away_until;
}

/* Wakes up when the next lane may go on, and at the heartbeat. */
static void schedule(struct gt_publish *publish)
{
    if (!publish->begun)
        return;
    uint64_t at = publish->heartbeat_at, moment = now(publish);
    for (unsigned i = 0; i < GT_PUBLISH_LANES && publish->busy == GT_PUBLISH_LANES; i++)
        if (is_due(publish, (enum gt_publish_lane)i) && time_of(publish, (enum gt_publish_lane)i) < at)
            at = time_of(publish, (enum gt_publish_lane)i);
    /* A text on its way that is no longer right may have to be taken back. */
    if (publish->busy != GT_PUBLISH_LANES && publish->lanes[publish->busy].look &&
        moment + GT_PUBLISH_INTERVAL_MS < at)
        at = moment + GT_PUBLISH_INTERVAL_MS;
    publish->port.wake(publish->port.arg, at > moment ? at - moment : 0);
}

static void log_failure(struct lane *lane, enum gt_publish_lane which, const struct gt_err *error)
{
    bool again = lane->error == gt_err_code(error);
    lane->error = gt_err_code(error);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot publish", GT_STR("what", lane_facts[which].name),
           GT_STR("why", gt_err_text(error)));
}

/* The API server said no. */
static void fail_lane(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error)
{
    struct lane *lane = &publish->lanes[which];
    publish->stats.failures[which]++;
    lane->again = true;
    lane->retry_ms = now(publish) + pause_of(publish, lane->failures, publish->options.heartbeat_ms);
    lane->failures += lane->failures < FAILURES_MAX;
    if (error)
        log_failure(lane, which, error);
}

/* It said nothing of use. `status` 429 comes here only where it asked for longer than the request had. */
static void go_away(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error,
                    unsigned status)
{
    uint64_t wait = pause_of(publish, publish->away, GT_PUBLISH_AWAY_MAX_MS);
    if (status == 429)
        wait = GT_PUBLISH_THROTTLED_MS + random_below(publish, GT_PUBLISH_THROTTLED_MS / 2);
    publish->away_until = now(publish) + wait;
    publish->away += publish->away < FAILURES_MAX;
    publish->stats.failures[which]++;
    publish->lanes[which].again = true;
    if (!error)
        return;
    bool again = publish->away_error == gt_err_code(error);
    publish->away_error = gt_err_code(error);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "the API server does not answer, what is published stays",
           GT_STR("why", gt_err_text(error)));
}

static void is_back(struct gt_publish *publish)
{
    if (publish->away_error)
        gt_info("the API server answers again");
    publish->away = 0;
    publish->away_error = 0;
    publish->away_until = 0;
}

/* The Node or the object is not what it was: begin with the Node. */
static void start_over(struct gt_publish *publish)
{
    publish->lanes[GT_PUBLISH_OWNER].done = false;
    publish->lanes[GT_PUBLISH_OBJECT].done = false;
}

static void node_found(struct gt_publish *publish, const struct gt_kube_answer *answer)
{
    const char *uid = answer->object ? gt_kube_meta(answer->object, "uid") : "";
    if (!*uid || strlen(uid) >= sizeof(publish->uid)) {
        gt_auto_err struct gt_err *err = NULL;
        gt_fail(&err, EBADMSG, "the Node has no UID in the API server's answer");
        fail_lane(publish, GT_PUBLISH_OWNER, err);
        return;
    }
    if (publish->gone)
        gt_info("the Node is there, publishing");
    publish->gone = false;
    publish->lanes[GT_PUBLISH_OWNER].done = true;
    if (strcmp(uid, publish->uid) == 0)
        return;
    memcpy(publish->uid, uid, strlen(uid) + 1);
    publish->lanes[GT_PUBLISH_OBJECT].done = false;
    publish->lanes[GT_PUBLISH_ANNOTATIONS].again = true;
    publish->lanes[GT_PUBLISH_LABELS].again = true;
}

static void node_missing(struct gt_publish *publish)
{
    struct lane *lane = &publish->lanes[GT_PUBLISH_OWNER];
    if (!publish->gone)
        gt_warning("there is no such Node, nothing is published until there is",
                   GT_STR("node", publish->options.node_name));
    publish->gone = true;
    publish->uid[0] = '\0';
    lane->retry_ms = now(publish) + pause_of(publish, lane->failures, publish->options.heartbeat_ms);
    lane->failures += lane->failures < FAILURES_MAX;
}

static void object_made(struct gt_publish *publish, const struct gt_kube_answer *answer)
{
    if (publish->exists && answer->status == 201)
        gt_info("the NodeGPUTopology was not there any more, made again");
    publish->exists = true;
    publish->lanes[GT_PUBLISH_OBJECT].done = true;
    publish->lanes[GT_PUBLISH_WIRING].again = true;
    publish->lanes[GT_PUBLISH_USAGE].again = true;
    if (answer->object)
        publish->source.found(publish->source.arg, answer->object);
}

static void succeed(struct gt_publish *publish, enum gt_publish_lane which,
                    const struct gt_kube_answer *answer)
{
    struct lane *lane = &publish->lanes[which];
    struct timespec time;
    if (lane->error)
        gt_info("published again", GT_STR("what", lane_facts[which].name));
    lane->error = 0;
    lane->retry_ms = 0;
    publish->stats.writes[which]++;
    if (which == GT_PUBLISH_OWNER) {
        lane->failures = 0;
        node_found(publish, answer);
        return;
    }
    if (which == GT_PUBLISH_OBJECT) {
        lane->failures = 0;
        object_made(publish, answer);
        return;
    }
    lane->failures = 0;
    lane->was_sent = true;
    lane->sent = publish->digest;
    if (publish->passive) { /* there is one, from when the node had GPUs: the rest is kept right as well */
        publish->exists = true;
        start_over(publish);
    }
    if (which == GT_PUBLISH_WIRING || which == GT_PUBLISH_USAGE) {
        clock_gettime(CLOCK_REALTIME, &time);
        publish->stats.last_s = (double)time.tv_sec;
    }
}

static bool is_field_conflict(const cJSON *status)
{
    const cJSON *details = cJSON_GetObjectItemCaseSensitive(status, "details"), *cause;
    const cJSON *causes = cJSON_GetObjectItemCaseSensitive(details, "causes");
    cJSON_ArrayForEach(cause,
                       causes) if (strcmp(gt_kube_reason(cause), "FieldManagerConflict") == 0) return true;
    return strstr(gt_kube_text(status, "message"), "conflict with ") != NULL;
}

static void refused(struct gt_publish *publish, enum gt_publish_lane which,
                    const struct gt_kube_answer *answer)
{
    bool of_node = which == GT_PUBLISH_ANNOTATIONS || which == GT_PUBLISH_LABELS;
    bool of_status = which == GT_PUBLISH_WIRING || which == GT_PUBLISH_USAGE;
    struct lane *lane = &publish->lanes[which];
    if (answer->status == 404 && which == GT_PUBLISH_OWNER) {
        node_missing(publish);
        return;
    }
    if (answer->status == 404 && of_status && publish->passive) {
        lane->was_sent = true;
        lane->sent = publish->digest;
        return;
    }
    if (answer->status == 409 && of_node && is_field_conflict(answer->object)) {
        lane->again = publish->source.conflict(publish->source.arg, which, answer->object);
        if (!lane->again)
            fail_lane(publish, which, answer->error);
        return;
    }
    bool lost =
        (of_status && answer->status == 404) || (of_node && (answer->status == 404 || answer->status == 409));
    if (lost)
        start_over(publish);
    fail_lane(publish, which, lost ? NULL : answer->error);
}

static void on_answer(void *arg, struct gt_kube_answer *answer)
{
    struct gt_publish *publish = arg;
    enum gt_publish_lane which = publish->busy;
    publish->busy = GT_PUBLISH_LANES;
    bool silent = answer->status == 0 || answer->status == 401 || gt_kube_is_passing(answer->status);
    if (!answer->error) {
        is_back(publish);
        succeed(publish, which, answer);
    } else if (silent || answer->status < 400) {
        go_away(publish, which, answer->error, answer->status);
    } else {
        is_back(publish);
        refused(publish, which, answer);
    }
    schedule(publish);
}

/* The text of a lane; its digest is of the text without what always changes. */
static bool make(struct gt_publish *publish, enum gt_publish_lane which, const char *at, struct gt_buf *to)
{
    return publish->source.write(publish->source.arg, which, publish->uid, at, to) && !to->failed && to->data;
}

/* Whether the lane has something that the API server has not. */
static bool has_news(struct gt_publish *publish, enum gt_publish_lane which)
{
    struct lane *lane = &publish->lanes[which];
    gt_auto_buf struct gt_buf text = GT_BUF(BODY_MAX);
    if (!make(publish, which, NULL, &text)) {
        lane->look = lane->again = false;
        return false;
    }
    publish->digest = digest_of(&text);
    if (!lane->again && lane->was_sent && lane->sent == publish->digest) {
        lane->look = false;
        return false;
    }
    return true;
}

static struct gt_kube_request request_of(const struct gt_publish *publish, enum gt_publish_lane which)
{
    bool of_object = which == GT_PUBLISH_OBJECT || which == GT_PUBLISH_WIRING || which == GT_PUBLISH_USAGE;
    struct gt_kube_request request = {
        .verb = which == GT_PUBLISH_OWNER ? GT_KUBE_GET : GT_KUBE_APPLY,
        .resource = of_object ? &gt_publish_topologies : &gt_kube_nodes,
        .name = publish->options.node_name,
        .field_manager = lane_facts[which].manager,
        .force = of_object || (which == GT_PUBLISH_ANNOTATIONS && publish->options.force_annotations),
        .metadata_only = which != GT_PUBLISH_OBJECT,
        .deadline_ms = publish->away ? GT_PUBLISH_AWAY_MS : GT_PUBLISH_DEADLINE_MS,
        .response_max = ANSWER_MAX,
    };
    if (which == GT_PUBLISH_WIRING || which == GT_PUBLISH_USAGE)
        request.subresource = "status";
    return request;
}

static void start(struct gt_publish *publish, enum gt_publish_lane which)
{
    struct lane *lane = &publish->lanes[which];
    struct gt_kube_request request = request_of(publish, which);
    gt_auto_buf struct gt_buf body = GT_BUF(BODY_MAX);
    gt_auto_err struct gt_err *err = NULL;
    char at[GT_PUBLISH_TIME_SIZE];
    if (!is_step(which) && !has_news(publish, which))
        return;
    publish->port.now_text(publish->port.arg, at);
    if (which != GT_PUBLISH_OWNER && !make(publish, which, at, &body)) {
        fail_lane(publish, which, NULL); /* no memory, or a text beyond all measure */
        return;
    }
    request.body = body.data;
    lane->ever_tried = true;
    lane->sent_ms = now(publish);
    lane->look = lane->again = false;
    publish->busy = which;
    publish->passive = !is_step(which) && !makes_object(publish);
    if (publish->port.send(publish->port.arg, &request, on_answer, publish, &err) < 0) {
        publish->busy = GT_PUBLISH_LANES;
        go_away(publish, which, err, 0);
    }
}

/* A request that has been waiting for the API server with a text of yesterday is taken back, so that what is
 * written when it returns is written once. */
static void take_back(struct gt_publish *publish)
{
    enum gt_publish_lane which = publish->busy;
    struct lane *lane = &publish->lanes[which];
    uint64_t digest = publish->digest;
    if (!lane->look || is_step(which) || !publish->port.is_idle(publish->port.arg))
        return;
    bool news = has_news(publish, which) && publish->digest != digest;
    publish->digest = digest;
    if (!news) {
        lane->look = false;
        return;
    }
    publish->port.withdraw(publish->port.arg);
    publish->busy = GT_PUBLISH_LANES;
    go_away(publish, which, NULL, 0);
}

static void beat(struct gt_publish *publish)
{
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        if (!is_step((enum gt_publish_lane)i))
            publish->lanes[i].again = true;
    arm_heartbeat(publish);
}

void gt_publish_run(struct gt_publish *publish)
{
    uint64_t moment = now(publish);
    if (!publish->begun)
        return;
    if (moment >= publish->heartbeat_at)
        beat(publish);
    if (publish->busy != GT_PUBLISH_LANES)
        take_back(publish);
    for (unsigned i = 0; i < GT_PUBLISH_LANES && publish->busy == GT_PUBLISH_LANES; i++) {
        enum gt_publish_lane lane = (enum gt_publish_lane)i;
        if (is_due(publish, lane) && time_of(publish, lane) <= moment)
            start(publish, lane);
    }
    schedule(publish);
}

void gt_publish_changed(struct gt_publish *publish)
{
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        if (!is_step((enum gt_publish_lane)i))
            publish->lanes[i].look = true;
    schedule(publish);
}

void gt_publish_refresh(struct gt_publish *publish)
{
    beat(publish);
    schedule(publish);
}

void gt_publish_begin(struct gt_publish *publish)
{
    if (publish->begun)
        return;
    publish->begun = true;
    /* The kubelet takes the GPUs in meanwhile, as a rule: one write instead of two. */
    publish->away_until =
        now(publish) + GT_PUBLISH_INTERVAL_MS + random_below(publish, publish->options.heartbeat_ms / 30 + 1);
    arm_heartbeat(publish);
    gt_publish_changed(publish);
}

int gt_publish_new(const struct gt_publish_options *options, const struct gt_publish_source *source,
                   const struct gt_publish_port *port, struct gt_publish **ret, struct gt_err **err)
{
    struct gt_publish *publish = calloc(1, sizeof(*publish));
    if (!publish)
        return gt_fail_sys(err, ENOMEM, "publisher");
    publish->options = *options;
    publish->source = *source;
    publish->port = *port;
    publish->busy = GT_PUBLISH_LANES;
    *ret = publish;
    return 0;
}

void gt_publish_free(struct gt_publish *publish)
{
    if (publish && publish->busy != GT_PUBLISH_LANES)
        publish->port.withdraw(publish->port.arg);
    free(publish);
}

void gt_publish_stats(const struct gt_publish *publish, struct gt_publish_stats *ret)
{
    *ret = publish->stats;
    ret->away = publish->away > 0;
    ret->gone = publish->gone;
    ret->current = publish->begun && publish->busy == GT_PUBLISH_LANES;
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        ret->current = ret->current && !is_due(publish, (enum gt_publish_lane)i);
}
