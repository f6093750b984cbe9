/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text.h"
#include "topology/model/node.h"
#include "topology/model/node_internal.h"

static const char *const kind_names[] = {
    [GT_LINK_SELF] = "X",  [GT_LINK_MX] = "MX",     [GT_LINK_PIX] = "PIX", [GT_LINK_PXB] = "PXB",
    [GT_LINK_PHB] = "PHB", [GT_LINK_NODE] = "NODE", [GT_LINK_SYS] = "SYS", [GT_LINK_UNKNOWN] = "NA",
};

const char *gt_link_kind_name(enum gt_link_kind kind)
{
    return kind < GT_COUNT(kind_names) ? kind_names[kind] : "NA";
}

bool gt_link_kind_by_name(const char *name, enum gt_link_kind *ret)
{
    for (unsigned i = 0; i < GT_COUNT(kind_names); i++)
        if (!strcmp(name, kind_names[i])) {
            *ret = (enum gt_link_kind)i;
            return true;
        }
    return false;
}

const char *const gt_link_state_names[] = {
    [GT_LINK_STATE_UNKNOWN] = "unknown", [GT_LINK_STATE_UP] = "up", [GT_LINK_STATE_DOWN] = "down", NULL};
const char *const gt_gpu_mode_names[] = {
    [GT_GPU_NATIVE] = "native", [GT_GPU_SGPU] = "sgpu", [GT_GPU_VF] = "vf", [GT_GPU_VFIO] = "vfio", NULL};
const char *const gt_gpu_health_names[] = {[GT_GPU_HEALTH_UNKNOWN] = "unknown",
                                           [GT_GPU_HEALTHY] = "healthy",
                                           [GT_GPU_UNHEALTHY] = "unhealthy",
                                           NULL};

const char *gt_link_state_name(enum gt_link_state state)
{
    return gt_link_state_names[state];
}

const char *gt_gpu_mode_name(enum gt_gpu_mode mode)
{
    return gt_gpu_mode_names[mode];
}

const char *gt_gpu_health_name(enum gt_gpu_health health)
{
    return gt_gpu_health_names[health];
}

const char *gt_gpu_grade_name(enum gt_gpu_grade grade)
{
    return grade == GT_GRADE_SLOW ? "slow" : grade == GT_GRADE_SUSPECT ? "suspect" : "";
}

bool gt_gpu_grade_by_name(const char *name, enum gt_gpu_grade *ret)
{
    for (enum gt_gpu_grade grade = GT_GRADE_SUSPECT; grade <= GT_GRADE_SLOW; grade++)
        if (strcmp(name, gt_gpu_grade_name(grade)) == 0) {
            *ret = grade;
            return true;
        }
    return false;
}

/* Reads min to max hex digits; false for fewer, the text after them in *text. */
static bool read_hex(const char **text, unsigned min, unsigned max, unsigned *ret)
{
    unsigned value = 0, n = 0;
    for (; n < max; n++) {
        char c = (*text)[n];
        unsigned digit;
        if (c >= '0' && c <= '9')
            digit = (unsigned)(c - '0');
        else if (c >= 'a' && c <= 'f')
            digit = (unsigned)(c - 'a') + 10;
        else if (c >= 'A' && c <= 'F')
            digit = (unsigned)(c - 'A') + 10;
        else
            break;
        value = value << 4 | digit;
    }
    if (n < min)
        return false;
    *text += n;
    *ret = value;
    return true;
}

struct bdf {
    unsigned domain, bus, device, function;
};

static bool read_bdf(const char *text, struct bdf *ret)
{
    struct bdf bdf = {0};
    const char *p = text;
    if (strlen(text) > 7) { /* longer than "0e:00.0": with a domain */
        if (!read_hex(&p, 4, 8, &bdf.domain) || *p++ != ':')
            return false;
    }
    if (!read_hex(&p, 2, 2, &bdf.bus) || *p++ != ':' || !read_hex(&p, 2, 2, &bdf.device) || *p++ != '.' ||
        !read_hex(&p, 1, 1, &bdf.function) || *p)
        return false;
    if (bdf.device > 0x1f || bdf.function > 7)
        return false;
    *ret = bdf;
    return true;
}

bool gt_bdf_normalise(const char *text, char to[static GT_BDF_SIZE])
{
    struct bdf bdf;
    if (!read_bdf(text, &bdf))
        return false;
    snprintf(to, GT_BDF_SIZE, "%04x:%02x:%02x.%x", bdf.domain, bdf.bus, bdf.device, bdf.function);
    return true;
}

int gt_node_gpu_at(const struct gt_node *node, const char *bdf)
{
    const struct gt_gpu *gpu = GT_FIND(node->gpus, node->gpu_count, bdf, bdf);
    return gpu ? (int)(gpu - node->gpus) : -1;
}

int gt_node_gpu_named(const struct gt_node *node, const char *name)
{
    char bdf[GT_BDF_SIZE], id[GT_ID_SIZE];
    uint64_t index;
    bool is_bdf = gt_bdf_normalise(name, bdf);
    if (gt_text_to_unsigned(name, GT_GPUS_MAX, &index))
        return index < node->gpu_count ? (int)index : -1;
    for (unsigned i = 0; *name && i < node->gpu_count; i++) {
        gt_gpu_device_id(&node->gpus[i], id);
        if (strcasecmp(name, node->gpus[i].uuid) == 0 || strcasecmp(name, id) == 0 ||
            (is_bdf && strcmp(bdf, node->gpus[i].bdf) == 0))
            return (int)i;
    }
    return -1;
}

int gt_bdf_compare(const char *a, const char *b)
{
    struct bdf x, y;
    bool has_x = read_bdf(a, &x), has_y = read_bdf(b, &y);
    if (!has_x || !has_y) /* those that are none are in front */
        return has_x != has_y ? (has_x ? 1 : -1) : strcmp(a, b);
    GT_BY(x.domain, y.domain);
    unsigned low_x = x.bus << 8 | x.device << 3 | x.function;
    unsigned low_y = y.bus << 8 | y.device << 3 | y.function;
    return (low_x > low_y) - (low_x < low_y);
}

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
