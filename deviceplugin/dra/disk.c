/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/disk.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "base/clock.h"
#include "base/mailbox.h"
#include "deviceplugin/dra/claims.h"

enum { DISK_STACK_BYTES = 1 << 20, LOCK_TRY_MS = 20 };

struct change_list {
    struct gt_dra_change *first, **last;
};

/* What the thread has to say to the loop. */
struct news {
    struct change_list done;
    unsigned tasks;
    char *error, *lost, *spec_error; /* owned */
    struct gt_dra_claims claims;
    bool has_claims;
};

struct gt_dra_disk {
    struct gt_message message; /* there are news; embedded */
    struct gt_mailbox *mailbox;
    struct gt_dra_disk_events events;
    struct gt_dra_claims known; /* the loop's */

    /* The thread's own. */
    const struct gt_cdi_options *cdi;
    struct gt_dra_store *store;
    bool swept, specs_swept;

    pthread_t thread;
    bool started;
    pthread_cond_t wake;
    pthread_mutex_t lock; /* of all below */
    bool stopping;
    unsigned tasks;
    struct change_list waiting;
    struct gt_inventory *inventory; /* NULL: not known yet */
    struct news news;
};

/* ---- news, under the lock ---- */

static void append(struct change_list *to, struct gt_dra_change *change)
{
    change->next = NULL;
    *(to->first ? to->last : &to->first) = change;
    to->last = &change->next;
}

static void fail_change(struct gt_dra_change *change, const struct gt_err *why)
{
    if (!change->err)
        gt_fail(&change->err, gt_err_code(why), "%s", gt_err_text(why));
}

static void disk_replace_text(char **to, const char *text)
{
    free(*to);
    *to = text ? strdup(text) : NULL;
}

static void tell_claims(struct gt_dra_disk *disk)
{
    struct gt_dra_claims copy;
    if (gt_dra_claims_copy(gt_dra_store_claims(disk->store), &copy, NULL) < 0)
        return; /* without memory the old ones stay */
    gt_dra_claims_done(&disk->news.claims);
    disk->news.claims = copy;
    disk->news.has_claims = true;
}

static void news_done(struct news *news)
{
    free(news->error);
    free(news->lost);
    free(news->spec_error);
    gt_dra_claims_done(&news->claims);
}

static void deliver_news(void *owner, struct gt_message *message)
{
    struct gt_dra_disk *disk = owner;
    const struct gt_dra_disk_events *events = &disk->events;
    (void)message;
    pthread_mutex_lock(&disk->lock);
    struct news news = disk->news;
    disk->news = (struct news){0};
    pthread_mutex_unlock(&disk->lock);
    if (news.has_claims) {
        gt_dra_claims_done(&disk->known);
        disk->known = news.claims;
        news.claims = (struct gt_dra_claims){0};
        events->changed(events->told);
    }
    if (news.lost)
        events->state_lost(events->told, news.lost);
    if (news.tasks & GT_DRA_SPECS)
        events->specs(events->told, news.spec_error);
    for (struct gt_dra_change *change; (change = news.done.first);) {
        news.done.first = change->next;
        events->done(events->arg, change);
    }
    events->passed(events->arg, news.tasks, news.error);
    news_done(&news);
}

/* ---- the thread ---- */

static int read_claims(struct gt_dra_disk *disk, struct gt_err **err)
{
    gt_auto_free char *why = NULL;
    bool changed = false;
    int r = gt_dra_store_read(disk->store, &changed, &why, err);
    if (r >= 0 && !why && !disk->specs_swept)
        gt_dra_cdi_sweep(disk->cdi, gt_dra_store_claims(disk->store));
    disk->specs_swept |= r >= 0;
    pthread_mutex_lock(&disk->lock);
    if (why)
        disk_replace_text(&disk->news.lost, why);
    if (changed)
        tell_claims(disk);
    pthread_mutex_unlock(&disk->lock);
    return r;
}

