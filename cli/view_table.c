/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/bits.h"
#include "base/err.h"
#include "base/text.h"
#include "cli/view.h"
#include "topology/model/render.h"

/* A view as tables for a terminal. */

enum {
    NAME_MAX_SHOWN = 40,
    WHO_MAX = 400,
    WHO_LEAST = 16,
    TROUBLE_SHARE = 3, /* at most a third of the line */
};

enum text_style { STYLE_PLAIN, STYLE_GOOD, STYLE_BUSY, STYLE_BAD, STYLE_STRONG, STYLE_MUTED };

static void style(struct gt_buf *to, const struct cli_screen *screen, enum text_style style)
{
    static const char *const codes[] = {"0", "32", "34", "31", "1", "2"};
    if (screen->color)
        gt_buf_printf(to, "\033[%sm", codes[style]);
}

/* Appends a text in a column: shortened to `width` characters (0: not), and padded unless it is the last
 * column. */
static void add_cell(struct gt_buf *to, const struct cli_screen *screen, enum text_style color,
                     const char *text, unsigned width, bool last)
{
    char shown[512];
    if (width && gt_text_characters(text) > width) {
        gt_shorten(text, width, shown, sizeof(shown));
        text = shown;
    }
    if (color != STYLE_PLAIN && *text)
        style(to, screen, color);
    gt_buf_puts(to, text);
    if (color != STYLE_PLAIN && *text)
        style(to, screen, STYLE_PLAIN);
    unsigned taken = gt_text_characters(text);
    if (!last)
        gt_buf_printf(to, "%*s", (int)(width > taken ? width - taken : 0) + 2, "");
}

/* ---- the GPUs of a node, a symbol each ---- */

static enum text_style style_of(enum gt_picture_state state)
{
    static const enum text_style tones[GT_PICTURE_STATES] = {[GT_PICTURE_FREE] = STYLE_GOOD,
                                                             [GT_PICTURE_NOT_KNOWN] = STYLE_MUTED,
                                                             [GT_PICTURE_USED] = STYLE_BUSY,
                                                             [GT_PICTURE_USED_BY_OTHERS] = STYLE_BUSY,
                                                             [GT_PICTURE_ASSUMED] = STYLE_MUTED,
                                                             [GT_PICTURE_UNHEALTHY] = STYLE_BAD,
                                                             [GT_PICTURE_UNHEALTHY_AND_USED] = STYLE_BAD,
                                                             [GT_PICTURE_UNKNOWN] = STYLE_MUTED};
    return tones[state];
}

static void view_table_add_gpus(struct gt_buf *to, const struct cli_screen *screen,
                                const struct gt_picture_node *node, unsigned width)
{
    enum text_style before = STYLE_PLAIN;
    for (unsigned i = 0; i < node->gpus; i++) {
        enum gt_picture_state state = gt_picture_gpu(node, i, NULL);
        if (style_of(state) != before)
            style(to, screen, style_of(state));
        before = style_of(state);
        gt_buf_add(to, &gt_picture_styles[state].symbol, 1);
    }
    if (!node->gpus)
        gt_buf_puts(to, "-");
    style(to, screen, STYLE_PLAIN);
    unsigned taken = node->gpus ? node->gpus : 1;
    gt_buf_printf(to, "%*s", (int)(width > taken ? width - taken : 0) + 2, "");
}

/* "team-a/train 4, team-b/serve 2": the jobs, in the order of their pods on the node. */
static void write_users(const struct gt_picture_node *node, struct gt_buf *to)
{
    const struct gt_picture_pod *pods = node->pods;
    for (uint32_t i = 0; i < node->pod_count; i++) {
        unsigned gpus = 0;
        bool reported = false;
        for (uint32_t k = 0; k < node->pod_count; k++)
            if (pods[k].job_number == pods[i].job_number) {
                reported |= k < i;
                gpus += gt_bit_count(pods[k].place.mask);
            }
        if (!reported && to->len + strlen(pods[i].job) + 16 < to->max)
            gt_buf_printf(to, "%s%s %u", to->len ? ", " : "", pods[i].job, gpus);
    }
}

/* ---- the table of nodes ---- */

struct columns {
    unsigned name, gpus, who, problems;
};

