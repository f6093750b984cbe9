/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/publish_text.h"

#include <string.h>

#include "api/names.h"
#include "base/bits.h"
#include "base/text.h"
#include "base/time_text.h"

enum { PAIRS_NAMED = 32, GPUS_NAMED = 4 };

static void conditions_say(struct gt_agent_condition *to, enum gt_condition_status status, const char *reason,
                           const char *format, ...) __attribute__((format(printf, 4, 5)));

static void conditions_say(struct gt_agent_condition *to, enum gt_condition_status status, const char *reason,
                           const char *format, ...)
{
    va_list args;
    to->status = status;
    to->reason = reason;
    va_start(args, format);
    vsnprintf(to->message, sizeof(to->message), format, args);
    va_end(args);
}

static void say_discovered(const struct gt_condition_facts *facts, struct gt_agent_condition *to)
{
    const struct gt_inventory *inventory = facts->inventory;
    unsigned lost = gt_inventory_lost(inventory);
    if (facts->scan_error[0])
        conditions_say(to, GT_CONDITION_FALSE, "ScanFailed", "%.500s", facts->scan_error);
    else if (!inventory->node->gpu_count)
        conditions_say(to, GT_CONDITION_FALSE, GT_REASON_NO_GPU, "no GPU is found on this node");
    else if (lost)
        conditions_say(to, GT_CONDITION_FALSE, GT_REASON_GPU_LOST,
                       "%u GPUs are there, %u that were are not any more", inventory->node->gpu_count, lost);
    else
        conditions_say(to, GT_CONDITION_TRUE, "Scanned", "%u GPUs and %u network adapters are found",
                       inventory->node->gpu_count, inventory->node->nic_count);
}

static void say_library(const struct gt_node *node, struct gt_agent_condition *to)
{
    const struct gt_missing *missing = GT_FIND(node->missing, node->missing_count, what, "vendor library");
    if (missing)
        conditions_say(to, GT_CONDITION_FALSE, "NotAnswering", "%s", missing->why);
    else if (!node->gpu_count)
        conditions_say(to, GT_CONDITION_UNKNOWN, GT_REASON_NO_GPU, "there is no GPU to ask about");
    else if (node->library_version[0])
        conditions_say(to, GT_CONDITION_TRUE, "Answering", "the vendor library %s answers",
                       node->library_version);
    else
        conditions_say(to, GT_CONDITION_TRUE, "Answering", "the vendor library answers");
}

static void say_registered(const struct gt_condition_facts *facts, struct gt_agent_condition *to)
{
    const struct gt_node *node = facts->inventory->node;
    const char *why_not = gt_node_not_advertised(node);
    if (!facts->has_plugin)
        conditions_say(to, GT_CONDITION_FALSE, GT_REASON_NO_DEVICE_PLUGIN,
                       "the agent runs without its device plugin");
    else if (facts->registered && !facts->shared_why && facts->by_claims)
        conditions_say(to, GT_CONDITION_TRUE, GT_REASON_BY_CLAIMS,
                       "the kubelet knows the driver of the GPUs' claims");
    else if (facts->registered && !facts->shared_why)
        conditions_say(to, GT_CONDITION_TRUE, "Registered", "the kubelet knows the GPUs");
    else if (!node->gpu_count)
        conditions_say(to, GT_CONDITION_FALSE, GT_REASON_NO_GPU, "there is no GPU to register");
    else if (why_not)
        conditions_say(to, GT_CONDITION_FALSE, "NotAdvertised", "%s%s%s", why_not,
                       facts->shared_why ? ": " : "", facts->shared_why ? facts->shared_why : "");
    else if (facts->registration_error[0])
        conditions_say(to, GT_CONDITION_FALSE, "RegistrationFailed", "%.500s", facts->registration_error);
    else
        conditions_say(to, GT_CONDITION_FALSE, "NotRegistered", "the kubelet has not taken the GPUs in yet");
}

static void name_pairs(const struct gt_node *node, struct gt_buf *to)
{
    unsigned named = 0;
    for (unsigned i = 0; i < node->link_count && named < PAIRS_NAMED; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_DOWN)
            gt_buf_printf(to, "%s%u-%u", named++ ? ", " : "", link->a, link->b);
    }
}

