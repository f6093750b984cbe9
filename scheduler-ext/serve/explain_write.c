/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/serve/explain.h"

#include <inttypes.h>
#include <string.h>

#include "base/bits.h"
#include "base/text.h"
#include "base/time_text.h"
#include "scheduler-ext/cache/resources.h"
#include "scheduler-ext/decide/demands.h"
#include "scheduler-ext/decide/slow.h"
#include "scheduler-ext/jobs/job.h"
#include "scheduler-ext/jobs/rules.h"
#include "scheduler-ext/serve/debug_view.h"

static int digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool decode(const char *text, size_t len, char *ret, size_t size)
{
    size_t at = 0;
    for (size_t i = 0; i < len; i++) {
        char c = text[i] == '+' ? ' ' : text[i];
        if (text[i] == '%') {
            int high = i + 2 < len ? digit(text[i + 1]) : -1, low = high < 0 ? -1 : digit(text[i + 2]);
            if (low < 0 || (high == 0 && low == 0))
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        }
        if (at + 1 >= size)
            return false;
        ret[at++] = c;
    }
    ret[at] = '\0';
    return true;
}

bool gt_query_get(const char *query, const char *key, char *ret, size_t size)
{
    size_t key_len = strlen(key);
    ret[0] = '\0';
    for (const char *p = query; p && *p;) {
        size_t len = strcspn(p, "&");
        if (len > key_len && strncmp(p, key, key_len) == 0 && p[key_len] == '=') {
            if (decode(p + key_len + 1, len - key_len - 1, ret, size))
                return true;
            ret[0] = '\0';
            return false;
        }
        p += len + (p[len] == '&');
    }
    return false;
}

enum { ROWS_MAX = 1024, ALIKE_MAX = 3, HOLDER_MAX = 1024 };

static const char *node_name(const struct gt_debug_view *view, uint32_t id)
{
    struct gt_cluster_node node;
    return gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node) ? node.name : NULL;
}

static const char *explain_write_node_of(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                                         uint32_t id)
{
    const char *known = node_name(view, id);
    return known ? known : pod->node_name ? pod->node_name : "-";
}

/* ---- a job ---- */

static void explain_write_add_state(const struct gt_debug_view *view, const struct gt_cache_job *job,
                                    const struct gt_placement_job *info, struct gt_buf *to)
{
    static const char *const words[GT_PLACEMENT_STATES] = {
        [GT_PLACEMENT_GATHERS] = "It is not planned yet", [GT_PLACEMENT_WAITS] = "It waits for room",
        [GT_PLACEMENT_REFUSED] = "It is refused",         [GT_PLACEMENT_WRITES] = "It is planned",
        [GT_PLACEMENT_PLACED] = "It is placed",           [GT_PLACEMENT_LOST] = "A plan of its pods was lost",
    };
    struct gt_job_texts texts;
    uint32_t unplaced = gt_debug_job_unplaced(view, job);
    gt_debug_job_texts(view, job, &texts);
    if (unplaced)
        gt_buf_printf(to,
                      "Unplaced: %" PRIu32
                      " of its pods run%s without a plan, though it has a group size: the "
                      "webhook did not see them, or the size was set later\n",
                      unplaced, unplaced == 1 ? "s" : "");
    if (info->state == GT_PLACEMENT_NONE) {
        gt_buf_printf(to, "Its pods are placed by the scheduler, one by one; it is %s\n",
                      gt_debug_job_state(job, info));
        if (texts.of[GT_KEY_GROUP] && !unplaced)
            gt_buf_puts(to, !view->placement ? "It has a group size, but placement is switched off here\n"
                            : view->leads    ? "It has a group size, but none of its pods is gated\n"
                                             : "It has a group size; the replica that leads knows more\n");
        if (*info->text)
            gt_buf_printf(to, "  %s\n", info->text);
        return;
    }
    char span[GT_TIME_TEXT_SIZE];
    const char *word = strcmp(info->reason, GT_REASON_NEVER_FITS) == 0 ? "It can never be placed here"
                       : strcmp(info->reason, GT_REASON_SCHEDULER_UNKNOWN) == 0 ? words[GT_PLACEMENT_WRITES]
                                                                                : words[info->state];
    gt_buf_printf(to, "%s, for %s", word,
                  gt_time_span_text((int64_t)(view->wall_ms / 1000) - info->since_s, span));
    if (info->place != GT_NONE)
        gt_buf_printf(to, ", number %" PRIu32 " of those that wait", info->place + 1);
    if (info->behind)
        gt_buf_printf(to, ", behind %s/%s", info->behind->pods->meta.namespace_,
                      gt_job_key_name(info->behind->key));
    if (info->tries > 1)
        gt_buf_printf(to, ", tried %" PRIu64 " times", info->tries);
    gt_buf_puts(to, "\n");
    if (*info->text)
        gt_buf_printf(to, "  %s%s%s\n", info->reason, *info->reason ? ": " : "", info->text);
    if (info->holds_until_ms > view->now_ms)
        gt_buf_printf(to, "  It has waited longest: nodes are reserved for it, for another %s\n",
                      gt_time_span_text((int64_t)(info->holds_until_ms - view->now_ms) / 1000, span));
    if (info->reserved_gpus)
        gt_buf_printf(to, "  %" PRIu32 " GPU%s are reserved for pods of it that are not there yet\n",
                      info->reserved_gpus, gt_plural(info->reserved_gpus));
}

