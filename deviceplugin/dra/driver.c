/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/driver.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "deviceplugin/cdi.h"
#include "deviceplugin/dra/server.h"
#include "deviceplugin/dra/store.h"

enum { WAIT_TICK_MS = 200, HEALTH_MS = 8000, DRA_ANSWER_MAX = 4 << 20 };

/* One claim of a call that prepares. */
struct gt_dra_read {
    struct work *work;
    struct gt_dra_claim_id id;
    enum { CLAIM_READS, CLAIM_WAITS, CLAIM_DECIDED } state;
    struct gt_dra_claim claim; /* what it was given; from CLAIM_WAITS on */
    uint64_t until_ms;         /* of CLAIM_WAITS */
    bool prepared;
    char *error; /* owned; NULL: none */
};

/* A call that prepares. */
struct work {
    struct gt_dra *dra;
    struct work *next;
    struct gt_dra_call *call; /* NULL: it is answered, and stays until its claims are read */
    unsigned count, open;     /* claims; of them not decided */
    unsigned reads;           /* readings from the API server that have not ended */
    struct gt_dra_read claims[];
};

struct gt_dra {
    char *node_name, *driver, *kubelet_dir, *cdi_dir, *kind, *dev_root, *uuid_variable, *nic_variable;
    struct gt_dra_cdi_options cdi;
    unsigned wait_ms;
    struct gt_dra_events events;
    struct gt_dra_server *server;
    struct gt_dra_store *store;
    struct gt_inventory *inventory; /* NULL: not known yet */
    uint64_t others;
    const char *refusal;
    bool taken_in; /* registered with the kubelet */
    bool swept;    /* CDI specs of claims that are gone are removed */
    struct work *works;
    bool in_progress; /* a call is being started: it must not be freed */
    struct gt_source *tick, *health;
    struct gt_dra_stats stats;
};

static const char unprepared[] = "the claim was unprepared meanwhile";

static char *state_dir(const char *kubelet_dir, const char *driver)
{
    char *dir = NULL;
    return asprintf(&dir, "%s/plugins/%s", kubelet_dir, driver) < 0 ? NULL : dir;
}

bool gt_dra_is_left(const char *kubelet_dir, const char *driver)
{
    gt_auto_free char *dir = state_dir(kubelet_dir, driver);
    return dir && gt_dra_store_is_used(dir);
}

/* ---- the claims on disk ---- */

/* Writes the specs of prepared claims that are not up to date. A claim with a lost GPU keeps its spec: lost
 * GPUs are reported elsewhere. */
static void refresh_specs(struct gt_dra *dra)
{
    const struct gt_dra_claims *claims = gt_dra_store_claims(dra->store);
    gt_auto_err struct gt_err *first = NULL;
    for (unsigned i = 0; dra->inventory && i < claims->count; i++) {
        const struct gt_dra_claim *claim = &claims->list[i];
        gt_auto_err struct gt_err *err = NULL;
        if (gt_dra_cdi_write(&dra->cdi, dra->inventory, claim, &err) < 0 && gt_err_code(err) != ENODEV &&
            !first) {
            gt_wrap(&err, "claim %s/%s", claim->id.namespace, claim->id.name);
            first = gt_steal(err);
        }
    }
    if (dra->inventory)
        dra->events.specs(dra->events.arg, first ? gt_err_text(first) : NULL);
}

static int read_store(struct gt_dra *dra, struct gt_err **err)
{
    gt_auto_free char *why = NULL;
    bool changed = false;
    int r = gt_dra_store_read(dra->store, &changed, &why, err);
    if (why)
        dra->events.state_lost(dra->events.arg, why);
    if (r >= 0 && !why && !dra->swept)
        gt_dra_cdi_sweep(&dra->cdi, gt_dra_store_claims(dra->store));
    dra->swept |= r >= 0;
    if (changed)
        dra->events.changed(dra->events.arg);
    return r;
}

const struct gt_dra_claims *gt_dra_claims(struct gt_dra *dra)
{
    return gt_dra_store_claims(dra->store);
}

