/* SPDX-License-Identifier: Apache-2.0 */
#include "base/time_text.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

void gt_time_text_fine(const struct timespec *when, unsigned digits, char ret[static GT_TIME_TEXT_SIZE])
{
    struct tm parts;
    char fraction[16] = "";
    ret[0] = '\0';
    if (!gmtime_r(&when->tv_sec, &parts) || parts.tm_year < -1900 || parts.tm_year > 9999 - 1900)
        return;
    if (digits)
        snprintf(fraction, sizeof(fraction), ".%09ld", when->tv_nsec);
    snprintf(ret, GT_TIME_TEXT_SIZE, "%04d-%02d-%02dT%02d:%02d:%02d%.*sZ", parts.tm_year + 1900,
             parts.tm_mon + 1, parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec,
             digits > 9 ? 10 : (int)digits + 1, fraction);
}

void gt_time_text(int64_t unix_s, char ret[static GT_TIME_TEXT_SIZE])
{
    gt_time_text_fine(&(struct timespec){.tv_sec = (time_t)unix_s}, 0, ret);
}

/* Days from 1970-01-01 to a date of the Gregorian calendar. Here a year begins in March, so that the extra
 * day of a leap year is its last day. */
static int64_t days_to(int year, int month, int day)
{
    int64_t y = year - (month <= 2);
    int64_t day_of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return y * 365 + y / 4 - y / 100 + y / 400 + day_of_year - 719468;
}

static int days_of_month(int year, int month)
{
    static const int days[] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    return days[month - 1] + (month == 2 && leap);
}

/* Called for each pod of the cluster, so without strptime(), which looks up the locale. */
int64_t gt_time_of_text(const char *text)
{
    static const char shape[] = "0000-00-00T00:00:00";
    int parts[6] = {0}, part = 0;
    if (!text)
        return 0;
    for (const char *want = shape; *want; want++, text++) {
        if (*want == '0' ? *text < '0' || *text > '9' : *text != *want)
            return 0;
        if (*want == '0')
            parts[part] = parts[part] * 10 + (*text - '0');
        else
            part++;
    }
    if (*text == '.') {
        size_t digits = strspn(text + 1, "0123456789");
        if (!digits)
            return 0;
        text += 1 + digits;
    }
    if (strcmp(text, "Z") != 0)
        return 0;
    const int year = parts[0], month = parts[1], day = parts[2];
    if (month < 1 || month > 12 || day < 1 || day > days_of_month(year, month) || parts[3] > 23 ||
        parts[4] > 59 || parts[5] > 60 /* a leap second */)
        return 0;
    int64_t time = ((days_to(year, month, day) * 24 + parts[3]) * 60 + parts[4]) * 60 + parts[5];
    return time > 0 ? time : 0;
}

const char *gt_time_span_text(int64_t seconds, char ret[static GT_TIME_TEXT_SIZE])
{
    static const struct {
        int64_t from, unit;
        const char *name;
    } units[] = {{2 * 86400, 86400, "d"}, {2 * 3600, 3600, "h"}, {120, 60, "min"}, {INT64_MIN, 1, "s"}};
    unsigned i = 0;
    while (seconds < units[i].from)
        i++;
    snprintf(ret, GT_TIME_TEXT_SIZE, "%lld %s", (long long)(seconds < 0 ? 0 : seconds / units[i].unit),
             units[i].name);
    return ret;
}
