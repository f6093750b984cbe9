/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/err.h"
#include "cli/bundle.h"

/* The companion's page as one file: its style and scripts inside it, and its state in place of the companion.
 * The bundle comes from somebody else: so its scripts reach nothing but the file. */

static const char begin[] =
    "<!DOCTYPE html>\n<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
    "script-src 'unsafe-inline'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'\">\n";

/* In place of the companion. */
static const char answers[] =
    "const recorded = document.getElementById(\"recorded\").textContent;\n"
    "window.fetch = async (path) => path === \"ui/state\" ? new Response(recorded)\n"
    "  : path.startsWith(\"ui/state\") ? new Response(null, { status: 304 })\n"
    "  : new Response(\"a bundle has no answers to such questions: gputopo replay makes its decisions "
    "again\\n\", { status: 404 });\n";

struct page {
    const char *data; /* the archive */
    size_t len;
    struct gt_buf scripts; /* they run at its end */
    struct gt_err **err;
};

static int page_find(const struct page *page, const char *name, struct bundle_file *ret)
{
    size_t at = 0;
    for (int r; (r = bundle_tar_next(page->data, page->len, &at, ret, page->err));)
        if (r < 0 || strcmp(ret->name, name) == 0)
            return r < 0 ? r : 0;
    return gt_fail(page->err, ENODATA, "there is no %s in it, missing.txt in it says why", name);
}

/* JSON in which no "</script>" can stand. */
static int add_state(const struct page *page, struct gt_buf *to)
{
    struct bundle_file state;
    GT_TRY(page_find(page, BUNDLE_STATE, &state));
    gt_buf_puts(to, "<script type=\"application/json\" id=\"recorded\">");
    for (size_t i = 0; i < state.len; i++)
        if (state.data[i] == '<')
            gt_buf_puts(to, "\\u003c");
        else
            gt_buf_add(to, &state.data[i], 1);
    gt_buf_printf(to, "</script>\n<script>\n%s</script>\n", answers);
    return 0;
}

/* The file that a line of the page names ("src="ui/page.js""), between tags of its own. */
static int replay_page_add_named(const struct page *page, const char *named, const char *tag,
                                 struct gt_buf *to)
{
    char name[BUNDLE_NAME_SIZE];
    struct bundle_file file;
    snprintf(name, sizeof(name), BUNDLE_PAGE "%.*s", (int)strcspn(named, "\"\n"), named);
    GT_TRY(page_find(page, name, &file));
    gt_buf_printf(to, "<%s>\n", tag);
    gt_buf_add(to, file.data, file.len);
    gt_buf_printf(to, "</%s>\n", tag);
    return 0;
}

/* What follows the mark that the line begins with; NULL: it begins otherwise. */
static const char *page_after(const char *line, size_t len, const char *mark)
{
    return len > strlen(mark) && strncmp(line, mark, strlen(mark)) == 0 ? line + strlen(mark) : NULL;
}

static int replay_page_line(struct page *page, const char *line, size_t size, struct gt_buf *to)
{
    const char *style = page_after(line, size, "<link rel=\"stylesheet\" href=\"ui/");
    const char *script = page_after(line, size, "<script src=\"ui/");
    if (style)
        return replay_page_add_named(page, style, "style", to);
    if (script)
        return replay_page_add_named(page, script, "script", &page->scripts);
    if (page_after(line, size, "<!DOCTYPE") || page_after(line, size, "<link rel=\"icon\"") ||
        page_after(line, size, "<meta http-equiv=\"Content-Security-Policy\""))
        return 0;
    if (page_after(line, size, "</body>")) {
        GT_TRY(add_state(page, to));
        gt_buf_add(to, page->scripts.data, page->scripts.len);
        to->failed |= page->scripts.failed;
    }
    gt_buf_add(to, line, size);
    return 0;
}

int bundle_page(const char *data, size_t len, struct gt_buf *to, struct gt_err **err)
{
    struct page page = {data, len, GT_BUF(to->max), err};
    struct bundle_file index;
    int r = page_find(&page, BUNDLE_PAGE "index.html", &index);
    gt_buf_puts(to, begin);
    for (size_t at = 0, size; r >= 0 && at < index.len; at += size) {
        const char *line = index.data + at, *next = memchr(line, '\n', index.len - at);
        size = next ? (size_t)(next + 1 - line) : index.len - at;
        r = replay_page_line(&page, line, size, to);
    }
    gt_buf_done(&page.scripts);
    return r < 0 ? r : gt_buf_check(to, "the page", err);
}