uint64_t gt_dra_held(struct gt_dra *dra)
{
    const struct gt_dra_claims *claims = gt_dra_store_claims(dra->store);
    uint64_t held = 0;
    for (unsigned i = 0; dra->inventory && i < claims->count; i++)
        for (unsigned k = 0; k < claims->list[i].device_count; k++) {
            const struct gt_dra_claimed_device *claimed = &claims->list[i].devices[k];
            const struct gt_device *device = gt_dra_find_device(dra->inventory, claimed->device);
            if (device && !claimed->admin)
                held |= UINT64_C(1) << device->gpu;
        }
    return held;
}

static int remove_claim(struct gt_dra *dra, const char *uid, struct gt_err **err)
{
    bool was_there = gt_dra_claims_find(gt_dra_store_claims(dra->store), uid);
    int r = gt_dra_cdi_remove(&dra->cdi, uid, err);
    if (r >= 0)
        r = gt_dra_store_remove(dra->store, uid, err);
    if (r >= 0 && was_there)
        dra->events.changed(dra->events.arg);
    return r;
}

/* ---- preparing ---- */

static void decide(struct gt_dra_read *read, const struct gt_err *error)
{
    struct gt_dra *dra = read->work->dra;
    read->state = CLAIM_DECIDED;
    read->work->open--;
    if (error) {
        read->error = strdup(gt_err_text(error));
        dra->stats.refused++;
        dra->events.prepared(dra->events.arg, &read->id, 0, gt_err_text(error));
    } else
        read->prepared = true;
}

/* It is in the store: its spec is written again, and the answer is the same as before. */
static bool is_prepared(struct gt_dra_read *read)
{
    struct gt_dra *dra = read->work->dra;
    const struct gt_dra_claim *claim = gt_dra_claims_find(gt_dra_store_claims(dra->store), read->id.uid);
    gt_auto_err struct gt_err *err = NULL;
    if (!claim)
        return false;
    gt_dra_cdi_write(&dra->cdi, dra->inventory, claim, &err);
    dra->stats.again += !err;
    decide(read, err);
    return true;
}

/* First the store, so that the devices are held, then the spec. */
static int take(struct gt_dra *dra, const struct gt_dra_claim *claim, struct gt_err **err)
{
    int r = gt_dra_store_add(dra->store, claim, err);
    if (r < 0)
        return r;
    r = gt_dra_cdi_write(&dra->cdi, dra->inventory, claim, err);
    if (r < 0)
        gt_dra_store_remove(dra->store, claim->id.uid, NULL);
    return r;
}

/* Checks whether the claim may have its devices, and gives them to it; it waits if another holder may release
 * them soon. */
static int check_and_take(struct gt_dra_read *read, struct gt_err **err)
{
    struct gt_dra *dra = read->work->dra;
    const struct gt_dra_facts facts = {dra->inventory, gt_dra_store_claims(dra->store), dra->others};
    if (!read->claim
             .device_count) /* it was prepared when the call came, and another instance has unprepared it */
        return gt_fail(err, ECANCELED, "%s", unprepared);
    int r = gt_dra_claim_expand(dra->inventory, &read->claim, err);
    if (r >= 0)
        r = gt_dra_claim_check(&facts, &read->claim, err);
    return r < 0 ? r : take(dra, &read->claim, err);
}

static void attempt(struct gt_dra_read *read)
{
    struct gt_dra *dra = read->work->dra;
    gt_auto_err struct gt_err *err = NULL;
    bool may_wait = gt_clock_ms() < read->until_ms;
    if (read_store(dra, &err) < 0) {
        decide(read, err);
        return;
    }
    if (dra->inventory && is_prepared(read))
        return;
    int r = dra->inventory ? check_and_take(read, &err)
                           : gt_fail(&err, EAGAIN, "the GPUs of this node are not known yet");
    if (r == -EAGAIN && may_wait) {
        gt_source_arm(dra->tick, WAIT_TICK_MS);
        return;
    }
    decide(read, err);
    if (r < 0)
        return;
    dra->stats.prepared++;
    dra->events.prepared(dra->events.arg, &read->id, read->claim.device_count, NULL);
    dra->events.changed(dra->events.arg);
}

