/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/isolation.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"
#include "topology/model/measured.h"

enum { CHECK_S = 60 };

static bool isolation_is_over(const struct gt_isolation *isolation, int64_t now_s)
{
    return isolation->until_s && isolation->until_s <= now_s;
}

static bool keeps_pods(const struct gt_gpu *gpu)
{
    return strncmp(gpu->unhealthy_reason, GT_ISOLATED, strlen(GT_ISOLATED)) == 0;
}

static void grade_gpu(const struct gt_isolation *isolation, struct gt_gpu *gpu)
{
    char text[GT_ISOLATION_VALUE_SIZE + GT_ISOLATION_REASON_SIZE + 2];
    if (isolation->grade <= gpu->grade)
        return;
    gpu->grade = isolation->grade;
    snprintf(text, sizeof(text), "%s%s%s", isolation->value, isolation->value[0] ? ": " : "",
             isolation->reason);
    gt_text_shorten(gpu->grade_reason, sizeof(gpu->grade_reason), text);
}

static void isolate_gpu(const struct gt_isolation *isolation, struct gt_gpu *gpu)
{
    if (isolation->grade) {
        grade_gpu(isolation, gpu);
        return;
    }
    if (!gt_gpu_usable(gpu) && !(isolation->evicts && keeps_pods(gpu)))
        return;
    gpu->health = GT_GPU_UNHEALTHY;
    gpu->cause = GT_CAUSE_ISOLATED;
    snprintf(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), "%s%s",
             isolation->evicts ? GT_ISOLATED_EVICT : GT_ISOLATED, isolation->reason);
}

static void isolate(const struct gt_isolation *isolation, struct gt_node *node)
{
    int gpu = gt_node_gpu_named(node, isolation->gpu), peer = gt_node_gpu_named(node, isolation->peer);
    if (isolation->peer[0]) {
        struct gt_link *link =
            gpu >= 0 && peer >= 0 ? gt_node_link(node, (unsigned)gpu, (unsigned)peer) : NULL;
        if (link && link->kind == GT_LINK_MX)
            link->state = GT_LINK_STATE_DOWN;
    } else if (gpu >= 0)
        isolate_gpu(isolation, &node->gpus[gpu]);
    for (unsigned i = 0; !isolation->gpu[0] && i < node->gpu_count; i++)
        isolate_gpu(isolation, &node->gpus[i]);
}

int gt_isolations_apply(const struct gt_isolations *isolations, int64_t now_s, struct gt_node *node,
                        struct gt_err **err)
{
    for (unsigned i = 0; i < isolations->count; i++)
        if (!isolation_is_over(&isolations->of[i], now_s))
            isolate(&isolations->of[i], node);
    return gt_node_finish(node, err);
}

uint64_t gt_node_isolated(const struct gt_node *node)
{
    uint64_t isolated = 0;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (keeps_pods(&node->gpus[i]))
            isolated |= UINT64_C(1) << i;
    return isolated;
}

bool gt_isolations_equal(const struct gt_isolations *a, const struct gt_isolations *b)
{
    bool equal = a->count == b->count && strcmp(a->object, b->object) == 0;
    for (unsigned i = 0; equal && i < a->count; i++) {
        const struct gt_isolation *x = &a->of[i], *y = &b->of[i];
        equal = x->until_s == y->until_s && x->hold_s == y->hold_s && x->evicts == y->evicts &&
                x->grade == y->grade && strcmp(x->gpu, y->gpu) == 0 && strcmp(x->peer, y->peer) == 0 &&
                strcmp(x->reason, y->reason) == 0 && strcmp(x->value, y->value) == 0;
    }
    return equal;
}

uint64_t gt_isolations_over(const struct gt_isolations *isolations, int64_t now_s, unsigned *ret_again_s)
{
    uint64_t over = 0;
    *ret_again_s = 0;
    for (unsigned i = 0; i < isolations->count; i++) {
        int64_t until_s = isolations->of[i].until_s, in_s = until_s - now_s;
        if (!until_s)
            continue;
        if (isolation_is_over(&isolations->of[i], now_s))
            over |= UINT64_C(1) << i;
        if (!*ret_again_s)
            *ret_again_s = CHECK_S;
        if (in_s > 0 && in_s < *ret_again_s)
            *ret_again_s = (unsigned)in_s;
    }
    return over;
}

/* ---- what comes and goes ---- */

#define CAME_AGAIN "came again and again"

static bool damper_is_same(const struct gt_isolation *a, const struct gt_isolation *b)
{
    return !a->grade == !b->grade && strcmp(a->gpu, b->gpu) == 0 && strcmp(a->peer, b->peer) == 0;
}

static struct gt_isolation_damped *damper_find(struct gt_isolation_damper *damper,
                                               const struct gt_isolation *isolation)
{
    for (unsigned i = 0; i < damper->count; i++)
        if (damper_is_same(&damper->of[i].last, isolation))
            return &damper->of[i];
    return NULL;
}

