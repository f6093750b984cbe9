/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "base/text.h"
#include "cli/cli.h"

enum { SHOWN = 100 }; /* most bytes of the user's text in a message */

static bool is_number_or_range(const char *item)
{
    return item[0] >= '0' && item[0] <= '9' && strspn(item, "0123456789-") == strlen(item);
}

/* The mask of "3" or "0-3". */
static int add_range(const struct gt_node *node, char *item, uint64_t *mask, struct gt_err **err)
{
    uint64_t first, last;
    char *dash = strchr(item, '-');
    bool valid;
    if (dash) {
        *dash = '\0';
        valid = gt_text_to_unsigned(item, UINT32_MAX, &first) &&
                gt_text_to_unsigned(dash + 1, UINT32_MAX, &last) && first <= last;
        *dash = '-';
    } else {
        valid = gt_text_to_unsigned(item, UINT32_MAX, &first);
        last = first;
    }
    if (!valid)
        return gt_fail(err, EINVAL, "--free: '%.*s' is not an index or a range", SHOWN, item);
    if (last >= node->gpu_count)
        return gt_fail(err, EINVAL, "--free: there is no GPU %.*s, expected 0..%u", SHOWN, item,
                       node->gpu_count - 1);
    for (uint64_t i = first; i <= last; i++)
        *mask |= UINT64_C(1) << i;
    return 0;
}

static int add_named(const struct gt_node *node, const char *item, uint64_t *mask, struct gt_err **err)
{
    int gpu = gt_node_gpu_named(node, item);
    if (gpu >= 0) {
        *mask |= UINT64_C(1) << gpu;
        return 0;
    }
    return gt_fail(err, EINVAL, "--free: '%.*s' is no GPU of this node, expected indices 0..%u or UUIDs",
                   SHOWN, item, node->gpu_count - 1);
}

int cli_gpu_list(const struct gt_node *node, const char *text, uint64_t *ret, struct gt_err **err)
{
    uint64_t mask = 0;
    for (const char *p = text; *text;) { /* the empty text is the empty list */
        size_t len = strcspn(p, ",");
        char item[GT_ID_SIZE];
        if (len == 0)
            return gt_fail(err, EINVAL, "--free: '%.*s' has an empty part", SHOWN, text);
        if (len >= sizeof(item))
            return gt_fail(err, EINVAL, "--free: '%.*s' is no GPU of this node", SHOWN, p);
        memcpy(item, p, len);
        item[len] = '\0';
        int r =
            is_number_or_range(item) ? add_range(node, item, &mask, err) : add_named(node, item, &mask, err);
        if (r < 0)
            return r;
        if (!p[len])
            break;
        p += len + 1;
    }
    *ret = mask;
    return 0;
}