/* A claim with a lost GPU keeps its spec: lost GPUs are reported elsewhere. */
static void refresh_specs(struct gt_dra_disk *disk, const struct gt_inventory *inventory, struct gt_err **err)
{
    const struct gt_dra_claims *claims = gt_dra_store_claims(disk->store);
    for (unsigned i = 0; i < claims->count; i++) {
        const struct gt_dra_claim *claim = &claims->list[i];
        gt_auto_err struct gt_err *error = NULL;
        if (gt_dra_cdi_write(disk->cdi, inventory, claim, &error) < 0 && gt_err_code(error) != ENODEV &&
            !*err) {
            gt_wrap(&error, "claim %s/%s", claim->id.namespace, claim->id.name);
            *err = gt_steal(error);
        }
    }
}

/* What needs the store's lock, and is tried again where another process has it. */
static int mark_and_sweep(struct gt_dra_disk *disk, unsigned tasks, struct gt_err **err)
{
    gt_auto_err struct gt_err *error = NULL;
    bool marks = tasks & GT_DRA_MARK && !gt_dra_store_is_there(disk->store);
    if (!marks && !(tasks & GT_DRA_UNMARK) && disk->swept)
        return 0;
    gt_auto_close int fd = gt_dra_store_lock(disk->store, &error);
    if (fd < 0)
        return marks ? gt_fail(err, gt_err_code(error), "%s", gt_err_text(error)) : 0;
    gt_dra_store_sweep(disk->store);
    disk->swept = true;
    int r = read_claims(disk, err); /* as it is now that nobody else can change it */
    if (r >= 0 && tasks & GT_DRA_UNMARK)
        gt_dra_store_unmark(disk->store);
    struct gt_dra_claims claims = {0};
    if (r >= 0 && marks && !gt_dra_store_is_there(disk->store))
        r = gt_dra_claims_copy(gt_dra_store_claims(disk->store), &claims, err);
    if (r >= 0 && marks && !gt_dra_store_is_there(disk->store))
        r = gt_dra_store_write(disk->store, &claims, err);
    gt_dra_claims_done(&claims);
    return r;
}

/* The tasks that wait now. Called under the lock, which it leaves meanwhile. */
static void do_tasks(struct gt_dra_disk *disk)
{
    gt_auto_err struct gt_err *err = NULL, *spec_err = NULL;
    unsigned tasks = disk->tasks;
    gt_auto_inventory struct gt_inventory *inventory =
        disk->inventory ? gt_inventory_ref(disk->inventory) : NULL;
    disk->tasks = 0;
    pthread_mutex_unlock(&disk->lock);
    if (!inventory)
        tasks &= ~(unsigned)GT_DRA_SPECS;
    int r = read_claims(disk, &err);
    if (r >= 0)
        mark_and_sweep(disk, tasks, &err);
    if (tasks & GT_DRA_SPECS)
        refresh_specs(disk, inventory, &spec_err);
    pthread_mutex_lock(&disk->lock);
    disk->news.tasks |= tasks | GT_DRA_READ;
    if (err && !disk->news.error)
        disk_replace_text(&disk->news.error, gt_err_text(err));
    if (tasks & GT_DRA_SPECS)
        disk_replace_text(&disk->news.spec_error, spec_err ? gt_err_text(spec_err) : NULL);
    gt_mailbox_send(disk->mailbox, &disk->message);
}

static void release_claim(struct gt_dra_disk *disk, struct gt_dra_change *change,
                          struct gt_dra_claims *claims)
{
    if (gt_dra_cdi_remove(disk->cdi, change->claim.id.uid, &change->err) >= 0)
        change->found = change->applied = gt_dra_claims_remove(claims, change->claim.id.uid);
}

static void disk_record_claim(const struct gt_inventory *inventory, struct gt_dra_change *change,
                              struct gt_dra_claims *claims)
{
    const struct gt_dra_facts facts = {inventory, claims, 0};
    change->found = gt_dra_claims_find(claims, change->claim.id.uid);
    if (change->found)
        return;
    if (!change->claim.device_count)
        gt_fail(&change->err, ENOENT, "the claim is not prepared");
    else if (gt_dra_claim_check(&facts, &change->claim, &change->err) >= 0)
        change->applied = gt_dra_claims_add(claims, &change->claim, &change->err) >= 0;
}

