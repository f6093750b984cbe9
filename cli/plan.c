/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/plan.h"

#include <errno.h>
#include <math.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/json_write.h"
#include "base/text.h"
#include "cli/cli.h"
#include "scheduler-ext/core/score.h"
#include "topology/model/node_json.h"

/* `plan --relocate`: which pods of the file to move, and where to, so that the job fits. */

static int plan_relocate_by_job(const void *a, const void *b, void *arg)
{
    const struct gt_cluster_file *file = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(file->pods[x].job, file->pods[y].job);
    if (order)
        return order;
    return file->running[x].unit != file->running[y].unit
               ? (file->running[x].unit > file->running[y].unit) -
                     (file->running[x].unit < file->running[y].unit)
               : (x > y) - (x < y);
}

/* A unit of which not all pods are known, or not one by one, does not move. */
static void hold_incomplete(const struct gt_cluster_file *file, const uint32_t *order)
{
    for (uint32_t first = 0, end; first < file->pod_count; first = end) {
        const struct gt_cluster_pod *pod = &file->pods[order[first]];
        uint32_t unit = file->running[order[first]].unit;
        uint64_t gpus = 0;
        for (end = first; end < file->pod_count && file->running[order[end]].unit == unit &&
                          strcmp(file->pods[order[end]].job, pod->job) == 0;
             end++)
            gpus += gt_bit_count(file->running[order[end]].place.mask);
        for (uint32_t i = first; unit != GT_NONE && i < end; i++)
            if (!pod->job[0] || gpus != file->pods[order[i]].unit_gpus)
                file->running[order[i]].movable = false;
    }
}

/* A number for each named job; a pod without a name of a job is a job by itself. */
static int number_jobs(struct gt_cluster_file *file, struct gt_err **err)
{
    gt_auto_free uint32_t *order = calloc((size_t)file->pod_count + 1, sizeof(*order));
    GT_NEED(order, err, "plan");
    for (uint32_t i = 0; i < file->pod_count; i++)
        order[i] = i;
    qsort_r(order, file->pod_count, sizeof(*order), plan_relocate_by_job, file);
    for (uint32_t i = 0, job = 0; i < file->pod_count; i++) {
        const struct gt_cluster_pod *pod = &file->pods[order[i]];
        job += i && strcmp(pod->job, file->pods[order[i - 1]].job) != 0;
        file->running[order[i]].job = pod->job[0] ? job : GT_NONE;
    }
    hold_incomplete(file, order);
    return 0;
}

static void plan_change_free(struct gt_cluster *cluster, struct gt_place place, bool frees)
{
    struct gt_cluster_node node;
    if (gt_cluster_get_node(cluster, place.node, &node))
        gt_cluster_set_free(cluster, place.node, frees ? node.free | place.mask : node.free & ~place.mask);
}

static void plan_relocate_move(struct cli_plan *plan)
{
    for (uint32_t i = 0; i < plan->way.relocation.count; i++) {
        const struct gt_relocate_move *move = &plan->way.relocation.moves[i];
        plan_change_free(plan->cluster, plan->file->running[move->pod].place, true);
        plan_change_free(plan->cluster, (struct gt_place){move->node, move->mask}, false);
    }
}

/* Finds the relocation, and applies it to the plan's cluster. */
static int cli_plan_relocate(struct cli_plan *plan, const struct gt_advise_job *job, struct gt_err **err)
{
    struct gt_cluster_file *file = plan->file;
    GT_TRY(number_jobs(file, err));
    const struct gt_relocate_spec spec = {.job = *job, .tier = plan->sizes.within};
    GT_TRY(
        gt_relocate_within(plan->cluster, file->running, file->pod_count, &spec, &plan->way.relocation, err));
    plan_relocate_move(plan);
    return 0;
}

enum { GPUS_OF_POD_MAX = 1024 };

struct plan_options {
    struct cli_parse parse;
    const char *cluster, *from, *group, *atomic, *topology, *unit_topology, *slow;
    unsigned close;
    uint64_t pods, gpus;
    struct gt_chain_sizes chain; /* none: it is learned */
    bool explain, advise, relocate, exit_code;
};

