/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>
#include <time.h>

#include "api/meta.h"
#include "api/movable.h"
#include "api/names.h"
#include "api/node.h"
#include "api/pod_patch.h"
#include "api/supernode.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "cli/api.h"
#include "cli/cli.h"

/* Empties a supernode for its maintenance: cordons its nodes, asks the companion to move the pods that may
 * move, and says what remains. Again, it does only what is left to do. */

enum { DRAIN_BODY_MAX = 4096, DRAIN_BRAKE_PERCENT = 10 };

struct drain_options {
    struct cli_parse parse;
    struct cli_api_options api;
    bool dry_run;
    unsigned brake;
};

enum drain_way {
    DRAIN_MOVES, /* it was asked before */
    DRAIN_MOVE,  /* its new place first */
    DRAIN_EVICT, /* it has no plan: its scheduler finds a place */
    DRAIN_STAYS,
    DRAIN_WAYS,
};

struct drained_pod {
    char *namespace_, *name, *uid, *node;
    char *owner; /* its uid; "": none */
    enum drain_way way;
    const char *why;      /* it stays */
    struct gt_err *error; /* has this text */
};

struct cli_drain {
    struct cli_api *api;
    bool dry_run, as_json;
    const struct gt_supernode_object *super;
    struct drained_pod *pods;
    uint32_t count, capacity;
    char **silent; /* other nodes that are not Ready */
    uint32_t silent_count, silent_capacity;
    uint32_t nodes, failed; /* of the cluster, and those of them that are silent */
    bool no_memory;
    struct gt_buf *text;
};

/* ---- its nodes ---- */

static int drain_cordon(struct cli_drain *drain, const char *node, unsigned *cordoned, struct gt_err **err)
{
    gt_auto_json cJSON *object = NULL;
    int r = cli_api_get(drain->api, &gt_kube_nodes, node, &object, err);
    if (r == -ENOENT) { /* it has left the cluster */
        gt_err_free(gt_steal(*err));
        return 0;
    }
    GT_TRY(r);
    gt_auto_node_object struct gt_node_object known = {0};
    GT_TRY(gt_node_object_read(object, GT_RESOURCE_GPU, &known, err));
    if (known.cordoned)
        return 0;
    ++*cordoned;
    return drain->dry_run ? 0
                          : cli_api_patch(drain->api, &gt_kube_nodes, NULL, node,
                                          "{\"spec\":{\"unschedulable\":true}}", err);
}

/* ---- its pods ---- */

static void drained_pod_done(struct drained_pod *pod)
{
    free(pod->namespace_);
    free(pod->name);
    free(pod->uid);
    free(pod->node);
    free(pod->owner);
    gt_err_free(pod->error);
}

static void drain_on_begin(void *arg)
{
    struct cli_drain *drain = arg;
    while (drain->count)
        drained_pod_done(&drain->pods[--drain->count]);
}

static void drain_on_nodes(void *arg)
{
    struct cli_drain *drain = arg;
    while (drain->silent_count)
        free(drain->silent[--drain->silent_count]);
}

static void drain_done(struct cli_drain *drain)
{
    drain_on_begin(drain);
    drain_on_nodes(drain);
    free(drain->pods);
    free(drain->silent);
}

static bool is_drained(const struct cli_drain *drain, const char *node)
{
    return node && GT_FIND(drain->super->members, drain->super->member_count, node, node);
}

static void choose_way(const struct gt_pod *pod, struct drained_pod *to)
{
    const char *text = gt_pod_annotation(&pod->meta, GT_KEY_MOVABLE);
    struct gt_movable movable;
    to->way = DRAIN_STAYS;
    if (gt_pod_annotation(&pod->meta, GT_KEY_MOVE_TO))
        to->way = DRAIN_MOVES;
    else if (!text || !gt_movable_read(text, &movable) || movable.never)
        to->why = "it has not said that it may move (" GT_ANNOTATION_MOVABLE ")";
    else if (movable.after_checkpoint)
        to->why = "it wants to write a checkpoint first";
    else if (!gt_movable_is_due(&movable, pod->created_s, (uint64_t)time(NULL)))
        to->why = "it may not move at this time";
    else if (!pod->meta.owner_controls)
        to->why = "it has no owner that makes it again";
    else
        to->way = gt_pod_annotation(&pod->meta, GT_KEY_PLAN_UNIT) ? DRAIN_MOVE : DRAIN_EVICT;
}

