/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/publish.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/digest.h"
#include "base/json_get.h"
#include "base/log.h"
#include "base/time_text.h"
#include "kube/status.h"

enum { GT_PUBLISH_UID_SIZE = 64 };

struct lane {
    struct gt_write_key key; /* first */
    bool done;               /* OWNER and OBJECT only: nothing is left to do */
    bool changed;            /* the others: its text may have changed */
    bool again;              /* likewise: to be written even if its text is unchanged */
    bool was_sent;           /* `sent` is valid */
    uint64_t sent;           /* digest of what the API server has */
    int error;               /* of the last failure, 0: none since the last success */
};

struct gt_publish {
    struct gt_publish_options options;
    struct gt_publish_source source;
    struct gt_writer *writer;
    struct gt_write_line line;
    struct lane lanes[GT_PUBLISH_LANES];
    char uid[GT_PUBLISH_UID_SIZE]; /* of the Node */
    bool begun;
    bool exists; /* the object exists, made by us or by another */
    bool gone;
    uint64_t heartbeat_at;

    bool passive;    /* the running request is for an object that may not exist */
    uint64_t digest; /* of the text in it */

    unsigned away; /* requests in a row without an answer */
    int away_error;
    uint64_t away_until;
    struct gt_publish_stats stats;
};

static const struct {
    const char *name, *manager;
    const struct gt_kube_resource *resource;
    bool is_step; /* done once */
    bool is_status;
} lane_facts[GT_PUBLISH_LANES] = {
    [GT_PUBLISH_OWNER] = {"owner", NULL, &gt_kube_nodes, .is_step = true},
    [GT_PUBLISH_OBJECT] = {"object", GT_MANAGER_AGENT, &gt_kube_node_gpu_topologies, .is_step = true},
    [GT_PUBLISH_WIRING] = {"wiring", GT_MANAGER_AGENT, &gt_kube_node_gpu_topologies, .is_status = true},
    [GT_PUBLISH_USAGE] = {"usage", GT_MANAGER_USAGE, &gt_kube_node_gpu_topologies, .is_status = true},
    [GT_PUBLISH_ANNOTATIONS] = {"annotations", GT_MANAGER_AGENT, &gt_kube_nodes, false, false},
    [GT_PUBLISH_LABELS] = {"labels", GT_MANAGER_LABELS, &gt_kube_nodes, false, false},
    [GT_PUBLISH_CONDITION] = {"condition", GT_MANAGER_CONDITION, &gt_kube_nodes, .is_status = true},
    [GT_PUBLISH_COUNTERS] = {"counters", GT_MANAGER_AGENT, &gt_kube_resource_slices, false, false},
    [GT_PUBLISH_SLICE] = {"slice", GT_MANAGER_AGENT, &gt_kube_resource_slices, false, false},
};

const char *gt_publish_lane_name(enum gt_publish_lane lane)
{
    return lane < GT_PUBLISH_LANES ? lane_facts[lane].name : "?";
}

static bool is_step(enum gt_publish_lane lane)
{
    return lane_facts[lane].is_step;
}

static bool is_of_object(enum gt_publish_lane lane)
{
    return lane_facts[lane].resource == &gt_kube_node_gpu_topologies;
}

static bool publish_is_slice(enum gt_publish_lane lane)
{
    return lane_facts[lane].resource == &gt_kube_resource_slices;
}

/* The API server refused the request: the lane is written again after the key's pause. */
static void publish_fail_lane(struct gt_publish *publish, enum gt_publish_lane which,
                              const struct gt_err *error)
{
    struct lane *lane = &publish->lanes[which];
    publish->stats.failures[which]++;
    lane->again = true;
    if (error)
        gt_log(gt_log_level_of_code(&lane->error, gt_err_code(error)), "cannot publish",
               GT_STR("what", gt_publish_lane_name(which)), GT_STR("why", gt_err_text(error)));
}

/* The API server gave no usable answer: all lanes wait. A single time is not told. */
static void publish_go_away(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer)
{
    publish->away_until = gt_writer_now(publish->writer) +
                          gt_backoff_wait(publish->away++, GT_PUBLISH_INTERVAL_MS, GT_PUBLISH_AWAY_MAX_MS,
                                          answer->retry_after_s, &publish->options.jitter);
    publish->lanes[which].key.due_ms = publish->away_until;
    publish->lanes[which].key.failures--; /* it was not its own */
    publish->stats.failures[which]++;
    publish->lanes[which].again = true;
    if (publish->away == 1)
        return;
    gt_log(gt_log_level_of_code(&publish->away_error, gt_err_code(answer->error)),
           "the API server does not answer, what is published stays",
           GT_STR("why", gt_err_text(answer->error)));
}

