/* SPDX-License-Identifier: Apache-2.0 */
#include "api/reserved.h"

#include <string.h>

#include "base/time_text.h"

static int64_t read_time(const char *text, size_t len)
{
    char time[GT_TIME_TEXT_SIZE + 16];
    if (len >= sizeof(time))
        return 0;
    memcpy(time, text, len);
    time[len] = '\0';
    return gt_time_of_text(time);
}

bool gt_reserved_read(const char *text, struct gt_reserved *ret)
{
    size_t len = strcspn(text, " ");
    struct gt_reserved reserved = {.until_s = read_time(text, len)};
    if (reserved.until_s <= 0)
        return false;
    for (text += len; *text; text += len) {
        text += strspn(text, " ");
        len = strcspn(text, " ");
        if (strncmp(text, "from=", 5) == 0 && !reserved.from_s)
            reserved.from_s = read_time(text + 5, len - 5);
        else if (strncmp(text, "for=", 4) == 0 && !reserved.for_ && len > 4) {
            reserved.for_ = text + 4;
            reserved.for_len = len - 4;
            continue;
        } else if (len)
            return false;
        if (len && (reserved.from_s <= 0 || reserved.from_s >= reserved.until_s))
            return false;
    }
    *ret = reserved;
    return true;
}

bool gt_reserved_keeps_off(const struct gt_reserved *reserved, const char *job, int64_t now_s)
{
    size_t len = reserved->for_len;
    bool is_for = job && len && strncmp(job, reserved->for_, len) == 0 && (!job[len] || job[len] == '/');
    return now_s >= reserved->from_s && now_s < reserved->until_s && !is_for;
}
