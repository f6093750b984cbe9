/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "scheduler-ext/supernodes/join_internal.h"

void gt_join_tell(struct join_work *work, enum gt_join_problem_kind kind, struct join_about about,
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

uint32_t gt_join_make(struct join_work *work, const char *name, unsigned tier, enum gt_join_source source)
{
    struct gt_join *join = work->join;
    uint32_t id = join->supernode_count++;
    struct gt_supernode *s = &join->supernodes[id];
    *s = (struct gt_supernode){.tier = tier, .parent = GT_JOIN_NONE, .source = source};
    snprintf(s->name, sizeof(s->name), "%s", name);
    return id;
}
