/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Drives the Kubernetes client for tests. Orders come on standard input, one JSON object a line, with an
 * "id" that comes back in every answer on standard output:
 *
 *     kube-tool --kubeconfig FILE | --pod DIRECTORY
 *     {"id":1,"do":"get","resource":"/v1/configmaps","namespace":"default","name":"x"}
 *     {"id":1,"status":200,"tries":1,"object":{...}}
 *
 * Standard input's end ends the program.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "api/lease.h"
#include "kube/config.h"
#include "kube/event.h"
#include "kube/informer.h"
#include "kube/watch.h"

enum { ORDERS_MAX = 4096, LINE_MAX_BYTES = 64 << 20, PART_MAX = 128 };

struct order {
    int id;
    enum { ORDER_FREE, ORDER_CALL, ORDER_LIST, ORDER_WATCH, ORDER_INFORMER } type;
    struct gt_kube_resource resource;
    char group[PART_MAX], version[PART_MAX], plural[PART_MAX];
    struct gt_kube_call *call;
    struct gt_kube_list *list;
    struct gt_kube_watch *watch;
    struct gt_kube_informer *informer;
    bool quiet;       /* objects are counted, not printed */
    int cancel_after; /* objects or events; 0: never */
    unsigned again;   /* a get of the ConfigMap "again" is started within the answer, so many times */
    unsigned seen, began;
    struct timespec start;
};

static struct gt_loop *loop;
static struct gt_kube *kube;
static struct gt_kube_recorder *recorder;
static struct order orders[ORDERS_MAX];
static gt_lines_callback on_line, on_long_line;
static struct gt_lines input = {.rest = GT_BUF(LINE_MAX_BYTES), .on_line = on_line, .on_long = on_long_line};

static void say(cJSON *json)
{
    char *text = cJSON_PrintUnformatted(json);
    if (text) {
        puts(text);
        fflush(stdout);
    }
    free(text);
    cJSON_Delete(json);
}

static cJSON *answer_to(const struct order *order)
{
    cJSON *json = cJSON_CreateObject();
    cJSON_AddNumberToObject(json, "id", order->id);
    return json;
}

static void add_error(cJSON *json, const struct gt_err *error)
{
    if (!error)
        return;
    cJSON_AddStringToObject(json, "error", gt_err_text(error));
    cJSON_AddStringToObject(json, "code", strerrorname_np(gt_err_code(error)));
}

static void add_seconds(cJSON *json, const struct order *order)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    cJSON_AddNumberToObject(json, "seconds",
                            (double)(now.tv_sec - order->start.tv_sec) +
                                (double)(now.tv_nsec - order->start.tv_nsec) / 1e9);
}

static void cancel(struct order *order)
{
    gt_kube_cancel(gt_steal(order->call));
    gt_kube_list_cancel(gt_steal(order->list));
    gt_kube_watch_free(gt_steal(order->watch));
    gt_kube_informer_free(gt_steal(order->informer));
    order->type = ORDER_FREE;
}

static void count_and_cancel(struct order *order)
{
    order->seen++;
    if (order->cancel_after && (int)order->seen == order->cancel_after)
        cancel(order);
}

static void on_answer(void *arg, struct gt_kube_answer *answer)
{
    struct order *order = arg;
    if (order->again) {
        const struct gt_kube_request request = {
            .verb = GT_KUBE_GET, .resource = &gt_kube_configmaps, .namespace_ = "default", .name = "again"};
        order->again--;
        if (gt_kube_start(kube, &request, on_answer, order, &order->call, NULL) == 0)
            return;
    }
    cJSON *json = answer_to(order);
    cJSON_AddNumberToObject(json, "status", answer->status);
    cJSON_AddNumberToObject(json, "tries", answer->tries);
    add_error(json, answer->error);
    add_seconds(json, order);
    if (answer->object && !order->quiet)
        cJSON_AddItemToObject(json, "object", gt_steal(answer->object));
    order->call = NULL;
    order->type = ORDER_FREE;
    say(json);
}