static void drain_on_pod(void *arg, cJSON *object)
{
    struct cli_drain *drain = arg;
    struct gt_pod pod;
    gt_pod_read(object, GT_RESOURCE_GPU, &pod);
    if (pod.ended || pod.deleting || !(pod.gpus.total || pod.claim_template || pod.plan_node) ||
        !is_drained(drain, pod.node_name))
        return;
    struct drained_pod new = {.namespace_ = strdup(pod.meta.namespace_),
                              .name = strdup(pod.meta.name),
                              .uid = strdup(pod.uid),
                              .node = strdup(pod.node_name),
                              .owner = strdup(pod.owner_uid ? pod.owner_uid : "")};
    choose_way(&pod, &new);
    bool grown = GT_GROW(drain->pods, drain->count, drain->capacity, 64);
    drain->no_memory =
        drain->no_memory || !grown || !new.namespace_ || !new.name || !new.uid || !new.node || !new.owner;
    if (grown)
        drain->pods[drain->count++] = new;
    else
        drained_pod_done(&new);
}

static int drain_by_name(const void *a, const void *b)
{
    const struct drained_pod *x = a, *y = b;
    int r = strcmp(x->namespace_, y->namespace_);
    return r ? r : strcmp(x->name, y->name);
}

static int drain_move(struct cli_drain *drain, const struct drained_pod *pod, struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(DRAIN_BODY_MAX);
    const struct gt_pod_patch patch = {.uid = pod->uid,
                                       .annotations =
                                           &(struct gt_pair){GT_ANNOTATION_MOVE_TO, GT_MOVE_ANYWHERE},
                                       .annotation_count = 1};
    gt_pod_patch_write(&patch, &body);
    GT_TRY(gt_buf_check(&body, "request", err));
    return cli_api_patch(drain->api, &gt_kube_pods, pod->namespace_, pod->name, body.data, err);
}

static int drain_evict(struct cli_drain *drain, const struct drained_pod *pod, bool dry_run,
                       struct gt_err **err)
{
    gt_auto_buf struct gt_buf body = GT_BUF(DRAIN_BODY_MAX);
    gt_eviction_write(pod->namespace_, pod->name, pod->uid, &body);
    GT_TRY(gt_buf_check(&body, "request", err));
    const struct gt_kube_request request = {.verb = GT_KUBE_CREATE,
                                            .resource = &gt_kube_pods,
                                            .namespace_ = pod->namespace_,
                                            .name = pod->name,
                                            .subresource = "eviction",
                                            .dry_run = dry_run,
                                            .body = body.data,
                                            .once = true}; /* a budget may refuse it for long */
    return cli_api_request(drain->api, &request, NULL, err);
}

/* What cannot be asked for stays, and the others go on. */
static void drain_pod(struct cli_drain *drain, struct drained_pod *pod, struct gt_err **why)
{
    static const char *const words[DRAIN_WAYS] = {"moves", "move", "evict", "stays"};
    if (!drain->dry_run && (pod->way == DRAIN_MOVE || pod->way == DRAIN_EVICT) &&
        (pod->way == DRAIN_MOVE ? drain_move(drain, pod, why) : drain_evict(drain, pod, false, why)) < 0) {
        pod->way = DRAIN_STAYS;
        pod->why = gt_err_text(*why);
    }
    if (drain->as_json)
        gt_json_printf(drain->text, "{'namespace': %s, 'name': %s, 'node': %s, 'way': %s, ?'why': %s}",
                       pod->namespace_, pod->name, pod->node, words[pod->way], pod->why);
    else
        gt_buf_printf(drain->text, "%-6s %s/%s on %s%s%s\n", words[pod->way], pod->namespace_, pod->name,
                      pod->node, pod->why ? ": " : "", pod->why ? pod->why : "");
    pod->why = NULL;
}

