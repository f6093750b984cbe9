/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/placement/reconcile.h"

/*
 * kube-scheduler says "0/8 nodes are available: 1 node(s) didn't have free ports for the requested pod ports,
 * 7 node(s) didn't match Pod's node affinity/selector. preemption: ...". The plan allows one node, so what is
 * said of others is the affinity that we have written. Words of other schedulers are taken as they are.
 */

static bool is_ours(const char *part, size_t len)
{
    static const char *const ours[] = {"node affinity/selector", "NodeAffinity", "affinity selector"};
    for (unsigned i = 0; i < GT_COUNT(ours); i++)
        if (memmem(part, len, ours[i], strlen(ours[i])))
            return true;
    return false;
}

/* Without the digits before it, which change from node to node. */
static void add_cause(const char *part, size_t len, struct gt_buf *to)
{
    size_t skip = strspn(part, "0123456789 ");
    skip = skip < len ? skip : len;
    if (is_ours(part, len) || skip == len)
        return;
    if (to->len)
        gt_buf_puts(to, ", ");
    gt_buf_add(to, part + skip, len - skip);
}

void gt_refusal_rule(const char *said, char *to, size_t size)
{
    static const char begin[] = "nodes are available: ";
    gt_auto_buf struct gt_buf rule = GT_BUF(1024);
    const char *at = said ? strstr(said, begin) : NULL;
    to[0] = '\0';
    if (!said)
        return;
    const char *end = at ? strstr(at, ". ") : NULL;
    for (at = at ? at + strlen(begin) : NULL; at && *at;) {
        size_t left = end ? (size_t)(end - at) : strlen(at);
        const char *comma = memmem(at, left, ", ", 2);
        size_t len = comma ? (size_t)(comma - at) : left;
        add_cause(at, !comma && !end && len && at[len - 1] == '.' ? len - 1 : len, &rule);
        at = comma ? comma + 2 : NULL;
    }
    if (!rule.len)
        add_cause(said, strlen(said), &rule);
    if (rule.len)
        snprintf(to, size, "%s", rule.data);
}
