/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/model/health.h"

#include <stdio.h>
#include <string.h>

#include "base/text.h"

enum { FORGET_AFTER = 100 };

/* Whether a signal is present in this check; for a counter: whether it has ever counted. */
static bool shows(const struct gt_fault_table *table, const struct gt_evidence *evidence,
                  enum gt_signal signal)
{
    if (!gt_evidence_knows(evidence, signal))
        return false;
    switch (gt_signal_kind(signal)) {
    case GT_SIGNAL_STATE:
        return evidence->seen >> signal & 1;
    case GT_SIGNAL_LEVEL:
        return evidence->value[signal] >= table->rules[signal].threshold;
    case GT_SIGNAL_COUNTER:
        break;
    }
    return evidence->value[signal] > 0;
}

/* One sentence. The temperature is given by its limit: it changes with every check, and a reason must not. */
static void health_describe(const struct gt_fault_table *table, const struct gt_evidence *evidence,
                            enum gt_signal signal, char *to, size_t size)
{
    if (signal == GT_SIGNAL_TEMPERATURE)
        snprintf(to, size, "too hot: %u C or more", table->rules[signal].threshold);
    else if (signal == GT_SIGNAL_LEFT_OVER)
        snprintf(to, size, "%s", gt_signal_text(signal));
    else if (gt_signal_kind(signal) != GT_SIGNAL_STATE)
        snprintf(to, size, "%s: %u", gt_signal_text(signal), evidence->value[signal]);
    else
        snprintf(to, size, "%s", evidence->text[signal][0] ? evidence->text[signal] : gt_signal_text(signal));
}

static enum gt_gpu_health health_of(const struct gt_evidence *evidence, bool unhealthy)
{
    const unsigned words = 1U << GT_SIGNAL_UNAVAILABLE | 1U << GT_SIGNAL_RECORDED;
    if (unhealthy)
        return GT_GPU_UNHEALTHY;
    return evidence->known & ~evidence->seen & words ? GT_GPU_HEALTHY : GT_GPU_HEALTH_UNKNOWN;
}

static void health_say(struct gt_gpu *gpu, bool unhealthy, enum gt_signal cause, const char *reason)
{
    gpu->health = health_of(&gpu->evidence, unhealthy);
    gpu->cause = unhealthy ? cause : GT_SIGNALS;
    gt_text_copy(gpu->unhealthy_reason, sizeof(gpu->unhealthy_reason), unhealthy ? reason : "");
    gt_gpu_withhold_vfio(gpu);
}

void gt_health_evaluate(const struct gt_fault_table *table, struct gt_node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        char reason[sizeof(gpu->unhealthy_reason)] = "";
        enum gt_signal signal = 0;
        while (signal < GT_SIGNALS &&
               !(table->rules[signal].when == GT_FAULT_AT_ONCE &&
                 gt_signal_kind(signal) != GT_SIGNAL_COUNTER && shows(table, &gpu->evidence, signal)))
            signal++;
        if (signal < GT_SIGNALS)
            health_describe(table, &gpu->evidence, signal, reason, sizeof(reason));
        health_say(gpu, signal < GT_SIGNALS, signal, reason);
    }
}

/* ---- over time ---- */

static void health_note(struct gt_health_track *track, uint64_t now_s)
{
    track->at_s[track->next] = now_s;
    track->next = (track->next + 1) % GT_FAULT_TIMES_MAX;
    if (track->occurrences < GT_FAULT_TIMES_MAX)
        track->occurrences++;
}

static unsigned within(const struct gt_health_track *track, uint64_t now_s, unsigned window_s)
{
    unsigned count = 0;
    for (unsigned i = 0; i < track->occurrences; i++) {
        unsigned at = (track->next + GT_FAULT_TIMES_MAX - 1 - i) % GT_FAULT_TIMES_MAX;
        count += now_s - track->at_s[at] <= window_s;
    }
    return count;
}

/* How often the signal has occurred by this check. */
static uint32_t occurrences(struct gt_health_track *track, const struct gt_fault_table *table,
                            const struct gt_evidence *evidence, enum gt_signal signal)
{
    uint32_t value = evidence->value[signal], before = track->value;
    bool counted = track->counted;
    if (gt_signal_kind(signal) != GT_SIGNAL_COUNTER)
        return shows(table, evidence, signal);
    if (!gt_evidence_knows(evidence, signal))
        return 0;
    track->value = value;
    track->counted = true;
    return counted && value > before ? value - before : 0;
}

