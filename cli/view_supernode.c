/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/err.h"
#include "cli/view.h"

/* Supernode objects, which are kept as a whole. */

/* Room for one more. */
static bool view_supernode_make_room(struct cli_view *view)
{
    uint32_t count = view->picture.supernode_count;
    struct cli_view_supernode *grown = cli_view_grown(view, view->supernodes, count, sizeof(*grown));
    struct gt_picture_supernode *shown =
        cli_view_grown(view, view->picture.supernodes, count, sizeof(*shown));
    view->supernodes = grown ? grown : view->supernodes;
    view->picture.supernodes = shown ? shown : view->picture.supernodes;
    return grown && shown;
}

void cli_view_add_supernode(void *arg, cJSON *json)
{
    struct cli_view *view = arg;
    gt_auto_err struct gt_err *err = NULL;
    if (!*gt_meta_name(json) || view->failed || !view_supernode_make_room(view))
        return;
    struct cli_view_supernode added = {.json = cJSON_Duplicate(json, true)};
    struct gt_supernode_object *object = &added.object;
    int r = added.json ? gt_supernode_object_read(added.json, object, &err)
                       : gt_fail_sys(&err, ENOMEM, "cluster");
    view->failed |= !added.json;
    if (r >= 0 && !object->tier)
        r = gt_fail(&err, EINVAL, GT_PLURAL_SUPERNODE "/%s: status.tier: is missing", object->name);
    if (r < 0) {
        cli_view_problem(view, "%s; this supernode is left out", gt_err_text(err));
        view->supernode_problems = view->problem_count;
        gt_supernode_object_done(object);
        cJSON_Delete(added.json);
        return;
    }
    const struct gt_condition *conflict = &object->conditions[GT_SUPERNODE_CONFLICT];
    uint32_t place = view->picture.supernode_count++;
    view->supernodes[place] = added;
    view->picture.supernodes[place] = (struct gt_picture_supernode){
        .name = object->name,
        .note = conflict->status != GT_CONDITION_TRUE ? ""
                : *conflict->message                  ? conflict->message
                                                      : conflict->reason,
        .tier = object->tier,
        .links_down = object->links_healthy == GT_CONDITION_FALSE,
        .parent = GT_NONE,
        .source = place,
    };
}
