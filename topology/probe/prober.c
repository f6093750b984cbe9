/* SPDX-License-Identifier: Apache-2.0 */
#include "topology/probe/prober.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_get.h"
#include "base/json_write.h"
#include "base/log.h"
#include "base/text.h"
#include "base/version.h"
#include "topology/probe/protocol.h"
#include "topology/probe/worker.h"

enum {
    RESTARTS_MAX = 6,       /* workers lost in one scan before it is given up */
    SCANS_PER_WORKER = 100, /* then a fresh one, for whatever the library leaks */
    LOG_RESERVE = 4096,     /* kept free for the end of the log */
};

struct gt_prober {
    struct gt_prober_options options;
    struct gt_worker worker;
    struct gt_library library; /* what the worker has open */
    cJSON *missing;            /* its missing symbols */
    char init_answer[128];     /* what mxSmlInit said in it, as the end of a log entry */
    unsigned scans;            /* that it served */

    struct {
        struct gt_buf log;
        int64_t deadline;
        unsigned restarts;
        bool init_logged;  /* mxSmlInit is in the log */
        bool over;         /* nothing more is asked */
        bool canceled;     /* the owner is gone */
        bool doubtful;     /* some code was not a normal answer: use a new worker next time */
        char stopped[128]; /* why it ended early */
        struct gt_culprits culprits;
        bool patient; /* a health check: what hangs again and again is not queried each time */
    } scan;           /* in progress */

    struct gt_hangs hangs;
    struct gt_event_worker events;
    char answer[GT_WORKER_PACKET_MAX];
};

int gt_prober_new(const struct gt_prober_options *options, struct gt_prober **ret, struct gt_err **err)
{
    struct gt_prober *prober = calloc(1, sizeof(*prober));
    GT_NEED(prober, err, "probe");
    prober->options = *options;
    prober->worker.fd = prober->events.worker.fd = -1;
    *ret = prober;
    return 0;
}

static void drop_worker(struct gt_prober *prober, char *why, size_t size)
{
    gt_worker_stop(&prober->worker, why, size);
    prober->scans = 0;
    prober->init_answer[0] = '\0';
}

void gt_prober_free(struct gt_prober *prober)
{
    if (!prober)
        return;
    drop_worker(prober, NULL, 0);
    gt_event_worker_stop(&prober->events);
    gt_buf_done(&prober->scan.log);
    cJSON_Delete(prober->missing);
    free(prober);
}

/* One entry of the log; `rest` is what follows the arguments, from its comma to the closing brace. */
static void add_call(struct gt_prober *prober, const char *call, unsigned count, const uint32_t *args,
                     const char *rest)
{
    size_t capacity = prober->scan.log.max - prober->scan.log.len;
    if (capacity < LOG_RESERVE + strlen(rest) + 256) {
        gt_text_copy(prober->scan.stopped, sizeof(prober->scan.stopped),
                     "the answers are too many for one log");
        prober->scan.over = true;
        return;
    }
    gt_json_new_line(&prober->scan.log, 0);
    gt_json_printf(&prober->scan.log, "{'call': %s, 'args': [", call);
    for (unsigned i = 0; i < count; i++)
        gt_json_add_unsigned(&prober->scan.log, NULL, args[i]);
    gt_json_end(&prober->scan.log, ']');
    gt_buf_puts(&prober->scan.log, rest);
}

static void prober_add_failure(struct gt_prober *prober, const char *call, unsigned count,
                               const uint32_t *args, const char *why)
{
    gt_auto_buf struct gt_buf rest = GT_BUF(1024);
    gt_buf_puts(&rest, ",");
    gt_json_printf(&rest, "'error': %s}", why);
    add_call(prober, call, count, args, rest.failed ? ",\"error\":\"?\"}" : rest.data);
}

static void stop_scan(struct gt_prober *prober, const char *why)
{
    prober->scan.over = true;
    if (!prober->scan.stopped[0])
        gt_text_copy(prober->scan.stopped, sizeof(prober->scan.stopped), why);
}

/* Sends a request to the worker within both deadlines. Returns its parsed answer, or NULL after the worker
 * was given up. */