static void wait_in_queue(struct gt_dra_read *read)
{
    read->state = CLAIM_WAITS;
    read->until_ms = gt_clock_ms() + read->work->dra->wait_ms;
    attempt(read);
}

static void work_free(struct work *work)
{
    for (unsigned i = 0; i < work->count; i++)
        free(work->claims[i].error);
    free(work);
}

static void answer(struct work *work)
{
    struct gt_dra *dra = work->dra;
    gt_auto_buf struct gt_buf message = GT_BUF(DRA_ANSWER_MAX);
    for (unsigned i = 0; i < work->count; i++) {
        const struct gt_dra_read *read = &work->claims[i];
        const struct gt_dra_claim *claim = gt_dra_claims_find(gt_dra_store_claims(dra->store), read->id.uid);
        /* It may have been unprepared since, while another claim of the call waited. */
        const char *error = read->prepared && !claim ? unprepared : read->error;
        const struct gt_dra_outcome outcome = {read->id.uid, read->prepared ? claim : NULL, error};
        gt_dra_answer_prepare(&outcome, 1, dra->node_name, dra->kind, &message);
    }
    gt_dra_call_answer(gt_steal(work->call), &message);
}

/* Answers the calls for which all claims are decided. */
static void finish(struct gt_dra *dra)
{
    for (struct work **at = &dra->works, *work; !dra->in_progress && (work = *at);) {
        if (!work->open && work->call)
            answer(work);
        if (work->call || work->reads) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        work_free(work);
    }
}

void *gt_dra_read_arg(const struct gt_dra_read *read)
{
    return read->work->dra->events.arg;
}

void gt_dra_read_done(struct gt_dra_read *read, const struct gt_dra_allocation *allocation, const char *error)
{
    struct gt_dra *dra = read->work->dra;
    gt_auto_err struct gt_err *err = NULL;
    read->work->reads--;
    if (read->state != CLAIM_READS) { /* unprepared meanwhile */
        finish(dra);
        return;
    }
    if (error || !allocation)
        gt_fail(&err, EIO, "%s", error ? error : "the claim cannot be read");
    else
        gt_dra_claim_make(&read->id, allocation, &read->claim, &err);
    if (err)
        decide(read, err);
    else
        wait_in_queue(read);
    finish(dra);
}

static void retry_waiting(struct gt_dra *dra)
{
    for (struct work *work = dra->works; work; work = work->next)
        for (unsigned i = 0; i < work->count; i++)
            if (work->claims[i].state == CLAIM_WAITS)
                attempt(&work->claims[i]);
    finish(dra);
}

static void begin(struct gt_dra_read *read)
{
    struct gt_dra *dra = read->work->dra;
    gt_auto_err struct gt_err *err = NULL;
    if (read_store(dra, &err) < 0)
        decide(read, err);
    else if (gt_dra_claims_find(gt_dra_store_claims(dra->store), read->id.uid))
        wait_in_queue(read);
    else if (dra->refusal) {
        gt_fail(&err, EPERM, "%s", dra->refusal);
        decide(read, err);
    } else {
        read->work->reads++;
        dra->events.read_claim(dra->events.arg, &read->id, read);
    }
}

static void prepare(struct gt_dra *dra, struct gt_dra_call *call)
{
    const struct gt_dra_request *request = gt_dra_call_request(call);
    struct work *work = calloc(1, sizeof(*work) + request->count * sizeof(work->claims[0]));
    if (!work) {
        const struct gt_buf none = {.failed = true};
        gt_dra_call_answer(call, &none);
        return;
    }
    work->dra = dra;
    work->call = call;
    work->count = work->open = request->count;
    for (unsigned i = 0; i < request->count; i++)
        work->claims[i] = (struct gt_dra_read){.work = work, .id = request->claims[i]};
    work->next = dra->works;
    dra->works = work;
    dra->in_progress = true;
    for (unsigned i = 0; i < work->count; i++)
        begin(&work->claims[i]);
    dra->in_progress = false;
    finish(dra);
}

/* ---- unpreparing ---- */