static bool is_fault(const struct gt_fault_rule *rule, const struct gt_health_track *track, unsigned flags,
                     uint64_t now_s)
{
    if (rule->when == GT_FAULT_AFTER && !(flags & GT_HEALTH_AT_ONCE))
        return within(track, now_s, rule->within_s) >= rule->times;
    return rule->when != GT_FAULT_REPORT;
}

static void health_follow(struct gt_health *health, struct gt_health_track *track,
                          const struct gt_fault_table *table, const struct gt_evidence *evidence,
                          enum gt_signal signal, unsigned flags, uint64_t now_s)
{
    const struct gt_fault_rule *rule = &table->rules[signal];
    if (rule->when == GT_FAULT_REPORT)
        track->faulty = false;
    if (!gt_evidence_knows(evidence, signal) && !(flags & GT_HEALTH_ALL))
        return;
    uint32_t count = occurrences(track, table, evidence, signal);
    if (count) {
        health->counts.seen[signal] += count;
        for (uint32_t i = 0; i < count && i < GT_FAULT_TIMES_MAX; i++)
            health_note(track, now_s);
        track->last_s = now_s;
        track->clean = 0;
        unsigned how = signal == GT_SIGNAL_LEFT_OVER ? 0 : flags; /* a pod may have started since the list */
        bool fault = track->faulty || is_fault(rule, track, how, now_s);
        if (!track->faulty)
            track->began_s = now_s;
        track->over = rule->limit_s && (track->over || (fault && now_s - track->began_s >= rule->limit_s));
        track->faulty = fault && !track->over;
        return;
    }
    if (track->clean < GT_FAULT_CHECKS_MAX)
        track->clean++;
    bool long_enough = track->clean >= rule->recover_checks && now_s - track->last_s >= rule->recover_s;
    if ((track->faulty || track->over) && (long_enough || flags & GT_HEALTH_AT_ONCE)) {
        track->faulty = track->over = false;
        track->occurrences = 0;
    }
}

static unsigned falls_within(const struct gt_flapping *flapping, uint64_t now_s, unsigned window_s)
{
    unsigned count = 0;
    for (unsigned i = 0; i < flapping->falls; i++)
        count += now_s - flapping->falls_s[i] <= window_s;
    return count;
}

/* It becomes a fault: decides whether it is held back afterwards, and for how long. */
static void fall(struct gt_flapping *flapping, const struct gt_flapping_rule *rule, uint64_t now_s)
{
    uint64_t quiet_s = 2 * flapping->hold_s > rule->within_s ? 2 * flapping->hold_s : rule->within_s;
    if (now_s - flapping->recovered_s > quiet_s)
        flapping->level = 0;
    flapping->falls_s[flapping->next_fall] = now_s;
    flapping->next_fall = (flapping->next_fall + 1) % GT_FAULT_FALLS_MAX;
    if (flapping->falls < GT_FAULT_FALLS_MAX)
        flapping->falls++;
    flapping->hold_s = 0;
    if (!rule->falls || (!flapping->level && falls_within(flapping, now_s, rule->within_s) < rule->falls))
        return;
    flapping->hold_s = rule->hold_s;
    for (unsigned i = 0; i < flapping->level && flapping->hold_s < rule->hold_max_s; i++)
        flapping->hold_s *= 2;
    if (flapping->hold_s > rule->hold_max_s)
        flapping->hold_s = rule->hold_max_s;
    flapping->level++;
}

bool gt_flapping_settle(struct gt_flapping *flapping, const struct gt_flapping_rule *rule, bool was,
                        bool faulty, bool at_once, uint64_t now_s)
{
    if (faulty) {
        if (!was)
            fall(flapping, rule, now_s);
        flapping->well_s = 0;
        return true;
    }
    if (!was)
        return false;
    if (!flapping->well_s)
        flapping->well_s = now_s ? now_s : 1;
    if (flapping->hold_s && now_s - flapping->well_s < flapping->hold_s && !at_once)
        return true;
    flapping->recovered_s = now_s;
    return false;
}

