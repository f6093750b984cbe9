/* SPDX-License-Identifier: Apache-2.0 */
#include "api/gpu_placement.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "api/meta.h"
#include "api/names.h"
#include "base/digest.h"
#include "base/json_write.h"
#include "base/text.h"

/* ---- the name ---- */

/* A DNS subdomain: parts of letters, digits and '-' with dots between them, each with a letter or digit at
 * both ends. */
static bool is_subdomain(const char *text)
{
    static const char ends[] = "abcdefghijklmnopqrstuvwxyz0123456789",
                      all[] = "-abcdefghijklmnopqrstuvwxyz0123456789";
    for (;; text++) {
        size_t len = strspn(text, all);
        if (!len || !strchr(ends, text[0]) || !strchr(ends, text[len - 1]))
            return false;
        text += len;
        if (*text != '.')
            return !*text;
    }
}

void gt_gpu_placement_name(const char *kind, const char *job, struct gt_buf *to)
{
    enum { DIGEST = 17 }; /* '-' and 16 digits */
    char name[GT_API_NAME_MAX + 1];
    size_t kind_len = strlen(kind), len = 0;
    bool same = kind_len + 1 + strlen(job) < sizeof(name);
    for (const char *p = kind; *p && len < GT_API_NAME_MAX; p++) {
        same = same && isalnum((unsigned char)*p);
        name[len++] = (char)tolower((unsigned char)*p);
    }
    if (len < GT_API_NAME_MAX)
        name[len++] = '-';
    for (const char *p = job; *p && len < GT_API_NAME_MAX; p++)
        name[len++] = *p;
    name[len] = '\0';
    if (same && is_subdomain(name)) {
        gt_buf_puts(to, name);
        return;
    }
    uint64_t digest = gt_digest_bytes(GT_DIGEST_EMPTY, kind, kind_len + 1);
    digest = gt_digest_bytes(digest, job, strlen(job));
    len = len < GT_API_NAME_MAX - DIGEST ? len : GT_API_NAME_MAX - DIGEST;
    for (size_t i = 0; i < len; i++)
        name[i] = isalnum((unsigned char)name[i]) ? (char)tolower((unsigned char)name[i]) : i ? '-' : 'x';
    gt_buf_add(to, name, len);
    gt_buf_printf(to, "-%016" PRIx64, digest);
}

/* ---- the object ---- */

/* In a patch null takes away what may be in the object. */
static void write_text(const char *key, const char *text, bool patch, struct gt_buf *to)
{
    if (*text || !patch)
        gt_json_add_text_if(to, key, text);
    else
        gt_json_add_null(to, key);
}

static void write_number(const char *key, uint64_t number, bool patch, struct gt_buf *to)
{
    if (number)
        gt_json_add_unsigned(to, key, number);
    else if (patch)
        gt_json_add_null(to, key);
}

static void write_templates(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_json_begin(to, "templates", '[');
    for (unsigned i = 0; i < placement->template_count; i++) {
        const struct gt_gpu_placement_template *template = &placement->templates[i];
        gt_json_begin(to, NULL, '{');
        gt_json_add_text_if(to, "role", template->role);
        gt_json_add_unsigned(to, "pods", template->pods);
        gt_json_add_unsigned(to, "gpus", template->gpus);
        write_number("groupSize", template->group, false, to);
        write_number("atomicGroupSize", template->atomic, false, to);
        gt_json_add_text_if(to, "claimTemplate", template->claim);
        gt_json_end(to, '}');
    }
    gt_json_end(to, ']');
}

static void gpu_placement_write_spec(const struct gt_gpu_placement *placement, bool patch, struct gt_buf *to)
{
    uint64_t pods = 0, gpus = 0;
    for (unsigned i = 0; i < placement->template_count; i++) {
        const struct gt_gpu_placement_template *template = &placement->templates[i];
        pods += template->pods;
        gpus += (uint64_t) template->pods * template->gpus;
    }
    gt_json_begin(to, "spec", '{');
    if (!patch)
        gt_json_add_text(to, "job", placement->job);
    if (placement->part_of[0]) {
        gt_json_add_text(to, "partOf", placement->part_of);
        gt_json_end(to, '}');
        return;
    }
    gt_json_add_unsigned(to, "pods", pods);
    gt_json_add_unsigned(to, "gpus", gpus);
    write_templates(placement, to);
    gt_json_add_int(to, "priority", placement->priority);
    write_text("onLostPlan", placement->on_lost_plan, patch, to);
    gt_json_end(to, '}');
}

