/* SPDX-License-Identifier: Apache-2.0 */
#include "deviceplugin/plugin.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "deviceplugin/answers.h"
#include "deviceplugin/plan_lookup.h"
#include "deviceplugin/podresources.h"
#include "deviceplugin/registration.h"
#include "deviceplugin/rpc.h"

/* What handlers report to the loop's thread, copied into messages. Without memory the report is lost, but the
 * kubelet still gets its answer. */

/* About one container; the texts are behind it. */
struct notify_message {
    struct gt_message message;
    const struct gt_plugin_events *events;
    bool is_preference;
    struct gt_preference preference;
    struct gt_allocation allocation;
    char texts[];
};

static void plugin_deliver(void *owner, struct gt_message *base)
{
    const struct notify_message *message = (const struct notify_message *)base;
    (void)owner;
    if (message->is_preference)
        message->events->preferred(message->events->arg, &message->preference);
    else
        message->events->allocated(message->events->arg, &message->allocation);
}

enum { NOTIFY_MAX = 1 << 20 };

/* Copies the IDs as one text, and then these texts; `ret` are the copies. NULL without memory. */
static struct notify_message *plugin_notify_make(const struct gt_plugin_events *events,
                                                 const char *const *ids, unsigned ids_count,
                                                 const char *const *texts, unsigned count, const char **ret)
{
    gt_auto_buf struct gt_buf all = GT_BUF(NOTIFY_MAX);
    for (unsigned i = 0; i < ids_count; i++) {
        gt_buf_puts(&all, i ? "," : "");
        gt_buf_puts(&all, ids[i]);
    }
    gt_buf_add(&all, "", 1);
    for (unsigned i = 0; i < count; i++)
        gt_buf_add(&all, texts[i], strlen(texts[i]) + 1);
    struct notify_message *message = all.failed ? NULL : malloc(sizeof(*message) + all.len);
    if (!message)
        return NULL;
    *message = (struct notify_message){.message = {.deliver = plugin_deliver},
                                       .events = events,
                                       .preference = {.count = ids_count},
                                       .allocation = {.count = ids_count}};
    memcpy(message->texts, all.data, all.len);
    message->preference.ids = message->allocation.ids = message->texts;
    for (unsigned i = 0; i < count; i++)
        ret[i] = strchr(i ? ret[i - 1] : message->texts, '\0') + 1;
    return message;
}

enum { RETIRE_QUIET_MS = 300 };

struct gt_plugin {
    struct gt_plugin_events events;
    const char *resource, *kubelet_dir, *dev_root; /* borrowed */
    struct gt_registration *registration;
    enum gt_device_strategy strategy;
    struct gt_cdi *cdi; /* not owned */
    bool honour_plans;
    unsigned plan_deadline_ms;
    struct gt_plan_lookup *lookup; /* made before the first plans, and kept */

    pthread_mutex_t lock;
    struct gt_inventory *inventory; /* under lock, as all below */
    struct gt_plans *plans;         /* NULL: there are none */
    struct gt_in_use given;         /* IDs that Allocate was asked for, and those that are retired */
    struct gt_plugin_stats stats;
    atomic_uint handlers;        /* running handlers that give out devices */
    _Atomic uint64_t handled_at; /* when the last one ended, in microseconds; 0: none has */
};

static struct gt_inventory *current(struct gt_plugin *plugin)
{
    pthread_mutex_lock(&plugin->lock);
    struct gt_inventory *inventory = gt_inventory_ref(plugin->inventory);
    pthread_mutex_unlock(&plugin->lock);
    return inventory;
}

static struct gt_plans *current_plans(void *arg)
{
    struct gt_plugin *plugin = arg;
    pthread_mutex_lock(&plugin->lock);
    struct gt_plans *plans = gt_plans_ref(plugin->plans);
    pthread_mutex_unlock(&plugin->lock);
    return plans;
}

static uint64_t now_us(void)
{
    return gt_clock_ns() / 1000;
}

static void plugin_measure(struct gt_plugin *plugin, struct gt_latency *latency, uint64_t us)
{
    static const uint64_t limits[GT_LATENCY_BUCKETS - 1] = {10, 30, 100, 300, 1000, 3000, 10000, 100000};
    unsigned bucket = 0;
    while (bucket < GT_COUNT(limits) && us > limits[bucket])
        bucket++;
    pthread_mutex_lock(&plugin->lock);
    latency->bucket[bucket]++;
    latency->sum_us += us;
    pthread_mutex_unlock(&plugin->lock);
}

