/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/registration.h"

#include <limits.h>
#include <string.h>

#include "base/digest.h"
#include "deviceplugin/answers.h"

/* Another plugin's socket. */
struct other_plugin {
    struct gt_other_plugins *others;
    char name[NAME_MAX + 1];
    struct gt_socket_id id;
    bool is_there; /* seen since the last query */
    bool is_known; /* it has answered: it lists `shared` devices of this offer */
    unsigned shared;
    struct gt_loop_call call;
};

struct gt_other_plugins {
    struct gt_rpc *rpc;
    struct gt_mailbox *mailbox;
    const struct gt_kubelet_dir *dir;
    gt_other_plugins_result *on_result;
    void *arg;

    struct gt_pod_answer offer;
    const char **ids; /* of the offer, sorted; they live in it */
    uint64_t digest;  /* of the IDs in the queries to other plugins */
    struct other_plugin all[GT_KUBELET_DIR_OTHERS];
    unsigned count, pending;
    char server[NAME_MAX + 1]; /* the plugin of the last result, "" none */
    struct gt_socket_id server_id;
};

void gt_other_plugins_cancel(struct gt_other_plugins *others)
{
    for (unsigned i = 0; i < others->count; i++)
        gt_loop_call_cancel(&others->all[i].call);
    gt_pod_answer_done(&others->offer);
    free(gt_steal(others->ids));
    others->pending = 0;
}

static void other_plugins_finish(struct gt_other_plugins *others, const struct other_plugin *other)
{
    others->server[0] = '\0';
    if (other) {
        memcpy(others->server, other->name, sizeof(others->server));
        others->server_id = other->id;
    }
    gt_other_plugins_cancel(others);
    others->on_result(others->arg, other ? others->server : NULL, other ? other->shared : 0);
}

static void on_list(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    struct other_plugin *other = arg;
    struct gt_other_plugins *others = other->others;
    (void)message;
    other->shared = 0;
    other->is_known = status == GT_RPC_OK && gt_answer_list_shares(reply, len, others->ids,
                                                                   others->offer.uses.count, &other->shared);
    others->pending--;
    if (other->shared || !others->pending)
        other_plugins_finish(others, other->shared ? other : NULL);
}

/* The entry of this socket, or a new one; NULL: there is no room. */
static struct other_plugin *other_plugins_find(struct gt_other_plugins *others, const struct gt_socket_id *id)
{
    struct other_plugin *place = NULL;
    for (unsigned i = 0; i < others->count; i++) {
        if (gt_socket_id_equal(&others->all[i].id, id))
            return &others->all[i];
        if (!others->all[i].is_there)
            place = &others->all[i];
    }
    if (others->count < GT_COUNT(others->all))
        place = &others->all[others->count++];
    if (place) {
        unsigned serial = place->call.serial; /* what an earlier one has sent may still wait */
        *place = (struct other_plugin){.others = others, .id = *id};
        place->call = (struct gt_loop_call){others->mailbox, on_list, place, NULL, serial};
    }
    return place;
}

static bool other_plugins_on_other(void *arg, const char *name, const struct gt_socket_id *id, int fd)
{
    struct gt_other_plugins *others = arg;
    gt_auto_close int connection = fd;
    struct other_plugin *other = other_plugins_find(others, id);
    if (!other)
        return false;
    other->is_there = true;
    snprintf(other->name, sizeof(other->name), "%s", name);
    const struct gt_rpc_ask list = {GT_PATH_LIST,      "",          0, GT_OTHER_PLUGINS_MS, true,
                                    gt_loop_call_done, &other->call};
    if (!other->is_known &&
        gt_rpc_call_new(others->rpc, gt_steal_fd(&connection), &list, &other->call.call, NULL) == 0)
        others->pending++;
    return true;
}

static int other_plugins_by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Sorts the IDs, and drops answers about another offer; false without memory. */
static bool other_plugins_read_offer(struct gt_other_plugins *others, struct gt_pod_answer *answer)
{
    unsigned count = answer->uses.count;
    uint64_t digest = GT_DIGEST_EMPTY;
    others->offer = *answer;
    *answer = (struct gt_pod_answer){0};
    others->ids = calloc(count + 1, sizeof(*others->ids));
    if (!others->ids)
        return false;
    for (unsigned i = 0; i < count; i++)
        others->ids[i] = others->offer.uses.users[i].id;
    qsort(others->ids, count, sizeof(*others->ids), other_plugins_by_text);
    for (unsigned i = 0; i < count; i++)
        digest = gt_digest_bytes(digest, others->ids[i], strlen(others->ids[i]) + 1);
    if (digest != others->digest)
        others->count = 0;
    others->digest = digest;
    return true;
}

void gt_other_plugins_query(struct gt_other_plugins *others, struct gt_pod_answer *answer)
{
    const struct other_plugin *server = NULL;
    gt_other_plugins_cancel(others);
    for (unsigned i = 0; i < others->count; i++)
        others->all[i].is_there = false;
    if (other_plugins_read_offer(others, answer))
        gt_kubelet_dir_others(others->dir, other_plugins_on_other, others);
    for (unsigned i = 0; i < others->count && !server; i++)
        if (others->all[i].is_there && others->all[i].is_known && others->all[i].shared)
            server = &others->all[i];
    if (server || !others->pending)
        other_plugins_finish(others, server);
}

bool gt_other_plugins_unchanged(const struct gt_other_plugins *others)
{
    char path[PATH_MAX];
    struct gt_socket_id id;
    snprintf(path, sizeof(path), "%s/%s", gt_kubelet_dir_path(others->dir), others->server);
    return others->server[0] && gt_socket_id_read(path, &id) && gt_socket_id_equal(&id, &others->server_id);
}

int gt_other_plugins_new(struct gt_rpc *rpc, struct gt_mailbox *mailbox, const struct gt_kubelet_dir *dir,
                         gt_other_plugins_result *on_result, void *arg, struct gt_other_plugins **ret,
                         struct gt_err **err)
{
    struct gt_other_plugins *others = calloc(1, sizeof(*others));
    GT_NEED(others, err, "registration");
    others->rpc = rpc;
    others->mailbox = mailbox;
    others->dir = dir;
    others->on_result = on_result;
    others->arg = arg;
    *ret = others;
    return 0;
}

void gt_other_plugins_free(struct gt_other_plugins *others)
{
    if (!others)
        return;
    gt_other_plugins_cancel(others);
    free(others);
}