static void write_texts(const char *key, const char *const *texts, uint32_t count, struct gt_buf *to)
{
    gt_json_begin(to, key, '[');
    for (uint32_t i = 0; i < count; i++)
        gt_json_add_text(to, NULL, texts[i]);
    gt_json_end(to, ']');
}

static void add_position(struct gt_buf *to, uint32_t position)
{
    gt_text_add_unsigned(to, position);
    gt_buf_puts(to, ":");
}

static void write_pods(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf text = GT_BUF(GT_GPU_PLACEMENT_TEXT_MAX);
    gt_json_begin(to, "pods", '[');
    for (uint32_t i = 0; i < placement->pod_count; i++) {
        const struct gt_gpu_placement_pod *pod = &placement->pods[i];
        gt_buf_consume(&text, text.len);
        add_position(&text, pod->rank);
        add_position(&text, pod->unit);
        add_position(&text, pod->node);
        gt_text_add_mask(&text, pod->gpus);
        if (pod->name) {
            gt_buf_puts(&text, ":");
            gt_buf_puts(&text, pod->name);
        }
        to->failed = to->failed || text.failed;
        gt_json_add_text(to, NULL, text.data ? text.data : "");
    }
    gt_json_end(to, ']');
}

static void gpu_placement_write_plan(const struct gt_gpu_placement *placement, bool patch, struct gt_buf *to)
{
    if (placement->part_count)
        write_texts("parts", placement->parts, placement->part_count, to);
    else if (patch)
        gt_json_add_null(to, "parts");
    if (placement->pod_count) {
        write_texts("nodes", placement->nodes, placement->node_count, to);
        write_texts("units", placement->units, placement->unit_count, to);
        write_pods(placement, to);
    } else if (patch) {
        gt_json_add_null(to, "nodes");
        gt_json_add_null(to, "units");
        gt_json_add_null(to, "pods");
    }
}

static void gpu_placement_write_status(const struct gt_gpu_placement *placement, bool patch, bool with_plan,
                                       struct gt_buf *to)
{
    gt_json_begin(to, "status", '{');
    gt_json_add_text(to, "phase", gt_gpu_placement_phase_name(placement->phase));
    write_text("reason", placement->reason, patch, to);
    write_text("message", placement->message, patch, to);
    write_text("behind", placement->behind, patch, to);
    write_text("where", placement->where, patch, to);
    gt_json_add_unsigned(to, "epoch", placement->epoch);
    if (with_plan)
        gpu_placement_write_plan(placement, patch, to);
    write_text("promisedUntil", placement->promised_until, patch, to);
    write_text("waitingSince", placement->waiting_since, patch, to);
    write_text("plannedAt", placement->planned_at, patch, to);
    write_text("reservedUntil", placement->reserved_until, patch, to);
    write_text("moving", placement->moving, patch, to);
    write_text("movingBefore", placement->moving_before, patch, to);
    write_text("moves", placement->moves, patch, to);
    gt_json_end(to, '}');
}

void gt_gpu_placement_write(const struct gt_gpu_placement *placement, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_add_text(to, "apiVersion", GT_API_GROUP_VERSION);
    gt_json_add_text(to, "kind", GT_KIND_GPU_PLACEMENT);
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text(to, "namespace", placement->namespace_);
    gt_json_add_text(to, "name", placement->name);
    if (placement->owner_kind[0]) {
        gt_json_begin(to, "ownerReferences", '[');
        gt_json_begin(to, NULL, '{');
        gt_json_add_text(to, "apiVersion", placement->owner_api_version);
        gt_json_add_text(to, "kind", placement->owner_kind);
        gt_json_add_text(to, "name", placement->owner_name);
        gt_json_add_text(to, "uid", placement->owner_uid);
        gt_buf_puts(to, "}]");
    }
    gt_json_end(to, '}');
    gpu_placement_write_spec(placement, false, to);
    gpu_placement_write_status(placement, false, true, to);
    gt_json_end(to, '}');
}

void gt_gpu_placement_write_patch(const struct gt_gpu_placement *placement, bool with_plan, struct gt_buf *to)
{
    gt_json_begin(to, NULL, '{');
    gt_json_begin(to, "metadata", '{');
    gt_json_add_text_if(to, "uid", placement->uid);
    gt_json_add_text_if(to, "resourceVersion", placement->resource_version);
    gt_json_end(to, '}');
    gpu_placement_write_spec(placement, true, to);
    gpu_placement_write_status(placement, true, with_plan, to);
    gt_json_end(to, '}');
}
