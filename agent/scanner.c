/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/scanner.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "agent/changes.h"
#include "agent/kubelet_config.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/mailbox.h"
#include "base/process.h"

enum { CLASSES_KEPT = 8, STACK_BYTES = 1 << 20 };

/* What others say about the GPUs. */
struct scanner_given {
    struct gt_fault_table faults;
    struct gt_isolations isolations[GT_ISOLATION_SOURCES];
    struct gt_kubelet kubelet; /* zeroed: it was not asked */
    struct gt_measured measured[GT_MEASURED_SOURCES];
};

struct gt_scanner {
    struct gt_message message; /* that there is a result; embedded */
    struct gt_mailbox *mailbox;
    struct gt_scanner_options options;
    gt_scanner_callback *callback;
    void *arg;

    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct {
        unsigned wanted;
        bool stopping, ended, has_result;
        bool names;               /* gt_scanner_name_gpus() was called */
        bool shared;              /* as gt_scanner_shared() said */
        struct gt_in_use *in_use; /* NULL: unknown */
        struct scanner_given given;
        struct gt_gpus_in_use gpus_in_use;
        unsigned stores;              /* bits 1 << source: its isolations are to be stored */
        struct gt_scan_result result; /* waits for the loop's thread */
    } locked;                         /* under `lock` */
    _Atomic uint64_t busy_since_ms;   /* 0: idle */

    /* The scan thread's own. */
    struct gt_class_cache *classes;
    struct gt_inventory *last;
    struct gt_node *found; /* that it was made from; another one where the GPUs are shared */
    struct {
        struct gt_health health;
        struct gt_health_file file;
        bool write_failed;     /* the last attempt to write it failed */
        unsigned store_failed; /* likewise, isolations: bits 1 << source */
    } kept;
    bool told_late; /* that the probe's answer is overdue */
    struct scanner_given given;
    uint64_t digest;      /* of the vendor's answers that `last` was made from, 0: none */
    bool begun;           /* the first scan was */
    uint64_t reported_ms; /* when a scan last kept no link of before, 0 never */
    int64_t reported_s;   /* the same as Unix time */
};

static uint64_t in_ms(unsigned milliseconds)
{
    return gt_clock_ns() + milliseconds * 1000000ULL;
}

/* The node as it is served: its GPUs in the mode sGPU where the vendor's plugin shares them, and without what
 * is isolated. */
static int scanner_serve(const struct gt_scanner *scanner, const struct gt_node *node, bool shared,
                         struct gt_node **ret, struct gt_err **err)
{
    gt_auto_node struct gt_node *copy = NULL;
    GT_TRY(gt_node_copy(node, &copy, err));
    for (unsigned i = 0; shared && i < node->gpu_count; i++)
        if (copy->gpus[i].mode == GT_GPU_NATIVE)
            copy->gpus[i].mode = GT_GPU_SGPU;
    for (unsigned i = 0; i < GT_ISOLATION_SOURCES; i++)
        GT_TRY(gt_isolations_apply(&scanner->given.isolations[i], time(NULL), copy, err));
    for (unsigned i = 0; i < GT_MEASURED_SOURCES; i++)
        GT_TRY(gt_measured_apply(&scanner->given.measured[i], copy, err));
    *ret = gt_steal(copy);
    return 0;
}