static void explain_write_add_lines(const char *text, struct gt_buf *to)
{
    for (const char *line = text; *line;) {
        size_t len = strcspn(line, "\n");
        gt_buf_printf(to, "  %.*s\n", (int)len, line);
        line += len + (line[len] == '\n');
    }
}

/* By rank, then by name; those without a rank last. */
static int compare_pods(const void *a, const void *b)
{
    const struct gt_cache_pod *x = *(const struct gt_cache_pod *const *)a,
                              *y = *(const struct gt_cache_pod *const *)b;
    uint32_t i = gt_cache_pod_number(x, GT_KEY_PLAN_RANK), j = gt_cache_pod_number(y, GT_KEY_PLAN_RANK);
    return i != j ? (i < j ? -1 : 1) : gt_natural_order(x->meta.name, y->meta.name);
}

static void explain_write_add_number(struct gt_buf *to, uint32_t number)
{
    if (number == GT_NONE)
        gt_buf_printf(to, "%4s  ", "-");
    else
        gt_buf_printf(to, "%4" PRIu32 "  ", number);
}

/* The parts of a pod's line, to compute the widths of columns. */
struct pod_row {
    const struct gt_cache_pod *pod;
    const char *node;
    char gpus[GT_GPUS_MAX * 3];
    bool unplaced; /* though its job has a group size */
};

static void explain_write_read_row(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                                   struct pod_row *ret)
{
    uint32_t id;
    uint64_t mask = gt_debug_pod_gpus(view, pod, &id);
    gt_auto_buf struct gt_buf gpus = GT_BUF(sizeof(ret->gpus) - 1);
    gt_text_add_mask(&gpus, mask);
    *ret = (struct pod_row){.pod = pod, .node = explain_write_node_of(view, pod, id)};
    gt_text_copy(ret->gpus, sizeof(ret->gpus), mask && gpus.data ? gpus.data : "-");
}

