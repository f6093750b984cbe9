/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/companion/placement_private.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/isolation.h"
#include "api/meta.h"
#include "api/names.h"
#include "base/clock.h"
#include "base/digest.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "kube/writer.h"

/*
 * What is isolated by UUID follows the GPU into another node. What is known of the cluster says where to
 * look; what is written follows from both NodeGPUTopologies as they are then, one pair after the other:
 *
 * 1. The entry is copied into the new node's list, and both Nodes get an Event.
 * 2. Both are read again. If the old node's list has lost the entry meanwhile, somebody has released it, and
 *    the copy is taken back.
 * 3. Once the new node's agent obeys, the entry leaves the old node's list. It is always in one of them.
 *
 * Each step can be the first of another leader.
 */

enum {
    TOLD_MAX = 1 << 14, /* further isolations do not follow */
    TOLD_SLOTS = 1 << 12,
    MOVED_SETTLE_MS = 100,
    MOVED_AGAIN_MS = 5000,
    MOVED_LOOK_MS = 60000, /* an agent that falls silent is no change */
    MOVED_BODY_MAX = 256 << 10,
};

/* What a node's list names by UUID. */
struct told_gpu {
    char node[GT_API_NAME_MAX + 1];
    char uuids[2][GT_ID_SIZE];          /* of a link, or the second is "" */
    uint32_t at;                        /* another node that has been seen with them; GT_NONE: none */
    unsigned next_of_node, next_of_gpu; /* in the chain of the node's slot, and of the first UUID's */
    uint64_t due_ms;                    /* when it is to be looked at */
    bool is_said;                       /* by the object that is read */
    bool is_lost;                       /* `at` is to be searched in all nodes */
    bool is_failing;                    /* and that is said */
};

/* Two nodes that are worked on. */
struct moved_pair {
    char from[GT_API_NAME_MAX + 1], to[GT_API_NAME_MAX + 1];
    uint32_t at; /* the second */
    bool runs, is_failing;
    bool is_silent; /* the first's agent is */
    struct gt_kube_call *call;
    cJSON *from_object, *to_object;
    cJSON *added; /* to the second's list; NULL: nothing so far */
    enum { MOVED_COPIES, MOVED_TAKES_BACK, MOVED_TAKES_OUT } writes;
};

struct gt_moved_gpus {
    const struct gt_part_env *env;
    struct gt_source *timer;
    struct gt_write_line line;
    struct told_gpu *told;
    unsigned count, capacity;
    struct {
        unsigned of_node, of_gpu;
    } slots[TOLD_SLOTS]; /* the heads of the chains: a place in `told` and 1; 0: the end */
    unsigned next;       /* of `told`, to be looked at */
    bool leads, is_over_max;
    struct moved_pair pair;
};

static const struct gt_cluster *moved_cluster(const struct gt_moved_gpus *moved)
{
    return gt_cache_cluster(gt_informers_cache(moved->env->informers));
}

/* ---- what is told ---- */

static unsigned told_slot(const char *name)
{
    char lower[GT_API_NAME_MAX + 1];
    size_t len = 0;
    for (; len < GT_API_NAME_MAX && name[len]; len++)
        lower[len] = (char)tolower((unsigned char)name[len]);
    lower[len] = '\0';
    return gt_digest_hash(gt_digest_keyed(lower)) % TOLD_SLOTS;
}

static struct told_gpu *told_at(const struct gt_moved_gpus *moved, unsigned link)
{
    return link ? &moved->told[link - 1] : NULL;
}

static struct told_gpu *told_of_node(const struct gt_moved_gpus *moved, const char *node)
{
    return told_at(moved, moved->slots[told_slot(node)].of_node);
}

static struct told_gpu *told_of_gpu(const struct gt_moved_gpus *moved, const char *uuid)
{
    return told_at(moved, moved->slots[told_slot(uuid)].of_gpu);
}