/* The inventory that follows the last one. */
static int make_inventory(struct gt_scanner *scanner, const struct gt_node *node, struct gt_inventory **ret,
                          struct gt_err **err)
{
    gt_auto_free struct gt_in_use *in_use = NULL;
    struct gt_inventory *inventory = NULL;
    gt_auto_node struct gt_node *served = NULL;
    bool known, shared, differs;
    pthread_mutex_lock(&scanner->lock);
    while (!scanner->locked.names && !scanner->locked.stopping)
        pthread_cond_wait(&scanner->changed, &scanner->lock);
    known = scanner->locked.in_use != NULL;
    shared = differs = scanner->locked.shared;
    if (known && (in_use = malloc(sizeof(*in_use))))
        *in_use = *scanner->locked.in_use;
    pthread_mutex_unlock(&scanner->lock);
    if (known && !in_use)
        return gt_fail_sys(err, ENOMEM, "inventory");
    for (unsigned i = 0; i < GT_ISOLATION_SOURCES; i++)
        differs = differs || scanner->given.isolations[i].count;
    for (unsigned i = 0; i < GT_MEASURED_SOURCES; i++)
        differs = differs || scanner->given.measured[i].count;
    int r = differs ? scanner_serve(scanner, node, shared, &served, err) : 0;
    if (r == 0)
        r = gt_inventory_next(served ? served : node, scanner->classes, scanner->last, in_use, gt_clock_ms(),
                              &inventory, err);
    if (r < 0)
        return r;
    struct gt_node *found = gt_node_ref(node);
    gt_inventory_unref(scanner->last);
    gt_node_unref(scanner->found);
    scanner->last = inventory;
    scanner->found = found;
    *ret = gt_inventory_ref(inventory);
    return 0;
}

/* While the vendor library does not answer, data of a GPU that only it knows stays unchanged. */
static void carry_over(const struct gt_node *before, struct gt_node *node)
{
    for (unsigned i = 0; i < node->gpu_count; i++) {
        struct gt_gpu *gpu = &node->gpus[i];
        for (unsigned k = 0; k < before->gpu_count; k++) {
            const struct gt_gpu *was = &before->gpus[k];
            if (strcmp(was->bdf, gpu->bdf) != 0 || was->pci.device != gpu->pci.device)
                continue;
            if (gpu->vendor_index < 0 && was->product[0])
                memcpy(gpu->product, was->product, sizeof(gpu->product));
            if (gpu->vendor_index < 0 && gpu->mode == GT_GPU_NATIVE && was->mode == GT_GPU_VF)
                gpu->mode = was->mode;
            if (!gpu->memory_bytes)
                gpu->memory_bytes = was->memory_bytes;
        }
    }
}

static bool may_keep_links(const struct gt_scanner *scanner)
{
    return scanner->found && scanner->reported_ms &&
           gt_clock_ms() - scanner->reported_ms < (uint64_t)scanner->options.stale_links_s * 1000;
}

/* Links that were known stay for a while, so that an upgrade of the driver does not rewire the node. */
static int keep_links(struct gt_scanner *scanner, struct gt_node *node, struct gt_err **err)
{
    bool kept = false;
    int r = may_keep_links(scanner) ? gt_stale_links_keep(scanner->found, node, &kept, err) : 0;
    if (kept)
        node->links_reported_s = scanner->reported_s;
    else {
        scanner->reported_ms = gt_clock_ms();
        scanner->reported_s = (int64_t)time(NULL);
    }
    return r;
}

/* What a recording says of its own node stays, unless the kubelet has said something, or there is a file. */
static void scanner_read_kubelet(const struct gt_scanner *scanner, struct gt_node *node)
{
    struct gt_kubelet kubelet;
    if (!scanner->options.scan.from)
        gt_numa_nodes_read(scanner->options.scan.root, node);
    bool has_file = false;
    if (scanner->given.kubelet.policy[0]) {
        node->kubelet = scanner->given.kubelet;
        return;
    }
    if (scanner->options.kubelet_config) {
        has_file = gt_kubelet_config_read(scanner->options.kubelet_config, &kubelet) >= 0;
        if (has_file || !node->kubelet.policy[0])
            node->kubelet = kubelet;
    }
    if (!has_file && !node->kubelet.policy[0] && scanner->given.kubelet.unknown[0])
        node->kubelet = scanner->given.kubelet;
}

static int scanner_scan(struct gt_scanner *scanner, bool at_once, struct gt_inventory **ret,
                        struct gt_err **err)
{
    gt_auto_node struct gt_node *node = NULL;
    struct gt_raw raw = {0};
    struct gt_scan_options options = scanner->options.scan;
    options.probe_wait_ms = scanner->begun ? 0 : GT_SCAN_EARLY_MS;
    scanner->begun = true;
    GT_TRY(gt_scan(&options, &node, &raw, err));
    scanner_read_kubelet(scanner, node);
    scanner->digest = gt_raw_digest(&raw);
    gt_raw_done(&raw);

