/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/view.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The contents of a view. */

void cli_view_init(struct cli_view *view, int64_t now, bool keep_topology)
{
    *view = (struct cli_view){.picture.now = now, .keep_topology = keep_topology};
}

void cli_view_clear_nodes(void *arg)
{
    struct cli_view *view = arg;
    for (uint32_t i = 0; i < view->picture.node_count; i++)
        free(view->nodes[i].topology);
    while (view->problem_count > view->supernode_problems)
        free(view->problems[--view->problem_count]);
    view->picture.node_count = view->picture.pod_count = view->wiring_count = 0;
    view->topology_bytes = view->topology_values = 0;
    view->shorthand = false;
}

void cli_view_clear_supernodes(void *arg)
{
    struct cli_view *view = arg;
    for (uint32_t i = 0; i < view->picture.supernode_count; i++) {
        gt_supernode_object_done(&view->supernodes[i].object);
        cJSON_Delete(view->supernodes[i].json);
    }
    while (view->problem_count > 0)
        free(view->problems[--view->problem_count]);
    view->picture.supernode_count = view->supernode_problems = 0;
}

void cli_view_done(struct cli_view *view)
{
    cli_view_clear_nodes(view);
    cli_view_clear_supernodes(view);
    for (uint32_t i = 0; i < view->text_count; i++)
        free(view->texts[i]);
    void *const arrays[] = {
        view->picture.nodes, view->picture.supernodes, view->picture.pods, view->picture.jobs, view->nodes,
        view->supernodes,    view->problems,           view->wirings,      view->texts};
    for (size_t i = 0; i < GT_COUNT(arrays); i++)
        free(arrays[i]);
    *view = (struct cli_view){0};
}

void *cli_view_grown(struct cli_view *view, void *array, uint32_t count, size_t size)
{
    if (count & (count - 1)) /* the capacity doubles at powers of two */
        return array;
    void *grown = count >= CLI_VIEW_MAX ? NULL : reallocarray(array, count ? 2 * (size_t)count : 1, size);
    view->failed |= !grown;
    return grown;
}

bool cli_view_append(struct cli_view *view, const struct gt_picture_node *node, struct cli_view_node *more)
{
    uint32_t count = view->picture.node_count;
    struct gt_picture_node *shown = cli_view_grown(view, view->picture.nodes, count, sizeof(*shown));
    struct cli_view_node *grown = cli_view_grown(view, view->nodes, count, sizeof(*grown));
    view->picture.nodes = shown ? shown : view->picture.nodes;
    view->nodes = grown ? grown : view->nodes;
    if (!shown || !grown) {
        free(more->topology);
        return false;
    }
    shown[count] = *node;
    shown[count].source = count;
    grown[count] = *more;
    view->picture.node_count++;
    return true;
}

static bool cli_view_keep_text(struct cli_view *view, char ***texts, uint32_t *count, const char *text)
{
    char **grown = cli_view_grown(view, *texts, *count, sizeof(*grown)), *copy = grown ? strdup(text) : NULL;
    if (grown)
        *texts = grown;
    if (copy)
        grown[(*count)++] = copy;
    view->failed |= !copy;
    return copy;
}

const char *cli_view_keep(struct cli_view *view, const char *text)
{
    return cli_view_keep_text(view, &view->texts, &view->text_count, text) ? view->texts[view->text_count - 1]
                                                                           : "";
}

void cli_view_problem(struct cli_view *view, const char *format, ...)
{
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);
    cli_view_keep_text(view, &view->problems, &view->problem_count, text);
}
