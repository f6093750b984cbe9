/* SPDX-License-Identifier: Apache-2.0 */
#include "kube/base64.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>

#include "base/err.h"

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void gt_base64_encode(const char *bytes, size_t len, struct gt_buf *to)
{
    for (size_t i = 0; i < len; i += 3) {
        size_t have = len - i < 3 ? len - i : 3;
        unsigned bits = (unsigned)(unsigned char)bytes[i] << 16;
        bits |= have > 1 ? (unsigned)(unsigned char)bytes[i + 1] << 8 : 0;
        bits |= have > 2 ? (unsigned)(unsigned char)bytes[i + 2] : 0;
        const char four[4] = {digits[bits >> 18], digits[bits >> 12 & 63],
                              have > 1 ? digits[bits >> 6 & 63] : '=', have > 2 ? digits[bits & 63] : '='};
        gt_buf_add(to, four, sizeof(four));
    }
}

int gt_base64_decode(const char *text, struct gt_buf *to, struct gt_err **err)
{
    uint32_t bits = 0;
    unsigned count = 0, padding = 0;
    for (const char *c = text; *c; c++) {
        if (strchr(" \t\r\n", *c))
            continue;
        const char *digit = strchr(digits, *c);
        if (*c == '=')
            padding++;
        else if (!digit || padding)
            return gt_fail(err, EINVAL, "not base64, at byte %zu", (size_t)(c - text));
        bits = bits << 6 | (*c == '=' ? 0 : (uint32_t)(digit - digits));
        if (++count % 4)
            continue;
        if (padding > 2)
            return gt_fail(err, EINVAL, "not base64, at byte %zu", (size_t)(c - text));
        const char bytes[] = {(char)(bits >> 16), (char)(bits >> 8), (char)bits};
        gt_buf_add(to, bytes, 3 - padding);
    }
    if (count % 4)
        return gt_fail(err, EINVAL, "base64 that is cut off");
    return gt_buf_check(to, "base64", err);
}