static void say_object(struct order *order, const char *event, cJSON *object)
{
    if (!order->quiet) {
        cJSON *json = answer_to(order);
        cJSON_AddStringToObject(json, "event", event);
        cJSON_AddItemToObject(json, "object", cJSON_Duplicate(object, 1));
        say(json);
    }
    count_and_cancel(order);
}

static void say_event(struct order *order, const char *event, const struct gt_err *error)
{
    cJSON *json = answer_to(order);
    cJSON_AddStringToObject(json, "event", event);
    cJSON_AddNumberToObject(json, "seen", order->seen);
    add_error(json, error);
    add_seconds(json, order);
    say(json);
}

static void on_begin(void *arg)
{
    struct order *order = arg;
    order->began++;
    order->seen = 0;
    say_event(order, "BEGIN", NULL);
}

static void on_object(void *arg, cJSON *object)
{
    say_object(arg, "OBJECT", object);
}

static void on_list_done(void *arg, const char *version, const struct gt_err *error)
{
    struct order *order = arg;
    cJSON *json = answer_to(order);
    cJSON_AddStringToObject(json, "event", "DONE");
    cJSON_AddNumberToObject(json, "seen", order->seen);
    if (version)
        cJSON_AddStringToObject(json, "resourceVersion", version);
    add_error(json, error);
    add_seconds(json, order);
    order->list = NULL;
    order->type = ORDER_FREE;
    say(json);
}

static void on_watch_event(void *arg, enum gt_kube_event_type type, cJSON *object)
{
    static const char *const names[] = {"ADDED", "MODIFIED", "DELETED"};
    say_object(arg, names[type], object);
}

static void on_error(void *arg, const struct gt_err *error)
{
    say_event(arg, "TROUBLE", error);
}

static void on_lost(void *arg, const struct gt_err *error)
{
    struct order *order = arg;
    order->watch = NULL;
    order->type = ORDER_FREE;
    say_event(order, "LOST", error);
}

static void on_add(void *arg, cJSON *object)
{
    say_object(arg, "ADD", object);
}

static void on_update(void *arg, cJSON *object)
{
    say_object(arg, "UPDATE", object);
}

static void on_delete(void *arg, const char *namespace_, const char *name, cJSON *object)
{
    struct order *order = arg;
    cJSON *json = answer_to(order);
    cJSON_AddStringToObject(json, "event", "DELETE");
    cJSON_AddStringToObject(json, "namespace", namespace_);
    cJSON_AddStringToObject(json, "name", name);
    cJSON_AddBoolToObject(json, "known", object != NULL);
    say(json);
    count_and_cancel(order);
}

static void on_synced(void *arg)
{
    say_event(arg, "SYNCED", NULL);
}

static const char *text(const cJSON *json, const char *key)
{
    return cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(json, key));
}

static unsigned number(const cJSON *json, const char *key)
{
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(json, key);
    return cJSON_IsNumber(item) && item->valuedouble > 0 ? (unsigned)item->valuedouble : 0;
}

static bool flag(const cJSON *json, const char *key)
{
    return cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(json, key));
}

/* "GROUP/VERSION/PLURAL" */
static void read_resource(struct order *order, const cJSON *json)
{
    const char *all = text(json, "resource");
    const char *first = all ? strchr(all, '/') : NULL, *second = first ? strchr(first + 1, '/') : NULL;
    if (!second)
        return;
    snprintf(order->group, PART_MAX, "%.*s", (int)(first - all), all);
    snprintf(order->version, PART_MAX, "%.*s", (int)(second - first - 1), first + 1);
    snprintf(order->plural, PART_MAX, "%s", second + 1);
    bool namespaced = text(json, "namespace") || flag(json, "allNamespaces");
    order->resource = (struct gt_kube_resource){order->group, order->version, order->plural, namespaced};
}

static struct gt_kube_selection selection_of(struct order *order, const cJSON *json)
{
    return (struct gt_kube_selection){.resource = &order->resource,
                                      .namespace_ = text(json, "namespace"),
                                      .label_selector = text(json, "labelSelector"),
                                      .field_selector = text(json, "fieldSelector"),
                                      .metadata_only = flag(json, "metadataOnly")};
}

