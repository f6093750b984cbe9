/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The device plugin alone, for tests: serves the node of a JSON file (docs/node.schema.json) to a kubelet, or
 * to its double, and says on stdout what happens, one JSON object a line.
 *
 *     plugin-host NODE.json KUBELET_DIR DEV_ROOT [DESCRIPTORS [REGISTER_MS [STREAM_MS]]]
 *
 * SIGHUP reads the file again, SIGUSR1 prints the counters, SIGTERM and SIGINT end it. DESCRIPTORS limits the
 * open descriptors (setrlimit), 0 for as many as there are.
 */
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <sys/resource.h>

#include "base/file.h"
#include "base/text.h"
#include "deviceplugin/plugin.h"
#include "tests/unit/loop_signal.h"
#include "topology/model/node_json.h"
#include <cjson/cJSON.h>

struct host {
    struct gt_loop *loop;
    struct gt_plugin *plugin;
    struct gt_class_cache *classes;
    struct gt_inventory *inventory;
    const char *path;
};

static void say(const char *event, const char *key, const char *text)
{
    gt_auto_buf struct gt_buf line = GT_BUF(1 << 20);
    gt_buf_puts(&line, "{\"event\": ");
    gt_text_quote(&line, event);
    if (key) {
        gt_buf_printf(&line, ", \"%s\": ", key);
        gt_text_quote(&line, text);
    }
    gt_buf_puts(&line, "}");
    puts(line.data ? line.data : "{}");
}

static void say_ids(const char *event, const char *ids, const char *error, const struct gt_choice *choice)
{
    gt_auto_buf struct gt_buf line = GT_BUF(1 << 20);
    gt_auto_free char *copy = strdup(ids);
    char *rest = copy && *copy ? copy : NULL;
    gt_buf_printf(&line, "{\"event\": \"%s\", \"ids\": [", event);
    for (const char *id; (id = strsep(&rest, ","));) {
        gt_buf_puts(&line, id != copy ? ", " : "");
        gt_text_quote(&line, id);
    }
    gt_buf_puts(&line, "]");
    if (error) {
        gt_buf_puts(&line, ", \"error\": ");
        gt_text_quote(&line, error);
    }
    if (choice)
        gt_buf_printf(&line, ", \"mask\": %" PRIu64 ", \"score\": %u, \"loss\": %u", choice->mask,
                      choice->score, choice->loss);
    gt_buf_puts(&line, "}");
    puts(line.data ? line.data : "{}");
}

static void on_registered(void *arg)
{
    (void)arg;
    say("registered", NULL, NULL);
}

static void on_failed(void *arg, const char *why, unsigned retry_ms)
{
    (void)arg;
    (void)retry_ms;
    say("failed", "why", why);
}

static void on_stream_ended(void *arg)
{
    (void)arg;
    say("stream ended", NULL, NULL);
}

static void on_allocated(void *arg, const struct gt_allocation *allocation)
{
    (void)arg;
    say_ids("allocated", allocation->ids, allocation->error, NULL);
}

static void on_preferred(void *arg, const struct gt_preference *preference)
{
    (void)arg;
    say_ids("preferred", preference->ids, NULL, &preference->choice);
}

static int read_node(struct host *host, struct gt_err **err)
{
    gt_auto_free char *text = NULL;
    size_t len;
    cJSON *json = NULL;
    gt_auto_node struct gt_node *node = NULL;
    struct gt_inventory *next = NULL;
    int r = gt_file_read(AT_FDCWD, host->path, GT_JSON_MAX, &text, &len, err);
    if (r == 0)
        r = gt_json_parse(text, len, host->path, &json, err);
    if (r == 0)
        r = gt_node_from_json(json, host->path, &node, err);
    cJSON_Delete(json);
    if (r == 0)
        r = gt_inventory_next(node, host->classes, host->inventory, NULL, 0, &next, err);
    if (r < 0)
        return r;
    gt_inventory_unref(host->inventory);
    host->inventory = next;
    gt_plugin_publish(host->plugin, next);
    say("published", NULL, NULL);
    return 0;
}

