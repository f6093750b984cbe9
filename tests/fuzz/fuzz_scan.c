/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "base/digest.h"
#include "scheduler-ext/wire/scan_masks.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unit/wire/reference.h"

/* {"name": text, "map": {...}, "list": [the same again]}; the rest is passed over. */
enum { NAME = 1, AMOUNT, NUMBER, YES, MAP, VALUE, LIST, ITEM };

static const struct gt_scan_shape name = {.kind = GT_SCAN_TEXT, .id = NAME, .max = 64};
static const struct gt_scan_shape amount = {.kind = GT_SCAN_AMOUNT, .id = AMOUNT, .max = 16};
static const struct gt_scan_shape number = {.kind = GT_SCAN_NUMBER, .id = NUMBER};
static const struct gt_scan_shape yes = {.kind = GT_SCAN_BOOL, .id = YES};
static const struct gt_scan_shape value = {.kind = GT_SCAN_TEXT, .id = VALUE, .max = 64};
static const struct gt_scan_shape map = {.kind = GT_SCAN_MAP, .id = MAP, .of = &value};
static const struct gt_scan_shape item, list = {.kind = GT_SCAN_ARRAY, .id = LIST, .of = &item};
static const struct gt_scan_member members[] = {{"name", &name},
                                                {"amount", &amount},
                                                {"number", &number},
                                                {"yes", &yes},
                                                {"map", &map},
                                                {"list", &list},
                                                {0}};
static const struct gt_scan_shape item = {
    .kind = GT_SCAN_OBJECT, .id = ITEM, .members = members, .any_case = true};
static const struct gt_scan_member none[] = {{0}};
static const struct gt_scan_shape object = {.kind = GT_SCAN_OBJECT, .members = none};
static const struct gt_scan_shape array = {.kind = GT_SCAN_ARRAY};

struct seen {
    struct gt_scan *scan;
    struct gt_buf kept;
    unsigned depth;
    uint64_t digest;
};

static void add(struct seen *seen, const void *bytes, size_t len)
{
    seen->digest = gt_digest_bytes(seen->digest, bytes, len);
}

static int on_event(void *arg, const struct gt_scan_event *event, struct gt_err **err)
{
    struct seen *seen = arg;
    (void)err;
    add(seen, &event->what, sizeof(event->what));
    add(seen, &event->id, sizeof(event->id));
    add(seen, &event->offset, sizeof(event->offset));
    if (event->what == GT_SCAN_OPEN && event->id == ITEM && seen->depth++ == 1) {
        seen->kept.len = 0;
        gt_scan_keep(seen->scan, &seen->kept);
    }
    if (event->what == GT_SCAN_CLOSE && event->id == ITEM && --seen->depth == 1) {
        /* What was kept is an object itself. */
        if (!reference_accepts(seen->kept.data, seen->kept.len) || seen->kept.data[0] != '{')
            abort();
        add(seen, seen->kept.data, seen->kept.len);
    }
    if (!event->text)
        return 0;
    if (event->what == GT_SCAN_VALUE && (event->text[event->len] || strlen(event->text) != event->len))
        abort();
    if (event->id == VALUE && event->len > 64)
        abort();
    add(seen, event->text, event->len);
    return event->what == GT_SCAN_KEY && event->len % 2;
}

struct result {
    int code;
    uint64_t digest;
    char text[600];
};

static struct result scan(const struct gt_scan_shape *root, const uint8_t *data, size_t size, size_t step,
                          gt_masks_fn *masks)
{
    struct seen seen = {.kept = GT_BUF(1 << 20)};
    struct result result = {0};
    struct gt_err *err = NULL;
    seen.scan = gt_scan_new(root, on_event, &seen);
    if (!seen.scan)
        abort();
    if (masks)
        gt_scan_set_masks(seen.scan, masks);
    for (size_t at = 0; at < size && result.code == 0; at += step) {
        /* Each chunk in memory of its own, so that a read beyond it is seen. */
        size_t n = size - at < step ? size - at : step;
        uint8_t *copy = malloc(n);
        if (!copy)
            abort();
        memcpy(copy, data + at, n);
        result.code = gt_scan_feed(seen.scan, copy, n, &err);
        free(copy);
    }
    if (result.code == 0)
        result.code = gt_scan_finish(seen.scan, &err);
    result.digest = seen.digest;
    snprintf(result.text, sizeof(result.text), "%s", gt_err_text(err));
    if ((result.code < 0) != (err != NULL))
        abort();
    gt_err_free(err);
    gt_scan_free(seen.scan);
    gt_buf_done(&seen.kept);
    return result;
}

static void same(struct result a, struct result b)
{
    if (a.code != b.code || a.digest != b.digest || strcmp(a.text, b.text) != 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    size_t step = data[0] + 1U;
    data++;
    size--;
    struct result whole = scan(&item, data, size, size, NULL);
    same(whole, scan(&item, data, size, step, NULL));
    for (const struct gt_masks_variant *way = gt_masks_variants() + 1; way[-1].name && way->name; way++)
        same(whole, scan(&item, data, size, size, way->fn));

    bool good = reference_accepts(data, size);
    struct result as_object = scan(&object, data, size, step, NULL),
                  as_array = scan(&array, data, size, step, NULL);
    if (good != (as_object.code == 0 || as_array.code == 0) || (whole.code == 0 && !good))
        abort();
    return 0;
}
