/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "agent/publish_answer.h"
#include "base/digest.h"

enum { PUBLISH_BODY_MAX = 1 << 20, PUBLISH_ANSWER_MAX = 4 << 20 };

static bool is_step(enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_OWNER || lane == GT_PUBLISH_OBJECT;
}

static bool is_of_object(enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_OBJECT || lane == GT_PUBLISH_WIRING || lane == GT_PUBLISH_USAGE;
}

static bool is_status(enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_WIRING || lane == GT_PUBLISH_USAGE || lane == GT_PUBLISH_CONDITION;
}

static bool publish_is_slice(enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_SLICE || lane == GT_PUBLISH_COUNTERS;
}

static const char *slice_name(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_SLICE ? publish->options.slice_name : publish->options.counters_name;
}

static void arm_heartbeat(struct gt_publish *publish)
{
    uint64_t fifth = publish->options.heartbeat_ms / 5;
    publish->heartbeat_at = gt_publish_now(publish) + publish->options.heartbeat_ms - fifth +
                            gt_publish_random(publish, 2 * fifth + 1);
}

/* An object is made for a node that has GPUs; without GPUs only an existing one is updated. The Node always
 * exists. */
static bool makes_object(const struct gt_publish *publish)
{
    return publish->options.node_only || publish->exists || publish->source.wanted(publish->source.arg);
}

static bool is_due(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    const struct lane *lanes = publish->lanes;
    if (publish->options.node_only && (is_of_object(lane) || lane == GT_PUBLISH_CONDITION))
        return false;
    if (publish_is_slice(lane) && !slice_name(publish, lane))
        return false;
    if (!makes_object(publish))
        return lane == GT_PUBLISH_WIRING && (lanes[lane].changed || lanes[lane].again);
    if (is_step(lane))
        return !lanes[lane].done && (lane == GT_PUBLISH_OWNER || lanes[GT_PUBLISH_OWNER].done);
    if (!lanes[GT_PUBLISH_OWNER].done)
        return false;
    if (is_status(lane) && !lanes[GT_PUBLISH_OBJECT].done)
        return false;
    return lanes[lane].changed || lanes[lane].again;
}

static uint64_t time_of(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    const struct lane *state = &publish->lanes[lane];
    uint64_t at = state->ever_tried ? state->sent_ms + GT_PUBLISH_INTERVAL_MS : 0;
    at = at > state->retry_ms ? at : state->retry_ms;
    return at > publish->away_until ? at : publish->away_until;
}

/* The text of a lane; its digest is of the text without what always changes. */
static bool publish_make(struct gt_publish *publish, enum gt_publish_lane which, const char *at,
                         struct gt_buf *to)
{
    return publish->source.write(publish->source.arg, which, publish->uid, at, to) && !to->failed && to->data;
}

/* Whether the lane has something that the API server has not. */
static bool publish_is_changed(struct gt_publish *publish, enum gt_publish_lane which)
{
    struct lane *lane = &publish->lanes[which];
    gt_auto_buf struct gt_buf text = GT_BUF(PUBLISH_BODY_MAX);
    if (!publish_make(publish, which, NULL, &text)) {
        lane->was_sent = lane->was_sent && !lane->again; /* then it is sent when there is a text again */
        lane->changed = lane->again = false;
        return false;
    }
    publish->digest = gt_digest_bytes(GT_DIGEST_EMPTY, text.data, text.len);
    if (!lane->again && lane->was_sent && lane->sent == publish->digest) {
        lane->changed = false;
        return false;
    }
    return true;
}

static struct gt_kube_request publish_request_of(const struct gt_publish *publish, enum gt_publish_lane which)
{
    bool of_object = is_of_object(which);
    struct gt_kube_request request = {
        .verb = which == GT_PUBLISH_OWNER ? GT_KUBE_GET : GT_KUBE_APPLY,
        .resource = of_object                 ? &gt_kube_node_gpu_topologies
                    : publish_is_slice(which) ? &gt_kube_resource_slices
                                              : &gt_kube_nodes,
        .name = publish_is_slice(which) ? slice_name(publish, which) : publish->options.node_name,
        .field_manager = gt_publish_lane_manager(which),
        .force = of_object || publish_is_slice(which) || which == GT_PUBLISH_CONDITION ||
                 (which == GT_PUBLISH_ANNOTATIONS && publish->options.force_annotations),
        .metadata_only = which == GT_PUBLISH_OWNER,
        .no_object = !is_step(which),
        .deadline_ms = GT_PUBLISH_DEADLINE_MS,
        .response_max = PUBLISH_ANSWER_MAX,
    };
    if (is_status(which))
        request.subresource = "status";
    return request;
}