static int start_call(struct order *order, const cJSON *json, enum gt_kube_verb verb, struct gt_err **err)
{
    const cJSON *body = cJSON_GetObjectItemCaseSensitive(json, "body");
    gt_auto_free char *printed = body ? cJSON_PrintUnformatted(body) : NULL;
    const struct gt_kube_request request = {.verb = verb,
                                            .resource = &order->resource,
                                            .namespace_ = text(json, "namespace"),
                                            .name = text(json, "name"),
                                            .subresource = text(json, "subresource"),
                                            .body = printed,
                                            .field_manager = text(json, "manager"),
                                            .force = flag(json, "force"),
                                            .metadata_only = flag(json, "metadataOnly"),
                                            .deadline_ms = flag(json, "forever") ? GT_KUBE_FOREVER
                                                                                 : number(json, "deadlineMs"),
                                            .no_object = flag(json, "noObject"),
                                            .try_ms = number(json, "tryMs"),
                                            .response_max = number(json, "responseMax")};
    order->type = ORDER_CALL;
    return gt_kube_start(kube, &request, on_answer, order, &order->call, err);
}

static int start_list(struct order *order, const cJSON *json, struct gt_err **err)
{
    const struct gt_kube_list_spec spec = {.selection = selection_of(order, json),
                                           .limit = number(json, "limit"),
                                           .page_max = number(json, "pageMax"),
                                           .deadline_ms = number(json, "deadlineMs"),
                                           .on_begin = on_begin,
                                           .on_object = on_object,
                                           .on_done = on_list_done,
                                           .arg = order};
    order->type = ORDER_LIST;
    return gt_kube_list_start(kube, &spec, &order->list, err);
}

static int start_watch(struct order *order, const cJSON *json, struct gt_err **err)
{
    const char *version = text(json, "resourceVersion");
    const struct gt_kube_watch_spec spec = {.selection = selection_of(order, json),
                                            .resource_version = version ? version : "",
                                            .timeout_s = number(json, "timeoutS"),
                                            .line_max = number(json, "lineMax"),
                                            .on_event = on_watch_event,
                                            .on_error = on_error,
                                            .on_lost = on_lost,
                                            .arg = order};
    order->type = ORDER_WATCH;
    return gt_kube_watch_start(kube, &spec, &order->watch, err);
}

static int start_informer(struct order *order, const cJSON *json, struct gt_err **err)
{
    const struct gt_kube_informer_spec spec = {.selection = selection_of(order, json),
                                               .start_jitter_ms = number(json, "jitterMs"),
                                               .objects_max = number(json, "objectsMax"),
                                               .limit = number(json, "limit"),
                                               .page_max = number(json, "pageMax"),
                                               .timeout_s = number(json, "timeoutS"),
                                               .line_max = number(json, "lineMax"),
                                               .on_add = on_add,
                                               .on_update = on_update,
                                               .on_delete = on_delete,
                                               .on_synced = on_synced,
                                               .on_error = on_error,
                                               .arg = order};
    order->type = ORDER_INFORMER;
    return gt_kube_informer_start(kube, &spec, &order->informer, err);
}

/* Creates or renews a lease: "holder", and "resourceVersion" where it is an update. */
static int start_lease(struct order *order, const cJSON *json, struct gt_err **err)
{
    struct gt_lease lease = {.duration_s = 15, .transitions = number(json, "transitions")};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    gt_time_text_fine(&now, 6, lease.renewed);
    gt_time_text_fine(&now, 6, lease.acquired);
    const char *version = text(json, "resourceVersion");
    snprintf(lease.identity, sizeof(lease.identity), "%s", text(json, "holder"));
    snprintf(lease.resource_version, sizeof(lease.resource_version), "%s", version ? version : "");
    gt_auto_buf struct gt_buf body = GT_BUF(4096);
    gt_lease_write(&body, text(json, "namespace"), text(json, "name"), &lease);
    const struct gt_kube_request request = {.verb = version ? GT_KUBE_UPDATE : GT_KUBE_CREATE,
                                            .resource = &gt_kube_leases,
                                            .namespace_ = text(json, "namespace"),
                                            .name = text(json, "name"),
                                            .body = body.data};
    order->type = ORDER_CALL;
    return gt_kube_start(kube, &request, on_answer, order, &order->call, err);
}