static void on_hangup(void *arg, int signal)
{
    gt_auto_err struct gt_err *err = NULL;
    (void)signal;
    if (read_node(arg, &err) < 0)
        say("unreadable", "why", gt_err_text(err));
}

static void on_end(void *arg, int signal)
{
    struct host *host = arg;
    (void)signal;
    gt_loop_stop(host->loop, 0);
}

static void on_stats(void *arg, int signal)
{
    struct host *host = arg;
    struct gt_plugin_stats s;
    (void)signal;
    gt_plugin_stats(host->plugin, &s);
    printf("{\"event\": \"stats\", \"registered\": %d, \"streaming\": %d, \"registrations\": %" PRIu64
           ", \"failures\": %" PRIu64 ", \"allocations\": %" PRIu64 ", \"allocationErrors\": %" PRIu64
           ", \"allocateUs\": %" PRIu64 ", \"preferUs\": %" PRIu64 "}\n",
           s.registration.registered, s.registration.streaming, s.registration.registrations,
           s.registration.registration_failures, s.allocations, s.allocation_errors, s.allocate.sum_us,
           s.prefer.sum_us);
}

static unsigned argument(int argc, char **argv, int i)
{
    uint64_t number = 0;
    if (argc > i && !gt_text_to_unsigned(argv[i], 1000000, &number))
        fprintf(stderr, "%s is no number\n", argv[i]);
    return (unsigned)number;
}

static int run(struct host *host, const struct gt_plugin_options *options, struct gt_err **err)
{
    const struct gt_plugin_events events = {on_registered, on_failed,    on_stream_ended,
                                            on_allocated,  on_preferred, host};
    int r = gt_loop_new(&host->loop, err);
    if (r == 0)
        r = test_watch_signal(host->loop, SIGHUP, on_hangup, host, err);
    if (r == 0)
        r = test_watch_signal(host->loop, SIGUSR1, on_stats, host, err);
    if (r == 0)
        r = test_watch_signal(host->loop, SIGTERM, on_end, host, err);
    if (r == 0)
        r = test_watch_signal(host->loop, SIGINT, on_end, host, err);
    if (r == 0)
        r = gt_class_cache_new(8, &host->classes, err);
    if (r == 0)
        r = gt_plugin_new(host->loop, options, &events, &host->plugin, err);
    if (r == 0)
        r = read_node(host, err);
    if (r == 0)
        r = gt_loop_run(host->loop, err);
    return r;
}

int main(int argc, char **argv)
{
    if (argc < 4) {
        fprintf(stderr, "usage: plugin-host NODE.json KUBELET_DIR DEV_ROOT [DESCRIPTORS [REGISTER_MS "
                        "[STREAM_MS [CHECK_MS]]]]\n");
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    unsigned descriptors = argument(argc, argv, 4);
    struct rlimit limit = {descriptors, descriptors};
    if (descriptors && setrlimit(RLIMIT_NOFILE, &limit) < 0)
        return 1;
    struct host host = {.path = argv[1]};
    const struct gt_plugin_options options = {.resource = "metax-tech.com/gpu",
                                              .kubelet_dir = argv[2],
                                              .dev_root = argv[3],
                                              .register_timeout_ms = argument(argc, argv, 5),
                                              .stream_timeout_ms = argument(argc, argv, 6),
                                              .check_ms = argument(argc, argv, 7)};
    gt_auto_err struct gt_err *err = NULL;
    int r = run(&host, &options, &err);
    gt_plugin_free(host.plugin);
    gt_inventory_unref(host.inventory);
    gt_class_cache_free(host.classes);
    gt_loop_free(host.loop);
    if (r < 0)
        fprintf(stderr, "plugin-host: %s\n", gt_err_text(err));
    else
        say("ended", NULL, NULL);
    return r < 0 ? 1 : 0;
}