static void told_link(struct gt_moved_gpus *moved, unsigned i)
{
    struct told_gpu *told = &moved->told[i];
    unsigned *of_node = &moved->slots[told_slot(told->node)].of_node;
    unsigned *of_gpu = &moved->slots[told_slot(told->uuids[0])].of_gpu;
    told->next_of_node = *of_node;
    told->next_of_gpu = *of_gpu;
    *of_node = *of_gpu = i + 1;
}

static struct told_gpu *told_find(const struct gt_moved_gpus *moved, const char *node,
                                  const char *const uuids[static 2])
{
    struct told_gpu *told = told_of_gpu(moved, uuids[0]);
    while (told && (strcmp(told->node, node) != 0 || strcmp(told->uuids[0], uuids[0]) != 0 ||
                    strcmp(told->uuids[1], uuids[1] ? uuids[1] : "") != 0))
        told = told_at(moved, told->next_of_gpu);
    return told;
}

static void moved_due(struct gt_moved_gpus *moved, struct told_gpu *told)
{
    uint64_t due_ms = gt_clock_ms() + MOVED_SETTLE_MS;
    told->due_ms = told->due_ms < due_ms ? told->due_ms : due_ms;
    if (moved->leads && !moved->pair.runs)
        gt_source_arm(moved->timer, MOVED_SETTLE_MS);
}

static struct told_gpu *told_add(struct gt_moved_gpus *moved, const char *node,
                                 const char *const uuids[static 2])
{
    if (moved->count == TOLD_MAX && !moved->is_over_max) {
        moved->is_over_max = true;
        gt_warning("too much is isolated by UUID: the rest does not follow its GPUs to other nodes",
                   GT_INT("limit", TOLD_MAX));
    }
    if (moved->count == TOLD_MAX || !GT_GROW(moved->told, moved->count, moved->capacity, 16U))
        return NULL;
    struct told_gpu *told = &moved->told[moved->count];
    *told = (struct told_gpu){.at = GT_NONE, .is_lost = true};
    gt_text_copy(told->node, sizeof(told->node), node);
    gt_text_copy(told->uuids[0], sizeof(told->uuids[0]), uuids[0]);
    gt_text_copy(told->uuids[1], sizeof(told->uuids[1]), uuids[1] ? uuids[1] : "");
    told_link(moved, moved->count++);
    return told;
}

/* What this node tells, `entries` NULL: nothing, takes the place of what it told before. */
static void moved_replace(struct gt_moved_gpus *moved, const char *node, const cJSON *entries)
{
    const char *uuids[2];
    const cJSON *entry;
    unsigned kept = 0;
    bool goes = false;
    for (struct told_gpu *told = told_of_node(moved, node); told; told = told_at(moved, told->next_of_node))
        told->is_said = strcmp(told->node, node) != 0;
    cJSON_ArrayForEach(entry, entries)
    {
        if (!gt_isolated_uuids(entry, uuids) || gt_isolated_is_over(entry, time(NULL)))
            continue;
        struct told_gpu *told = told_find(moved, node, uuids);
        if (!told && !(told = told_add(moved, node, uuids)))
            continue;
        told->is_said = true;
        moved_due(moved, told);
    }
    for (struct told_gpu *told = told_of_node(moved, node); told; told = told_at(moved, told->next_of_node))
        goes = goes || !told->is_said;
    if (!goes)
        return;
    for (unsigned i = 0; i < moved->count; i++)
        if (moved->told[i].is_said)
            moved->told[kept++] = moved->told[i];
    moved->count = kept;
    moved->is_over_max = false;
    memset(moved->slots, 0, sizeof(moved->slots));
    for (unsigned i = 0; i < kept; i++)
        told_link(moved, i);
}

static void moved_send_event(const struct gt_moved_gpus *moved, const char *node, const char *reason,
                             const char *text)
{
    const struct gt_event_object event = {.api_version = "v1",
                                          .kind = "Node",
                                          .name = node,
                                          .uid = node, /* as the kubelet does: kubectl looks for that */
                                          .reason = reason,
                                          .action = "Report",
                                          .note = text};
    gt_kube_record(moved->env->recorder, &event);
}

