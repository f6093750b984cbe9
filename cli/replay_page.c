/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/err.h"
#include "cli/bundle.h"

/* The companion's page as one file: its style and scripts inside it, and its state in place of the companion.
 */

static const char *const scripts[] = {BUNDLE_PAGE "page.js", BUNDLE_PAGE "map.js", BUNDLE_PAGE "panels.js",
                                      BUNDLE_PAGE "views.js"};

/* Lines of the page that the file does without: it runs scripts of its own, which come at its end. */
static const char *const dropped[] = {"<meta http-equiv=\"Content-Security-Policy\"", "<link rel=\"icon\"",
                                      "<script src="};

/* In place of the companion. */
static const char answers[] =
    "const recorded = document.getElementById(\"recorded\").textContent;\n"
    "window.fetch = async (path) => path === \"ui/state\" ? new Response(recorded)\n"
    "  : path.startsWith(\"ui/state\") ? new Response(null, { status: 304 })\n"
    "  : new Response(\"a bundle has no answers to such questions: gputopo replay makes its decisions "
    "again\\n\", { status: 404 });\n";

static int page_find(const char *data, size_t len, const char *name, struct bundle_file *ret,
                     struct gt_err **err)
{
    size_t at = 0;
    for (int r; (r = bundle_tar_next(data, len, &at, ret, err));)
        if (r < 0 || strcmp(ret->name, name) == 0)
            return r < 0 ? r : 0;
    return gt_fail(err, ENODATA, "there is no %s in it, missing.txt in it says why", name);
}

/* JSON in which no "</script>" can stand. */
static void add_state(const struct bundle_file *state, struct gt_buf *to)
{
    gt_buf_puts(to, "<script type=\"application/json\" id=\"recorded\">");
    for (size_t i = 0, run; i < state->len; i += run) {
        const char *next = memchr(state->data + i, '<', state->len - i);
        run = next ? (size_t)(next - state->data) - i : state->len - i;
        gt_buf_add(to, state->data + i, run);
        if (next) {
            gt_buf_puts(to, "\\u003c");
            run++;
        }
    }
    gt_buf_puts(to, "</script>\n");
}

static int add_scripts(const char *data, size_t len, struct gt_buf *to, struct gt_err **err)
{
    struct bundle_file state, script;
    GT_TRY(page_find(data, len, BUNDLE_STATE, &state, err));
    add_state(&state, to);
    gt_buf_printf(to, "<script>\n%s</script>\n", answers);
    for (size_t i = 0; i < GT_COUNT(scripts); i++) {
        GT_TRY(page_find(data, len, scripts[i], &script, err));
        gt_buf_puts(to, "<script>\n");
        gt_buf_add(to, script.data, script.len);
        gt_buf_puts(to, "</script>\n");
    }
    return 0;
}

static bool replay_page_begins(const char *line, size_t len, const char *mark)
{
    return len >= strlen(mark) && strncmp(line, mark, strlen(mark)) == 0;
}

static int page_line(const char *data, size_t len, const char *line, size_t size, struct gt_buf *to,
                     struct gt_err **err)
{
    struct bundle_file style;
    for (size_t i = 0; i < GT_COUNT(dropped); i++)
        if (replay_page_begins(line, size, dropped[i]))
            return 0;
    if (replay_page_begins(line, size, "<link rel=\"stylesheet\"")) {
        GT_TRY(page_find(data, len, BUNDLE_PAGE "ui.css", &style, err));
        gt_buf_puts(to, "<style>\n");
        gt_buf_add(to, style.data, style.len);
        gt_buf_puts(to, "</style>\n");
        return 0;
    }
    if (replay_page_begins(line, size, "</body>"))
        GT_TRY(add_scripts(data, len, to, err));
    gt_buf_add(to, line, size);
    return 0;
}

int bundle_page(const char *data, size_t len, struct gt_buf *to, struct gt_err **err)
{
    struct bundle_file page;
    GT_TRY(page_find(data, len, BUNDLE_PAGE "index.html", &page, err));
    for (const char *line = page.data, *end = page.data + page.len; line < end;) {
        const char *next = memchr(line, '\n', (size_t)(end - line));
        size_t size = (size_t)((next ? next + 1 : end) - line);
        GT_TRY(page_line(data, len, line, size, to, err));
        line += size;
    }
    return gt_buf_check(to, "the page", err);
}
