/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/options.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/options.h"
#include "http/http.h"

enum { SECONDS_MAX = 86400, PATIENCE_MAX = 60 };

enum option_key {
    OPTION_FROM = 256,
    OPTION_ROOT,
    OPTION_DEV_ROOT,
    OPTION_KUBELET_DIR,
    OPTION_RESOURCE,
    OPTION_STRATEGY,
    OPTION_CDI_DIR,
    OPTION_VENDOR,
    OPTION_NODE_NAME,
    OPTION_PROBE,
    OPTION_PROBE_RESOURCE,
    OPTION_PROBE_PATIENCE,
    OPTION_HTTP,
    OPTION_HEALTH,
    OPTION_RESCAN,
    OPTION_STALE_LINKS,
    OPTION_HEALTH_INTERVAL,
    OPTION_FAULT_TABLE,
    OPTION_PRINT_FAULT_TABLE,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT,
    OPTION_NO_DEVICE_PLUGIN,
    OPTION_HONOUR_PLAN,
    OPTION_KUBECONFIG,
    OPTION_HEARTBEAT,
    OPTION_PUBLISH,
    OPTION_NO_PUBLISH,
    OPTION_ONESHOT,
    OPTION_HELP,
    OPTION_VERSION,
};

/* One table for the parser and for --help. */
static const struct gt_option table[] = {
    {"from", "FILE", "read the node from a recording, an hwloc XML file or a recorded sysfs tree",
     OPTION_FROM},
    {"root", "DIR", "where sys/, proc/ and opt/ are read (/)", OPTION_ROOT},
    {"dev-root", "DIR", "where the host's device nodes are taken from (/dev)", OPTION_DEV_ROOT},
    {"kubelet-dir", "DIR", "the kubelet's directory, may appear later (/var/lib/kubelet)",
     OPTION_KUBELET_DIR},
    {"resource", "NAME", "the extended resource to advertise (metax-tech.com/gpu)", OPTION_RESOURCE},
    {"device-strategy", "HOW", "containers get GPUs as devices, cdi (names) or both (devices)",
     OPTION_STRATEGY},
    {"cdi-dir", "DIR", "where the CDI spec is written (/var/run/cdi)", OPTION_CDI_DIR},
    {"vendor", "ID", "PCI vendor of the GPUs, hexadecimal (9999, or the recording's)", OPTION_VENDOR},
    {"node-name", "NAME", "the node's name ($NODE_NAME, else the host's name)", OPTION_NODE_NAME},
    {"probe", "WHAT", "gputopo-probe: a program, a socket or none (the program beside this one)",
     OPTION_PROBE},
    {"probe-resource", "NAME", "a second resource, one on each node: the device nodes of all GPUs (none)",
     OPTION_PROBE_RESOURCE},
    {"probe-patience", "SECONDS", "the first scan waits so long for the probe's socket (5)",
     OPTION_PROBE_PATIENCE},
    {"http", "ADDRESS:PORT", "health and metrics, or none (127.0.0.1:9400)", OPTION_HTTP},
    {"health", "ADDRESS:PORT", "health alone, where nothing else can fill the listener, or none (none)",
     OPTION_HEALTH},
    {"rescan-interval", "SECONDS", "a whole scan at least this often, 0 never (300)", OPTION_RESCAN},
    {"stale-links", "SECONDS", "keeps direct links so long while the vendor library is silent, 0 not (1800)",
     OPTION_STALE_LINKS},
    {"health-interval", "SECONDS", "looks at the health of the GPUs this often, 0 never (5)",
     OPTION_HEALTH_INTERVAL},
    {"fault-table", "FILE", "which signals make a GPU unhealthy, and when; YAML (built in)",
     OPTION_FAULT_TABLE},
    {"print-fault-table", NULL, "print the fault table in force and end", OPTION_PRINT_FAULT_TABLE},
    {"log-level", "LEVEL", "error, warning, info or debug (info)", OPTION_LOG_LEVEL},
    {"log-format", "FORMAT", "text or json (text)", OPTION_LOG_FORMAT},
    {"no-device-plugin", NULL, "advertise no GPUs to the kubelet", OPTION_NO_DEVICE_PLUGIN},
    {"honour-plan", "=false", "do not give containers the GPUs that were planned for them",
     OPTION_HONOUR_PLAN},
    {"kubeconfig", "FILE", "publish to this API server (the pod's, where this is a pod)", OPTION_KUBECONFIG},
    {"heartbeat", "SECONDS", "publish again at least this often, plus or minus a fifth (300)",
     OPTION_HEARTBEAT},
    {"publish", "WHAT", "all, annotations (and labels of the Node alone) or none (all)", OPTION_PUBLISH},
    {"no-publish", NULL, "the same as --publish=none", OPTION_NO_PUBLISH},
    {"oneshot", NULL, "scan once, print the node as JSON and end", OPTION_ONESHOT},
    {"help", NULL, "print this", OPTION_HELP},
    {"version", NULL, "print the version", OPTION_VERSION},
};