/* The time, in microseconds. */
static uint64_t begin_handler(struct gt_plugin *plugin)
{
    atomic_fetch_add(&plugin->handlers, 1);
    return now_us();
}

static void end_handler(struct gt_plugin *plugin, struct gt_latency *latency, uint64_t start)
{
    uint64_t now = now_us();
    atomic_store(&plugin->handled_at, now);
    atomic_fetch_sub(&plugin->handlers, 1);
    plugin_measure(plugin, latency, now - start);
}

static void plugin_count(struct gt_plugin *plugin, uint64_t *counter)
{
    pthread_mutex_lock(&plugin->lock);
    ++*counter;
    pthread_mutex_unlock(&plugin->lock);
}

/* One GetPreferredAllocation. */
struct preferring {
    struct gt_plugin *plugin;
    const struct gt_inventory *inventory;
    struct gt_plans *plans;     /* NULL: there are none; owned */
    const struct gt_plan *plan; /* one of them; NULL: none was found */
    enum gt_plan_result result;
};

static bool on_planned(void *arg, const char *const *available, unsigned available_count, unsigned size,
                       const char **ret_ids)
{
    struct preferring *preferring = arg;
    struct gt_plugin *plugin = preferring->plugin;
    preferring->plans = current_plans(plugin);
    if (preferring->plans) {
        const struct gt_planned_request request =
            gt_plan_request_make(preferring->inventory, available, available_count, size);
        preferring->result = gt_plan_lookup_find(plugin->lookup, &preferring->plans, current_plans, plugin,
                                                 &request, &preferring->plan);
        if (preferring->result == GT_PLAN_HIT)
            gt_plan_ids(preferring->plan, &request, ret_ids);
    }
    plugin_count(plugin, &plugin->stats.plans[preferring->result]);
    return preferring->result == GT_PLAN_HIT;
}

static uint64_t plugin_gpus_of(const struct gt_inventory *inventory, const char *const *ids, unsigned count,
                               bool healthy)
{
    uint64_t mask = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct gt_device *device = gt_inventory_find(inventory, ids[i]);
        if (device && device->gpu >= 0 && (device->healthy || !healthy))
            mask |= 1ULL << device->gpu;
    }
    return mask;
}

static void plugin_on_preferred(void *arg, const char *const *available, unsigned available_count,
                                const char *const *ids, unsigned ids_count, const struct gt_choice *choice)
{
    const struct preferring *preferring = arg;
    struct gt_plugin *plugin = preferring->plugin;
    const struct gt_plan *plan = preferring->plan;
    const char *const names[] = {plan ? plan->namespace : "", plan ? plan->pod : "",
                                 plan ? plan->container : ""};
    const char *copies[GT_COUNT(names)];
    struct notify_message *message =
        plugin->events.preferred
            ? plugin_notify_make(&plugin->events, ids, ids_count, names, GT_COUNT(names), copies)
            : NULL;
    if (!message)
        return;
    struct gt_preference *preference = &message->preference;
    preference->offered = plugin_gpus_of(preferring->inventory, available, available_count, true);
    preference->choice = *choice;
    preference->plan = preferring->result;
    preference->namespace = copies[0];
    preference->pod = copies[1];
    preference->container = copies[2];
    message->is_preference = true;
    gt_mailbox_send(gt_registration_mailbox(plugin->registration), &message->message);
}

static void plugin_on_allocated(void *arg, const char *const *ids, unsigned ids_count, const char *error)
{
    struct gt_plugin *plugin = arg;
    plugin_count(plugin, error ? &plugin->stats.allocation_errors : &plugin->stats.allocations);
    gt_auto_inventory struct gt_inventory *inventory = current(plugin);
    ids_count = ids_count < GT_DEVICES_MAX ? ids_count : GT_DEVICES_MAX;
    const char *copy = NULL;
    struct notify_message *message =
        plugin->events.allocated
            ? plugin_notify_make(&plugin->events, ids, ids_count, &error, error != NULL, &copy)
            : NULL;
    if (!message)
        return;
    message->allocation.gpus = plugin_gpus_of(inventory, ids, ids_count, false);
    message->allocation.error = copy;
    gt_mailbox_send(gt_registration_mailbox(plugin->registration), &message->message);
}

