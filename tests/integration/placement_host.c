/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The placement controller alone, for tests: informers, the cache, and the controller against an API server.
 *
 *     placement-host --kubeconfig FILE [OPTION=VALUE]...
 *
 * Options: recreate=1, `claims` (a number of enum gt_claims), `reservegpus`, `namespacegpus`, `percent`,
 * `objectpods` (object_pods of gt_placement_spec), the times of gt_placement_options and gt_placement_times
 * in milliseconds (unschedulable, patience, turn, reserve, missing, nodeloss; settle, owner, gang, return,
 * eviction, request, retry), and `without`, that of gt_owner_watch_spec. Orders on standard input, one a
 * line, each answered by one JSON object a line on standard output:
 *
 *     start | stop | counters | job KEY | kept NODE | mutate REVIEW | validate REVIEW | lack
 *
 * `lack`: for the next view of a job there is no memory.
 *
 * Notes come as {"note": ...} lines. Standard input's end ends the program.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/text.h"
#include "kube/config.h"
#include "kube/watch.h"
#include "scheduler-ext/companion/placement_private.h"
#include "scheduler-ext/owners/owner_watch.h"
#include "scheduler-ext/owners/owners.h"
#include "scheduler-ext/placement/controller.h"
#include "scheduler-ext/placement/times.h"
#include "scheduler-ext/webhook/webhook.h"
#include "tests/integration/placement_events.h"
#include "tests/unit/core/core_checks.h"

enum { LINE_MAX_BYTES = 16 << 20, TICK_MS = 200 };

static const struct gt_kube_resource topologies = {"topology.metax-tech.com", "v1alpha1", "nodegputopologies",
                                                   false},
                                     supernodes = {"topology.metax-tech.com", "v1alpha1", "supernodes",
                                                   false};

enum {
    KIND_TOPOLOGY,
    KIND_NODE,
    KIND_SUPERNODE,
    KIND_PLACEMENT,
    KIND_QUOTA,
    KIND_POD,
    KIND_CLAIM,
    KIND_TEMPLATE,
    KIND_SLICE,
    KINDS
};

static struct host {
    struct gt_loop *loop;
    struct gt_kube *kube;
    struct gt_kube_recorder *recorder;
    struct gt_cache *cache;
    struct gt_owners *owners;
    struct gt_pod_groups *pod_groups;
    struct gt_owner_watch *watch;
    struct gt_own_claims *own_claims;
    struct gt_placement *placement;
    struct gt_source *tick;
    struct gt_lines input;
    struct follower {
        unsigned kind;
        bool synced;
        struct gt_kube_informer *informer;
    } followers[KINDS];
    bool wants_start;
    char note[32]; /* of the earlier leader; "": none was read */
    enum gt_claims claims;
    uint64_t without_ms; /* a kind of owners is gone on without after so long */
} host;

static void say(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (text) {
        puts(text);
        fflush(stdout);
    }
    cJSON_free(text);
    cJSON_Delete(json);
}

/* ---- informers ---- */

static void on_note(void *arg, bool warning, const char *job, const char *text);

static void on_object(void *arg, cJSON *object)
{
    const struct follower *follower = arg;
    struct gt_pod pod;
    switch (follower->kind) {
    case KIND_TOPOLOGY:
        gt_cache_topology(host.cache, object, gt_clock_ms());
        break;
    case KIND_NODE:
        gt_cache_node(host.cache, object);
        break;
    case KIND_SUPERNODE:
        gt_cache_supernode(host.cache, object);
        break;
    case KIND_PLACEMENT:
        gt_placement_observe_object(host.placement, object);
        break;
    case KIND_QUOTA:
        gt_placement_observe_quota(host.placement, object);
        break;
    case KIND_CLAIM:
        gt_cache_claim(host.cache, object);
        break;
    case KIND_SLICE:
        gt_cache_slice(host.cache, object);
        break;
    case KIND_TEMPLATE:
        gt_cache_related(host.cache, GT_RELATED_DEVICE_TEMPLATE, object);
        gt_own_claims_observe_template(host.own_claims, gt_meta_namespace(object));
        break;
    default:
        gt_pod_read(object, GT_RESOURCE_GPU, &pod);
        gt_placement_observe_pod(host.placement, &pod);
        gt_cache_pod(host.cache, &pod);
    }
}

