/* SPDX-License-Identifier: Apache-2.0 */
#include "agent/options.h"

#include <errno.h>
#include <getopt.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"
#include "http/http.h"

enum { SECONDS_MAX = 86400, SCANS_MAX = 100, RESOURCE_MAX = 253 + 1 + 63 };

enum option_key {
    OPTION_FROM = 256,
    OPTION_ROOT,
    OPTION_DEV_ROOT,
    OPTION_KUBELET_DIR,
    OPTION_RESOURCE,
    OPTION_VENDOR,
    OPTION_NODE_NAME,
    OPTION_PROBE,
    OPTION_HTTP,
    OPTION_RESCAN,
    OPTION_HEALTH,
    OPTION_UNHEALTHY_AFTER,
    OPTION_HEALTHY_AFTER,
    OPTION_LOG_LEVEL,
    OPTION_LOG_FORMAT,
    OPTION_NO_DEVICE_PLUGIN,
    OPTION_KUBECONFIG,
    OPTION_HEARTBEAT,
    OPTION_NO_PUBLISH,
    OPTION_ONESHOT,
    OPTION_HELP,
    OPTION_VERSION,
};

/* One table for the parser and for --help. */
static const struct {
    const char *name, *value, *help;
    enum option_key key;
} table[] = {
    {"from", "FILE", "read the node from a recording, an hwloc XML file or a recorded sysfs tree",
     OPTION_FROM},
    {"root", "DIR", "where sys/, proc/ and opt/ are read (/)", OPTION_ROOT},
    {"dev-root", "DIR", "where the host's device nodes are taken from (/dev)", OPTION_DEV_ROOT},
    {"kubelet-dir", "DIR", "the kubelet's directory, may appear later (/var/lib/kubelet)",
     OPTION_KUBELET_DIR},
    {"resource", "NAME", "the extended resource to advertise (metax-tech.com/gpu)", OPTION_RESOURCE},
    {"vendor", "ID", "PCI vendor of the GPUs, hexadecimal (9999, or the recording's)", OPTION_VENDOR},
    {"node-name", "NAME", "the node's name ($NODE_NAME, else the host's name)", OPTION_NODE_NAME},
    {"probe", "WHAT", "gputopo-probe: a program, a socket or none (the program beside this one)",
     OPTION_PROBE},
    {"http", "ADDRESS:PORT", "health and metrics, or none (127.0.0.1:9400)", OPTION_HTTP},
    {"rescan-interval", "SECONDS", "a whole scan at least this often, 0 never (300)", OPTION_RESCAN},
    {"health-interval", "SECONDS", "asks the vendor library this often, 0 never (30)", OPTION_HEALTH},
    {"unhealthy-after", "N", "scans in a row until a GPU counts as unhealthy (1)", OPTION_UNHEALTHY_AFTER},
    {"healthy-after", "N", "scans in a row until it counts as healthy again (3)", OPTION_HEALTHY_AFTER},
    {"log-level", "LEVEL", "error, warning, info or debug (info)", OPTION_LOG_LEVEL},
    {"log-format", "FORMAT", "text or json (text)", OPTION_LOG_FORMAT},
    {"no-device-plugin", NULL, "advertise nothing to the kubelet", OPTION_NO_DEVICE_PLUGIN},
    {"kubeconfig", "FILE", "publish to this API server (the pod's, where this is a pod)", OPTION_KUBECONFIG},
    {"heartbeat", "SECONDS", "publish again at least this often, plus or minus a fifth (300)",
     OPTION_HEARTBEAT},
    {"no-publish", NULL, "publish nothing to the API server", OPTION_NO_PUBLISH},
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
    for (size_t i = 0; i < GT_COUNT(table); i++) {
        char left[48];
        snprintf(left, sizeof(left), "--%s%s%s", table[i].name, table[i].value ? " " : "",
                 table[i].value ? table[i].value : "");
        gt_buf_printf(to, "  %-27s %s\n", left, table[i].help);
    }
    gt_buf_puts(to, "\nSIGHUP scans again (and reads FILE again), SIGTERM and SIGINT end the agent.\n"
                    "Exit code: 0 done, 1 failed, 2 wrong usage.\n");
}

