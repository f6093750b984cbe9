/* SPDX-License-Identifier: Apache-2.0 */
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "api/gpu_placement.h"
#include "api/meta.h"
#include "base/digest.h"
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

/* ---- the name of a part ---- */

/* With the NUL: "a", "b" is not "ab", "". */
static uint64_t gpu_placement_part_add_text(uint64_t digest, const char *text)
{
    return gt_digest_bytes(digest, text, strlen(text) + 1);
}

static uint64_t add_texts(uint64_t digest, const char *const *texts, uint32_t count)
{
    digest = gt_digest_number(digest, count);
    for (uint32_t i = 0; i < count; i++)
        digest = gpu_placement_part_add_text(digest, texts[i]);
    return digest;
}

static uint64_t gpu_placement_part_digest_of(const struct gt_gpu_placement *part)
{
    uint64_t digest =
        gpu_placement_part_add_text(gpu_placement_part_add_text(GT_DIGEST_EMPTY, part->job), part->part_of);
    digest = gt_digest_number(digest, part->epoch);
    digest = add_texts(digest, part->nodes, part->node_count);
    digest = add_texts(digest, part->units, part->unit_count);
    for (uint32_t i = 0; i < part->pod_count; i++) {
        const struct gt_gpu_placement_pod *pod = &part->pods[i];
        digest = gt_digest_number(digest, pod->rank);
        digest = gt_digest_number(digest, pod->unit);
        digest = gt_digest_number(digest, pod->node);
        digest = gt_digest_number(digest, pod->gpus);
        digest = gpu_placement_part_add_text(digest, pod->name ? pod->name : "");
    }
    return digest;
}

void gt_gpu_placement_part_name(const struct gt_gpu_placement *part, struct gt_buf *to)
{
    static const char first[] = "part.";
    enum { PART_DIGEST = 17 }; /* '-' and 16 digits */
    size_t len = strlen(part->part_of), max = GT_API_NAME_MAX - PART_DIGEST - (sizeof(first) - 1);
    len = len < max ? len : max;
    while (len && !isalnum((unsigned char)part->part_of[len - 1]))
        len--;
    gt_buf_puts(to, first);
    gt_buf_add(to, part->part_of, len);
    gt_buf_printf(to, "-%016" PRIx64, gpu_placement_part_digest_of(part));
}

bool gt_gpu_placement_is_part(const struct gt_gpu_placement *placement)
{
    gt_auto_buf struct gt_buf name = GT_BUF(GT_API_NAME_MAX);
    if (!placement->part_of[0])
        return false;
    gt_gpu_placement_part_name(placement, &name);
    return !name.failed && strcmp(name.data, placement->name) == 0;
}

/* ---- slices ---- */

static size_t digits_of(uint32_t number)
{
    size_t digits = 1;
    for (; number > 9; number /= 10)
        digits++;
    return digits;
}

/* Bytes of a text in an array. Names have nothing that JSON would escape. */
static size_t gpu_placement_part_size_of(const char *text)
{
    return strlen(text) + sizeof("\"\",") - 1;
}

static size_t size_of_pod(const struct gt_gpu_placement_pod *pod, struct gt_buf *mask)
{
    gt_buf_consume(mask, mask->len);
    gt_text_add_mask(mask, pod->gpus);
    return digits_of(pod->rank) + digits_of(pod->unit) + digits_of(pod->node) + mask->len +
           (pod->name ? strlen(pod->name) + 1 : 0) + sizeof("\":::\",") - 1;
}

/* Where a node is in the slice's table, by its position in the whole plan's. */
struct slice_builder {
    const struct gt_gpu_placement *whole;
    uint32_t *at; /* position + 1 */
    uint32_t unit;
    struct gt_buf mask;
};

/* Appends a pod; false: it does not fit. Units ascend. */
static bool gpu_placement_part_add_pod(struct slice_builder *builder, const struct gt_gpu_placement_pod *pod,
                                       struct gt_gpu_placement_slice *to)
{
    const struct gt_gpu_placement *whole = builder->whole;
    struct gt_gpu_placement_pod *new = &to->pods[to->pod_count];
    bool new_node = !builder->at[pod->node], new_unit = !to->pod_count || builder->unit != pod->unit;
    *new = *pod;
    new->node = new_node ? to->node_count : builder->at[pod->node] - 1;
    new->unit = to->unit_count - !new_unit;
    size_t size = size_of_pod(new, &builder->mask) +
                  (new_node ? gpu_placement_part_size_of(whole->nodes[pod->node]) : 0) +
                  (new_unit ? gpu_placement_part_size_of(whole->units[pod->unit]) : 0);
    if (to->pod_count && to->size + size > GT_GPU_PLACEMENT_PLAN_MAX)
        return false;
    if (new_node) {
        to->nodes[to->node_count++] = whole->nodes[pod->node];
        builder->at[pod->node] = to->node_count;
    }
    if (new_unit)
        to->units[to->unit_count++] = whole->units[pod->unit];
    builder->unit = pod->unit;
    to->size += size;
    to->pod_count++;
    return true;
}

bool gt_gpu_placement_slice(const struct gt_gpu_placement *whole, uint32_t first, uint32_t max_pods,
                            struct gt_gpu_placement_slice *ret)
{
    uint32_t count = whole->pod_count - first < max_pods ? whole->pod_count - first : max_pods;
    gt_auto_free uint32_t *at = calloc((size_t)whole->node_count + 1, sizeof(*at));
    struct slice_builder builder = {.whole = whole, .at = at, .mask = GT_BUF(4096)};
    *ret = (struct gt_gpu_placement_slice){.nodes = calloc((size_t)count + 1, sizeof(*ret->nodes)),
                                           .units = calloc((size_t)count + 1, sizeof(*ret->units)),
                                           .pods = calloc((size_t)count + 1, sizeof(*ret->pods))};
    bool done = at && ret->nodes && ret->units && ret->pods;
    for (uint32_t i = 0;
         done && i < count && gpu_placement_part_add_pod(&builder, &whole->pods[first + i], ret); i++)
        ;
    done = done && !builder.mask.failed;
    gt_buf_done(&builder.mask);
    return done;
}

void gt_gpu_placement_slice_done(struct gt_gpu_placement_slice *slice)
{
    free(slice->nodes);
    free(slice->units);
    free(slice->pods);
}