/* ---- whether those that it evicts itself may go ---- */

static void drain_on_node(void *arg, cJSON *object)
{
    struct cli_drain *drain = arg;
    gt_auto_node_object struct gt_node_object node = {0};
    gt_auto_err struct gt_err *unreadable = NULL;
    if (gt_node_object_read(object, GT_RESOURCE_GPU, &node, &unreadable) < 0 || node.ready || node.cordoned ||
        is_drained(drain, node.name))
        return;
    char *name = strdup(node.name);
    drain->no_memory =
        !name || !GT_GROW(drain->silent, drain->silent_count, drain->silent_capacity, 16) || drain->no_memory;
    if (drain->no_memory)
        free(name);
    else
        drain->silent[drain->silent_count++] = name;
}

static void drain_on_topologies(void *arg)
{
    struct cli_drain *drain = arg;
    drain->nodes = drain->failed = 0;
}

static void drain_on_topology(void *arg, cJSON *object)
{
    struct cli_drain *drain = arg;
    drain->nodes++;
    for (uint32_t i = 0; i < drain->silent_count; i++)
        drain->failed += strcmp(drain->silent[i], gt_meta_name(object)) == 0;
}

/* As the companion's brake for what people ask for. Its supernode is cordoned, and does not count. */
static int drain_brake(struct cli_drain *drain, unsigned percent, struct gt_err **err)
{
    const struct cli_api_list nodes = {
        .resource = &gt_kube_nodes, .on_begin = drain_on_nodes, .on_object = drain_on_node, .arg = drain};
    const struct cli_api_list topologies = {.resource = &gt_kube_node_gpu_topologies,
                                            .names_only = true,
                                            .on_begin = drain_on_topologies,
                                            .on_object = drain_on_topology,
                                            .arg = drain};
    GT_TRY(cli_api_list(drain->api, &nodes, err));
    GT_NEED(!drain->no_memory, err, "nodes");
    if (drain->silent_count)
        GT_TRY(cli_api_list(drain->api, &topologies, err));
    unsigned may = (unsigned)((uint64_t)drain->nodes * percent / 100);
    if (drain->failed <= (may ? may : 1))
        return 0;
    return gt_fail(err, EBUSY,
                   "%u of the %u nodes of the cluster are not Ready, and --brake lets %u go at once",
                   drain->failed, drain->nodes, may ? may : 1);
}

/* Nobody goes while the brake is on. Of the pods of one owner nobody goes before dry runs let all of them. */
static void drain_ask(struct cli_drain *drain, unsigned percent, struct gt_err **braked)
{
    bool known = false;
    for (uint32_t i = 0; i < drain->count; i++) {
        struct drained_pod *pod = &drain->pods[i];
        if (pod->way != DRAIN_EVICT)
            continue;
        if (!known)
            drain_brake(drain, percent, braked);
        known = true;
        if (*braked || drain_evict(drain, pod, true, &pod->error) < 0) {
            pod->way = DRAIN_STAYS;
            pod->why = gt_err_text(*braked ? *braked : pod->error);
        }
    }
    for (uint32_t i = 0; i < drain->count; i++)
        for (uint32_t j = 0; drain->pods[i].error && *drain->pods[i].owner && j < drain->count; j++) {
            struct drained_pod *pod = &drain->pods[j];
            if (pod->way == DRAIN_EVICT && strcmp(pod->owner, drain->pods[i].owner) == 0) {
                pod->way = DRAIN_STAYS;
                pod->why = "another pod of its owner may not leave";
            }
        }
}

/* ---- the verb ---- */