static void view_table_fit(const struct gt_picture *picture, const struct cli_screen *screen,
                           struct columns *ret)
{
    *ret = (struct columns){.name = 4, .gpus = 4, .who = 7};
    for (uint32_t i = 0; i < picture->node_count; i++) {
        const struct gt_picture_node *node = &picture->nodes[i];
        gt_auto_buf struct gt_buf who = GT_BUF(WHO_MAX);
        write_users(node, &who);
        char label[512];
        gt_picture_label(picture, node, NAME_MAX_SHOWN, label, sizeof(label));
        unsigned name = gt_text_characters(label), used = gt_text_characters(who.data ? who.data : "");
        unsigned problems = gt_text_characters(node->note);
        ret->name = name > ret->name ? name : ret->name;
        ret->gpus = node->gpus > ret->gpus ? node->gpus : ret->gpus;
        ret->who = used > ret->who ? used : ret->who;
        ret->problems = problems > ret->problems ? problems : ret->problems;
    }
    if (!screen->width)
        return;
    unsigned taken = 2 + ret->name + 2 + ret->gpus + 2 + 4 + 2;
    unsigned left = screen->width > taken + WHO_LEAST + 2 ? screen->width - taken : WHO_LEAST + 2;
    if (ret->problems) {
        unsigned most =
            left > screen->width / TROUBLE_SHARE + WHO_LEAST ? screen->width / TROUBLE_SHARE : left / 2;
        if (ret->who + 2 + ret->problems > left && ret->problems > most)
            ret->problems = ret->who + 2 + most < left ? left - ret->who - 2 : most;
        left -= ret->problems + 2 < left ? ret->problems + 2 : 0;
    }
    ret->who = ret->who < left ? ret->who : left;
}

static void add_header(struct gt_buf *to, const struct cli_screen *screen, const struct columns *columns)
{
    style(to, screen, STYLE_MUTED);
    gt_buf_printf(to, "  %-*s  %-*s  FREE  %-*s%s\n", (int)columns->name, "NODE", (int)columns->gpus, "GPUS",
                  columns->problems ? (int)columns->who + 2 : 0, "USED BY",
                  columns->problems ? "CONDITIONS" : "");
    style(to, screen, STYLE_PLAIN);
}

static void view_table_add_node(const struct gt_picture *picture, const struct gt_picture_node *node,
                                const struct cli_screen *screen, const struct columns *columns,
                                struct gt_buf *to)
{
    gt_auto_buf struct gt_buf who = GT_BUF(WHO_MAX);
    write_users(node, &who);
    gt_buf_puts(to, "  ");
    char label[512];
    gt_picture_label(picture, node, NAME_MAX_SHOWN, label, sizeof(label));
    add_cell(to, screen, STYLE_PLAIN, label, columns->name, false);
    view_table_add_gpus(to, screen, node, columns->gpus);
    if (node->use_known)
        gt_buf_printf(to, "%4u  ", gt_bit_count(node->free));
    else
        gt_buf_printf(to, "%4s  ", node->known ? "?" : "-");
    const char *by = who.data ? who.data : node->use_known ? "-" : "";
    bool last = !node->note[0];
    add_cell(to, screen, who.data ? STYLE_PLAIN : STYLE_MUTED, by, columns->who, last);
    if (!last)
        add_cell(to, screen, STYLE_BAD, node->note, columns->problems, true);
    while (to->len && to->data[to->len - 1] == ' ') /* nothing stood in the last columns */
        gt_buf_truncate(to, to->len - 1);
    gt_buf_puts(to, "\n");
}

/* ---- headings ---- */

static void view_table_write_counts(struct gt_buf *to, const struct gt_picture_counts *counts)
{
    gt_buf_printf(to, "%u GPU%s: %u free", counts->gpus, gt_plural(counts->gpus), counts->free);
    if (counts->free_unknown)
        gt_buf_printf(to, " (%u of unknown health)", counts->free_unknown);
    gt_buf_printf(to, ", %u used", counts->used);
    if (counts->unhealthy)
        gt_buf_printf(to, ", %u unhealthy", counts->unhealthy);
    uint32_t rest = counts->gpus - counts->free - counts->used - counts->unhealthy;
    if (rest)
        gt_buf_printf(to, ", %u not known", rest);
}

