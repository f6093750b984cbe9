/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "cli/view.h"
#include "kube/status.h"
#include "scheduler-ext/core/cluster.h"
#include "topology/model/node_json_get.h"

/* From a Supernode to what stays of it. */

enum { NAME_SIZE = 254, TROUBLE_MAX = 300 };

static void supernode_done(struct cli_supernode *supernode)
{
    free(supernode->name);
    free(supernode->parent_name);
    free(supernode->trouble);
    for (uint32_t i = 0; i < supernode->member_count; i++)
        free(supernode->members[i]);
    free(supernode->members);
}

static int read_members(const struct gt_at *at, const cJSON *status, struct cli_supernode *supernode)
{
    const cJSON *members;
    unsigned count;
    int r = gt_get_array(at, status, "members", CLI_VIEW_MAX, &members, &count);
    if (r < 0)
        return r;
    supernode->members = calloc((size_t)count + 1, sizeof(*supernode->members));
    if (!supernode->members)
        return gt_fail_sys(at->err, ENOMEM, "supernodes");
    unsigned i = 0;
    for (const cJSON *item = members ? members->child : NULL; item; item = item->next, i++) {
        char path[32], name[NAME_SIZE] = "";
        snprintf(path, sizeof(path), "members[%u]", i);
        struct gt_at below = {at->source, path, at->err};
        if (!cJSON_IsObject(item))
            return gt_at_fail(&below, "", "expected an object, is %s", gt_json_type(item));
        r = gt_get_text(&below, item, "node", name, sizeof(name));
        if (r < 0)
            return r;
        if (!name[0])
            return gt_at_fail(&below, "node", "is missing");
        supernode->members[i] = strdup(name);
        if (!supernode->members[i])
            return gt_fail_sys(at->err, ENOMEM, "supernodes");
        supernode->member_count++;
    }
    return 0;
}

/* The message of the condition Conflict where that is True. */
static char *conflict_of(const cJSON *status)
{
    const cJSON *conditions = gt_get(status, "conditions"), *condition;
    char text[TROUBLE_MAX] = "";
    cJSON_ArrayForEach(condition, conditions)
    {
        if (strcmp(gt_get_string(condition, "type"), "Conflict") != 0 ||
            strcmp(gt_get_string(condition, "status"), "True") != 0)
            continue;
        const char *message = gt_get_string(condition, "message");
        snprintf(text, sizeof(text), "%s", *message ? message : gt_get_string(condition, "reason"));
    }
    return strdup(text);
}

static int read_status(const struct gt_at *at, const cJSON *status, struct cli_supernode *supernode)
{
    char parent[NAME_SIZE] = "";
    bool links = false;
    supernode->tier = 0;
    int r = gt_get_unsigned(at, status, "tier", GT_TIERS_MAX, &supernode->tier);
    if (r >= 0 && !supernode->tier)
        r = gt_at_fail(at, "tier", "expected 1 (best performance) to %d", GT_TIERS_MAX);
    if (r >= 0)
        r = gt_get_text(at, status, "parent", parent, sizeof(parent));
    if (r >= 0)
        r = gt_get_text(at, status, "source", supernode->source, sizeof(supernode->source));
    if (r >= 0)
        r = gt_get_bool(at, status, "linksHealthy", &links);
    if (r >= 0)
        r = gt_get_unsigned(at, status, "nodes", CLI_NONE - 1, &supernode->told_nodes);
    if (r >= 0)
        r = gt_get_unsigned(at, status, "capacity", CLI_NONE - 1, &supernode->told_gpus);
    if (r >= 0)
        r = gt_get_unsigned(at, status, "free", CLI_NONE - 1, &supernode->told_free);
    if (r >= 0)
        r = read_members(at, status, supernode);
    if (r < 0)
        return r;
    supernode->links = gt_get(status, "linksHealthy") ? links : -1;
    supernode->trouble = conflict_of(status);
    supernode->parent_name = strdup(parent);
    return supernode->trouble && supernode->parent_name ? 0 : gt_fail_sys(at->err, ENOMEM, "supernodes");
}

void cli_view_add_supernode(struct cli_view *view, const cJSON *object)
{
    const char *name = gt_kube_meta(object, "name");
    const cJSON *status = gt_get(object, "status");
    if (!*name || view->failed)
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
    char source[320];
    snprintf(source, sizeof(source), "supernodes/%s", name);
    gt_auto_err struct gt_err *err = NULL;
    struct gt_at at = {source, "", &err};
    struct cli_supernode supernode = {.name = strdup(name),
                                      .parent = CLI_NONE,
                                      .links = -1,
                                      .told_nodes = CLI_NONE,
                                      .told_gpus = CLI_NONE,
                                      .told_free = CLI_NONE};
    int r = 0;
    if (!cJSON_IsObject(status))
        r = gt_at_fail(&at, "status", "is missing");
    if (r >= 0)
        r = read_status(&at, status, &supernode);
    if (r >= 0 && supernode.name) {
        view->supernodes[view->supernode_count++] = supernode;
        return;
    }
    view->failed |= r == -ENOMEM || !supernode.name;
    supernode_done(&supernode);
    cli_view_problem(view, "%s; this supernode is left out", gt_err_text(err));
    view->supernode_problems = view->problem_count;
}
