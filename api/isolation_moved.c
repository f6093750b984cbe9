/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "api/isolation.h"
#include "api/node_gpu_topology.h"
#include "base/err.h"
#include "base/json.h"
#include "base/text.h"
#include "base/time_text.h"

/*
 * Isolations by UUID of GPUs that are in another node now. An entry is first in both lists, and leaves that
 * of the old node only once the agent of the new one obeys it.
 */

enum { UUID_LENGTH_MIN = 8 };

static bool isolated_is_uuid(const char *name)
{
    char bdf[GT_BDF_SIZE];
    return name && strlen(name) >= UUID_LENGTH_MIN && strlen(name) < GT_ID_SIZE &&
           strncasecmp(name, "PCI-", strlen("PCI-")) != 0 && !gt_bdf_normalise(name, bdf);
}

unsigned gt_isolated_uuids(const cJSON *entry, const char *ret[static 2])
{
    const cJSON *link = gt_get(entry, "link");
    ret[0] = link ? cJSON_GetStringValue(cJSON_GetArrayItem(link, 0)) : gt_get_string(entry, "gpu");
    ret[1] = cJSON_GetStringValue(cJSON_GetArrayItem(link, 1));
    return !isolated_is_uuid(ret[0]) || (link && !isolated_is_uuid(ret[1])) ? 0 : link ? 2 : 1;
}

bool gt_isolated_is_over(const cJSON *entry, int64_t now_s)
{
    int64_t until_s = gt_time_of_text(gt_get_string(entry, "until"));
    return until_s && until_s <= now_s;
}

bool gt_isolated_same_gpus(const cJSON *a, const cJSON *b)
{
    const char *x[2], *y[2];
    unsigned count = gt_isolated_uuids(a, x);
    if (!count || count != gt_isolated_uuids(b, y))
        return false;
    if (count == 1)
        return strcasecmp(x[0], y[0]) == 0;
    return (strcasecmp(x[0], y[0]) == 0 && strcasecmp(x[1], y[1]) == 0) ||
           (strcasecmp(x[0], y[1]) == 0 && strcasecmp(x[1], y[0]) == 0);
}

/* ---- what moves ---- */

static unsigned isolated_count_in(const struct gt_node *node, const char *const uuids[], unsigned count)
{
    unsigned found = 0;
    for (unsigned i = 0; node && i < count; i++)
        found += gt_node_gpu_named(node, uuids[i]) >= 0;
    return found;
}

static bool isolated_is_obeyed(const struct gt_node *node, const cJSON *entry, const char *const uuids[],
                               unsigned count)
{
    unsigned gpu = (unsigned)gt_node_gpu_named(node, uuids[0]);
    enum gt_gpu_grade grade;
    if (count == 2) {
        const struct gt_link *link = gt_node_link(node, gpu, (unsigned)gt_node_gpu_named(node, uuids[1]));
        return !link || link->kind != GT_LINK_MX || gt_link_is_down(link);
    }
    return !gt_gpu_usable(&node->gpus[gpu]) || (gt_gpu_grade_by_name(gt_get_string(entry, "grade"), &grade) &&
                                                node->gpus[gpu].grade != GT_GRADE_NONE);
}

static cJSON *isolated_find(const cJSON *list, const cJSON *entry)
{
    cJSON *other = list ? list->child : NULL;
    while (other && !cJSON_Compare(other, entry, true))
        other = other->next;
    return other;
}

/* The copy of it; or a later word on the same GPUs, which replaces it. NULL: there is none. */
static const cJSON *isolated_counterpart(const cJSON *list, const cJSON *entry)
{
    int64_t since_s = gt_time_of_text(gt_get_string(entry, "since"));
    const cJSON *other = list->child;
    while (other && !cJSON_Compare(other, entry, true) &&
           !(since_s && gt_isolated_same_gpus(other, entry) &&
             gt_time_of_text(gt_get_string(other, "since")) > since_s))
        other = other->next;
    return other;
}

static bool isolated_append(cJSON *list, const cJSON *entry)
{
    return gt_json_attach(list, NULL, cJSON_Duplicate(entry, true));
}

/* A copy of the list, empty where there is none; NULL without memory. */
static cJSON *isolated_copy(const cJSON *list)
{
    return cJSON_IsArray(list) ? cJSON_Duplicate(list, true) : cJSON_CreateArray();
}

void gt_isolated_move_done(struct gt_isolated_move *move)
{
    cJSON_Delete(move->added);
    cJSON_Delete(move->to);
    cJSON_Delete(move->from);
    *move = (struct gt_isolated_move){0};
}

/* False without memory. */
static bool isolated_move_entry(const struct gt_isolated_moving *moving, const struct gt_node *from,
                                const struct gt_node *to, const cJSON *entry, struct gt_isolated_move *move)
{
    const char *uuids[2];
    unsigned count = gt_isolated_uuids(entry, uuids);
    if (!count || isolated_count_in(to, uuids, count) < count || gt_isolated_is_over(entry, moving->now_s))
        return isolated_append(move->from, entry);
    bool is_gone = !isolated_count_in(from, uuids, count);
    const cJSON *there = isolated_counterpart(move->to, entry);
    if (there && is_gone && isolated_is_obeyed(to, there, uuids, count)) {
        move->leaves = true;
        return true;
    }
    if (!isolated_append(move->from, entry))
        return false;
    if (there || !(is_gone || moving->from_is_silent))
        return true;
    if (cJSON_GetArraySize(move->to) >= GT_ISOLATIONS_MAX) {
        move->is_full = true;
        return true;
    }
    return isolated_append(move->to, entry) && isolated_append(move->added, entry);
}

int gt_isolated_move_make(const struct gt_isolated_moving *moving, struct gt_isolated_move *ret,
                          struct gt_err **err)
{
    gt_auto_node_gpu_topology struct gt_node_gpu_topology from = {0}, to = {0};
    gt_auto_isolated_move struct gt_isolated_move made = {.to =
                                                              isolated_copy(gt_isolated_entries(moving->to)),
                                                          .from = cJSON_CreateArray(),
                                                          .added = cJSON_CreateArray()};
    bool whole = made.to && made.from && made.added;
    GT_TRY(gt_node_gpu_topology_read_wiring(moving->from, &from, err));
    GT_TRY(gt_node_gpu_topology_read_wiring(moving->to, &to, err));
    for (const cJSON *entry = gt_first(gt_isolated_entries(moving->from)); entry; entry = entry->next) {
        whole = whole && isolated_move_entry(moving, from.node, to.node, entry, &made);
    }
    if (!whole)
        return gt_fail(err, ENOMEM, "no memory for what is isolated");
    *ret = made;
    made = (struct gt_isolated_move){0};
    return 0;
}

cJSON *gt_isolated_take_back(const cJSON *from, const cJSON *to, const cJSON *added)
{
    gt_auto_json cJSON *list = isolated_copy(gt_isolated_entries(to));
    const cJSON *left = gt_isolated_entries(from);
    bool changed = false;
    for (const cJSON *entry = gt_first(added); entry; entry = entry->next) {
        if (!left || isolated_find(left, entry))
            continue;
        for (cJSON *copy; (copy = isolated_find(list, entry)); changed = true)
            cJSON_Delete(cJSON_DetachItemViaPointer(list, copy));
    }
    return changed ? gt_steal(list) : NULL;
}