static void add_heading(const struct gt_picture *picture, const struct gt_picture_supernode *supernode,
                        const struct cli_screen *screen, struct gt_buf *to)
{
    gt_buf_puts(to, "\n");
    style(to, screen, STYLE_STRONG);
    gt_buf_puts(to, supernode->name);
    style(to, screen, STYLE_PLAIN);
    gt_buf_printf(to, "  tier %u", supernode->tier);
    if (supernode->parent != GT_NONE)
        gt_buf_printf(to, " in %s", picture->supernodes[supernode->parent].name);
    gt_buf_printf(to, ", %u node%s, ", supernode->counts.nodes, gt_plural(supernode->counts.nodes));
    view_table_write_counts(to, &supernode->counts);
    if (supernode->links_down) {
        gt_buf_puts(to, ", ");
        add_cell(to, screen, STYLE_BAD, "links down", 0, true);
    }
    gt_buf_puts(to, "\n");
    if (supernode->note[0]) {
        gt_buf_puts(to, "  ");
        style(to, screen, STYLE_BAD);
        gt_buf_printf(to, "conflict: %s", supernode->note);
        style(to, screen, STYLE_PLAIN);
        gt_buf_puts(to, "\n");
    }
}

static bool is_shown(const struct gt_picture_node *node, enum cli_nodes nodes)
{
    switch (nodes) {
    case CLI_NODES_FREE:
        return node->free;
    case CLI_NODES_WRONG:
        return node->note[0] || node->unhealthy;
    case CLI_NODES_NONE:
        return false;
    case CLI_NODES_ALL:
        break;
    }
    return true;
}

static bool has_shown(const struct gt_picture *picture, uint32_t first, uint32_t count, enum cli_nodes nodes)
{
    for (uint32_t i = first; i < first + count; i++)
        if (is_shown(&picture->nodes[i], nodes))
            return true;
    return false;
}

/* A filter leaves out supernodes that have nothing to show; sums alone are shown of all. */
static bool is_left_out(const struct gt_picture *picture, const struct gt_picture_supernode *supernode,
                        enum cli_nodes nodes)
{
    return (nodes == CLI_NODES_FREE || nodes == CLI_NODES_WRONG) && !supernode->note[0] &&
           !has_shown(picture, supernode->first_node, supernode->node_count, nodes);
}

/* Whether a supernode is `above`, or below it; GT_NONE is above all. */
static bool is_below(const struct gt_picture *picture, uint32_t id, uint32_t above)
{
    while (above != GT_NONE && id != GT_NONE && id != above)
        id = picture->supernodes[id].parent;
    return id == above || above == GT_NONE;
}

static int find_shown(const struct gt_picture *picture, const char *name, uint32_t *ret, struct gt_err **err)
{
    *ret = GT_NONE;
    for (uint32_t i = 0; name && i < picture->supernode_count; i++)
        if (strcmp(picture->supernodes[i].name, name) == 0)
            *ret = i;
    return name && *ret == GT_NONE ? gt_fail(err, ENOENT, "--supernode: there is no supernode '%.253s'", name)
                                   : 0;
}

static void view_table_add_nodes(const struct gt_picture *picture, uint32_t first, uint32_t count,
                                 enum cli_nodes nodes, const struct cli_screen *screen,
                                 const struct columns *columns, struct gt_buf *to)
{
    if (has_shown(picture, first, count, nodes))
        add_header(to, screen, columns);
    for (uint32_t i = first; i < first + count; i++)
        if (is_shown(&picture->nodes[i], nodes))
            view_table_add_node(picture, &picture->nodes[i], screen, columns, to);
}

static void add_legend(const struct gt_picture *picture, const struct cli_screen *screen, struct gt_buf *to)
{
    const char *before = "\nGPUs:  ";
    bool seen[GT_PICTURE_STATES];
    gt_picture_states(picture, seen);
    seen[GT_PICTURE_USED] |= seen[GT_PICTURE_USED_BY_OTHERS]; /* these two look the same here */
    for (unsigned i = 0; i < GT_PICTURE_STATES; i++) {
        if (!seen[i] || i == GT_PICTURE_USED_BY_OTHERS)
            continue;
        gt_buf_puts(to, before);
        style(to, screen, style_of(i));
        gt_buf_add(to, &gt_picture_styles[i].symbol, 1);
        style(to, screen, STYLE_PLAIN);
        gt_buf_printf(to, " %s", gt_picture_styles[i].meaning);
        before = "   ";
    }
    if (*before == ' ')
        gt_buf_puts(to, "\n");
}