static void on_delete(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    const struct follower *follower = arg;
    (void)object;
    switch (follower->kind) {
    case KIND_TOPOLOGY:
        gt_cache_topology_deleted(host.cache, name);
        break;
    case KIND_NODE:
        gt_cache_node_deleted(host.cache, name);
        break;
    case KIND_SUPERNODE:
        gt_cache_supernode_deleted(host.cache, name);
        break;
    case KIND_PLACEMENT:
        gt_placement_observe_object_deleted(host.placement, namespace_, name);
        break;
    case KIND_QUOTA:
        gt_placement_observe_quota_deleted(host.placement, namespace_, name);
        break;
    case KIND_CLAIM:
        gt_cache_claim_deleted(host.cache, namespace_, name);
        break;
    case KIND_SLICE:
        gt_cache_slice_deleted(host.cache, name);
        break;
    case KIND_TEMPLATE:
        gt_cache_related_deleted(host.cache, GT_RELATED_DEVICE_TEMPLATE, namespace_, name);
        break;
    default:
        gt_placement_observe_pod_deleted(host.placement, namespace_, name);
        gt_cache_pod_deleted(host.cache, namespace_, name);
    }
}

static bool is_synced(void)
{
    bool synced = host.watch && gt_owner_watch_is_synced(host.watch);
    for (unsigned i = 0; i < KINDS; i++)
        synced = synced && host.followers[i].synced;
    return synced;
}

static void start_when_synced(void)
{
    if (!host.wants_start || !is_synced())
        return;
    host.wants_start = false;
    if (*host.note)
        gt_placement_read_note(host.placement, host.note);
    gt_placement_start(host.placement);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "started", true);
    say(json);
}

static void on_synced(void *arg)
{
    ((struct follower *)arg)->synced = true;
    if (((struct follower *)arg)->kind == KIND_SLICE)
        gt_cache_slices_synced(host.cache);
    start_when_synced();
}

static void on_error(void *arg, const struct gt_err *error)
{
    unsigned kind = ((struct follower *)arg)->kind;
    if (gt_err_code(error) == ESTALE && (kind == KIND_POD || kind == KIND_PLACEMENT))
        gt_placement_on_relist(host.placement);
    if (kind == KIND_QUOTA) { /* nothing waits for them */
        on_note(arg, true, "quotas", gt_err_text(error));
        on_synced(arg);
    }
}

static void on_pod(void *arg, struct gt_cache_pod *pod)
{
    (void)arg;
    gt_placement_on_pod(host.placement, pod);
}

static void on_pod_deleted(void *arg, struct gt_cache_pod *pod)
{
    (void)arg;
    gt_placement_on_pod_deleted(host.placement, pod);
}

static void on_refused(void *arg, const char *namespace_, const char *name, const char *why)
{
    (void)arg;
    gt_placement_on_refused(host.placement, namespace_, name, why);
}

static void on_capacity(void *arg)
{
    (void)arg;
    gt_placement_on_capacity(host.placement);
}

static void on_owner(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name)
{
    (void)arg;
    gt_placement_on_owner(host.placement, kind, namespace_, name);
}

static void on_tick(void *arg)
{
    (void)arg;
    gt_cache_tick(host.cache, gt_clock_ms());
    start_when_synced();
    gt_source_arm(host.tick, TICK_MS);
}

