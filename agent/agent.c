/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <time.h>

#include "agent/agent_private.h"
#include "agent/changes.h"
#include "agent/fault_file.h"
#include "agent/options.h"
#include "api/names.h"
#include "base/file.h"
#include "base/log.h"
#include "base/options.h"
#include "base/process.h"
#include "base/shutdown.h"
#include "base/version.h"
#include "topology/model/render.h"
#include "topology/probe/client.h"

static bool probe_start_is_socket(const char *path)
{
    struct stat status;
    size_t len = strlen(path);
    if (stat(path, &status) == 0)
        return S_ISSOCK(status.st_mode);
    /* The probe's container may come up later. */
    return len > 5 && strcmp(path + len - 5, ".sock") == 0;
}

/*
 * Starts gputopo-probe, or connects to it, as --probe says. *ret is NULL if there is none; *ret_why then says
 * why. A program that was named and cannot be run is an error; the default one may be missing.
 */
static int gt_probe_start(const struct gt_agent_options *options, struct gt_probe_client **ret,
                          const char **ret_why, struct gt_err **err)
{
    char beside[PATH_MAX];
    const char *program = options->probe;
    const char *root = options->root ? options->root : "/";
    *ret = NULL;
    if (options->from) {
        *ret_why = "a recording is replayed";
        return 0;
    }
    if (program && strcmp(program, "none") == 0) {
        *ret_why = "switched off by --probe none";
        return 0;
    }
    if (program && probe_start_is_socket(program)) {
        GT_TRY(gt_probe_client_new(program, ret, err));
        gt_probe_client_patience(*ret, (int)options->probe_patience_s * 1000);
        return 0;
    }
    if (!program) {
        if (!gt_file_beside_program("gputopo-probe", beside, sizeof(beside))) {
            *ret_why = "gputopo-probe is not installed beside gputopo-agent";
            return 0;
        }
        program = beside;
    } else if (access(program, X_OK) < 0)
        return gt_fail_sys(err, errno, "--probe %s", program);
    return gt_probe_client_spawn(program, root, false, ret, err);
}

/* The process ends within two seconds; a scan that hangs is abandoned before that, with a log line. */
enum { AGENT_END_MS = 1700, STOP_MS = 1000, FIRST_AGAIN_MS = 5000 };

static void agent_log_start(struct gt_agent *agent)
{
    const struct gt_agent_options *options = agent->options;
    gt_info(GT_AGENT_NAME " started", GT_STR("version", gt_version), GT_STR("commit", gt_commit),
            GT_STR("node", options->node_name), GT_STR("from", options->from ? options->from : "live"),
            GT_STR("http", options->http ? options->http : "none"),
            GT_STR("probe", agent->probe ? "yes" : agent->no_probe_why),
            GT_STR("publish", gt_agent_api_state(agent)));
    gt_agent_api_complain(agent);
}

/* For a recording or a root that cannot be read, that error is the only output. */
static bool must_be_read(const struct gt_agent_options *options)
{
    return options->from || options->root;
}

static void arm_timers(struct gt_agent *agent, const struct gt_scan_result *result)
{
    const struct gt_agent_options *options = agent->options;
    /* A file is read again on SIGHUP. */
    if (options->rescan_s && !result->health_check && !options->from)
        gt_source_arm(agent->rescan_timer, (uint64_t)options->rescan_s * 1000);
    if (options->health_s)
        gt_source_arm(agent->health_timer, (uint64_t)options->health_s * 1000);
}

static void on_change(void *arg, bool warning, const char *reason, const char *note)
{
    gt_agent_record_event(arg, warning, reason, "%s", note);
}

/* Serves this inventory from now on; takes the reference. */
static void agent_serve(struct gt_agent *agent, struct gt_inventory *inventory)
{
    bool first = !agent->inventory;
    if (first && must_be_read(agent->options))
        agent_log_start(agent);
    gt_inventory_unref(agent->scanned);
    agent->scanned = gt_inventory_ref(inventory);
    inventory = gt_agent_dra_check(agent, gt_agent_cdi_check(agent, inventory));
    gt_changes_log(agent->inventory, inventory, on_change, agent);
    gt_inventory_unref(agent->inventory);
    agent->inventory = inventory;
    if (agent->plugin)
        gt_plugin_publish(agent->plugin, inventory);
    if (agent->nodes_plugin)
        gt_nodes_plugin_set(agent->nodes_plugin, inventory->node);
    gt_usage_inventory(agent->usage, inventory);
    gt_agent_dra_used(agent);
    gt_agent_publish_changed(agent->publish);
    gt_debug("scanned");
}