static void add_unplaced(const struct gt_picture *picture, uint32_t first, enum cli_nodes nodes,
                         const struct cli_screen *screen, const struct columns *columns, struct gt_buf *to)
{
    uint32_t count = picture->node_count - first;
    if (!count || (nodes != CLI_NODES_NONE && !has_shown(picture, first, count, nodes)))
        return;
    gt_buf_puts(to, "\n");
    style(to, screen, STYLE_STRONG);
    gt_buf_puts(to, picture->supernode_count ? "in no supernode" : "no supernodes");
    style(to, screen, STYLE_PLAIN);
    if (nodes == CLI_NODES_NONE)
        gt_buf_printf(to, ": %u node%s", count, gt_plural(count));
    gt_buf_puts(to, "\n");
    view_table_add_nodes(picture, first, count, nodes, screen, columns, to);
}

int cli_view_table(const struct gt_picture *picture, const struct cli_table_part *shown,
                   const struct cli_screen *screen, struct gt_buf *to, struct gt_err **err)
{
    struct columns columns;
    uint32_t above, placed = 0;
    GT_TRY(find_shown(picture, shown->supernode, &above, err));
    view_table_fit(picture, screen, &columns);
    gt_buf_printf(to, "%u node%s, ", picture->counts.nodes, gt_plural(picture->counts.nodes));
    view_table_write_counts(to, &picture->counts);
    gt_buf_printf(to, "; %u supernode%s, %u pod%s with GPUs\n", picture->tier1_count,
                  gt_plural(picture->tier1_count), picture->pod_count, gt_plural(picture->pod_count));
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        const struct gt_picture_supernode *supernode = &picture->supernodes[i];
        placed += supernode->node_count;
        if (!is_below(picture, i, above) || is_left_out(picture, supernode, shown->nodes))
            continue;
        add_heading(picture, supernode, screen, to);
        view_table_add_nodes(picture, supernode->first_node, supernode->node_count, shown->nodes, screen,
                             &columns, to);
    }
    if (above == GT_NONE)
        add_unplaced(picture, placed, shown->nodes, screen, &columns, to);
    if (shown->nodes != CLI_NODES_NONE)
        add_legend(picture, screen, to);
    return 0;
}

/* ---- the table of supernodes ---- */

static void view_table_add_number(struct gt_buf *to, int64_t number)
{
    if (number < 0)
        gt_buf_printf(to, "%6s  ", "-");
    else
        gt_buf_printf(to, "%6lld  ", (long long)number);
}

void cli_view_supernodes(const struct cli_view *view, const struct cli_screen *screen, struct gt_buf *to)
{
    const struct gt_picture *picture = &view->picture;
    unsigned name = 4, taken;
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        const struct gt_picture_supernode *supernode = &picture->supernodes[i];
        unsigned width = 2 * supernode->depth + gt_text_characters(supernode->name);
        name = width > name ? width : name;
    }
    if (!picture->supernode_count) {
        gt_buf_puts(to, "no supernodes: no node says that it is joined to others, and nobody has configured "
                        "any\n");
        return;
    }
    style(to, screen, STYLE_MUTED);
    gt_buf_printf(to, "%-*s  TIER   NODES    GPUS    FREE  LINKS    SOURCE  CONFLICT\n", (int)name, "NAME");
    style(to, screen, STYLE_PLAIN);
    taken = name + 2 + 4 + 3 * 8 + 2 + 7 + 2 + 6 + 2;
    for (uint32_t i = 0; i < picture->supernode_count; i++) {
        const struct gt_picture_supernode *supernode = &picture->supernodes[i];
        const struct gt_supernode_object *object = &view->supernodes[supernode->source].object;
        gt_buf_printf(to, "%*s%-*s  %4u  ", (int)(2 * supernode->depth), "",
                      (int)(name - 2 * supernode->depth), supernode->name, supernode->tier);
        view_table_add_number(to, object->nodes);
        view_table_add_number(to, object->capacity);
        view_table_add_number(to, object->free);
        add_cell(to, screen, supernode->links_down ? STYLE_BAD : STYLE_PLAIN,
                 supernode->links_down                        ? "down"
                 : object->links_healthy == GT_CONDITION_TRUE ? "up"
                                                              : "unknown",
                 7, false);
        gt_buf_printf(to, "%-6s  ", object->source);
        unsigned left = screen->width > taken + 10 ? screen->width - taken : screen->width ? 10 : 0;
        add_cell(to, screen, supernode->note[0] ? STYLE_BAD : STYLE_MUTED,
                 supernode->note[0] ? supernode->note : "-", left, true);
        gt_buf_puts(to, "\n");
    }
}
