/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/node_json_get.h"

#include "base/err.h"

int gt_read_kind(const struct gt_at *at, const char *key, const cJSON *value, enum gt_link_kind *ret)
{
    char name[32] = "";
    GT_TRY(gt_read_text(at, key, value, name, sizeof(name)));
    enum gt_link_kind kind;
    if (!gt_link_kind_by_name(name, &kind) || kind == GT_LINK_SELF)
        return gt_at_fail(at, key, "\"%s\" is none of MX, PIX, PXB, PHB, NODE, SYS, NA", name);
    *ret = kind;
    return 0;
}

int gt_get_kind(const struct gt_at *at, const cJSON *object, const char *key, enum gt_link_kind *ret)
{
    const cJSON *value = gt_get(object, key);
    return value ? gt_read_kind(at, key, value, ret) : 0;
}

int gt_get_bdf(const struct gt_at *at, const cJSON *object, const char *key, char ret[static GT_BDF_SIZE])
{
    char text[64] = "";
    int r = gt_get_text(at, object, key, text, sizeof(text));
    if (r < 0 || !text[0])
        return r;
    if (!gt_bdf_normalise(text, ret))
        return gt_at_fail(at, key, "\"%s\" is no PCI address such as 0000:0e:00.0", text);
    return 0;
}