void gt_agent_options_help(struct gt_buf *to)
{
    gt_buf_puts(to,
                "Usage: gputopo-agent [OPTION]...\n"
                "The node's daemon of gputopo: discovers the wiring of the GPUs and advertises them to the "
                "kubelet.\n\n");
    gt_options_help(table, GT_COUNT(table), 27, to);
    gt_buf_puts(to, "\nSIGHUP scans again (and reads both FILEs again), SIGTERM and SIGINT end the agent.\n"
                    "Exit code: 0 done, 1 failed, 2 wrong usage.\n");
}

static int read_vendor(const char *text, unsigned *ret, struct gt_err **err)
{
    const char *digits = strncasecmp(text, "0x", 2) == 0 ? text + 2 : text;
    size_t len = strlen(digits);
    if (!len || len > 4 || strspn(digits, "0123456789abcdefABCDEF") != len)
        return gt_fail(err, EINVAL,
                       "--vendor: \"%.40s\" is not a PCI vendor id of up to 4 hexadecimal digits", text);
    unsigned value = (unsigned)strtoul(digits, NULL, 16);
    if (!value || value == 0xffff)
        return gt_fail(err, EINVAL, "--vendor: %.40s is no vendor", text);
    *ret = value;
    return 0;
}

/* "domain/name", as the kubelet takes extended resources. */
static int check_resource(const char *option, const char *text, struct gt_err **err)
{
    if (!strchr(text, '/') || !gt_option_is_qualified_name(text))
        return gt_fail(err, EINVAL, "--%s: \"%.80s\" is not of the form domain/name", option, text);
    return 0;
}

static int check_node_name(const char *text, const char *where, struct gt_err **err)
{
    if (strlen(text) > 253 || !gt_option_is_name(text, strlen(text), "-._"))
        return gt_fail(err, EINVAL, "%s: \"%.80s\" is no name of a node", where, text);
    return 0;
}

