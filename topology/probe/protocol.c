/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/text.h"

static bool line_is(const char *data, size_t len, const char *word)
{
    return strlen(word) == len && memcmp(data, word, len) == 0;
}

enum gt_probe_request gt_probe_read_request(const char *data, size_t len, size_t *ret_used)
{
    const char *end = len ? memchr(data, '\n', len) : NULL;
    if (!end)
        return len >= GT_PROBE_REQUEST_MAX ? GT_PROBE_BAD : GT_PROBE_INCOMPLETE;
    size_t line = (size_t)(end - data);
    enum gt_probe_request request = GT_PROBE_BAD;
    if (line_is(data, line, "ping"))
        request = GT_PROBE_PING;
    else if (line_is(data, line, "scan"))
        request = GT_PROBE_SCAN;
    else if (line_is(data, line, "health"))
        request = GT_PROBE_HEALTH;
    else if (line_is(data, line, "watch"))
        request = GT_PROBE_WATCH;
    if (request != GT_PROBE_BAD)
        *ret_used = line + 1;
    return request;
}

/* "ok LENGTH RESTARTS" or "error TEXT" */
static bool read_words(char *line, struct gt_probe_header *ret)
{
    if (strncmp(line, "error ", 6) == 0)
        return line[6] && gt_text_copy(ret->error, sizeof(ret->error), line + 6);
    if (strncmp(line, "ok ", 3) != 0)
        return false;
    char *length = line + 3, *restarts = strchr(length, ' ');
    if (!restarts)
        return false;
    *restarts++ = '\0';
    uint64_t bytes, count;
    if (!gt_text_to_unsigned(length, GT_PROBE_DOCUMENT_MAX, &bytes) ||
        !gt_text_to_unsigned(restarts, 1000, &count))
        return false;
    ret->length = (size_t)bytes;
    ret->restarts = (unsigned)count;
    return true;
}

int gt_probe_read_header(const char *data, size_t len, struct gt_probe_header *ret)
{
    const char *end = len ? memchr(data, '\n', len) : NULL;
    if (!end)
        return len >= GT_PROBE_HEADER_MAX ? -EBADMSG : 0;
    size_t used = (size_t)(end - data);
    char line[GT_PROBE_HEADER_MAX];
    if (used >= sizeof(line) || memchr(data, '\0', used))
        return -EBADMSG;
    memcpy(line, data, used);
    line[used] = '\0';
    struct gt_probe_header header = {0};
    if (!read_words(line, &header))
        return -EBADMSG;
    *ret = header;
    return (int)used + 1;
}