static enum gt_rpc_status plugin_handle_list(void *arg, const uint8_t *request, size_t len,
                                             struct gt_buf *reply, struct gt_err **err)
{
    (void)request, (void)len, (void)err;
    gt_auto_inventory struct gt_inventory *inventory = current(arg);
    gt_answer_list(inventory, reply);
    return GT_RPC_OK;
}

static enum gt_rpc_status handle_preferred(void *arg, const uint8_t *request, size_t len,
                                           struct gt_buf *reply, struct gt_err **err)
{
    struct gt_plugin *plugin = arg;
    uint64_t start = begin_handler(plugin);
    gt_auto_inventory struct gt_inventory *inventory = current(plugin);
    struct preferring preferring = {.plugin = plugin, .inventory = inventory};
    const struct gt_preferred_callbacks callbacks = {plugin->honour_plans ? on_planned : NULL,
                                                     plugin_on_preferred, &preferring};
    enum gt_rpc_status status = gt_answer_preferred(inventory, &callbacks, request, len, reply, err);
    gt_plans_unref(preferring.plans);
    end_handler(plugin, &plugin->stats.prefer, start);
    return status;
}

/* The final check, under the lock: an ID that was given is not retired, and a retired one is not given. */
static bool plugin_on_claim(void *arg, const char *id)
{
    struct gt_plugin *plugin = arg;
    pthread_mutex_lock(&plugin->lock);
    bool retired = gt_in_use_retired(&plugin->given, id);
    if (!retired)
        gt_in_use_add(&plugin->given, id);
    pthread_mutex_unlock(&plugin->lock);
    return !retired;
}

bool gt_plugin_retire(struct gt_plugin *plugin, const char *id)
{
    struct gt_in_use *given = &plugin->given;
    if (gt_plugin_quiet_ms(plugin) < RETIRE_QUIET_MS)
        return false;
    pthread_mutex_lock(&plugin->lock);
    bool may = given->complete && !gt_in_use_has(given, id) && gt_in_use_retire(given, id);
    pthread_mutex_unlock(&plugin->lock);
    return may;
}

void gt_plugin_retired(struct gt_plugin *plugin, struct gt_in_use *to)
{
    pthread_mutex_lock(&plugin->lock);
    memcpy(to->retired, plugin->given.retired, sizeof(to->retired));
    to->retired_count = plugin->given.retired_count;
    pthread_mutex_unlock(&plugin->lock);
}

static enum gt_rpc_status plugin_handle_allocate(void *arg, const uint8_t *request, size_t len,
                                                 struct gt_buf *reply, struct gt_err **err)
{
    struct gt_plugin *plugin = arg;
    uint64_t start = begin_handler(plugin);
    gt_auto_inventory struct gt_inventory *inventory = current(plugin);
    const struct gt_allocate_options options = {plugin->dev_root, plugin->strategy,    plugin->cdi,
                                                plugin_on_claim,  plugin_on_allocated, plugin};
    enum gt_rpc_status status = gt_answer_allocate(inventory, &options, request, len, reply, err);
    end_handler(plugin, &plugin->stats.allocate, start);
    return status;
}

static const struct gt_rpc_method methods[] = {
    {.path = GT_PATH_OPTIONS, .handler = gt_handle_options_preferring},
    {.path = GT_PATH_LIST, .handler = plugin_handle_list, .streams = true},
    {.path = GT_PATH_PREFERRED, .handler = handle_preferred},
    {.path = GT_PATH_ALLOCATE, .handler = plugin_handle_allocate},
    {.path = GT_PATH_PRESTART, .handler = gt_handle_prestart},
};

static bool plugin_lacks(void *arg, const struct gt_device_uses *uses)
{
    gt_auto_inventory struct gt_inventory *inventory = current(arg);
    for (unsigned i = 0; i < inventory->device_count; i++)
        if (inventory->devices[i].healthy && !GT_FIND(uses->users, uses->count, id, inventory->devices[i].id))
            return true;
    return false;
}