/* False: there is nothing to write, or it cannot be made. */
static bool publish_begin_lane(struct gt_publish *publish, enum gt_publish_lane which,
                               struct gt_kube_request *ret, struct gt_buf *body)
{
    struct lane *lane = &publish->lanes[which];
    char at[GT_PUBLISH_TIME_SIZE];
    if (!is_step(which) && !publish_is_changed(publish, which))
        return false;
    publish->port.now_text(publish->port.arg, at);
    if (which != GT_PUBLISH_OWNER && !publish_make(publish, which, at, body)) {
        gt_publish_fail_lane(publish, which, NULL); /* no memory, or a text above the limit */
        gt_buf_consume(body, body->len);
        return false;
    }
    *ret = publish_request_of(publish, which);
    lane->ever_tried = true;
    lane->sent_ms = gt_publish_now(publish);
    lane->changed = lane->again = false;
    publish->busy = which;
    publish->passive = !is_step(which) && !makes_object(publish);
    return true;
}

static void heartbeat(struct gt_publish *publish)
{
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        if (!is_step((enum gt_publish_lane)i))
            publish->lanes[i].again = true;
    arm_heartbeat(publish);
}

/* The lane whose turn it is; else it is asked again when the next one may go on, or at the heartbeat. */
static int publish_next(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                        struct gt_err **err)
{
    struct gt_publish *publish = key->of;
    uint64_t moment = gt_publish_now(publish);
    (void)err;
    if (moment >= publish->heartbeat_at)
        heartbeat(publish);
    key->due_ms = publish->heartbeat_at;
    for (enum gt_publish_lane lane = 0; lane < GT_PUBLISH_LANES && !body->failed; lane++) {
        if (is_due(publish, lane) && time_of(publish, lane) <= moment &&
            publish_begin_lane(publish, lane, ret, body))
            return GT_WRITE_SEND;
        if (is_due(publish, lane) && time_of(publish, lane) < key->due_ms)
            key->due_ms = time_of(publish, lane);
    }
    return GT_WRITE_LATER;
}

static void publish_wake(struct gt_publish *publish)
{
    if (publish->begun)
        gt_write_add(&publish->key);
}

static bool publish_on_answer(struct gt_write_key *key, enum gt_write_outcome outcome,
                              struct gt_kube_answer *answer)
{
    struct gt_publish *publish = key->of;
    enum gt_publish_lane which = publish->busy;
    (void)outcome;
    publish->busy = GT_PUBLISH_LANES;
    gt_publish_take_answer(publish, which, answer);
    key->due_ms = 0; /* the lanes have their own times */
    publish_wake(publish);
    return false;
}

void gt_publish_changed(struct gt_publish *publish)
{
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        if (!is_step((enum gt_publish_lane)i))
            publish->lanes[i].changed = true;
    publish_wake(publish);
}

void gt_publish_again(struct gt_publish *publish, enum gt_publish_lane lane)
{
    publish->lanes[lane].again = true;
    publish_wake(publish);
}

void gt_publish_refresh(struct gt_publish *publish)
{
    heartbeat(publish);
    publish_wake(publish);
}

void gt_publish_begin(struct gt_publish *publish)
{
    if (publish->begun)
        return;
    publish->begun = true;
    /* The kubelet usually registers the GPUs meanwhile: one write instead of two. */
    publish->away_until = gt_publish_now(publish) + GT_PUBLISH_INTERVAL_MS +
                          gt_publish_random(publish, publish->options.heartbeat_ms / 30 + 1);
    arm_heartbeat(publish);
    gt_publish_changed(publish);
}

int gt_publish_new(const struct gt_publish_options *options, const struct gt_publish_source *source,
                   const struct gt_publish_port *port, struct gt_publish **ret, struct gt_err **err)
{
    struct gt_publish *publish = calloc(1, sizeof(*publish));
    GT_NEED(publish, err, "publisher");
    publish->options = *options;
    publish->source = *source;
    publish->port = *port;
    publish->busy = GT_PUBLISH_LANES;
    publish->line = (struct gt_write_line){.name = "publish",
                                           .running_max = 1,
                                           .body_max = PUBLISH_BODY_MAX,
                                           .retry_ms = GT_PUBLISH_INTERVAL_MS,
                                           .retry_max_ms = GT_PUBLISH_INTERVAL_MS,
                                           .make = publish_next,
                                           .answered = publish_on_answer};
    publish->key = (struct gt_write_key){.line = &publish->line, .of = publish};
    gt_write_open(port->writer, &publish->line);
    *ret = publish;
    return 0;
}

void gt_publish_free(struct gt_publish *publish)
{
    if (publish)
        gt_write_close(&publish->line);
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
