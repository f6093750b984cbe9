/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/fuzz.h"
#include "topology/probe/protocol.h"

/* What a client sends to the probe, and what a probe sends to a client. */
static void read_requests(const char *data, size_t size)
{
    while (size) {
        size_t used = 0;
        enum gt_probe_request request = gt_probe_read_request(data, size, &used);
        if (request == GT_PROBE_BAD)
            return;
        if (request == GT_PROBE_INCOMPLETE) {
            if (size >= GT_PROBE_REQUEST_MAX || memchr(data, '\n', size))
                abort();
            return;
        }
        if (!used || used > size || data[used - 1] != '\n')
            abort();
        data += used;
        size -= used;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char nothing[1];
    const char *text = size ? (const char *)data : nothing;
    struct gt_probe_header header = {0};
    read_requests(text, size);
    int r = gt_probe_read_header(text, size, &header);
    if (r > 0 && ((size_t)r > size || header.length > GT_PROBE_DOCUMENT_MAX ||
                  strnlen(header.error, sizeof(header.error)) == sizeof(header.error)))
        abort();
    if (r == 0 && size >= GT_PROBE_HEADER_MAX)
        abort();
    return 0;
}