static void on_cdi_timer(void *arg)
{
    struct gt_agent *agent = arg;
    if (gt_agent_cdi_timer(agent))
        agent_serve(agent, gt_inventory_ref(agent->scanned));
}

/* A claim was prepared, or given back. */
static void on_dra_changed(void *arg)
{
    struct gt_agent *agent = arg;
    gt_usage_claims(agent->usage, gt_dra_claims(agent->dra));
    gt_agent_dra_used(agent);
    if (agent->scanned && !agent->dra_offers)
        agent_serve(agent, gt_inventory_ref(agent->scanned));
}

static void on_scan(void *arg, const struct gt_scan_result *result)
{
    struct gt_agent *agent = arg;
    struct timespec now;
    if (result->bare) {
        gt_nodes_plugin_set(agent->nodes_plugin, result->node);
        gt_node_unref(result->node);
        return;
    }
    if (result->inventory && !result->relabelled)
        agent->early = result->early;
    if (result->relabelled)
        agent_serve(agent, result->inventory);
    if (result->ids_only)
        return;
    agent->scans.health_checks += result->health_check;
    agent->health_counts = result->health;
    if (result->err && !agent->inventory && must_be_read(agent->options)) {
        gt_fail(&agent->start_error, gt_err_code(result->err), "%s", gt_err_text(result->err));
        gt_loop_stop(agent->loop, -EIO);
        return;
    }
    if (result->err) {
        agent->scans.failed++;
        gt_log(gt_log_level_of(agent->scan_error, sizeof(agent->scan_error), gt_err_text(result->err)),
               "scan failed, the state before is kept", GT_STR("why", agent->scan_error));
        gt_agent_publish_changed(agent->publish);
    } else if (result->inventory && result->checked) {
        agent_serve(agent, result->inventory);
    } else if (result->inventory && !result->relabelled) {
        agent->scans.done++;
        gt_scan_counts_add(&agent->scans, result->seconds);
        clock_gettime(CLOCK_REALTIME, &now);
        agent->scans.last_s = (double)now.tv_sec + (double)now.tv_nsec / 1e9;
        agent->scan_error[0] = '\0';
        agent_serve(agent, result->inventory);
    }
    if (agent->republish)
        gt_agent_publish_refresh(agent->publish);
    agent->republish = false;
    gt_agent_events_resume(agent);
    arm_timers(agent, result);
    if (!agent->inventory)
        gt_source_arm(agent->rescan_timer,
                      FIRST_AGAIN_MS); /* nothing is known: scan soon, whatever the interval */
}

static void on_rescan(void *arg)
{
    struct gt_agent *agent = arg;
    gt_agent_configz_ask(agent);
    gt_scanner_request(agent->scanner, GT_SCAN_FULL);
}

static void agent_on_health(void *arg)
{
    struct gt_agent *agent = arg;
    gt_scanner_request(agent->scanner, GT_SCAN_HEALTH);
}

static int read_faults(const struct gt_agent_options *options, struct gt_fault_table *ret,
                       struct gt_err **err)
{
    if (options->fault_table)
        return gt_fault_file_read(options->fault_table, ret, err);
    *ret = gt_fault_table_default;
    return 0;
}

static void read_faults_again(struct gt_agent *agent)
{
    gt_auto_err struct gt_err *err = NULL;
    if (read_faults(agent->options, &agent->faults, &err) < 0)
        gt_warning("fault table refused, the one before stays", GT_STR("why", gt_err_text(err)));
    else if (agent->scanner)
        gt_scanner_faults(agent->scanner, &agent->faults);
}

static void on_hangup(void *arg, uint32_t events)
{
    struct gt_agent *agent = arg;
    struct signalfd_siginfo info;
    (void)events;
    if (read(agent->hangup, &info, sizeof(info)) < 0)
        return;
    agent->scan_error[0] = '\0'; /* the next failure is logged, also with the same text */
    gt_info("scanning again as asked");
    read_faults_again(agent);
    agent->told_by_files.damper.count = agent->told_by_node.damper.count = 0; /* nothing is held back */
    gt_agent_shares_check(agent);
    gt_agent_configz_ask(agent);
    gt_scanner_request(agent->scanner, GT_SCAN_FULL | GT_SCAN_AT_ONCE);
    agent->republish = true;
}