    unsigned flags = (at_once ? GT_HEALTH_AT_ONCE : 0) | (scanner->options.scan.from ? GT_HEALTH_ALL : 0);
    gt_health_observe(&scanner->kept.health, &scanner->given.faults, node, flags, gt_clock_ms() / 1000);
    if (scanner->found)
        carry_over(scanner->found, node);
    GT_TRY(scanner->options.scan.from ? 0 : keep_links(scanner, node, err));

    return make_inventory(scanner, node, ret, err);
}

static bool same_health(const struct gt_node *a, const struct gt_node *b)
{
    for (unsigned i = 0; i < a->gpu_count; i++)
        if (a->gpus[i].health != b->gpus[i].health || a->gpus[i].cause != b->gpus[i].cause ||
            a->gpus[i].grade != b->gpus[i].grade ||
            strcmp(a->gpus[i].unhealthy_reason, b->gpus[i].unhealthy_reason) != 0)
            return false;
    return true;
}

/* `late`: the probe's answers that were overdue before. */
static void tell_late(struct gt_scanner *scanner, uint64_t late, bool answered)
{
    struct gt_probe_stats stats;
    bool is_due = gt_probe_health_is_due(scanner->options.scan.probe);
    gt_probe_client_stats(scanner->options.scan.probe, &stats);
    if (stats.late != late && !scanner->told_late)
        gt_warning("gputopo-probe does not answer in time", GT_INT("after_ms", GT_PROBE_LATE_MS),
                   GT_BOOL("replaced", !is_due && answered));
    scanner->told_late |= stats.late != late;
    if (scanner->told_late && answered && !is_due) {
        gt_info("gputopo-probe answers again");
        scanner->told_late = false;
    }
}

/* A health check of the GPUs that the last scan has found. False: a whole scan is needed. While the probe's
 * answer is overdue, what the agent sees itself counts alone. */
static bool check_health(struct gt_scanner *scanner, struct gt_inventory **ret)
{
    gt_auto_node struct gt_node *node = NULL;
    uint64_t digest;
    const struct gt_probe_client *probe = scanner->options.scan.probe;
    struct gt_probe_stats stats = {0};
    if (probe)
        gt_probe_client_stats(probe, &stats);
    if (!scanner->found || (probe && gt_probe_scan_is_due(probe)) ||
        gt_scan_health(&scanner->options.scan, scanner->found, &node, &digest, NULL) < 0)
        return false;
    if (probe)
        tell_late(scanner, stats.late, digest);
    bool is_due = probe && gt_probe_health_is_due(probe);
    if (!scanner->options.scan.from && !is_due && digest != scanner->digest)
        return false;
    if (scanner->found->links_reported_s && !may_keep_links(scanner))
        return false; /* they go */
    gt_health_observe(&scanner->kept.health, &scanner->given.faults, node, 0, gt_clock_ms() / 1000);
    return same_health(scanner->found, node) || make_inventory(scanner, node, ret, NULL) >= 0;
}

static void relabel(struct gt_scanner *scanner, struct gt_scan_result *result)
{
    gt_auto_node struct gt_node *node = gt_node_ref(scanner->found);
    if (make_inventory(scanner, node, &result->inventory, NULL) >= 0)
        result->relabelled = !result->checked;
}

static void scan_bare(const struct gt_scanner *scanner, struct gt_scan_result *result)
{
    struct gt_scan_options options = scanner->options.scan;
    options.probe = NULL;
    gt_scan(&options, &result->node, NULL, &result->err);
}

/* Unhealthy GPUs of this process's predecessor: they are not offered until a health check has seen them. */
static void recall_health(struct gt_scanner *scanner)
{
    gt_auto_err struct gt_err *err = NULL;
    if (!scanner->options.kubelet_dir || scanner->options.scan.from)
        return;
    int r = gt_health_file_open(&scanner->kept.file, scanner->options.kubelet_dir, scanner->options.scan.root,
                                &err);
    if (r == 0)
        r = gt_health_file_read(&scanner->kept.file, &scanner->kept.health, gt_clock_ms() / 1000, &err);
    if (r < 0)
        gt_log(r == -ENOENT ? GT_LOG_DEBUG : GT_LOG_WARNING, "unhealthy GPUs of before are not known",
               GT_STR("why", gt_err_text(err))); /* without a boot ID there are none */
    else if (scanner->kept.health.count)
        gt_info("GPUs were unhealthy before, and are until a health check has seen them well",
                GT_INT("gpus", scanner->kept.health.count));
}