static void say_links(const struct gt_node *node, bool library_answers, struct gt_agent_condition *to)
{
    unsigned up = 0, down = 0, unknown = 0;
    for (unsigned i = 0; i < node->link_count; i++) {
        const struct gt_link *link = &node->links[i];
        if (link->kind != GT_LINK_MX)
            continue;
        up += link->state == GT_LINK_STATE_UP;
        down += link->state == GT_LINK_STATE_DOWN;
        unknown += link->state == GT_LINK_STATE_UNKNOWN;
    }
    gt_auto_buf struct gt_buf pairs = GT_BUF(sizeof(to->message) / 2);
    name_pairs(node, &pairs);
    if (down)
        conditions_say(to, GT_CONDITION_FALSE, "LinkDown",
                       "%u of %u direct links are down, between the GPUs %s%s", down, up + down + unknown,
                       pairs.data ? pairs.data : "", down > PAIRS_NAMED ? " and others" : "");
    else if (node->links_reported_s) {
        char time[GT_TIME_TEXT_SIZE];
        gt_time_text(node->links_reported_s, time);
        conditions_say(to, GT_CONDITION_UNKNOWN, "Stale",
                       "the vendor library is silent: %u direct links are those that it last reported, at %s",
                       up + down + unknown, time);
    } else if (unknown)
        conditions_say(to, GT_CONDITION_UNKNOWN, "StateUnknown",
                       "the state of %u of %u direct links is not known", unknown, up + unknown);
    else if (up)
        conditions_say(to, GT_CONDITION_TRUE, "AllUp", "all %u direct links are up", up);
    else if (!library_answers)
        conditions_say(to, GT_CONDITION_UNKNOWN, "NotKnown",
                       "without the vendor library direct links are not known");
    else
        conditions_say(to, GT_CONDITION_TRUE, "NoDirectLinks", "the GPUs have no direct links");
}

static void name_unhealthy(const struct gt_inventory *inventory, unsigned bad, struct gt_buf *to)
{
    const struct gt_node *node = inventory->node;
    unsigned named = 0;
    for (unsigned i = 0; i < node->gpu_count && named < GPUS_NAMED; i++) {
        const struct gt_gpu *gpu = &node->gpus[i];
        if (gpu->health == GT_GPU_UNHEALTHY)
            gt_buf_printf(to, "%sGPU %u (%.64s): %s", named++ ? "; " : "", i,
                          gpu->uuid[0] ? gpu->uuid : gpu->bdf, gpu->unhealthy_reason);
    }
    for (unsigned i = 0; i < inventory->device_count && named < GPUS_NAMED; i++)
        if (gt_device_is_lost(&inventory->devices[i]))
            gt_buf_printf(to, "%s%.96s is gone", named++ ? "; " : "", inventory->devices[i].id);
    if (bad > named)
        gt_buf_printf(to, "; and %u others", bad - named);
}

static void say_gpus(const struct gt_inventory *inventory, struct gt_agent_condition *to)
{
    const struct gt_node *node = inventory->node;
    unsigned unhealthy = gt_bit_count(gt_node_with_health(node, GT_GPU_UNHEALTHY)),
             unknown = gt_bit_count(gt_node_with_health(node, GT_GPU_HEALTH_UNKNOWN)),
             lost = gt_inventory_lost(inventory);
    gt_auto_buf struct gt_buf names = GT_BUF(sizeof(to->message));
    name_unhealthy(inventory, unhealthy + lost, &names);
    if (unhealthy + lost)
        conditions_say(to, GT_CONDITION_FALSE, unhealthy ? GT_REASON_GPU_UNHEALTHY : GT_REASON_GPU_LOST,
                       "%u of %u GPUs cannot be used: %s", unhealthy + lost, node->gpu_count + lost,
                       names.data ? names.data : "");
    else if (!node->gpu_count)
        conditions_say(to, GT_CONDITION_UNKNOWN, GT_REASON_NO_GPU, "no GPU is found on this node");
    else if (unknown)
        conditions_say(to, GT_CONDITION_UNKNOWN, "NotKnown", "nothing tells the health of %u of %u GPUs",
                       unknown, node->gpu_count);
    else
        conditions_say(to, GT_CONDITION_TRUE, "AllHealthy", "all %u GPUs are healthy", node->gpu_count);
}