/* ---- where it is ---- */

static bool moved_node_has(const struct gt_cache *cache, uint32_t node, const char *uuid)
{
    const char *id = "";
    for (unsigned gpu = 0; id && gpu < GT_GPUS_MAX; gpu++)
        if ((id = gt_cache_device_id(cache, node, gpu)) && strcasecmp(id, uuid) == 0)
            return true;
    return false;
}

static bool moved_node_has_all(const struct gt_cache *cache, uint32_t node, const struct told_gpu *told)
{
    return node != GT_NONE && moved_node_has(cache, node, told->uuids[0]) &&
           (!told->uuids[1][0] || moved_node_has(cache, node, told->uuids[1]));
}

/* Notes what other nodes tell of this one's GPUs. */
static void moved_see(struct gt_moved_gpus *moved, uint32_t node)
{
    const struct gt_cache *cache = gt_informers_cache(moved->env->informers);
    struct gt_cache_node state;
    struct gt_cluster_node at;
    const char *id = "";
    if (!gt_cache_get_node(cache, node, &state) || state.stale || state.outlived ||
        !gt_cluster_get_node(moved_cluster(moved), node, &at))
        return;
    for (unsigned gpu = 0; id && gpu < GT_GPUS_MAX; gpu++) {
        id = gt_cache_device_id(cache, node, gpu);
        for (struct told_gpu *told = id ? told_of_gpu(moved, id) : NULL; told;
             told = told_at(moved, told->next_of_gpu)) {
            if (strcmp(told->node, at.name) == 0 || strcasecmp(told->uuids[0], id) != 0 ||
                !moved_node_has_all(cache, node, told))
                continue;
            told->at = node;
            told->is_lost = false;
            moved_due(moved, told);
        }
    }
}

/* Some other node's list has it, too. */
static bool moved_is_told_elsewhere(const struct gt_moved_gpus *moved, const struct told_gpu *told)
{
    const struct told_gpu *other = told_of_gpu(moved, told->uuids[0]);
    while (other && (strcmp(other->uuids[0], told->uuids[0]) != 0 ||
                     strcmp(other->uuids[1], told->uuids[1]) != 0 || strcmp(other->node, told->node) == 0))
        other = told_at(moved, other->next_of_gpu);
    return other;
}

/* What was told goes with its object, and cannot follow. */
void gt_moved_gpus_observe_deleted(struct gt_moved_gpus *moved, const char *node)
{
    const struct told_gpu *first = NULL;
    unsigned more = 0;
    char others[32] = "", text[512];
    for (struct told_gpu *told = told_of_node(moved, node); told; told = told_at(moved, told->next_of_node)) {
        if (strcmp(told->node, node) != 0 || moved_is_told_elsewhere(moved, told))
            continue;
        more += first != NULL;
        first = told;
    }
    if (more)
        snprintf(others, sizeof(others), " and %u more", more);
    if (first && moved->leads) {
        bool link = first->uuids[1][0];
        snprintf(text, sizeof(text),
                 "%s %s%s%s%s stay%s isolated in this node alone, since its NodeGPUTopology was deleted: "
                 "isolate a card by its UUID again where it moves to",
                 link ? "the link of" : "GPU", first->uuids[0], link ? " and " : "", first->uuids[1], others,
                 more ? "" : "s");
        moved_send_event(moved, node, "IsolationLeftBehind", text);
    }
    moved_replace(moved, node, NULL);
}

void gt_moved_gpus_observe(struct gt_moved_gpus *moved, const cJSON *object)
{
    const char *name = gt_meta_name(object);
    moved_replace(moved, name, gt_isolated_entries(object));
    moved_see(moved, gt_cluster_find_node(moved_cluster(moved), name));
}

/* ---- one pair ---- */

static void moved_clear(struct gt_moved_gpus *moved)
{
    struct moved_pair *pair = &moved->pair;
    gt_kube_cancel(pair->call);
    cJSON_Delete(pair->from_object);
    cJSON_Delete(pair->to_object);
    cJSON_Delete(pair->added);
    *pair = (struct moved_pair){0};
}