/* A call that is still preparing it, which the kubelet has given up, must not prepare it afterwards. */
static void give_up_waiting(struct gt_dra *dra, const char *uid)
{
    gt_auto_err struct gt_err *err = NULL;
    gt_fail(&err, ECANCELED, "%s", unprepared);
    for (struct work *work = dra->works; work; work = work->next)
        for (unsigned i = 0; i < work->count; i++)
            if (work->claims[i].state != CLAIM_DECIDED && strcmp(work->claims[i].id.uid, uid) == 0) {
                work->claims[i].until_ms = 0;
                decide(&work->claims[i], err);
            }
}

static void unprepare(struct gt_dra *dra, struct gt_dra_call *call)
{
    const struct gt_dra_request *request = gt_dra_call_request(call);
    gt_auto_buf struct gt_buf answer = GT_BUF(DRA_ANSWER_MAX);
    for (unsigned i = 0; i < request->count; i++) {
        const struct gt_dra_claim_id *id = &request->claims[i];
        gt_auto_err struct gt_err *err = NULL;
        give_up_waiting(dra, id->uid);
        int r = read_store(dra, &err);
        bool known = r >= 0 && gt_dra_claims_find(gt_dra_store_claims(dra->store), id->uid);
        if (r >= 0)
            r = remove_claim(dra, id->uid, &err);
        const struct gt_dra_outcome outcome = {id->uid, NULL, r < 0 ? gt_err_text(err) : NULL};
        gt_dra_answer_unprepare(&outcome, 1, &answer);
        dra->stats.unprepared += known && r >= 0;
        if (known || r < 0)
            dra->events.unprepared(dra->events.arg, id, outcome.error);
    }
    gt_dra_call_answer(call, &answer);
    retry_waiting(dra);
}

void gt_dra_forget(struct gt_dra *dra, const char *uid)
{
    if (remove_claim(dra, uid, NULL) >= 0)
        retry_waiting(dra);
}

/* ---- calls from outside ---- */

static void on_called(void *arg, struct gt_dra_call *call)
{
    if (gt_dra_call_kind(call) == GT_DRA_CALL_PREPARE)
        prepare(arg, call);
    else
        unprepare(arg, call);
}

/* Registered with the kubelet, and able to store claims. */
static void become_ready(struct gt_dra *dra)
{
    gt_auto_err struct gt_err *err = NULL;
    if (!dra->taken_in || dra->stats.registered)
        return;
    if (read_store(dra, &err) < 0 || (!dra->refusal && gt_dra_store_mark(dra->store, &err) < 0)) {
        dra->events.registration_failed(dra->events.arg, gt_err_text(err));
        return;
    }
    dra->stats.registered = true;
    dra->events.registered(dra->events.arg);
}

static void on_registered(void *arg)
{
    struct gt_dra *dra = arg;
    dra->taken_in = true;
    dra->stats.registered = false;
    become_ready(dra);
}

static void on_failed(void *arg, const char *why)
{
    struct gt_dra *dra = arg;
    dra->taken_in = dra->stats.registered = false;
    dra->events.registration_failed(dra->events.arg, why);
}

static void on_tick(void *arg)
{
    retry_waiting(arg);
}

static void send_health(struct gt_dra *dra)
{
    gt_auto_buf struct gt_buf message = GT_BUF(DRA_ANSWER_MAX);
    gt_dra_answer_health(dra->inventory, dra->node_name, time(NULL), &message);
    if (!message.failed)
        gt_dra_server_health(dra->server, &message);
}

/* An entry that is older than 30 s reads as unknown. */
static void on_health_timer(void *arg)
{
    struct gt_dra *dra = arg;
    gt_source_arm(dra->health, HEALTH_MS);
    become_ready(dra);
    read_store(dra, NULL);
    refresh_specs(dra);
    send_health(dra);
}

void gt_dra_publish(struct gt_dra *dra, const struct gt_inventory *inventory)
{
    struct gt_inventory *next = gt_inventory_ref(inventory);
    gt_inventory_unref(dra->inventory);
    dra->inventory = next;
    read_store(dra, NULL);
    refresh_specs(dra);
    send_health(dra);
    retry_waiting(dra);
}

void gt_dra_others(struct gt_dra *dra, uint64_t others)
{
    if (dra->others == others)
        return;
    dra->others = others;
    retry_waiting(dra);
}