#define PLAN_FIELD(member) GT_OPTION_FIELD(struct plan_options, member)

/* Of annotations, which have readers of their own: for the completion. */
static const char *const topology_words[] = {"required=leaf", "required=spine", "preferred", "none", NULL};
static const char *const unit_topology_words[] = {"required=leaf", "required=spine", NULL};
static const char *const slow_words[] = {"avoid", "never", "any", NULL};
static const char *const close_words[] = {"room", "prefer", NULL};

static const struct gt_option own_options[] = {
    {"cluster", "FILE", "the cluster, as JSON", gt_option_any_text, PLAN_FIELD(cluster)},
    {"from", "FILE", "one node instead of a cluster: what show --from takes (-: standard input)",
     gt_option_any_text, PLAN_FIELD(from)},
    {"pods", "N", "how many pods the job has", gt_option_number, PLAN_FIELD(pods), .min = 1,
     .max = GT_PLAN_PODS_MAX},
    {"gpus", "K", "how many GPUs each of them asks for", gt_option_number, PLAN_FIELD(gpus), .min = 1,
     .max = GPUS_OF_POD_MAX, .letter = 'k'},
    {"group-size", "G",
     "GPUs of one model-parallel unit (gpu-group-size); without it each pod is placed by itself",
     gt_option_any_text, PLAN_FIELD(group)},
    {"atomic-group-size", "A", "GPUs of the smallest part that must stay together (atomic-gpu-group-size)",
     gt_option_any_text, PLAN_FIELD(atomic)},
    {"job-topology", "HOW",
     "where the whole job lies: required=TIER (in one supernode of this tier: leaf, 2), preferred, none",
     gt_option_any_text, PLAN_FIELD(topology), .words = topology_words},
    {"gpu-group-topology", "HOW", "with atoms: required=TIER, each unit in one supernode of this tier",
     gt_option_any_text, PLAN_FIELD(unit_topology), .words = unit_topology_words},
    {"slow-gpus", "HOW", "how the job uses slow GPUs: avoid (default), never, any", gt_option_any_text,
     PLAN_FIELD(slow), .words = slow_words},
    {"close", "HOW", "whether the job lies close only where that costs no room (room), or always (prefer)",
     gt_option_word, PLAN_FIELD(close), .words = close_words},
    {"chain", "LIST", "unit sizes to leave room for, ascending (default: those of the job and of the pods)",
     gt_chain_option, PLAN_FIELD(chain)},
    {"explain", NULL, "say why each unit lies where it does", gt_option_set, PLAN_FIELD(explain)},
    {"advise", NULL, "where the job does not fit, say which movable pods must leave for it", gt_option_set,
     PLAN_FIELD(advise)},
    {"relocate", NULL, "where the job does not fit, say which movable pods must move, and where to",
     gt_option_set, PLAN_FIELD(relocate)},
    {"exit-code", NULL, "exit with 1 where the job is not placed; otherwise that is 0 like every answer",
     gt_option_set, PLAN_FIELD(exit_code)},
    CLI_FORMAT_OPTION,
    CLI_HELP_OPTION,
};

/* ---- the answer ---- */

static void plan_free(struct cli_plan *plan)
{
    if (plan->way.after)
        plan_free(plan->way.after);
    gt_buf_done(&plan->reason);
    gt_buf_done(&plan->result.slow);
    free(plan->units);
    free(plan->pods);
    free(plan->losses);
    free(plan->way.advice.moved);
    free(plan->way.relocation.moves);
    free(plan->result.closer.others.moves);
    free(plan);
}
GT_DEFINE_CLEANUP(struct cli_plan *, plan_free)

