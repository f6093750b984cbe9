/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* What a view holds, and how it goes. */

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology)
{
    *view = (struct cli_view){.now = now, .keep_topology = keep_topology};
}

static void free_node(struct cli_node *node)
{
    free(node->name);
    free(node->product);
    free(node->trouble);
    free(node->topology);
}

void cli_view_clear_nodes(struct cli_view *view)
{
    for (uint32_t i = 0; i < view->node_count; i++)
        free_node(&view->nodes[i]);
    for (uint32_t i = 0; i < view->pod_count; i++)
        free(view->pods[i].name);
    for (uint32_t i = 0; i < view->wiring_count; i++)
        free(view->wirings[i].weights);
    while (view->problem_count > view->supernode_problems)
        free(view->problems[--view->problem_count]);
    view->node_count = view->pod_count = view->wiring_count = 0;
    view->topology_bytes = view->topology_values = 0;
    view->shorthand = false;
}

void cli_view_clear_supernodes(struct cli_view *view)
{
    for (uint32_t i = 0; i < view->supernode_count; i++) {
        struct cli_supernode *supernode = &view->supernodes[i];
        free(supernode->name);
        free(supernode->parent_name);
        free(supernode->trouble);
        for (uint32_t k = 0; k < supernode->member_count; k++)
            free(supernode->members[k]);
        free(supernode->members);
    }
    while (view->problem_count > 0)
        free(view->problems[--view->problem_count]);
    view->supernode_count = view->supernode_problems = 0;
}

void cli_view_done(struct cli_view *view)
{
    cli_view_clear_nodes(view);
    cli_view_clear_supernodes(view);
    for (uint32_t i = 0; i < view->group_count; i++)
        free(view->groups[i].name);
    free(view->nodes);
    free(view->supernodes);
    free(view->pods);
    free(view->groups);
    free(view->problems);
    free(view->wirings);
    *view = (struct cli_view){0};
}

void cli_view_problem(struct cli_view *view, const char *format, ...)
{
    if (view->problem_count == view->problem_room) {
        uint32_t room = view->problem_room ? 2 * view->problem_room : 16;
        char **grown = room > CLI_VIEW_MAX ? NULL : reallocarray(view->problems, room, sizeof(*grown));
        if (!grown) {
            view->failed = true;
            return;
        }
        view->problems = grown;
        view->problem_room = room;
    }
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    char *copy = strdup(text);
    if (copy)
        view->problems[view->problem_count++] = copy;
    else
        view->failed = true;
}

void cli_view_label(const struct cli_view *view, const struct cli_node *node, unsigned characters, char *to,
                    size_t size)
{
    size_t len = strlen(node->name) - view->domain, most = characters ? characters : len;
    if (len <= most || most < 8) {
        snprintf(to, size, "%.*s", (int)len, node->name);
        return;
    }
    size_t head = (most - 1) / 2, tail = most - 1 - head;
    snprintf(to, size, "%.*s\xe2\x80\xa6%.*s", (int)head, node->name, (int)tail, node->name + len - tail);
}

void cli_age_text(int64_t seconds, char *to, size_t size)
{
    static const struct {
        int64_t above, unit;
        const char *name;
    } units[] = {{2 * 86400, 86400, "d"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}, {INT64_MIN, 1, "s"}};
    unsigned i = 0;
    while (seconds < units[i].above)
        i++;
    snprintf(to, size, "%lld %s ago", (long long)(seconds < 0 ? 0 : seconds / units[i].unit), units[i].name);
}
