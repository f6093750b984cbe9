/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/publish_answer.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/backoff.h"
#include "base/json_get.h"
#include "base/log.h"
#include "kube/status.h"

static const struct {
    const char *name;
    const char *manager;
} lane_facts[GT_PUBLISH_LANES] = {
    [GT_PUBLISH_OWNER] = {"owner", NULL},
    [GT_PUBLISH_OBJECT] = {"object", GT_MANAGER_AGENT},
    [GT_PUBLISH_WIRING] = {"wiring", GT_MANAGER_AGENT},
    [GT_PUBLISH_USAGE] = {"usage", GT_MANAGER_USAGE},
    [GT_PUBLISH_ANNOTATIONS] = {"annotations", GT_MANAGER_AGENT},
    [GT_PUBLISH_LABELS] = {"labels", GT_MANAGER_LABELS},
    [GT_PUBLISH_CONDITION] = {"condition", GT_MANAGER_CONDITION},
    [GT_PUBLISH_COUNTERS] = {"counters", GT_MANAGER_AGENT},
    [GT_PUBLISH_SLICE] = {"slice", GT_MANAGER_AGENT},
};

const char *gt_publish_lane_name(enum gt_publish_lane lane)
{
    return lane < GT_PUBLISH_LANES ? lane_facts[lane].name : "?";
}

const char *gt_publish_lane_manager(enum gt_publish_lane lane)
{
    return lane_facts[lane].manager;
}

enum { STEP_MS = 1000 };

/* Between half of the step and all of it; the step doubles with each failure. */
static uint64_t pause_of(const struct gt_publish *publish, unsigned failures, uint64_t max)
{
    uint64_t step = gt_backoff_step(failures, STEP_MS, max);
    return step / 2 + gt_publish_random(publish, step / 2 + 1);
}

static void log_failure(struct lane *lane, enum gt_publish_lane which, const struct gt_err *error)
{
    bool again = lane->error == gt_err_code(error);
    lane->error = gt_err_code(error);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "cannot publish",
           GT_STR("what", gt_publish_lane_name(which)), GT_STR("why", gt_err_text(error)));
}

/* The API server refused the request. */
void gt_publish_fail_lane(struct gt_publish *publish, enum gt_publish_lane which, const struct gt_err *error)
{
    struct lane *lane = &publish->lanes[which];
    publish->stats.failures[which]++;
    lane->again = true;
    lane->retry_ms =
        gt_publish_now(publish) + pause_of(publish, lane->failures++, publish->options.heartbeat_ms);
    if (error)
        log_failure(lane, which, error);
}

/* The API server gave no usable answer: all lanes wait. A single time is not told. */
static void publish_go_away(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer)
{
    uint64_t wait = pause_of(publish, publish->away++, GT_PUBLISH_AWAY_MAX_MS);
    uint64_t asked = UINT64_C(1000) * (answer->retry_after_s < GT_BACKOFF_RETRY_AFTER_MAX_S
                                           ? answer->retry_after_s
                                           : GT_BACKOFF_RETRY_AFTER_MAX_S);
    wait = asked > wait ? asked + gt_publish_random(publish, asked / 2) : wait;
    publish->away_until = gt_publish_now(publish) + wait;
    publish->stats.failures[which]++;
    publish->lanes[which].again = true;
    if (publish->away == 1)
        return;
    bool again = publish->away_error == gt_err_code(answer->error);
    publish->away_error = gt_err_code(answer->error);
    gt_log(again ? GT_LOG_DEBUG : GT_LOG_WARNING, "the API server does not answer, what is published stays",
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
        gt_publish_fail_lane(publish, GT_PUBLISH_OWNER, err);
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
    publish->lanes[GT_PUBLISH_CONDITION].again = true;
    publish->lanes[GT_PUBLISH_COUNTERS].again = true; /* the Node owns them */
    publish->lanes[GT_PUBLISH_SLICE].again = true;
}

static void node_missing(struct gt_publish *publish)
{
    struct lane *lane = &publish->lanes[GT_PUBLISH_OWNER];
    if (!publish->gone)
        gt_warning("there is no such Node, nothing is published until there is",
                   GT_STR("node", publish->options.node_name));
    publish->gone = true;
    publish->uid[0] = '\0';
    lane->retry_ms =
        gt_publish_now(publish) + pause_of(publish, lane->failures++, publish->options.heartbeat_ms);
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
        gt_info("published again", GT_STR("what", gt_publish_lane_name(which)));
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

static void refused(struct gt_publish *publish, enum gt_publish_lane which,
                    const struct gt_kube_answer *answer)
{
    bool of_node =
        which == GT_PUBLISH_ANNOTATIONS || which == GT_PUBLISH_LABELS || which == GT_PUBLISH_CONDITION;
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
    if (answer->status == 409 && of_node && gt_kube_is_field_conflict(answer->object)) {
        lane->again = publish->source.conflict(publish->source.arg, which, answer->object);
        if (!lane->again)
            gt_publish_fail_lane(publish, which, answer->error);
        return;
    }
    bool lost =
        (of_status && answer->status == 404) || (of_node && (answer->status == 404 || answer->status == 409));
    if (lost)
        start_over(publish);
    gt_publish_fail_lane(publish, which, lost ? NULL : answer->error);
}

void gt_publish_take_answer(struct gt_publish *publish, enum gt_publish_lane which,
                            const struct gt_kube_answer *answer)
{
    /* A 500 is about that request, a webhook that fails for instance: the others go on. */
    bool silent = answer->status == 0 || answer->status == 401 ||
                  (answer->status != 500 && gt_kube_is_passing(answer->status));
    if (!answer->error) {
        is_back(publish);
        succeed(publish, which, answer);
    } else if (silent || answer->status < 400) {
        publish_go_away(publish, which, answer);
    } else {
        is_back(publish);
        refused(publish, which, answer);
    }
}
