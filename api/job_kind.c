/* SPDX-License-Identifier: Apache-2.0 */
#include "api/job_kind.h"

#include <stdint.h>
#include <string.h>

#include "api/condition.h"
#include "api/kinds/kind.h"
#include "api/names.h"

#define KIND_DECLARATION(name, file) extern const struct gt_kind gt_kind_##file;
GT_JOB_KIND_LIST(KIND_DECLARATION)

#define KIND_ENTRY(name, file) [GT_JOB_##name] = &gt_kind_##file,
static const struct gt_kind *const table[GT_JOB_CUSTOM] = {GT_JOB_KIND_LIST(KIND_ENTRY)};

static const struct gt_kind *described[GT_CUSTOM_KINDS_MAX];

void gt_kind_describe(unsigned number, const struct gt_kind *kind)
{
    described[number] = kind;
}

const struct gt_kind *gt_kind_of(enum gt_job_kind kind)
{
    return kind < GT_JOB_CUSTOM ? table[kind] : described[kind - GT_JOB_CUSTOM];
}

const struct gt_owner_type *gt_owner_type(enum gt_job_kind kind)
{
    const struct gt_kind *of = gt_kind_of(kind);
    return of ? &of->type : NULL;
}

bool gt_owner_is_watched(enum gt_job_kind kind)
{
    return kind < GT_JOB_KINDS && gt_kind_of(kind) && !gt_kind_of(kind)->is_only_checked;
}

enum gt_job_kind gt_owner_watched(unsigned number)
{
    unsigned i = 0;
    for (; i < GT_JOB_KINDS; i++) {
        if (gt_owner_is_watched((enum gt_job_kind)i) && !number--)
            break;
    }
    return (enum gt_job_kind)i;
}

static bool kind_is_type(const char *group, const char *kind, const char *api_version, const char *wanted)
{
    size_t len = strcspn(api_version, "/");
    return kind && strcmp(kind, wanted) == 0 && strlen(group) == len && strncmp(group, api_version, len) == 0;
}

enum gt_job_kind gt_owner_made_by(const char *api_version, const char *kind)
{
    enum gt_job_kind found = gt_owner_kind_of(api_version, kind);
    for (unsigned i = 0; kind && api_version && found == GT_JOB_KINDS && i < GT_JOB_KINDS; i++) {
        const struct gt_kind *of = gt_kind_of((enum gt_job_kind)i);
        if (of && kind_is_type(of->maker.group, of->maker.kind, api_version, kind))
            found = (enum gt_job_kind)i;
    }
    return found;
}

enum gt_job_kind gt_owner_kind_of(const char *api_version, const char *kind)
{
    enum gt_job_kind found = GT_JOB_KINDS;
    for (unsigned i = 0; kind && api_version && i < GT_JOB_KINDS; i++) {
        const struct gt_kind *of = gt_kind_of((enum gt_job_kind)i);
        if (!of || !kind_is_type(of->type.group, of->type.kind, api_version, kind))
            continue;
        const char *version = strchr(api_version, '/');
        if (version && strcmp(version + 1, of->type.version) == 0)
            return (enum gt_job_kind)i;
        found = found == GT_JOB_KINDS ? (enum gt_job_kind)i : found;
    }
    return found;
}

bool gt_owner_makes(enum gt_job_kind kind, const char *api_version, const char *owner_kind)
{
    const char *child = gt_kind_of(kind)->child.kind;
    return owner_kind &&
           ((child && strcmp(owner_kind, child) == 0) || gt_owner_kind_of(api_version, owner_kind) == kind);
}

bool gt_kind_condition_is_true(const cJSON *status, const char *type)
{
    struct gt_condition condition;
    gt_conditions_read(status, &type, 1, &condition);
    return condition.status == GT_CONDITION_TRUE;
}

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
