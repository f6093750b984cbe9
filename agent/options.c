/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/options.h"

#include <errno.h>
#include <string.h>

#include "api/names.h"
#include "base/options.h"
#include "http/http.h"

enum { SECONDS_MAX = 86400, PATIENCE_MAX = 60 };

#define AGENT_FIELD(member) GT_OPTION_FIELD(struct gt_agent_options, member)

/* "domain/name", as the kubelet takes extended resources. */
static int read_resource(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    if (!strchr(value, '/') || !gt_option_is_qualified_name(value))
        return gt_option_refuse(option, "domain/name", value, err);
    *(const char **)field = value;
    return 0;
}

static int read_resource_or_none(const struct gt_option *option, const char *value, void *field,
                                 struct gt_err **err)
{
    if (strcmp(value, "none") != 0)
        return read_resource(option, value, field, err);
    *(const char **)field = NULL;
    return 0;
}

static int read_fault_dir(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    if (!*value)
        return gt_option_refuse(option, "a directory or none", value, err);
    *(const char **)field = strcmp(value, "none") == 0 ? NULL : value;
    return 0;
}

static int read_fault_conditions(const struct gt_option *option, const char *value, void *field,
                                 struct gt_err **err)
{
    static const char *const hows[] = {"=report", "=isolate"};
    static const char own[] = GT_CONDITION_NODE_GPUS "=";
    unsigned count = 0;
    for (const char *at = value;; at++) {
        size_t len = strcspn(at, ","), name = strcspn(at, "=,");
        bool known = false;
        for (unsigned i = 0; i < GT_COUNT(hows); i++)
            known |= len - name == strlen(hows[i]) && strncmp(at + name, hows[i], len - name) == 0;
        if (++count > GT_FAULT_CONDITIONS_MAX || !known || !name || name >= GT_FAULT_CONDITION_SIZE ||
            strcspn(at, " \t") < name)
            return gt_option_refuse(option, "NAME=report or NAME=isolate, a list", value, err);
        if (strncmp(at, own, strlen(own)) == 0) /* it would follow from itself */
            return gt_option_refuse(option, "conditions that others set", value, err);
        at += len;
        if (!*at)
            break;
    }
    *(const char **)field = value;
    return 0;
}

static int check_node_name(const char *text, const char *where, struct gt_err **err)
{
    if (strlen(text) > 253 || !gt_option_is_name(text, strlen(text), "-._"))
        return gt_fail(err, EINVAL, "%s: \"%.80s\" is no name of a node", where, text);
    return 0;
}

static int read_node_name(const struct gt_option *option, const char *value, void *field, struct gt_err **err)
{
    (void)option;
    *(const char **)field = value;
    return check_node_name(value, "--node-name", err);
}

static const char *const strategies[] = {
    [GT_STRATEGY_DEVICES] = "devices", [GT_STRATEGY_CDI] = "cdi", [GT_STRATEGY_BOTH] = "both", NULL};
static const char *const advertise_words[] = {
    [GT_ADVERTISE_PLUGIN] = "plugin", [GT_ADVERTISE_DRA] = "dra", NULL};
static const char *const taint_words[] = {[GT_TAINT_NONE] = "none",
                                          [GT_TAINT_NO_SCHEDULE] = "NoSchedule",
                                          [GT_TAINT_NO_EXECUTE] = "NoExecute",
                                          NULL};
static const char *const publish_words[] = {
    [GT_PUBLISH_NOTHING] = "none", [GT_PUBLISH_NODE_ONLY] = "annotations", [GT_PUBLISH_ALL] = "all", NULL};