static void add_row(const struct pod_row *row, int node, int gpus, struct gt_buf *to)
{
    gt_buf_puts(to, "  ");
    explain_write_add_number(to, gt_cache_pod_number(row->pod, GT_KEY_PLAN_UNIT));
    explain_write_add_number(to, gt_cache_pod_number(row->pod, GT_KEY_PLAN_RANK));
    gt_buf_printf(to, "%-*s  %-*s  %-8s  %s", node, row->node, gpus, row->gpus, gt_debug_pod_state(row->pod),
                  row->pod->meta.name);
    if (row->pod->deleting)
        gt_buf_puts(to, " (being deleted)");
    else if (row->pod->plan == GT_CACHE_PLAN_LOST)
        gt_buf_puts(to, " (its plan is lost)");
    else if (row->pod->plan == GT_CACHE_PLAN_BROKEN)
        gt_buf_puts(to, " (not where it was planned)");
    else if (row->unplaced)
        gt_buf_puts(to, " (without a plan)");
    gt_buf_puts(to, "\n");
}

/* Pods without a place that only their names tell apart. */
static bool rows_are_alike(const struct pod_row *a, const struct pod_row *b)
{
    return strcmp(a->node, "-") == 0 && strcmp(b->node, "-") == 0 && a->unplaced == b->unplaced &&
           a->pod->plan == b->pod->plan && a->pod->deleting == b->pod->deleting &&
           gt_cache_pod_number(a->pod, GT_KEY_PLAN_RANK) == gt_cache_pod_number(b->pod, GT_KEY_PLAN_RANK) &&
           strcmp(gt_debug_pod_state(a->pod), gt_debug_pod_state(b->pod)) == 0;
}

static int longer(int most, const char *text)
{
    int len = (int)strlen(text);
    return len > most ? len : most;
}

static void explain_write_add_pods(const struct gt_debug_view *view, const struct gt_cache_job *job,
                                   struct gt_buf *to)
{
    gt_auto_free const struct gt_cache_pod **pods = calloc(job->pod_count, sizeof(*pods));
    gt_auto_free struct pod_row *rows = calloc(ROWS_MAX, sizeof(*rows));
    uint32_t count = 0, unplaced = gt_debug_job_unplaced(view, job);
    int node = 4, gpus = 4;
    if (!pods || !rows) {
        to->failed = true;
        return;
    }
    for (const struct gt_cache_pod *pod = job->pods; pod && count < job->pod_count; pod = pod->next)
        pods[count++] = pod;
    qsort(pods, count, sizeof(*pods), compare_pods);
    gt_explain_crossing(view, job, pods, count, to);
    uint32_t shown = count < ROWS_MAX ? count : ROWS_MAX;
    for (uint32_t i = 0; i < shown; i++) {
        explain_write_read_row(view, pods[i], &rows[i]);
        rows[i].unplaced = unplaced && gt_cache_pod_is_unplaced(pods[i]);
        node = longer(node, rows[i].node);
        gpus = longer(gpus, rows[i].gpus);
    }
    gt_buf_printf(to, "\n  UNIT  RANK  %-*s  %-*s  %-8s  POD\n", node, "NODE", gpus, "GPUS", "STATE");
    for (uint32_t i = 0, end; i < shown; i = end) {
        for (end = i + 1; end < shown && rows_are_alike(&rows[i], &rows[end]);)
            end++;
        uint32_t hidden = end - i > ALIKE_MAX ? end - i - 1 : 0;
        for (uint32_t k = i; k < end - hidden; k++)
            add_row(&rows[k], node, gpus, to);
        if (hidden)
            gt_buf_printf(to, "  and %" PRIu32 " more like it, to %s\n", hidden,
                          rows[end - 1].pod->meta.name);
    }
    if (shown < count)
        gt_buf_printf(to, "  and %" PRIu32 " more\n", count - shown);
}