static void is_back(struct gt_publish *publish)
{
    if (publish->away_error)
        gt_info("the API server answers again");
    publish->away = 0;
    publish->away_error = 0;
    publish->away_until = 0;
}

/* The Node or the object was deleted or made again: begin with the Node. */
static void start_over(struct gt_publish *publish)
{
    publish->lanes[GT_PUBLISH_OWNER].done = false;
    publish->lanes[GT_PUBLISH_OBJECT].done = false;
}

static void node_found(struct gt_publish *publish, const struct gt_kube_answer *answer)
{
    const char *uid = answer->object ? gt_meta_uid(answer->object) : "";
    if (!*uid || strlen(uid) >= sizeof(publish->uid)) {
        gt_auto_err struct gt_err *err = NULL;
        gt_fail(&err, EBADMSG, "the Node has no UID in the API server's answer");
        publish_fail_lane(publish, GT_PUBLISH_OWNER, err);
        publish->lanes[GT_PUBLISH_OWNER].key.due_ms = publish->heartbeat_at;
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
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++) /* the Node owns the slices, too */
        publish->lanes[i].again |= !is_of_object((enum gt_publish_lane)i);
}

static void node_missing(struct gt_publish *publish)
{
    if (!publish->gone)
        gt_warning("there is no such Node, nothing is published until there is",
                   GT_STR("node", publish->options.node_name));
    publish->gone = true;
    publish->uid[0] = '\0';
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
    if (lane->error)
        gt_info("published again", GT_STR("what", gt_publish_lane_name(which)));
    lane->error = 0;
    publish->stats.writes[which]++;
    if (which == GT_PUBLISH_OWNER) {
        node_found(publish, answer);
        return;
    }
    if (which == GT_PUBLISH_OBJECT) {
        object_made(publish, answer);
        return;
    }
    lane->was_sent = true;
    lane->sent = publish->digest;
    if (publish->passive) { /* there is one, from when the node had GPUs: the rest is kept right as well */
        publish->exists = true;
        start_over(publish);
    }
}

static void refused(struct gt_publish *publish, enum gt_publish_lane which,
                    const struct gt_kube_answer *answer)
{
    bool of_node = !is_step(which) && lane_facts[which].resource == &gt_kube_nodes;
    bool of_status = !is_step(which) && is_of_object(which);
    struct lane *lane = &publish->lanes[which];
    if (answer->status == 404 && which == GT_PUBLISH_OWNER) {
        node_missing(publish);
        return;
    }
    if (answer->status == 404 && of_status && publish->passive) { /* as expected */
        lane->was_sent = true;
        lane->sent = publish->digest;
        lane->key.due_ms = lane->key.failures = 0;
        return;
    }
    if (answer->status == 409 && of_node && gt_kube_is_field_conflict(answer->object)) {
        lane->again = publish->source.conflict(publish->source.arg, which, answer->object);
        if (lane->again)
            lane->key.due_ms = lane->key.failures = 0;
        else
            publish_fail_lane(publish, which, answer->error);
        return;
    }
    bool lost =
        (of_status && answer->status == 404) || (of_node && (answer->status == 404 || answer->status == 409));
    if (lost)
        start_over(publish);
    publish_fail_lane(publish, which, lost ? NULL : answer->error);
}

static void publish_read_answer(struct gt_publish *publish, enum gt_publish_lane which,
                                const struct gt_kube_answer *answer)
{
    /* A 500 is about that request, a webhook that fails for instance: the others go on. */
    bool silent = answer->status < 400 || answer->status == 401 ||
                  (answer->status != 500 && gt_kube_is_passing(answer->status));
    if (!answer->error) {
        is_back(publish);
        succeed(publish, which, answer);
    } else if (silent) {
        publish_go_away(publish, which, answer);
    } else {
        is_back(publish);
        refused(publish, which, answer);
    }
}

enum { PUBLISH_BODY_MAX = 1 << 20, PUBLISH_ANSWER_MAX = 4 << 20 };

static const char *slice_name(const struct gt_publish *publish, enum gt_publish_lane lane)
{
    return lane == GT_PUBLISH_SLICE ? publish->options.slice_name : publish->options.counters_name;
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
    if (lane_facts[lane].is_status && !lanes[GT_PUBLISH_OBJECT].done)
        return false;
    return lanes[lane].changed || lanes[lane].again;
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
        .resource = lane_facts[which].resource,
        .name = publish_is_slice(which) ? slice_name(publish, which) : publish->options.node_name,
        .field_manager = lane_facts[which].manager,
        .force = of_object || publish_is_slice(which) || which == GT_PUBLISH_CONDITION ||
                 (which == GT_PUBLISH_ANNOTATIONS && publish->options.force_annotations),
        .metadata_only = which == GT_PUBLISH_OWNER,
        .no_object = !is_step(which),
        .deadline_ms = GT_PUBLISH_DEADLINE_MS,
        .response_max = PUBLISH_ANSWER_MAX,
    };
    if (lane_facts[which].is_status)
        request.subresource = "status";
    return request;
}