static void keep_health(struct gt_scanner *scanner)
{
    gt_auto_err struct gt_err *err = NULL;
    int r = gt_health_file_write(&scanner->kept.file, &scanner->kept.health, &err);
    if (r < 0 && !scanner->kept.write_failed)
        gt_warning("unhealthy GPUs are not written down", GT_STR("why", gt_err_text(err)));
    scanner->kept.write_failed = r < 0;
}

/* What could not be written is written after the next scan. */
static void store_isolations(struct gt_scanner *scanner, unsigned sources)
{
    unsigned failed = 0;
    for (unsigned i = 0; scanner->options.kubelet_dir && i < GT_ISOLATION_SOURCES; i++) {
        gt_auto_err struct gt_err *err = NULL;
        if (!(sources >> i & 1) ||
            gt_isolation_file_write(scanner->options.kubelet_dir, (enum gt_isolation_source)i,
                                    &scanner->given.isolations[i], &err) >= 0)
            continue;
        failed |= 1U << i;
        if (!(scanner->kept.store_failed >> i & 1))
            gt_warning("isolations are not written down", GT_STR("why", gt_err_text(err)));
    }
    scanner->kept.store_failed = failed;
}

static struct gt_scan_result work(struct gt_scanner *scanner, unsigned requests)
{
    struct gt_scan_result result = {.health_check = !(requests & GT_SCAN_FULL),
                                    .ids_only = requests == GT_SCAN_IDS,
                                    .bare = requests == GT_SCAN_BARE};
    uint64_t begin = gt_clock_ms();
    atomic_store(&scanner->busy_since_ms, begin ? begin : 1);
    if (result.bare)
        scan_bare(scanner, &result);
    else if (result.health_check && !result.ids_only)
        result.checked = check_health(scanner, &result.inventory);
    if (!result.bare && !result.ids_only && !result.checked)
        scanner_scan(scanner, requests & GT_SCAN_AT_ONCE, &result.inventory, &result.err);
    if (requests & GT_SCAN_IDS && !result.inventory && scanner->last)
        relabel(scanner, &result);
    atomic_store(&scanner->busy_since_ms, 0);
    result.health = scanner->kept.health.counts;
    const struct gt_probe_client *probe = scanner->options.scan.probe;
    result.early = result.inventory && probe && gt_probe_scan_is_due(probe);
    result.seconds = (double)(gt_clock_ms() - begin) / 1000;
    gt_process_trim(); /* a scan leaves large holes */
    return result;
}

static void result_done(struct gt_scan_result *result)
{
    gt_inventory_unref(result->inventory);
    gt_node_unref(result->node);
    gt_err_free(result->err);
}

/* The loop's thread fetches the result of the scan thread. */
static void fetch(void *owner, struct gt_message *message)
{
    struct gt_scanner *scanner = owner;
    (void)message;
    pthread_mutex_lock(&scanner->lock);
    bool has_result = scanner->locked.has_result;
    struct gt_scan_result result = scanner->locked.result;
    scanner->locked.has_result = false;
    pthread_cond_broadcast(&scanner->changed);
    pthread_mutex_unlock(&scanner->lock);
    if (!has_result)
        return;
    scanner->callback(scanner->arg, &result);
    gt_err_free(result.err);
}

/* Under the lock: passes the result on and waits until it is fetched. */
static void scanner_hand_over(struct gt_scanner *scanner, struct gt_scan_result result)
{
    scanner->locked.result = result;
    scanner->locked.has_result = true;
    gt_mailbox_send(scanner->mailbox, &scanner->message);
    while (scanner->locked.has_result && !scanner->locked.stopping)
        pthread_cond_wait(&scanner->changed, &scanner->lock);
}