/* Notes what is told. What takes nothing out of use is not held. */
static void damper_note(struct gt_isolation_damper *damper, const struct gt_isolations *isolations)
{
    for (unsigned i = 0; i < isolations->count; i++) {
        struct gt_isolation_damped *one = damper_find(damper, &isolations->of[i]);
        if (!one && !isolations->of[i].grade && damper->count < GT_ISOLATIONS_MAX) {
            one = &damper->of[damper->count++];
            *one = (struct gt_isolation_damped){.is_held = false};
        }
        if (one)
            one->last = isolations->of[i];
    }
}

static void damper_hold(const struct gt_isolation_damped *damped, struct gt_isolations *to)
{
    if (to->count == GT_ISOLATIONS_MAX)
        return;
    struct gt_isolation *held = &to->of[to->count++];
    char text[2 * GT_ISOLATION_REASON_SIZE];
    *held = damped->last;
    held->until_s = 0;
    held->hold_s = damped->flapping.hold_s;
    if (strncmp(damped->last.reason, CAME_AGAIN, strlen(CAME_AGAIN)) == 0)
        return; /* of the process before, which has said it */
    snprintf(text, sizeof(text), CAME_AGAIN ", has to be away for %llu s; last: %s",
             (unsigned long long)damped->flapping.hold_s, damped->last.reason);
    gt_text_shorten(held->reason, sizeof(held->reason), text);
}

void gt_isolations_damp(struct gt_isolation_damper *damper, const struct gt_flapping_rule *rule,
                        const struct gt_isolations *isolations, uint64_t now_s, struct gt_isolations *ret)
{
    unsigned kept = 0;
    *ret = *isolations;
    damper_note(damper, isolations);
    for (unsigned i = 0; i < damper->count; i++) {
        struct gt_isolation_damped *one = &damper->of[i];
        struct gt_flapping *flapping = &one->flapping;
        bool is_told = false;
        for (unsigned j = 0; j < isolations->count; j++)
            is_told = is_told || damper_is_same(&isolations->of[j], &one->last);
        one->is_held = gt_flapping_settle(flapping, rule, one->is_held, is_told, false, now_s);
        for (unsigned j = 0; j < isolations->count; j++)
            if (damper_is_same(&isolations->of[j], &one->last))
                ret->of[j].hold_s = flapping->hold_s;
        if (one->is_held && !is_told)
            damper_hold(one, ret);
        uint64_t away_s = one->is_held ? 0 : now_s - flapping->recovered_s;
        if (away_s <= rule->within_s || away_s <= 2 * flapping->hold_s)
            damper->of[kept++] = *one;
    }
    damper->count = kept;
}

void gt_isolations_restore(struct gt_isolation_damper *damper, const struct gt_flapping_rule *rule,
                           const struct gt_isolations *before)
{
    for (unsigned i = 0; i < before->count; i++) {
        const struct gt_isolation *last = &before->of[i];
        if (!last->hold_s || last->grade || damper_find(damper, last))
            continue;
        struct gt_isolation_damped *one = &damper->of[damper->count++];
        *one = (struct gt_isolation_damped){
            .last = *last, .flapping = {.level = 1, .hold_s = last->hold_s}, .is_held = true};
        for (uint64_t hold_s = rule->hold_s; hold_s && hold_s < last->hold_s; hold_s *= 2)
            one->flapping.level++;
    }
}

/* ---- what is measured ---- */

static void measured_lower(struct gt_link *link, uint64_t mbps)
{
    if (link && (!link->measured_mbps || mbps < link->measured_mbps))
        link->measured_mbps = mbps;
}

/* Where the library does not say its numbers, they are taken for ours. */
static int measured_gpu_named(const struct gt_node *node, const char *name)
{
    uint64_t number;
    if (name[0] != '#')
        return gt_node_gpu_named(node, name);
    if (!gt_text_to_unsigned(name + 1, GT_GPUS_MAX - 1, &number))
        return -1;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].vendor_index == (int)number)
            return (int)i;
    return number < node->gpu_count && node->gpus[number].vendor_index < 0 ? (int)number : -1;
}

int gt_measured_apply(const struct gt_measured *measured, struct gt_node *node, struct gt_err **err)
{
    for (unsigned i = 0; i < measured->count; i++) {
        const struct gt_measurement *one = &measured->of[i];
        int gpu = measured_gpu_named(node, one->gpu);
        int peer = one->peer[0] ? measured_gpu_named(node, one->peer) : -1;
        if (gpu < 0 || (one->peer[0] && peer < 0))
            continue;
        for (unsigned other = 0; other < node->gpu_count; other++)
            if (!one->peer[0] || other == (unsigned)peer)
                measured_lower(gt_node_link(node, (unsigned)gpu, other), one->mbps);
    }
    return gt_node_finish(node, err);
}

bool gt_measured_equal(const struct gt_measured *a, const struct gt_measured *b)
{
    bool same = a->count == b->count;
    for (unsigned i = 0; same && i < a->count; i++)
        same = a->of[i].mbps == b->of[i].mbps && strcmp(a->of[i].gpu, b->of[i].gpu) == 0 &&
               strcmp(a->of[i].peer, b->of[i].peer) == 0;
    return same;
}