static const struct gt_option table[] = {
    {"from", "FILE", "read the node from a recording, an hwloc XML file or a recorded sysfs tree",
     gt_option_text, AGENT_FIELD(from)},
    {"root", "DIR", "where sys/, proc/ and opt/ are read (/)", gt_option_text, AGENT_FIELD(root)},
    {"dev-root", "DIR", "where the host's device nodes are taken from (/dev)", gt_option_text,
     AGENT_FIELD(dev_root)},
    {"kubelet-dir", "DIR", "the kubelet's directory, may appear later (/var/lib/kubelet)", gt_option_text,
     AGENT_FIELD(kubelet_dir)},
    {"kubelet-config", "FILE", "the kubelet's configuration, for its policies (config.yaml in its directory)",
     gt_option_text, AGENT_FIELD(kubelet_config)},
    {"kubelet-configz", NULL,
     "ask the kubelet for its configuration through the API server, before the file (off)", gt_option_set,
     AGENT_FIELD(kubelet_configz)},
    {"resource", "NAME", "the extended resource to advertise (metax-tech.com/gpu)", read_resource,
     AGENT_FIELD(resource)},
    {"advertise", "HOW",
     "offer the GPUs by plugin (the device plugin) or dra (Dynamic Resource Allocation) (plugin)",
     gt_option_word, AGENT_FIELD(advertise), .words = advertise_words},
    {"dra-taint", "EFFECT",
     "offer unhealthy GPUs with this taint, NoSchedule or NoExecute, or none of them; NoExecute evicts only "
     "pods that have claims of their own (none)",
     gt_option_word, AGENT_FIELD(taint), .words = taint_words},
    {"dra-composites", NULL, "with dra: offer pairs, link zones and the whole node, too (off)", gt_option_set,
     AGENT_FIELD(composites)},
    {"device-strategy", "HOW", "containers get GPUs as devices, cdi (names) or both (devices)",
     gt_option_word, AGENT_FIELD(strategy), .words = strategies},
    {"cdi-dir", "DIR", "where the CDI spec is written (/var/run/cdi)", gt_option_text, AGENT_FIELD(cdi_dir)},
    {"vendor", "ID", "PCI vendor of the GPUs, hexadecimal (9999, or the recording's)", gt_option_vendor,
     AGENT_FIELD(vendor)},
    {"node-name", "NAME", "the node's name ($NODE_NAME, else the host's name)", read_node_name,
     AGENT_FIELD(node_name)},
    {"probe", "WHAT", "gputopo-probe: a program, a socket or none (the program beside this one)",
     gt_option_text, AGENT_FIELD(probe)},
    {"probe-resource", "NAME", "a second resource, one on each node: the device nodes of all GPUs (none)",
     read_resource_or_none, AGENT_FIELD(probe_resource)},
    {"probe-patience", "SECONDS", "the first scan waits so long for the probe's socket (5)", gt_option_number,
     AGENT_FIELD(probe_patience_s), .max = PATIENCE_MAX},
    {"http", "ADDRESS:PORT", "health and metrics, or none (127.0.0.1:9400)", gt_http_option,
     AGENT_FIELD(http)},
    {"health", "ADDRESS:PORT", "health alone, where nothing else can fill the listener, or none (none)",
     gt_http_option, AGENT_FIELD(health)},
    {"rescan-interval", "SECONDS", "a whole scan at least this often, 0 never (300)", gt_option_number,
     AGENT_FIELD(rescan_s), .max = SECONDS_MAX},
    {"stale-links", "SECONDS",
     "direct links stay for so long while the vendor library is silent, 0: not (1800)", gt_option_number,
     AGENT_FIELD(stale_links_s), .max = SECONDS_MAX},
    {"health-interval", "SECONDS", "checks the health of the GPUs this often, 0 never (5)", gt_option_number,
     AGENT_FIELD(health_s), .max = SECONDS_MAX},
    {"fault-table", "FILE", "which signals make a GPU unhealthy, and when; YAML (built in)", gt_option_text,
     AGENT_FIELD(fault_table)},
    {"fault-dir", "DIR", "where other programs tell faults in files, or none (/run/gputopo/faults.d)",
     read_fault_dir, AGENT_FIELD(fault_dir)},
    {"measured-dir", "DIR",
     "where other programs tell measured bandwidths in files, or none (/run/gputopo/measured.d)",
     read_fault_dir, AGENT_FIELD(measured_dir)},
    {"fault-conditions", "NAME=HOW,...",
     "a condition of the Node that is True is told (report), or takes all its GPUs out of use (isolate) "
     "(none)",
     read_fault_conditions, AGENT_FIELD(fault_conditions)},
    {"admit-after-check", "NAME,...",
     "keep all GPUs out of use until these checks of gputopo check-node, or all, have held once since the "
     "boot "
     "(none)",
     gt_option_text, AGENT_FIELD(admit_after_check)},
    {"print-fault-table", NULL, "print the fault table in force and end", gt_option_set,
     AGENT_FIELD(print_fault_table)},
    {"log-level", "LEVEL", "error, warning, info or debug (info)", gt_option_word, AGENT_FIELD(log_level),
     .words = gt_option_log_levels},
    {"log-format", "FORMAT", "text or json (text)", gt_option_word, AGENT_FIELD(log_format),
     .words = gt_option_log_formats},
    {"no-device-plugin", NULL, "advertise no GPUs to the kubelet", gt_option_clear,
     AGENT_FIELD(device_plugin)},
    {"honour-plan", "=false", "do not give containers the GPUs that were planned for them", gt_option_bool,
     AGENT_FIELD(honour_plan)},
    {"kubeconfig", "FILE", "publish to this API server (the pod's, where this is a pod)", gt_option_text,
     AGENT_FIELD(kubeconfig)},
    {"heartbeat", "SECONDS", "publish again at least this often, plus or minus a fifth (300)",
     gt_option_number, AGENT_FIELD(heartbeat_s), .min = 1, .max = SECONDS_MAX},
    {"publish", "WHAT", "all, annotations (and labels of the Node alone) or none (all)", gt_option_word,
     AGENT_FIELD(publish), .words = publish_words},
    {"no-publish", NULL, "the same as --publish=none", gt_option_clear, AGENT_FIELD(publish)},
    {"oneshot", NULL, "scan once, print the node as JSON and end", gt_option_set, AGENT_FIELD(oneshot)},
    {"help", NULL, "print this", gt_option_last, AGENT_FIELD(help)},
    {"version", NULL, "print the version", gt_option_last, AGENT_FIELD(version)},
};