static void explain_write_add_job(const struct gt_debug_view *view, const struct gt_cache_job *job,
                                  struct gt_buf *to)
{
    struct gt_placement_job info;
    struct gt_job_texts texts;
    uint32_t gpus = gt_cache_job_gpus(job);
    gt_debug_job_texts(view, job, &texts);
    gt_placement_job(view->placement, job, &info);
    gt_buf_printf(to, "Job %s: %" PRIu32 " pod%s, %" PRIu32 " GPU%s", job->key, job->pod_count,
                  gt_plural(job->pod_count), gpus, gt_plural(gpus));
    if (texts.of[GT_KEY_GROUP])
        gt_buf_printf(to, ", in units of %s", texts.of[GT_KEY_GROUP]);
    if (texts.of[GT_KEY_GROUP] && texts.of[GT_KEY_ATOMIC])
        gt_buf_printf(to, " (atoms of %s)", texts.of[GT_KEY_ATOMIC]);
    gt_buf_puts(to, "\n");
    explain_write_add_state(view, job, &info, to);
    if (*info.plan) {
        gt_buf_puts(to, "The plan:\n");
        explain_write_add_lines(info.plan, to);
    }
    gt_auto_buf struct gt_buf slow = GT_BUF(HOLDER_MAX);
    if (gt_slow_job_text(view->cache, job, &slow) && slow.data)
        gt_buf_printf(to, "Slow GPUs: %s\n", slow.data);
}

void gt_explain_job_text(const struct gt_debug_view *view, const struct gt_cache_job *job, struct gt_buf *to)
{
    explain_write_add_job(view, job, to);
    explain_write_add_pods(view, job, to);
}

/* ---- a pod ---- */

static void explain_write_add_place(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                                    struct gt_buf *to)
{
    uint32_t id;
    uint64_t mask = gt_debug_pod_gpus(view, pod, &id);
    const char *name = explain_write_node_of(view, pod, id);
    switch (pod->state) {
    case GT_CACHE_GATED:
    case GT_CACHE_WAITING:
        if (pod->plan == GT_CACHE_PLAN_ASSUMED)
            gt_buf_printf(to, "It is planned for node %s", name);
        else if (pod->plan == GT_CACHE_PLAN_LOST && pod->deleting)
            gt_buf_puts(to, "It will not be bound any more, so its GPUs are free");
        else if (pod->plan == GT_CACHE_PLAN_LOST)
            gt_buf_puts(
                to,
                "Its plan is lost: the planned GPUs were taken, or they or the node are gone or unhealthy");
        else
            gt_buf_puts(to, "It is on no node, and not planned");
        break;
    case GT_CACHE_BOUND:
        gt_buf_printf(to, "It is on node %s, which has not reported it yet", name);
        break;
    case GT_CACHE_RUNNING:
        gt_buf_printf(to, "It runs on node %s", name);
        break;
    }
    if (pod->plan == GT_CACHE_PLAN_RUNNING)
        gt_buf_puts(to, ", as planned");
    else if (pod->plan == GT_CACHE_PLAN_BROKEN)
        gt_buf_puts(to, ", not as planned");
    if (mask) {
        gt_buf_printf(to, ", GPU%s ", gt_plural(gt_bit_count(mask)));
        gt_text_add_mask(to, mask);
    }
    gt_buf_puts(to, "\n");
    for (uint64_t left = mask; left; left &= left - 1) {
        unsigned gpu = gt_bit_first(left);
        const char *device = gt_cache_device_id(view->cache, id, gpu);
        gt_buf_printf(to, "  GPU %-2u  %s\n", gpu, device ? device : "");
    }
}

/* " (CPU: a pod needs 16, 4 is free)" */
static void add_scarcest(const struct gt_debug_view *view, const struct gt_cache_pod *pod, uint32_t node,
                         struct gt_buf *to)
{
    uint64_t asked, left;
    const char *name = gt_cache_scarcest(view->cache, node, gt_cache_pod_request(pod), &asked, &left);
    if (!name)
        return;
    gt_buf_printf(to, " (%s: a pod needs ", gt_demands_resource_name(name));
    gt_demands_amount_text(name, asked, to);
    gt_buf_puts(to, ", ");
    gt_demands_amount_text(name, left, to);
    gt_buf_puts(to, " is free)");
}