static cJSON *prober_exchange(struct gt_prober *prober, const char *request, const char *call, unsigned count,
                              const uint32_t *args)
{
    int64_t left = prober->scan.deadline - gt_clock_signed_ms();
    int timeout = prober->options.call_timeout_ms;
    if (left < timeout)
        timeout = left > 0 ? (int)left : 0;
    int r = gt_worker_request(&prober->worker, request, timeout, prober->options.owner, prober->answer);
    cJSON *answer = r >= 2 ? cJSON_ParseWithLengthOpts(prober->answer, (size_t)r + 1, NULL, true) : NULL;
    if (cJSON_IsObject(answer) && answer->child && prober->answer[0] == '{')
        return answer;
    cJSON_Delete(answer);

    char why[64] = "ended";
    if (r == -ETIMEDOUT)
        gt_text_copy(why, sizeof(why), "timeout");
    else if (r >= 0 || r == -EMSGSIZE)
        gt_text_copy(why, sizeof(why), "answered nonsense");
    drop_worker(prober, r == -ECONNRESET ? why : NULL, sizeof(why));
    if (r == -ECANCELED) {
        prober->scan.canceled = prober->scan.over = true;
        return NULL;
    }
    gt_warning("vendor call failed, its worker is replaced", GT_STR("call", call), GT_STR("why", why),
               GT_INT("device", count ? (long long)args[0] : -1));
    prober_add_failure(prober, call, count, args, why);
    gt_culprits_add(&prober->scan.culprits, call, count, args);
    gt_hangs_failed(&prober->hangs, call, count, args, why, gt_clock_ms());
    prober->scan.restarts++;
    if (prober->scan.restarts > RESTARTS_MAX)
        stop_scan(prober, "too many calls hung or crashed");
    if (gt_clock_signed_ms() >= prober->scan.deadline)
        stop_scan(prober, "the deadline of the scan has passed");
    return NULL;
}

/* The log of every scan has it once, though a worker that is kept, or a second one, does it elsewhere. */
static void log_init(struct gt_prober *prober)
{
    if (!prober->scan.init_logged)
        add_call(prober, "mxSmlInit", 0, NULL, prober->init_answer[0] ? prober->init_answer : "}");
    prober->scan.init_logged = true;
}

/* Starts a worker with the library open and initialised. False: the scan is over. */
static bool prepare_worker(struct gt_prober *prober)
{
    gt_auto_err struct gt_err *err = NULL;
    if (gt_worker_start(&prober->worker, "gputopo-vendor", prober->options.verbose, &err) < 0) {
        stop_scan(prober, gt_err_text(err));
        return false;
    }
    char request[PATH_MAX + 8];
    snprintf(request, sizeof(request), "open %s", prober->library.path);
    cJSON *opened = prober_exchange(prober, request, "dlopen", 0, NULL);
    const cJSON *error = gt_get(opened, "error");
    cJSON *missing = cJSON_DetachItemFromObjectCaseSensitive(opened, "missing");
    bool done = cJSON_IsArray(missing);
    if (opened && !done) {
        prober_add_failure(prober, "dlopen", 0, NULL, cJSON_IsString(error) ? error->valuestring : "failed");
        drop_worker(prober, NULL, 0);
    }
    cJSON_Delete(opened);
    if (!done) {
        cJSON_Delete(missing);
        stop_scan(prober, "the library cannot be opened");
        return false;
    }
    cJSON_Delete(prober->missing);
    prober->missing = missing;

    cJSON *init = prober_exchange(prober, "call mxSmlInit", "mxSmlInit", 0, NULL);
    const cJSON *code = gt_get(init, "rc");
    bool ready = cJSON_IsNumber(code) && code->valueint == 0;
    if (init) {
        prober->answer[0] = ',';
        ready = gt_text_copy(prober->init_answer, sizeof(prober->init_answer), prober->answer) && ready;
        log_init(prober);
    }
    cJSON_Delete(init);
    if (!ready) {
        stop_scan(prober, "the library did not initialise");
        drop_worker(prober, NULL, 0);
    }
    return ready;
}

/* Whether a symbol is known to be missing. */
static bool prober_lacks(const struct gt_prober *prober, const char *call)
{
    const cJSON *name;
    cJSON_ArrayForEach(name, prober->missing) if (cJSON_IsString(name) &&
                                                  strcmp(name->valuestring, call) == 0) return true;
    return false;
}

/* Done, no such device, not supported, no such number: these are normal answers. Any other may be different
 * in a new process. */
static bool is_everyday(int code)
{
    return code == 0 || code == 2 || code == 3 || code == 6 || code == 9;
}

cJSON *gt_prober_call(struct gt_prober *prober, const char *call, unsigned count, const uint32_t *args)
{
    if (prober->scan.over || gt_culprits_has(&prober->scan.culprits, call, count, args))
        return NULL;
    if (gt_clock_signed_ms() >= prober->scan.deadline) {
        stop_scan(prober, "the deadline of the scan has passed");
        return NULL;
    }
    if (!prober->worker.pid && !prepare_worker(prober))
        return NULL;
    if (prober_lacks(prober, call))
        return NULL;
    const char *hung =
        prober->scan.patient ? gt_hangs_wait(&prober->hangs, call, count, args, gt_clock_ms()) : NULL;
    if (hung) {
        prober_add_failure(prober, call, count, args, hung);
        gt_culprits_add(&prober->scan.culprits, call, count, args);
        return NULL;
    }
    char request[128];
    int n = snprintf(request, sizeof(request), "call %s", call);
    for (unsigned i = 0; i < count; i++)
        n += snprintf(request + n, sizeof(request) - (size_t)n, " %u", args[i]);
    cJSON *answer = prober_exchange(prober, request, call, count, args);
    if (!answer)
        return NULL;
    gt_hangs_answered(&prober->hangs, call, count, args);
    prober->answer[0] = ','; /* "{...}" becomes the rest of the entry */
    add_call(prober, call, count, args, prober->answer);
    const cJSON *code = gt_get(answer, "rc");
    if (!cJSON_IsNumber(code) || !is_everyday(code->valueint))
        prober->scan.doubtful = true;
    if (count && cJSON_IsNumber(code) && code->valueint == 0)
        gt_culprits_answered(&prober->scan.culprits, call);
    cJSON *value = cJSON_DetachItemFromObjectCaseSensitive(answer, "value");
    cJSON_Delete(answer);
    return value;
}