static int plan_new(struct gt_cluster_file *file, const struct plan_options *options, struct cli_plan **ret,
                    struct gt_err **err)
{
    struct cli_plan *plan = calloc(1, sizeof(*plan));
    GT_NEED(plan, err, "plan");
    plan->reason.max = plan->result.slow.max = 4096;
    plan->file = file;
    plan->cluster = file->cluster;
    plan->pod_count = (uint32_t)options->pods;
    plan->gpus = (unsigned)options->gpus;
    plan->wants.explain = options->explain;
    plan->wants.advise = options->advise;
    plan->wants.relocate = options->relocate;
    plan->pods = calloc(plan->pod_count, sizeof(*plan->pods));
    plan->losses = calloc(plan->pod_count, sizeof(*plan->losses));
    *ret = plan;
    return plan->pods && plan->losses ? 0 : gt_fail_sys(err, ENOMEM, "plan");
}

/* Makes units from the sizes; without a group size every pod is a unit. */
static int cli_plan_make_units(struct cli_plan *plan, const struct plan_options *options, struct gt_err **err)
{
    struct gt_job_texts texts = {.where = "",
                                 .of = {[GT_KEY_GROUP] = options->group,
                                        [GT_KEY_ATOMIC] = options->atomic,
                                        [GT_KEY_JOB_TOPOLOGY] = options->topology,
                                        [GT_KEY_GROUP_TOPOLOGY] = options->unit_topology,
                                        [GT_KEY_SLOW] = options->slow}};
    GT_TRY(gt_job_sizes_read(&texts, 1, &plan->sizes, err));
    gt_auto_free struct gt_job_pod *pods = calloc(plan->pod_count, sizeof(*pods));
    GT_NEED(pods, err, "plan");
    for (uint32_t i = 0; i < plan->pod_count; i++)
        pods[i] = (struct gt_job_pod){&plan->gpus, 1, 0};
    struct gt_job_units units;
    GT_TRY(gt_job_units_make(&plan->sizes, pods, plan->pod_count, &units, err));
    plan->warning = units.warning;
    plan->units = units.units;
    plan->unit_count = units.count;
    plan->aware = !units.units;
    if (!plan->aware)
        return 0;
    plan->unit_count = plan->pod_count;
    plan->units = calloc(plan->pod_count, sizeof(*plan->units));
    GT_NEED(plan->units, err, "plan");
    for (uint32_t i = 0; i < plan->pod_count; i++)
        plan->units[i] = (struct gt_plan_unit){.first = i, .pods = 1, .gpus = plan->gpus};
    return 0;
}

/* The job waits, so the chain learns its sizes, as those of pods in the file. */
static void learn_sizes(struct cli_plan *plan)
{
    uint64_t gpus = (uint64_t)plan->pod_count * plan->gpus;
    if (plan->aware)
        return;
    gt_chain_came(plan->cluster, plan->units[0].pods * plan->gpus, gpus);
    gt_chain_came(plan->cluster, plan->units[0].atom * plan->gpus, gpus);
}

static void say_no_node(struct cli_plan *plan)
{
    uint32_t best = GT_NONE;
    unsigned most = 0;
    struct gt_cluster_node node;
    for (uint32_t id = 0; id < gt_cluster_nodes(plan->cluster); id++)
        if (gt_cluster_get_node(plan->cluster, id, &node) && gt_bit_count(node.available) > most) {
            most = gt_bit_count(node.available);
            best = id;
        }
    gt_buf_printf(&plan->reason, "%u of %u pods find a node; for the next no node has %u GPU%s available",
                  plan->found, plan->pod_count, plan->gpus, plan->gpus == 1 ? "" : "s");
    if (best != GT_NONE)
        gt_buf_printf(&plan->reason, "; most are %u on node %s", most, cli_plan_node(plan, best));
}

static double value_of(const struct cli_plan *plan, uint32_t node)
{
    struct gt_score_parts parts;
    double value = gt_score_one(plan->cluster, node, plan->gpus, &parts) ? parts.value : (double)NAN;
    return gt_score_slow(plan->cluster, node, UINT64_MAX, (struct gt_numa_pod){plan->gpus, 0},
                         plan->sizes.slow, value);
}

/* gpu-aware: pod after pod, each on what the pods before it leave; the cluster belongs to this process and
 * may change. */
