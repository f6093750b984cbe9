/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>
#include <time.h>

#include "agent/agent_private.h"
#include "agent/health_file.h"
#include "api/isolation.h"
#include "api/measured.h"
#include "base/clock.h"
#include "base/log.h"

/* What people and programs isolate on this node, and what they measure: `spec.isolated` and `spec.measured`
 * of its object, followed, and files in two directories. Only the end of an entry and a later list end an
 * isolation: not that the API server or the object is away. */

enum { ISOLATION_JITTER_MS = 2000, ISOLATION_SELECTOR_MAX = 300, FILES_MS = 1000, CLOCK_JUMP_S = 60 };

static void measured_use(struct gt_agent *agent, enum gt_measured_source source, unsigned before,
                         const struct gt_measured *measured)
{
    gt_info("measured values have changed",
            GT_STR("of", source == GT_MEASURED_BY_OBJECT ? "object" : "files"), GT_INT("before", before),
            GT_INT("now", measured->count));
    gt_scanner_measure(agent->scanner, source, measured);
}

/* Reads what the object said last. A list that cannot be read leaves what was read before. */
static void measured_read_object(struct gt_agent *agent)
{
    struct gt_agent_measured *of = &agent->measured;
    const struct gt_measured before = of->told;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_measured_reader reader = {.to = &of->told, .now_s = time(NULL), .note = gt_measured_note};
    of->told.count = 0;
    if (gt_measured_read_spec(of->spec, "NodeGPUTopology", &reader, &err) < 0) {
        gt_warning("measured values cannot be read, those of before stay", GT_STR("why", gt_err_text(err)));
        of->told = before;
    }
    of->again_s = reader.again_s;
    if (!gt_measured_equal(&before, &of->told))
        measured_use(agent, GT_MEASURED_BY_OBJECT, before.count, &of->told);
}

static void measured_on_object(struct gt_agent *agent, const cJSON *object)
{
    struct gt_agent_measured *of = &agent->measured;
    const cJSON *now = gt_measured_spec(object);
    if (now == of->spec || cJSON_Compare(now, of->spec, true))
        return;
    cJSON *copy = now ? cJSON_Duplicate(now, true) : NULL;
    if (now && !copy)
        return; /* without memory: it is compared again at the next change */
    cJSON_Delete(of->spec);
    of->spec = copy;
    measured_read_object(agent);
}

/* Values begin and end by the clock, too. */
static void measured_look(struct gt_agent *agent)
{
    struct gt_agent_measured *of = &agent->measured;
    unsigned before = agent->measured_dir.told.count;
    int64_t now_s = time(NULL);
    if (agent->options->measured_dir &&
        gt_measured_dir_read(agent->options->measured_dir, &agent->measured_dir))
        measured_use(agent, GT_MEASURED_BY_FILES, before, &agent->measured_dir.told);
    if (of->spec && ((of->again_s && now_s >= of->again_s) || now_s < of->seen_s)) /* it may be set back */
        measured_read_object(agent);
    of->seen_s = now_s;
}

/* At the end of an isolation the GPUs are served again. Returns whether one has ended, or holds again, since
 * this was last called. */
static bool arm_end(struct gt_agent *agent)
{
    const struct gt_isolations *of[] = {[GT_ISOLATED_BY_OBJECT] = &agent->isolations,
                                        [GT_ISOLATED_BY_FILES] = &agent->told_by_files.in_use,
                                        [GT_ISOLATED_BY_NODE] = &agent->told_by_node.in_use,
                                        [GT_ISOLATED_BY_CHECK] = &agent->admission.isolates};
    unsigned first_s = 0;
    bool changed = false;
    for (unsigned i = 0; i < GT_ISOLATION_SOURCES; i++) {
        unsigned again_s;
        uint64_t over = gt_isolations_over(of[i], time(NULL), &again_s);
        changed = changed || over != agent->isolations_over[i];
        agent->isolations_over[i] = over;
        first_s = !first_s || (again_s && again_s < first_s) ? again_s : first_s;
    }
    if (first_s)
        gt_source_arm(agent->isolation_timer, first_s * UINT64_C(1000));
    else
        gt_source_disarm(agent->isolation_timer);
    return changed;
}

static void isolation_on_timer(void *arg)
{
    struct gt_agent *agent = arg;
    if (arm_end(agent))
        gt_scanner_request(agent->scanner, GT_SCAN_IDS);
}

/* The ends of isolations are times of day. */
static void isolation_watch_clock(struct gt_agent *agent)
{
    int64_t offset_s = (int64_t)time(NULL) - (int64_t)(gt_clock_ms() / 1000),
            by_s = offset_s - agent->clock_s;
    bool jumped = agent->clock_s && (by_s > CLOCK_JUMP_S || by_s < -CLOCK_JUMP_S);
    agent->clock_s = offset_s;
    if (!jumped)
        return;
    gt_warning("the clock has jumped, isolations begin and end by it", GT_INT("seconds", by_s));
    isolation_on_timer(agent);
}