static void on_note(void *arg, bool warning, const char *job, const char *text)
{
    (void)arg;
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "note", text);
    cJSON_AddStringToObject(json, "job", job);
    cJSON_AddBoolToObject(json, "warning", warning);
    say(json);
}

static void on_pod_group(void *arg, const char *namespace_)
{
    (void)arg;
    gt_placement_on_pod_group(host.placement, namespace_);
}

/* ---- orders ---- */

static void say_counters(void)
{
    struct gt_placement_counters c;
    cJSON *json = cJSON_CreateObject(), *jobs = cJSON_AddObjectToObject(json, "jobs"),
          *blocked = cJSON_AddArrayToObject(json, "blocked");
    uint64_t decisions = 0;
    gt_placement_counters(host.placement, &c);
    for (int i = 0; i < GT_PLACEMENT_STATES; i++)
        cJSON_AddNumberToObject(jobs, gt_placement_state_name((enum gt_placement_state)i), c.jobs[i]);
    for (int i = 0; i < GT_PLAN_REASONS; i++)
        cJSON_AddItemToArray(blocked, cJSON_CreateNumber((double)c.blocked[i]));
    for (int i = 0; i < GT_PLACEMENT_BUCKETS; i++)
        decisions += c.decisions[i];
    const struct {
        const char *key;
        uint64_t value;
    } numbers[] = {{"placed", c.placed},
                   {"podsPlanned", c.pods.planned},
                   {"podsAdmitted", c.pods.admitted},
                   {"podsLifted", c.pods.lifted},
                   {"failed", c.failed},
                   {"refused", c.refused},
                   {"lost", c.pods.lost},
                   {"recreated", c.pods.recreated},
                   {"preempted", c.pods.preempted},
                   {"writes", c.writes.done},
                   {"conflicts", c.writes.conflicts},
                   {"writeFailures", c.writes.failures},
                   {"reconciles", c.reconciles},
                   {"decisions", decisions},
                   {"decisionMicroseconds", c.decision_us},
                   {"reservedGPUs", c.reserved_gpus},
                   {"reservedNodes", c.reserved_node_count},
                   {"writesWaiting", c.writes.waiting},
                   {"assumptions", gt_cluster_assumptions(gt_cache_cluster(host.cache))}};
    for (size_t i = 0; i < GT_COUNT(numbers); i++)
        cJSON_AddNumberToObject(json, numbers[i].key, (double)numbers[i].value);
    say(json);
}

static void say_job(const char *key)
{
    const struct gt_cache_job *job = gt_cache_find_job(host.cache, key);
    struct gt_placement_job info;
    cJSON *json = cJSON_CreateObject();
    if (job) {
        gt_placement_job(host.placement, job, &info);
        cJSON_AddStringToObject(json, "state", gt_placement_state_name(info.state));
        cJSON_AddStringToObject(json, "reason", info.reason);
        cJSON_AddStringToObject(json, "text", info.text);
        cJSON_AddStringToObject(json, "plan", info.plan);
        cJSON_AddNumberToObject(json, "reservedGPUs", info.reserved_gpus);
        cJSON_AddNumberToObject(json, "tries", (double)info.tries);
        cJSON_AddBoolToObject(json, "holds", info.holds_until_ms);
        cJSON_AddNumberToObject(json, "place", info.place == GT_NONE ? -1.0 : (double)info.place);
    }
    say(json);
}

static void say_kept(const char *name)
{
    uint32_t node = gt_cluster_find_node(gt_cache_cluster(host.cache), name);
    cJSON *json = cJSON_CreateObject();
    cJSON_AddBoolToObject(json, "kept", gt_placement_kept_from(host.placement, NULL, node) != NULL);
    say(json);
}