static void agent_on_end(void *arg, int signal)
{
    struct gt_agent *agent = arg;
    gt_info("shutting down", GT_STR("signal", signal == SIGTERM ? "SIGTERM" : "SIGINT"));
    gt_loop_stop(agent->loop, 0);
}

/* Before any thread starts: the others inherit the blocked signals. */
static int agent_block_signals(struct gt_agent *agent, struct gt_err **err)
{
    sigset_t hangup;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&hangup);
    sigaddset(&hangup, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &hangup, NULL);
    agent->hangup = signalfd(-1, &hangup, SFD_CLOEXEC | SFD_NONBLOCK);
    if (agent->hangup < 0)
        return gt_fail_sys(err, errno, "SIGHUP");
    GT_TRY(gt_loop_add_fd(agent->loop, agent->hangup, POLLIN, on_hangup, agent, NULL, err));
    return gt_shutdown_new(agent->loop, AGENT_END_MS, agent_on_end, agent, &agent->shutdown, err);
}

static struct gt_scan_options scan_options(const struct gt_agent_options *options,
                                           const struct gt_fault_table *faults, struct gt_probe_client *probe,
                                           const char *no_probe_why)
{
    return (struct gt_scan_options){
        .root = options->root,
        .from = options->from,
        .needs_devices = true,
        .vendor = options->vendor,
        .node_name = options->node_name,
        .probe = probe,
        .no_probe_why = no_probe_why,
        .dev_root = options->device_plugin ? options->dev_root : NULL,
        .faults = faults,
    };
}

static int start_plugin(struct gt_agent *agent, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    struct gt_plugin_options plugin = {
        .resource = options->resource,
        .kubelet_dir = options->kubelet_dir,
        .dev_root = options->dev_root,
        .honour_plans = options->honour_plan,
        .strategy = options->strategy,
        .cdi = agent->cdi,
    };
    struct gt_plugin_events events = gt_agent_plugin_events(agent);
    bool is_plugin = options->device_plugin && options->advertise == GT_ADVERTISE_PLUGIN;
    return is_plugin ? gt_plugin_new(agent->loop, &plugin, &events, &agent->plugin, err) : 0;
}

/* The order matters: signals and the environment before threads, the probe before gRPC. */
static int agent_start(struct gt_agent *agent, struct gt_err **err)
{
    const struct gt_agent_options *options = agent->options;
    GT_TRY(read_faults(options, &agent->faults, err));
    GT_TRY(gt_loop_new(&agent->loop, err));
    GT_TRY(agent_block_signals(agent, err));
    GT_TRY(gt_loop_add_timer(agent->loop, on_rescan, agent, &agent->rescan_timer, err));
    GT_TRY(gt_loop_add_timer(agent->loop, agent_on_health, agent, &agent->health_timer, err));
    if (options->http)
        GT_TRY(gt_http_new(agent->loop, options->http, gt_agent_serve, agent, &agent->http, err));
    if (options->health)
        GT_TRY(gt_http_new_health(agent->loop, options->health, gt_agent_serve_health, agent, &agent->health,
                                  err));
    GT_TRY(gt_probe_start(options, &agent->probe, &agent->no_probe_why, err));
    struct gt_scanner_options scanner = {
        .stale_links_s = options->stale_links_s,
        .kubelet_config = options->kubelet_config,
        .kubelet_dir = options->device_plugin ? options->kubelet_dir : NULL,
        .scan = scan_options(options, &agent->faults, agent->probe, agent->no_probe_why),
    };
    gt_scan_prepare(&scanner.scan);
    GT_TRY(gt_agent_cdi_start(agent, on_cdi_timer, err));
    GT_TRY(start_plugin(agent, err));
    GT_TRY(gt_agent_dra_start(agent, on_dra_changed, err));
    GT_TRY(gt_agent_nodes_start(agent, err));
    GT_TRY(gt_agent_events_start(agent, err));
    GT_TRY(gt_agent_api_start(agent, err));
    GT_TRY(gt_scanner_new(agent->loop, &scanner, on_scan, agent, &agent->scanner, err));
    GT_TRY(gt_agent_isolation_start(agent, err));
    GT_TRY(gt_agent_admit_start(agent, err));
    if (!must_be_read(options))
        agent_log_start(agent);
    return gt_agent_usage_start(agent, err); /* and the first scan follows */
}

