/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/sim/csv.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"

void gt_csv_open(struct gt_csv *csv, const char *file, char *text, size_t len)
{
    *csv = (struct gt_csv){.file = file, .at = text, .end = text + len};
}

static int split(struct gt_csv *csv, char *line, struct gt_err **err)
{
    csv->field_count = 0;
    for (char *field = line;;) {
        if (csv->field_count == GT_CSV_FIELDS_MAX)
            return gt_fail(err, EINVAL, "%s:%u: more than %d fields", csv->file, csv->line,
                           GT_CSV_FIELDS_MAX);
        csv->fields[csv->field_count++] = field;
        char *comma = strchr(field, ',');
        if (!comma)
            return 1;
        *comma = '\0';
        field = comma + 1;
    }
}

int gt_csv_next(struct gt_csv *csv, struct gt_err **err)
{
    while (csv->at < csv->end) {
        char *line = csv->at;
        char *newline = memchr(line, '\n', (size_t)(csv->end - line));
        char *stop = newline ? newline : csv->end;
        csv->at = newline ? newline + 1 : csv->end;
        csv->line++;
        if (memchr(line, '\0', (size_t)(stop - line)))
            return gt_fail(err, EINVAL, "%s:%u: a NUL byte", csv->file, csv->line);
        if (stop > line && stop[-1] == '\r')
            stop--;
        *stop = '\0';
        if (stop > line)
            return split(csv, line, err);
    }
    return 0;
}

bool gt_csv_is(const struct gt_csv *csv, const char *const *names, unsigned count)
{
    if (csv->field_count != count)
        return false;
    for (unsigned i = 0; i < count; i++)
        if (strcmp(csv->fields[i], names[i]) != 0)
            return false;
    return true;
}

int gt_csv_whole(const struct gt_csv *csv, unsigned field, const char *name, uint32_t max, uint32_t *ret,
                 struct gt_err **err)
{
    uint64_t value;
    if (!gt_text_to_unsigned(csv->fields[field], max, &value))
        return gt_fail(err, EINVAL, "%s:%u: %s: expected a number from 0 to %u, is '%.40s'", csv->file,
                       csv->line, name, max, csv->fields[field]);
    *ret = (uint32_t)value;
    return 0;
}

int gt_csv_real(const struct gt_csv *csv, unsigned field, const char *name, double max, double *ret,
                struct gt_err **err)
{
    const char *text = csv->fields[field];
    double value;
    if (!gt_text_to_real(text, &value) || value < 0 || value > max)
        return gt_fail(err, EINVAL, "%s:%u: %s: expected a number from 0 to %.0f, is '%.40s'", csv->file,
                       csv->line, name, max, text);
    *ret = value;
    return 0;
}
