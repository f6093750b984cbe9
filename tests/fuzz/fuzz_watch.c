/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "api/meta.h"
#include "kube/internal.h"
#include "kube/watch.h"
#include "tests/fuzz/fuzz.h"

enum { LINE_MAX_BYTES = 256 };

struct seen {
    unsigned long count, bytes, digest;
};

static bool see_line(void *arg, const char *line, size_t len)
{
    struct seen *seen = arg;
    if (len > LINE_MAX_BYTES || (len && memchr(line, '\n', len)))
        abort();
    for (size_t i = 0; i < len; i++)
        seen->digest = seen->digest * 31 + (unsigned char)line[i];
    seen->digest = seen->digest * 31 + '\n';
    seen->bytes += len + 1;
    seen->count++;
    cJSON *json = cJSON_ParseWithLength(line, len);
    gt_meta_version(cJSON_GetObjectItemCaseSensitive(json, "object"));
    cJSON_Delete(json);
    return true;
}

/* gt_kube_peek() accepts any beginning of a line. */
static bool see_long(void *arg, const char *line, size_t len)
{
    struct seen *seen = arg;
    struct gt_kube_peek object;
    if (len != LINE_MAX_BYTES)
        abort();
    gt_kube_peek(line, len, &object);
    if (strlen(object.name) >= sizeof(object.name) || strchr(object.name, '"'))
        abort();
    seen->digest = seen->digest * 31 + '!';
    return see_line(arg, line, len);
}

/* Feeds it in chunks of `step` bytes; returns what the splitter did. */
static int cache(const char *text, size_t size, size_t step, struct seen *seen)
{
    struct gt_lines lines = {.rest = GT_BUF(LINE_MAX_BYTES), .on_line = see_line, .on_long = see_long};
    int r = 0;
    for (size_t at = 0; at < size && r == 0; at += step)
        r = gt_lines_feed(&lines, text + at, size - at < step ? size - at : step, seen);
    if (lines.rest.len > LINE_MAX_BYTES)
        abort();
    gt_lines_reset(&lines);
    return r;
}

static bool see_item(void *arg, cJSON *item)
{
    unsigned *count = arg;
    if (!cJSON_IsObject(item))
        abort();
    return ++*count < 1000;
}

/* What a watch sends, cut in two ways; and the same bytes as a page of a list. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 1)
        return 0;
    const char *text = (const char *)data + 1;
    struct gt_kube_peek object;
    gt_kube_peek(text, size - 1, &object);
    struct seen whole = {0}, cut = {0};
    int r = cache(text, size - 1, size, &whole), other = cache(text, size - 1, data[0] % 64U + 1, &cut);
    if (r != other || whole.count != cut.count || whole.bytes != cut.bytes || whole.digest != cut.digest)
        abort();
    unsigned items = 0;
    struct gt_kube_page page = {0};
    gt_auto_json_arena struct gt_json_arena *arena = NULL;
    if (gt_json_arena_new(&arena, NULL) < 0)
        abort();
    if (gt_kube_page_read(arena, text, size - 1, see_item, &items, &page, NULL) == 0) {
        if (items != page.items || !page.resource_version)
            abort();
        gt_kube_page_done(&page);
    }
    return 0;
}
