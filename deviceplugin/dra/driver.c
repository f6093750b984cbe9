/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/dra/driver.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/text.h"
#include "deviceplugin/dra/disk.h"
#include "deviceplugin/dra/server.h"

enum { WAIT_TICK_MS = 200, HEALTH_MS = 8000, DRA_ANSWER_MAX = 4 << 20 };

/* One claim of a call. */
struct gt_dra_claim_request {
    struct gt_dra_change change; /* the first member; what it was given: from CLAIM_WAITS on */
    struct work *work;
    struct gt_dra_claim_id id;
    enum { CLAIM_READS, CLAIM_WAITS, CLAIM_WRITES, CLAIM_DECIDED } state;
    uint64_t until_ms; /* of CLAIM_WAITS */
    bool prepared;
    char *error; /* owned; before it is decided: the error if nobody has prepared it; NULL: none */
};

struct work {
    struct gt_dra *dra;
    struct work *next;
    struct gt_rpc_reply *reply; /* NULL: it is answered, and stays until nothing of it is pending */
    bool releases;              /* a call that unprepares */
    unsigned count, open;       /* claims; of them not decided */
    unsigned pending;           /* readings from the API server and changes on the disk that have not ended */
    struct gt_dra_claim_request claims[];
};

struct gt_dra {
    struct gt_dra_options options;
    struct gt_dra_events events;
    struct gt_dra_server *server;
    struct gt_dra_disk *disk;
    struct gt_inventory *inventory; /* NULL: not known yet */
    uint64_t others;
    const char *refusal;
    bool is_registered; /* registered with the kubelet */
    bool unconfirmed;   /* since then it is not known yet whether claims can be stored */
    struct work *works;
    bool in_progress; /* a call is being started: it must not be freed */
    /* Claims that are being forgotten: those of kind GT_DRA_RELEASE. Others are tried again by the caller. */
    struct gt_dra_change forgotten[4];
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

/* ---- the claims ---- */

const struct gt_dra_claims *gt_dra_claims(struct gt_dra *dra)
{
    return gt_dra_disk_claims(dra->disk);
}

uint64_t gt_dra_prepared_gpus(struct gt_dra *dra)
{
    const struct gt_dra_claims *claims = gt_dra_disk_claims(dra->disk);
    uint64_t prepared = 0;
    for (unsigned i = 0; dra->inventory && i < claims->count; i++)
        for (unsigned k = 0; k < claims->list[i].device_count; k++) {
            const struct gt_dra_claimed_device *claimed = &claims->list[i].devices[k];
            const struct gt_device *device = gt_dra_find_device(dra->inventory, claimed->device);
            if (device && !claimed->admin)
                prepared |= UINT64_C(1) << device->gpu;
        }
    return prepared;
}

static bool driver_is_known(struct gt_dra *dra, const char *uid)
{
    return gt_dra_claims_find(gt_dra_disk_claims(dra->disk), uid);
}

/* ---- preparing ---- */

/* `error`: NULL if it is prepared or unprepared now. */
static void driver_decide(struct gt_dra_claim_request *request, const char *error)
{
    struct gt_dra *dra = request->work->dra;
    request->state = CLAIM_DECIDED;
    request->work->open--;
    request->prepared = !error;
    char *kept = error ? strdup(error) : NULL; /* it may be the one that is freed */
    free(request->error);
    request->error = kept;
    if (error && !request->work->releases) {
        dra->stats.refused++;
        dra->events.prepared(dra->events.arg, &request->id, 0, kept ? kept : "");
    }
}

static void submit(struct gt_dra_claim_request *request)
{
    request->state = CLAIM_WRITES;
    request->work->pending++;
    gt_dra_disk_change(request->work->dra->disk, &request->change);
}

/* Whether the claim may have its devices, as far as the loop knows; the disk's thread checks it again. */
static int driver_check(struct gt_dra_claim_request *request, struct gt_err **err)
{
    struct gt_dra *dra = request->work->dra;
    struct gt_dra_claim *claim = &request->change.claim;
    const struct gt_dra_facts facts = {dra->inventory, gt_dra_disk_claims(dra->disk), dra->others};
    if (!dra->inventory)
        return gt_fail(err, EAGAIN, "the GPUs of this node are not known yet");
    if (!claim->device_count || driver_is_known(dra, request->id.uid))
        return 0;
    GT_TRY(gt_dra_claim_expand(dra->inventory, claim, err));
    return gt_dra_claim_check(&facts, claim, err);
}

/* It waits if another holder may release its devices soon. */
static void driver_attempt(struct gt_dra_claim_request *request)
{
    gt_auto_err struct gt_err *err = NULL;
    int r = driver_check(request, &err);
    if (r >= 0)
        submit(request);
    else if (r == -EAGAIN && gt_clock_ms() < request->until_ms)
        gt_source_arm(request->work->dra->tick, WAIT_TICK_MS);
    else
        driver_decide(request, request->error ? request->error : gt_err_text(err));
}

static void wait_in_queue(struct gt_dra_claim_request *request)
{
    request->state = CLAIM_WAITS;
    request->until_ms = gt_clock_ms() + request->work->dra->options.wait_ms;
    driver_attempt(request);
}

/* Nothing says what it was given, for this reason: only if it was prepared before, it can be again. */
static void look_up(struct gt_dra_claim_request *request, const char *why_not)
{
    request->change.claim.id = request->id;
    request->error = strdup(why_not);
    wait_in_queue(request);
}

/* The disk's answer. */
static void end_preparing(struct gt_dra_claim_request *request, const struct gt_err *err)
{
    struct gt_dra *dra = request->work->dra;
    if (request->state != CLAIM_WRITES) /* unprepared meanwhile */
        return;
    if (gt_err_code(err) == EAGAIN) {
        request->state = CLAIM_WAITS; /* and is tried again when the disk has told all */
        return;
    }
    bool is_absent = gt_err_code(err) == ENOENT && !request->change.claim.device_count;
    if (err) {
        driver_decide(request, is_absent && request->error ? request->error : gt_err_text(err));
        return;
    }
    driver_decide(request, NULL);
    dra->stats.again += request->change.found;
    if (request->change.found)
        return;
    dra->stats.prepared++;
    dra->events.prepared(dra->events.arg, &request->id, request->change.claim.device_count, NULL);
}

static void work_free(struct work *work)
{
    for (unsigned i = 0; i < work->count; i++)
        free(work->claims[i].error);
    free(work);
}

static void driver_reply(struct gt_rpc_reply *reply, const struct gt_buf *message)
{
    static const char none[] = "no memory for the answer";
    if (message->failed)
        gt_rpc_answer(reply, GT_RPC_INTERNAL, none, strlen(none));
    else
        gt_rpc_answer(reply, GT_RPC_OK, message->data, message->len);
}

static void driver_answer(struct work *work)
{
    struct gt_dra *dra = work->dra;
    gt_auto_buf struct gt_buf message = GT_BUF(DRA_ANSWER_MAX);
    for (unsigned i = 0; i < work->count; i++) {
        const struct gt_dra_claim_request *request = &work->claims[i];
        const struct gt_dra_claim *claim = gt_dra_claims_find(gt_dra_disk_claims(dra->disk), request->id.uid);
        /* It may have been unprepared since, while another claim of the call waited. */
        const char *error = request->prepared && !claim && !work->releases ? unprepared : request->error;
        const struct gt_dra_outcome outcome = {request->id.uid, request->prepared ? claim : NULL, error};
        if (work->releases)
            gt_dra_answer_unprepare(&outcome, &message);
        else
            gt_dra_answer_prepare(&outcome, dra->options.node_name, dra->options.cdi.kind, &message);
    }
    driver_reply(gt_steal(work->reply), &message);
}

/* Answers the calls for which all claims are decided. */
static void driver_finish(struct gt_dra *dra)
{
    for (struct work **at = &dra->works, *work; !dra->in_progress && (work = *at);) {
        if (!work->open && work->reply)
            driver_answer(work);
        if (work->reply || work->pending) {
            at = &work->next;
            continue;
        }
        *at = work->next;
        work_free(work);
    }
}

void *gt_dra_claim_request_arg(const struct gt_dra_claim_request *request)
{
    return request->work->dra->events.arg;
}

void gt_dra_claim_was_read(struct gt_dra_claim_request *request, const struct gt_dra_allocation *allocation,
                           const char *error)
{
    struct gt_dra *dra = request->work->dra;
    gt_auto_err struct gt_err *err = NULL;
    request->work->pending--;
    if (request->state == CLAIM_READS) { /* not unprepared meanwhile */
        if (error || !allocation)
            look_up(request, error ? error : "the claim cannot be read");
        else if (gt_dra_claim_make(&request->id, allocation, &request->change.claim, &err) < 0)
            driver_decide(request, gt_err_text(err));
        else
            wait_in_queue(request);
    }
    driver_finish(dra);
}

static void retry_waiting(struct gt_dra *dra)
{
    for (struct work *work = dra->works; work; work = work->next)
        for (unsigned i = 0; i < work->count; i++)
            if (work->claims[i].state == CLAIM_WAITS)
                driver_attempt(&work->claims[i]);
    driver_finish(dra);
}

static void driver_begin(struct gt_dra_claim_request *request)
{
    struct gt_dra *dra = request->work->dra;
    if (driver_is_known(dra, request->id.uid))
        look_up(request, unprepared); /* by another instance, if it is not there any more */
    else if (dra->refusal)
        look_up(request, dra->refusal);
    else {
        request->work->pending++;
        dra->events.read_claim(dra->events.arg, &request->id, request);
    }
}

/* ---- unpreparing ---- */

/* A call that is still preparing it, which the kubelet has given up, must not prepare it afterwards. */
static void give_up_waiting(struct gt_dra *dra, const char *uid)
{
    for (struct work *work = dra->works; work; work = work->next)
        for (unsigned i = 0; !work->releases && i < work->count; i++)
            if (work->claims[i].state != CLAIM_DECIDED && strcmp(work->claims[i].id.uid, uid) == 0)
                driver_decide(&work->claims[i], unprepared);
}

static void begin_release(struct gt_dra_claim_request *request)
{
    give_up_waiting(request->work->dra, request->id.uid);
    request->change.kind = GT_DRA_RELEASE;
    request->change.claim.id = request->id;
    submit(request);
}

static void end_unpreparing(struct gt_dra_claim_request *request, const struct gt_err *err)
{
    struct gt_dra *dra = request->work->dra;
    driver_decide(request, err ? gt_err_text(err) : NULL);
    dra->stats.unprepared += request->change.found && !err;
    if (request->change.found || err)
        dra->events.unprepared(dra->events.arg, &request->id, request->error);
}

void gt_dra_forget(struct gt_dra *dra, const char *uid)
{
    for (unsigned i = 0; i < GT_COUNT(dra->forgotten); i++) {
        struct gt_dra_change *change = &dra->forgotten[i];
        if (change->kind == GT_DRA_RELEASE)
            continue;
        change->kind = GT_DRA_RELEASE;
        gt_text_copy(change->claim.id.uid, sizeof(change->claim.id.uid), uid);
        gt_dra_disk_change(dra->disk, change);
        return;
    }
}

/* ---- calls from outside ---- */

static void on_called(void *arg, enum gt_dra_call_kind kind, const struct gt_dra_request *request,
                      struct gt_rpc_reply *reply)
{
    struct gt_dra *dra = arg;
    struct work *work = calloc(1, sizeof(*work) + request->count * sizeof(work->claims[0]));
    if (!work) {
        const struct gt_buf none = {.failed = true};
        driver_reply(reply, &none);
        return;
    }
    work->dra = dra;
    work->reply = reply;
    work->releases = kind == GT_DRA_CALL_UNPREPARE;
    work->count = work->open = request->count;
    for (unsigned i = 0; i < request->count; i++)
        work->claims[i] = (struct gt_dra_claim_request){.work = work, .id = request->claims[i]};
    work->next = dra->works;
    dra->works = work;
    dra->in_progress = true;
    for (unsigned i = 0; i < work->count; i++)
        if (work->releases)
            begin_release(&work->claims[i]);
        else
            driver_begin(&work->claims[i]);
    dra->in_progress = false;
    driver_finish(dra);
}

/* ---- the disk's callbacks ---- */

static void driver_on_done(void *arg, struct gt_dra_change *change)
{
    struct gt_dra *dra = arg;
    gt_auto_err struct gt_err *err = gt_steal(change->err);
    if (change >= dra->forgotten && change < dra->forgotten + GT_COUNT(dra->forgotten)) {
        *change = (struct gt_dra_change){0};
        return;
    }
    struct gt_dra_claim_request *request = (struct gt_dra_claim_request *)change;
    request->work->pending--;
    if (request->work->releases)
        end_unpreparing(request, err);
    else
        end_preparing(request, err);
}

/* Registered with the kubelet, and able to store claims. */
static void on_passed(void *arg, unsigned tasks, const char *error)
{
    struct gt_dra *dra = arg;
    bool checked = dra->refusal ? tasks & GT_DRA_READ : tasks & GT_DRA_MARK;
    if (checked && dra->is_registered && dra->unconfirmed) {
        dra->stats.registered = !error;
        dra->unconfirmed = error;
        if (error)
            dra->events.registration_failed(dra->events.arg, error);
        else
            dra->events.registered(dra->events.arg);
    }
    retry_waiting(dra);
}

/* ---- the kubelet and the clock ---- */

static unsigned usual_tasks(const struct gt_dra *dra)
{
    bool marks = dra->is_registered && dra->unconfirmed && !dra->refusal;
    return GT_DRA_READ | GT_DRA_SPECS | (marks ? GT_DRA_MARK : 0);
}

static void driver_on_registered(void *arg)
{
    struct gt_dra *dra = arg;
    dra->is_registered = dra->unconfirmed = true; /* meanwhile it stays registered if it was */
    gt_dra_disk_ask(dra->disk, usual_tasks(dra));
}

static void driver_on_failed(void *arg, const char *why)
{
    struct gt_dra *dra = arg;
    dra->is_registered = dra->stats.registered = false;
    dra->events.registration_failed(dra->events.arg, why);
}

/* Another instance may have released what a claim waits for. */
static void on_tick(void *arg)
{
    struct gt_dra *dra = arg;
    gt_dra_disk_ask(dra->disk, GT_DRA_READ);
}

static void send_health(struct gt_dra *dra)
{
    gt_auto_buf struct gt_buf message = GT_BUF(DRA_ANSWER_MAX);
    gt_dra_answer_health(dra->inventory, dra->options.node_name, time(NULL), &message);
    if (!message.failed)
        gt_dra_server_health(dra->server, &message);
}

/* An entry that is older than 30 s reads as unknown. */
static void on_health_timer(void *arg)
{
    struct gt_dra *dra = arg;
    gt_source_arm(dra->health, HEALTH_MS);
    gt_dra_disk_ask(dra->disk, usual_tasks(dra));
    send_health(dra);
}

void gt_dra_publish(struct gt_dra *dra, const struct gt_inventory *inventory)
{
    struct gt_inventory *next = gt_inventory_ref(inventory);
    gt_inventory_unref(dra->inventory);
    dra->inventory = next;
    gt_dra_disk_inventory(dra->disk, inventory);
    gt_dra_disk_ask(dra->disk, usual_tasks(dra));
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
        gt_dra_disk_ask(dra->disk, GT_DRA_UNMARK);
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

int gt_dra_new(struct gt_loop *loop, const struct gt_dra_options *options, const struct gt_dra_events *events,
               struct gt_dra **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_dra_free) struct gt_dra *dra = calloc(1, sizeof(*dra));
    GT_NEED(dra, err, "DRA driver");
    dra->events = *events;
    dra->options = *options;
    if (!options->wait_ms)
        dra->options.wait_ms = GT_DRA_WAIT_MS;
    GT_TRY(gt_cdi_check(&options->cdi, err));
    gt_auto_free char *dir = state_dir(options->kubelet_dir, options->driver);
    GT_NEED(dir, err, "DRA driver");
    GT_TRY(gt_loop_add_timer(loop, on_tick, dra, &dra->tick, err));
    GT_TRY(gt_loop_add_timer(loop, on_health_timer, dra, &dra->health, err));
    const struct gt_dra_disk_events news = {
        events->changed, events->state_lost, events->specs, events->arg, driver_on_done, on_passed, dra};
    GT_TRY(gt_dra_disk_new(loop, dir, &dra->options.cdi, &news, &dra->disk, err));
    const struct gt_dra_server_options server = {options->kubelet_dir, options->driver};
    const struct gt_dra_server_events callbacks = {on_called, driver_on_registered, driver_on_failed, dra};
    GT_TRY(gt_dra_server_new(loop, &server, &callbacks, &dra->server, err));
    gt_source_arm(dra->health, 1);
    *ret = gt_steal(dra);
    return 0;
}

void gt_dra_free(struct gt_dra *dra)
{
    if (!dra)
        return;
    gt_dra_server_free(dra->server);
    gt_dra_disk_free(dra->disk);
    for (struct work *work; (work = dra->works);) {
        dra->works = work->next;
        work_free(work);
    }
    gt_source_free(dra->tick);
    gt_source_free(dra->health);
    gt_inventory_unref(dra->inventory);
    free(dra);
}
