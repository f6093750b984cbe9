/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/changes.h"

#include <string.h>

#include "api/names.h"
#include "base/bits.h"
#include "base/buf.h"
#include "base/log.h"
#include "topology/model/health.h"

/* What is reported as an Event, by reason: a list of GPUs or links. */
enum change { LOST, BACK, MOVED, UNHEALTHY, HELD, RECOVERED, LINK_DOWN, LINK_UP, CHANGES };

static const struct {
    const char *reason, *what;
    bool warning;
} facts[CHANGES] = {
    [LOST] = {"GPULost", "GPUs are not on the PCI bus any more", true},
    [BACK] = {"GPUBack", "GPUs are on the PCI bus again", false},
    [MOVED] = {"GPUMoved", "GPUs are in another slot, and isolations by UUID followed them", false},
    [UNHEALTHY] = {GT_REASON_GPU_UNHEALTHY, "GPUs are unhealthy, and no new container gets them", true},
    [HELD] =
        {"GPUHeldBack",
         "GPUs became unhealthy again and again, and are held back until they have been healthy for longer",
         true},
    [RECOVERED] = {"GPURecovered", "GPUs are not unhealthy any more", false},
    [LINK_DOWN] = {"LinkDown", "direct links between GPUs are down", true},
    [LINK_UP] = {"LinkUp", "direct links between GPUs are up again", false},
};

enum { CHANGE_NOTE_MAX = 960 }; /* an Event takes 1,024 bytes, and is cut there */

struct changes {
    struct gt_buf who[CHANGES];
};