/* " (0 of 8 GPUs allocatable, 0 of them free)" */
static void add_allocatable(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    struct gt_cluster_node node = {.name = ""};
    struct gt_cache_node cached = {0};
    gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node);
    gt_cache_get_node(view->cache, id, &cached);
    gt_buf_printf(to, " (%lld of %u GPUs allocatable, %u of them free)", (long long)cached.offered,
                  gt_bit_count(node.all), gt_cache_gpus_left(view->cache, id));
}

/* " (2; its ResourceSlices hold 4 of 8 GPUs)" */
static void add_free_gpus(const struct gt_debug_view *view, const struct gt_cluster_node *node, uint32_t id,
                          struct gt_buf *to)
{
    struct gt_cache_node cached = {0};
    gt_buf_printf(to, " (%u", gt_bit_count(node->available));
    if (gt_cache_get_node(view->cache, id, &cached) && node->healthy & ~cached.sliced)
        gt_buf_printf(to, "; its ResourceSlices hold %u of %u GPUs", gt_bit_count(node->all & cached.sliced),
                      gt_bit_count(node->all));
    gt_buf_puts(to, ")");
}

/* Lists at most so many names of nodes. */
static void add_examples(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                         enum gt_refusal refusal, const struct gt_refused *refused, struct gt_buf *to)
{
    const struct gt_extender_pod asking = {.known = pod};
    bool counts = refusal == GT_REFUSED_TOO_FEW || refusal == GT_REFUSED_GPUS_RESERVED;
    gt_buf_puts(to, refused->count > GT_ASSESSED_EXAMPLES ? ", for example " : ": ");
    for (uint32_t i = 0; i < refused->count && i < GT_ASSESSED_EXAMPLES; i++) {
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(gt_cache_cluster(view->cache), refused->examples[i], &node))
            continue;
        gt_buf_printf(to, "%s%s", i ? ", " : "", node.name);
        if (counts)
            add_free_gpus(view, &node, refused->examples[i], to);
        if (refusal == GT_REFUSED_OFFERED)
            add_allocatable(view, refused->examples[i], to);
        if (refusal == GT_REFUSED_RESOURCES)
            add_scarcest(view, pod, refused->examples[i], to);
        if (refusal == GT_REFUSED_NODE_RESERVED) {
            gt_buf_puts(to, " (");
            gt_node_say_kept(view->cache, &asking, refused->examples[i], to);
            gt_buf_puts(to, ")");
        }
    }
    gt_buf_puts(to, "\n");
}

static void add_best(const struct gt_debug_view *view, const struct gt_feasible_nodes *nodes,
                     struct gt_buf *to)
{
    int name = 4;
    for (unsigned i = 0; i < nodes->best_count; i++) {
        const char *known = node_name(view, nodes->best[i].id);
        int len = known ? (int)strlen(known) : 0;
        name = len > name ? len : name;
    }
    gt_buf_printf(to, "  %-*s  VALUE   SCORE   LOSS    STRANDED  OF 10  FREE  GPUS\n", name, "NODE");
    for (unsigned i = 0; i < nodes->best_count; i++) {
        const struct gt_assessed_node *best = &nodes->best[i];
        struct gt_cluster_node node;
        if (!gt_cluster_get_node(gt_cache_cluster(view->cache), best->id, &node))
            continue;
        gt_buf_printf(to, "  %-*s  %6.3f  %6.3f  %6.3f  %8.3f  %5u  %4u  ", name, node.name, best->value,
                      best->score_part, best->loss_part, best->stranded_part, best->ten,
                      gt_bit_count(node.available));
        gt_text_add_mask(to, best->mask);
        gt_buf_puts(to, "\n");
    }
    if (nodes->feasible > nodes->best_count)
        gt_buf_printf(to, "  and %" PRIu32 " more\n", nodes->feasible - nodes->best_count);
}

