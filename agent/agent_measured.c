/* SPDX-License-Identifier: Apache-2.0 */
#include <time.h>

#include "agent/agent_private.h"
#include "api/measured.h"
#include "base/err.h"
#include "base/log.h"

/* What is measured on this node: `spec.measured` of its object, followed, and files in a directory. Values
 * begin and end by the clock, so both are looked at in turns. */

enum { MEASURED_MS = 2000 };

static void measured_use(struct gt_agent *agent, enum gt_measured_source source, unsigned before,
                         const struct gt_measured *now)
{
    gt_info("measured values have changed",
            GT_STR("of", source == GT_MEASURED_BY_OBJECT ? "object" : "files"), GT_INT("before", before),
            GT_INT("now", now->count));
    gt_scanner_measure(agent->scanner, source, now);
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

static void measured_on_timer(void *arg)
{
    struct gt_agent *agent = arg;
    struct gt_agent_measured *of = &agent->measured;
    unsigned before = agent->measured_dir.told.count;
    int64_t now_s = time(NULL);
    if (agent->options->measured_dir &&
        gt_measured_dir_read(agent->options->measured_dir, &agent->measured_dir))
        measured_use(agent, GT_MEASURED_BY_FILES, before, &agent->measured_dir.told);
    if (of->spec && ((of->again_s && now_s >= of->again_s) || now_s < of->seen_s)) /* it may be set back */
        measured_read_object(agent);
    of->seen_s = now_s;
    gt_source_arm(agent->measured_timer, MEASURED_MS);
}

void gt_agent_measured_on_object(struct gt_agent *agent, const cJSON *object)
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

int gt_agent_measured_start(struct gt_agent *agent, struct gt_err **err)
{
    GT_TRY(gt_loop_add_timer(agent->loop, measured_on_timer, agent, &agent->measured_timer, err));
    measured_on_timer(agent);
    return 0;
}

void gt_agent_measured_stop(struct gt_agent *agent)
{
    gt_source_free(gt_steal(agent->measured_timer));
    cJSON_Delete(gt_steal(agent->measured.spec));
}