static void agent_stop(struct gt_agent *agent, int result)
{
    gt_shutdown_begin(agent->shutdown, result < 0 ? 1 : 0);
    gt_agent_api_stop(agent);
    gt_agent_isolation_stop(agent);
    gt_agent_admit_stop(agent);
    gt_agent_usage_stop(agent);
    gt_agent_dra_stop(agent);
    gt_plugin_free(agent->plugin);
    gt_cdi_free(agent->cdi);
    gt_nodes_plugin_free(agent->nodes_plugin);
    gt_http_free(agent->health);
    gt_http_free(agent->http);
    gt_agent_events_stop(agent);
    if (!gt_scanner_stop(agent->scanner, STOP_MS)) {
        /* The scan thread hangs in the vendor library's probe, which ends with us. */
        gt_warning("a scan does not end, leaving without it");
        _exit(result < 0 ? 1 : 0);
    }
    gt_probe_client_free(agent->probe);
    gt_inventory_unref(agent->inventory);
    gt_inventory_unref(agent->scanned);
    gt_err_free(agent->start_error);
    gt_shutdown_free(agent->shutdown);
    gt_loop_free(agent->loop);
    if (agent->hangup >= 0)
        close(agent->hangup);
}

/* Until a signal ends it. An error means that it could not start. */
static int agent_run(const struct gt_agent_options *options, struct gt_err **err)
{
    struct gt_agent agent = {.options = options, .hangup = -1};
    int r = agent_start(&agent, err);
    if (r >= 0)
        r = gt_loop_run(agent.loop, err);
    if (agent.start_error)
        r = gt_fail(err, gt_err_code(agent.start_error), "%s", gt_err_text(agent.start_error));
    agent_stop(&agent, r);
    return r;
}

/* All of it, or an error. */
static int agent_print(struct gt_buf *text, const char *what, struct gt_err **err)
{
    GT_TRY(gt_buf_check(text, what, err));
    if (fwrite(text->data, 1, text->len, stdout) != text->len || fflush(stdout) != 0)
        return gt_fail_sys(err, errno, "standard output");
    return 0;
}

/* --print-fault-table: what the options select, as YAML on stdout. */
static int agent_print_fault_table(const struct gt_agent_options *options, struct gt_err **err)
{
    gt_auto_buf struct gt_buf text = GT_BUF(64 << 10);
    struct gt_fault_table faults;
    GT_TRY(read_faults(options, &faults, err));
    gt_fault_text_write(&faults, &text);
    return agent_print(&text, "the fault table", err);
}

/* --oneshot: one scan, the node as JSON on stdout. */
static int agent_oneshot(const struct gt_agent_options *options, struct gt_err **err)
{
    gt_auto_probe_client struct gt_probe_client *probe = NULL;
    gt_auto_node struct gt_node *node = NULL;
    gt_auto_buf struct gt_buf json = GT_BUF(16 << 20);
    const char *no_probe_why = NULL;
    struct gt_fault_table faults;
    GT_TRY(read_faults(options, &faults, err));
    GT_TRY(gt_probe_start(options, &probe, &no_probe_why, err));
    struct gt_scan_options scan = scan_options(options, &faults, probe, no_probe_why);
    if (options->from) /* of another machine: /dev here is not its own */
        scan.dev_root = NULL;
    GT_TRY(gt_scan(&scan, &node, NULL, err));
    gt_render_json(node, &json);
    return agent_print(&json, "the node as JSON", err);
}

static const char program[] = GT_AGENT_NAME;

/* HTTP, gRPC, the API server, the probe, and a scan: about 60 where all are busy. */
enum { AGENT_DESCRIPTORS = 128 };

static int agent_main_run(const void *arg, struct gt_err **err)
{
    const struct gt_agent_options *options = arg;
    return options->print_fault_table ? agent_print_fault_table(options, err)
           : options->oneshot         ? agent_oneshot(options, err)
                                      : agent_run(options, err);
}

int main(int argc, char **argv)
{
    static struct gt_agent_options options;
    gt_auto_err struct gt_err *err = NULL;
    if (gt_agent_options_read(argc, argv, getenv("NODE_NAME"), &options, &err) < 0)
        return gt_exit_with(program, err, GT_EXIT_USAGE);
    if (options.help)
        return gt_exit_with_help(&gt_agent_command);
    if (options.version)
        return gt_exit_with_version(program);
    gt_log_setup(options.log_level, options.log_format);
    return gt_process_run(program, AGENT_DESCRIPTORS, agent_main_run, &options);
}
