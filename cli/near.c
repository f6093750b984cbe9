/* SPDX-License-Identifier: Apache-2.0 */
#include "cli/near.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

void cli_near_init(struct cli_near *near, const char *wanted)
{
    *near = (struct cli_near){0};
    snprintf(near->wanted, sizeof(near->wanted), "%s", wanted);
}

/* Edit distance; less where one name begins with the other: a host name with and without its domain. */
static unsigned distance_of(const char *a, const char *b)
{
    size_t n = strlen(a), m = strlen(b);
    return n && m && (strncmp(a, b, n) == 0 || strncmp(a, b, m) == 0) ? 1 : gt_text_distance(a, b);
}

void cli_near_add(struct cli_near *near, const char *name)
{
    if (!*name || strlen(name) >= CLI_NEAR_NAME)
        return;
    near->seen++;
    unsigned distance = distance_of(near->wanted, name), at = near->kept_count;
    while (at && near->kept[at - 1].distance > distance)
        at--;
    if (at == CLI_NEAR_KEPT)
        return;
    near->kept_count += near->kept_count < CLI_NEAR_KEPT;
    memmove(&near->kept[at + 1], &near->kept[at], (near->kept_count - 1 - at) * sizeof(near->kept[0]));
    near->kept[at].distance = distance;
    gt_text_copy(near->kept[at].name, CLI_NEAR_NAME, name);
}

void cli_near_text(const struct cli_near *near, struct gt_buf *to)
{
    if (!near->seen) {
        gt_buf_puts(to, "there is none at all: does the agent run?");
        return;
    }
    unsigned most = (unsigned)strlen(near->wanted) / 3 + 1, count = 0;
    while (count < near->kept_count && near->kept[count].distance <= most)
        count++;
    if (!count) {
        gt_buf_printf(to, "there %s %u, for example %s", near->seen == 1 ? "is" : "are", near->seen,
                      near->kept[0].name);
        return;
    }
    gt_buf_printf(to, "of the %u there are, near %s ", near->seen, count == 1 ? "is" : "are");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i == 0 ? "" : i + 1 == count ? " and " : ", ", near->kept[i].name);
}