/* The next one, if there is one. */
static void moved_end(struct gt_moved_gpus *moved)
{
    moved_clear(moved);
    gt_source_arm(moved->timer, 1);
}

static void moved_set_due(struct gt_moved_gpus *moved, unsigned after_ms, bool is_failing)
{
    const struct moved_pair *pair = &moved->pair;
    for (struct told_gpu *told = told_of_node(moved, pair->from); told;
         told = told_at(moved, told->next_of_node)) {
        if (told->at != pair->at || strcmp(told->node, pair->from) != 0)
            continue;
        told->due_ms = gt_clock_ms() + after_ms;
        told->is_failing = is_failing;
    }
}

static void moved_note_failure(struct gt_moved_gpus *moved, const struct gt_err *why)
{
    gt_log(moved->pair.is_failing ? GT_LOG_DEBUG : GT_LOG_WARNING,
           "what is isolated cannot follow its GPU to another node, it is tried again",
           GT_STR("from", moved->pair.from), GT_STR("to", moved->pair.to), GT_STR("why", gt_err_text(why)));
    moved_set_due(moved, MOVED_AGAIN_MS, true);
}

static void moved_fail(struct gt_moved_gpus *moved, const struct gt_err *why)
{
    moved_note_failure(moved, why);
    moved_end(moved);
}

static void moved_tell(const struct gt_moved_gpus *moved, const char *node, const cJSON *entry)
{
    const char *uuids[2], *by = gt_get_string(entry, "by");
    char reason[201], text[768];
    gt_isolated_uuids(entry, uuids);
    gt_text_shorten(reason, sizeof(reason), gt_get_string(entry, "reason"));
    snprintf(text, sizeof(text), "%s %s%s%s is in node %s now, and stays isolated there: %s%s%.64s",
             uuids[1] ? "the link of" : "GPU", uuids[0], uuids[1] ? " and " : "", uuids[1] ? uuids[1] : "",
             moved->pair.to, reason, *by ? ", says " : "", by);
    moved_send_event(moved, node, "IsolationMoved", text);
}

static void moved_tell_all(const struct gt_moved_gpus *moved)
{
    const cJSON *entry;
    cJSON_ArrayForEach(entry, moved->pair.added)
    {
        moved_tell(moved, moved->pair.from, entry);
        moved_tell(moved, moved->pair.to, entry);
    }
    gt_info("what is isolated follows its GPU to another node", GT_STR("from", moved->pair.from),
            GT_STR("to", moved->pair.to), GT_INT("entries", cJSON_GetArraySize(moved->pair.added)));
}

static void moved_on_read(void *arg, struct gt_kube_answer *answer);

static void moved_read(struct gt_moved_gpus *moved, const char *node)
{
    gt_auto_err struct gt_err *err = NULL;
    const struct gt_kube_request request = {
        .verb = GT_KUBE_GET, .resource = &gt_kube_node_gpu_topologies, .name = node};
    if (gt_kube_start(moved->env->kube, &request, moved_on_read, moved, &moved->pair.call, &err) < 0)
        moved_fail(moved, err);
}

/* `list` NULL: nothing is to be written. */
static void moved_write(struct gt_moved_gpus *moved, const char *node, const cJSON *object, const cJSON *list)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_buf struct gt_buf body = GT_BUF(MOVED_BODY_MAX);
    if (!list) {
        moved_end(moved);
        return;
    }
    gt_isolated_patch_write(gt_meta_version(object), list, &body);
    const struct gt_kube_request request = {.verb = GT_KUBE_MERGE_PATCH,
                                            .resource = &gt_kube_node_gpu_topologies,
                                            .name = node,
                                            .body = body.data,
                                            .field_manager = GT_MANAGER_COMPANION,
                                            .metadata_only = true};
    if (gt_buf_check(&body, "patch", &err) >= 0 && gt_write_post(&moved->line, &request, moved))
        return;
    if (!err)
        gt_fail(&err, ENOMEM, "no memory");
    moved_fail(moved, err);
}

