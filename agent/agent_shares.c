/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "agent/agent_private.h"
#include "agent/shared_gpus.h"
#include "api/names.h"
#include "api/node.h"
#include "base/backoff.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/client.h"

/*
 * At its start the agent waits for the first answer of each source, or its failure. Otherwise it could offer
 * a GPU by a new ID that a container holds by an old one, or a shared GPU as a whole one.
 */

enum { FIRST_ANSWERS_MS = 2000 };

void gt_agent_synced(struct gt_agent *agent, unsigned sources)
{
    if (!agent->unsynced)
        return;
    agent->unsynced &= ~sources;
    if (agent->unsynced)
        return;
    gt_source_disarm(agent->sync_timer);
    gt_scanner_name_gpus(agent->scanner);
}

static void sync_on_timer(void *arg)
{
    gt_agent_synced(arg, ~0U);
}

int gt_agent_sync_start(struct gt_agent *agent, struct gt_err **err)
{
    GT_TRY(gt_loop_add_timer(agent->loop, sync_on_timer, agent, &agent->sync_timer, err));
    agent->unsynced = GT_SYNC_IN_USE | GT_SYNC_OFFERED | (agent->kube ? GT_SYNC_NODE : 0U);
    gt_source_arm(agent->sync_timer, FIRST_ANSWERS_MS);
    return 0;
}

/* Conditions of the Node that are faults (--fault-conditions), as other programs set them. */

static void agent_conditions_node(struct gt_agent *agent, const cJSON *node)
{
    struct gt_isolations says = {0};
    uint64_t said = 0, bit = 1;
    const char *at = agent->options->fault_conditions;
    for (size_t len; at && *at; at += len + (at[len] == ','), bit <<= 1) {
        char type[GT_FAULT_CONDITION_SIZE];
        struct gt_condition condition;
        size_t name = strcspn(at, "=");
        len = strcspn(at, ",");
        snprintf(type, sizeof(type), "%.*s", (int)name, at);
        gt_node_condition_read(node, type, &condition);
        if (condition.status != GT_CONDITION_TRUE)
            continue;
        said |= bit;
        if (!(agent->conditions_said & bit)) {
            gt_warning("a condition of the Node is a fault", GT_STR("condition", type),
                       GT_STR("message", condition.message));
            gt_agent_record_event(agent, true, "NodeConditionFault",
                                  "the condition %s of the Node is True: %.400s", type, condition.message);
        }
        if (at[name + 1] == 'i')
            snprintf(says.of[says.count++].reason, GT_ISOLATION_REASON_SIZE, "the Node's condition %.80s",
                     type);
    }
    agent->conditions_said = said;
    agent->node_says = says;
    if (gt_told_settle(&agent->told_by_node, &agent->faults.flapping, &says))
        gt_scanner_isolate(agent->scanner, GT_ISOLATED_BY_NODE, &agent->told_by_node.in_use, true);
}

bool gt_shares_evaluate(struct gt_shares *shares, uint64_t now_ms)
{
    bool was = shares->withdrawn;
    if (shares->offered || shares->in_use || shares->annotated) {
        shares->seen_ms = now_ms;
        shares->withdrawn = true;
    } else if (was && now_ms - shares->seen_ms >= GT_SHARES_GONE_MS)
        shares->withdrawn = false;
    return shares->withdrawn != was;
}

void gt_shares_why(const struct gt_shares *shares, char *to, unsigned size)
{
    if (shares->offered)
        snprintf(to, size, "the kubelet offers %u " GT_RESOURCE_SGPU, shares->offered);
    else if (shares->in_use)
        snprintf(to, size, "containers hold %u " GT_RESOURCE_SGPU, shares->in_use);
    else if (shares->annotated)
        snprintf(to, size, "the Node has the annotation " GT_ANNOTATION_VENDOR_GPUS);
    else
        snprintf(to, size, "%s", shares->withdrawn ? "the last sign of sGPUs is less than a minute old" : "");
}