/* Writes these claims if `needed`. */
static int store_claims(struct gt_dra_disk *disk, struct gt_dra_claims *claims, bool needed,
                        struct gt_err **err)
{
    int r = needed ? gt_dra_store_write(disk->store, claims, err) : 0;
    gt_dra_claims_done(claims);
    return r;
}

/* Applies all of them to a copy of the claims, and writes that once. */
static void apply_changes(struct gt_dra_disk *disk, struct gt_dra_change *first,
                          const struct gt_inventory *inventory)
{
    gt_auto_err struct gt_err *err = NULL;
    struct gt_dra_claims claims = {0};
    bool needed = false;
    int r = read_claims(disk, &err);
    if (r >= 0)
        r = gt_dra_claims_copy(gt_dra_store_claims(disk->store), &claims, &err);
    for (struct gt_dra_change *change = first; r >= 0 && change; change = change->next) {
        if (change->kind == GT_DRA_RECORD)
            disk_record_claim(inventory, change, &claims);
        else
            release_claim(disk, change, &claims);
        needed |= change->applied;
    }
    if (r >= 0)
        r = store_claims(disk, &claims, needed, &err);
    for (struct gt_dra_change *change = first; r < 0 && change; change = change->next)
        fail_change(change, err);
}

/* First the store, so that the devices are held, then the specs. Without its spec a new claim is not held. */
static void write_specs(struct gt_dra_disk *disk, struct gt_dra_change *first,
                        const struct gt_inventory *inventory)
{
    struct gt_dra_claims claims = {0};
    bool needed = false;
    int r = gt_dra_claims_copy(gt_dra_store_claims(disk->store), &claims, NULL);
    for (struct gt_dra_change *change = first; change; change = change->next) {
        const struct gt_dra_claim *claim =
            gt_dra_claims_find(gt_dra_store_claims(disk->store), change->claim.id.uid);
        if (change->kind != GT_DRA_RECORD || change->err || !claim ||
            gt_dra_cdi_write(disk->cdi, inventory, claim, &change->err) >= 0)
            continue;
        needed |= change->applied && r >= 0 && gt_dra_claims_remove(&claims, claim->id.uid);
    }
    store_claims(disk, &claims, needed, NULL);
}

/* All changes that wait now, in one write. Called under the lock, which it leaves meanwhile. */
static void do_changes(struct gt_dra_disk *disk)
{
    struct gt_dra_change *first = disk->waiting.first;
    gt_auto_inventory struct gt_inventory *inventory =
        disk->inventory ? gt_inventory_ref(disk->inventory) : NULL;
    disk->waiting.first = NULL;
    pthread_mutex_unlock(&disk->lock);
    apply_changes(disk, first, inventory);
    write_specs(disk, first, inventory);
    pthread_mutex_lock(&disk->lock);
    tell_claims(disk);
    for (struct gt_dra_change *change; (change = first);) {
        first = change->next;
        append(&disk->news.done, change);
    }
    gt_mailbox_send(disk->mailbox, &disk->message);
}

/* Under the lock: gives up changes that have waited for `milliseconds`. */
static void give_up_old(struct gt_dra_disk *disk, uint64_t milliseconds, const struct gt_err *why)
{
    for (struct gt_dra_change *change;
         (change = disk->waiting.first) && gt_clock_ms() - change->since_ms >= milliseconds;) {
        disk->waiting.first = change->next;
        fail_change(change, why);
        append(&disk->news.done, change);
        gt_mailbox_send(disk->mailbox, &disk->message);
    }
}

/* Under the lock, which it leaves meanwhile: tries to take the store's lock, and does the changes. */
static void try_changes(struct gt_dra_disk *disk)
{
    gt_auto_err struct gt_err *err = NULL;
    pthread_mutex_unlock(&disk->lock);
    gt_auto_close int fd = gt_dra_store_lock(disk->store, &err);
    pthread_mutex_lock(&disk->lock);
    if (fd >= 0) {
        do_changes(disk);
        return;
    }
    bool is_locked = gt_err_code(err) == EBUSY;
    give_up_old(disk, is_locked ? GT_DRA_LOCK_MS : 0, err);
    uint64_t until_ns = gt_clock_ns() + LOCK_TRY_MS * UINT64_C(1000000);
    while (is_locked && !disk->stopping && gt_cond_wait_until(&disk->wake, &disk->lock, until_ns) == 0)
        continue;
}