static void say_review(const char *text, bool mutate)
{
    const struct gt_webhook webhook = {.resource = "metax-tech.com/gpu",
                                       .owners = host.owners,
                                       .cache = host.cache,
                                       .placement = host.placement,
                                       .claims = host.claims};
    gt_auto_buf struct gt_buf answer = GT_BUF(1 << 20);
    gt_auto_err struct gt_err *error = NULL;
    int r = mutate ? gt_webhook_mutate(&webhook, text, strlen(text), &answer, &error)
                   : gt_webhook_validate(&webhook, text, strlen(text), &answer, &error);
    cJSON *json = r < 0 ? cJSON_CreateObject() : cJSON_Parse(answer.data);
    if (r < 0)
        cJSON_AddStringToObject(json, "error", gt_err_text(error));
    say(json);
}

static bool on_line(void *arg, const char *text, size_t len)
{
    (void)arg;
    gt_auto_free char *line = strndup(text, len);
    if (!line)
        return false;
    char *rest = strchr(line, ' ');
    if (rest)
        *rest++ = 0;
    rest = rest ? rest : line + strlen(line);
    if (strcmp(line, "start") == 0) {
        host.wants_start = true;
        start_when_synced();
    } else if (strcmp(line, "stop") == 0) {
        gt_placement_stop(host.placement);
        say(cJSON_CreateObject());
    } else if (strcmp(line, "counters") == 0) {
        say_counters();
    } else if (strcmp(line, "job") == 0) {
        say_job(rest);
    } else if (strcmp(line, "kept") == 0) {
        say_kept(rest);
    } else if (strcmp(line, "lack") == 0) {
        placement_events_lack();
        say(cJSON_CreateObject());
    } else if (strcmp(line, "mutate") == 0 || strcmp(line, "validate") == 0) {
        say_review(rest, line[0] == 'm');
    }
    return true;
}

static bool on_long_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    (void)line;
    (void)len;
    return false;
}

static void on_input(void *arg, uint32_t events)
{
    static char chunk[65536];
    (void)arg;
    (void)events;
    ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (n > 0 && gt_lines_feed(&host.input, chunk, (size_t)n, NULL) == 0)
        return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    gt_loop_stop(host.loop, 0);
}

static int read_option(const char *text, struct gt_placement_options *to, struct gt_placement_times *times,
                       uint64_t *object_pods, struct gt_err **err)
{
    const struct {
        const char *name;
        uint64_t *value;
    } numbers[] = {{"unschedulable", &to->unschedulable_ms},
                   {"patience", &to->patience_ms},
                   {"reserve", &to->reserve.coming_ms},
                   {"missing", &to->reserve.missing_ms},
                   {"yield", &to->reserve.yield_ms},
                   {"nodeloss", &to->node_loss_ms},
                   {"spares", &to->spare_nodes},
                   {"brake", &to->brake_percent},
                   {"brakespan", &times->brake_ms},
                   {"aday", &to->moves_a_day},
                   {"atonce", &to->moves_at_once},
                   {"turn", &to->reserve.waiting_ms},
                   {"percent", &to->reserve.waiting_percent},
                   {"reservegpus", &to->reserve.gpus},
                   {"namespacegpus", &to->reserve.gpus_per_namespace},
                   {"objectpods", object_pods},
                   {"without", &host.without_ms},
                   {"settle", &times->settle_ms},
                   {"owner", &times->owner_ms},
                   {"gang", &times->gang_ms},
                   {"claims_settle", &times->claims_ms},
                   {"return", &times->return_ms},
                   {"turn_of_node", &times->node_turn_ms},
                   {"eviction", &times->eviction_ms},
                   {"request", &times->request_ms},
                   {"retry", &times->retry_ms},
                   {"preemptafter", &times->preempt_ms}};
    const char *value = strchr(text, '=');
    uint64_t number;
    if (strncmp(text, "kinds=", 6) == 0)
        return gt_kinds_file_read(value + 1, err);
    if (!value || !gt_text_to_unsigned(value + 1, UINT32_MAX, &number))
        return gt_fail(err, EINVAL, "%s: expected NAME=NUMBER", text);
    if (strncmp(text, "claims=", 7) == 0) {
        host.claims = to->claims = (enum gt_claims)number;
        return 0;
    }
    if (strncmp(text, "quiet=", 6) == 0) { /* the earlier leader's last note */
        snprintf(host.note, sizeof(host.note), "quiet:%s", value + 1);
        return 0;
    }
    if (strncmp(text, "recreate=", 9) == 0) {
        to->lost_plan = number ? GT_LOST_RECREATE : GT_LOST_REPORT;
        return 0;
    }
    if (strncmp(text, "rebalance=", 10) == 0) {
        to->rebalance = number > 1 ? GT_REBALANCE_EVICT : number ? GT_REBALANCE_SUGGEST : GT_REBALANCE_OFF;
        return 0;
    }
    if (strncmp(text, "preempt=", 8) == 0) {
        to->preempt = number;
        return 0;
    }
    if (strncmp(text, "taints=", 7) == 0) {
        to->taints = (enum gt_node_taints)number;
        return 0;
    }
    if (strncmp(text, "unhealthy=", 10) == 0) {
        to->unhealthy_gpu = number ? GT_UNHEALTHY_EVICT : GT_UNHEALTHY_KEEP;
        return 0;
    }
    for (size_t i = 0; i < GT_COUNT(numbers); i++)
        if (strncmp(text, numbers[i].name, (size_t)(value - text)) == 0 &&
            strlen(numbers[i].name) == (size_t)(value - text)) {
            *numbers[i].value = number;
            return 0;
        }
    return gt_fail(err, EINVAL, "%s: no such option", text);
}