void gt_explain_nodes_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                           const struct gt_feasible_nodes *nodes, struct gt_buf *to)
{
    const struct gt_aware_weights of_pod = gt_node_weights(view->cache, &view->weights, pod),
                                  *weights = &of_pod;
    struct gt_cache_counters counters;
    gt_cache_counters(view->cache, &counters);
    gt_buf_printf(to, "\n%" PRIu32 " node%s could hold a pod of %u GPU%s now", nodes->feasible,
                  gt_plural(nodes->feasible), pod->gpus, gt_plural(pod->gpus));
    if (nodes->feasible) {
        gt_buf_printf(to, "; value = %g x (%g x score - %g x loss - %g x stranded)", weights->weight,
                      weights->score_weight, weights->loss_weight, weights->loss_weight * GT_AWARE_STRANDED);
        if (weights->loss_weight > 0)
            gt_buf_printf(to, ", and %g more for an exact fit",
                          weights->weight * (weights->score_weight * GT_AWARE_EXACT_BONUS +
                                             2 * weights->loss_weight * GT_AWARE_STRANDED));
        if (weights->closeness_weight > 0)
            gt_buf_printf(to, ", and up to %g more near pods of its job",
                          weights->weight * weights->closeness_weight);
        gt_buf_puts(to, ":\n");
        add_best(view, nodes, to);
    } else {
        gt_buf_puts(to, "\n");
    }
    for (enum gt_refusal refusal = 0; refusal < GT_REFUSALS; refusal++) {
        const struct gt_refused *refused = &nodes->refused[refusal];
        if (!refused->count)
            continue;
        gt_buf_printf(to, "%" PRIu32 " node%s ", refused->count, gt_plural(refused->count));
        gt_refusal_text(refusal, refused->count, pod, to);
        add_examples(view, pod, refusal, refused, to);
    }
    if (counters.nodes_without_topology)
        gt_buf_printf(to, "%" PRIu32 " node%s no NodeGPUTopology: nothing is known of the GPUs there\n",
                      counters.nodes_without_topology,
                      counters.nodes_without_topology == 1 ? " has" : "s have");
}

static void explain_write_add_claim(const struct gt_debug_view *view, const struct gt_cache_pod *pod,
                                    struct gt_buf *to)
{
    const struct gt_cache_claim *claim = pod->claim_template ? gt_cache_claim_of(view->cache, pod) : NULL;
    const struct gt_cache_claim *conflict = claim ? gt_cache_claim_conflict(claim) : NULL;
    unsigned count = 0;
    if (!pod->claim_template)
        return;
    if (!claim) {
        gt_buf_printf(to, "Its ResourceClaim, of the template %s, is not there yet\n", pod->claim_template);
        return;
    }
    const char *const *devices = gt_cache_claim_devices(claim, &count);
    gt_buf_printf(to, "Its ResourceClaim %s has %s", claim->name, count ? "" : "no GPUs yet");
    for (unsigned i = 0; i < count; i++)
        gt_buf_printf(to, "%s%s", i ? ", " : "", devices[i]);
    if (conflict)
        gt_buf_printf(to, "; the ResourceClaim %s/%s has some of them, too", conflict->namespace_,
                      conflict->name);
    gt_buf_puts(to, "\n");
}

void gt_explain_pod_text(const struct gt_debug_view *view, const struct gt_cache_pod *pod, struct gt_buf *to)
{
    uint32_t unit = gt_cache_pod_number(pod, GT_KEY_PLAN_UNIT),
             rank = gt_cache_pod_number(pod, GT_KEY_PLAN_RANK);
    gt_buf_printf(to, "Pod %s/%s: %u GPU%s, %s", pod->meta.namespace_, pod->meta.name, pod->gpus,
                  gt_plural(pod->gpus), gt_debug_pod_state(pod));
    if (rank != GT_NONE)
        gt_buf_printf(to, ", rank %" PRIu32, rank);
    if (unit != GT_NONE)
        gt_buf_printf(to, ", in unit %" PRIu32, unit);
    gt_buf_printf(to, "%s\n", pod->deleting ? ", being deleted" : "");
    explain_write_add_place(view, pod, to);
    explain_write_add_claim(view, pod, to);
    if (pod->other_gates)
        gt_buf_puts(to, "Other scheduling gates than ours hold it, too\n");
    if (pod->identity_error)
        gt_buf_printf(to, "It counts as a job of itself: %s\n", pod->identity_error);
    gt_buf_puts(to, "\n");
    explain_write_add_job(view, pod->job, to);
}