static void files_on_timer(void *arg)
{
    struct gt_agent *agent = arg;
    unsigned before = agent->fault_dir.told.count;
    isolation_watch_clock(agent);
    if (agent->options->fault_dir && gt_fault_dir_read(agent->options->fault_dir, &agent->fault_dir))
        gt_info("faults that are told in files have changed", GT_INT("before", before),
                GT_INT("now", agent->fault_dir.told.count));
    if (gt_told_settle(&agent->told_by_files, &agent->faults.flapping, &agent->fault_dir.told)) {
        arm_end(agent);
        gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_FILES, &agent->told_by_files.in_use, true);
    }
    if (gt_told_settle(&agent->told_by_node, &agent->faults.flapping, &agent->node_says))
        gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_NODE, &agent->told_by_node.in_use, true);
    measured_look(agent);
    gt_source_arm(agent->files_timer, FILES_MS);
}

/* A new object without a list says nothing of what the one before it said: somebody has deleted that. */
static bool is_list_of_before(const struct gt_agent *agent, const struct gt_isolations *isolations,
                              bool is_list)
{
    return !is_list && agent->isolations.count && strcmp(agent->isolations.object, isolations->object) != 0;
}

static void isolation_on_object(void *arg, cJSON *object)
{
    struct gt_agent *agent = arg;
    gt_auto_err struct gt_err *err = NULL;
    struct gt_isolations said;
    int r = gt_isolations_read(object, &said, &err);
    agent->isolations_error = 0;
    measured_on_object(agent, object);
    if (r < 0)
        gt_warning("isolations cannot be read, those of before stay", GT_STR("why", gt_err_text(err)));
    if (r < 0 || is_list_of_before(agent, &said, r) || gt_isolations_equal(&said, &agent->isolations))
        return;
    if (said.count || agent->isolations.count)
        gt_info("isolations have changed", GT_INT("before", agent->isolations.count),
                GT_INT("now", said.count));
    agent->isolations = said;
    arm_end(agent);
    gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_OBJECT, &agent->isolations, true);
}

static void isolation_on_deleted(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct gt_agent *agent = arg;
    (void)namespace_;
    (void)name;
    (void)object;
    gt_agent_publish_refresh(agent->publish);
}

static void isolation_on_error(void *arg, const struct gt_err *error)
{
    struct gt_agent *agent = arg;
    gt_log(gt_log_level_of_code(&agent->isolations_error, gt_err_code(error)),
           "cannot ask what is isolated on this node", GT_STR("why", gt_err_text(error)));
}

/* What the process before has left: 1, or 0 for nothing. */
static int agent_recall(const char *dir, enum gt_isolation_source source, struct gt_isolations *to)
{
    gt_auto_err struct gt_err *why = NULL;
    int r = dir ? gt_isolation_file_read(dir, source, to, &why) : 0;
    if (r < 0)
        gt_warning("what was isolated before is not known", GT_STR("why", gt_err_text(why)));
    return r > 0;
}

/* What the object and the Node isolated when the process before ended, holds until the API server says
 * something else. What came and went is held back on. */
static void agent_recall_all(struct gt_agent *agent)
{
    const struct gt_agent_options *options = agent->options;
    const char *dir = options->device_plugin ? options->kubelet_dir : NULL;
    struct gt_isolations recalled;
    if (options->fault_dir && agent_recall(dir, GT_ISOLATED_BY_FILES, &recalled))
        gt_isolations_restore(&agent->told_by_files.damper, &agent->faults.flapping, &recalled);
    if (options->fault_conditions && agent_recall(dir, GT_ISOLATED_BY_NODE, &agent->node_says)) {
        gt_info("conditions of the Node of before hold", GT_INT("count", agent->node_says.count));
        gt_isolations_restore(&agent->told_by_node.damper, &agent->faults.flapping, &agent->node_says);
    }
    if (agent_recall(dir, GT_ISOLATED_BY_OBJECT, &agent->isolations)) {
        gt_info("isolations of before hold", GT_INT("count", agent->isolations.count));
        gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_OBJECT, &agent->isolations, false);
    }
}

int gt_agent_isolation_start(struct gt_agent *agent, struct gt_err **err)
{
    GT_TRY(gt_loop_add_timer(agent->loop, isolation_on_timer, agent, &agent->isolation_timer, err));
    GT_TRY(gt_loop_add_timer(agent->loop, files_on_timer, agent, &agent->files_timer, err));
    agent_recall_all(agent);
    files_on_timer(agent);
    arm_end(agent);
    return 0;
}

int gt_agent_isolation_follow(struct gt_agent *agent, struct gt_err **err)
{
    char selector[ISOLATION_SELECTOR_MAX];
    snprintf(selector, sizeof(selector), "metadata.name=%s", agent->options->node_name);
    const struct gt_kube_informer_spec spec = {
        .selection = {.resource = &gt_kube_node_gpu_topologies, .field_selector = selector},
        .start_jitter_ms = ISOLATION_JITTER_MS,
        .on_add = isolation_on_object,
        .on_update = isolation_on_object,
        .on_delete = isolation_on_deleted,
        .on_error = isolation_on_error,
        .arg = agent,
    };
    return gt_kube_informer_start(agent->kube, &spec, &agent->own_object, err);
}

void gt_agent_isolation_stop(struct gt_agent *agent)
{
    gt_source_free(gt_steal(agent->isolation_timer));
    gt_source_free(gt_steal(agent->files_timer));
    cJSON_Delete(gt_steal(agent->measured.spec));
}