static int place_one_by_one(struct cli_plan *plan, struct gt_err **err)
{
    uint32_t nodes = gt_cluster_nodes(plan->cluster);
    gt_auto_free double *values = calloc((size_t)nodes + 1, sizeof(*values));
    gt_auto_free uint32_t *ids = calloc((size_t)nodes + 1, sizeof(*ids));
    int r = 0;
    GT_NEED(values && ids, err, "cluster");
    for (uint32_t id = 0; id < nodes; id++) {
        ids[id] = id;
        values[id] = value_of(plan, id);
    }
    plan->placed = true;
    for (uint32_t i = 0; i < plan->pod_count && plan->placed && r >= 0; i++) {
        struct gt_score_parts parts;
        struct gt_promise_id promise;
        uint32_t node = gt_score_first(plan->cluster, values, ids, nodes);
        struct gt_cluster_node n;
        plan->placed =
            gt_cluster_get_node(plan->cluster, node, &n) &&
            ((plan->sizes.slow != GT_SLOW_ANY &&
              gt_score_left(plan->cluster, node, ~n.slow, (struct gt_numa_pod){plan->gpus, 0}, &parts)) ||
             gt_score_one(plan->cluster, node, plan->gpus, &parts));
        if (!plan->placed)
            break;
        plan->pods[i] = (struct gt_plan_pod){.place = {node, parts.choice.mask}};
        plan->losses[i] = parts.choice.loss;
        plan->units[i].supernode = n.supernode;
        plan->units[i].tier = 1;
        plan->units[i].supernodes = 1;
        plan->found++;
        r = gt_cluster_promise(plan->cluster, &(struct gt_promise){.place = {node, parts.choice.mask}},
                               &promise, err);
        values[node] = value_of(plan, node);
    }
    if (!plan->placed)
        say_no_node(plan);
    gt_cluster_end_promises(plan->cluster, GT_PROMISE_PLANNED, 0);
    return r;
}

static int cli_plan_place(struct cli_plan *plan, struct gt_err **err)
{
    if (plan->aware)
        return place_one_by_one(plan, err);
    const struct gt_plan_request request = {.units = plan->units,
                                            .unit_count = plan->unit_count,
                                            .pods = plan->pods,
                                            .pod_count = plan->pod_count,
                                            .flat = plan->sizes.flat,
                                            .slow = plan->sizes.slow,
                                            .within = plan->sizes.within};
    struct gt_plan_failure failure;
    plan->placed = gt_plan_job(plan->cluster, &request, &failure);
    if (!plan->placed)
        gt_plan_failure_text(plan->cluster, &failure, &plan->reason);
    return 0;
}

/* ---- advice ---- */

/* Frees the GPUs of the pods that are to move. */
static void move_away(const struct cli_plan *plan)
{
    for (uint32_t i = 0; i < plan->way.advice.count; i++)
        plan_change_free(plan->cluster, plan->file->running[plan->way.advice.moved[i]].place, true);
}

static int find_evicted_pods(struct cli_plan *plan, const struct gt_advise_job *job, struct gt_err **err)
{
    const struct gt_cluster_file *file = plan->file;
    GT_TRY(gt_advise(plan->cluster, file->running, file->pod_count, job, &plan->way.advice, err));
    if (plan->way.advice.possible)
        move_away(plan);
    return 0;
}

/* The last step, since it changes the cluster. */
static int find_advice(struct cli_plan *plan, const struct plan_options *options, struct gt_err **err)
{
    const struct gt_plan_unit *unit = &plan->units[0];
    uint32_t run = unit->atom ? unit->atom : unit->pods;
    struct gt_advise_job job = {.runs = plan->pod_count / run,
                                .pods = run,
                                .gpus = plan->gpus,
                                .unit = unit->within ? unit->pods / run : 0,
                                .within = unit->within};
    int r = plan->wants.advise ? find_evicted_pods(plan, &job, err) : cli_plan_relocate(plan, &job, err);
    if (r < 0 || !(plan->wants.advise ? plan->way.advice.possible : plan->way.relocation.possible))
        return r;
    r = plan_new(plan->file, options, &plan->way.after, err);
    if (r >= 0) {
        plan->way.after->wants.explain = plan->way.after->wants.advise = plan->way.after->wants.relocate =
            false;
        r = cli_plan_make_units(plan->way.after, options, err);
    }
    return r < 0 ? r : cli_plan_place(plan->way.after, err);
}