static void heartbeat(struct gt_publish *publish)
{
    uint64_t fifth = publish->options.heartbeat_ms / 5;
    publish->heartbeat_at = gt_writer_now(publish->writer) + publish->options.heartbeat_ms - fifth +
                            gt_jitter_below(&publish->options.jitter, 2 * fifth + 1);
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        publish->lanes[i].again = true;
}

static enum gt_publish_lane publish_lane_of(const struct gt_publish *publish, const struct gt_write_key *key)
{
    return (enum gt_publish_lane)((const struct lane *)key - publish->lanes);
}

/* A lane with nothing to write, or one that may not now, is asked again at the heartbeat, or after the pause.
 */
static int publish_next(struct gt_write_key *key, struct gt_kube_request *ret, struct gt_buf *body,
                        struct gt_err **err)
{
    struct gt_publish *publish = key->of;
    enum gt_publish_lane which = publish_lane_of(publish, key);
    uint64_t moment = gt_writer_now(publish->writer);
    char at[GT_TIME_TEXT_SIZE];
    (void)err;
    if (moment >= publish->heartbeat_at)
        heartbeat(publish);
    key->due_ms = moment < publish->away_until ? publish->away_until : publish->heartbeat_at;
    if (moment < publish->away_until || !is_due(publish, which) ||
        (!is_step(which) && !publish_is_changed(publish, which)))
        return GT_WRITE_LATER;
    key->due_ms = 0;
    gt_time_text(time(NULL), at);
    if (which != GT_PUBLISH_OWNER)
        publish_make(publish, which, at, body); /* the writer checks it */
    *ret = publish_request_of(publish, which);
    publish->lanes[which].changed = publish->lanes[which].again = false;
    publish->passive = !is_step(which) && !makes_object(publish);
    return GT_WRITE_SEND;
}

static void publish_wake(struct gt_publish *publish)
{
    for (unsigned i = 0; publish->begun && i < GT_PUBLISH_LANES; i++)
        gt_write_add(&publish->lanes[i].key);
}

static bool publish_on_answer(struct gt_write_key *key, enum gt_write_outcome outcome,
                              struct gt_kube_answer *answer)
{
    struct gt_publish *publish = key->of;
    uint64_t next = gt_writer_now(publish->writer) + GT_PUBLISH_INTERVAL_MS;
    if (outcome == GT_WRITE_REFUSED &&
        !answer->status) /* it could not be sent: that tells nothing of others */
        publish_fail_lane(publish, publish_lane_of(publish, key), answer->error);
    else
        publish_read_answer(publish, publish_lane_of(publish, key), answer);
    key->due_ms = key->due_ms > next ? key->due_ms : next;
    publish_wake(publish);
    return false;
}

void gt_publish_changed(struct gt_publish *publish)
{
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
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
    publish->away_until = gt_writer_now(publish->writer) + GT_PUBLISH_INTERVAL_MS +
                          gt_jitter_below(&publish->options.jitter, publish->options.heartbeat_ms / 30 + 1);
    gt_publish_refresh(publish);
}

int gt_publish_new(const struct gt_publish_options *options, const struct gt_publish_source *source,
                   struct gt_writer *writer, struct gt_publish **ret, struct gt_err **err)
{
    struct gt_publish *publish = calloc(1, sizeof(*publish));
    GT_NEED(publish, err, "publisher");
    publish->options = *options;
    publish->source = *source;
    publish->writer = writer;
    publish->line = (struct gt_write_line){.name = "publish",
                                           .running_max = 1,
                                           .body_max = PUBLISH_BODY_MAX,
                                           .retry_ms = GT_PUBLISH_INTERVAL_MS,
                                           .retry_max_ms = options->heartbeat_ms,
                                           .make = publish_next,
                                           .answered = publish_on_answer};
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        publish->lanes[i].key = (struct gt_write_key){.line = &publish->line, .of = publish};
    gt_write_open(writer, &publish->line);
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
    ret->current = publish->begun;
    for (unsigned i = 0; i < GT_PUBLISH_LANES; i++)
        ret->current = ret->current && !is_due(publish, (enum gt_publish_lane)i) &&
                       publish->lanes[i].key.state != GT_WRITE_RUNNING;
}
