/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "scheduler-ext/feed/feed_internal.h"

struct text {
    uint32_t refs, hash;
    char bytes[];
};

static bool is(const void *item, const void *key)
{
    return strcmp(((const struct text *)item)->bytes, key) == 0;
}

const char *gt_feed_text(struct gt_feed *feed, const char *text)
{
    if (!text)
        return NULL;
    uint32_t hash = gt_feed_hash(gt_feed_mix_text(feed->seed, text));
    struct text *shared = gt_feed_table_find(&feed->texts, hash, is, text);
    if (!shared) {
        size_t len = strlen(text);
        shared = gt_feed_alloc(&feed->bytes, sizeof(*shared) + len + 1);
        if (!shared)
            return NULL;
        shared->hash = hash;
        memcpy(shared->bytes, text, len + 1);
        if (gt_feed_table_add(&feed->texts, &feed->bytes, hash, shared) < 0) {
            gt_feed_release(&feed->bytes, shared);
            return NULL;
        }
    }
    shared->refs++;
    return shared->bytes;
}

/* From its bytes back to the text that they are in. */
static struct text *text_of(const char *bytes)
{
    union { /* what is shared is constant for those who share it */
        const char *in;
        char *out;
    } same = {bytes};
    return (struct text *)(void *)(same.out - offsetof(struct text, bytes));
}

void gt_feed_text_drop(struct gt_feed *feed, const char *bytes)
{
    if (!bytes)
        return;
    struct text *text = text_of(bytes);
    if (--text->refs)
        return;
    gt_feed_table_remove(&feed->texts, text->hash, text);
    gt_feed_release(&feed->bytes, text);
}