static void *scanner_run(void *arg)
{
    struct gt_scanner *scanner = arg;
    recall_health(scanner);
    pthread_mutex_lock(&scanner->lock);
    while (!scanner->locked.stopping) {
        unsigned requests = scanner->locked.wanted;
        if (!requests) {
            pthread_cond_wait(&scanner->changed, &scanner->lock);
            continue;
        }
        if (requests & GT_SCAN_BARE)
            requests = GT_SCAN_BARE;
        scanner->locked.wanted &= ~requests;
        scanner->given = scanner->locked.given;
        if (scanner->locked.gpus_in_use.known)
            scanner->kept.health.gpus_in_use = scanner->locked.gpus_in_use;
        scanner->locked.gpus_in_use.known = false;
        scanner->kept.health.gpus_in_use.known &=
            !scanner->locked.shared; /* those of shared GPUs hold parts */
        unsigned stores = scanner->locked.stores;
        scanner->locked.stores = 0;
        pthread_mutex_unlock(&scanner->lock);
        struct gt_scan_result result = work(scanner, requests);
        pthread_mutex_lock(&scanner->lock);
        if (result.early)
            scanner->locked.wanted |= requests;
        else if (scanner->options.scan.probe && gt_probe_health_is_due(scanner->options.scan.probe))
            scanner->locked.wanted |= GT_SCAN_HEALTH; /* its answer counts when it comes */
        scanner_hand_over(scanner, result);
        if (scanner->locked.stopping)
            break;
        /* Last: the kubelet gets the result also where a disk or the probe hangs here. */
        pthread_mutex_unlock(&scanner->lock);
        keep_health(scanner);
        if (stores || scanner->kept.store_failed)
            store_isolations(scanner, stores | scanner->kept.store_failed);
        pthread_mutex_lock(&scanner->lock);
    }
    scanner->locked.ended = true;
    pthread_cond_broadcast(&scanner->changed);
    pthread_mutex_unlock(&scanner->lock);
    return NULL;
}

/* For the next round: copies this where there is something, and adds to what is asked for. */
static void scanner_set(struct gt_scanner *scanner, void *to, const void *from, size_t size, unsigned wanted)
{
    pthread_mutex_lock(&scanner->lock);
    if (to)
        memcpy(to, from, size);
    scanner->locked.wanted |= wanted;
    pthread_cond_broadcast(&scanner->changed);
    pthread_mutex_unlock(&scanner->lock);
}

void gt_scanner_request(struct gt_scanner *scanner, unsigned requests)
{
    scanner_set(scanner, NULL, NULL, 0, requests);
}

void gt_scanner_faults(struct gt_scanner *scanner, const struct gt_fault_table *faults)
{
    scanner_set(scanner, &scanner->locked.given.faults, faults, sizeof(*faults), 0);
}

void gt_scanner_isolate(struct gt_scanner *scanner, enum gt_isolation_source source,
                        const struct gt_isolations *isolations, bool store)
{
    pthread_mutex_lock(&scanner->lock);
    scanner->locked.given.isolations[source] = *isolations;
    scanner->locked.stores |= store ? 1U << source : 0; /* with the list: a round that takes one takes both */
    scanner->locked.wanted |= GT_SCAN_IDS;
    pthread_cond_broadcast(&scanner->changed);
    pthread_mutex_unlock(&scanner->lock);
}

bool gt_scanner_kubelet(struct gt_scanner *scanner, const struct gt_kubelet *kubelet)
{
    pthread_mutex_lock(&scanner->lock);
    const struct gt_kubelet *was = &scanner->locked.given.kubelet;
    bool changed = strcmp(was->policy, kubelet->policy) != 0 || strcmp(was->scope, kubelet->scope) != 0 ||
                   strcmp(was->cpu_policy, kubelet->cpu_policy) != 0 ||
                   strcmp(was->unknown, kubelet->unknown) != 0;
    scanner->locked.given.kubelet = *kubelet;
    pthread_mutex_unlock(&scanner->lock);
    return changed;
}

void gt_scanner_measure(struct gt_scanner *scanner, enum gt_measured_source source,
                        const struct gt_measured *measured)
{
    scanner_set(scanner, &scanner->locked.given.measured[source], measured, sizeof(*measured), GT_SCAN_IDS);
}

