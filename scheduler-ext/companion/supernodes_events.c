/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/names.h"
#include "base/digest.h"
#include "base/log.h"
#include "scheduler-ext/companion/supernodes_private.h"

static int supernodes_events_compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* `event` may be without a name: then it is only logged. */
static void supernodes_events_add(struct gt_supernodes *supernodes, const struct gt_event_object *event)
{
    uint64_t digest = gt_digest_keyed(event->note) ^ gt_digest_keyed(event->reason) * 31 ^
                      gt_digest_keyed(event->name ? event->name : "") * 37;
    if (supernodes->now_count == GT_PROBLEMS_MAX)
        return;
    supernodes->now[supernodes->now_count++] = digest;
    if (bsearch(&digest, supernodes->before, supernodes->before_count, sizeof(digest),
                supernodes_events_compare))
        return;
    gt_warning("something is wrong", GT_STR("reason", event->reason), GT_STR("what", event->note));
    if (event->name)
        gt_kube_record(supernodes->env->recorder, event);
}

/* The Event's object: the ConfigMap, where the configuration is one. */
static struct gt_event_object about_config(const struct gt_supernodes *supernodes, bool is_network)
{
    struct gt_event_object event = {.warning = true, .action = "Join"};
    if (gt_config_source_is_configmap(is_network ? supernodes->network : supernodes->source)) {
        event.api_version = "v1";
        event.kind = "ConfigMap";
        event.namespace_ = supernodes->env->namespace_;
        event.name =
            is_network ? supernodes->env->options->network : supernodes->env->options->supernodes_config;
    }
    return event;
}

static struct gt_event_object about_supernode(const char *name)
{
    return (struct gt_event_object){.api_version = GT_API_GROUP_VERSION,
                                    .kind = GT_KIND_SUPERNODE,
                                    .name = name,
                                    .warning = true,
                                    .action = "Join"};
}

static void report_notes(struct gt_supernodes *supernodes, bool is_network, char *const *notes,
                         uint32_t count)
{
    struct gt_event_object event = about_config(supernodes, is_network);
    event.reason = "BadConfiguration";
    for (uint32_t i = 0; i < count; i++) {
        event.note = notes[i];
        supernodes_events_add(supernodes, &event);
    }
}

static void supernodes_report_unread(struct gt_supernodes *supernodes, bool is_network)
{
    struct gt_event_object event = about_config(supernodes, is_network);
    const char *error = gt_config_source_error(is_network ? supernodes->network : supernodes->source);
    char note[700];
    if (!error[0])
        return;
    snprintf(note, sizeof(note), "the %s cannot be read, the one before it stays: %s",
             is_network ? "network" : "configuration of supernodes", error);
    event.reason = "BadConfiguration";
    event.note = note;
    supernodes_events_add(supernodes, &event);
}

static void report_config(struct gt_supernodes *supernodes)
{
    const struct gt_groups *groups = gt_config_source_get(supernodes->source);
    const struct gt_network *network = gt_config_source_get(supernodes->network);
    supernodes_report_unread(supernodes, false);
    supernodes_report_unread(supernodes, true);
    if (groups)
        report_notes(supernodes, false, groups->notes, groups->note_count);
    if (network)
        report_notes(supernodes, true, network->notes, network->note_count);
    if (supernodes->kept.network)
        report_notes(supernodes, true, supernodes->kept.network->notes, supernodes->kept.network->note_count);
}

static void report_problem(struct gt_supernodes *supernodes, const struct gt_view *view,
                           const struct gt_join_problem *problem)
{
    struct gt_event_object event;
    if (problem->in_config)
        event = about_config(supernodes, problem->kind == GT_JOIN_CABLING);
    else if (problem->node != GT_JOIN_NONE) {
        const struct gt_cache_report *report = view->reports[problem->node];
        /* As in the kubelet's events: `kubectl describe node` searches events by the name in place of the
         * UID. */
        event = (struct gt_event_object){.api_version = "v1",
                                         .kind = "Node",
                                         .name = report->name,
                                         .uid = report->name,
                                         .warning = true,
                                         .action = "Join"};
    } else
        event = about_supernode(
            problem->supernode == GT_JOIN_NONE ? NULL : view->join->supernodes[problem->supernode].name);
    event.reason = gt_join_problem_name(problem->kind);
    event.note = problem->text;
    supernodes_events_add(supernodes, &event);
}

void gt_supernodes_events(struct gt_supernodes *supernodes, const struct gt_view *view,
                          const struct gt_projected *projected)
{
    const struct gt_join *join = view ? view->join : NULL;
    supernodes->now_count = 0;
    report_config(supernodes);
    for (uint32_t i = 0; join && i < join->problem_count; i++)
        report_problem(supernodes, view, &join->problems[i]);
    for (uint32_t s = 0; join && s < join->supernode_count; s++) {
        struct gt_event_object event = about_supernode(join->supernodes[s].name);
        char note[200];
        if (gt_apply_set_state_of(supernodes->set, event.name) == GT_APPLY_SET_FOREIGN) {
            snprintf(note, sizeof(note),
                     "the Supernode %s has not our label " GT_LABEL_MANAGED_BY "=" GT_MANAGER_COMPANION
                     ": somebody else has made it, it is left as it is",
                     event.name);
            event.reason = "NameTaken";
            event.note = note;
            supernodes_events_add(supernodes, &event);
        }
        if (projected && projected[s].reason && !projected[s].good &&
            (strcmp(projected[s].reason, "MemberHeld") == 0 ||
             strcmp(projected[s].reason, "NameTaken") == 0)) {
            event.action = "Project";
            event.reason = projected[s].reason;
            event.note = projected[s].message;
            supernodes_events_add(supernodes, &event);
        }
    }
    qsort(supernodes->now, supernodes->now_count, sizeof(*supernodes->now), supernodes_events_compare);
    memcpy(supernodes->before, supernodes->now, supernodes->now_count * sizeof(*supernodes->now));
    supernodes->before_count = supernodes->now_count;
}
