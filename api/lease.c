/* SPDX-License-Identifier: Apache-2.0 */
#include "api/lease.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/cleanup.h"
#include "base/err.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/text.h"
static unsigned lease_number(const cJSON *object, const char *key)
{
    uint64_t value = 0;
    gt_json_is_unsigned(gt_get(object, key), INT_MAX, &value);
    return (unsigned)value;
}

int gt_lease_read(const cJSON *object, struct gt_lease *ret, struct gt_err **err)
{
    if (!*gt_meta_name(object) || !*gt_meta_version(object))
        return gt_fail(err, EBADMSG, "lease: no name or no resourceVersion");
    const cJSON *spec = gt_get(object, "spec");
    struct gt_lease lease = {.duration_s = lease_number(spec, "leaseDurationSeconds"),
                             .transitions = lease_number(spec, "leaseTransitions")};
    bool fits = gt_text_copy(lease.identity, sizeof(lease.identity), gt_get_string(spec, "holderIdentity")) &&
                gt_text_copy(lease.acquired, sizeof(lease.acquired), gt_get_string(spec, "acquireTime")) &&
                gt_text_copy(lease.renewed, sizeof(lease.renewed), gt_get_string(spec, "renewTime")) &&
                gt_text_copy(lease.resource_version, sizeof(lease.resource_version), gt_meta_version(object));
    if (!fits)
        return gt_fail(err, EBADMSG, "lease %s: a text in it is too long", gt_meta_name(object));
    *ret = lease;
    return 0;
}

const char *gt_lease_note(const cJSON *object)
{
    return gt_get_string(gt_get_at(object, "metadata", "annotations"), GT_ANNOTATION_LEASE_NOTE);
}

void gt_lease_write(struct gt_buf *to, const char *namespace_, const char *name, const struct gt_lease *lease)
{
    gt_json_printf(to,
                   "{'apiVersion': 'coordination.k8s.io/v1', 'kind': 'Lease',"
                   "'metadata': {'name': %s, ?'namespace': %s, ?'resourceVersion': %s",
                   name, namespace_, lease->resource_version);
    if (lease->note && *lease->note)
        gt_json_printf(to, "'annotations': {'" GT_ANNOTATION_LEASE_NOTE "': %s}", lease->note);
    gt_json_printf(to,
                   "}, 'spec': {'leaseTransitions': %u, ?'leaseDurationSeconds': %u, ?'holderIdentity': %s,"
                   "?'acquireTime': %s, ?'renewTime': %s}}",
                   lease->transitions, lease->duration_s, lease->identity, lease->acquired, lease->renewed);
}

enum { WORD_MAX = GT_LEASE_NOTE_NODE_SIZE + 256 };

/* `len` bytes at `at`, which hold no space. */
static bool lease_note_read_word(const char *at, size_t len, struct gt_lease_note_word *ret)
{
    char word[WORD_MAX + 1];
    if (len > WORD_MAX)
        return false;
    memcpy(word, at, len);
    word[len] = '\0';
    char *equals = strchr(word, '=');
    if (!equals)
        return false;
    *equals = '\0';
    ret->is_whole = strcmp(equals + 1, "*") == 0;
    ret->mask = UINT64_MAX;
    return *word && gt_text_copy(ret->node, sizeof(ret->node), word) &&
           (ret->is_whole || gt_text_to_mask(equals + 1, 64, "GPUs", &ret->mask, NULL) == 0);
}

bool gt_lease_note_next(const char **note, struct gt_lease_note_word *ret)
{
    for (const char *at = *note; *at;) {
        size_t len = strcspn(at, " ");
        bool found = lease_note_read_word(at, len, ret);
        at += len + (at[len] == ' ');
        *note = at;
        if (found)
            return true;
    }
    return false;
}

void gt_lease_note_add(struct gt_buf *to, const char *node, uint64_t mask)
{
    gt_auto_buf struct gt_buf word = GT_BUF(WORD_MAX);
    gt_buf_printf(&word, "%s%s=", to->len ? " " : "", node);
    if (mask)
        gt_text_add_mask(&word, mask);
    else
        gt_buf_puts(&word, "*");
    if (!word.failed && to->len + word.len <= to->max)
        gt_buf_add(to, word.data, word.len);
}

static const char quiet_key[] = "quiet:";

void gt_lease_note_add_quiet(struct gt_buf *to, uint64_t seconds)
{
    gt_buf_printf(to, "%s%s%" PRIu64, to->len ? " " : "", quiet_key, seconds);
}

bool gt_lease_note_quiet(const char *note, uint64_t *ret_seconds)
{
    const size_t key = sizeof(quiet_key) - 1;
    for (size_t len; *note; note += len + (note[len] == ' ')) {
        char number[24];
        len = strcspn(note, " ");
        if (len <= key || len - key >= sizeof(number) || strncmp(note, quiet_key, key) != 0)
            continue;
        snprintf(number, sizeof(number), "%.*s", (int)(len - key), note + key);
        return gt_text_to_unsigned(number, UINT32_MAX, ret_seconds);
    }
    return false;
}

static const char moved_key[] = "moved:";

void gt_lease_note_add_moved(struct gt_buf *to, const uint64_t *times_s, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++)
        gt_buf_printf(to, "%s%" PRIu64, i ? "," : to->len ? " moved:" : moved_key, times_s[i]);
}

uint32_t gt_lease_note_moved(const char *note, uint64_t *times_s, uint32_t max)
{
    uint32_t count = 0;
    for (size_t len; *note; note += len + (note[len] == ' ')) {
        len = strcspn(note, " ");
        if (strncmp(note, moved_key, sizeof(moved_key) - 1) != 0)
            continue;
        const char *end = note + len;
        for (const char *at = note + sizeof(moved_key) - 1; at < end && count < max;) {
            char number[24];
            size_t digits = strcspn(at, ", ");
            snprintf(number, sizeof(number), "%.*s", (int)(digits < 24 ? digits : 23), at);
            count += gt_text_to_unsigned(number, INT64_MAX, &times_s[count]);
            at += digits + 1;
        }
    }
    return count;
}
