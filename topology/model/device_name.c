/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/device_name.h"

#include <stdio.h>
#include <string.h>

static const char prefix[] = "gpu-";

bool gt_dra_device_name(const char *bdf, char to[static GT_DRA_DEVICE_SIZE])
{
    char canonical[GT_BDF_SIZE];
    if (!gt_bdf_normalise(bdf, canonical))
        return false;
    snprintf(to, GT_DRA_DEVICE_SIZE, "%s%s", prefix, canonical);
    for (char *c = to; *c; c++)
        if (*c == ':' || *c == '.')
            *c = '-';
    return true;
}

bool gt_dra_device_bdf(const char *name, char to[static GT_BDF_SIZE])
{
    char text[GT_BDF_SIZE], again[GT_DRA_DEVICE_SIZE], canonical[GT_BDF_SIZE];
    size_t skip = strlen(prefix), len = strlen(name);
    if (strncmp(name, prefix, skip) != 0 || len - skip >= sizeof(text) || len - skip < strlen("0000-00-00-0"))
        return false;
    memcpy(text, name + skip, len - skip + 1);
    len -= skip;
    /* "dddd-bb-dd-f", the first part of four or more digits */
    text[len - 2] = '.';
    text[len - 5] = text[len - 8] = ':';
    if (!gt_bdf_normalise(text, canonical) || !gt_dra_device_name(canonical, again) ||
        strcmp(again, name) != 0)
        return false;
    memcpy(to, canonical, sizeof(canonical));
    return true;
}