void gt_scanner_set_in_use(struct gt_scanner *scanner, const struct gt_gpus_in_use *gpus_in_use)
{
    scanner_set(scanner, &scanner->locked.gpus_in_use, gpus_in_use, sizeof(*gpus_in_use), 0);
}

bool gt_scanner_in_use(struct gt_scanner *scanner, const struct gt_in_use *in_use)
{
    pthread_mutex_lock(&scanner->lock);
    bool changed = !scanner->locked.in_use || !gt_in_use_equal(scanner->locked.in_use, in_use);
    if (!scanner->locked.in_use)
        scanner->locked.in_use = malloc(sizeof(*in_use));
    if (scanner->locked.in_use)
        *scanner->locked.in_use = *in_use;
    pthread_mutex_unlock(&scanner->lock);
    return changed;
}

void gt_scanner_shared(struct gt_scanner *scanner, bool shared)
{
    scanner_set(scanner, &scanner->locked.shared, &shared, sizeof(shared), 0);
}

void gt_scanner_name_gpus(struct gt_scanner *scanner)
{
    const bool names = true;
    scanner_set(scanner, &scanner->locked.names, &names, sizeof(names), 0);
}

double gt_scanner_busy(const struct gt_scanner *scanner)
{
    uint64_t since = atomic_load(&scanner->busy_since_ms);
    return since ? (double)(gt_clock_ms() - since) / 1000 : 0;
}

static void scanner_free(struct gt_scanner *scanner)
{
    if (scanner->locked.has_result)
        result_done(&scanner->locked.result);
    gt_mailbox_free(scanner->mailbox);
    free(scanner->locked.in_use);
    gt_inventory_unref(scanner->last);
    gt_node_unref(scanner->found);
    gt_class_cache_free(scanner->classes);
    gt_health_file_close(&scanner->kept.file);
    pthread_cond_destroy(&scanner->changed);
    pthread_mutex_destroy(&scanner->lock);
    free(scanner);
}
GT_DEFINE_CLEANUP(struct gt_scanner *, scanner_free)

bool gt_scanner_stop(struct gt_scanner *scanner, unsigned milliseconds)
{
    if (!scanner)
        return true;
    pthread_mutex_lock(&scanner->lock);
    scanner->locked.stopping = true;
    pthread_cond_broadcast(&scanner->changed);
    uint64_t until = in_ms(milliseconds);
    while (!scanner->locked.ended && gt_cond_wait_until(&scanner->changed, &scanner->lock, until) == 0)
        continue;
    bool ended = scanner->locked.ended;
    pthread_mutex_unlock(&scanner->lock);
    if (!ended)
        return false;
    pthread_join(scanner->thread, NULL);
    scanner_free(scanner);
    return true;
}

int gt_scanner_new(struct gt_loop *loop, const struct gt_scanner_options *options,
                   gt_scanner_callback *callback, void *arg, struct gt_scanner **ret, struct gt_err **err)
{
    GT_CLEANUP(scanner_free) struct gt_scanner *scanner = calloc(1, sizeof(*scanner));
    pthread_attr_t small;
    GT_NEED(scanner, err, "scan thread");
    scanner->message = (struct gt_message){.embedded = true, .deliver = fetch};
    scanner->options = *options;
    scanner->callback = callback;
    scanner->arg = arg;
    scanner->given.faults = scanner->locked.given.faults = *options->scan.faults;
    scanner->options.scan.faults = &scanner->given.faults;
    pthread_mutex_init(&scanner->lock, NULL);
    gt_cond_init(&scanner->changed);
    GT_TRY(gt_mailbox_new(loop, scanner, &scanner->mailbox, err));
    GT_TRY(gt_class_cache_new(CLASSES_KEPT, &scanner->classes, err));
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, STACK_BYTES);
    int r = pthread_create(&scanner->thread, &small, scanner_run, scanner);
    pthread_attr_destroy(&small);
    if (r != 0)
        return gt_fail_sys(err, r, "scan thread");
    *ret = gt_steal(scanner);
    return 0;
}