void gt_dra_refuse(struct gt_dra *dra, const char *why)
{
    dra->refusal = why;
}

void gt_dra_retire(struct gt_dra *dra)
{
    if (dra->refusal)
        gt_dra_store_unmark(dra->store);
}

void gt_dra_stats(const struct gt_dra *dra, struct gt_dra_stats *ret)
{
    *ret = dra->stats;
    ret->waiting = 0;
    for (const struct work *work = dra->works; work; work = work->next)
        ret->waiting += work->open;
}

uint64_t gt_dra_busy_ms(const struct gt_dra *dra)
{
    return gt_dra_server_busy_ms(dra->server);
}

/* ---- begin and end ---- */

static int copy_options(struct gt_dra *dra, const struct gt_dra_options *options, struct gt_err **err)
{
    const struct {
        const char *from;
        char **to;
    } texts[] = {
        {options->node_name, &dra->node_name},
        {options->driver, &dra->driver},
        {options->kubelet_dir, &dra->kubelet_dir},
        {options->cdi.dir, &dra->cdi_dir},
        {options->cdi.kind, &dra->kind},
        {options->cdi.dev_root, &dra->dev_root},
        {options->cdi.uuid_variable, &dra->uuid_variable},
        {options->cdi.nic_variable, &dra->nic_variable},
    };
    for (unsigned i = 0; i < GT_COUNT(texts); i++)
        if (texts[i].from && !(*texts[i].to = strdup(texts[i].from)))
            return gt_fail_sys(err, ENOMEM, "DRA driver");
    dra->cdi = (struct gt_dra_cdi_options){dra->cdi_dir, dra->kind, dra->dev_root, dra->uuid_variable,
                                           dra->nic_variable};
    return 0;
}

int gt_dra_new(struct gt_loop *loop, const struct gt_dra_options *options, const struct gt_dra_events *events,
               struct gt_dra **ret, struct gt_err **err)
{
    const struct gt_cdi_options cdi = {options->cdi.dir, options->cdi.kind, options->cdi.dev_root};
    gt_auto_dra struct gt_dra *dra = calloc(1, sizeof(*dra));
    if (!dra)
        return gt_fail_sys(err, ENOMEM, "DRA driver");
    dra->events = *events;
    dra->wait_ms = options->wait_ms ? options->wait_ms : GT_DRA_WAIT_MS;
    int r = gt_cdi_check(&cdi, err);
    if (r >= 0)
        r = copy_options(dra, options, err);
    gt_auto_free char *dir = state_dir(options->kubelet_dir, options->driver);
    if (r >= 0 && !dir)
        r = gt_fail_sys(err, ENOMEM, "DRA driver");
    if (r >= 0)
        r = gt_dra_store_new(dir, &dra->store, err);
    if (r >= 0)
        r = gt_loop_add_timer(loop, on_tick, dra, &dra->tick, err);
    if (r >= 0)
        r = gt_loop_add_timer(loop, on_health_timer, dra, &dra->health, err);
    const struct gt_dra_server_options server = {dra->kubelet_dir, dra->driver};
    const struct gt_dra_server_events callbacks = {on_called, on_registered, on_failed, dra};
    if (r >= 0)
        r = gt_dra_server_new(loop, &server, &callbacks, &dra->server, err);
    if (r < 0)
        return r;
    gt_source_arm(dra->health, 1);
    *ret = gt_steal(dra);
    return 0;
}

void gt_dra_free(struct gt_dra *dra)
{
    if (!dra)
        return;
    gt_dra_server_free(dra->server);
    for (struct work *work; (work = dra->works);) {
        dra->works = work->next;
        work_free(work);
    }
    gt_dra_store_free(dra->store);
    gt_source_free(dra->tick);
    gt_source_free(dra->health);
    gt_inventory_unref(dra->inventory);
    free(dra->node_name);
    free(dra->driver);
    free(dra->kubelet_dir);
    free(dra->cdi_dir);
    free(dra->kind);
    free(dra->dev_root);
    free(dra->uuid_variable);
    free(dra->nic_variable);
    free(dra);
}