/* ---- what is told of a placed job ---- */

enum {
    CLOSER_WORK = 2000000, /* of all searches together, some 50 ms */
    SLOW_PODS_NAMED = 3,
};

static int tell_crossing(struct cli_plan *plan, struct gt_err **err)
{
    const struct gt_plan_unit *unit = &plan->units[0];
    uint32_t run = unit->atom ? unit->atom : unit->pods;
    gt_auto_free uint32_t *nodes = calloc((size_t)plan->pod_count + 1, sizeof(*nodes));
    for (uint32_t i = 0; nodes && i < plan->pod_count; i++)
        nodes[i] = plan->pods[i].place.node;
    GT_NEED(nodes && gt_crossing_find(plan->cluster, nodes, plan->pod_count, &plan->result.crossing), err,
            "plan");
    if (!plan->result.crossing.highest || plan->aware || plan->sizes.unit_within || !plan->file->pod_count)
        return 0;
    GT_TRY(number_jobs(plan->file, err));
    const struct gt_closer_spec spec = {.crossing = &plan->result.crossing,
                                        .nodes = nodes,
                                        .count = plan->pod_count,
                                        .run = run,
                                        .gpus = plan->gpus,
                                        .pods = plan->file->running,
                                        .pod_count = plan->file->pod_count,
                                        .work = CLOSER_WORK};
    return gt_closer_find(plan->cluster, &spec, &plan->result.closer, err);
}

/* Why it does not keep off them. */
static int tell_why_slow(struct cli_plan *plan, struct gt_err **err)
{
    gt_auto_free struct gt_plan_unit *units = calloc(plan->unit_count, sizeof(*units));
    gt_auto_free struct gt_plan_pod *pods = calloc(plan->pod_count, sizeof(*pods));
    GT_NEED(units && pods, err, "plan");
    memcpy(units, plan->units, plan->unit_count * sizeof(*units));
    const struct gt_plan_request without = {.units = units,
                                            .unit_count = plan->unit_count,
                                            .pods = pods,
                                            .pod_count = plan->pod_count,
                                            .flat = plan->sizes.flat,
                                            .slow = GT_SLOW_NEVER,
                                            .within = plan->sizes.within};
    struct gt_plan_failure failure;
    if (gt_plan_job(plan->cluster, &without, &failure)) {
        gt_buf_puts(
            &plan->result.slow,
            "; without them (--slow-gpus never) it would lie farther apart, or take the room of larger jobs");
        return 0;
    }
    failure.keeps_off = false; /* that is said already */
    gt_buf_puts(&plan->result.slow, "; to be free of them: ");
    gt_plan_failure_text(plan->cluster, &failure, &plan->result.slow);
    return 0;
}

/* Which slow GPUs a placed job gets, and what would free it of them. */
static int tell_slow(struct cli_plan *plan, struct gt_err **err)
{
    uint32_t pods = 0;
    for (uint32_t i = 0; i < plan->pod_count && plan->sizes.slow != GT_SLOW_ANY; i++) {
        struct gt_cluster_node node;
        bool known = gt_cluster_get_node(plan->cluster, plan->pods[i].place.node, &node);
        uint64_t slow = known ? node.slow & plan->pods[i].place.mask : 0;
        if (!slow || pods++ >= SLOW_PODS_NAMED)
            continue;
        gt_buf_printf(&plan->result.slow, "%s GPU%s ",
                      pods > 1 ? "," : "the pace of slow or suspect GPUs:", gt_plural(gt_bit_count(slow)));
        gt_text_add_mask(&plan->result.slow, slow);
        gt_buf_printf(&plan->result.slow, " of node %s (rank %u)", node.name, i);
    }
    if (pods > SLOW_PODS_NAMED)
        gt_buf_printf(&plan->result.slow, ", and those of %u more pods", pods - SLOW_PODS_NAMED);
    if (pods && plan->aware)
        gt_buf_printf(&plan->result.slow, "; to be free of them, such a pod needs a node with %u others free",
                      plan->gpus);
    return pods && !plan->aware ? tell_why_slow(plan, err) : 0;
}