static void record(const cJSON *json)
{
    const struct gt_event_object event = {.api_version = text(json, "apiVersion"),
                                          .kind = text(json, "kind"),
                                          .namespace_ = text(json, "namespace"),
                                          .name = text(json, "name"),
                                          .uid = text(json, "uid"),
                                          .warning = flag(json, "warning"),
                                          .reason = text(json, "reason"),
                                          .action = text(json, "action"),
                                          .note = text(json, "note")};
    gt_kube_record(recorder, &event);
}

static void add_watch_counters(cJSON *json, const struct gt_kube_watch_counters *of)
{
    cJSON_AddNumberToObject(json, "connects", (double)of->connects);
    cJSON_AddNumberToObject(json, "events", (double)of->events);
    cJSON_AddNumberToObject(json, "bookmarks", (double)of->bookmarks);
    cJSON_AddNumberToObject(json, "errors", (double)of->errors);
}

/* Of the client, the recorder, and of the order "of" where that follows objects. */
static void say_counters(struct order *order, const cJSON *request)
{
    cJSON *json = answer_to(order);
    struct gt_kube_counters client;
    gt_kube_counters(kube, &client);
    cJSON_AddNumberToObject(json, "requests", (double)client.requests);
    cJSON_AddNumberToObject(json, "retries", (double)client.retries);
    cJSON_AddNumberToObject(json, "throttled", (double)client.throttled);
    cJSON_AddNumberToObject(json, "unauthorized", (double)client.unauthorized);
    cJSON_AddNumberToObject(json, "oversize", (double)client.oversize);
    cJSON_AddNumberToObject(json, "running", client.running);
    cJSON_AddNumberToObject(json, "waiting", client.waiting);
    struct gt_kube_recorder_counters events;
    gt_kube_recorder_counters(recorder, &events);
    cJSON_AddNumberToObject(json, "eventsWritten", (double)events.written);
    cJSON_AddNumberToObject(json, "eventsFailed", (double)events.failed);
    cJSON_AddNumberToObject(json, "eventsRepeated", (double)events.repeated);
    cJSON_AddNumberToObject(json, "eventsDropped", (double)events.dropped);
    const struct order *of = &orders[number(request, "of") % ORDERS_MAX];
    if (of->watch) {
        struct gt_kube_watch_counters counters;
        gt_kube_watch_counters(of->watch, &counters);
        add_watch_counters(json, &counters);
    }
    if (of->informer) {
        struct gt_kube_informer_counters counters;
        gt_kube_informer_counters(of->informer, &counters);
        add_watch_counters(json, &counters.watch);
        cJSON_AddNumberToObject(json, "lists", (double)counters.lists);
        cJSON_AddNumberToObject(json, "refused", (double)counters.refused);
        cJSON_AddNumberToObject(json, "objects", (double)counters.objects);
    }
    say(json);
}

static int obey(struct order *order, const cJSON *json, struct gt_err **err)
{
    static const struct {
        const char *name;
        enum gt_kube_verb verb;
    } verbs[] = {{"get", GT_KUBE_GET},     {"create", GT_KUBE_CREATE},     {"update", GT_KUBE_UPDATE},
                 {"apply", GT_KUBE_APPLY}, {"merge", GT_KUBE_MERGE_PATCH}, {"delete", GT_KUBE_DELETE}};
    const char *what = text(json, "do");
    if (!what)
        return gt_fail(err, EINVAL, "no order");
    for (unsigned i = 0; i < GT_COUNT(verbs); i++)
        if (strcmp(what, verbs[i].name) == 0)
            return start_call(order, json, verbs[i].verb, err);
    if (strcmp(what, "list") == 0)
        return start_list(order, json, err);
    if (strcmp(what, "watch") == 0)
        return start_watch(order, json, err);
    if (strcmp(what, "inform") == 0)
        return start_informer(order, json, err);
    if (strcmp(what, "lease") == 0)
        return start_lease(order, json, err);
    if (strcmp(what, "event") == 0)
        record(json);
    else if (strcmp(what, "counters") == 0)
        say_counters(order, json);
    else if (strcmp(what, "cancel") == 0)
        cancel(&orders[number(json, "of") % ORDERS_MAX]);
    else
        return gt_fail(err, EINVAL, "no order is called %s", what);
    return 0;
}

