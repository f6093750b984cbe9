/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/unit/wire/trace.h"

#include <string.h>

#include "base/text.h"

static int on_event(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct gt_buf *trace = arg;
    (void)err;
    switch (event->what) {
    case GT_SCAN_OPEN:
        gt_buf_printf(trace, "open %u\n", event->id);
        break;
    case GT_SCAN_CLOSE:
        gt_buf_printf(trace, "close %u\n", event->id);
        break;
    case GT_SCAN_KEY:
        gt_buf_printf(trace, "key %u ", event->id);
        gt_text_quote(trace, event->text);
        gt_buf_puts(trace, "\n");
        return event->text[0] != '-'; /* "-..." is a key that this callback does not want */
    case GT_SCAN_VALUE:
        gt_buf_printf(trace, "value %u ", event->id);
        if (event->text[event->len] || strlen(event->text) != event->len)
            gt_buf_puts(trace, "length ");
        if (event->is_text)
            gt_text_quote(trace, event->text);
        else if (strcmp(event->text, "true") == 0 || strcmp(event->text, "false") == 0)
            gt_buf_puts(trace, event->yes ? "true" : "false");
        else
            gt_buf_printf(trace, "%.17g", strtod(event->text, NULL));
        gt_buf_puts(trace, "\n");
        break;
    case GT_SCAN_OTHER:
        gt_buf_printf(trace, "other %u %d %s\n", event->id, event->found, event->member ? event->member : "");
        break;
    }
    return 0;
}

static int cache(struct gt_scan *scan, const char *text, size_t len, struct gt_err **err)
{
    char *copy = malloc(len ? len : 1);
    if (!copy)
        abort();
    if (len)
        memcpy(copy, text, len);
    int r = gt_scan_feed(scan, copy, len, err);
    free(copy);
    return r;
}

static char *trace(const struct gt_scan_shape *root, const char *text, size_t len, size_t first, size_t step,
                   const struct gt_masks_variant *way)
{
    gt_auto_buf struct gt_buf events = GT_BUF(TRACE_MAX);
    gt_auto_scan struct gt_scan *scan = gt_scan_new(root, on_event, &events);
    gt_auto_err struct gt_err *err = NULL;
    if (!scan)
        abort();
    if (way)
        gt_scan_set_masks(scan, way->fn);
    int r = cache(scan, text, first, &err);
    for (size_t at = first; at < len && r == 0; at += step)
        r = cache(scan, text + at, len - at < step ? len - at : step, &err);
    if (r == 0)
        r = gt_scan_finish(scan, &err);
    if (r == 0)
        gt_buf_puts(&events, "ok");
    else
        gt_buf_printf(&events, "%s %s", strerrorname_np(-r), gt_err_text(err));
    char *result = gt_buf_take(&events);
    if (!result)
        abort();
    return result;
}

char *trace_whole(const struct gt_scan_shape *root, const char *text, size_t len,
                  const struct gt_masks_variant *way)
{
    return trace(root, text, len, len, 1, way);
}

char *trace_steps(const struct gt_scan_shape *root, const char *text, size_t len, size_t step)
{
    return trace(root, text, len, 0, step, NULL);
}

char *trace_cut(const struct gt_scan_shape *root, const char *text, size_t len, size_t cut)
{
    return trace(root, text, len, cut, len - cut ? len - cut : 1, NULL);
}