static void find_reason(struct gt_health_entry *entry, const struct gt_fault_table *table,
                        const struct gt_evidence *evidence)
{
    enum gt_signal signal = 0;
    while (signal < GT_SIGNALS && !entry->tracks[signal].faulty)
        signal++;
    if (signal == GT_SIGNALS) {
        char last[sizeof(entry->reason)];
        if (entry->cause == GT_SIGNALS)
            return; /* held back already, and reported as that */
        memcpy(last, entry->reason, sizeof(last));
        snprintf(entry->reason, sizeof(entry->reason), GT_HELD_BACK ", has to be well for %llu s; last: %s",
                 (unsigned long long)entry->flapping.hold_s, last);
    } else if (signal == GT_SIGNAL_LEFT_OVER && entry->last_pod[0])
        snprintf(entry->reason, sizeof(entry->reason), "%s; last held by %.70s", gt_signal_text(signal),
                 entry->last_pod);
    else if (signal == GT_SIGNAL_LEFT_OVER && entry->cause == signal && entry->reason[0])
        return; /* of the process before, which has seen the pod */
    else if (shows(table, evidence, signal) || entry->cause != signal)
        health_describe(table, evidence, signal, entry->reason, sizeof(entry->reason));
    entry->cause = signal;
}

static void health_observe(struct gt_health *health, struct gt_health_entry *entry,
                           const struct gt_fault_table *table, struct gt_gpu *gpu, unsigned flags,
                           uint64_t now_s)
{
    bool faulty = false, was = entry->unhealthy;
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++) {
        health_follow(health, &entry->tracks[signal], table, &gpu->evidence, signal, flags, now_s);
        faulty = faulty || entry->tracks[signal].faulty;
    }
    entry->unhealthy =
        gt_flapping_settle(&entry->flapping, &table->flapping, was, faulty, flags & GT_HEALTH_AT_ONCE, now_s);
    health->counts.held_back += !was && entry->unhealthy && entry->flapping.hold_s;
    if (entry->unhealthy)
        find_reason(entry, table, &gpu->evidence);
    health_say(gpu, entry->unhealthy, entry->cause, entry->reason);
    if (flags & GT_HEALTH_ALL)
        return; /* a recording has grades of its own */
    gpu->grade = entry->tracks[GT_SIGNAL_LEFT_OVER].over ? GT_GRADE_SUSPECT : GT_GRADE_NONE;
    gt_text_copy(gpu->grade_reason, sizeof(gpu->grade_reason),
                 gpu->grade ? "memory is in use for long, and no container holds it" : "");
}

/* ---- the entry of a GPU ---- */

static struct gt_health_entry *health_find(struct gt_health *health, const char *bdf)
{
    return GT_FIND(health->gpus, health->count, bdf, bdf);
}

/* A place for a new entry: if all are used, that of the GPU that has been missing for the longest time. */
static struct gt_health_entry *health_find_place(struct gt_health *health)
{
    struct gt_health_entry *entry = &health->gpus[0];
    if (health->count < GT_COUNT(health->gpus))
        entry = &health->gpus[health->count++];
    else
        for (unsigned i = 1; i < health->count; i++)
            if (health->gpus[i].away > entry->away)
                entry = &health->gpus[i];
    return entry;
}

static void forget_the_gone(struct gt_health *health)
{
    for (unsigned i = 0; i < health->count;) {
        if (health->gpus[i].away > FORGET_AFTER)
            health->gpus[i] = health->gpus[--health->count];
        else
            i++;
    }
}

static void health_begin(struct gt_health_entry *entry, const char *bdf, const char *uuid)
{
    *entry = (struct gt_health_entry){.cause = GT_SIGNALS, .idle_mib = UINT32_MAX};
    gt_text_copy(entry->bdf, sizeof(entry->bdf), bdf);
    gt_text_copy(entry->uuid, sizeof(entry->uuid), uuid);
}

void gt_health_history(const struct gt_health_entry *entry, struct gt_health_history *ret)
{
    *ret = (struct gt_health_history){.level = entry->flapping.level, .hold_s = entry->flapping.hold_s};
    gt_text_copy(ret->bdf, sizeof(ret->bdf), entry->bdf);
    gt_text_copy(ret->uuid, sizeof(ret->uuid), entry->uuid);
    gt_text_copy(ret->reason, sizeof(ret->reason), entry->reason);
    for (enum gt_signal signal = 0; signal < GT_SIGNALS; signal++)
        ret->signals |= entry->tracks[signal].faulty ? 1U << signal : 0;
}