static int drain_all(struct cli_drain *drain, unsigned brake, struct gt_err **err)
{
    gt_auto_err struct gt_err *braked = NULL;
    const struct cli_api_list list = {
        .resource = &gt_kube_pods, .on_begin = drain_on_begin, .on_object = drain_on_pod, .arg = drain};
    unsigned cordoned = 0, ways[DRAIN_WAYS] = {0};
    for (unsigned i = 0; i < drain->super->member_count; i++)
        GT_TRY(drain_cordon(drain, drain->super->members[i].node, &cordoned, err));
    GT_TRY(cli_api_list(drain->api, &list, err));
    GT_NEED(!drain->no_memory, err, "pods");
    qsort(drain->pods, drain->count, sizeof(*drain->pods), drain_by_name);
    drain_ask(drain, brake, &braked);
    if (drain->as_json)
        gt_json_printf(drain->text, "{'supernode': %s, 'nodes': %u, 'cordoned': %u, 'dryRun': !%d, 'pods': [",
                       drain->super->name, drain->super->member_count, cordoned, drain->dry_run);
    else
        gt_buf_printf(drain->text, "supernode %s: %u node%s, %u cordoned now\n", drain->super->name,
                      drain->super->member_count, drain->super->member_count == 1 ? "" : "s", cordoned);
    for (uint32_t i = 0; i < drain->count; i++) {
        gt_auto_err struct gt_err *why = NULL;
        drain_pod(drain, &drain->pods[i], &why);
        ways[drain->pods[i].way]++;
    }
    if (drain->as_json)
        gt_buf_puts(drain->text, "]}\n");
    else
        gt_buf_printf(drain->text, "%u of %u pods with GPUs move, %u are evicted, %u stay%s%s\n",
                      ways[DRAIN_MOVE] + ways[DRAIN_MOVES], drain->count, ways[DRAIN_EVICT],
                      ways[DRAIN_STAYS], ways[DRAIN_STAYS] == 1 ? "s" : "",
                      drain->dry_run ? " (dry run: nothing was changed)" : "");
    return gt_buf_check(drain->text, "the list", err);
}

static int drain_open(const struct drain_options *options, const char *name, struct cli_api **ret_api,
                      cJSON **ret_object, struct gt_supernode_object *ret, struct gt_err **err)
{
    GT_TRY(cli_api_open(&options->api, ret_api, err));
    GT_TRY(cli_api_get(*ret_api, &gt_kube_supernodes, name, ret_object, err));
    GT_TRY(gt_supernode_object_read(*ret_object, ret, err));
    if (ret->tier > 1)
        return gt_fail(err, EINVAL,
                       "supernode %s is of tier %u, expected one of tier 1: drain those below it", name,
                       ret->tier);
    return 0;
}

static const struct gt_option drain_own_options[] = {
    {"dry-run", NULL, "say what would be done, and change nothing", gt_option_set,
     GT_OPTION_FIELD(struct drain_options, dry_run)},
    {"brake", "PERCENT",
     "evict nobody while more of the other nodes are not Ready; 100: go on (default: 10, as the companion)",
     gt_option_number, GT_OPTION_FIELD(struct drain_options, brake), .min = 1, .max = 100},
    CLI_FORMAT_OPTION,
    CLI_API_OPTIONS(struct drain_options),
    CLI_HELP_OPTION,
};

static int drain_run(struct cli_call *call)
{
    const struct drain_options *options = call->options;
    gt_auto_json cJSON *object = NULL;
    cli_auto_api struct cli_api *api = NULL;
    gt_auto_supernode_object struct gt_supernode_object super = {0};
    __attribute__((cleanup(drain_done))) struct cli_drain drain = {.dry_run = options->dry_run,
                                                                   .as_json =
                                                                       options->parse.format != CLI_TEXT,
                                                                   .super = &super,
                                                                   .text = call->text};
    GT_TRY(drain_open(options, call->args[0], &api, &object, &super, call->err));
    drain.api = api;
    return drain_all(&drain, options->brake ? options->brake : DRAIN_BRAKE_PERCENT, call->err);
}
const struct cli_verb cli_drain = {
    .name = "drain",
    .about = "empty a supernode for maintenance",
    .command =
        {.arguments = "SUPERNODE",
         .about = "Empty a supernode for maintenance: cordon its nodes, move the pods that may move, and say "
                  "which stay. Run it again to see what is left.",
         .more = "Example: gputopo drain --dry-run rack-a",
         CLI_OPTIONS(drain_own_options)},
    .least_args = 1,
    .most_args = 1,
    .wanted = "expected one SUPERNODE",
    .options_size = sizeof(struct drain_options),
    .run = drain_run};
