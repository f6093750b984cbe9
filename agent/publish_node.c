/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <string.h>

#include "agent/publish_text.h"
#include "api/names.h"
#include "api/node.h"
#include "base/json_write.h"
#include "kube/status.h"

enum { LABEL_MAX = 63, HAMI_WORST_LOSS = 1999, MAP_MAX = 4096 };

static const char *const label_keys[GT_PUBLISH_LABELS_COUNT] = {GT_LABEL_GPU_FAMILY, GT_LABEL_GPU_MEMORY,
                                                                GT_LABEL_GPU_PRODUCT};

const char *gt_publish_label_key(enum gt_publish_label label)
{
    return label_keys[label];
}

/* A JSON object inside a JSON string. HAMi takes a number that is not there for the best of all, so there is
 * one for each; a node may have room for more GPUs than it has, while lost ones are still listed. */
static const char *write_map(const uint16_t *values, unsigned known, unsigned capacity, unsigned beyond,
                             struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    for (unsigned k = 1; k <= capacity; k++) {
        char number[16];
        snprintf(number, sizeof(number), "%u", k);
        gt_json_add_unsigned(to, number, k <= known ? values[k] : beyond);
    }
    gt_json_end(to, '}');
    return to->data ? to->data : "";
}

void gt_publish_write_annotations(const char *node_name, const char *uid,
                                  const struct gt_publish_scores *scores, unsigned capacity,
                                  struct gt_buf *to)
{
    gt_auto_buf struct gt_buf losses = GT_BUF(MAP_MAX), points = GT_BUF(MAP_MAX);
    const struct gt_pair pairs[] = {
        {GT_ANNOTATION_LOSSES,
         write_map(scores->maps.losses, scores->maps.n, capacity, HAMI_WORST_LOSS, &losses)},
        {GT_ANNOTATION_SCORES, write_map(scores->maps.scores, scores->maps.n, capacity, 0, &points)},
    };
    gt_node_object_write(node_name, uid, GT_NODE_ANNOTATIONS, pairs, capacity ? GT_COUNT(pairs) : 0, to);
    to->failed |= losses.failed || points.failed;
}

static bool publish_node_is_alphanumeric(char c)
{
    return isalnum((unsigned char)c);
}

/* Characters that a label's value must not have become '-'; it begins and ends with a letter or digit. */
static void publish_node_clean(const char *text, char to[static LABEL_MAX + 1])
{
    size_t len = 0;
    while (*text && !publish_node_is_alphanumeric(*text))
        text++;
    for (; *text && len < LABEL_MAX; text++)
        to[len++] = publish_node_is_alphanumeric(*text) || strchr("-_.", *text) ? *text : '-';
    while (len && !publish_node_is_alphanumeric(to[len - 1]))
        len--;
    to[len] = '\0';
}

/* "MXC" of "MXC500": MetaX's names begin so, others have no family. */
static void family_of(const struct gt_gpu *gpu, char to[static LABEL_MAX + 1])
{
    size_t len = strspn(gpu->product, "ABCDEFGHIJKLMNOPQRSTUVWXYZ");
    to[0] = '\0';
    if (strncmp(gpu->product, "MX", 2) == 0 && len > 2 && len <= LABEL_MAX) {
        memcpy(to, gpu->product, len);
        to[len] = '\0';
    }
}

static void publish_node_memory_of(const struct gt_gpu *gpu, char to[static LABEL_MAX + 1])
{
    unsigned long long gib = (gpu->memory_bytes + (1ULL << 29)) >> 30;
    to[0] = '\0';
    if (gib)
        snprintf(to, LABEL_MAX + 1, "%lluGB", gib);
}

static void publish_node_label_of(enum gt_publish_label label, const struct gt_gpu *gpu,
                                  char to[static LABEL_MAX + 1])
{
    if (label == GT_LABEL_FAMILY)
        family_of(gpu, to);
    else if (label == GT_LABEL_MEMORY)
        publish_node_memory_of(gpu, to);
    else
        publish_node_clean(gpu->product, to);
}

static bool agree(enum gt_publish_label label, const struct gt_node *node, char to[static LABEL_MAX + 1])
{
    to[0] = '\0';
    for (unsigned i = 0; i < node->gpu_count; i++) {
        char other[LABEL_MAX + 1];
        publish_node_label_of(label, &node->gpus[i], i ? other : to);
        if (i && strcmp(to, other) != 0)
            return false;
    }
    return to[0] != '\0';
}

void gt_publish_write_labels(const char *node_name, const char *uid, const struct gt_node *node,
                             unsigned left_out, struct gt_buf *to)
{
    char values[GT_PUBLISH_LABELS_COUNT][LABEL_MAX + 1];
    struct gt_pair pairs[GT_PUBLISH_LABELS_COUNT];
    unsigned count = 0;
    for (unsigned i = 0; i < GT_PUBLISH_LABELS_COUNT; i++)
        if (!(left_out >> i & 1) && agree((enum gt_publish_label)i, node, values[i]))
            pairs[count++] = (struct gt_pair){label_keys[i], values[i]};
    gt_node_object_write(node_name, uid, GT_NODE_LABELS, pairs, count, to);
}

unsigned gt_publish_labels_in_conflict(const cJSON *status)
{
    unsigned found = 0;
    for (unsigned i = 0; i < GT_PUBLISH_LABELS_COUNT; i++)
        if (gt_kube_is_about(status, label_keys[i]))
            found |= 1U << i;
    return found;
}
