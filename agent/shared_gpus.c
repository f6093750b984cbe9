/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/shared_gpus.h"

#include <stdio.h>
#include <string.h>

#include "api/names.h"

bool gt_shares_evaluate(struct gt_shares *shares, uint64_t now_ms)
{
    bool was = shares->withdrawn;
    if (shares->offered || shares->held || shares->annotated) {
        shares->seen_ms = now_ms;
        shares->withdrawn = true;
    } else if (was && now_ms - shares->seen_ms >= GT_SHARES_GONE_MS)
        shares->withdrawn = false;
    return shares->withdrawn != was;
}

void gt_shares_why(const struct gt_shares *shares, char *to, unsigned size)
{
    if (shares->offered)
        snprintf(to, size, "the kubelet offers %u " GT_RESOURCE_SGPU, shares->offered);
    else if (shares->held)
        snprintf(to, size, "containers hold %u " GT_RESOURCE_SGPU, shares->held);
    else if (shares->annotated)
        snprintf(to, size, "the Node has the annotation " GT_ANNOTATION_VENDOR_GPUS);
    else
        snprintf(to, size, "%s", shares->withdrawn ? "the last sign of sGPUs is less than a minute old" : "");
}

bool gt_shares_annotation_counts(const char *text)
{
    static const char blank[] = " \t\r\n";
    if (!text)
        return false;
    text += strspn(text, blank);
    if (*text == '[') {
        text++;
        text += strspn(text, blank);
        return *text != ']';
    }
    return *text != '\0';
}
