/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/explain.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/digest.h"

/* The files of ui/, included by the assembler. */
/* NOLINTBEGIN(bugprone-macro-parentheses): a declared name takes no parentheses */
#define EMBED(name, file)                                                                                    \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n" #name                                 \
            "_end:\n.byte 0\n.popsection\n");                                                                \
    extern const char name[], name##_end[] __attribute__((visibility("hidden")))
/* NOLINTEND(bugprone-macro-parentheses) */

EMBED(gt_ui_html, "index.html");
EMBED(gt_ui_css, "ui.css");
EMBED(gt_ui_page, "page.js");
EMBED(gt_ui_map, "map.js");
EMBED(gt_ui_panels, "panels.js");
EMBED(gt_ui_views, "views.js");
EMBED(gt_ui_icon, "icon.svg");

/* Relative links of /ui do not work from /ui/, and behind a proxy our own address is not known. */
static const char back[] =
    "<!DOCTYPE html><html lang=\"en\"><meta charset=\"utf-8\"><title>gputopo</title>"
    "<meta http-equiv=\"refresh\" content=\"0; url=../ui\"><a href=\"../ui\">ui</a></html>\n";

bool gt_ui_serve(const char *path, struct gt_http_response *response)
{
    const struct ui_file {
        const char *path, *type, *data, *end;
    } files[] = {
        {"/ui", "text/html; charset=utf-8", gt_ui_html, gt_ui_html_end},
        {"/ui/", "text/html; charset=utf-8", back, back + sizeof(back) - 1},
        {"/ui/ui.css", "text/css; charset=utf-8", gt_ui_css, gt_ui_css_end},
        {"/ui/page.js", "text/javascript; charset=utf-8", gt_ui_page, gt_ui_page_end},
        {"/ui/map.js", "text/javascript; charset=utf-8", gt_ui_map, gt_ui_map_end},
        {"/ui/panels.js", "text/javascript; charset=utf-8", gt_ui_panels, gt_ui_panels_end},
        {"/ui/views.js", "text/javascript; charset=utf-8", gt_ui_views, gt_ui_views_end},
        {"/ui/icon.svg", "image/svg+xml", gt_ui_icon, gt_ui_icon_end},
    };
    const struct ui_file *file = GT_FIND(files, GT_COUNT(files), path, path);
    if (!file)
        return false;
    size_t len = (size_t)(file->end - file->data);
    response->content_type = file->type;
    response->compressed = true;
    snprintf(response->etag, sizeof(response->etag), "%016" PRIx64,
             gt_digest_bytes(GT_DIGEST_EMPTY, file->data, len));
    gt_buf_add(&response->body, file->data, len);
    return true;
}