static bool on_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    cJSON *json = cJSON_ParseWithLength(line, len);
    unsigned id = number(json, "id") % ORDERS_MAX;
    struct order *order = &orders[id];
    cancel(order);
    *order = (struct order){.id = (int)id,
                            .quiet = flag(json, "quiet"),
                            .cancel_after = (int)number(json, "cancelAfter"),
                            .again = (unsigned)number(json, "again")};
    clock_gettime(CLOCK_MONOTONIC, &order->start);
    read_resource(order, json);
    gt_auto_err struct gt_err *error = NULL;
    if (obey(order, json, &error) < 0) {
        cJSON *answer = answer_to(order);
        add_error(answer, error);
        order->type = ORDER_FREE;
        say(answer);
    }
    cJSON_Delete(json);
    return true;
}

static bool on_long_line(void *arg, const char *line, size_t len)
{
    (void)arg;
    (void)line;
    (void)len;
    return false;
}

/* Of no order: the id is 0. */
static void on_oversize(void *arg, const char *object, size_t max)
{
    (void)arg;
    cJSON *json = answer_to(&orders[0]);
    cJSON_AddStringToObject(json, "event", "OVERSIZE");
    cJSON_AddStringToObject(json, "object", object);
    cJSON_AddNumberToObject(json, "max", (double)max);
    say(json);
}

static void on_input(void *arg, uint32_t events)
{
    (void)arg;
    (void)events;
    static char chunk[65536];
    ssize_t n = read(STDIN_FILENO, chunk, sizeof(chunk));
    if (n > 0 && gt_lines_feed(&input, chunk, (size_t)n, NULL) == 0)
        return;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    gt_loop_stop(loop, 0);
}

static int start(int argc, char **argv, struct gt_err **err)
{
    gt_auto_kube_config struct gt_kube_config config = {0};
    int r = -EINVAL;
    if (argc == 3 && strcmp(argv[1], "--kubeconfig") == 0)
        r = gt_kube_config_find(argv[2], NULL, &config, err);
    else if (argc == 3 && strcmp(argv[1], "--pod") == 0)
        r = gt_kube_config_pod(argv[2], &config, err);
    else
        return gt_fail(err, EINVAL, "usage: kube-tool --kubeconfig FILE | --pod DIRECTORY");
    if (r == 0)
        r = gt_loop_new(&loop, err);
    if (r == 0)
        r = gt_kube_new(loop, &config, "kube-tool", &kube, err);
    if (r == 0)
        gt_kube_on_oversize(kube, on_oversize, NULL);
    if (r == 0)
        r = gt_kube_recorder_new(kube, "metax-tech.com/kube-tool", "test", 60, &recorder, err);
    if (r == 0)
        r = gt_loop_add_fd(loop, STDIN_FILENO, EPOLLIN, on_input, NULL, NULL, err);
    return r;
}

int main(int argc, char **argv)
{
    gt_auto_err struct gt_err *error = NULL;
    int r = start(argc, argv, &error);
    if (r == 0)
        r = gt_loop_run(loop, &error);
    if (r < 0)
        fprintf(stderr, "kube-tool: %s\n", gt_err_text(error));
    for (unsigned i = 0; i < ORDERS_MAX; i++)
        cancel(&orders[i]);
    gt_kube_recorder_free(recorder);
    gt_kube_free(kube);
    gt_loop_free(loop);
    gt_lines_reset(&input);
    return r < 0;
}