static void prepare_owner(void *arg, enum gt_job_kind kind, cJSON *object)
{
    (void)arg;
    gt_own_claims_prepare(host.own_claims, kind, object);
}

static void owner_gone(void *arg, enum gt_job_kind kind, const char *namespace_, const char *name)
{
    (void)arg;
    gt_own_claims_forget(host.own_claims, kind, namespace_, name);
}

static int start_informers(struct gt_err **err)
{
    static const char living[] = "status.phase!=Succeeded"; /* as the companion's */
    static const struct gt_kube_resource *const resources[KINDS] = {&topologies,
                                                                    &gt_kube_nodes,
                                                                    &supernodes,
                                                                    &gt_kube_gpu_placements,
                                                                    &gt_kube_resource_quotas,
                                                                    &gt_kube_pods,
                                                                    &gt_kube_resource_claims,
                                                                    &gt_kube_resource_claim_templates,
                                                                    &gt_kube_resource_slices};
    static const char *const selectors[KINDS] = {
        [KIND_POD] = living, [KIND_SLICE] = "spec.driver=" GT_DRA_DRIVER};
    for (unsigned i = 0; i < KINDS; i++) {
        host.followers[i].kind = i;
        if (i >= KIND_CLAIM && host.claims == GT_CLAIMS_OFF) {
            host.followers[i].synced = true;
            continue;
        }
        const struct gt_kube_informer_spec spec = {
            .selection = {.resource = resources[i], .field_selector = selectors[i]},
            .on_add = on_object,
            .on_update = on_object,
            .on_delete = on_delete,
            .on_synced = on_synced,
            .on_error = on_error,
            .arg = &host.followers[i]};
        int r = gt_kube_informer_start(host.kube, &spec, &host.followers[i].informer, err);
        if (r < 0)
            return r;
    }
    const struct gt_owner_watch_spec watch = {.kube = host.kube,
                                              .owners = host.owners,
                                              .prepare = host.claims ? prepare_owner : NULL,
                                              .on_deleted = owner_gone,
                                              .pod_groups = host.pod_groups,
                                              .on_owner = on_owner,
                                              .on_pod_group = on_pod_group,
                                              .without_ms = host.without_ms};
    int r = gt_owner_watch_new(&watch, &host.watch, err);
    return r < 0 ? r : gt_owner_watch_events(host.watch, true, err);
}