static void say_usage(const struct gt_condition_facts *facts, struct gt_agent_condition *to)
{
    const char *why = facts->usage_error[0] ? facts->usage_error : "it has only just started";
    if (facts->usage_stale)
        conditions_say(to, GT_CONDITION_FALSE, "Stale",
                       "the kubelet last said at %.30s who uses the GPUs, what is free is of then: %.500s",
                       facts->usage_at, why);
    else if (!facts->usage_known)
        conditions_say(to, GT_CONDITION_FALSE, "NotKnown",
                       "the kubelet has not said yet who uses the GPUs: %.500s", why);
    else
        conditions_say(to, GT_CONDITION_TRUE, "Answering", "the kubelet says who uses the GPUs");
}

/* Whether the kubelet's topology manager admits pods of every size. */
static void say_numa(const struct gt_condition_facts *facts, struct gt_agent_condition *to)
{
    const struct gt_inventory *inventory = facts->inventory;
    const struct gt_kubelet *kubelet = &inventory->node->kubelet;
    const struct gt_numa *numa = inventory->class ? gt_class_numa(inventory->class) : NULL;
    unsigned all = inventory->node->gpu_count, most = numa && numa->count ? gt_numa_most(numa) : all;
    if (facts->by_claims)
        conditions_say(to, GT_CONDITION_TRUE, "NotRestricted",
                       "pods get the GPUs by claims, which the kubelet's topology manager does not judge");
    else if (!kubelet->policy[0])
        conditions_say(to, GT_CONDITION_UNKNOWN, "PolicyUnknown",
                       "it is not known whether the kubelet refuses pods for their NUMA nodes: %s",
                       kubelet->unknown[0] ? kubelet->unknown : "nobody has looked");
    else if (most < all)
        conditions_say(
            to, GT_CONDITION_FALSE, "PodsTooLarge",
            "with the policy %s the kubelet gives one %s at most %u of the %u GPUs, which lie on %u "
            "NUMA nodes; it refuses more with TopologyAffinityError. The policy best-effort would not",
            kubelet->policy, kubelet->scope, most, all, numa->count);
    else if (numa && numa->count)
        conditions_say(
            to, GT_CONDITION_TRUE, "SizesFit",
            "the kubelet's policy %s admits each number of GPUs where few enough NUMA nodes have them",
            kubelet->policy);
    else
        conditions_say(to, GT_CONDITION_TRUE, "NotRestricted",
                       "with the policy %s the kubelet refuses no pod for the NUMA nodes of its GPUs",
                       kubelet->policy);
}

void gt_conditions_update(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                          const struct gt_condition_facts *facts, const char *now)
{
    const struct gt_node *node = facts->inventory->node;
    struct gt_agent_condition next[GT_TOPOLOGY_CONDITIONS] = {0};
    say_discovered(facts, &next[GT_TOPOLOGY_DISCOVERED]);
    say_library(node, &next[GT_TOPOLOGY_VENDOR_LIBRARY]);
    say_registered(facts, &next[GT_TOPOLOGY_REGISTERED]);
    say_links(node, next[GT_TOPOLOGY_VENDOR_LIBRARY].status == GT_CONDITION_TRUE,
              &next[GT_TOPOLOGY_LINKS_HEALTHY]);
    say_usage(facts, &next[GT_TOPOLOGY_USAGE_KNOWN]);
    say_numa(facts, &next[GT_TOPOLOGY_NUMA]);
    say_gpus(facts->inventory, &next[GT_TOPOLOGY_GPUS_HEALTHY]);
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++) {
        bool same = conditions[i].since[0] && conditions[i].status == next[i].status;
        snprintf(next[i].since, sizeof(next[i].since), "%s", same ? conditions[i].since : now);
        conditions[i] = next[i];
    }
}

void gt_conditions_adopt(struct gt_agent_condition conditions[static GT_TOPOLOGY_CONDITIONS],
                         const cJSON *object)
{
    struct gt_condition found[GT_TOPOLOGY_CONDITIONS];
    gt_topology_conditions_read(object, found);
    for (unsigned i = 0; i < GT_TOPOLOGY_CONDITIONS; i++) {
        struct gt_agent_condition *to = &conditions[i];
        /* Somebody may have edited it: it may have any form. */
        if (to->reason || !gt_time_of_text(found[i].since) ||
            !gt_text_copy(to->since, sizeof(to->since), found[i].since))
            continue;
        to->status = found[i].status;
    }
}
