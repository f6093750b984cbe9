/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "base/json_get.h"

struct page_reader {
    struct gt_json_arena *arena;
    const char *text, *at, *end;
    gt_kube_page_item *item;
    void *arg;
    struct gt_kube_page page;
    bool has_items;
    struct gt_err **err;
};

void gt_kube_page_done(struct gt_kube_page *page)
{
    free(page->resource_version);
    free(page->next);
    *page = (struct gt_kube_page){0};
}

static int bad(struct page_reader *reader, const char *what)
{
    return gt_fail(reader->err, EBADMSG, "the list is not JSON as it should be: %s at byte %zu", what,
                   (size_t)(reader->at - reader->text));
}

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next byte that is no white space, not consumed; 0 at the end. */
static char peek(struct page_reader *reader)
{
    while (reader->at < reader->end && is_space(*reader->at))
        reader->at++;
    return reader->at < reader->end ? *reader->at : '\0';
}

static bool page_take(struct page_reader *reader, char c)
{
    if (peek(reader) != c)
        return false;
    reader->at++;
    return true;
}

static cJSON *value(struct page_reader *reader)
{
    if (!peek(reader))
        return NULL;
    const char *after = NULL;
    cJSON *json = gt_json_arena_parse(reader->arena, reader->at, (size_t)(reader->end - reader->at), &after);
    if (json)
        reader->at = after;
    return json;
}

static int page_read_items(struct page_reader *reader)
{
    if (reader->has_items)
        return bad(reader, "items twice");
    reader->has_items = true;
    if (peek(reader) == 'n') { /* null: none */
        cJSON *json = value(reader);
        bool null = cJSON_IsNull(json);
        gt_json_arena_delete(reader->arena, json);
        return null ? 0 : bad(reader, "items");
    }
    if (!page_take(reader, '['))
        return bad(reader, "items are no array");
    if (page_take(reader, ']'))
        return 0;
    do {
        cJSON *json = value(reader);
        if (!cJSON_IsObject(json)) {
            gt_json_arena_delete(reader->arena, json);
            return bad(reader, "an item is no object");
        }
        reader->page.items++;
        bool go_on = reader->item(reader->arg, json);
        gt_json_arena_delete(reader->arena, json);
        if (!go_on)
            return -ECANCELED;
    } while (page_take(reader, ','));
    return page_take(reader, ']') ? 0 : bad(reader, "no end of the items");
}

static int page_keep_text(const cJSON *metadata, const char *key, char **to, struct page_reader *reader)
{
    const char *text = gt_get_string(metadata, key);
    if (!*text)
        return 0;
    free(*to);
    *to = strdup(text);
    return *to ? 0 : gt_fail_sys(reader->err, ENOMEM, "list");
}

static int page_read_member(struct page_reader *reader)
{
    cJSON *key = value(reader);
    const char *name = cJSON_GetStringValue(key);
    bool items = name && strcmp(name, "items") == 0, metadata = name && strcmp(name, "metadata") == 0;
    gt_json_arena_delete(reader->arena, key);
    if (!name || !page_take(reader, ':'))
        return bad(reader, "no key");
    if (items)
        return page_read_items(reader);
    cJSON *json = value(reader);
    if (!json)
        return bad(reader, "no value");
    int r = 0;
    if (metadata)
        r = page_keep_text(json, "continue", &reader->page.next, reader);
    if (metadata && r == 0)
        r = page_keep_text(json, "resourceVersion", &reader->page.resource_version, reader);
    gt_json_arena_delete(reader->arena, json);
    return r;
}

static int page_read(struct page_reader *reader)
{
    if (!page_take(reader, '{'))
        return bad(reader, "no object");
    if (!page_take(reader, '}')) {
        do {
            GT_TRY(page_read_member(reader));
        } while (page_take(reader, ','));
        if (!page_take(reader, '}'))
            return bad(reader, "no end");
    }
    if (!reader->has_items)
        return bad(reader, "no items");
    if (!reader->page.resource_version)
        return bad(reader, "no resourceVersion");
    return 0;
}

int gt_kube_page_read(struct gt_json_arena *arena, const char *text, size_t len, gt_kube_page_item *item,
                      void *arg, struct gt_kube_page *ret, struct gt_err **err)
{
    struct page_reader reader = {
        .arena = arena, .text = text, .at = text, .end = text + len, .item = item, .arg = arg, .err = err};
    int r = page_read(&reader);
    if (r < 0) {
        gt_kube_page_done(&reader.page);
        return r;
    }
    *ret = reader.page;
    return 0;
}