const struct gt_command gt_agent_command = {
    .name = GT_AGENT_NAME,
    .about =
        "The node's daemon of gputopo: discovers the wiring of the GPUs and advertises them to the kubelet.",
    .more = "SIGHUP scans again (and reads both FILEs again), SIGTERM and SIGINT end the agent.\n"
            "Exit code: 0 done, 1 failed, 2 wrong usage.\n"
            "Example: " GT_AGENT_NAME " --oneshot",
    .options = table,
    .count = GT_COUNT(table),
};

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
        .fault_dir = "/run/gputopo/faults.d",
        .measured_dir = "/run/gputopo/measured.d",
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
    GT_TRY(gt_options_read(&gt_agent_command, argc, argv, &options, NULL, err));
    if (options.probe_resource && strcmp(options.probe_resource, options.resource) == 0)
        return gt_fail(err, EINVAL, "--probe-resource: %s is the resource of the GPUs", options.resource);
    if (options.advertise == GT_ADVERTISE_DRA &&
        (!options.device_plugin || options.publish == GT_PUBLISH_NOTHING))
        return gt_fail(err, EINVAL,
                       "--advertise=dra: it publishes what it offers, so that it does not go with %s",
                       options.device_plugin ? "--publish=none" : "--no-device-plugin");
    if (options.strategy != GT_STRATEGY_DEVICES || options.advertise == GT_ADVERTISE_DRA) {
        const struct gt_cdi_options cdi = {options.cdi_dir, options.resource, options.dev_root};
        if (gt_cdi_check(&cdi, err) < 0)
            return gt_wrap(err, options.advertise == GT_ADVERTISE_DRA ? "--advertise" : "--device-strategy");
    }
    GT_TRY(default_node_name(environment_node, &options, err));
    *ret = options;
    if (!ret->node_name)
        ret->node_name = ret->host_name;
    snprintf(ret->config_path, sizeof(ret->config_path), "%.240s/config.yaml", ret->kubelet_dir);
    if (!ret->kubelet_config)
        ret->kubelet_config = ret->config_path;
    return 0;
}
