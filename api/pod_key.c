/* SPDX-License-Identifier: Apache-2.0 */
#include "api/pod_key.h"

#include <stdint.h>
#include <string.h>

#include "api/names.h"

#define POD_KEY(name, text) [GT_KEY_##name] = {text, sizeof(text) - 1},
static struct pod_key_text {
    const char *text; /* NULL: unused */
    size_t len;
} keys[GT_POD_KEYS] = {
    POD_KEY(GROUP, GT_ANNOTATION_GROUP) POD_KEY(ATOMIC, GT_ANNOTATION_ATOMIC)
        POD_KEY(LOSS, GT_ANNOTATION_LOSS) POD_KEY(UNPLACED, GT_ANNOTATION_UNPLACED)
            POD_KEY(SPREAD, GT_ANNOTATION_SPREAD) POD_KEY(JOB_TOPOLOGY, GT_ANNOTATION_JOB_TOPOLOGY)
                POD_KEY(GROUP_TOPOLOGY, GT_ANNOTATION_GROUP_TOPOLOGY) POD_KEY(SLOW, GT_ANNOTATION_SLOW)
                    POD_KEY(PLAN_UNIT, GT_PLAN_ANNOTATION_UNIT) POD_KEY(PLAN_RANK, GT_PLAN_ANNOTATION_RANK)
                        POD_KEY(POD_GROUP, GT_ANNOTATION_POD_GROUP) POD_KEY(MOVABLE, GT_ANNOTATION_MOVABLE)
                            POD_KEY(COST, GT_ANNOTATION_COST) POD_KEY(MOVE_TO, GT_ANNOTATION_MOVE_TO)
                                POD_KEY(CHECKPOINT_ASKED, GT_ANNOTATION_CHECKPOINT_ASKED)
                                    POD_KEY(CHECKPOINT_DONE, GT_ANNOTATION_CHECKPOINT_DONE)
                                        GT_JOB_KEY_LIST(POD_KEY)};

const char *gt_pod_key_text(enum gt_pod_key key)
{
    return keys[key].text;
}

enum gt_pod_key gt_pod_key_of(const char *text)
{
    size_t len = strlen(text);
    unsigned i = 0;
    while (i < GT_POD_KEYS && keys[i].text && (keys[i].len != len || memcmp(keys[i].text, text, len) != 0))
        i++;
    return i < GT_POD_KEYS && keys[i].text ? (enum gt_pod_key)i : GT_POD_KEYS;
}

enum gt_pod_key gt_pod_key_add(const char *text)
{
    unsigned i = GT_KEY_CUSTOM;
    while (i < GT_POD_KEYS && keys[i].text)
        i++;
    if (i < GT_POD_KEYS)
        keys[i] = (struct pod_key_text){strdup(text), strlen(text)};
    return i < GT_POD_KEYS && keys[i].text ? (enum gt_pod_key)i : GT_POD_KEYS;
}
