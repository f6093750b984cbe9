/* SPDX-License-Identifier: Apache-2.0 */
#include "api/movable.h"

#include <string.h>

#include "base/cleanup.h"
#include "base/text.h"

enum { MINUTES_A_DAY = 1440, DAYS_MAX = 365 };

/* "6h" */
static bool read_span(const char *text, uint64_t *ret_s)
{
    static const struct {
        char unit;
        uint32_t seconds;
    } units[] = {{'s', 1}, {'m', 60}, {'h', 3600}, {'d', 86400}};
    char number[16];
    uint64_t count;
    size_t len = strlen(text);
    if (len < 2 || len > sizeof(number))
        return false;
    memcpy(number, text, len - 1);
    number[len - 1] = '\0';
    for (size_t i = 0; i < GT_COUNT(units); i++)
        if (text[len - 1] == units[i].unit)
            return gt_text_to_unsigned(number, (uint64_t)DAYS_MAX * 86400 / units[i].seconds, &count) &&
                   (*ret_s = count * units[i].seconds);
    return false;
}

/* "22:00" */
static bool read_minute(const char *text, uint32_t *ret)
{
    char hours[3] = {text[0], text[0] ? text[1] : '\0'}, minutes[3] = {0};
    uint64_t hour, minute;
    if (strnlen(text, 5) < 5 || text[2] != ':')
        return false;
    memcpy(minutes, text + 3, 2);
    if (!gt_text_to_unsigned(hours, 23, &hour) || !gt_text_to_unsigned(minutes, 59, &minute))
        return false;
    *ret = (uint32_t)(hour * 60 + minute);
    return true;
}

bool gt_movable_read(const char *text, struct gt_movable *ret)
{
    struct gt_movable movable = {.never = strcmp(text, "false") == 0,
                                 .after_checkpoint = strcmp(text, "after-checkpoint") == 0};
    bool window = strlen(text) == 11 && text[5] == '-' && read_minute(text, &movable.from) &&
                  read_minute(text + 6, &movable.until) && movable.from != movable.until;
    if (!movable.never && !movable.after_checkpoint && strcmp(text, "true") != 0 && !window &&
        !read_span(text, &movable.after_s))
        return false;
    *ret = movable;
    return true;
}

bool gt_movable_is_due(const struct gt_movable *movable, uint64_t created_s, uint64_t now_s)
{
    uint32_t minute = (uint32_t)(now_s / 60 % MINUTES_A_DAY);
    bool in_window = movable->from == movable->until  ? true
                     : movable->from < movable->until ? minute >= movable->from && minute < movable->until
                                                      : minute >= movable->from || minute < movable->until;
    return !movable->never && in_window && now_s >= created_s + movable->after_s;
}