void gt_health_restore(struct gt_health *health, const struct gt_health_history *history, uint64_t now_s)
{
    if (health_find(health, history->bdf))
        return;
    struct gt_health_entry *entry = health_find_place(health);
    health_begin(entry, history->bdf, history->uuid);
    gt_text_copy(entry->reason, sizeof(entry->reason), history->reason);
    entry->unhealthy = true;
    entry->flapping.level = history->level;
    entry->flapping.hold_s = history->hold_s;
    for (enum gt_signal signal = GT_SIGNALS; signal-- > 0;) {
        if (!(history->signals >> signal & 1))
            continue;
        entry->cause = signal;
        entry->tracks[signal].faulty = true;
        entry->tracks[signal].began_s = entry->tracks[signal].last_s = now_s;
    }
}

/* Whether the card is another one than that of the entry; a card without a known UUID may be the same. */
static bool is_swapped(struct gt_health_entry *entry, const struct gt_gpu *gpu)
{
    if (!gpu->uuid[0] || strcmp(entry->uuid, gpu->uuid) == 0)
        return false;
    bool known = entry->uuid[0];
    gt_text_copy(entry->uuid, sizeof(entry->uuid), gpu->uuid);
    return known;
}

/* ---- left-over work ---- */

enum { IDLE_FREE_MIB = 1024, IDLE_ABOVE_OTHERS_MIB = 512, IDLE_MOST_MIB = 4096 };

static uint32_t idle_of(struct gt_health *health, const struct gt_node *node, const struct gt_gpu *gpu)
{
    uint32_t own = health_find(health, gpu->bdf)->idle_mib, least = IDLE_MOST_MIB - IDLE_ABOVE_OTHERS_MIB;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        const struct gt_health_entry *other = health_find(health, node->gpus[i].bdf);
        if (other && strcmp(node->gpus[i].product, gpu->product) == 0 && other->idle_mib < least)
            least = other->idle_mib;
    }
    return own < least + IDLE_ABOVE_OTHERS_MIB ? own : least + IDLE_ABOVE_OTHERS_MIB;
}

/* A GPU that is shared is held by no container alone, and is not judged. */
static void find_left_over(struct gt_health *health, struct gt_health_entry *entry,
                           const struct gt_node *node, struct gt_gpu *gpu)
{
    struct gt_evidence *evidence = &gpu->evidence;
    const struct gt_gpus_in_use *gpus_in_use = &health->gpus_in_use;
    const struct gt_gpu_in_use *user = GT_FIND(gpus_in_use->of, gpus_in_use->count, bdf, gpu->bdf);
    if (!gpus_in_use->known)
        return;
    if (user && user->pod[0])
        memcpy(entry->last_pod, user->pod, sizeof(entry->last_pod));
    if (!evidence->knows_memory || gpu->mode != GT_GPU_NATIVE)
        return;
    uint32_t idle = idle_of(health, node, gpu);
    uint32_t kept = idle > IDLE_FREE_MIB ? idle - IDLE_FREE_MIB : 0;
    uint32_t left = user || evidence->memory_mib < kept ? 0 : evidence->memory_mib - kept;
    gt_evidence_value(evidence, GT_SIGNAL_LEFT_OVER, left);
}

void gt_health_observe(struct gt_health *health, const struct gt_fault_table *table, struct gt_node *node,
                       unsigned flags, uint64_t now_s)
{
    for (unsigned i = 0; i < health->count; i++)
        health->gpus[i].away++;
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        struct gt_health_entry *entry = health_find(health, gpu->bdf);
        bool is_new = !entry || is_swapped(entry, gpu);
        if (!entry)
            entry = health_find_place(health);
        if (is_new)
            health_begin(entry, gpu->bdf, gpu->uuid);
        entry->away = 0;
        if (gpu->evidence.knows_memory && gpu->evidence.memory_mib < entry->idle_mib)
            entry->idle_mib = gpu->evidence.memory_mib;
    }
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        struct gt_health_entry *entry = health_find(health, gpu->bdf);
        find_left_over(health, entry, node, gpu);
        health_observe(health, entry, table, gpu, flags, now_s);
    }
    health->gpus_in_use.known = false;
    forget_the_gone(health);
}