static int take_option(void *arg, int key, const char *name, const char *value, struct gt_err **err)
{
    static const char *const what[] = {
        [GT_PUBLISH_NOTHING] = "none", [GT_PUBLISH_NODE_ONLY] = "annotations", [GT_PUBLISH_ALL] = "all"};
    static const char *const strategies[] = {
        [GT_STRATEGY_DEVICES] = "devices", [GT_STRATEGY_CDI] = "cdi", [GT_STRATEGY_BOTH] = "both"};
    struct gt_agent_options *to = arg;
    unsigned word = 0;
    int r = 0;
    switch ((enum option_key)key) {
    case OPTION_FROM:
        return gt_option_text(name, value, &to->from, err);
    case OPTION_ROOT:
        return gt_option_text(name, value, &to->root, err);
    case OPTION_DEV_ROOT:
        return gt_option_text(name, value, &to->dev_root, err);
    case OPTION_KUBELET_DIR:
        return gt_option_text(name, value, &to->kubelet_dir, err);
    case OPTION_RESOURCE:
        to->resource = value;
        return check_resource(name, value, err);
    case OPTION_STRATEGY:
        r = gt_option_word(name, value, strategies, GT_COUNT(strategies), "devices, cdi, both", &word, err);
        to->strategy = (enum gt_device_strategy)word;
        return r;
    case OPTION_CDI_DIR:
        return gt_option_text(name, value, &to->cdi_dir, err);
    case OPTION_VENDOR:
        return read_vendor(value, &to->vendor, err);
    case OPTION_NODE_NAME:
        to->node_name = value;
        return check_node_name(value, "--node-name", err);
    case OPTION_PROBE:
        return gt_option_text(name, value, &to->probe, err);
    case OPTION_PROBE_RESOURCE:
        to->probe_resource = strcmp(value, "none") == 0 ? NULL : value;
        return to->probe_resource ? check_resource(name, value, err) : 0;
    case OPTION_PROBE_PATIENCE:
        return gt_option_number(name, value, 0, PATIENCE_MAX, &to->probe_patience_s, err);
    case OPTION_HTTP:
        return gt_http_option(name, value, &to->http, err);
    case OPTION_RESCAN:
        return gt_option_number(name, value, 0, SECONDS_MAX, &to->rescan_s, err);
    case OPTION_STALE_LINKS:
        return gt_option_number(name, value, 0, SECONDS_MAX, &to->stale_links_s, err);
    case OPTION_HEALTH:
        return gt_http_option(name, value, &to->health, err);
    case OPTION_HEALTH_INTERVAL:
        return gt_option_number(name, value, 0, SECONDS_MAX, &to->health_s, err);
    case OPTION_FAULT_TABLE:
        return gt_option_text(name, value, &to->fault_table, err);
    case OPTION_PRINT_FAULT_TABLE:
        to->print_fault_table = true;
        return 0;
    case OPTION_LOG_LEVEL:
        return gt_option_log_level(name, value, &to->log_level, err);
    case OPTION_LOG_FORMAT:
        return gt_option_log_format(name, value, &to->log_format, err);
    case OPTION_NO_DEVICE_PLUGIN:
        to->device_plugin = false;
        return 0;
    case OPTION_HONOUR_PLAN:
        return gt_option_bool(name, *value ? value : "true", &to->honour_plan, err);
    case OPTION_KUBECONFIG:
        return gt_option_text(name, value, &to->kubeconfig, err);
    case OPTION_HEARTBEAT:
        return gt_option_number(name, value, 1, SECONDS_MAX, &to->heartbeat_s, err);
    case OPTION_PUBLISH:
        r = gt_option_word(name, value, what, GT_COUNT(what), "all, annotations, none", &word, err);
        to->publish = (enum gt_publish_what)word;
        return r;
    case OPTION_NO_PUBLISH:
        to->publish = GT_PUBLISH_NOTHING;
        return 0;
    case OPTION_ONESHOT:
        to->oneshot = true;
        return 0;
    case OPTION_HELP:
        to->help = true;
        return 0;
    case OPTION_VERSION:
        to->version = true;
        return 0;
    }
    return gt_fail(err, EINVAL, "--%s: unknown option", name);
}

/* Fills the node's name from what is there. */
static int default_node_name(const char *environment_node, struct gt_agent_options *options,
                             struct gt_err **err)
{
    if (options->node_name)
        return 0;
    if (environment_node && *environment_node) {
        options->node_name = environment_node;
        return check_node_name(environment_node, "$NODE_NAME", err);
    }
    if (gethostname(options->host_name, sizeof(options->host_name) - 1) < 0)
        return gt_fail_sys(err, errno, "the host's name");
    for (char *c = options->host_name; *c; c++) /* as the kubelet does */
        *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
    /* node_name is set by the caller: host_name moves with the struct */
    return check_node_name(options->host_name, "the host's name", err);
}

int gt_agent_options_read(int argc, char **argv, const char *environment_node, struct gt_agent_options *ret,
                          struct gt_err **err)
{
    struct gt_agent_options options = {
        .dev_root = "/dev",
        .kubelet_dir = "/var/lib/kubelet",
        .resource = GT_RESOURCE_GPU,
        .cdi_dir = "/var/run/cdi",
        .http = "127.0.0.1:9400",
        .rescan_s = 300,
        .stale_links_s = 1800,
        .health_s = 5,
        .heartbeat_s = 300,
        .probe_patience_s = 5,
        .log_level = GT_LOG_INFO,
        .log_format = GT_LOG_TEXT,
        .device_plugin = true,
        .honour_plan = true,
        .publish = GT_PUBLISH_ALL,
    };
    int r = gt_options_read(table, GT_COUNT(table), argc, argv, take_option, &options, err);
    if (r >= 0 && options.probe_resource && strcmp(options.probe_resource, options.resource) == 0)
        return gt_fail(err, EINVAL, "--probe-resource: %s is the resource of the GPUs", options.resource);
    if (r >= 0 && options.strategy != GT_STRATEGY_DEVICES) {
        const struct gt_cdi_options cdi = {options.cdi_dir, options.resource, options.dev_root};
        r = gt_cdi_check(&cdi, err);
        if (r < 0)
            return gt_wrap(err, "--device-strategy");
    }
    if (r >= 0)
        r = default_node_name(environment_node, &options, err);
    if (r < 0)
        return r;
    *ret = options;
    if (!ret->node_name)
        ret->node_name = ret->host_name;
    return 0;
}
