/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/err.h"
#include "cli/bundle.h"

/* Archives in the format ustar of POSIX, with plain files only. */

enum { TAR_BLOCK = 512 };

struct tar_header {
    char name[100], mode[8], uid[8], gid[8], size[12], mtime[12], sum[8], type, link[100], magic[6],
        version[2], user[32], group[32], major[8], minor[8], prefix[155], unused[12];
};
_Static_assert(sizeof(struct tar_header) == TAR_BLOCK, "a header is a block");

static unsigned header_sum(const struct tar_header *header)
{
    struct tar_header copy = *header;
    unsigned char bytes[TAR_BLOCK];
    unsigned sum = 0;
    memset(copy.sum, ' ', sizeof(copy.sum));
    memcpy(bytes, &copy, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        sum += bytes[i];
    return sum;
}

/* A long name is cut at a slash: what is before it is the prefix. */
static bool put_name(struct tar_header *header, const char *name)
{
    size_t len = strlen(name);
    const char *rest = name;
    if (len > sizeof(header->name)) {
        rest = strchr(name + len - sizeof(header->name) - 1, '/');
        if (!rest || (size_t)(rest - name) > sizeof(header->prefix) || !rest[1])
            return false;
        memcpy(header->prefix, name, (size_t)(rest - name));
        rest++;
    }
    memcpy(header->name, rest, strlen(rest));
    return true;
}

bool bundle_tar_add(struct gt_buf *to, const char *name, const char *data, size_t len, uint64_t unix_s)
{
    static const char zeros[TAR_BLOCK];
    struct tar_header header = {.mode = "0000644", .uid = "0000000", .gid = "0000000", .type = '0'};
    char text[24];
    if (!put_name(&header, name))
        return false;
    memcpy(header.magic, "ustar", 6);
    memcpy(header.version, "00", 2);
    snprintf(text, sizeof(text), "%011zo", len);
    memcpy(header.size, text, 11);
    snprintf(text, sizeof(text), "%011" PRIo64, unix_s);
    memcpy(header.mtime, text, 11);
    snprintf(text, sizeof(text), "%06o", header_sum(&header));
    memcpy(header.sum, text, 7);
    header.sum[7] = ' ';
    gt_buf_add(to, &header, sizeof(header));
    gt_buf_add(to, data, len);
    gt_buf_add(to, zeros, (TAR_BLOCK - len % TAR_BLOCK) % TAR_BLOCK);
    return true;
}

void bundle_tar_end(struct gt_buf *to)
{
    static const char zeros[2 * TAR_BLOCK];
    gt_buf_add(to, zeros, sizeof(zeros));
}

/* An octal number that ends with a NUL or a space. */
static bool read_octal(const char *field, size_t size, uint64_t *ret)
{
    char text[16] = "", *end; /* larger than any field */
    memcpy(text, field, size);
    *ret = strtoull(text, &end, 8);
    return end > text && end < text + size && (!*end || *end == ' ') && !strchr(text, '-');
}

int bundle_tar_next(const char *data, size_t len, size_t *at, struct bundle_file *ret, struct gt_err **err)
{
    struct tar_header header;
    uint64_t size, sum;
    if (len > 1 && memcmp(data, "\x1f\x8b", 2) == 0)
        return gt_fail(err, EINVAL, "it is compressed, gunzip it first");
    while (*at + TAR_BLOCK <= len && data[*at]) {
        memcpy(&header, data + *at, sizeof(header));
        if (memcmp(header.magic, "ustar", 5) != 0 || !read_octal(header.sum, sizeof(header.sum), &sum) ||
            sum != header_sum(&header) || !read_octal(header.size, sizeof(header.size), &size) ||
            size > len - *at - TAR_BLOCK)
            return gt_fail(err, EINVAL, "byte %zu: expected the tar archive of gputopo bundle", *at);
        ret->data = data + *at + TAR_BLOCK;
        ret->len = (size_t)size;
        snprintf(ret->name, sizeof(ret->name), "%.155s%s%.100s", header.prefix, *header.prefix ? "/" : "",
                 header.name);
        *at += TAR_BLOCK + (size + TAR_BLOCK - 1) / TAR_BLOCK * TAR_BLOCK;
        if (header.type == '0' || !header.type)
            return 1;
    }
    return *at + TAR_BLOCK <= len && *at
               ? 0
               : gt_fail(err, EINVAL, "byte %zu: expected the tar archive of gputopo bundle, it ends", *at);
}