static int start(int argc, char **argv, struct gt_err **err)
{
    gt_auto_kube_config struct gt_kube_config config = {0};
    struct gt_cache_spec cache = {.on_pod = on_pod,
                                  .on_pod_deleted = on_pod_deleted,
                                  .on_refused = on_refused,
                                  .on_capacity = on_capacity};
    struct gt_placement_times times = GT_PLACEMENT_TIMES;
    uint64_t object_pods = 0;
    struct gt_placement_spec spec = {.on_note = on_note, .times = &times};
    if (argc < 3 || strcmp(argv[1], "--kubeconfig") != 0)
        return gt_fail(err, EINVAL, "usage: placement-host --kubeconfig FILE [OPTION=VALUE]...");
    int r = gt_kube_config_find(argv[2], NULL, &config, err);
    for (int i = 3; r == 0 && i < argc; i++)
        r = read_option(argv[i], &spec.options, &times, &object_pods, err);
    spec.object_pods = (uint32_t)object_pods;
    cache.claims = host.claims != GT_CLAIMS_OFF;
    if (r == 0)
        r = gt_loop_new(&host.loop, err);
    if (r == 0)
        r = gt_kube_new(host.loop, &config, "placement-host", &host.kube, err);
    if (r == 0)
        r = gt_kube_recorder_new(host.kube, "metax-tech.com/gputopo-scheduler", "test", 600, &host.recorder,
                                 err);
    if (r == 0)
        r = gt_cache_new(&cache, &host.cache, err);
    if (r == 0)
        r = gt_owners_new("metax-tech.com/gpu", &host.owners, err);
    if (r == 0)
        r = gt_pod_groups_new(GT_RESOURCE_GPU, &host.pod_groups, err);
    const struct gt_own_claims_spec own = {host.cache, host.owners, on_owner, NULL};
    if (r == 0)
        r = gt_own_claims_new(&own, &host.own_claims, err);
    spec.loop = host.loop;
    spec.kube = host.kube;
    spec.recorder = host.recorder;
    spec.cache = host.cache;
    spec.owners = host.owners;
    spec.pod_groups = host.pod_groups;
    if (r == 0)
        r = gt_placement_new(&spec, &host.placement, err);
    if (r == 0)
        r = start_informers(err);
    if (r == 0)
        r = gt_loop_add_timer(host.loop, on_tick, NULL, &host.tick, err);
    if (r == 0)
        gt_source_arm(host.tick, TICK_MS);
    host.input =
        (struct gt_lines){.rest = GT_BUF(LINE_MAX_BYTES), .on_line = on_line, .on_long = on_long_line};
    return r < 0 ? r : gt_loop_add_fd(host.loop, STDIN_FILENO, EPOLLIN, on_input, NULL, NULL, err);
}

static void end(void)
{
    for (unsigned i = 0; i < KINDS; i++)
        gt_kube_informer_free(host.followers[i].informer);
    if (host.watch)
        gt_owner_watch_free(host.watch);
    gt_own_claims_free(host.own_claims);
    if (host.placement)
        gt_placement_free(host.placement);
    if (host.recorder)
        gt_kube_recorder_free(host.recorder);
    if (host.owners)
        gt_owners_free(host.owners);
    gt_pod_groups_free(host.pod_groups);
    if (host.cache)
        gt_cache_free(host.cache);
    if (host.kube)
        gt_kube_free(host.kube);
    if (host.loop)
        gt_loop_free(host.loop);
    gt_lines_reset(&host.input);
}

int main(int argc, char **argv)
{
    gt_auto_err struct gt_err *error = NULL;
    int r = start(argc, argv, &error);
    if (r == 0)
        r = gt_loop_run(host.loop, &error);
    if (r < 0)
        fprintf(stderr, "placement-host: %s\n", gt_err_text(error));
    end();
    return r < 0;
}