/* Events of those devices that had some. */
static void add_events(struct gt_prober *prober)
{
    struct gt_buf *log = &prober->scan.log;
    bool begun = false;
    for (unsigned i = 0; i < GT_EVENT_DEVICES_MAX; i++) {
        if (!prober->events.reported[i])
            continue;
        if (!begun) {
            gt_json_new_line(log, 0);
            gt_json_begin(log, "events", '[');
        }
        begun = true;
        gt_json_printf(log, "{'device': %u, 'count': %u}", i, prober->events.reported[i]);
    }
    if (begun)
        gt_json_end(log, ']');
}

static void finish_log(struct gt_prober *prober, const char *library_error)
{
    struct gt_buf *log = &prober->scan.log;
    gt_auto_free char *missing = prober->missing ? cJSON_PrintUnformatted(prober->missing) : NULL;
    gt_json_end(log, ']');
    gt_json_new_line(log, 0);
    gt_json_add_raw(log, "missing", missing ? missing : "[]");
    if (prober->scan.stopped[0]) {
        gt_json_new_line(log, 0);
        gt_json_add_text(log, "stopped", prober->scan.stopped);
    }
    add_events(prober);
    gt_json_new_line(log, 0);
    gt_json_printf(log, "'library': {%s: %s}}", library_error ? "error" : "path",
                   library_error ? library_error : prober->library.shown);
    gt_buf_puts(log, "\n");
}

int gt_prober_scan(struct gt_prober *prober, const struct gt_probe_plan *plan, char **ret_log,
                   size_t *ret_len, unsigned *ret_restarts, struct gt_err **err)
{
    gt_auto_err struct gt_err *why = NULL;
    struct gt_library library = {0};
    uint64_t devices = 0;

    gt_buf_done(&prober->scan.log);
    prober->scan.log = (struct gt_buf)GT_BUF(GT_PROBE_DOCUMENT_MAX);
    prober->scan.deadline = gt_clock_signed_ms() + prober->options.scan_timeout_ms;
    prober->scan.restarts = prober->scan.culprits.count = prober->scan.culprits.sound_count = 0;
    prober->scan.over = prober->scan.doubtful = prober->scan.init_logged = false;
    prober->scan.patient = plan->patient;
    prober->scan.stopped[0] = '\0';
    gt_worker_stuck();

    int found = gt_library_locate(prober->options.root, prober->options.library, &library, &why);
    if (found < 0 || !gt_library_same(&library, &prober->library)) {
        drop_worker(prober, NULL, 0);
        cJSON_Delete(prober->missing);
        prober->missing = NULL;
        prober->hangs.count = 0;
    } else if (prober->scans >= SCANS_PER_WORKER)
        drop_worker(prober, NULL, 0);
    else if (prober->worker.pid && !gt_worker_alive(&prober->worker)) {
        drop_worker(prober, NULL, 0); /* it ended between two scans */
        prober->scan.restarts++;
    }
    prober->library = library;

    gt_json_printf(&prober->scan.log, "{'probe': 1, 'version': %s", gt_version);
    gt_json_new_line(&prober->scan.log, 0);
    gt_json_begin(&prober->scan.log, "calls", '[');
    if (found == 0) {
        if (prober->init_answer[0]) /* by this worker, in an earlier scan */
            log_init(prober);
        plan->ask(prober, &devices);
    }
    finish_log(prober, found < 0 ? gt_err_text(why) : NULL);
    *ret_restarts = prober->scan.restarts;
    prober->scans++;
    gt_event_worker_run(&prober->events, &prober->library, devices, prober->options.verbose);
    if (prober->scan.over || prober->scan.doubtful)
        drop_worker(prober, NULL, 0);
    if (prober->scan.canceled)
        return gt_fail(err, ECANCELED, "scan: the client is gone");
    size_t len = prober->scan.log.len;
    char *log = gt_buf_take(&prober->scan.log);
    GT_NEED(log, err, "scan");
    *ret_log = log;
    *ret_len = len;
    return 0;
}

struct gt_event_worker *gt_prober_events(struct gt_prober *prober)
{
    return &prober->events;
}
