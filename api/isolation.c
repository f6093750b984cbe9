/* SPDX-License-Identifier: Apache-2.0 */
#include "api/isolation.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "api/meta.h"
#include "base/err.h"
#include "base/json.h"
#include "base/json_write.h"
#include "base/text.h"
#include "base/time_text.h"

enum { REASON_BYTES_MAX = 400 }; /* the API server counts characters, 100 */

const cJSON *gt_isolated_entries(const cJSON *object)
{
    return gt_get_at(object, "spec", "isolated");
}

void gt_isolated_patch_write(const char *resource_version, const cJSON *entries, struct gt_buf *to)
{
    gt_json_printf(to, "{'metadata': {'resourceVersion': %s}, 'spec': {", resource_version);
    gt_json_add_tree(to, "isolated", entries);
    gt_buf_puts(to, "}}");
}

const char *gt_self_review_user(const cJSON *review)
{
    return gt_get_string(gt_get_at(review, "status", "userInfo"), "username");
}

static int isolation_read_link(const struct gt_at *at, const cJSON *item, struct gt_isolation *to)
{
    const cJSON *link;
    unsigned count;
    GT_TRY(gt_get_array(at, item, "link", 2, &link, &count));
    if (link && count != 2)
        return gt_at_fail(at, "link", "expected two GPUs");
    if (link)
        GT_TRY(gt_read_text(at, "link[0]", link->child, to->gpu, sizeof(to->gpu)));
    return link ? gt_read_text(at, "link[1]", link->child->next, to->peer, sizeof(to->peer)) : 0;
}

/* `bad`, the default, has no grade here. */
static int isolation_read_grade(const struct gt_at *at, const cJSON *item, struct gt_isolation *to)
{
    const char *grade = gt_get_string(item, "grade"), *value = "";
    GT_TRY(gt_api_text(at, item, "value", REASON_BYTES_MAX, &value));
    gt_text_cut(to->value, sizeof(to->value), value);
    if (*grade && strcmp(grade, GT_GRADE_BAD) != 0 && !gt_gpu_grade_by_name(grade, &to->grade))
        return gt_at_fail(at, "grade", "'%.40s' is none of bad, slow, suspect", grade);
    return to->grade && (to->peer[0] || to->evicts)
               ? gt_at_fail(at, "grade", "'%s' is for GPUs that stay in use: without link and evict", grade)
               : 0;
}

static int isolation_read_entry(const struct gt_at *at, const cJSON *item, struct gt_isolation *to)
{
    const char *reason = "", *until = gt_get_string(item, "until");
    bool all = false;
    GT_TRY(isolation_read_link(at, item, to));
    GT_TRY(gt_get_text(at, item, "gpu", to->gpu, sizeof(to->gpu)));
    GT_TRY(gt_get_bool(at, item, "all", &all));
    GT_TRY(gt_get_bool(at, item, "evict", &to->evicts));
    GT_TRY(gt_get_integer(at, item, "holdSeconds", GT_FAULT_SECONDS_MAX, &to->hold_s));
    GT_TRY(gt_api_text(at, item, "reason", REASON_BYTES_MAX, &reason));
    if (all == (to->gpu[0] != '\0'))
        return gt_at_fail(at, "", "expected one of gpu, link and all");
    GT_TRY(isolation_read_grade(at, item, to));
    gt_text_cut(to->reason, sizeof(to->reason), *reason ? reason : "no reason is given");
    to->until_s = gt_time_of_text(until);
    return *until && !to->until_s ? gt_at_fail(at, "until", "'%.40s' is no time", until) : 0;
}

/* Adds the entries of a list. 1: it is there. */
static int isolation_read_list(const struct gt_at *at, const cJSON *in, const char *key,
                               struct gt_isolations *to)
{
    char path[48];
    struct gt_at below = {at->source, path, at->err};
    const cJSON *list;
    unsigned count, i = 0;
    GT_TRY(gt_get_array(at, in, key, GT_ISOLATIONS_MAX - to->count, &list, &count));
    for (const cJSON *item = list ? list->child : NULL; item; item = item->next) {
        snprintf(path, sizeof(path), "%s%s%s[%u]", at->path, *at->path ? "." : "", key, i++);
        GT_TRY(isolation_read_entry(&below, item, &to->of[to->count++]));
    }
    return list != NULL;
}

int gt_isolations_read(const cJSON *object, struct gt_isolations *ret, struct gt_err **err)
{
    struct gt_isolations made = {0};
    struct gt_at at = {"NodeGPUTopology", "spec", err};
    gt_text_cut(made.object, sizeof(made.object), gt_meta_uid(object));
    int r = isolation_read_list(&at, gt_get(object, "spec"), "isolated", &made);
    if (r >= 0)
        *ret = made;
    return r;
}

int gt_fault_list_read(const cJSON *file, struct gt_isolations *to, struct gt_err **err)
{
    struct gt_isolations made = *to;
    struct gt_at at = {"fault file", "", err};
    unsigned version = 0;
    GT_TRY(gt_get_unsigned(&at, file, "version", UINT_MAX, &version));
    if (version != 1)
        return gt_at_fail(&at, "version", "%u is not known here, 1 is", version);
    int r = isolation_read_list(&at, file, "faults", &made);
    if (r == 0)
        return gt_at_fail(&at, "faults", "is not there");
    if (r > 0)
        *to = made;
    return r;
}

void gt_isolations_write(const struct gt_isolations *isolations, struct gt_buf *to)
{
    gt_json_printf(to, "{'metadata': {'uid': %s}, 'spec': {'isolated': [", isolations->object);
    for (unsigned i = 0; i < isolations->count; i++) {
        const struct gt_isolation *isolation = &isolations->of[i];
        char until[GT_TIME_TEXT_SIZE] = "";
        if (isolation->until_s)
            gt_time_text(isolation->until_s, until);
        if (isolation->peer[0])
            gt_json_printf(to, "{'link': [%s, %s]", isolation->gpu, isolation->peer);
        else
            gt_json_printf(to, "{?'gpu': %s, ?'all': !%d", isolation->gpu, !isolation->gpu[0]);
        gt_json_printf(to,
                       "?'grade': %s, ?'value': %s, 'reason': %s, ?'evict': !%d, "
                       "?'until': %s, ?'holdSeconds': %llu}",
                       gt_gpu_grade_name(isolation->grade), isolation->value, isolation->reason,
                       isolation->evicts, until, (unsigned long long)isolation->hold_s);
    }
    gt_buf_puts(to, "]}}");
}
