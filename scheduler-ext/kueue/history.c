/* SPDX-License-Identifier: Apache-2.0 */
#include "scheduler-ext/kueue/history.h"

#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "base/digest.h"
#include "base/err.h"
#include "base/table.h"
#include "base/text.h"

enum { GAP_MS = 300000, MISSING_NAMED = 8 };

struct seen_member {
    uint32_t hash;
    uint8_t gpus;     /* another number is another record */
    bool alone;       /* in no supernode: a supernode by itself */
    uint64_t seen_ms; /* the last time */
    const char *node; /* in `supernode`, behind the first text */
    char supernode[];
};

struct gt_member_history {
    uint64_t keep_ms, since_ms, noted_ms; /* since_ms 0: nothing is noted */
    struct gt_table members;
    struct seen_member **sorted; /* by supernode, node, and most GPUs first; NULL: to be made */
};

int gt_member_history_new(uint64_t keep_ms, struct gt_member_history **ret, struct gt_err **err)
{
    struct gt_member_history *history = calloc(1, sizeof(*history));
    GT_NEED(history, err, "supernodes' history");
    history->keep_ms = keep_ms;
    *ret = history;
    return 0;
}

void gt_member_history_free(struct gt_member_history *history)
{
    if (!history)
        return;
    for (uint32_t i = 0; i < history->members.size; i++)
        free(history->members.items[i]);
    gt_table_done(&history->members);
    free(history->sorted);
    free(history);
}

/* ---- what is seen ---- */

struct member_key {
    const char *supernode, *node;
    unsigned gpus;
    bool alone;
};

static bool is_same_member(const void *item, const void *key)
{
    const struct seen_member *member = item;
    const struct member_key *wanted = key;
    return member->gpus == wanted->gpus && member->alone == wanted->alone &&
           strcmp(member->supernode, wanted->supernode) == 0 && strcmp(member->node, wanted->node) == 0;
}

static void history_change(struct gt_member_history *history)
{
    free(history->sorted);
    history->sorted = NULL;
}

/* False without memory, or beyond the limit. */
static bool history_add_member(struct gt_member_history *history, const struct member_key *key, uint32_t hash)
{
    size_t before = strlen(key->supernode) + 1, size = before + strlen(key->node) + 1;
    struct seen_member *member =
        history->members.count < GT_HISTORY_MEMBERS_MAX ? malloc(sizeof(*member) + size) : NULL;
    if (!member)
        return false;
    *member = (struct seen_member){
        .hash = hash, .gpus = (uint8_t)key->gpus, .alone = key->alone, .seen_ms = history->noted_ms};
    memcpy(member->supernode, key->supernode, before);
    member->node = memcpy(member->supernode + before, key->node, size - before);
    if (gt_table_add(&history->members, hash, member) < 0) {
        free(member);
        return false;
    }
    history_change(history);
    return true;
}

/* A removal may move a later item to this place, so the place is looked at again. */
static void forget_old(struct gt_member_history *history)
{
    for (uint32_t i = 0; i < history->members.size;) {
        struct seen_member *member = history->members.items[i];
        if (!member || history->noted_ms - member->seen_ms <= history->keep_ms) {
            i++;
            continue;
        }
        history_change(history);
        gt_table_remove(&history->members, member->hash, member);
        free(member);
    }
}

void gt_member_history_note(struct gt_member_history *history, const struct gt_cluster *cluster,
                            uint64_t now_ms)
{
    if (!history->since_ms || now_ms - history->noted_ms > GAP_MS)
        history->since_ms = now_ms;
    history->noted_ms = now_ms;
    for (uint32_t n = 0; n < gt_cluster_nodes(cluster); n++) {
        struct gt_cluster_node node;
        struct gt_cluster_supernode supernode;
        if (!gt_cluster_get_node(cluster, n, &node) ||
            !gt_cluster_get_supernode(cluster, node.supernode, &supernode))
            continue;
        const struct member_key key = {supernode.name, node.name, gt_bit_count(node.all), supernode.is_node};
        uint32_t hash = gt_digest_hash_of_name(key.supernode, key.node);
        struct seen_member *member = gt_table_find(&history->members, hash, is_same_member, &key);
        if (member)
            member->seen_ms = now_ms;
        else if (!history_add_member(history, &key, hash))
            history->since_ms = now_ms; /* not all of it is known */
    }
    forget_old(history);
}