static int read_number(const char *name, const char *text, unsigned min, unsigned max, unsigned *ret,
                       struct gt_err **err)
{
    uint64_t value;
    if (!gt_text_to_unsigned(text, max, &value) || value < min)
        return gt_fail(err, EINVAL, "--%s: \"%.40s\" is not a number from %u to %u", name, text, min, max);
    *ret = (unsigned)value;
    return 0;
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

static int read_word(const char *name, const char *text, const char *const *words, unsigned count,
                     const char *expected, unsigned *ret, struct gt_err **err)
{
    for (unsigned i = 0; i < count; i++)
        if (strcmp(text, words[i]) == 0) {
            *ret = i;
            return 0;
        }
    return gt_fail(err, EINVAL, "--%s: \"%.40s\" is not one of %s", name, text, expected);
}

static bool all_of(const char *text, size_t len, const char *more)
{
    for (size_t i = 0; i < len; i++) {
        bool letter = (text[i] >= 'a' && text[i] <= 'z') || (text[i] >= 'A' && text[i] <= 'Z');
        if (!letter && !(text[i] >= '0' && text[i] <= '9') && !strchr(more, text[i]))
            return false;
    }
    return len > 0;
}

/* "domain/name", as the kubelet takes extended resources. */
static int check_resource(const char *text, struct gt_err **err)
{
    const char *slash = strchr(text, '/');
    size_t name_len = slash ? strlen(slash + 1) : 0;
    if (!slash || strlen(text) > RESOURCE_MAX || name_len > 63 ||
        !all_of(text, (size_t)(slash - text), "-.") || !all_of(slash + 1, name_len, "-._"))
        return gt_fail(err, EINVAL, "--resource: \"%.80s\" is not of the form domain/name", text);
    return 0;
}

static int check_node_name(const char *text, const char *where, struct gt_err **err)
{
    if (strlen(text) > 253 || !all_of(text, strlen(text), "-._"))
        return gt_fail(err, EINVAL, "%s: \"%.80s\" is no name of a node", where, text);
    return 0;
}

static int read_text(const char *name, const char *text, const char **ret, struct gt_err **err)
{
    if (!*text)
        return gt_fail(err, EINVAL, "--%s: is empty", name);
    if (strlen(text) >= 4096)
        return gt_fail(err, EINVAL, "--%s: is longer than a path may be", name);
    *ret = text;
    return 0;
}

static int read_option(enum option_key key, const char *name, const char *value, struct gt_agent_options *to,
                       struct gt_err **err)
{
    static const char *const levels[] = {"error", "warning", "info", "debug"};
    static const char *const formats[] = {"text", "json"};
    unsigned word = 0;
    int r = 0;
    switch (key) {
    case OPTION_FROM:
        return read_text(name, value, &to->from, err);
    case OPTION_ROOT:
        return read_text(name, value, &to->root, err);
    case OPTION_DEV_ROOT:
        return read_text(name, value, &to->dev_root, err);
    case OPTION_KUBELET_DIR:
        return read_text(name, value, &to->kubelet_dir, err);
    case OPTION_RESOURCE:
        to->resource = value;
        return check_resource(value, err);
    case OPTION_VENDOR:
        return read_vendor(value, &to->vendor, err);
    case OPTION_NODE_NAME:
        to->node_name = value;
        return check_node_name(value, "--node-name", err);
    case OPTION_PROBE:
        return read_text(name, value, &to->probe, err);
    case OPTION_HTTP:
        to->http = *value && strcmp(value, "none") != 0 ? value : NULL;
        if (to->http && gt_http_check_address(value, err) < 0)
            return gt_wrap(err, "--http");
        return 0;
    case OPTION_RESCAN:
        return read_number(name, value, 0, SECONDS_MAX, &to->rescan_s, err);
    case OPTION_HEALTH:
        return read_number(name, value, 0, SECONDS_MAX, &to->health_s, err);
    case OPTION_UNHEALTHY_AFTER:
        return read_number(name, value, 1, SCANS_MAX, &to->unhealthy_after, err);
    case OPTION_HEALTHY_AFTER:
        return read_number(name, value, 1, SCANS_MAX, &to->healthy_after, err);
    case OPTION_LOG_LEVEL:
        r = read_word(name, value, levels, GT_COUNT(levels), "error, warning, info, debug", &word, err);
        to->log_level = (enum gt_log_level)word;
        return r;
    case OPTION_LOG_FORMAT:
        r = read_word(name, value, formats, GT_COUNT(formats), "text, json", &word, err);
        to->log_format = (enum gt_log_format)word;
        return r;
    case OPTION_NO_DEVICE_PLUGIN:
        to->device_plugin = false;
        return 0;
    case OPTION_KUBECONFIG:
        return read_text(name, value, &to->kubeconfig, err);
    case OPTION_HEARTBEAT:
        return read_number(name, value, 1, SECONDS_MAX, &to->heartbeat_s, err);
    case OPTION_NO_PUBLISH:
        to->publish = false;
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
    return 0; /* node_name is set by the caller: host_name moves with the struct */
}

int gt_agent_options_read(int argc, char **argv, const char *environment_node, struct gt_agent_options *ret,
                          struct gt_err **err)
{
    struct gt_agent_options options = {
        .dev_root = "/dev",
        .kubelet_dir = "/var/lib/kubelet",
        .resource = "metax-tech.com/gpu",
        .http = "127.0.0.1:9400",
        .rescan_s = 300,
        .health_s = 30,
        .heartbeat_s = 300,
        .unhealthy_after = 1,
        .healthy_after = 3,
        .log_level = GT_LOG_INFO,
        .log_format = GT_LOG_TEXT,
        .device_plugin = true,
        .publish = true,
    };
    struct option longs[GT_COUNT(table) + 1] = {0};
    for (size_t i = 0; i < GT_COUNT(table); i++)
        longs[i] = (struct option){table[i].name, table[i].value ? required_argument : no_argument, NULL,
                                   (int)table[i].key};
    optind = 0; /* glibc: start afresh */
    for (;;) {
        int position = optind ? optind : 1, index = -1, r;
        int key = getopt_long(argc, argv, ":", longs, &index);
        if (key == -1)
            break;
        if (key == ':')
            return gt_fail(err, EINVAL, "option \"%.80s\" needs a value", argv[position]);
        if (key == '?' && optopt >= 256)
            return gt_fail(err, EINVAL, "option \"%.80s\" takes no value", argv[position]);
        if (key == '?')
            return gt_fail(err, EINVAL, "unknown or ambiguous option \"%.80s\", see --help", argv[position]);
        r = read_option((enum option_key)key, longs[index].name, optarg ? optarg : "", &options, err);
        if (r < 0)
            return r;
    }
    if (optind < argc)
        return gt_fail(err, EINVAL, "\"%.80s\": only options are taken, see --help", argv[optind]);
    int r = default_node_name(environment_node, &options, err);
    if (r < 0)
        return r;
    *ret = options;
    if (!ret->node_name)
        ret->node_name = ret->host_name;
    return 0;
}