static void changes_add(struct changes *changes, enum change change, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static void changes_add(struct changes *changes, enum change change, const char *format, ...)
{
    struct gt_buf *who = &changes->who[change];
    va_list args;
    if (who->len > CHANGE_NOTE_MAX)
        return;
    gt_buf_puts(who, who->len ? ", " : "");
    va_start(args, format);
    gt_buf_vprintf(who, format, args);
    va_end(args);
}

static void report_all(const struct changes *changes, gt_changes_report *report, void *arg)
{
    for (unsigned i = 0; report && i < CHANGES; i++) {
        gt_auto_buf struct gt_buf note = GT_BUF(4 * CHANGE_NOTE_MAX);
        if (!changes->who[i].len)
            continue;
        gt_buf_printf(&note, "%s: %s", facts[i].what, changes->who[i].data);
        if (!note.failed)
            report(arg, facts[i].warning, facts[i].reason, note.data);
    }
}

static unsigned count_links(const struct gt_node *node, bool down_only)
{
    unsigned count = 0;
    for (unsigned i = 0; i < node->link_count; i++)
        if (node->links[i].kind == GT_LINK_MX && (!down_only || node->links[i].state == GT_LINK_STATE_DOWN))
            count++;
    return count;
}

static bool knows_missing(const struct gt_node *node, const struct gt_missing *missing)
{
    for (unsigned i = 0; node && i < node->missing_count; i++)
        if (strcmp(node->missing[i].what, missing->what) == 0 &&
            strcmp(node->missing[i].why, missing->why) == 0)
            return true;
    return false;
}

static void log_missing(const struct gt_node *before, const struct gt_node *after)
{
    for (unsigned i = 0; i < after->missing_count; i++) {
        const struct gt_missing *missing = &after->missing[i];
        if (!knows_missing(before, missing))
            gt_info("cannot read", GT_STR("what", missing->what), GT_STR("why", missing->why));
    }
}

/* Logs what concerns the node as a whole. */
static void log_node(const struct gt_node *before, const struct gt_node *after)
{
    if (!before)
        gt_info("node discovered", GT_STR("node", after->name), GT_INT("gpus", after->gpu_count),
                GT_INT("healthy", gt_bit_count(gt_node_with_health(after, GT_GPU_HEALTHY))),
                GT_INT("unhealthy", gt_bit_count(gt_node_with_health(after, GT_GPU_UNHEALTHY))),
                GT_INT("nics", after->nic_count), GT_INT("direct_links", count_links(after, false)),
                GT_INT("down", count_links(after, true)), GT_INT("missing", after->missing_count));
    if (!after->gpu_count && (!before || before->gpu_count))
        gt_info("this node has no GPU, nothing to advertise", GT_STR("node", after->name));
    const char *was = before ? gt_node_not_advertised(before) : NULL, *is = gt_node_not_advertised(after);
    if (is && !was)
        gt_warning("node is not advertised", GT_STR("why", is));
    else if (was && !is)
        gt_info("node is advertised again");
    if (before && strcmp(before->server_uuid, after->server_uuid) != 0)
        gt_info("server UUID changed", GT_STR("before", before->server_uuid),
                GT_STR("now", after->server_uuid));
}

static void log_device(const struct gt_device *was, const struct gt_device *is, bool first,
                       struct changes *changes)
{
    bool was_there = was && was->gpu >= 0, is_there = is->gpu >= 0, was_healthy = !was || was->healthy;
    if (is->retired) {
        if (was_there)
            gt_info("GPU gets its UUID as ID", GT_STR("before", is->id), GT_STR("why", is->reason));
        return;
    }
    if (was_there && !is_there) {
        gt_warning("GPU lost", GT_STR("id", is->id), GT_STR("bdf", is->bdf));
        changes_add(changes, LOST, "%s at %s", is->id, is->bdf);
        return;
    }
    if (was && !was_there && is_there) {
        gt_info("GPU back", GT_STR("id", is->id), GT_STR("bdf", is->bdf), GT_BOOL("healthy", is->healthy));
        changes_add(changes, BACK, "%s at %s", is->id, is->bdf);
        was_healthy = true;
    } else if (!was && !first)
        gt_info("GPU found", GT_STR("id", is->id), GT_STR("bdf", is->bdf));
    if (was && is_there && was->bdf[0] && strcmp(was->bdf, is->bdf) != 0) {
        gt_info("GPU moved", GT_STR("id", is->id), GT_STR("before", was->bdf), GT_STR("bdf", is->bdf));
        changes_add(changes, MOVED, "%s from %s to %s", is->id, was->bdf, is->bdf);
    }
    if (was_healthy && !is->healthy) {
        gt_warning("GPU unhealthy", GT_STR("id", is->id), GT_STR("bdf", is->bdf), GT_STR("why", is->reason));
        if (is->gpu >= 0)
            changes_add(changes, UNHEALTHY, "%s at %s (%s)", is->id, is->bdf, is->reason);
    } else if (!was_healthy && is->healthy) {
        gt_info("GPU recovered", GT_STR("id", is->id), GT_STR("bdf", is->bdf));
        changes_add(changes, RECOVERED, "%s at %s", is->id, is->bdf);
    }
    bool was_held = was && strncmp(was->reason, GT_HELD_BACK, strlen(GT_HELD_BACK)) == 0;
    if (!is->healthy && !was_held && strncmp(is->reason, GT_HELD_BACK, strlen(GT_HELD_BACK)) == 0) {
        gt_warning("GPU held back", GT_STR("id", is->id), GT_STR("bdf", is->bdf), GT_STR("why", is->reason));
        changes_add(changes, HELD, "%s at %s (%s)", is->id, is->bdf, is->reason);
    }
}

static void log_links(const struct gt_node *before, const struct gt_node *after, struct changes *changes)
{
    for (unsigned i = 0; i < after->link_count; i++) {
        const struct gt_link *link = &after->links[i], *was = NULL;
        const char *a = after->gpus[link->a].bdf, *b = after->gpus[link->b].bdf;
        int old_a = before ? gt_node_gpu_at(before, a) : -1, old_b = before ? gt_node_gpu_at(before, b) : -1;
        if (old_a >= 0 && old_b >= 0)
            was = gt_node_link(before, (unsigned)old_a, (unsigned)old_b);
        bool was_down = was && was->kind == GT_LINK_MX && was->state == GT_LINK_STATE_DOWN;
        bool is_down = link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_DOWN;
        bool is_up = link->kind == GT_LINK_MX && link->state == GT_LINK_STATE_UP;
        if (is_down ? was_down : !was_down || !is_up)
            continue; /* also where it is not known any more */
        changes_add(changes, is_down ? LINK_DOWN : LINK_UP, "%s - %s", a, b);
        if (is_down)
            gt_warning("link down", GT_STR("a", a), GT_STR("b", b), GT_INT("weight", link->weight));
        else
            gt_info("link up", GT_STR("a", a), GT_STR("b", b), GT_INT("weight", link->weight));
    }
}

void gt_changes_log(const struct gt_inventory *before, const struct gt_inventory *after,
                    gt_changes_report *report, void *arg)
{
    const struct gt_node *was = before ? before->node : NULL, *is = after->node;
    struct changes changes;
    for (unsigned i = 0; i < CHANGES; i++)
        changes.who[i] = (struct gt_buf)GT_BUF(2 * CHANGE_NOTE_MAX);
    log_node(was, is);
    for (unsigned i = 0; i < after->device_count; i++) {
        const struct gt_device *device = &after->devices[i];
        log_device(before ? gt_inventory_find(before, device->id) : NULL, device, !before, &changes);
    }
    log_links(was, is, &changes);
    report_all(&changes, report, arg);
    for (unsigned i = 0; i < CHANGES; i++)
        gt_buf_done(&changes.who[i]);
    log_missing(was, is);
}

/* The index of the same card before, -1 none. */
static int find_card(const struct gt_node *before, const struct gt_gpu *gpu)
{
    for (unsigned i = 0; i < before->gpu_count; i++) {
        const struct gt_gpu *was = &before->gpus[i];
        if (strcmp(was->bdf, gpu->bdf) != 0)
            continue;
        bool swapped = gpu->uuid[0] && was->uuid[0] && strcmp(gpu->uuid, was->uuid) != 0;
        return was->pci.device == gpu->pci.device && !swapped ? (int)i : -1;
    }
    return -1;
}

static bool keep_link(const struct gt_node *before, const struct gt_node *node, struct gt_link *link)
{
    const struct gt_gpu *a = &node->gpus[link->a], *b = &node->gpus[link->b];
    if (a->vendor_index >= 0 || b->vendor_index >= 0 || link->kind == GT_LINK_MX)
        return false;
    int old_a = find_card(before, a), old_b = find_card(before, b);
    const struct gt_link *was =
        old_a >= 0 && old_b >= 0 ? gt_node_link(before, (unsigned)old_a, (unsigned)old_b) : NULL;
    if (!was || was->kind != GT_LINK_MX)
        return false;
    struct gt_link kept = *was;
    kept.a = link->a;
    kept.b = link->b;
    if (link->path_kind != GT_LINK_UNKNOWN)
        kept.path_kind = link->path_kind; /* the kernel still reports that */
    kept.stale = true;
    *link = kept;
    return true;
}

/* Without GPUs no server is known. */
static bool is_silent(const struct gt_node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (node->gpus[i].vendor_index >= 0)
            return false;
    return node->gpu_count > 0;
}

static bool keep_servers(const struct gt_node *before, struct gt_node *node)
{
    if (node->server_uuid[0] || !before->server_uuid[0] || !is_silent(node))
        return false;
    for (unsigned i = 0; i < node->gpu_count; i++)
        if (find_card(before, &node->gpus[i]) < 0)
            return false;
    memcpy(node->server_uuid, before->server_uuid, sizeof(node->server_uuid));
    memcpy(node->remotes, before->remotes, sizeof(node->remotes));
    node->remote_count = before->remote_count;
    return true;
}

int gt_stale_links_keep(const struct gt_node *before, struct gt_node *node, bool *ret_kept,
                        struct gt_err **err)
{
    bool kept = keep_servers(before, node);
    for (unsigned i = 0; i < node->link_count; i++)
        kept |= keep_link(before, node, &node->links[i]);
    int r = kept ? gt_node_finish(node, err) : 0;
    if (r == 0)
        *ret_kept = kept;
    return r;
}
