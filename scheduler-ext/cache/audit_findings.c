/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "scheduler-ext/cache/audit_internal.h"

/* The findings of the audit: since when they exist, and whether they still do. */

const char *gt_finding_kind_name(enum gt_finding_kind kind)
{
    static const char *const names[] = {[GT_FINDING_UNIT_TORN] = "UnitTorn",
                                        [GT_FINDING_DOUBLE_PLANNED] = "DoublePlanned",
                                        [GT_FINDING_MISPLACED] = "Misplaced",
                                        [GT_FINDING_DOUBLE_CLAIMED] = "DoubleClaimed",
                                        [GT_FINDING_UNPLACED] = "Unplaced"};
    return names[kind];
}

void gt_audit_free_finding(struct audit_finding *finding)
{
    free(finding->texts);
    free(finding);
}

static void copy_texts(struct audit_finding *finding, const struct gt_finding *about, const char *note)
{
    struct gt_finding *pub = &finding->pub;
    const struct {
        const char *from, **to;
    } texts[] = {
        {about->namespace_, &pub->namespace_},
        {about->name, &pub->name},
        {about->uid, &pub->uid},
        {about->owner_api_version, &pub->owner_api_version},
        {about->owner_kind, &pub->owner_kind},
        {about->owner_name, &pub->owner_name},
        {about->owner_uid, &pub->owner_uid},
        {note, &pub->note},
    };
    size_t size = 0;
    for (size_t i = 0; i < GT_COUNT(texts); i++)
        size += texts[i].from ? strlen(texts[i].from) + 1 : 0;
    char *at = finding->texts = malloc(size);
    for (size_t i = 0; at && i < GT_COUNT(texts); i++)
        if (texts[i].from) {
            *texts[i].to = at;
            at = stpcpy(at, texts[i].from) + 1;
        }
}

static struct audit_finding *audit_findings_find(const struct gt_audit *audit, enum gt_finding_kind kind,
                                                 uint64_t key)
{
    for (uint32_t i = 0; i < audit->count; i++)
        if (audit->findings[i]->key == key && audit->findings[i]->pub.kind == kind)
            return audit->findings[i];
    return NULL;
}

/* Without memory it is left for the next round. */
static struct audit_finding *audit_findings_add(struct gt_audit *audit, enum gt_finding_kind kind,
                                                uint64_t key, const struct gt_finding *about,
                                                const char *note)
{
    struct audit_finding *finding = calloc(1, sizeof(*finding));
    if (!finding)
        return NULL;
    finding->pub.kind = kind;
    finding->pub.api_version = about->api_version;
    finding->pub.object = about->object;
    finding->key = key;
    finding->since_ms = audit->now_ms;
    copy_texts(finding, about, note);
    if (!finding->texts) {
        gt_audit_free_finding(finding);
        return NULL;
    }
    audit->findings[audit->count++] = finding;
    audit->of_kind[kind]++;
    return finding;
}

__attribute__((format(printf, 5, 0))) static void audit_findings_see(struct gt_audit *audit,
                                                                     enum gt_finding_kind kind, uint64_t key,
                                                                     const struct gt_finding *about,
                                                                     const char *format, va_list args)
{
    struct audit_finding *finding = audit_findings_find(audit, kind, key);
    if (!finding && audit->of_kind[kind] < GT_AUDIT_FINDINGS_MAX) {
        char note[AUDIT_NOTE_MAX];
        vsnprintf(note, sizeof(note), format, args);
        finding = audit_findings_add(audit, kind, key, about, note);
    }
    if (finding)
        finding->round = audit->round;
}

void gt_audit_see(struct gt_audit *audit, enum gt_finding_kind kind, uint64_t key,
                  const struct cache_pod *pod, const char *format, ...)
{
    const struct gt_cache_pod *pub = &pod->pub;
    const struct gt_finding about = {.api_version = "v1",
                                     .object = "Pod",
                                     .namespace_ = pub->meta.namespace_,
                                     .name = pub->meta.name,
                                     .uid = pub->uid,
                                     .owner_api_version = pub->owner_api_version,
                                     .owner_kind = pub->meta.owner_kind,
                                     .owner_name = pub->meta.owner_name,
                                     .owner_uid = pub->owner_uid};
    va_list args;
    va_start(args, format);
    audit_findings_see(audit, kind, key, &about, format, args);
    va_end(args);
}

void gt_audit_see_claim(struct gt_audit *audit, enum gt_finding_kind kind, uint64_t key,
                        const struct gt_cache_claim *claim, const char *format, ...)
{
    const struct gt_finding about = {.api_version = "resource.k8s.io/v1",
                                     .object = "ResourceClaim",
                                     .namespace_ = claim->namespace_,
                                     .name = claim->name,
                                     .uid = claim->uid};
    va_list args;
    va_start(args, format);
    audit_findings_see(audit, kind, key, &about, format, args);
    va_end(args);
}

void gt_audit_end_round(struct gt_audit *audit)
{
    uint32_t kept = 0;
    memset(audit->standing, 0, sizeof(audit->standing));
    for (uint32_t i = 0; i < audit->count; i++) {
        struct audit_finding *finding = audit->findings[i];
        finding->missed = finding->round == audit->round ? 0 : finding->missed + 1;
        if (finding->missed > 1) {
            audit->of_kind[finding->pub.kind]--;
            gt_audit_free_finding(finding);
            continue;
        }
        finding->stands =
            finding->stands || (!finding->missed && audit->now_ms - finding->since_ms >= GT_AUDIT_SETTLE_MS);
        audit->standing[finding->pub.kind] += finding->stands;
        audit->findings[kept++] = finding;
    }
    audit->count = kept;
}

struct gt_finding *gt_audit_next(struct gt_audit *audit, const struct gt_finding *finding)
{
    uint32_t i = 0;
    while (finding && i < audit->count && &audit->findings[i++]->pub != finding)
        ;
    while (i < audit->count && !audit->findings[i]->stands)
        i++;
    return i < audit->count ? &audit->findings[i]->pub : NULL;
}

uint32_t gt_audit_count(const struct gt_audit *audit, enum gt_finding_kind kind)
{
    return audit->standing[kind];
}