static void moved_decide(struct gt_moved_gpus *moved)
{
    struct moved_pair *pair = &moved->pair;
    gt_auto_err struct gt_err *err = NULL;
    gt_auto_isolated_move struct gt_isolated_move move = {0};
    const struct gt_isolated_moving moving = {pair->from_object, pair->to_object, pair->is_silent,
                                              time(NULL)};
    int r = gt_isolated_move_make(&moving, &move, &err);
    if (r >= 0 && move.is_full && !move.leaves && !cJSON_GetArraySize(move.added))
        r = gt_fail(&err, ENOSPC, "node %s has %d isolations already, the most there may be", pair->to,
                    GT_ISOLATIONS_MAX);
    if (r < 0) {
        moved_fail(moved, err);
    } else if (cJSON_GetArraySize(move.added)) {
        pair->added = gt_steal(move.added);
        pair->writes = MOVED_COPIES;
        moved_write(moved, pair->to, pair->to_object, move.to);
    } else {
        pair->writes = MOVED_TAKES_OUT;
        moved_write(moved, pair->from, pair->from_object, move.leaves ? move.from : NULL);
    }
}

static void moved_on_read(void *arg, struct gt_kube_answer *answer)
{
    struct gt_moved_gpus *moved = arg;
    struct moved_pair *pair = &moved->pair;
    cJSON **to = pair->from_object ? &pair->to_object : &pair->from_object;
    pair->call = NULL;
    if (answer->error) {
        moved_fail(moved, answer->error);
        return;
    }
    *to = gt_steal(answer->object);
    if (!pair->to_object)
        moved_read(moved, pair->to);
    else if (pair->added) { /* what was copied, and released before it was there */
        gt_auto_json cJSON *list = gt_isolated_take_back(pair->from_object, pair->to_object, pair->added);
        pair->writes = MOVED_TAKES_BACK;
        moved_write(moved, pair->to, pair->to_object, list);
    } else
        moved_decide(moved);
}

static bool moved_on_written(struct gt_write_key *key, enum gt_write_outcome outcome,
                             struct gt_kube_answer *answer)
{
    struct gt_moved_gpus *moved = key->of;
    struct moved_pair *pair = &moved->pair;
    bool copies = pair->writes == MOVED_COPIES;
    if (outcome != GT_WRITE_DONE && !(copies && outcome == GT_WRITE_UNKNOWN)) {
        moved_fail(moved, answer->error);
        return false;
    }
    if (!copies) {
        gt_info(pair->writes == MOVED_TAKES_OUT
                    ? "what is isolated has followed its GPU to another node"
                    : "what is isolated was released while it followed its GPU to another node",
                GT_STR("from", pair->from), GT_STR("to", pair->to));
        moved_end(moved);
        return false;
    }
    moved_tell_all(moved);
    if (outcome == GT_WRITE_UNKNOWN) /* it may be there, and released meanwhile */
        moved_note_failure(moved, answer->error);
    cJSON_Delete(gt_steal(pair->from_object));
    cJSON_Delete(gt_steal(pair->to_object));
    moved_read(moved, pair->from);
    return false;
}

/* ---- one pair after the other ---- */

/* NULL: there is nothing to do for it now. */
static const char *moved_where(struct gt_moved_gpus *moved, struct told_gpu *told, bool *ret_is_silent)
{
    const struct gt_cache *cache = gt_informers_cache(moved->env->informers);
    uint32_t from = gt_cluster_find_node(moved_cluster(moved), told->node);
    struct gt_cluster_node node;
    struct gt_cache_node old, new;
    *ret_is_silent = from == GT_NONE || !gt_cache_get_node(cache, from, &old) || !old.has_node || old.stale ||
                     old.outlived || !old.ready;
    if (!*ret_is_silent && moved_node_has_all(cache, from, told))
        return NULL;
    if (told->is_lost) { /* one search finds all; the rest is seen when its node's agent reports it */
        for (unsigned i = 0; i < moved->count; i++)
            moved->told[i].is_lost = false;
        for (uint32_t id = 0; id < gt_cluster_nodes(moved_cluster(moved)); id++)
            moved_see(moved, id);
    }
    if (told->at == GT_NONE)
        return NULL;
    if (!moved_node_has_all(cache, told->at, told)) {
        told->at = GT_NONE;
        told->is_lost = true;
        moved_due(moved, told);
        return NULL;
    }
    if (!gt_cache_get_node(cache, told->at, &new) || new.stale || new.outlived)
        return NULL;
    return gt_cluster_get_node(moved_cluster(moved), told->at, &node) ? node.name : NULL;
}