bool gt_member_history_is_whole(const struct gt_member_history *history)
{
    return history->since_ms && history->noted_ms - history->since_ms >= history->keep_ms;
}

uint64_t gt_member_history_span(const struct gt_member_history *history)
{
    return history->keep_ms;
}

/* ---- questions ---- */

static int by_member(const void *a, const void *b)
{
    const struct seen_member *x = *(struct seen_member *const *)a, *y = *(struct seen_member *const *)b;
    int order = strcmp(x->supernode, y->supernode);
    if (!order)
        order = (int)x->alone - (int)y->alone;
    if (!order)
        order = strcmp(x->node, y->node);
    return order ? order : (int)y->gpus - (int)x->gpus;
}

static bool history_sort(struct gt_member_history *history)
{
    uint32_t count = 0;
    if (history->sorted)
        return true;
    history->sorted = calloc((size_t)history->members.count + 1, sizeof(struct seen_member *));
    for (uint32_t i = 0; history->sorted && i < history->members.size; i++)
        if (history->members.items[i])
            history->sorted[count++] = history->members.items[i];
    if (history->sorted)
        qsort(history->sorted, count, sizeof(struct seen_member *), by_member);
    return history->sorted;
}

static bool is_same_supernode(const struct seen_member *a, const struct seen_member *b)
{
    return a->alone == b->alone && strcmp(a->supernode, b->supernode) == 0;
}

/* Whether a record of the same node in the same supernode, with more GPUs, is before it. */
static bool is_lesser(const struct gt_member_history *history, uint32_t i)
{
    return i && is_same_supernode(history->sorted[i], history->sorted[i - 1]) &&
           strcmp(history->sorted[i]->node, history->sorted[i - 1]->node) == 0;
}

uint32_t gt_member_history_most(struct gt_member_history *history, unsigned gpus, const char **ret_name)
{
    uint32_t most = 0, pods = 0;
    *ret_name = "";
    if (!history_sort(history))
        return UINT32_MAX;
    for (uint32_t i = 0; i < history->members.count; i++) {
        const struct seen_member *member = history->sorted[i];
        if (i && !is_same_supernode(member, history->sorted[i - 1]))
            pods = 0;
        if (!is_lesser(history, i))
            pods += member->gpus / gpus;
        if (pods > most) {
            most = pods;
            *ret_name = member->supernode;
        }
    }
    return most;
}

/* Appends what is wrong with it now; false: nothing. */
static bool say_missing(const struct seen_member *member, const struct gt_cluster *cluster, struct gt_buf *to)
{
    struct gt_cluster_node node;
    struct gt_cluster_supernode supernode;
    if (!gt_cluster_get_node(cluster, gt_cluster_find_node(cluster, member->node), &node) ||
        !gt_cluster_get_supernode(cluster, node.supernode, &supernode)) {
        gt_buf_printf(to, "%s has no NodeGPUTopology", member->node);
        return true;
    }
    bool left = strcmp(supernode.name, member->supernode) != 0;
    unsigned gpus = gt_bit_count(node.all);
    if (left)
        gt_buf_printf(to, "%s is in %s%s", member->node, supernode.is_node ? "no supernode" : "supernode ",
                      supernode.is_node ? "" : supernode.name);
    else if (gpus < member->gpus)
        gt_buf_printf(to, "%s has %u GPU%s, before %u", member->node, gpus, gt_plural(gpus), member->gpus);
    return left || gpus < member->gpus;
}

bool gt_member_history_missing(struct gt_member_history *history, const struct gt_cluster *cluster,
                               const char *supernode, struct gt_buf *to)
{
    uint32_t missing = 0;
    for (uint32_t i = 0; history_sort(history) && i < history->members.count; i++) {
        gt_auto_buf struct gt_buf one = GT_BUF(4 * GT_CLUSTER_NAME_MAX);
        if (strcmp(history->sorted[i]->supernode, supernode) != 0 || is_lesser(history, i) ||
            !say_missing(history->sorted[i], cluster, &one))
            continue;
        if (missing++ < MISSING_NAMED)
            gt_buf_printf(to, "%s%s", missing == 1 ? "" : ", ", one.data);
    }
    if (missing > MISSING_NAMED)
        gt_buf_printf(to, ", and %u more", missing - MISSING_NAMED);
    return missing;
}
