/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/rivals.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include "base/digest.h"
#include "deviceplugin/answers.h"

/* Another plugin's socket. */
struct rival {
    struct gt_rivals *rivals;
    char name[NAME_MAX + 1];
    struct gt_socket_id id;
    bool is_there; /* seen since the last question */
    bool is_known; /* it has answered, and `shared` is what it said of this offer */
    unsigned shared;
    struct gt_rpc_call *call;
};

struct gt_rivals {
    struct gt_rpc *rpc;
    struct gt_mailbox *mailbox;
    const struct gt_kubelet_dir *dir;
    gt_rivals_told *told;
    void *arg;

    struct gt_pod_answer offer;
    const char **ids; /* of the offer, sorted; they live in it */
    uint64_t digest;  /* of the IDs that the others were asked for */
    struct rival all[GT_KUBELET_DIR_OTHERS];
    unsigned count, pending;
    unsigned epoch;            /* of the question; changed only while no call is there */
    char holder[NAME_MAX + 1]; /* who was told last, "" nobody */
    struct gt_socket_id holder_id;
};

struct rivals_letter {
    struct gt_letter letter;
    struct gt_rivals *rivals;
    unsigned epoch, number;
    bool answered;
    unsigned shared;
};

void gt_rivals_cancel(struct gt_rivals *rivals)
{
    for (unsigned i = 0; i < rivals->count; i++)
        gt_rpc_call_free(gt_steal(rivals->all[i].call));
    gt_pod_answer_done(&rivals->offer);
    free(gt_steal(rivals->ids));
    rivals->pending = 0;
    rivals->epoch++;
}

static void tell(struct gt_rivals *rivals, const struct rival *rival)
{
    rivals->holder[0] = '\0';
    if (rival) {
        memcpy(rivals->holder, rival->name, sizeof(rivals->holder));
        rivals->holder_id = rival->id;
    }
    gt_rivals_cancel(rivals);
    rivals->told(rivals->arg, rival ? rivals->holder : NULL, rival ? rival->shared : 0);
}

static void deliver(void *owner, struct gt_letter *base)
{
    const struct rivals_letter *letter = (const struct rivals_letter *)base;
    struct gt_rivals *rivals = letter->rivals;
    struct rival *rival = &rivals->all[letter->number];
    (void)owner;
    if (letter->epoch != rivals->epoch)
        return;
    gt_rpc_call_free(gt_steal(rival->call));
    rival->is_known = letter->answered;
    rival->shared = letter->shared;
    rivals->pending--;
    if (rival->shared)
        tell(rivals, rival);
    else if (!rivals->pending)
        tell(rivals, NULL);
}

/* On gRPC's thread; the offer stays as it is until the call is freed. */
static void on_list(void *arg, int status, const char *message, const uint8_t *reply, size_t len)
{
    const struct rival *rival = arg;
    struct gt_rivals *rivals = rival->rivals;
    struct rivals_letter *letter = calloc(1, sizeof(*letter));
    (void)message;
    if (!letter)
        return; /* the owner's patience ends */
    letter->letter.deliver = deliver;
    letter->rivals = rivals;
    letter->epoch = rivals->epoch;
    letter->number = (unsigned)(rival - rivals->all);
    letter->answered =
        status == GT_RPC_OK &&
        gt_answer_list_shares(reply, len, rivals->ids, rivals->offer.holdings.count, &letter->shared);
    gt_mailbox_send(rivals->mailbox, &letter->letter);
}

/* The entry of this socket, or a new one; NULL: no more room. */
static struct rival *find(struct gt_rivals *rivals, const struct gt_socket_id *id)
{
    struct rival *place = NULL;
    for (unsigned i = 0; i < rivals->count; i++) {
        if (gt_socket_id_equal(&rivals->all[i].id, id))
            return &rivals->all[i];
        if (!rivals->all[i].is_there)
            place = &rivals->all[i];
    }
    if (rivals->count < GT_COUNT(rivals->all))
        place = &rivals->all[rivals->count++];
    if (place)
        *place = (struct rival){.rivals = rivals, .id = *id};
    return place;
}

static bool on_other(void *arg, const char *name, const struct gt_socket_id *id, int fd)
{
    struct gt_rivals *rivals = arg;
    gt_auto_close int connection = fd;
    struct rival *rival = find(rivals, id);
    if (!rival)
        return false;
    rival->is_there = true;
    snprintf(rival->name, sizeof(rival->name), "%s", name);
    if (!rival->is_known && gt_rpc_call_first(rivals->rpc, gt_steal_fd(&connection), GT_PATH_LIST, "", 0,
                                              GT_RIVALS_MS, on_list, rival, &rival->call, NULL) == 0)
        rivals->pending++;
    return true;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The IDs sorted, and what was known of another offer forgotten; false without memory. */
static bool take_offer(struct gt_rivals *rivals, struct gt_pod_answer *offer)
{
    unsigned count = offer->holdings.count;
    uint64_t digest = GT_DIGEST_EMPTY;
    rivals->offer = *offer;
    *offer = (struct gt_pod_answer){0};
    rivals->ids = calloc(count + 1, sizeof(*rivals->ids));
    if (!rivals->ids)
        return false;
    for (unsigned i = 0; i < count; i++)
        rivals->ids[i] = rivals->offer.holdings.holders[i].id;
    qsort(rivals->ids, count, sizeof(*rivals->ids), by_text);
    for (unsigned i = 0; i < count; i++)
        digest = gt_digest_bytes(digest, rivals->ids[i], strlen(rivals->ids[i]) + 1);
    if (digest != rivals->digest)
        rivals->count = 0;
    rivals->digest = digest;
    return true;
}

void gt_rivals_ask(struct gt_rivals *rivals, struct gt_pod_answer *offer)
{
    const struct rival *holder = NULL;
    gt_rivals_cancel(rivals);
    for (unsigned i = 0; i < rivals->count; i++)
        rivals->all[i].is_there = false;
    if (take_offer(rivals, offer))
        gt_kubelet_dir_others(rivals->dir, on_other, rivals);
    for (unsigned i = 0; i < rivals->count && !holder; i++)
        if (rivals->all[i].is_there && rivals->all[i].is_known && rivals->all[i].shared)
            holder = &rivals->all[i];
    if (holder || !rivals->pending)
        tell(rivals, holder);
}

bool gt_rivals_there(const struct gt_rivals *rivals)
{
    char path[PATH_MAX];
    struct gt_socket_id id;
    snprintf(path, sizeof(path), "%s/%s", gt_kubelet_dir_path(rivals->dir), rivals->holder);
    return rivals->holder[0] && gt_socket_id_read(path, &id) && gt_socket_id_equal(&id, &rivals->holder_id);
}

int gt_rivals_new(struct gt_rpc *rpc, struct gt_mailbox *mailbox, const struct gt_kubelet_dir *dir,
                  gt_rivals_told *told, void *arg, struct gt_rivals **ret, struct gt_err **err)
{
    struct gt_rivals *rivals = calloc(1, sizeof(*rivals));
    if (!rivals)
        return gt_fail_sys(err, ENOMEM, "registration");
    rivals->rpc = rpc;
    rivals->mailbox = mailbox;
    rivals->dir = dir;
    rivals->told = told;
    rivals->arg = arg;
    *ret = rivals;
    return 0;
}

void gt_rivals_free(struct gt_rivals *rivals)
{
    if (!rivals)
        return;
    gt_rivals_cancel(rivals);
    free(rivals);
}