static void *serve_disk(void *arg)
{
    struct gt_dra_disk *disk = arg;
    pthread_mutex_lock(&disk->lock);
    while (!disk->stopping) {
        if (disk->tasks)
            do_tasks(disk);
        else if (disk->waiting.first)
            try_changes(disk);
        else
            pthread_cond_wait(&disk->wake, &disk->lock);
    }
    pthread_mutex_unlock(&disk->lock);
    return NULL;
}

/* ---- the loop's thread ---- */

const struct gt_dra_claims *gt_dra_disk_claims(const struct gt_dra_disk *disk)
{
    return &disk->known;
}

void gt_dra_disk_inventory(struct gt_dra_disk *disk, const struct gt_inventory *inventory)
{
    struct gt_inventory *next = gt_inventory_ref(inventory);
    pthread_mutex_lock(&disk->lock);
    gt_inventory_unref(disk->inventory);
    disk->inventory = next;
    pthread_mutex_unlock(&disk->lock);
}

void gt_dra_disk_ask(struct gt_dra_disk *disk, unsigned tasks)
{
    pthread_mutex_lock(&disk->lock);
    disk->tasks |= tasks;
    pthread_cond_broadcast(&disk->wake);
    pthread_mutex_unlock(&disk->lock);
}

void gt_dra_disk_change(struct gt_dra_disk *disk, struct gt_dra_change *change)
{
    change->found = change->applied = false;
    change->err = NULL;
    change->since_ms = gt_clock_ms();
    pthread_mutex_lock(&disk->lock);
    append(&disk->waiting, change);
    pthread_cond_broadcast(&disk->wake);
    pthread_mutex_unlock(&disk->lock);
}

int gt_dra_disk_new(struct gt_loop *loop, const char *dir, const struct gt_cdi_options *cdi,
                    const struct gt_dra_disk_events *events, struct gt_dra_disk **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_dra_disk_free) struct gt_dra_disk *disk = calloc(1, sizeof(*disk));
    pthread_attr_t small;
    GT_NEED(disk, err, "claims");
    disk->message = (struct gt_message){.embedded = true, .deliver = deliver_news};
    disk->events = *events;
    disk->cdi = cdi;
    pthread_mutex_init(&disk->lock, NULL);
    gt_cond_init(&disk->wake);
    GT_TRY(gt_mailbox_new(loop, disk, &disk->mailbox, err));
    GT_TRY(gt_dra_store_new(dir, &disk->store, err));
    /* GPUs of prepared claims must be known before any are offered. A failure is told by the first task. */
    read_claims(disk, NULL);
    disk->known = disk->news.claims;
    disk->news.claims = (struct gt_dra_claims){0};
    disk->news.has_claims = false;
    disk->tasks = GT_DRA_READ;
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, DISK_STACK_BYTES);
    int r = pthread_create(&disk->thread, &small, serve_disk, disk);
    pthread_attr_destroy(&small);
    if (r != 0)
        return gt_fail_sys(err, r, "claims: start a thread");
    pthread_setname_np(disk->thread, "gputopo-disk");
    disk->started = true;
    *ret = gt_steal(disk);
    return 0;
}

static void drop_errors(const struct change_list *changes)
{
    for (struct gt_dra_change *change = changes->first; change; change = change->next)
        gt_err_free(gt_steal(change->err));
}

void gt_dra_disk_free(struct gt_dra_disk *disk)
{
    if (!disk)
        return;
    pthread_mutex_lock(&disk->lock);
    disk->stopping = true;
    pthread_cond_broadcast(&disk->wake);
    pthread_mutex_unlock(&disk->lock);
    if (disk->started)
        pthread_join(disk->thread, NULL);
    gt_mailbox_free(disk->mailbox);
    drop_errors(&disk->waiting);
    drop_errors(&disk->news.done);
    gt_dra_store_free(disk->store);
    gt_dra_claims_done(&disk->known);
    news_done(&disk->news);
    gt_inventory_unref(disk->inventory);
    pthread_cond_destroy(&disk->wake);
    pthread_mutex_destroy(&disk->lock);
    free(disk);
}