/* Who has each GPU of a node, or to whom it is promised. */

static void say_holder(const struct gt_debug_view *view, uint32_t id, const struct gt_cluster_node *node,
                       unsigned gpu, struct gt_buf *to)
{
    uint64_t bit = UINT64_C(1) << gpu, unix_ms = view->wall_ms - view->now_ms;
    const struct gt_cache_pod *user = gt_cache_gpu_user(view->cache, id, gpu);
    const struct gt_promise *promise =
        node->free & bit ? gt_cluster_promise_of(gt_cache_cluster(view->cache), id, gpu) : NULL;
    if (node->healthy & node->slow & bit)
        gt_buf_puts(to, "slow or suspect, ");
    if (!(node->healthy & bit))
        gt_buf_puts(to, node->free & ~node->assumed & bit ? "unhealthy" : "unhealthy, ");
    if (user && (!(node->free & bit) || node->assumed & bit)) {
        gt_auto_buf struct gt_buf whose = GT_BUF(HOLDER_MAX);
        gt_buf_printf(&whose, "pod %s/%s of job %s", user->meta.namespace_, user->meta.name, user->job->key);
        if (promise)
            gt_promise_say(promise, whose.data, unix_ms, to);
        else
            gt_buf_printf(to, "used by %s", whose.data ? whose.data : "a pod");
    } else if (!(node->free & bit)) {
        gt_buf_puts(to, "used by a pod that is not known here");
    } else if (promise) {
        gt_cache_say_promise(view->cache, promise, unix_ms, to);
    } else if (node->healthy & bit) {
        gt_buf_puts(to, node->eligible ? "free" : "not used, but nothing is placed here");
    }
}

static void explain_node_end_line(uint64_t mask, const struct gt_buf *says, struct gt_buf *to)
{
    gt_buf_puts(to, gt_bit_count(mask) == 1 ? "GPU " : "GPUs ");
    gt_text_add_mask(to, mask);
    gt_buf_printf(to, ": %s\n", says->data ? says->data : "");
}

void gt_explain_node_text(const struct gt_debug_view *view, uint32_t id, struct gt_buf *to)
{
    gt_auto_buf struct gt_buf says = GT_BUF(HOLDER_MAX), note = GT_BUF(HOLDER_MAX);
    struct gt_cluster_node node;
    uint64_t mask = 0;
    if (!gt_cluster_get_node(gt_cache_cluster(view->cache), id, &node))
        return;
    unsigned gpus = gt_class_gpus(node.class);
    gt_model_node_note(view, id, &note);
    gt_buf_printf(to, "node %s: %u of %u GPU%s can be given away", node.name, gt_bit_count(node.available),
                  gpus, gt_plural(gpus));
    gt_buf_printf(to, note.len ? "; %s\n" : "\n", note.data);
    for (unsigned gpu = 0; gpu < gpus; gpu++) {
        gt_auto_buf struct gt_buf one = GT_BUF(HOLDER_MAX);
        say_holder(view, id, &node, gpu, &one);
        if (mask && (one.len != says.len || memcmp(one.data, says.data, one.len) != 0)) {
            explain_node_end_line(mask, &says, to);
            mask = 0;
        }
        mask |= UINT64_C(1) << gpu;
        gt_buf_consume(&says, says.len);
        gt_buf_add(&says, one.data, one.len);
    }
    explain_node_end_line(mask, &says, to);
}