/* All GPUs that have gone the same way are one pair. */
static bool moved_begin(struct gt_moved_gpus *moved, struct told_gpu *told)
{
    struct moved_pair *pair = &moved->pair;
    bool is_silent;
    told->due_ms = gt_clock_ms() + MOVED_LOOK_MS;
    const char *to = moved_where(moved, told, &is_silent);
    if (!to)
        return false;
    *pair = (struct moved_pair){
        .at = told->at, .runs = true, .is_failing = told->is_failing, .is_silent = is_silent};
    gt_text_copy(pair->from, sizeof(pair->from), told->node);
    gt_text_copy(pair->to, sizeof(pair->to), to);
    moved_set_due(moved, MOVED_LOOK_MS, false);
    return true;
}

static void moved_on_timer(void *arg)
{
    struct gt_moved_gpus *moved = arg;
    uint64_t now = gt_clock_ms(), next_ms = now + MOVED_LOOK_MS;
    if (!moved->leads || moved->pair.runs)
        return;
    if (!gt_informers_is_synced(moved->env->informers, NULL)) {
        gt_source_arm(moved->timer, MOVED_SETTLE_MS);
        return;
    }
    for (unsigned left = moved->count; left; left--) {
        struct told_gpu *told = &moved->told[moved->next++ % moved->count];
        if (told->due_ms <= now && moved_begin(moved, told)) {
            moved_read(moved, moved->pair.from);
            return;
        }
        next_ms = told->due_ms < next_ms ? told->due_ms : next_ms;
    }
    gt_source_arm(moved->timer, next_ms > now ? next_ms - now : 1);
}

/* ---- creation and end ---- */

void gt_moved_gpus_lead(struct gt_moved_gpus *moved, bool leads)
{
    moved->leads = leads;
    gt_source_disarm(moved->timer);
    if (leads) {
        for (unsigned i = 0; i < moved->count; i++)
            moved->told[i].due_ms = 0;
        gt_source_arm(moved->timer, MOVED_SETTLE_MS);
        return;
    }
    moved_clear(moved);
    gt_write_clear(&moved->line);
}

void gt_moved_gpus_free(struct gt_moved_gpus *moved)
{
    if (!moved)
        return;
    moved_clear(moved);
    gt_write_close(&moved->line);
    gt_source_free(moved->timer);
    free(moved->told);
    free(moved);
}
GT_DEFINE_CLEANUP(struct gt_moved_gpus *, gt_moved_gpus_free)

int gt_moved_gpus_new(const struct gt_part_env *env, struct gt_moved_gpus **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_moved_gpus_free) struct gt_moved_gpus *moved = calloc(1, sizeof(*moved));
    GT_NEED(moved, err, "isolations that follow their GPUs");
    moved->env = env;
    moved->line = (struct gt_write_line){.name = "isolations",
                                         .order = GT_WRITE_LAST,
                                         .running_max = 1,
                                         .body_max = MOVED_BODY_MAX,
                                         .retry_ms = MOVED_AGAIN_MS,
                                         .may_send = env->is_leading,
                                         .arg = env->leading_arg,
                                         .answered = moved_on_written};
    gt_write_open(gt_kube_writer(env->kube), &moved->line);
    GT_TRY(gt_loop_add_timer(env->loop, moved_on_timer, moved, &moved->timer, err));
    *ret = gt_steal(moved);
    return 0;
}
