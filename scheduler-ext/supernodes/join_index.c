/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>

#include "scheduler-ext/supernodes/join_work.h"

void gt_join_problem(struct gt_join_work *work, enum gt_join_problem_kind kind, struct gt_join_about about,
                     const char *format, ...)
{
    struct gt_join *join = work->join;
    if (join->problem_count == GT_JOIN_PROBLEMS_MAX)
        return;
    struct gt_join_problem *p = &join->problems[join->problem_count++];
    va_list args;
    p->kind = kind;
    p->supernode = about.supernode;
    p->node = about.node;
    p->other = about.other;
    p->in_config = about.in_config;
    va_start(args, format);
    vsnprintf(p->text, sizeof(p->text), format, args);
    va_end(args);
}

uint32_t gt_join_add(struct gt_join_work *work, const char *name, unsigned tier, enum gt_join_source source)
{
    struct gt_join *join = work->join;
    uint32_t id = join->supernode_count++;
    struct gt_supernode *s = &join->supernodes[id];
    *s = (struct gt_supernode){.tier = tier, .parent = GT_JOIN_NONE, .source = source};
    snprintf(s->name, sizeof(s->name), "%s", name);
    return id;
}

static int compare_node_names(const void *a, const void *b, void *arg)
{
    const struct gt_join_node *nodes = arg;
    return strcmp(nodes[*(const uint32_t *)a].name, nodes[*(const uint32_t *)b].name);
}

static int join_index_compare_uuids(const void *a, const void *b, void *arg)
{
    const struct gt_join_node *nodes = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(nodes[x].server_uuid, nodes[y].server_uuid);
    if (order == 0)
        order = gt_join_holds_uuid(&nodes[y]) - gt_join_holds_uuid(&nodes[x]);
    return order ? order : (x > y) - (x < y);
}

static int compare_group_names(const void *a, const void *b, void *arg)
{
    const struct gt_join_group *groups = arg;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    int order = strcmp(groups[x].name, groups[y].name);
    return order ? order : (x > y) - (x < y);
}

uint32_t gt_join_lower_bound(const struct gt_join_work *work, const uint32_t *index, uint32_t count,
                             const char *text, gt_join_text *text_of)
{
    uint32_t low = 0, high = count;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (strcmp(text_of(work, index[middle]), text) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const char *gt_join_node_name(const struct gt_join_work *work, uint32_t item)
{
    return work->nodes[item].name;
}

const char *gt_join_node_uuid(const struct gt_join_work *work, uint32_t item)
{
    return work->nodes[item].server_uuid;
}

const char *gt_join_group_name(const struct gt_join_work *work, uint32_t item)
{
    return work->groups[item].name;
}

uint32_t gt_join_find(const struct gt_join_work *work, const uint32_t *index, uint32_t count,
                      const char *text, gt_join_text *text_of)
{
    uint32_t at = gt_join_lower_bound(work, index, count, text, text_of);
    return at < count && strcmp(text_of(work, index[at]), text) == 0 ? index[at] : GT_JOIN_NONE;
}

void gt_join_index(struct gt_join_work *work)
{
    void *nodes = (void *)(uintptr_t)work->nodes, *groups = (void *)(uintptr_t)work->groups;
    for (uint32_t i = 0; i < work->node_count; i++) {
        work->by_name[i] = i;
        if (gt_join_has_text(work->nodes[i].server_uuid))
            work->by_uuid[work->uuid_count++] = i;
    }
    for (uint32_t i = 0; i < work->group_count; i++)
        work->groups_by_name[i] = i;
    qsort_r(work->by_name, work->node_count, sizeof(uint32_t), compare_node_names, nodes);
    qsort_r(work->by_uuid, work->uuid_count, sizeof(uint32_t), join_index_compare_uuids, nodes);
    qsort_r(work->groups_by_name, work->group_count, sizeof(uint32_t), compare_group_names, groups);
}
