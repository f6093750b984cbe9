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
    int leap = parts[5] == 60; /* a leap second begins the next minute */
    struct tm when = {.tm_year = parts[0] - 1900,
                      .tm_mon = parts[1] - 1,
                      .tm_mday = parts[2],
                      .tm_hour = parts[3],
                      .tm_min = parts[4],
                      .tm_sec = parts[5] - leap};
    time_t time = timegm(&when); /* what is no date of the calendar becomes another one */
    bool is_date = when.tm_mon == parts[1] - 1 && when.tm_mday == parts[2] && when.tm_hour == parts[3] &&
                   when.tm_min == parts[4];
    return time > 0 && is_date ? time + leap : 0;
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
