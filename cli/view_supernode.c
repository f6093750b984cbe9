/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "api/supernode.h"
#include "cli/view.h"
#include "kube/status.h"
#include "topology/model/node_json_get.h"

/* From a Supernode to what stays of it. */

enum { SUPERNODE_TROUBLE_MAX = 300 };

static void supernode_done(struct cli_supernode *supernode)
{
    free(supernode->name);
    free(supernode->parent_name);
    free(supernode->trouble);
    for (uint32_t i = 0; i < supernode->member_count; i++)
        free(supernode->members[i]);
    free(supernode->members);
}

static uint32_t count_of(int64_t told)
{
    return told < 0 ? CLI_NONE : (uint32_t)told;
}

/* False without memory. */
static bool fill(const struct gt_supernode_object *object, struct cli_supernode *supernode)
{
    const struct gt_condition *conflict = &object->conditions[GT_SUPERNODE_CONFLICT];
    char text[SUPERNODE_TROUBLE_MAX] = "";
    if (conflict->status == GT_CONDITION_TRUE)
        snprintf(text, sizeof(text), "%s", *conflict->message ? conflict->message : conflict->reason);
    supernode->tier = object->tier;
    snprintf(supernode->source, sizeof(supernode->source), "%s", object->source);
    supernode->links =
        object->links_healthy == GT_CONDITION_UNKNOWN ? -1 : object->links_healthy == GT_CONDITION_TRUE;
    supernode->told_nodes = count_of(object->nodes);
    supernode->told_gpus = count_of(object->capacity);
    supernode->told_free = count_of(object->free);
    supernode->name = strdup(object->name);
    supernode->parent_name = strdup(object->parent);
    supernode->trouble = strdup(text);
    supernode->members = calloc((size_t)object->member_count + 1, sizeof(*supernode->members));
    if (!supernode->name || !supernode->parent_name || !supernode->trouble || !supernode->members)
        return false;
    for (unsigned i = 0; i < object->member_count; i++) {
        supernode->members[i] = strdup(object->members[i].node);
        if (!supernode->members[i])
            return false;
        supernode->member_count++;
    }
    return true;
}

void cli_view_add_supernode(struct cli_view *view, const cJSON *json)
{
    gt_auto_supernode_object struct gt_supernode_object object = {0};
    gt_auto_err struct gt_err *err = NULL;
    if (!*gt_kube_meta(json, "name") || view->failed)
        return;
    if (view->supernode_count == view->supernode_room) {
        uint32_t room = view->supernode_room ? 2 * view->supernode_room : 16;
        struct cli_supernode *grown =
            room > CLI_VIEW_MAX ? NULL : reallocarray(view->supernodes, room, sizeof(*grown));
        if (!grown) {
            view->failed = true;
            return;
        }
        view->supernodes = grown;
        view->supernode_room = room;
    }
    int r = gt_supernode_object_read(json, &object, &err);
    if (r >= 0 && !object.tier)
        r = gt_fail(&err, EINVAL, GT_PLURAL_SUPERNODE "/%s: status.tier: is missing", object.name);
    if (r < 0) {
        cli_view_problem(view, "%s; this supernode is left out", gt_err_text(err));
        view->supernode_problems = view->problem_count;
        return;
    }
    struct cli_supernode supernode = {.parent = CLI_NONE};
    if (fill(&object, &supernode)) {
        view->supernodes[view->supernode_count++] = supernode;
        return;
    }
    supernode_done(&supernode);
    view->failed = true;
}