bool gt_shares_annotation_counts(const char *text)
{
    static const char blank[] = " \t\r\n";
    if (!text)
        return false;
    text += strspn(text, blank);
    if (*text == '[') {
        text++;
        text += strspn(text, blank);
        return *text != ']';
    }
    return *text != '\0';
}

/* The signs that the vendor's plugin shares the GPUs: those of the kubelet come with its lists, the Node's
 * annotation is read here. */

enum { NODE_CHECK_MS = 60000, CONDITIONS_CHECK_MS = 10000 };

static void evaluate(struct gt_agent *agent)
{
    if (!gt_shares_evaluate(&agent->shares, gt_clock_ms()))
        return;
    char why[128];
    gt_shares_why(&agent->shares, why, sizeof(why));
    if (agent->shares.withdrawn) {
        gt_warning("the GPUs are left to the vendor's plugin, which shares them", GT_STR("why", why));
        gt_agent_record_event(agent, true, "GPUsShared", "no whole GPU is given to new containers: %s", why);
    } else {
        gt_info("no sign of the vendor's sGPUs any more, whole GPUs are served");
        gt_agent_record_event(agent, false, "GPUsWhole",
                              "no sign of " GT_RESOURCE_SGPU " any more, whole GPUs are served");
    }
    gt_scanner_shared(agent->scanner, agent->shares.withdrawn);
    gt_scanner_request(agent->scanner, GT_SCAN_IDS);
}

void gt_agent_shares_offered(struct gt_agent *agent, int offered)
{
    if (offered >= 0)
        agent->shares.offered = (unsigned)offered;
    evaluate(agent);
}

void gt_agent_shares_in_use(struct gt_agent *agent, unsigned in_use)
{
    agent->shares.in_use = in_use;
    evaluate(agent);
}

static void check_again(struct gt_agent *agent)
{
    struct gt_jitter jitter;
    gt_jitter_seed(&jitter);
    uint64_t pause = agent->options->fault_conditions ? CONDITIONS_CHECK_MS : NODE_CHECK_MS;
    gt_source_arm(agent->node_timer, pause + gt_jitter_below(&jitter, pause / 5));
}

static void on_node(void *arg, struct gt_kube_answer *answer)
{
    struct gt_agent *agent = arg;
    agent->node_call = NULL;
    gt_auto_node_object struct gt_node_object node = {0};
    gt_auto_err struct gt_err *err = NULL;
    if (!answer->error && gt_node_object_read(answer->object, agent->options->resource, &node, &err) < 0) {
        gt_warning("the Node cannot be read", GT_STR("why", gt_err_text(err)));
    } else if (!answer->error) {
        const char *supernode = gt_node_object_label(&node, GT_LABEL_MEMBER_OF);
        agent_conditions_node(agent, answer->object);
        agent->shares.annotated = gt_shares_annotation_counts(node.vendor_gpus);
        evaluate(agent);
        gt_text_copy(agent->supernode, sizeof(agent->supernode), supernode ? supernode : "");
    }
    check_again(agent);
    gt_agent_synced(agent, GT_SYNC_NODE);
}

static void shares_check_node(void *arg)
{
    struct gt_agent *agent = arg;
    gt_source_disarm(agent->node_timer); /* one request at a time: the answer arms it */
    const struct gt_kube_request request = {
        .verb = GT_KUBE_GET,
        .resource = &gt_kube_nodes,
        .name = agent->options->node_name,
        .metadata_only = !agent->options->fault_conditions,
    };
    if (gt_kube_start(agent->kube, &request, on_node, agent, &agent->node_call, NULL) < 0)
        check_again(agent);
}

void gt_agent_shares_check(struct gt_agent *agent)
{
    if (agent->node_timer && !agent->node_call)
        shares_check_node(agent);
}

int gt_agent_shares_start(struct gt_agent *agent, struct gt_err **err)
{
    GT_TRY(gt_loop_add_timer(agent->loop, shares_check_node, agent, &agent->node_timer, err));
    shares_check_node(agent);
    return 0;
}

void gt_agent_shares_stop(struct gt_agent *agent)
{
    gt_kube_cancel(gt_steal(agent->node_call));
    gt_source_free(gt_steal(agent->node_timer));
}