static int cli_plan_answer(struct cli_call *call, struct gt_cluster_file *file, struct cli_plan **ret)
{
    const struct plan_options *options = call->options;
    GT_TRY(plan_new(file, options, ret, call->err));
    struct cli_plan *plan = *ret;
    int r = cli_plan_make_units(plan, options, call->err);
    call->is_misuse = r < 0 && r != -ENOMEM;
    GT_TRY(r);
    learn_sizes(plan);
    gt_cluster_set_prefers_close(file->cluster, options->close);
    GT_TRY(cli_plan_place(plan, call->err));
    GT_TRY(plan->placed ? tell_slow(plan, call->err) : 0);
    if (plan->placed)
        return options->explain ? tell_crossing(plan, call->err) : 0;
    if (!options->advise && !options->relocate)
        return 0;
    if (options->advise && (plan->sizes.within || plan->sizes.unit_within))
        return cli_misuse(call, "--advise does not know of tiers that are required");
    if (plan->sizes.slow == GT_SLOW_NEVER && gt_cluster_has_slow(file->cluster))
        return cli_misuse(call, "--%s does not know of jobs that never take slow GPUs",
                          options->advise ? "advise" : "relocate");
    return find_advice(plan, options, call->err);
}

static int plan_read(struct cli_call *call, struct gt_cluster_file **ret)
{
    const struct plan_options *options = call->options;
    const struct cli_source source = {.from = options->from};
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf text = GT_BUF(2 * GT_JSON_MAX);
    if (!options->from)
        return gt_cluster_file_read(options->cluster, ret, call->err);
    GT_TRY(cli_source_scan(call, &source, &node, NULL));
    if (node->gpu_count == 0)
        return cli_source_no_gpus(&source, node, call->err);
    const char *name = *node->name ? node->name : "node";
    gt_json_begin(&text, NULL, '{');
    gt_json_begin(&text, "nodes", '[');
    gt_json_begin(&text, NULL, '{');
    gt_json_add_text(&text, "name", name);
    gt_json_begin(&text, "topology", '{');
    gt_node_add_json(node, name, &text);
    gt_buf_puts(&text, "}}]}");
    GT_TRY(gt_buf_check(&text, options->from, call->err));
    return gt_cluster_file_parse(text.data, text.len, options->from, ret, call->err);
}

static int cli_plan_run(struct cli_call *call)
{
    const struct plan_options *options = call->options;
    gt_auto_cluster_file struct gt_cluster_file *file = NULL;
    GT_CLEANUP(plan_free) struct cli_plan *plan = NULL;
    if (!options->cluster == !options->from)
        return cli_misuse(call, "--cluster: expected the file of a cluster, or --from with one node");
    if (!options->pods)
        return cli_misuse(call, "--pods: expected the number of pods");
    if (!options->gpus)
        return cli_misuse(call, "--gpus: expected the number of GPUs of a pod");
    if (options->advise && options->relocate)
        return cli_misuse(call, "--advise and --relocate: expected one of the two");
    cli_progress("reading the cluster");
    GT_TRY(plan_read(call, &file));
    cli_progress("placing the pods");
    GT_TRY(options->chain.count ? gt_chain_set(file->cluster, &options->chain, call->err) : 0);
    GT_TRY(cli_plan_answer(call, file, &plan));
    (options->parse.format == CLI_TEXT ? cli_plan_text : cli_plan_json)(plan, call->text);
    call->exit_code = options->exit_code && !plan->placed ? CLI_FAILED : CLI_DONE;
    return 0;
}

const struct cli_verb cli_plan = {
    .name = "plan",
    .about = "place a job on a cluster that a file describes",
    .command =
        {.about =
             "Place one job on a cluster that a file describes: what the scheduler would do, without one.",
         .more = "Example: gputopo plan --cluster cluster.json --pods 8 --gpus 8 --group-size 32 --explain",
         CLI_OPTIONS(own_options)},
    .options_size = sizeof(struct plan_options),
    .run = cli_plan_run};
