/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>

#include "base/text.h"
#include "cli/cli.h"

enum { VENDOR_METAX = 0x9999 }; /* what a scan looks for where no vendor is given */

static bool parse_vendor(const char *text, unsigned *ret)
{
    if (strncmp(text, "0x", 2) == 0 || strncmp(text, "0X", 2) == 0)
        text += 2;
    size_t len = strlen(text);
    if (len < 1 || len > 4 || strspn(text, "0123456789abcdefABCDEF") != len)
        return false;
    unsigned long value = strtoul(text, NULL, 16);
    if (value == 0 || value == 0xffff) /* neither is an id; the bus reads ffff where nothing is */
        return false;
    *ret = (unsigned)value;
    return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
    struct cli_source *source = state->input;
    switch (key) {
    case CLI_KEY_FROM:
        source->from = arg;
        return 0;
    case CLI_KEY_ROOT:
        source->root = arg;
        return 0;
    case CLI_KEY_PROBE:
        source->probe = arg;
        return 0;
    case CLI_KEY_VENDOR:
        if (parse_vendor(arg, &source->vendor))
            return 0;
        cli_usage(source->verb, "--vendor: expected a PCI vendor id such as 9999 or 0x10de, is '%.100s'",
                  arg);
        return EINVAL;
    default:
        return ARGP_ERR_UNKNOWN;
    }
}

static const struct argp_option live_options[] = {
    {.name = "root", .key = CLI_KEY_ROOT, .arg = "DIR", .doc = "read sys/, proc/ and opt/ below DIR"},
    {.name = "vendor",
     .key = CLI_KEY_VENDOR,
     .arg = "ID",
     .doc = "PCI vendor id of the GPUs, hexadecimal (default: 9999, MetaX, or that of the recording)"},
    {.name = "probe",
     .key = CLI_KEY_PROBE,
     .arg = "PROGRAM|SOCKET|none",
     .doc =
         "how the vendor library is asked (default: the gputopo-probe beside this program, if it is there)"},
    {0},
};
static const struct argp_option from_options[] = {
    {.name = "from",
     .key = CLI_KEY_FROM,
     .arg = "FILE",
     .doc = "read FILE instead of this machine: a recording, the JSON of a node, an hwloc XML file, or a "
            "directory with a recorded sysfs tree"},
    {0},
};

const struct argp cli_live_source_argp = {.options = live_options, .parser = parse};
static const struct argp_child live_child[] = {{.argp = &cli_live_source_argp}, {0}};

static error_t pass_on(int key, char *arg, struct argp_state *state)
{
    if (key == ARGP_KEY_INIT)
        state->child_inputs[0] = state->input;
    return parse(key, arg, state);
}

const struct argp cli_source_argp = {.options = from_options, .parser = pass_on, .children = live_child};

bool cli_source_check(const struct cli_source *source)
{
    const char *other = source->root                                          ? "--root"
                        : source->probe && strcmp(source->probe, "none") != 0 ? "--probe"
                                                                              : NULL;
    if (source->from && other) {
        cli_usage(source->verb, "%s: not together with --from", other);
        return false;
    }
    return true;
}

/* gputopo-probe beside this program; false where there is none. */
static bool own_probe(char to[static PATH_MAX])
{
    static const char name[] = "gputopo-probe";
    ssize_t n = readlink("/proc/self/exe", to, PATH_MAX - sizeof(name));
    if (n <= 0)
        return false;
    to[n] = '\0';
    char *slash = strrchr(to, '/');
    if (!slash)
        return false;
    memcpy(slash + 1, name, sizeof(name));
    return access(to, X_OK) == 0;
}

static int open_probe(const struct cli_source *source, struct gt_probe_client **ret, struct gt_err **err)
{
    char path[PATH_MAX];
    const char *probe = source->probe;
    if (source->from || (probe && strcmp(probe, "none") == 0))
        return 0;
    if (!probe) {
        if (!own_probe(path))
            return 0;
        probe = path;
    }
    struct stat st;
    if (stat(probe, &st) < 0)
        return gt_fail_sys(err, errno, "--probe: %s", probe);
    if (S_ISSOCK(st.st_mode))
        return gt_probe_client_new(probe, ret, err);
    if (!S_ISREG(st.st_mode))
        return gt_fail(err, EINVAL, "--probe: %s: neither a program nor a socket", probe);
    if (access(probe, X_OK) < 0)
        return gt_fail_sys(err, errno, "--probe: %s", probe);
    return gt_probe_client_spawn(probe, source->root ? source->root : "/", true, ret, err);
}

/* The name of this machine as Kubernetes knows it, where this machine is what is scanned. */
static const char *own_name(const struct cli_source *source, struct utsname *uts)
{
    if (source->from || source->root)
        return NULL;
    const char *name = getenv("NODE_NAME");
    if (name && *name)
        return name;
    return uname(uts) == 0 ? uts->nodename : NULL;
}

int cli_source_scan(const struct cli_source *source, struct gt_node **ret, struct gt_raw *ret_raw,
                    struct gt_err **err)
{
    struct stat st;
    if (source->root && stat(source->root, &st) < 0)
        return gt_fail_sys(err, errno, "--root: %s", source->root);
    if (source->root && !S_ISDIR(st.st_mode))
        return gt_fail_sys(err, ENOTDIR, "--root: %s", source->root);

    gt_auto_probe_client struct gt_probe_client *probe = NULL;
    int r = open_probe(source, &probe, err);
    if (r < 0)
        return r;
    struct utsname uts;
    const char *why =
        source->probe ? "--probe none was given" : "there is no gputopo-probe beside this program";
    struct gt_scan_options options = {
        .root = source->root,
        .from = source->from,
        .vendor = source->vendor,
        .node_name = own_name(source, &uts),
        .probe = probe,
        .no_probe_why = source->from || probe ? NULL : why,
        .dev_root = source->from || source->root ? NULL : "/dev",
    };
    return gt_scan(&options, ret, ret_raw, err);
}

int cli_source_no_gpus(const struct cli_source *source, const struct gt_node *node, struct gt_err **err)
{
    char whose[32] = ""; /* a recording knows best itself which vendor it was made for */
    if (source->vendor || !source->from)
        snprintf(whose, sizeof(whose), " of PCI vendor %04x", source->vendor ? source->vendor : VENDOR_METAX);
    const char *place = source->from ? "in " : source->root ? "below " : "on this machine";
    const char *path = source->from ? source->from : source->root ? source->root : "";
    if (!node->missing_count)
        return gt_fail(err, ENODEV, "no GPUs%s %s%s", whose, place, path);
    return gt_fail(err, ENODEV, "no GPUs%s %s%s (%s: %s%s)", whose, place, path, node->missing[0].what,
                   node->missing[0].why, node->missing_count > 1 ? "; show -o json lists more" : "");
}