int gt_plugin_new(struct gt_loop *loop, const struct gt_plugin_options *options,
                  const struct gt_plugin_events *events, struct gt_plugin **ret, struct gt_err **err)
{
    GT_CLEANUP(gt_plugin_free) struct gt_plugin *plugin = calloc(1, sizeof(*plugin));
    GT_NEED(plugin, err, "device plugin");
    pthread_mutex_init(&plugin->lock, NULL);
    plugin->given.complete = true;
    if (events)
        plugin->events = *events;
    plugin->resource = options->resource;
    plugin->kubelet_dir = options->kubelet_dir;
    plugin->dev_root = options->dev_root;
    if (!gt_text_is_utf8(options->resource) || !gt_text_is_utf8(options->dev_root))
        return gt_fail(err, EINVAL, "device plugin: the resource or the directory of devices is not UTF-8");
    const struct gt_rpc_service service = {.methods = methods, .count = GT_COUNT(methods), .arg = plugin};
    const struct gt_registration_options registration = {.kubelet_dir = plugin->kubelet_dir,
                                                         .resource = plugin->resource,
                                                         .prefers = true,
                                                         .register_timeout_ms = options->register_timeout_ms,
                                                         .stream_timeout_ms = options->stream_timeout_ms,
                                                         .check_ms = options->check_ms,
                                                         .lacks = plugin_lacks};
    const struct gt_registration_events callbacks = {plugin->events.registered,
                                                     plugin->events.registration_failed,
                                                     plugin->events.stream_ended, plugin->events.arg};
    plugin->strategy = options->strategy;
    plugin->cdi = options->cdi;
    plugin->honour_plans = options->honour_plans;
    plugin->plan_deadline_ms = options->plan_deadline_ms;
    GT_TRY(gt_registration_new(loop, &service, &registration, &callbacks, &plugin->registration, err));
    *ret = gt_steal(plugin);
    return 0;
}

void gt_plugin_publish(struct gt_plugin *plugin, const struct gt_inventory *inventory)
{
    if (!inventory->device_count)
        return;
    struct gt_inventory *next = gt_inventory_ref(inventory);
    pthread_mutex_lock(&plugin->lock);
    struct gt_inventory *before = plugin->inventory;
    plugin->inventory = next;
    pthread_mutex_unlock(&plugin->lock);
    if (!before)
        gt_registration_start(plugin->registration);
    else if (!gt_inventory_same_list(before, inventory))
        gt_registration_changed(plugin->registration);
    gt_inventory_unref(before);
}

int gt_plugin_plan(struct gt_plugin *plugin, struct gt_plans *plans, struct gt_err **err)
{
    bool some = plugin->honour_plans && plans && (plans->count || plans->is_complete);
    int r = 0;
    if (some && !plugin->lookup)
        r = gt_plan_lookup_new(plugin->kubelet_dir, plugin->resource, plugin->plan_deadline_ms,
                               &plugin->lookup, err);
    struct gt_plans *next = some && r == 0 ? gt_plans_ref(plans) : NULL;
    pthread_mutex_lock(&plugin->lock);
    struct gt_plans *before = plugin->plans;
    plugin->plans = next;
    pthread_mutex_unlock(&plugin->lock);
    gt_plans_unref(before);
    return r;
}

void gt_plugin_free(struct gt_plugin *plugin)
{
    if (!plugin)
        return;
    gt_registration_free(plugin->registration); /* no messages are sent any more */
    gt_plan_lookup_free(plugin->lookup);
    gt_inventory_unref(plugin->inventory);
    gt_plans_unref(plugin->plans);
    pthread_mutex_destroy(&plugin->lock);
    free(plugin);
}

uint64_t gt_plugin_quiet_ms(const struct gt_plugin *plugin)
{
    uint64_t now = now_us();
    if (atomic_load(&plugin->handlers))
        return 0;
    uint64_t at = atomic_load(&plugin->handled_at);
    if (!at)
        return UINT64_MAX;
    return now > at ? (now - at) / 1000 : 0;
}

uint64_t gt_plugin_busy_ms(const struct gt_plugin *plugin)
{
    return gt_registration_busy_ms(plugin->registration);
}

void gt_plugin_stats(struct gt_plugin *plugin, struct gt_plugin_stats *ret)
{
    pthread_mutex_lock(&plugin->lock);
    *ret = plugin->stats;
    pthread_mutex_unlock(&plugin->lock);
    gt_registration_stats(plugin->registration, &ret->registration);
}
